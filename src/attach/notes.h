#pragma once
/* What our library says while it samples: bytes in, samples out in the order they came. No socket here, and nothing is
 * believed: what does not fit ends it. Private to attach. */

#include "attach/cpu.h"
#include "base/vec.h"
#include "wire/agent.h"

struct notes {
	struct buf in; /* not yet a whole note */
	VEC_TYPE(notes_queue, struct note_item) queue;
	size_t at; /* in the queue */
	size_t queued_bytes;
	uint64_t overflow; /* samples for which there was no room */
	bool started, stopped, answered, left;
	int32_t answer;			/* errno */
	struct buf bytes;		/* that came before the answer */
	struct wire_agent_note refusal; /* kind 0 = none */
	struct wire_agent_note result;	/* once it has stopped */
	bool nonsense;			/* it said what we do not understand: nothing is taken any more */
};

void notes_add(struct notes *n, const void *bytes, size_t len);
/* What is older than that. Whoever is given a sample may add more meanwhile. */
void notes_give(struct notes *n, uint64_t until_ns, const struct attach_cpu_sink *sink);
void notes_fini(struct notes *n);
