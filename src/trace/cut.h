#pragma once
/* A nettrace stream of version 4 or 5 cut into its objects, without looking into them: for keeping whole ones, leaving
 * some out, and finding the last whole one of a stream that broke off.
 *
 * Objects are aligned by their place in the stream, so one that moves is written anew: cut_write(). */

#include "base/buf.h"
#include "base/err.h"

enum cut_kind { CUT_START, CUT_TRACE, CUT_METADATA, CUT_STACKS, CUT_EVENTS, CUT_SEQUENCE, CUT_OTHER, CUT_END };

struct cut_object {
	enum cut_kind kind;
	const uint8_t *head; /* up to the size: tags, version, name. Of the start, the trace and the end: everything */
	size_t head_len;
	const uint8_t *body; /* NULL without */
	size_t body_len;
};

struct cutter {
	uint64_t whole; /* offset behind the last whole object */
	struct buf in;	/* the beginning of the next one */
	bool started, ended;
	bool other; /* a version whose objects we do not know: nothing is delivered */
};

/* Calls object() for every one that became whole. */
struct err *cutter_feed(struct cutter *c, const void *data, size_t len,
			void (*object)(void *user, const struct cut_object *o), void *user) MUST_USE;
void cutter_fini(struct cutter *c);

/* Appends the object for a stream that is at that offset. */
void cut_write(struct buf *out, uint64_t offset, const struct cut_object *o);
