#pragma once
/* The messages that our library sends while it samples: bytes in, samples out in the order they came. No socket here.
 * Nothing is trusted: a message that is not valid ends the reading. Private to attach. */

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
	bool nonsense;			/* a message was not valid: nothing is read any more */
};

void notes_add(struct notes *n, const void *bytes, size_t len);
/* Delivers samples older than that. The receiver of a sample may add more meanwhile. */
void notes_give(struct notes *n, uint64_t until_ns, const struct attach_cpu_sink *sink);
void notes_fini(struct notes *n);
