#include "target/descriptors.h"
#include "base/fd.h"
#include "base/str.h"
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FDS_MAX 200000

const char *descriptor_kind_name(enum descriptor_kind kind)
{
	static const char *const names[DESCRIPTOR_KINDS] = {
		"files",	 "assemblies, libraries, memory", "devices", "sockets", "pipes", "epoll",
		"event signals", "file watchers (inotify)",	  "timers",  "others",
	};
	return names[kind];
}

static bool is_of_program(const char *link)
{
	static const char *const ends[] = { ".dll", ".exe", ".so", ".r2rmap" };
	static const char *const starts[] = { "/memfd:", "/proc/", "/sys/" };
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (str_ends(link, ends[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (str_starts(link, starts[i]))
			return true;
	return strstr(link, ".so.") != NULL;
}

enum descriptor_kind descriptor_kind_of(const char *link)
{
	static const struct {
		const char *start;
		enum descriptor_kind kind;
	} others[] = {
		{ "socket:[", DESCRIPTOR_SOCKET },
		{ "pipe:[", DESCRIPTOR_PIPE },
		{ "anon_inode:[eventpoll]", DESCRIPTOR_EPOLL },
		{ "anon_inode:[eventfd", DESCRIPTOR_EVENT },
		{ "anon_inode:inotify", DESCRIPTOR_INOTIFY },
		{ "anon_inode:[timerfd]", DESCRIPTOR_TIMER },
		{ "/dev/", DESCRIPTOR_DEVICE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (str_starts(link, others[i].start))
			return others[i].kind;
	if (*link != '/')
		return DESCRIPTOR_OTHER;
	return is_of_program(link) ? DESCRIPTOR_PROGRAM : DESCRIPTOR_FILE;
}

/* ---- one process ---- */

/* Calls each() with what every descriptor is a link to, until it returns false. False when they are hidden. */
static bool each_link(const char *path, bool (*each)(void *user, const char *link), void *user)
{
	char link[PATH_MAX];
	DIR *dir = opendir(path);
	if (!dir)
		return false;
	bool more = true;
	for (const struct dirent *e; more && (e = readdir(dir));) {
		ssize_t n = e->d_name[0] == '.' ? -1 : readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = '\0';
		more = each(user, link);
	}
	closedir(dir);
	return true;
}

static void add_file(struct descriptors *d, const char *path)
{
	size_t len = (size_t)(strrchr(path, '/') - path) + 1;
	uint32_t id = strtab_find(&d->names, path, len);
	const uint64_t *known = id == STRTAB_NONE ? NULL : map_u64_get(&d->folder_of, id);
	if (known) {
		struct descriptor_folder *f = &d->folders.v[*known];
		f->n++;
		f->several |= !str_eq(strtab_get(&d->names, f->example), path);
	} else if (d->folders.n == DESCRIPTOR_FOLDERS_MAX) {
		d->unlisted++;
	} else {
		struct descriptor_folder f = { .folder = strtab_add(&d->names, path, len),
					       .example = strtab_add_cstr(&d->names, path),
					       .n = 1 };
		*map_u64_put(&d->folder_of, f.folder, NULL) = d->folders.n;
		vec_push(&d->folders, f);
	}
}

static bool take_link(void *user, const char *link)
{
	struct descriptors *d = user;
	enum descriptor_kind kind = descriptor_kind_of(link);
	if (d->n == FDS_MAX) {
		d->cut = true;
		return false;
	}
	d->n++;
	d->of[kind]++;
	if (kind == DESCRIPTOR_SOCKET)
		*map_u64_put(&d->sockets, strtoull(link + strlen("socket:["), NULL, 10), NULL) = 1;
	else if (kind == DESCRIPTOR_FILE)
		add_file(d, link);
	return true;
}

bool descriptors_read(const char *proc, pid_t pid, struct descriptors *ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/fd", proc, (int)pid);
	*ret = (struct descriptors){ 0 };
	return each_link(path, take_link, ret);
}

void descriptors_fini(struct descriptors *d)
{
	map_u64_free(&d->sockets);
	map_u64_free(&d->folder_of);
	strtab_free(&d->names);
	vec_free(&d->folders);
	*d = (struct descriptors){ 0 };
}

uint64_t descriptors_count(const char *proc, pid_t pid)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/fd", proc, (int)pid);
	DIR *dir = opendir(path);
	uint64_t n = 0;
	if (!dir)
		return UINT64_MAX;
	for (const struct dirent *e; n < FDS_MAX && (e = readdir(dir));)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* ---- all of a user ---- */

struct inotify_count {
	uint64_t links, n;
};

static bool count_inotify(void *user, const char *link)
{
	struct inotify_count *c = user;
	c->n += descriptor_kind_of(link) == DESCRIPTOR_INOTIFY;
	return ++c->links < FDS_MAX;
}

bool descriptors_inotify_of_user(const char *proc, uid_t uid, uint64_t *ret)
{
	struct inotify_count c = { 0 };
	bool whole = true;
	DIR *dir = opendir(proc);
	if (!dir)
		return false;
	for (const struct dirent *e; (e = readdir(dir)) && c.links < FDS_MAX;) {
		struct stat st;
		if (e->d_name[0] < '0' || e->d_name[0] > '9' || fstatat(dirfd(dir), e->d_name, &st, 0) < 0 ||
		    st.st_uid != uid)
			continue;
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s/fd", proc, e->d_name);
		whole &= each_link(path, count_inotify, &c) || access(path, F_OK) < 0;
	}
	closedir(dir);
	*ret = c.n;
	return whole && c.links < FDS_MAX;
}
