/* Words for what threads wait for. */

#include "base/str.h"
#include "threads/thread_snapshot.h"

#define CHAIN_MAX 64

uint32_t *wait_object_classes(const struct thread_snapshot *s)
{
	uint32_t *classes = mem_zalloc((s->things.n + 1) * sizeof(*classes));
	struct map_u64 first = { 0 };
	for (uint32_t i = 0; i < s->things.n; i++) {
		const struct wait_object *t = &s->things.v[i];
		/* Each text is stored once, so its address identifies it. */
		const uint64_t key[] = { t->kind, (uintptr_t)t->type, (uintptr_t)t->name,
					 t->kind == WAIT_OBJECT_THREAD ? i : 0 };
		bool new;
		uint64_t *place = map_u64_put(&first, hash_bytes(key, sizeof(key), 0), &new);
		if (new)
			*place = i;
		classes[i] = (uint32_t)*place;
	}
	map_u64_free(&first);
	return classes;
}

static bool is_named_twice(const struct thread_snapshot *s, const struct wait_object *thing)
{
	vec_each(t, &s->things)
		if (t != thing && str_eq(t->name, thing->name) && (thing->name || str_eq(t->type, thing->type)))
			return true;
	return false;
}

const char *name_brief(const char *name)
{
	const char *dot = NULL, *before = NULL;
	for (const char *p = name; *p && *p != '<' && *p != '('; p++) {
		if (*p == '.') {
			before = dot;
			dot = p;
		}
	}
	return before ? before + 1 : name;
}

static void thing_words(const struct thread_snapshot *s, const struct wait_object *thing, unsigned flags,
			struct buf *out)
{
	bool is_brief = flags & WORDS_BRIEF, alike = flags & WORDS_ALIKE;
	if (thing->kind == WAIT_OBJECT_THREAD && thing->n) {
		const struct snapshot_thread *t = &s->threads.v[s->holders.v[thing->first]];
		if (is_brief)
			snapshot_thread_brief(t, out);
		else
			snapshot_thread_words(t, out);
		return;
	}
	const char *name = thing->name && is_brief ? name_brief(thing->name) : thing->name;
	if (thing->kind == WAIT_OBJECT_INIT)
		buf_printf(out, is_brief ? "static ctor of %s" : "the static constructor of %s",
			   name ? name : "a type");
	else if (thing->kind == WAIT_OBJECT_TASK && name)
		buf_printf(out, alike ? "tasks of %s" : is_brief ? "task %s" : "the task of %s", name);
	else if (name)
		buf_str(out, name);
	else
		buf_printf(out, "a %s", is_brief ? name_brief(thing->type) : thing->type);
	if (!alike && is_named_twice(s, thing))
		buf_printf(out, " (0x%llx)", (unsigned long long)thing->address);
}

void wait_object_words(const struct thread_snapshot *s, const struct wait_object *thing, struct buf *out)
{
	thing_words(s, thing, 0, out);
}

void wait_object_brief(const struct thread_snapshot *s, const struct wait_object *thing, struct buf *out)
{
	thing_words(s, thing, WORDS_BRIEF, out);
}

void wait_object_class_words(const struct thread_snapshot *s, uint32_t thing, bool brief, struct buf *out)
{
	CLEANUP(mem_freep) uint32_t *classes = wait_object_classes(s);
	size_t n = 0;
	for (size_t i = 0; i < s->things.n; i++)
		n += classes[i] == classes[thing];
	thing_words(s, &s->things.v[thing], (brief ? WORDS_BRIEF : 0) | (n > 1 ? WORDS_ALIKE : 0), out);
}

/* ", held by 'checkout' (tid 4230)" */
static void add_holders(const struct thread_snapshot *s, const struct wait_object *thing, bool is_brief,
			struct buf *out)
{
	bool runs = thing->kind == WAIT_OBJECT_TASK || thing->kind == WAIT_OBJECT_INIT;
	const char *verb = runs ? "run by" : thing->guessed ? "probably held by" : "held by";
	if (thing->kind == WAIT_OBJECT_THREAD || !thing->n)
		return;
	buf_printf(out, ", %s ", verb);
	const struct snapshot_thread *holder = &s->threads.v[s->holders.v[thing->first]];
	if (is_brief)
		snapshot_thread_brief(holder, out);
	else
		snapshot_thread_words(holder, out);
	if (thing->n > 1)
		buf_printf(out, " and %u more", thing->n - 1);
}

const struct wait_object *wait_object_chain_end(const struct thread_snapshot *s, const struct wait_object *thing)
{
	for (size_t i = 0; i < CHAIN_MAX && thing->next != SNAPSHOT_NONE && !thing->n; i++)
		thing = &s->things.v[thing->next];
	return thing;
}

void snapshot_waits_words(const struct thread_snapshot *s, const struct snapshot_thread *t, unsigned flags,
			  struct buf *out)
{
	const struct wait_object *thing = t->waits_for != SNAPSHOT_NONE ? &s->things.v[t->waits_for] : NULL;
	bool several = flags & WORDS_SEVERAL, is_brief = flags & WORDS_BRIEF;
	enum activity doing = snapshot_activity(s, t);
	if (!thing) {
		activity_words(doing, t, several, out);
		return;
	}
	if (thing->kind == WAIT_OBJECT_THREAD)
		buf_printf(out, "%s for the end of ", several ? "wait" : "waits");
	else if (thing->kind == WAIT_OBJECT_TASK)
		buf_printf(out, "%s on ", several ? "block" : "blocks");
	else if (thing->kind == WAIT_OBJECT_INIT || (thing->kind != WAIT_OBJECT_OTHER && thing->name))
		buf_printf(out, "%s for ", several ? "wait" : "waits");
	else
		activity_words(doing, t, several, out);
	if (thing->kind == WAIT_OBJECT_OTHER || (!thing->name && thing->kind < WAIT_OBJECT_TASK))
		buf_str(out, ": ");
	thing_words(s, thing, flags, out);
	const struct wait_object *last = wait_object_chain_end(s, thing);
	/* Of several, each may have come to another end. */
	if (last != thing && !is_brief && !(flags & WORDS_ALIKE)) {
		buf_str(out, ", which in the end awaits ");
		thing_words(s, last, flags, out);
	}
	if (!(flags & WORDS_ALIKE))
		add_holders(s, last, is_brief, out);
	if (!(flags & WORDS_ALIKE) && !is_brief && !last->n && last->more)
		buf_printf(out, " (%s)", last->more);
}
