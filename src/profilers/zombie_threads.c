/* Threads that should have ended: alive without running, lost to the thread pool, preventing the process's end, ended
 * and still referred to. Two looks; the kernel says which threads did not run between them. */

#include "base/fmt.h"
#include "base/str.h"
#include "threads/thread_groups.h"
#include "threads/kept_threads.h"
#include "exam/profiler.h"

#define FIRST "zombies"
#define SECOND "zombies-2"
#define THIRD "zombies-3"
#define LOOKS_MAX 3
#define VERSION 2
#define DEAD_MANY 100 /* ended threads that are kept */
#define GROWN_LEAST 3 /* threads more than before */
#define COME_LEAST 10 /* threads that were not there before, while as many have ended */
#define MANY 10	      /* that wait alike: fewer are the loops of an ordinary program that have no work */

struct one_look {
	struct thread_snapshot *seen;
	struct kept_threads kept;
	struct image_exam_facts facts;
};

struct zombies {
	struct one_look looks[LOOKS_MAX]; /* the third only when threads came between the others */
	size_t n;
};

static struct err *drain(void *user, struct image_exam *look, struct buf *out)
{
	TRY(thread_snapshot_drain(user, look, out));
	kept_threads_drain(look, out);
	return NULL;
}

static struct err *take(void *user, struct cursor *in)
{
	struct one_look *l = user;
	TRY(thread_snapshot_take(&l->seen, in));
	return kept_threads_take(&l->kept, in);
}

#define LOOK(called)                                                                                                   \
	{                                                                                                              \
		.name = (called), .version = VERSION, .drain = drain                                                   \
	}
static const struct image_exam_part looks[] = { LOOK(FIRST), LOOK(SECOND), LOOK(THIRD), { 0 } };

static struct image_exam_part part(const struct image_exam_part *look, struct one_look *seen)
{
	struct image_exam_part part = *look;
	part.take = take;
	part.user = seen;
	return part;
}

/* Threads of the application's own in a look: the pool and the runtime know what they do. */
static size_t own_threads(const struct thread_snapshot *s)
{
	size_t n = 0;
	vec_each(t, &s->threads)
		n += !(t->state & DAC_THREAD_POOL) && snapshot_activity(s, t) != ACTIVITY_IDLE;
	return n;
}

/* How many more there are at the last look; 0 when they were fewer at it than at one before: then they come and go. */
static size_t grown(const struct zombies *z)
{
	size_t n[LOOKS_MAX] = { 0 };
	for (size_t i = 0; i < z->n; i++) {
		n[i] = own_threads(z->looks[i].seen);
		if (i && n[i] < n[i - 1])
			return 0;
	}
	return z->n > 1 ? n[z->n - 1] - n[0] : 0;
}

static struct err *run(struct exam *exam)
{
	struct zombies *z = exam->state = mem_zalloc(sizeof(*z));
	struct image_exam_part parts[LOOKS_MAX] = { part(&looks[0], &z->looks[0]), part(&looks[1], &z->looks[1]),
						    part(&looks[2], &z->looks[2]) };
	struct err *err = exam_image_twice(exam, parts, &z->n);
	/* Whether they stay shows only in a third. */
	if (!err && grown(z) >= GROWN_LEAST && exam_image_next(exam, &parts[2]))
		z->n++;
	for (size_t i = 0; i < z->n; i++)
		z->looks[i].facts = parts[i].facts;
	return err;
}

/* ---- threads that did not run ---- */

/* The same thread in another look; NULL = it was not there. */
static const struct snapshot_thread *at_look(const struct zombies *z, const struct snapshot_thread *t, size_t look)
{
	vec_each(then, &z->looks[look].seen->threads)
		if (then->managed_id == t->managed_id && then->os_id == t->os_id)
			return then;
	return NULL;
}

/* Between each look and the next: a look itself makes all of them run. */
static bool never_ran(const struct zombies *z, const struct snapshot_thread *t)
{
	for (size_t i = z->n - 1; i > 0; i--) {
		const struct snapshot_thread *then = at_look(z, t, i - 1);
		if (!then || !snapshot_stood_still(then, t))
			return false;
		t = then;
	}
	return true;
}

struct still {
	size_t all, pool, foreground, new;
	size_t stuck; /* of those that are neither the pool's nor foreground: they wait for what others should give back */
	bool main_out; /* the main thread has left the program's code: the process ends when foreground threads do */
	bool *is;      /* by thread of the last look */
};

/* A core is one instant: then all that wait are suspects. */
static bool stood_still(const struct zombies *z, const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	enum activity doing = snapshot_activity(s, t);
	if (doing == ACTIVITY_IDLE || doing == ACTIVITY_RUNS || !t->n)
		return false;
	return z->n < 2 ? activity_is_blocked(doing) : never_ran(z, t);
}

static bool is_foreground(const struct snapshot_thread *t)
{
	return !(t->state & (DAC_THREAD_BACKGROUND | DAC_THREAD_POOL)) && t->managed_id != SNAPSHOT_MAIN_THREAD;
}

/* A thread that waits for work, a signal or the clock may be a loop that has nothing to do; for these it may not. */
static bool is_stuck(enum activity doing)
{
	return doing == ACTIVITY_LOCK || doing == ACTIVITY_RWLOCK || doing == ACTIVITY_ROOM || doing == ACTIVITY_INIT;
}

/* Main has returned: the runtime waits for the foreground threads. */
static bool has_left(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	return t->managed_id == SNAPSHOT_MAIN_THREAD && snapshot_site(s, t) == t->n;
}

static struct still find_still(const struct zombies *z)
{
	const struct thread_snapshot *s = z->looks[z->n - 1].seen;
	struct still still = { .is = mem_zalloc((s->threads.n + 1) * sizeof(bool)) };
	for (size_t i = 0; i < s->threads.n; i++) {
		const struct snapshot_thread *t = &s->threads.v[i];
		still.new += z->n > 1 && !at_look(z, t, 0);
		/* A thread that waits for the process's end or for its threads is as intended. */
		still.is[i] = t->managed_id != SNAPSHOT_MAIN_THREAD && stood_still(z, s, t);
		still.all += still.is[i];
		still.pool += still.is[i] && t->state & DAC_THREAD_POOL;
		still.foreground += still.is[i] && is_foreground(t);
		still.stuck += still.is[i] && !(t->state & DAC_THREAD_POOL) && is_stuck(snapshot_activity(s, t));
		still.main_out |= has_left(s, t);
	}
	return still;
}

/* ---- verdict ---- */

static uint64_t between_ns(const struct zombies *z)
{
	uint64_t last_ns = z->looks[z->n - 1].facts.at_ns;
	return last_ns - MIN(last_ns, z->looks[0].facts.at_ns);
}

/* The largest group with such threads among those that did not run; NULL = none. */
static const struct thread_group *largest(const struct thread_snapshot *s, const struct thread_groups *gs,
					  const struct still *still, bool (*want)(const struct snapshot_thread *t),
					  size_t *ret_n)
{
	const struct thread_group *best = NULL;
	*ret_n = 0;
	vec_each(g, &gs->v) {
		size_t n = 0;
		for (uint32_t i = 0; i < g->n; i++) {
			uint32_t thread = gs->members.v[g->first + i];
			n += still->is[thread] && want(&s->threads.v[thread]);
		}
		if (n > *ret_n) {
			best = g;
			*ret_n = n;
		}
	}
	return best;
}

static bool is_pool(const struct snapshot_thread *t)
{
	return t->state & DAC_THREAD_POOL;
}

static bool is_any(const struct snapshot_thread *t)
{
	(void)t;
	return true;
}

static void say_place(struct rich *v, const struct thread_snapshot *s, const struct thread_groups *gs,
		      const struct still *still, bool (*want)(const struct snapshot_thread *t), size_t of)
{
	size_t n;
	const struct thread_group *g = largest(s, gs, still, want, &n);
	if (!g)
		return;
	rich_text(v, n < of ? ", %zu of them in " : " in ", n);
	rich_code(v, thread_group_site(s, g));
}

static void say_since(struct rich *v, size_t n, const char *since)
{
	if (since)
		rich_text(v, " %s %s", n == 1 ? "has" : "have", since);
	else
		rich_text(v, n == 1 ? " is blocked" : " are blocked");
}

/* Where most of the new ones are. */
static void say_new(struct rich *v, const struct zombies *z, const struct thread_groups *gs)
{
	const struct thread_snapshot *s = z->looks[z->n - 1].seen;
	const struct thread_group *best = NULL;
	size_t most = 0;
	vec_each(g, &gs->v) {
		size_t n = 0;
		for (uint32_t i = 0; i < g->n; i++)
			n += !at_look(z, &s->threads.v[gs->members.v[g->first + i]], 0);
		if (n > most) {
			best = g;
			most = n;
		}
	}
	if (!best)
		return;
	rich_text(v, "; most of the new ones are in ");
	rich_code(v, thread_group_site(s, best));
}

/* Ended threads that a collection would take are no leak. */
static bool keeps_ended(const struct zombies *z)
{
	const struct kept_threads *kept = &z->looks[z->n - 1].kept;
	return kept->dead >= DEAD_MANY && (kept->holders.n || kept->cut);
}

/* One for each piece of work: many have ended, and others came in their place. */
static bool come_and_go(const struct zombies *z, const struct still *still)
{
	return z->looks[z->n - 1].kept.dead >= DEAD_MANY && still->new >= COME_LEAST;
}

static void say_all(struct rich *v, const struct zombies *z, const struct thread_groups *gs, const struct still *still)
{
	const struct thread_snapshot *s = z->looks[z->n - 1].seen;
	const struct kept_threads *kept = &z->looks[z->n - 1].kept;
	CLEANUP(mem_freep)
	char *since = z->n > 1 ? mem_printf("not run for %s", fmt_duration_ns(between_ns(z)).s) : NULL;
	if (grown(z) >= GROWN_LEAST)
		rich_strong(v, z->n > 2 ? "%s came in %s and stayed. " : "%s came in %s. ",
			    fmt_plural(grown(z), "thread", "threads").s, fmt_duration_ns(between_ns(z)).s);
	if (still->pool) {
		rich_strong(v, "%s", fmt_plural(still->pool, "pool thread", "pool threads").s);
		say_since(v, still->pool, since);
		say_place(v, s, gs, still, is_pool, still->pool);
		rich_text(v, ": lost to the pool. ");
	}
	if (keeps_ended(z)) {
		rich_strong(v, "%s ended threads", fmt_count(kept->dead).s);
		rich_text(v, " are still kept");
		if (kept->holders.n) {
			if (kept->holders.v[0].n < kept->dead)
				rich_text(v, ", %s of them", fmt_count(kept->holders.v[0].n).s);
			rich_text(v, " by ");
			rich_code(v, kept->holders.v[0].name);
		}
		rich_text(v, ". ");
	}
	if (!keeps_ended(z) && come_and_go(z, still)) {
		rich_strong(v, "Threads come and go: ");
		rich_text(v, "%s of those there now came in %s, and %s have ended since a collection",
			  fmt_count(still->new).s, fmt_duration_ns(between_ns(z)).s, fmt_count(kept->dead).s);
		say_new(v, z, gs);
		rich_text(v, ". ");
	}
	if (still->foreground) {
		rich_strong(v, "%s", fmt_plural(still->foreground, "foreground thread", "foreground threads").s);
		say_since(v, still->foreground, since);
		say_place(v, s, gs, still, is_foreground, still->foreground);
		rich_text(v, "; the process cannot end before %s. ", still->foreground > 1 ? "they do" : "it does");
	}
	size_t others = still->all - still->pool - still->foreground;
	if (others && !still->pool && !(still->foreground && still->main_out)) {
		rich_text(v, "%s", fmt_plural(others, "thread", "threads").s);
		say_since(v, others, since);
		say_place(v, s, gs, still, is_any, others);
		rich_text(v, ".");
	}
}

/* So many wait in one place. */
static size_t crowd(const struct thread_snapshot *s, const struct thread_groups *gs, const struct still *still)
{
	size_t n;
	largest(s, gs, still, is_any, &n);
	return n;
}

static const char *finding_of(const struct zombies *z, const struct thread_groups *gs, const struct still *still)
{
	if (grown(z) >= GROWN_LEAST)
		return "growing";
	if (still->pool)
		return "lost-pool-threads";
	if (keeps_ended(z))
		return "ended-threads-kept";
	if (come_and_go(z, still))
		return "come-and-go";
	if (still->foreground && still->main_out)
		return "foreground-waits";
	bool many = crowd(z->looks[z->n - 1].seen, gs, still) >= MANY;
	return many || still->stuck ? "no-progress" : "nothing-found";
}

static void say_nothing(struct rich *v, const struct zombies *z, const struct still *still)
{
	if (!still->all) {
		rich_text(v, "No zombies: every thread of the application runs now and then, and none has ended and is "
			     "kept in number.");
		return;
	}
	rich_text(
		v,
		"No zombies: no thread is lost to the pool, none pile up, and none has ended and is kept in number. ");
	if (z->n > 1)
		rich_text(v, "%s for %s, as loops without work do.",
			  fmt_plural(still->all, "thread waited", "threads waited").s,
			  fmt_duration_ns(between_ns(z)).s);
	else
		rich_text(v, "%s, as loops without work do.", fmt_plural(still->all, "thread waits", "threads wait").s);
}

static void add_verdict(struct exam *exam, struct report *report, const struct zombies *z,
			const struct thread_groups *gs, const struct still *still)
{
	const char *finding = finding_of(z, gs, still);
	bool nothing = str_eq(finding, "nothing-found");
	bool mild = str_eq(finding, "no-progress") || str_eq(finding, "foreground-waits");
	struct rich *v = report_verdict(report, nothing ? REPORT_OK : mild ? REPORT_INFO : REPORT_WARN, finding);
	const struct one_look *last = &z->looks[z->n - 1];
	if (nothing)
		say_nothing(v, z, still);
	else
		say_all(v, z, gs, still);
	bool lock = str_eq(finding, "no-progress") && still->stuck;
	report_advice(report, exam->profiler, lock ? "no-progress-lock" : finding);
	report_figure(report, "Threads", V_COUNT(last->seen->threads.n), NULL);
	report_figure(report, z->n > 1 ? "Did not run" : "Blocked", V_COUNT(still->all),
		      "without idle ones of the runtime");
	report_figure(report, "Of the pool", V_COUNT(still->pool), NULL);
	report_figure(report, "New", z->n > 1 ? V_COUNT(still->new) : V_NONE, "since the first look");
	report_figure(report, "Ended, but kept", V_COUNT(last->kept.dead), NULL);
}

/* ---- tables ---- */

static void add_still(struct report *report, const struct thread_snapshot *s, const struct thread_groups *gs,
		      const struct still *still)
{
	struct report_table *table = NULL;
	vec_each(g, &gs->v) {
		size_t n = 0, pool = 0, foreground = 0;
		for (uint32_t i = 0; i < g->n; i++) {
			uint32_t thread = gs->members.v[g->first + i];
			n += still->is[thread];
			pool += still->is[thread] && is_pool(&s->threads.v[thread]);
			foreground += still->is[thread] && is_foreground(&s->threads.v[thread]);
		}
		if (!n)
			continue;
		if (!table) {
			table = report_table(report, "Threads that did not run");
			report_column(table, "Threads", VALUE_COUNT, COLUMN_MAIN);
			report_column(table, "Where", VALUE_CODE, 0);
			report_column(table, "What", VALUE_TEXT, 0);
			report_column(table, "Of", VALUE_TEXT, 0);
		}
		CLEANUP(buf_free) struct buf words = { 0 };
		thread_group_words(s, gs, g, true, &words);
		struct value cells[] = { V_COUNT(n), V_CODE(thread_group_site(s, g)), V_TEXT(buf_cstr(&words)),
					 V_TEXT(pool	     ? "the pool"
						: foreground ? "foreground"
							     : "background") };
		thread_group_lines(s, gs, g, report_row(table, cells));
	}
}

static void add_kept(struct report *report, const struct kept_threads *kept)
{
	if (!kept->holders.n)
		return;
	struct report_table *table = report_table(report, "Who keeps ended threads");
	report_column(table, "Holder", VALUE_CODE, 0);
	report_column(table, "Threads", VALUE_COUNT, COLUMN_MAIN | COLUMN_BAR);
	vec_each(h, &kept->holders)
		report_row(table, (struct value[]){ V_CODE(h->name), V_COUNT(h->n) });
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct zombies *z = exam->state;
	const struct one_look *last = &z->looks[z->n - 1];
	struct image_exam_facts facts[LOOKS_MAX] = { z->looks[0].facts, z->looks[1].facts, z->looks[2].facts };
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	struct still still = find_still(z);
	thread_groups_make(last->seen, &gs);
	add_verdict(exam, report, z, &gs, &still);
	add_still(report, last->seen, &gs, &still);
	add_kept(report, &last->kept);
	image_exam_how(report, facts, z->n);
	if (last->kept.dead && last->kept.cut)
		report_how(report, "Holders", V_TEXT("not all"), "the search from static fields has a limit");
	mem_free(still.is);
	return NULL;
}

static void free_state(void *state)
{
	struct zombies *z = state;
	for (size_t i = 0; i < ARRAY_SIZE(z->looks); i++) {
		thread_snapshot_free(z->looks[i].seen);
		kept_threads_free(&z->looks[i].kept);
	}
	mem_free(z);
}

const struct profiler profiler_zombie_threads = {
	.id = "zombie-threads",
	.uuid = "D2B4C0C6-0B1D-4C3E-8D5C-8F4F7A0E6B21",
	.name = "Zombie threads",
	.chapter = CHAPTER_THREADS,
	.label = "The number of threads grows",
	.symptom = "the number of threads grows, or the process does not end",
	.description =
		"Finds threads that are there and do nothing: those that did not run at all between two looks, by "
		"what they wait for; pool threads lost in calls that do not return; foreground threads that "
		"keep the process from ending; threads that came and stayed; and ended ones whose Thread "
		"objects are still kept, by whom.",
	.cost = "two pauses of a few milliseconds; everything is read from copies",
	.params =
		(const struct param[]){
			PARAM_INTERVAL("5", "A thread that does not run at all in this time counts."),
			PARAM_MAX_PAUSE,
		},
	.n_params = 2,
	.looks = looks,
	.ways = { WAY_IMAGE, WAY_AGENT },
	.advice =
		(const struct advice[]){
			{ "growing",
			  "Who starts them, and who should end them? Give the work to the pool, or one thread a "
			  "queue; each needs a way to be told to stop." },
			{ "lost-pool-threads",
			  "Give that call a time limit or a CancellationToken, or await it; work that "
			  "blocks for good belongs on a thread of its own." },
			{ "ended-threads-kept",
			  "Remove threads from that collection when they have ended; each keeps a "
			  "Thread object and its runtime structure alive." },
			{ "come-and-go",
			  "A thread for each piece of work costs its start and its stack, and nothing limits how many there "
			  "are: await that work, or give it to the pool." },
			{ "foreground-waits",
			  "Set IsBackground = true on threads that need not finish their work, or tell "
			  "them to stop before the program ends." },
			{ "no-progress", "Run merged-call-stacks: it shows where they wait, and for what." },
			{ "no-progress-lock",
			  "Run deadlocks: it says who has what they wait for, and whether it will ever be given "
			  "back." },
		},
	.n_advice = 7,
	.runs = (const struct advice_run[]){ { "no-progress", "merged-call-stacks" },
					     { "no-progress-lock", "deadlocks" },
					     { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
