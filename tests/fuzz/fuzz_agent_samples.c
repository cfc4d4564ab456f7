/* What a library that samples could send, in pieces as a socket gives them: the first byte says how large. */
#include "attach/notes.h"
#include <stdlib.h>
#include <string.h>

struct seen {
	struct notes *notes;
	const uint8_t *more; /* added while a sample is given, as when its receiver asks for a file */
	size_t n_more;
	uint64_t until_ns;
	unsigned sum; /* of all bytes given, so that each is read */
};

static void on_sample(void *user, const struct attach_sample *s)
{
	struct seen *seen = user;
	if (s->stack_len > WIRE_AGENT_STACK_MAX || s->time_ns >= seen->until_ns)
		abort();
	for (size_t i = 0; i < s->stack_len; i++)
		seen->sum += s->stack[i];
	notes_add(seen->notes, seen->more, seen->n_more);
	seen->n_more = 0;
}

static void on_thread(void *user, const struct attach_thread *t)
{
	struct seen *seen = user;
	seen->sum += (unsigned)strlen(t->name);
	if (strlen(t->name) >= sizeof(t->name))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct notes notes = { 0 };
	struct seen seen = { .notes = &notes };
	struct attach_cpu_sink sink = { on_sample, on_thread, &seen };
	size_t step = len ? 1 + (size_t)data[0] * 16 : 0;
	for (size_t at = 1, part = 0; at < len; at += part) {
		part = MIN(step, len - at);
		notes_add(&notes, data + at, part);
		seen.until_ns = 1000 * at;
		notes_give(&notes, seen.until_ns, &sink);
	}
	seen.more = data;
	seen.n_more = len;
	seen.until_ns = UINT64_MAX;
	notes_give(&notes, UINT64_MAX, &sink);
	/* What is left in the queue lies beyond all time. */
	if (notes.at == notes.queue.n && notes.queued_bytes)
		abort();
	notes_fini(&notes);
	return 0;
}
