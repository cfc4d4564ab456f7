#pragma once
/* A .nettrace file (or a pipe) read from its beginning to wherever it ends, in pieces: it may be larger than memory,
 * cut short, still growing, or no trace at all. */

#include "base/err.h"
#include "nettrace/nettrace.h"

struct trace_source {
	struct nettrace_stats stats;
	struct nettrace_header header; /* format 0 when none came */
	uint64_t file_bytes;	       /* 0 for a pipe */
	char *damage;		       /* why it was not read to a proper end, in words; or NULL */
	bool growing;		       /* another process was writing to it while we read */
};

/* "-" is standard input. What was delivered is true also when `damage` is set. ERR_BAD_DATA: this is no trace, or
 * nothing of it can be read. */
struct err *trace_read(const char *path, const struct nettrace_options *options,
		       const struct nettrace_callbacks *callbacks, void *user, struct trace_source *ret) MUST_USE;
void trace_source_fini(struct trace_source *s);

/* Ticks of the stream as nanoseconds of the stream's clock, and as wall clock. */
uint64_t trace_ns(const struct nettrace_header *header, uint64_t ticks);
int64_t trace_unix_ns(const struct nettrace_header *header, uint64_t ticks);

/* Which events are meant: by number, of one provider or of all. */
struct trace_ids {
	struct trace_id {
		char *provider; /* NULL = any */
		uint32_t id;
	} * v;
	size_t n, cap;
	bool skip; /* all but these */
};
/* "80,250" or "My.Provider/3,80"; `option` is named in the error. */
struct err *trace_ids_parse(const char *option, const char *text, bool skip, struct trace_ids *ret) MUST_USE;
void trace_ids_fini(struct trace_ids *ids);
bool trace_ids_take(const struct trace_ids *ids, const char *provider, uint32_t id);
