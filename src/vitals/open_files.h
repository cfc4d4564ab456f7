#pragma once
/* What a process has open: descriptors by kind, files by folder, connections by state and peer. Reads names in /proc only;
 * nothing that is open is touched.
 *
 * A look is one moment. Its tables are bounded whatever the process has open; what does not fit is counted. */

#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "target/connections.h"
#include "target/descriptors.h"

/* So many rows of each table are kept, the largest. */
#define OPEN_ROWS_MAX 300

/* Some that are alike; names are not trusted. */
struct open_row {
	char *name; /* a file, or a folder's name followed by an asterisk; a peer or, of those that came in, the own end */
	uint64_t n;
	/* Of connections. */
	bool udp, incoming;
	enum connection_state state;
	uint64_t unread; /* bytes; of one that listens: connections that nobody has accepted */
};
VEC_TYPE(open_rows, struct open_row);

enum open_socket { OPEN_TCP, OPEN_UDP, OPEN_UNIX, OPEN_OTHER, OPEN_SOCKETS };

struct open_look {
	uint64_t at_ns; /* monotonic */
	bool hidden;	/* its descriptors cannot be seen */
	bool cut;	/* there are more than are looked at */
	uint64_t n, of[DESCRIPTOR_KINDS];
	uint64_t sockets[OPEN_SOCKETS];
	uint64_t states[CONNECTION_STATES]; /* of its TCP connections */
	struct open_rows files, peers;
	uint64_t more_files, more_peers; /* that are not in the rows */
};
VEC_TYPE(open_looks, struct open_look);

/* `proc` is "/proc" but for tests. False when its descriptors are hidden. */
bool open_look(const char *proc, pid_t pid, struct open_look *ret);
void open_look_fini(struct open_look *l);
/* Like that row in another look, or NULL. */
const struct open_row *open_row_like(const struct open_rows *rows, const struct open_row *row);

/* For a recording; what comes back may be damaged or hostile. */
json_t *open_look_json(const struct open_look *l);
struct err *open_look_from_json(const json_t *json, struct open_look *ret) MUST_USE;
