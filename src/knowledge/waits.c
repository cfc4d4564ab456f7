/* Words on what threads wait for, out of the look: who holds it, what the holder does, where a chain of tasks ends. */

#include "base/str.h"
#include "knowledge/knowledge.h"

#define HOLDERS_MAX 64

void knowledge_add_doing(const struct knowledge *k, uint32_t thread, struct rich *text)
{
	const struct thread_snapshot *s = k->threads;
	const struct snapshot_thread *t = &s->threads.v[thread];
	CLEANUP(buf_free) struct buf words = { 0 };
	size_t site = snapshot_site(s, t);
	snapshot_waits_words(s, t, 0, &words);
	rich_text(text, "%s", buf_cstr(&words));
	site = site < t->n ? site : 0;
	if (!t->n)
		return;
	rich_text(text, " in ");
	rich_code(text, snapshot_frame(s, t, site)->name);
	const char *line = snapshot_line(s, t, site);
	if (line)
		rich_text(text, " (%s)", line);
}

/* The thread that holds what this one waits for; SNAPSHOT_NONE = it does not wait for anything that one holds. */
static uint32_t holder_behind(const struct thread_snapshot *s, uint32_t thread)
{
	uint32_t waits_for = s->threads.v[thread].waits_for;
	const struct wait_object *end =
		waits_for == SNAPSHOT_NONE ? NULL : wait_object_chain_end(s, &s->things.v[waits_for]);
	return end && end->n ? s->holders.v[end->first] : SNAPSHOT_NONE;
}

/* The last holder of the chain; SNAPSHOT_NONE when it is a circle, or the thread itself. */
static uint32_t last_holder(const struct thread_snapshot *s, uint32_t thread, bool *ret_circle)
{
	uint32_t last = thread;
	*ret_circle = false;
	for (size_t i = 0; i < HOLDERS_MAX; i++) {
		uint32_t next = holder_behind(s, last);
		if (next == SNAPSHOT_NONE)
			return last == thread ? SNAPSHOT_NONE : last;
		last = next;
	}
	*ret_circle = true;
	return SNAPSHOT_NONE;
}

void knowledge_add_holder(const struct knowledge *k, uint32_t thing, struct rich *text)
{
	const struct thread_snapshot *s = k->threads;
	const struct wait_object *end = wait_object_chain_end(s, &s->things.v[thing]);
	CLEANUP(buf_free) struct buf who = { 0 };
	if (!end->n)
		return;
	uint32_t holder = s->holders.v[end->first];
	bool circle, runs = end->kind == WAIT_OBJECT_TASK || end->kind == WAIT_OBJECT_INIT;
	snapshot_thread_words(&s->threads.v[holder], &who);
	rich_text(text, ", %s ", runs ? "run by" : end->guessed ? "probably held by" : "held by");
	rich_strong(text, "%s", buf_cstr(&who));
	rich_text(text, ", which ");
	knowledge_add_doing(k, holder, text);
	uint32_t last = last_holder(s, holder, &circle);
	if (circle)
		rich_text(text, "; they wait for each other in a circle");
	if (last == SNAPSHOT_NONE)
		return;
	buf_clear(&who);
	snapshot_thread_words(&s->threads.v[last], &who);
	rich_text(text, "; at the end of that queue %s ", buf_cstr(&who));
	knowledge_add_doing(k, last, text);
}

/* What most of them wait for in the end, through the tasks that those they block on await; SNAPSHOT_NONE when that is
 * what they block on, or most end elsewhere. One stands for all that are alike. */
static uint32_t common_end(const struct thread_snapshot *s, const uint32_t *threads, size_t n)
{
	CLEANUP(mem_freep) uint32_t *classes = wait_object_classes(s);
	struct map_u64 counts = { 0 }; /* class -> how many */
	uint32_t most = SNAPSHOT_NONE;
	uint64_t best = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t thing = s->threads.v[threads[i]].waits_for;
		const struct wait_object *from = thing == SNAPSHOT_NONE ? NULL : &s->things.v[thing];
		const struct wait_object *end = from ? wait_object_chain_end(s, from) : NULL;
		if (!end || end == from)
			continue;
		uint32_t class = classes[end - s->things.v];
		uint64_t times = ++*map_u64_put(&counts, class, NULL);
		if (times > best) {
			best = times;
			most = class;
		}
	}
	map_u64_free(&counts);
	return best * 2 > n ? most : SNAPSHOT_NONE;
}

void knowledge_add_group(const struct knowledge *k, const struct thread_groups *gs, const struct thread_group *g,
			 struct rich *text)
{
	const struct thread_snapshot *s = k->threads;
	const uint32_t *threads = &gs->members.v[g->first];
	CLEANUP(buf_free) struct buf words = { 0 }, last = { 0 };
	thread_group_words(s, gs, g, false, &words);
	rich_text(text, "%s", buf_cstr(&words));
	uint32_t end = g->alike ? common_end(s, threads, g->n) : SNAPSHOT_NONE;
	if (end != SNAPSHOT_NONE) {
		const char *more = s->things.v[end].more;
		wait_object_class_words(s, end, false, &last);
		rich_text(text, ", which in the end await ");
		rich_code(text, buf_cstr(&last));
		if (more)
			rich_text(text, " (%s)", more);
	}
	const struct wait_object *one =
		g->alike || g->thing == SNAPSHOT_NONE ? NULL : wait_object_chain_end(s, &s->things.v[g->thing]);
	if (one && one->n && one->kind != WAIT_OBJECT_THREAD) {
		rich_text(text, ", which ");
		knowledge_add_doing(k, s->holders.v[one->first], text);
	}
}

void knowledge_add_blocked_in(const struct knowledge *k, const char *method, const char *before, struct rich *text)
{
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	if (!k->threads)
		return;
	thread_groups_make(k->threads, &gs);
	vec_each(g, &gs.v) { /* the largest first */
		if (!activity_is_blocked(g->doing) || g->site == SNAPSHOT_NONE ||
		    !str_eq(k->threads->methods.v[g->site].name, method))
			continue;
		rich_text(text, "%s", before);
		knowledge_add_group(k, &gs, g, text);
		return;
	}
}

const char *knowledge_group_endpoint(const struct knowledge *k, const struct thread_groups *gs,
				     const struct thread_group *g)
{
	return knowledge_common_endpoint(k, &gs->members.v[g->first], g->n);
}
