/* What the look into memory adds to the waits that events told of: which field a lock is, who holds it and what that
 * thread does meanwhile; and the threads that waited for a lock all the time, which send no event. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/lock_contention.h"

#define HELD_ROWS 20
#define OBJECTS_MAX 10000 /* locks that are compared with every object of the look */
/* How sure it is that a lock of events is an object of the look. */
#define VOTE_OBJECT 1000 /* the runtime gave the address that the object still has */
#define VOTE_PLACE 4	 /* the same thread, in the same method */
#define VOTE_THREAD 1	 /* the same thread */

/* ---- which object it is ---- */

static bool is_lock(const struct wait_object *thing)
{
	return thing->kind == WAIT_OBJECT_MONITOR || thing->kind == WAIT_OBJECT_LOCK;
}

static void vote(struct map_u64 *votes, uint32_t lock, uint32_t thing, uint64_t weight)
{
	*map_u64_put(votes, (uint64_t)lock << 32 | thing, NULL) += weight;
}

/* The last wait of each thread: that of the look is probably the same, or one for the same lock. */
static void last_waits(const struct locks *l, struct map_u64 *ret)
{
	for (size_t i = 0; i < l->waits.n; i++) {
		uint64_t *last = map_u64_put(ret, l->waits.v[i].thread, NULL);
		if (!*last || l->waits.v[*last - 1].start_ns < l->waits.v[i].start_ns)
			*last = i + 1;
	}
}

static void vote_by_threads(struct locks *l, struct map_u64 *votes)
{
	const struct thread_snapshot *s = l->known.threads;
	struct map_u64 last = { 0 };
	last_waits(l, &last);
	vec_each(t, &s->threads) {
		const uint64_t *index = map_u64_get(&last, t->os_id);
		if (!index || t->waits_for == SNAPSHOT_NONE || !is_lock(&s->things.v[t->waits_for]))
			continue;
		const struct lock_wait *wait = &l->waits.v[*index - 1];
		size_t site = snapshot_site(s, t);
		bool same = site < t->n && wait->stack != STACKS_NONE &&
			    str_eq(snapshot_frame(s, t, site)->name, locks_method(l, wait->stack));
		vote(votes, wait->lock, t->waits_for, same ? VOTE_PLACE : VOTE_THREAD);
	}
	map_u64_free(&last);
}

static void vote_by_objects(const struct locks *l, struct map_u64 *votes)
{
	const struct thread_snapshot *s = l->known.threads;
	for (uint32_t i = 0; i < l->list.n; i++)
		for (uint32_t k = 0; l->list.v[i].object && k < s->things.n; k++)
			if (s->things.v[k].address == l->list.v[i].object && is_lock(&s->things.v[k]))
				vote(votes, i, k, VOTE_OBJECT);
}

void locks_find_things(struct locks *l)
{
	struct map_u64 votes = { 0 };
	CLEANUP(mem_freep) uint64_t *best = mem_zalloc((l->list.n + 1) * sizeof(*best));
	uint64_t key, weight;
	vec_each(lock, &l->list)
		lock->thing = SNAPSHOT_NONE;
	if (!l->known.threads)
		return;
	vote_by_threads(l, &votes);
	if (l->list.n <= OBJECTS_MAX)
		vote_by_objects(l, &votes);
	for (size_t pos = 0; map_u64_next(&votes, &pos, &key, &weight);) {
		uint32_t lock = (uint32_t)(key >> 32);
		if (weight > best[lock]) {
			best[lock] = weight;
			l->list.v[lock].thing = (uint32_t)key;
		}
	}
	map_u64_free(&votes);
}

bool locks_add_name(const struct locks *l, uint32_t lock, struct rich *text)
{
	uint32_t thing = l->list.v[lock].thing;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (thing == SNAPSHOT_NONE)
		return false;
	wait_object_words(l->known.threads, &l->known.threads->things.v[thing], &name);
	rich_code(text, buf_cstr(&name));
	return true;
}

void locks_add_holder(const struct locks *l, uint32_t lock, struct rich *text)
{
	uint32_t thing = l->list.v[lock].thing;
	const struct thread_snapshot *s = l->known.threads;
	CLEANUP(buf_free) struct buf who = { 0 };
	if (thing == SNAPSHOT_NONE || !s->things.v[thing].n)
		return;
	uint32_t holder = s->holders.v[s->things.v[thing].first];
	snapshot_thread_words(&s->threads.v[holder], &who);
	rich_text(text, " When we looked, %s had it, which ", buf_cstr(&who));
	knowledge_add_doing(&l->known, holder, text);
	rich_text(text, ".");
}

void locks_add_known_line(const struct locks *l, uint32_t lock, struct report_row *row)
{
	uint32_t thing = l->list.v[lock].thing;
	CLEANUP(buf_free) struct buf line = { 0 };
	if (thing == SNAPSHOT_NONE)
		return;
	wait_object_words(l->known.threads, &l->known.threads->things.v[thing], &line);
	report_row_line(row, VALUE_CODE, buf_cstr(&line), "what it is");
}

/* ---- threads that waited all the time ---- */

static bool waits_for_lock(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	enum activity doing = snapshot_activity(s, t);
	return doing == ACTIVITY_LOCK || doing == ACTIVITY_RWLOCK;
}

/* Those of the same object and place are neighbours in the list. */
static int held_by_thing(const void *a, const void *b)
{
	const struct lock_held *x = a, *y = b;
	return CMP(x->thing, y->thing) ?: CMP(x->site, y->site) ?: CMP(x->thread, y->thread);
}

static int held_most_first(const void *a, const void *b)
{
	const struct lock_held *x = a, *y = b;
	return CMP(y->n, x->n) ?: CMP(x->thing, y->thing) ?: CMP(x->thread, y->thread);
}

uint32_t locks_find_held(const struct locks *l, struct lock_held_list *ret)
{
	const struct thread_snapshot *s = l->known.threads;
	struct lock_held_list all = { 0 };
	uint32_t n = 0;
	for (uint32_t i = 0; s && i < s->threads.n; i++) {
		const struct snapshot_thread *t = &s->threads.v[i];
		if (!waits_for_lock(s, t) || !knowledge_stood_still(&l->known, i))
			continue;
		size_t site = snapshot_site(s, t);
		vec_push(&all, ((struct lock_held){ .thing = t->waits_for,
						    .site = t->n ? s->frames.v[t->first + (site < t->n ? site : 0)]
								 : SNAPSHOT_NONE,
						    .thread = i,
						    .n = 1 }));
		n++;
	}
	vec_sort(&all, held_by_thing);
	vec_each(one, &all) {
		struct lock_held *last = ret->n ? &vec_last(ret) : NULL;
		if (last && last->thing == one->thing && last->site == one->site)
			last->n++;
		else
			vec_push(ret, *one);
	}
	vec_free(&all);
	vec_sort(ret, held_most_first);
	return n;
}

static void add_thing(const struct locks *l, uint32_t thing, struct rich *text)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	if (thing == SNAPSHOT_NONE) {
		rich_text(text, "a lock");
		return;
	}
	wait_object_words(l->known.threads, &l->known.threads->things.v[thing], &name);
	rich_code(text, buf_cstr(&name));
}

void locks_say_held(const struct locks *l, const struct lock_held_list *held, uint32_t n, struct rich *text)
{
	const struct thread_snapshot *s = l->known.threads;
	const struct lock_held *top = &held->v[0];
	rich_strong(text, "%s waited all the time for a lock", fmt_plural(n, "thread", "threads").s);
	rich_text(text, n == top->n ? ": for " : ": %s of them for ", fmt_count(top->n).s);
	add_thing(l, top->thing, text);
	if (top->site != SNAPSHOT_NONE) {
		rich_text(text, " in ");
		rich_code(text, s->methods.v[top->site].name);
	}
	if (top->thing != SNAPSHOT_NONE)
		knowledge_add_holder(&l->known, top->thing, text);
	rich_text(text, ".");
}

static void add_held_row(const struct locks *l, const struct lock_held *h, struct report_table *t)
{
	const struct thread_snapshot *s = l->known.threads;
	const struct wait_object *thing = h->thing == SNAPSHOT_NONE ? NULL : &s->things.v[h->thing];
	CLEANUP(buf_free) struct buf name = { 0 }, who = { 0 };
	if (thing)
		wait_object_words(s, thing, &name);
	if (thing && thing->n)
		snapshot_thread_words(&s->threads.v[s->holders.v[thing->first]], &who);
	struct report_row *row =
		report_row(t, (struct value[]){ V_COUNT(h->n), name.len ? V_CODE(buf_cstr(&name)) : V_NONE,
						h->site == SNAPSHOT_NONE ? V_NONE : V_CODE(s->methods.v[h->site].name),
						who.len ? V_TEXT(buf_cstr(&who)) : V_NONE });
	const struct snapshot_thread *one = &s->threads.v[h->thread];
	for (size_t i = 0; i < one->n; i++)
		report_row_line(row, VALUE_CODE, snapshot_frame(s, one, i)->name, snapshot_line(s, one, i));
}

void locks_add_held(const struct locks *l, const struct lock_held_list *held, struct report *report)
{
	struct report_table *t = report_table(report, "Waited all the time");
	report_column(t, "Threads", VALUE_COUNT, COLUMN_MAIN);
	report_column(t, "For", VALUE_CODE, 0);
	report_column(t, "In", VALUE_CODE, 0);
	report_column(t, "Held by", VALUE_TEXT, 0);
	uint64_t rest = 0;
	for (size_t i = 0; i < held->n; i++) {
		if (i < HELD_ROWS)
			add_held_row(l, &held->v[i], t);
		else
			rest += held->v[i].n;
	}
	if (rest)
		report_rest(t, (struct value[]){ V_COUNT(rest), V_TEXT("elsewhere"), V_NONE, V_NONE });
}
