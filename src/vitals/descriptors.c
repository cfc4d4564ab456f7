/* Open descriptors of a process by kind, and the states of its connections.
 *
 * A connection is the process's own when its inode is that of one of its descriptors. One in TIME_WAIT belongs to no
 * process any more: those of the whole network namespace are counted. */

#include "base/fd.h"
#include "target/connections.h"
#include "target/descriptors.h"
#include "target/proc.h"
#include "vitals/internal.h"
#include <stdlib.h>

struct connection_counts {
	const struct descriptors *of;
	uint64_t established, close_wait, time_wait, backlog;
};

static void count_one(void *user, const struct connection *c)
{
	struct connection_counts *n = user;
	n->time_wait += c->state == CONNECTION_TIME_WAIT;
	if (!map_u64_get(&n->of->sockets, c->inode))
		return;
	n->established += c->state == CONNECTION_ESTABLISHED;
	n->close_wait += c->state == CONNECTION_CLOSE_WAIT;
	n->backlog += c->state == CONNECTION_LISTEN ? c->unread : 0;
}

static void add_limit(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	uint64_t soft;
	if (file_text(&text, "%s/%d/limits", proc, (int)pid) &&
	    proc_parse_limit(buf_cstr(&text), "Max open files", &soft) && soft != UINT64_MAX)
		vitals_add(v, VITALS_FDS_LIMIT, at_ns, (double)soft);
	else
		vitals_lack(v, VITALS_FDS_LIMIT, "its limits cannot be read, or it has none");
	buf_clear(&text);
	if (file_text(&text, "%s/sys/fs/inotify/max_user_instances", proc))
		vitals_add(v, VITALS_INOTIFY_LIMIT, at_ns, strtod(buf_cstr(&text), NULL));
}

static void add_connections(const struct descriptors *d, const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	struct connection_counts n = { .of = d };
	bool old = connections_each(proc, pid, CONNECTION_TCP, count_one, &n);
	bool new = connections_each(proc, pid, CONNECTION_TCP6, count_one, &n);
	if (!old && !new) {
		for (enum vital_id id = VITALS_SOCKETS_ESTABLISHED; id <= VITALS_SOCKETS_BACKLOG; id++)
			vitals_lack(v, id, "its connections cannot be read");
		return;
	}
	vitals_add(v, VITALS_SOCKETS_ESTABLISHED, at_ns, (double)n.established);
	vitals_add(v, VITALS_SOCKETS_CLOSE_WAIT, at_ns, (double)n.close_wait);
	vitals_add(v, VITALS_SOCKETS_TIME_WAIT, at_ns, (double)n.time_wait);
	vitals_add(v, VITALS_SOCKETS_BACKLOG, at_ns, (double)n.backlog);
}

void descriptor_signs(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v)
{
	CLEANUP(descriptors_fini) struct descriptors d;
	add_limit(proc, pid, at_ns, v);
	if (!descriptors_read(proc, pid, &d)) {
		for (enum vital_id id = VITALS_FDS; id <= VITALS_SOCKETS_BACKLOG; id++)
			vitals_lack(v, id, "its descriptors are hidden from this user");
		return;
	}
	uint64_t files = d.of[DESCRIPTOR_FILE] + d.of[DESCRIPTOR_PROGRAM] + d.of[DESCRIPTOR_DEVICE];
	vitals_add(v, VITALS_FDS, at_ns, (double)d.n);
	vitals_add(v, VITALS_FDS_SOCKETS, at_ns, (double)d.of[DESCRIPTOR_SOCKET]);
	vitals_add(v, VITALS_FDS_PIPES, at_ns, (double)d.of[DESCRIPTOR_PIPE]);
	vitals_add(v, VITALS_FDS_FILES, at_ns, (double)files);
	vitals_add(v, VITALS_FDS_INOTIFY, at_ns, (double)d.of[DESCRIPTOR_INOTIFY]);
	add_connections(&d, proc, pid, at_ns, v);
}
