#pragma once
/* Walks the payload of an event that describes itself (EventSource providers, version 6 writers): field after field as
 * typed values, by name, or as JSON. The runtime's native events have no fields: their layouts are eventpipe's.
 *
 * Payloads are hostile. A walk that runs past the end stops and is bad; what it gave before is true. Values point into
 * the payload and live as long as it does. Nothing is allocated but by the JSON writer. */

#include "nettrace/nettrace.h"
#include "base/cursor.h"
#include "base/json.h"

enum nettrace_kind {
	NETTRACE_IS_INT = 1, /* i */
	NETTRACE_IS_UINT,    /* u */
	NETTRACE_IS_DOUBLE,  /* d */
	NETTRACE_IS_BOOL,    /* u: 0 or 1 */
	NETTRACE_IS_TIME,    /* i: nanoseconds since 1970 UTC, 0 when it is no date */
	NETTRACE_IS_UTF16,   /* utf16; also one character and arrays of characters */
	NETTRACE_IS_UTF8,    /* bytes, size: whatever the writer put there, not checked */
	NETTRACE_IS_GUID,    /* bytes, 16 of them */
	NETTRACE_IS_BYTES,   /* bytes, size: arrays of bytes, decimals */
	NETTRACE_IS_ARRAY,   /* count elements: nettrace_walk_into() */
	NETTRACE_IS_OBJECT,  /* its fields: nettrace_walk_into() */
};

struct nettrace_value {
	const char *name; /* "" for the elements of an array */
	enum nettrace_kind kind;
	union {
		int64_t i;
		uint64_t u;
		double d;
		struct utf16_span utf16;
	};
	const uint8_t *bytes; /* where it stands, without length prefix or terminator */
	size_t size;
	size_t count;			    /* of an array */
	const struct nettrace_field *field; /* its description; of an element that of its array */
};

/* Where a walk stands. Its own; make it with the functions below. */
struct nettrace_walk {
	struct cursor c;       /* c.bad: the payload is shorter than its description */
	struct cursor payload; /* all of it, for data that stands elsewhere */
	const struct nettrace_field *fields;
	size_t left; /* fields or elements to come */
	bool elements;
	int format;
};

struct nettrace_walk nettrace_walk_make(const struct nettrace_event *event);
/* False at the end, or when the payload ends early: then cursor_ok(&walk->c) is false. */
bool nettrace_walk_next(struct nettrace_walk *walk, struct nettrace_value *ret);
/* A walk over the fields of an object or the elements of an array that `walk` gave. */
struct nettrace_walk nettrace_walk_into(const struct nettrace_walk *walk, const struct nettrace_value *value);

/* The field of that name; "Payload.Mean" looks into objects. Objects without a name, as EventCounters has them, are
 * looked through. False when there is none or it cannot be reached. */
bool nettrace_find(const struct nettrace_event *event, const char *path, struct nettrace_value *ret);

/* Numbers of any kind as a double; false for everything else. */
bool nettrace_value_number(const struct nettrace_value *value, double *ret);
/* Text of any kind as UTF-8, appended; false (and nothing) for everything else. */
bool nettrace_value_text(const struct nettrace_value *value, struct buf *out);

/* The payload as one JSON object, about max_bytes long at most (0 = 64 KB): long text is cut with an ellipsis, what
 * does not fit is left out. The fields of an object without a name stand in its place. A payload without description is
 * {"$bytes":"<hex>"}. False when something is missing. */
bool nettrace_event_json(const struct nettrace_event *event, struct jsonw *w, const char *key, size_t max_bytes);
