#include "target/cgroup.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)

struct hierarchy {
	const char *controller; /* NULL = v2 */
	char *path;		/* of the process, in it; NULL = it is in none */
	char *root, *mount;	/* what of the hierarchy is mounted where */
};

static bool list_has(const char *list, size_t len, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = list, *end = list + len; p < end;) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t part = (size_t)((comma ? comma : end) - p);
		if (part == n && !memcmp(p, word, n))
			return true;
		p += part + 1;
	}
	return false;
}

/* "4:memory:/a/b" or "0::/a/b" */
static void find_path(struct hierarchy *h, const char *text)
{
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		const char *list = memchr(p, ':', (size_t)(end - p));
		const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
		if (!path)
			continue;
		size_t len = (size_t)(path - list - 1);
		if (h->controller ? list_has(list + 1, len, h->controller) : len == 0) {
			h->path = mem_strndup(path + 1, (size_t)(end - path - 1));
			return;
		}
	}
}

/* "36 35 98:0 /root /mount options - fstype source superoptions" */
static void find_mount(struct hierarchy *h, const char *text)
{
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		char root[1024], mount[1024], type[32], super[1024];
		CLEANUP(mem_freep) char *line = mem_strndup(p, (size_t)(end - p));
		const char *dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*s %*s %*s %1023s %1023s", root, mount) != 2 ||
		    sscanf(dash, " - %31s %*s %1023s", type, super) != 2)
			continue;
		bool fits = h->controller ? str_eq(type, "cgroup") && list_has(super, strlen(super), h->controller)
					  : str_eq(type, "cgroup2");
		if (!fits)
			continue;
		h->root = mem_strdup(root);
		h->mount = mem_strdup(mount);
		return;
	}
}

static void hierarchy_fini(struct hierarchy *h)
{
	mem_free(h->path);
	mem_free(h->root);
	mem_free(h->mount);
}

static bool is_folder(const char *path)
{
	struct stat st;
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Its folder as we see it; NULL when it lies outside of what we see. */
static char *folder_of(const struct hierarchy *h)
{
	if (!h->path || !h->mount || strstr(h->path, "/.."))
		return NULL;
	const char *below = h->path;
	if (!str_eq(h->root, "/")) {
		size_t n = strlen(h->root);
		if (!str_starts(h->path, h->root) || (h->path[n] && h->path[n] != '/'))
			return NULL;
		below += n;
	}
	char *folder = mem_printf("%s%s", h->mount, str_eq(below, "/") ? "" : below);
	if (is_folder(folder))
		return folder;
	mem_free(folder);
	return NULL;
}

static void add_levels(struct cgroup *g, const char *folder, const char *mount, bool v2)
{
	CLEANUP(mem_freep) char *at = mem_strdup(folder);
	size_t top = strlen(mount);
	for (;;) {
		g->levels = mem_realloc_array(g->levels, g->n + 1, sizeof(*g->levels));
		g->levels[g->n++] = (struct cgroup_level){ .folder = mem_strdup(at),
							   .path = mem_strdup(at[top] ? at + top : "/"),
							   .v2 = v2 };
		char *slash = strrchr(at, '/');
		if (strlen(at) <= top || !slash)
			return;
		*slash = '\0';
	}
}

/* A container's own mount shows its own group, also when ours does not. */
static bool add_from_inside(struct cgroup *g, const char *proc, pid_t pid, const char *controller, const char *known)
{
	CLEANUP(mem_freep)
	char *folder = mem_printf("%s/%d/root/sys/fs/cgroup%s%s", proc, (int)pid, controller ? "/" : "",
				  controller ? controller : "");
	CLEANUP(mem_freep) char *file = mem_printf("%s/%s", folder, known);
	if (access(file, F_OK) < 0)
		return false;
	add_levels(g, folder, folder, !controller);
	return true;
}

void cgroup_add(struct cgroup *g, const char *proc, pid_t pid, const char *controller, const char *known)
{
	CLEANUP(buf_free) struct buf groups = { 0 }, mounts = { 0 };
	CLEANUP(hierarchy_fini) struct hierarchy h = { .controller = controller };
	if (!file_text(&groups, "%s/%d/cgroup", proc, (int)pid) || !file_text(&mounts, "%s/self/mountinfo", proc))
		return;
	find_path(&h, buf_cstr(&groups));
	find_mount(&h, buf_cstr(&mounts));
	CLEANUP(mem_freep) char *folder = folder_of(&h);
	if (folder)
		add_levels(g, folder, h.mount, !controller);
	else if (h.path && !add_from_inside(g, proc, pid, controller, known) && !str_eq(h.path, "/"))
		g->hidden = true;
}

void cgroup_fini(struct cgroup *g)
{
	for (size_t i = 0; i < g->n; i++)
		mem_free(g->levels[i].folder), mem_free(g->levels[i].path);
	mem_free(g->levels);
	*g = (struct cgroup){ 0 };
}

bool cgroup_read(const struct cgroup_level *l, const char *file, struct buf *ret)
{
	/* The folder may be that of a container, whose content is not trusted. */
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", l->folder, file);
	CLOSE_FD int fd = file_open_regular(path, O_RDONLY);
	struct err *err = fd < 0 ? err_errno(errno, "'%s'", path) : NULL;
	buf_clear(ret);
	if (!err)
		err = file_read_fd(fd, path, FILE_BYTES_MAX, ret);
	bool ok = !err;
	err_free(err);
	return ok;
}

uint64_t cgroup_number(const struct cgroup_level *l, const char *file, uint64_t otherwise)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!cgroup_read(l, file, &text) || !text.len || text.data[0] < '0' || text.data[0] > '9')
		return otherwise;
	return strtoull(text.data, NULL, 10);
}

uint64_t cgroup_stat(const struct cgroup_level *l, const char *file, const char *key)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (!cgroup_read(l, file, &text))
		return 0;
	size_t n = strlen(key);
	for (const char *p = buf_cstr(&text); *p; p += strcspn(p, "\n"), p += *p == '\n') {
		if (!strncmp(p, key, n) && p[n] == ' ')
			return strtoull(p + n, NULL, 10);
	}
	return 0;
}
