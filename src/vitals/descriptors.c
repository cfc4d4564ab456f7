/* Open descriptors of a process by kind, and the states of its connections.
 *
 * A connection is the process's own when its inode is that of one of its descriptors. One in TIME_WAIT belongs to no
 * process any more: those of the whole network namespace are counted. */

#include "base/fd.h"
#include "base/map.h"
#include "base/str.h"
#include "vitals/internal.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FDS_MAX 200000
#define TCP_BYTES_MAX ((size_t)32 << 20)

enum { TCP_ESTABLISHED_STATE = 1, TCP_TIME_WAIT_STATE = 6, TCP_CLOSE_WAIT_STATE = 8, TCP_LISTEN_STATE = 10 };

struct descriptors {
	uint64_t n, sockets, pipes, files, inotify;
	uint64_t established, close_wait, time_wait, backlog;
	bool cut;
	struct map_u64 inodes; /* of its sockets */
};

static void count_one(struct descriptors *d, const char *link)
{
	uint64_t inode;
	d->n++;
	if (!strncmp(link, "socket:[", 8)) {
		d->sockets++;
		inode = strtoull(link + 8, NULL, 10);
		*map_u64_put(&d->inodes, inode, NULL) = 1;
	} else if (!strncmp(link, "pipe:", 5)) {
		d->pipes++;
	} else if (str_eq(link, "anon_inode:inotify")) {
		d->inotify++;
	} else if (*link == '/') {
		d->files++;
	}
}

static bool count_all(struct descriptors *d, const char *proc, pid_t pid)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/fd", proc, (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return false;
	for (const struct dirent *e; (e = readdir(dir)) && !d->cut;) {
		char link[64];
		ssize_t n = e->d_name[0] == '.' ? -1 : readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = '\0';
		count_one(d, link);
		d->cut = d->n == FDS_MAX;
	}
	closedir(dir);
	return true;
}

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 12345 ..." */
static void count_line(struct descriptors *d, const char *line)
{
	unsigned state;
	unsigned long receive;
	unsigned long long inode;
	if (sscanf(line, "%*s %*s %*s %x %*x:%lx %*s %*s %*s %*s %llu", &state, &receive, &inode) != 3)
		return;
	d->time_wait += state == TCP_TIME_WAIT_STATE;
	if (!map_u64_get(&d->inodes, inode))
		return;
	d->established += state == TCP_ESTABLISHED_STATE;
	d->close_wait += state == TCP_CLOSE_WAIT_STATE;
	d->backlog += state == TCP_LISTEN_STATE ? receive : 0;
}

static bool count_connections(struct descriptors *d, const char *proc, pid_t pid, const char *file)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%d/net/%s", proc, (int)pid, file);
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(err_freep) struct err *err = file_read(path, TCP_BYTES_MAX, &text);
	if (err)
		return false;
	for (const char *p = buf_cstr(&text); *p; p += strcspn(p, "\n"), p += *p == '\n')
		count_line(d, p);
	return true;
}

/* "Max open files            1024                 1048576              files" */
static void add_limit(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	static const char key[] = "Max open files";
	CLEANUP(buf_free) struct buf text = { 0 };
	unsigned long long soft;
	const char *line = file_text(&text, "%s/%d/limits", proc, (int)pid) ? strstr(buf_cstr(&text), key) : NULL;
	if (line && sscanf(line + strlen(key), "%llu", &soft) == 1)
		vitals_add(v, VITALS_FDS_LIMIT, at_ns, (double)soft);
	else
		vitals_lack(v, VITALS_FDS_LIMIT, "its limits cannot be read, or it has none");
	buf_clear(&text);
	if (file_text(&text, "%s/sys/fs/inotify/max_user_instances", proc))
		vitals_add(v, VITALS_INOTIFY_LIMIT, at_ns, strtod(buf_cstr(&text), NULL));
}

static void add_connections(struct descriptors *d, const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	bool old = count_connections(d, proc, pid, "tcp"), new = count_connections(d, proc, pid, "tcp6");
	if (!old && !new) {
		for (enum vital_id id = VITALS_SOCKETS_ESTABLISHED; id <= VITALS_SOCKETS_BACKLOG; id++)
			vitals_lack(v, id, "its connections cannot be read");
		return;
	}
	vitals_add(v, VITALS_SOCKETS_ESTABLISHED, at_ns, (double)d->established);
	vitals_add(v, VITALS_SOCKETS_CLOSE_WAIT, at_ns, (double)d->close_wait);
	vitals_add(v, VITALS_SOCKETS_TIME_WAIT, at_ns, (double)d->time_wait);
	vitals_add(v, VITALS_SOCKETS_BACKLOG, at_ns, (double)d->backlog);
}

void descriptor_signs(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	struct descriptors d = { 0 };
	add_limit(proc, pid, at_ns, v);
	if (!count_all(&d, proc, pid)) {
		for (enum vital_id id = VITALS_FDS; id <= VITALS_SOCKETS_BACKLOG; id++)
			vitals_lack(v, id, "its descriptors are hidden from this user");
		return;
	}
	vitals_add(v, VITALS_FDS, at_ns, (double)d.n);
	vitals_add(v, VITALS_FDS_SOCKETS, at_ns, (double)d.sockets);
	vitals_add(v, VITALS_FDS_PIPES, at_ns, (double)d.pipes);
	vitals_add(v, VITALS_FDS_FILES, at_ns, (double)d.files);
	vitals_add(v, VITALS_FDS_INOTIFY, at_ns, (double)d.inotify);
	add_connections(&d, proc, pid, at_ns, v);
	map_u64_free(&d.inodes);
}
