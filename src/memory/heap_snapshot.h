#pragma once
/* The heap as the runtime itself reports it over the diagnostics socket: for when no copy of the memory can be taken.
 *
 * One session receives, a second one makes the runtime collect; during that collection, while all managed threads are
 * suspended, the runtime reports every object that survives. The first session is read meanwhile, so that the target
 * need not buffer all of it. There is no garbage, there are no generations and no fields, and the process is stopped
 * for as long as the report takes. */

#include "exam/image_exam.h"

/* A heap graph into out; complete, or an error: when events are lost it begins again with larger buffers, a few times.
 */
struct err *heap_snapshot(struct exam *exam, struct buf *out, struct image_exam_facts *facts) MUST_USE;

/* ---- for tests ---- */

struct told_heap;
struct told_heap *told_heap_new(void);
void told_heap_free(struct told_heap *s);
DEFINE_CLEANUP(told_heap_free, struct told_heap *)
void told_heap_event(struct told_heap *s, const struct nettrace_event *event);
/* ERR_BAD_DATA says what is missing; nothing is written then. */
struct err *told_heap_write(struct told_heap *s, struct buf *out) MUST_USE;
