#pragma once
/* The heap as the runtime itself tells it over the diagnostics socket: for when no copy of the memory can be had.
 *
 * One session listens, a second one makes the runtime collect; while that collection has the world stopped it tells
 * every object that survives, and the first session is read meanwhile, so that the target need not hold all of it. It
 * knows no garbage, no generations and no fields, and the process stands still for as long as the telling takes. */

#include "exam/image_exam.h"

/* A heap graph into out; whole, or an error: events that are lost make it begin again with more room, a few times. */
struct err *heap_snapshot(struct exam *exam, struct buf *out, struct image_exam_facts *facts) MUST_USE;

/* ---- for tests ---- */

struct told_heap;
struct told_heap *told_heap_new(void);
void told_heap_free(struct told_heap *s);
DEFINE_CLEANUP(told_heap_free, struct told_heap *)
void told_heap_event(struct told_heap *s, const struct nettrace_event *event);
/* ERR_BAD_DATA says what is missing; nothing is written then. */
struct err *told_heap_write(struct told_heap *s, struct buf *out) MUST_USE;
