#pragma once
/* A core file of a living process. Two ways: from a copy of it, taken in a pause of milliseconds; or written by its own
 * runtime, which stops the process until the file is complete.
 *
 * Either the complete file appears, readable by its owner only, or nothing does. Nothing is left in the target's
 * folders. */

#include "image/image.h"
#include "ipc/patient.h"

enum dump_type {
	DUMP_MINI, /* threads, stacks, names, exceptions in flight */
	DUMP_HEAP, /* and all managed and native data */
	DUMP_FULL, /* and every file that is mapped */
};
const char *dump_type_name(enum dump_type type);
/* "mini", "heap", "full"; ERR_USAGE. */
struct err *dump_type_parse(const char *word, enum dump_type *ret) MUST_USE;

struct dump_order {
	const char *path;
	enum dump_type type;
	bool by_runtime; /* its own runtime writes it and stops the process meanwhile; otherwise from a copy */
	bool agent;	 /* which our library in the process makes: it need not be visible from here */
	struct image_limits limits; /* of that copy */
	/* May be NULL. ratio is negative when not known; false asks to stop. */
	bool (*on)(void *user, double ratio, const char *what);
	void *user;
};

struct dump_result {
	bool by_runtime;
	uint64_t held_ns; /* how long the process was stopped: measured of a copy; by the runtime, at most so long */
	uint64_t bytes;	  /* of memory in the file; 0 = not known */
	uint64_t disk_bytes;
	uint64_t unread_bytes;
	struct image_cost cost; /* of a copy; of one by agent only the pause, its lifetime and what was left */
};
/* Is it possible at all? Reads only: the process is not stopped for a file that cannot be written. ret_ns: how long the
 * process would be stopped; 0 = not known. */
struct err *dump_check(const struct patient *p, const struct dump_order *order, uint64_t *ret_ns) MUST_USE;
struct err *dump_collect(const struct patient *p, const struct dump_order *order, struct dump_result *ret) MUST_USE;
