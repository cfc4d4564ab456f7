/* Deadlocks: threads that wait for each other in a circle. Two looks, so that a circle that dissolves by itself is not
 * reported. */

#include "base/fmt.h"
#include "base/str.h"
#include "exam/profiler.h"
#include "threads/wait_graph.h"
#include <string.h>

#define MANY 10 /* threads that wait */
#define FIRST "threads"
#define SECOND "threads-2"
#define CIRCLES_SHOWN 5
#define STEPS_SAID 3
#define POOL_LEAST 2
#define LOGGING_LEAST 2 /* threads: one may have come just before the queue was written */
#define OPEN_SHOWN 30	/* wait objects whose holder is not known */

struct deadlocks {
	struct thread_snapshot *seen[2]; /* the second may be NULL */
	struct image_exam_facts facts[2];
	size_t looks;
};

#define LOOK(called)                                                                                                   \
	{                                                                                                              \
		.name = (called), .version = THREAD_SNAPSHOT_VERSION, .drain = thread_snapshot_drain                   \
	}
static const struct image_exam_part looks[] = { LOOK(FIRST), LOOK(SECOND), { 0 } };

static struct image_exam_part part(const struct image_exam_part *look, struct thread_snapshot **seen)
{
	struct image_exam_part part = *look;
	part.take = thread_snapshot_take;
	part.user = seen;
	return part;
}

static struct err *run(struct exam *exam)
{
	struct deadlocks *d = exam->state = mem_zalloc(sizeof(*d));
	struct image_exam_part parts[2] = { part(&looks[0], &d->seen[0]), part(&looks[1], &d->seen[1]) };
	struct err *err = exam_image_twice(exam, parts, &d->looks);
	for (size_t i = 0; i < d->looks; i++)
		d->facts[i] = parts[i].facts;
	return err;
}

/* ---- circles ---- */

static void say_step(struct rich *v, const struct thread_snapshot *s, const struct circles *cs, const struct circle *c,
		     uint32_t i)
{
	const struct circle_step *step = &cs->steps.v[c->first + i];
	const struct circle_step *before = &cs->steps.v[c->first + (i + c->n - 1) % c->n];
	const struct wait_object *has = &s->things.v[before->thing], *wants = &s->things.v[step->thing];
	CLEANUP(buf_free) struct buf who = { 0 }, what = { 0 }, other = { 0 };
	snapshot_thread_words(&s->threads.v[step->thread], &who);
	wait_object_words(s, has, &what);
	wait_object_words(s, wants, &other);
	rich_text(v, "%s ", buf_cstr(&who));
	if (has->kind == WAIT_OBJECT_TASK || has->kind == WAIT_OBJECT_INIT)
		rich_text(v, "runs ");
	else if (has->kind != WAIT_OBJECT_THREAD)
		rich_text(v, has->guessed ? "probably has " : "has ");
	if (has->kind != WAIT_OBJECT_THREAD) {
		rich_code(v, buf_cstr(&what));
		rich_text(v, " and ");
	}
	rich_text(v, wants->kind == WAIT_OBJECT_TASK	 ? "blocks on "
		     : wants->kind == WAIT_OBJECT_THREAD ? "waits for the end of "
							 : "waits for ");
	rich_code(v, buf_cstr(&other));
}

static void say_circle(struct rich *v, const struct thread_snapshot *s, const struct circles *cs,
		       const struct circle *c, bool confirmed)
{
	rich_strong(v, c->guessed ? "Probably a deadlock: " : "Deadlock: ");
	rich_text(v, "%s %s for each other%s. ", fmt_plural(c->n, "thread", "threads").s, c->n == 1 ? "waits" : "wait",
		  c->guessed  ? ""
		  : confirmed ? " and will never go on"
			      : " in this instant");
	for (uint32_t i = 0; i < c->n && i < STEPS_SAID; i++) {
		say_step(v, s, cs, c, i);
		rich_text(v, i + 1 < c->n ? "; " : ". ");
	}
	if (c->n > STEPS_SAID)
		rich_text(v, "and so on. ");
	if (c->behind)
		rich_text(v, "%s behind them.", fmt_plural(c->behind, "more thread waits", "more threads wait").s);
}

/* From what the user's own code called, outwards. */
static void add_stack(const struct thread_snapshot *s, const struct snapshot_thread *t, const char *waits,
		      struct report_row *row)
{
	size_t end = t->n, site = snapshot_site(s, t);
	while (end && snapshot_frame(s, t, end - 1)->framework)
		end--;
	for (size_t i = site && end ? site - 1 : 0; i < (end ? end : t->n); i++) {
		report_row_line(row, VALUE_CODE, snapshot_frame(s, t, i)->name, waits ? waits : snapshot_line(s, t, i));
		waits = NULL;
	}
}

static const char *site_name(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t site = snapshot_site(s, t);
	return site < t->n ? snapshot_frame(s, t, site)->name : t->n ? snapshot_frame(s, t, 0)->name : "";
}

static void add_circle(struct report *report, const struct thread_snapshot *s, const struct circles *cs,
		       const struct circle *c, size_t number)
{
	CLEANUP(mem_freep)
	char *title = cs->v.n > 1 ? mem_printf("The circle %zu", number) : mem_strdup("The circle");
	struct report_table *table = report_table(report, title);
	report_column(table, "Thread", VALUE_TEXT, COLUMN_MAIN);
	report_column(table, "Has", VALUE_CODE, 0);
	report_column(table, "Waits for", VALUE_CODE, COLUMN_MAIN);
	report_column(table, "In", VALUE_CODE, 0);
	for (uint32_t i = 0; i < c->n; i++) {
		const struct circle_step *step = &cs->steps.v[c->first + i];
		const struct circle_step *before = &cs->steps.v[c->first + (i + c->n - 1) % c->n];
		const struct snapshot_thread *t = &s->threads.v[step->thread];
		CLEANUP(buf_free) struct buf who = { 0 }, has = { 0 }, wants = { 0 };
		snapshot_thread_brief(t, &who);
		wait_object_brief(s, &s->things.v[before->thing], &has);
		wait_object_brief(s, &s->things.v[step->thing], &wants);
		CLEANUP(mem_freep) char *waits = mem_printf("waits for %s", buf_cstr(&wants));
		struct value cells[] = { V_TEXT(buf_cstr(&who)), V_CODE(buf_cstr(&has)), V_CODE(buf_cstr(&wants)),
					 V_CODE(site_name(s, t)) };
		add_stack(s, t, waits, report_row(table, cells));
	}
}

/* ---- locks that threads wait for ---- */

static uint64_t between_ns(const struct deadlocks *d)
{
	return d->looks > 1 ? d->facts[1].at_ns - MIN(d->facts[1].at_ns, d->facts[0].at_ns) : 0;
}

static const struct snapshot_thread *holder_of(const struct thread_snapshot *s, const struct wait_object *thing)
{
	return &s->threads.v[s->holders.v[thing->first]];
}

/* The same lock of the same owner in the other look: objects may have moved meanwhile, names do not. */
static const struct snapshot_thread *same_holder(const struct thread_snapshot *s, const struct wait_object *thing,
						 const struct thread_snapshot *other)
{
	vec_each(t, &other->things)
		if (t->kind == thing->kind && t->n &&
		    holder_of(other, t)->managed_id == holder_of(s, thing)->managed_id &&
		    (thing->name ? str_eq(t->name, thing->name) : t->address == thing->address))
			return holder_of(other, t);
	return NULL;
}

/* Has it had the lock all the time? Sure when it did not run meanwhile. */
static bool kept_it(const struct thread_snapshot *s, const struct wait_object *thing,
		    const struct thread_snapshot *before)
{
	const struct snapshot_thread *then = same_holder(s, thing, before), *now = holder_of(s, thing);
	return then && snapshot_stood_still(then, now);
}

static bool is_lock(const struct wait_object *t)
{
	return t->kind <= WAIT_OBJECT_RWLOCK && t->n && !t->guessed;
}

/* The main thread of an async program blocks on the task of Main as long as the program runs. */
static bool is_main_program(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t site = snapshot_site(s, t);
	return t->managed_id == SNAPSHOT_MAIN_THREAD && snapshot_activity(s, t) == ACTIVITY_TASK && site + 1 == t->n &&
	       strstr(snapshot_frame(s, t, site)->name, "Main");
}

/* By class of wait objects that are alike: threads that wait for one of them; without the main thread of an async
 * program, if so wanted. The caller frees. */
static uint32_t *count_waiting(const struct thread_snapshot *s, bool all)
{
	CLEANUP(mem_freep) uint32_t *classes = wait_object_classes(s);
	uint32_t *n = mem_zalloc((s->things.n + 1) * sizeof(*n));
	vec_each(t, &s->threads)
		if (t->waits_for != SNAPSHOT_NONE && (all || !is_main_program(s, t)))
			n[classes[t->waits_for]]++;
	return n;
}

/* The lock that most wait for and that its owner has had from one look to the other; NULL = none. */
static const struct wait_object *held_long(const struct deadlocks *d, uint32_t *ret_waiting)
{
	const struct thread_snapshot *s = d->seen[d->looks - 1];
	const struct wait_object *best = NULL;
	*ret_waiting = 0;
	for (uint32_t i = 0; i < s->things.n && d->looks > 1; i++) {
		uint32_t waiting = thing_waiting(s, i);
		if (is_lock(&s->things.v[i]) && waiting > *ret_waiting && kept_it(s, &s->things.v[i], d->seen[0])) {
			best = &s->things.v[i];
			*ret_waiting = waiting;
		}
	}
	return best;
}

static void begin_locks(struct report *report, struct report_table **table)
{
	if (*table)
		return;
	*table = report_table(report, "What threads wait for");
	report_column(*table, "Waiting", VALUE_COUNT, COLUMN_MAIN);
	report_column(*table, "For", VALUE_CODE, 0);
	report_column(*table, "Who has it", VALUE_TEXT, 0);
	report_column(*table, "And meanwhile", VALUE_TEXT, 0);
}

/* Wait objects of which it is not known who holds them or will end the wait: alike ones together. */
static void add_open(struct report *report, struct report_table **table, const struct thread_snapshot *s)
{
	CLEANUP(mem_freep) uint32_t *waiting = count_waiting(s, true);
	uint64_t others = 0;
	size_t shown = 0;
	for (uint32_t i = 0; i < s->things.n; i++) {
		const struct wait_object *thing = &s->things.v[i];
		if (thing->n || !waiting[i] || wait_object_chain_end(s, thing)->n)
			continue;
		if (shown++ >= OPEN_SHOWN) {
			others += waiting[i];
			continue;
		}
		const char *more = wait_object_chain_end(s, thing)->more;
		CLEANUP(buf_free) struct buf name = { 0 };
		wait_object_class_words(s, i, true, &name);
		begin_locks(report, table);
		report_row(*table, (struct value[]){ V_COUNT(waiting[i]), V_CODE(buf_cstr(&name)), V_NONE,
						     more ? V_TEXT(more) : V_NONE });
	}
	if (others)
		report_rest(*table, (struct value[]){ V_COUNT(others), V_CODE("[others]"), V_NONE, V_NONE });
}

/* Stacks only when no circle has shown them. */
static void add_locks(struct report *report, const struct deadlocks *d, const struct thread_snapshot *s, bool stacks)
{
	struct report_table *table = NULL;
	for (uint32_t i = 0; i < s->things.n; i++) {
		const struct wait_object *thing = &s->things.v[i];
		uint32_t waiting = thing_waiting(s, i);
		if (!waiting || !thing->n || thing->kind == WAIT_OBJECT_THREAD)
			continue;
		begin_locks(report, &table);
		const struct snapshot_thread *holder = holder_of(s, thing);
		CLEANUP(buf_free) struct buf name = { 0 }, who = { 0 }, does = { 0 };
		wait_object_brief(s, thing, &name);
		if (thing->guessed)
			buf_str(&who, "probably ");
		snapshot_thread_brief(holder, &who);
		if (thing->n > 1)
			buf_printf(&who, " and %u more", thing->n - 1);
		snapshot_waits_words(s, holder, WORDS_BRIEF, &does);
		struct value cells[] = { V_COUNT(waiting), V_CODE(buf_cstr(&name)), V_TEXT(buf_cstr(&who)),
					 V_TEXT(buf_cstr(&does)) };
		struct report_row *row = report_row(table, cells);
		CLEANUP(buf_free) struct buf line = { 0 };
		snapshot_thread_words(holder, &line);
		if (d->looks > 1 && kept_it(s, thing, d->seen[0]))
			buf_printf(&line, ", has had it for at least %s", fmt_duration_ns(between_ns(d)).s);
		else if (d->looks > 1 && same_holder(s, thing, d->seen[0]))
			buf_printf(&line, ", in both looks");
		if (!stacks)
			continue;
		report_row_line(row, VALUE_TEXT, buf_cstr(&line), NULL);
		add_stack(s, holder, NULL, row);
	}
	add_open(report, &table, s);
}

/* ---- the report ---- */

/* The holder itself waits for a signal: perhaps from one of those who wait for what it holds. A timer that runs needs
 * none of them. */
static bool waits_for_signal(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	enum activity doing = snapshot_activity(s, t);
	bool timer = t->waits_for != SNAPSHOT_NONE &&
		     str_eq(wait_object_chain_end(s, &s->things.v[t->waits_for])->type, WAIT_OBJECT_TIMER);
	return activity_is_blocked(doing) && doing != ACTIVITY_LOCK && doing != ACTIVITY_RWLOCK && !timer;
}

static void say_held(struct rich *v, const struct deadlocks *d, const struct thread_snapshot *s,
		     const struct wait_object *thing, uint32_t waiting)
{
	const struct snapshot_thread *holder = holder_of(s, thing);
	CLEANUP(buf_free) struct buf name = { 0 }, who = { 0 }, does = { 0 };
	wait_object_words(s, thing, &name);
	snapshot_thread_words(holder, &who);
	snapshot_waits_words(s, holder, 0, &does);
	bool signal = waits_for_signal(s, holder);
	rich_text(v, signal ? "Perhaps a deadlock: " : "No deadlock, but ");
	rich_strong(v, "%s", fmt_plural(waiting, "thread waits", "threads wait").s);
	rich_text(v, " for ");
	rich_code(v, buf_cstr(&name));
	rich_text(v, ", which %s has had for at least %s: it %s in ", buf_cstr(&who), fmt_duration_ns(between_ns(d)).s,
		  buf_cstr(&does));
	rich_code(v, site_name(s, holder));
	rich_text(v, signal ? ". If one of those who wait shall end that, none of them will ever go on." : ".");
}

/* Threads that wait for semaphores whose holder is not known, and have not run since the first look. */
struct open_question {
	uint32_t threads, semaphores;
	const struct wait_object *first;
};

static struct open_question unanswered(const struct deadlocks *d, const struct thread_snapshot *s)
{
	struct open_question q = { 0 };
	for (uint32_t i = 0; i < s->things.n; i++) {
		const struct wait_object *thing = &s->things.v[i];
		uint32_t waiting = 0;
		if (!thing->taken || thing->n)
			continue;
		vec_each(t, &s->threads) {
			const struct snapshot_thread *then = NULL;
			for (size_t k = 0; k < d->seen[0]->threads.n && t->waits_for == i && d->looks > 1; k++)
				if (d->seen[0]->threads.v[k].managed_id == t->managed_id)
					then = &d->seen[0]->threads.v[k];
			waiting += t->waits_for == i && (d->looks < 2 || (then && snapshot_stood_still(then, t)));
		}
		if (!waiting)
			continue;
		q.first = q.first ? q.first : thing;
		q.threads += waiting;
		q.semaphores++;
	}
	return q;
}

static void say_question(struct rich *v, const struct deadlocks *d, const struct thread_snapshot *s,
			 struct open_question q)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	wait_object_words(s, q.first, &name);
	rich_text(v, "No circle was found, but ");
	rich_strong(v, "%s", fmt_plural(q.threads, "thread waits", "threads wait").s);
	rich_text(v, " for ");
	rich_code(v, buf_cstr(&name));
	if (q.semaphores == 1 && q.first->more)
		rich_text(v, " (%s)", q.first->more);
	if (q.semaphores > 1)
		rich_text(v, " and %s", fmt_plural(q.semaphores - 1, "other semaphore", "other semaphores").s);
	if (d->looks > 1)
		rich_text(v, " and did not run for %s", fmt_duration_ns(between_ns(d)).s);
	rich_text(v, ". A semaphore does not say who took it, so a deadlock cannot be ruled out.");
}

/* What most threads wait for, and how many do; SNAPSHOT_NONE = it is known of none. */
static uint32_t most_waited(const struct thread_snapshot *s, uint32_t *ret_waiting)
{
	CLEANUP(mem_freep) uint32_t *waiting = count_waiting(s, false);
	uint32_t best = SNAPSHOT_NONE;
	*ret_waiting = 0;
	for (uint32_t i = 0; i < s->things.n; i++) {
		if (waiting[i] <= *ret_waiting)
			continue;
		best = i;
		*ret_waiting = waiting[i];
	}
	return best;
}

/* A thread that waits for what only itself would run; NULL = none. In both looks, when there were two. */
static const struct snapshot_thread *waits_for_itself(const struct deadlocks *d, const struct thread_snapshot *s)
{
	vec_each(t, &s->threads) {
		bool posted =
			t->waits_for != SNAPSHOT_NONE && wait_object_chain_end(s, &s->things.v[t->waits_for])->posted;
		if (posted && d->looks < 2)
			return t;
		for (size_t i = 0; posted && i < d->seen[0]->threads.n; i++) {
			const struct snapshot_thread *then = &d->seen[0]->threads.v[i];
			if (then->managed_id == t->managed_id && snapshot_stood_still(then, t))
				return t;
		}
	}
	return NULL;
}

/* The pool's own machinery counts as its threads too. */
static bool is_worker(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_starts(snapshot_frame(s, t, i)->name, "System.Threading.PortableThreadPool.GateThread.") ||
		    str_starts(snapshot_frame(s, t, i)->name, "System.Threading.PortableThreadPool.WaitThread."))
			return false;
	return t->state & DAC_THREAD_POOL;
}

/* How many threads the pool has, if each blocks on a task that needs a thread of the pool to go on; else 0. */
static uint32_t blocked_pool(const struct deadlocks *d, const struct thread_snapshot *s)
{
	uint32_t n = 0;
	vec_each(t, &s->threads) {
		const struct wait_object *end =
			t->waits_for == SNAPSHOT_NONE ? NULL : wait_object_chain_end(s, &s->things.v[t->waits_for]);
		bool still = d->looks < 2;
		if (!is_worker(s, t))
			continue;
		if (!end || end->kind != WAIT_OBJECT_TASK || end->n ||
		    (!str_eq(end->more, WAIT_OBJECT_NOT_BEGUN) && !str_eq(end->more, WAIT_OBJECT_NEXT_PART)))
			return 0;
		for (size_t i = 0; !still && i < d->seen[0]->threads.n; i++)
			still = d->seen[0]->threads.v[i].managed_id == t->managed_id &&
				snapshot_stood_still(&d->seen[0]->threads.v[i], t);
		/* One that the pool has added meanwhile changes nothing: it blocks as well. */
		n += still;
	}
	return n >= POOL_LEAST ? n : 0;
}

static void say_pool(struct rich *v, const struct deadlocks *d, const struct thread_snapshot *s, uint32_t n)
{
	uint32_t waiting, most = most_waited(s, &waiting);
	CLEANUP(buf_free) struct buf what = { 0 };
	rich_strong(v, "All %u threads of the pool", n);
	rich_text(v, " block on tasks that only a thread of the pool could run");
	if (d->looks > 1)
		rich_text(v, ", and did not run for %s", fmt_duration_ns(between_ns(d)).s);
	if (most != SNAPSHOT_NONE) {
		wait_object_class_words(s, most, false, &what);
		rich_text(v, ": ");
		rich_code(v, buf_cstr(&what));
	}
	rich_text(v, ". The pool adds a thread now and then up to its limit; at the limit this is a deadlock.");
}

static void say_itself(struct rich *v, const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	CLEANUP(buf_free) struct buf who = { 0 }, what = { 0 };
	snapshot_thread_words(t, &who);
	wait_object_words(s, &s->things.v[t->waits_for], &what);
	rich_strong(v, "Probably a deadlock: ");
	rich_text(v, "%s blocks in ", buf_cstr(&who));
	rich_code(v, site_name(s, t));
	rich_text(v, " on ");
	rich_code(v, buf_cstr(&what));
	rich_text(
		v,
		snapshot_runs_exclusive(s, t)
			? ", which waits for its turn at a ConcurrentExclusiveSchedulerPair, and that very thread has "
			  "the turn."
			: ", whose next part waits to be run, and that very thread serves the synchronization context "
			  "that would run it.");
}

static size_t count_blocked(const struct thread_snapshot *s)
{
	size_t blocked = 0;
	vec_each(t, &s->threads)
		blocked += activity_is_blocked(snapshot_activity(s, t)) && !is_main_program(s, t);
	return blocked;
}

static void say_nothing(struct rich *v, const struct thread_snapshot *s)
{
	size_t blocked = count_blocked(s);
	rich_text(v, "No deadlock: no threads wait for each other in a circle.");
	if (!blocked)
		return;
	uint32_t waiting, most = most_waited(s, &waiting);
	rich_text(v, " %s for something", fmt_plural(blocked, "thread waits", "threads wait").s);
	if (!waiting) {
		rich_text(v, "; for what is not known.");
		return;
	}
	const struct snapshot_thread *one = NULL;
	unsigned alike = 0;
	CLEANUP(mem_freep) uint32_t *classes = wait_object_classes(s);
	vec_each(t, &s->threads) {
		if (t->waits_for == SNAPSHOT_NONE || classes[t->waits_for] != most || is_main_program(s, t))
			continue;
		one = one ? one : t;
		alike |= t->waits_for != one->waits_for ? WORDS_ALIKE : 0;
	}
	if (!one)
		return;
	CLEANUP(buf_free) struct buf words = { 0 };
	snapshot_waits_words(s, one, (waiting > 1 ? WORDS_SEVERAL : 0) | alike, &words);
	if (waiting < blocked)
		rich_text(v, "; %u of them %s.", waiting, buf_cstr(&words));
	else
		rich_text(v, blocked == 1 ? ": it %s." : ": they %s.", buf_cstr(&words));
}

static bool has_init(const struct thread_snapshot *s, const struct circles *cs)
{
	for (uint32_t i = 0; cs->v.n && i < cs->v.v[0].n; i++)
		if (s->things.v[cs->steps.v[cs->v.v[0].first + i].thing].kind == WAIT_OBJECT_INIT)
			return true;
	return false;
}

/* Only circles that are there in both looks, when there were two. */
static void keep_lasting(const struct deadlocks *d, const struct thread_snapshot *s, struct circles *cs)
{
	CLEANUP(circles_free) struct circles before = { 0 };
	if (d->looks < 2)
		return;
	circles_find(d->seen[0], &before);
	size_t kept = 0;
	for (size_t i = 0; i < cs->v.n; i++)
		if (circles_have(d->seen[0], &before, s, cs, &cs->v.v[i]))
			cs->v.v[kept++] = cs->v.v[i];
	cs->v.n = kept;
}

/* The finalizer thread has not moved from one look to the next, and waits for another thread. */
static bool finalizer_stuck(const struct deadlocks *d, const struct thread_snapshot *s)
{
	const struct snapshot_thread *now = snapshot_finalizer(s);
	const struct snapshot_thread *then = d->looks > 1 ? snapshot_finalizer(d->seen[0]) : NULL;
	return now && then && activity_is_blocked(snapshot_activity(s, now)) && snapshot_stood_still(then, now);
}

/* Does it wait for the lock that most wait for? Where there is no such lock, for anything. */
static bool is_behind(const struct thread_snapshot *s, const struct wait_object *held)
{
	const struct snapshot_thread *t = snapshot_finalizer(s);
	return !held || (t && t->waits_for != SNAPSHOT_NONE && &s->things.v[t->waits_for] == held);
}

static void say_finalizer(struct rich *v, const struct deadlocks *d, const struct thread_snapshot *s,
			  const struct wait_object *held)
{
	snapshot_finalizer_say(s, "", v);
	if (!held)
		return;
	const struct snapshot_thread *holder = holder_of(s, held);
	CLEANUP(buf_free) struct buf who = { 0 }, does = { 0 };
	snapshot_thread_words(holder, &who);
	snapshot_waits_words(s, holder, 0, &does);
	rich_text(v, " %s has had that lock for at least %s: it %s in ", buf_cstr(&who),
		  fmt_duration_ns(between_ns(d)).s, buf_cstr(&does));
	rich_code(v, site_name(s, holder));
	rich_text(v, ".");
}

/* So many wait for the console logger, in both looks. */
static uint32_t logging(const struct deadlocks *d, const struct snapshot_thread **ret_one)
{
	uint32_t n = snapshot_logger_waits(d->seen[0], ret_one);
	if (d->looks > 1)
		n = MIN(n, snapshot_logger_waits(d->seen[d->looks - 1], ret_one));
	return n >= LOGGING_LEAST ? n : 0;
}

static void say_logging(struct rich *v, const struct thread_snapshot *s, const struct snapshot_thread *one, uint32_t n)
{
	rich_strong(v, "Logging to the console holds up %s", fmt_plural(n, "thread", "threads").s);
	rich_text(v, ", one of them in ");
	rich_code(v, site_name(s, one));
	rich_text(v, ": the logger's queue is full, since what reads the console is slower than what is logged.");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct deadlocks *d = exam->state;
	const struct thread_snapshot *s = d->seen[d->looks - 1];
	CLEANUP(circles_free) struct circles cs = { 0 };
	uint32_t waiting = 0;
	circles_find(s, &cs);
	keep_lasting(d, s, &cs);
	const struct wait_object *held = cs.v.n ? NULL : held_long(d, &waiting);
	const struct snapshot_thread *itself = cs.v.n ? NULL : waits_for_itself(d, s);
	uint32_t pool = cs.v.n || itself ? 0 : blocked_pool(d, s);
	/* What holds up all finalizers is said first, and with it who has the lock that they wait for. */
	bool stuck = !cs.v.n && !itself && !pool && finalizer_stuck(d, s) && is_behind(s, held);
	const struct snapshot_thread *logs = NULL;
	uint32_t logging_n = cs.v.n || itself || pool || stuck || held ? 0 : logging(d, &logs);
	bool found = cs.v.n || held || itself || pool || stuck || logging_n;
	struct open_question question = found ? (struct open_question){ 0 } : unanswered(d, s);
	const char *finding = cs.v.n	  ? (cs.v.v[0].guessed ? "deadlock-likely" : "deadlock")
			      : itself	  ? "deadlock-itself"
			      : pool	  ? "pool-blocked"
			      : stuck	  ? "finalizer-blocked"
			      : held	  ? (waits_for_signal(s, holder_of(s, held)) ? "held-waiting" : "held-long")
			      : logging_n ? "logging-blocks"
			      : question.threads ? "semaphore-taken"
						 : "nothing-found";
	enum report_health health = str_eq(finding, "deadlock") ? REPORT_BAD
				    : found			? REPORT_WARN
				    : question.threads		? REPORT_INFO
								: REPORT_OK;
	struct rich *v = report_verdict(report, health, finding);
	if (cs.v.n)
		say_circle(v, s, &cs, &cs.v.v[0], d->looks > 1 || d->facts[0].core);
	else if (itself)
		say_itself(v, s, itself);
	else if (pool)
		say_pool(v, d, s, pool);
	else if (stuck)
		say_finalizer(v, d, s, held);
	else if (held)
		say_held(v, d, s, held, waiting);
	else if (logging_n)
		say_logging(v, s, logs, logging_n);
	else if (question.threads)
		say_question(v, d, s, question);
	else
		say_nothing(v, s);
	if (!stuck)
		snapshot_finalizer_say(s, " ", v);
	if (cs.v.n > 1)
		rich_text(v, " %s.", fmt_plural(cs.v.n - 1, "more circle", "more circles").s);
	bool many = str_eq(finding, "nothing-found") && count_blocked(s) >= MANY;
	report_advice(report, exam->profiler, has_init(s, &cs) ? "deadlock-init" : many ? "many-wait" : finding);
	for (size_t i = 0; i < cs.v.n && i < CIRCLES_SHOWN; i++)
		add_circle(report, s, &cs, &cs.v.v[i], i + 1);
	add_locks(report, d, s, !cs.v.n);
	image_exam_how(report, d->facts, d->looks);
	report_how(report, "Threads", V_COUNT(s->threads.n), NULL);
	return NULL;
}

static void free_state(void *state)
{
	struct deadlocks *d = state;
	thread_snapshot_free(d->seen[0]);
	thread_snapshot_free(d->seen[1]);
	mem_free(d);
}

const struct profiler profiler_deadlocks = {
	.id = "deadlocks",
	.uuid = "3C8F0F4E-5E0B-4A3B-9C35-6F0F5D7B1C52",
	.name = "Deadlocks",
	.chapter = CHAPTER_THREADS,
	.label = "It hangs, or some requests never end",
	.symptom = "it hangs, or some requests never end",
	.description =
		"Follows what every blocked thread waits for to who has it: lock and Monitor, System.Threading.Lock, "
		"ReaderWriterLockSlim, SemaphoreSlim used as a lock, Thread.Join, and tasks that threads block on, "
		"through the async methods that they await. Looks twice: a circle counts only when it lasts. Without "
		"one it says which lock is held all the time and by whom.",
	.cost = "two pauses of a few milliseconds; everything is read from copies",
	.params =
		(const struct param[]){
			PARAM_INTERVAL("2", "A circle, or a lock that is held, counts when it is there in both."),
			PARAM_MAX_PAUSE,
		},
	.n_params = 2,
	.looks = looks,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "deadlock", "Only a restart frees them now. To mend it: take these locks in the same order "
				      "everywhere, and never block on a task while holding one." },
			{ "deadlock-init",
			  "Only a restart frees them now. To mend it: a static constructor must not wait for "
			  "another thread; begin that work from a method, or make it lazy." },
			{ "deadlock-itself",
			  "Await the task instead of blocking on it; or use ConfigureAwait(false) in what "
			  "it awaits, so that its next part needs no particular thread or turn." },
			{ "deadlock-likely",
			  "A semaphore does not say who took it; look at the stacks: does each really have what the "
			  "other waits for? If so, take them in the same order everywhere." },
			{ "semaphore-taken", "Run merged-call-stacks: do the threads that wait come from code that has "
					     "taken another semaphore before?" },
			{ "pool-blocked",
			  "Await these tasks instead of blocking on them (.Result, .Wait(), Task.WaitAll); "
			  "thread-pool shows how much work waits behind them." },
			{ "held-waiting",
			  "Never wait for a signal while holding a lock that whoever signals may need; give "
			  "that wait a time limit to see it fail." },
			{ "finalizer-blocked",
			  "Finalizers run one after another on one thread: one that waits holds up all others, and what "
			  "they should free. A finalizer must not take locks or wait; free in Dispose instead." },
			{ "logging-blocks",
			  "Log less, or to where it is read as fast as it comes. The console logger can drop what does not "
			  "fit instead of waiting: ConsoleLoggerOptions.QueueFullMode = DropWrite." },
			{ "many-wait", "Run merged-call-stacks: it shows where they wait." },
			{ "held-long", "Look at what the owner does while it has the lock (its stack below); "
				       "lock-contention measures how long the waits are." },
		},
	.n_advice = 11,
	.runs = (const struct advice_run[]){ { "semaphore-taken", "merged-call-stacks" },
					     { "pool-blocked", "thread-pool" },
					     { "many-wait", "merged-call-stacks" },
					     { "held-long", "lock-contention" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
