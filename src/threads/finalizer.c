/* The finalizer thread: all finalizers run on it, one after another, and one that does not end holds up all others. */

#include "base/fmt.h"
#include "threads/thread_snapshot.h"

const struct snapshot_thread *snapshot_finalizer(const struct thread_snapshot *s)
{
	vec_each(t, &s->threads)
		if (t->finalizer && snapshot_site(s, t) < t->n)
			return t;
	return NULL;
}

void snapshot_finalizer_say(const struct thread_snapshot *s, const char *before, struct rich *v)
{
	const struct snapshot_thread *t = snapshot_finalizer(s);
	if (!t)
		return;
	CLEANUP(buf_free) struct buf words = { 0 };
	snapshot_waits_words(s, t, 0, &words);
	rich_text(v, "%sThe finalizer thread %s in ", before, buf_cstr(&words));
	rich_code(v, snapshot_frame(s, t, snapshot_site(s, t))->name);
	if (s->unfinalized != UINT64_MAX && s->unfinalized)
		rich_text(v, ", and %s for it", fmt_plural(s->unfinalized, "object waits", "objects wait").s);
	rich_text(v, ".");
}
