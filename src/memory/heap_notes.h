#pragma once
/* What a heap's graph does not have and a holder's name needs: the method that a delegate calls, the times of a timer,
 * and where the finalizer thread stands. Read while the heap is walked, kept in the recording right behind the graph;
 * recordings of older versions have none. Bounded: what is not noted is not known. All of it may be hostile. */

#include "base/buf.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/vec.h"
#include "heap/walk.h"

#define HEAP_NOTE_NEVER UINT32_MAX /* of a timer's times */

struct heap_note {
	uint32_t object; /* its number in the graph */
	uint32_t method; /* of a delegate: its string; STRTAB_NONE: it is a timer */
	uint32_t due_ms, period_ms;
};
struct heap_notes {
	struct strtab strings;
	VEC(struct heap_note) v;	/* ascending by object */
	VEC(uint32_t) finalizer_frames; /* strings, innermost first; none = not known, or it is idle */
	uint32_t modules_unread;	/* whose static fields are not known */
};
/* NULL = nothing is noted about it. */
const struct heap_note *heap_notes_of(const struct heap_notes *notes, uint32_t object);
/* "Shop.Poller.Tick"; NULL = not known. */
const char *heap_notes_method(const struct heap_notes *notes, uint32_t object);
/* Leaves the cursor alone when there are none; false when they make no sense. n: objects of the graph. */
bool heap_notes_take(struct heap_notes *notes, uint32_t n, struct cursor *in) MUST_USE;
void heap_notes_fini(struct heap_notes *notes);

/* ---- while the heap is walked ---- */

struct heap_notes_reader;
struct heap_notes_reader *heap_notes_reader_new(void);
void heap_notes_reader_free(struct heap_notes_reader *r);
DEFINE_CLEANUP(heap_notes_reader_free, struct heap_notes_reader *)
void heap_notes_see(struct heap_notes_reader *r, struct heap_walk *walk, const struct heap_found *found,
		    uint32_t number);
/* Finds out the names; the image still lives. modules_unread as heap_drain says. */
void heap_notes_write(struct heap_notes_reader *r, struct dac *dac, uint32_t modules_unread, struct buf *out);
