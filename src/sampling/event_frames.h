#pragma once
/* Stacks that come with events, as stacks of samples: addresses now, names when all methods are known. */

#include "base/map.h"
#include "eventpipe/methods.h"
#include "nettrace/nettrace.h"
#include "sampling/samples.h"

struct event_frames {
	struct samples *samples; /* the caller's */
	VEC(uint64_t) addresses; /* by frame; 0 = it has its name */
	struct map_u64 frames;	 /* address -> frame + 1 */
	struct buf text;
};
void event_frames_fini(struct event_frames *f);

/* The stack of an event; of one that has none, a frame that says so. */
uint32_t event_frames_stack(struct event_frames *f, const struct nettrace_event *event);
/* Puts names to all that have one. */
void event_frames_name(struct event_frames *f, struct methods *methods);
