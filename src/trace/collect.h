#pragma once
/* Events of a living process into a .nettrace file, as the runtime sends them; or the last seconds of them (a ring).
 *
 * The caller polls and pumps; nothing here waits but the opening. One thread. */

#include "eventpipe/session.h"
#include "trace/config.h"

struct collect_order {
	const char *socket;
	const struct trace_config *config;
	bool at_start;	  /* see struct ipc_trace_config */
	const char *path; /* of the file; grows as PATH.partial */
	uint32_t buffer_mb;
	uint64_t rundown; /* keywords, 0 = none */
	uint64_t ring_ms; /* 0 = everything */
	size_t ring_max_bytes;
};

struct collector;
struct err *collector_open(const struct collect_order *order, struct deadline deadline, struct collector **ret)
	MUST_USE;
/* What is not finished is removed, or stays as PATH.partial after a failure to write. */
void collector_free(struct collector *c);
DEFINE_CLEANUP(collector_free, struct collector *)

int collector_fd(const struct collector *c); /* poll for POLLIN */
/* Reads and writes what is there. *ret_ended once nothing will come any more. An error is a file that cannot be
 * written, or a damaged stream. */
struct err *collector_pump(struct collector *c, bool *ret_ended) MUST_USE;
/* Asks the runtime to stop and keeps what there is; pump until the end. */
struct err *collector_stop(struct collector *c, struct deadline deadline) MUST_USE;
/* Of --stop-on: which trigger fired, or NULL. */
const char *collector_struck(const struct collector *c);
/* Bytes came last. */
uint64_t collector_last_ns(const struct collector *c);

struct collect_stats {
	uint64_t events, lost, bytes; /* bytes that came */
	uint64_t file_bytes;
	size_t ring_bytes; /* held in memory now */
	uint64_t ring_ns;  /* how far back that goes */
	bool ring_squeezed;
	bool whole;	  /* the stream had its proper end */
	bool ids_ignored; /* the runtime cannot filter by number */
	bool names;	  /* the rundown came */
};
struct collect_stats collector_stats(const struct collector *c);
/* Did anything come from this provider? */
bool collector_heard(const struct collector *c, const char *provider);
/* The file gets its name: whole, or ended behind the last whole object when the stream broke off. */
struct err *collector_finish(struct collector *c) MUST_USE;
