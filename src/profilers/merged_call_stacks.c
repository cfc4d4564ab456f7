/* Every managed thread at one instant, merged: what do how many of them do where? */

#include "base/fmt.h"
#include "base/str.h"
#include "threads/thread_groups.h"
#include "exam/profiler.h"

#define TITLE "Threads that do the same"
#define MANY 3		/* threads at one place are worth a word */
#define QUEUE_SHARE 0.2 /* so many of them at one lock are the verdict */
#define CROWD_SHARE 0.5 /* of all that are not idle: then it is the verdict */

struct stacks_merged {
	struct thread_snapshot *seen;
	struct image_exam_facts facts;
	uint64_t lost;
	bool by_events;
};

static struct err *run(struct exam *exam)
{
	struct stacks_merged *m = exam->state = mem_zalloc(sizeof(*m));
	if (exam->way == WAY_EVENTS) {
		m->by_events = true;
		return thread_snapshot_by_events(exam, &m->seen, &m->lost);
	}
	struct image_exam_part part = { .name = "threads",
					.version = THREAD_SNAPSHOT_VERSION,
					.drain = thread_snapshot_drain,
					.take = thread_snapshot_take,
					.user = &m->seen };
	TRY(exam_image(exam, &part));
	m->facts = part.facts;
	return NULL;
}

struct counts {
	size_t all, idle, running, blocked, pool, pool_blocked, pool_sockets;
};

static struct counts count(const struct thread_snapshot *s)
{
	struct counts c = { .all = s->threads.n };
	vec_each(t, &s->threads) {
		enum activity doing = snapshot_activity(s, t);
		bool pool = t->state & DAC_THREAD_POOL && doing != ACTIVITY_IDLE;
		c.idle += doing == ACTIVITY_IDLE;
		c.running += doing == ACTIVITY_RUNS;
		c.blocked += activity_is_blocked(doing);
		c.pool += pool;
		c.pool_blocked += pool && activity_keeps_worker(doing);
		c.pool_sockets += pool && doing == ACTIVITY_SOCKET;
	}
	return c;
}

static void say_group(struct rich *v, const struct thread_snapshot *s, const struct thread_groups *gs,
		      const struct thread_group *g)
{
	CLEANUP(buf_free) struct buf words = { 0 };
	thread_group_words(s, gs, g, false, &words);
	rich_strong(v, "%s", fmt_plural(g->n, "thread", "threads").s);
	rich_text(v, " in ");
	rich_code(v, thread_group_site(s, g));
	rich_text(v, " %s.", buf_cstr(&words));
}

/* The lock that most threads wait for, and how many; SNAPSHOT_NONE when no thread waits. */
static uint32_t busiest_lock(const struct thread_snapshot *s, uint32_t *ret_waiting)
{
	uint32_t best = SNAPSHOT_NONE;
	*ret_waiting = 0;
	for (uint32_t i = 0; i < s->things.n; i++) {
		uint32_t waiting = 0;
		if (s->things.v[i].kind > WAIT_OBJECT_RWLOCK || !s->things.v[i].n)
			continue;
		vec_each(t, &s->threads)
			waiting += t->waits_for == i;
		if (waiting > *ret_waiting) {
			best = i;
			*ret_waiting = waiting;
		}
	}
	return best;
}

static void say_lock(struct rich *v, const struct thread_snapshot *s, uint32_t lock, uint32_t waiting)
{
	const struct wait_object *thing = &s->things.v[lock];
	CLEANUP(buf_free) struct buf name = { 0 }, holder = { 0 };
	wait_object_words(s, thing, &name);
	snapshot_thread_words(&s->threads.v[s->holders.v[thing->first]], &holder);
	rich_strong(v, "%s", fmt_plural(waiting, "thread", "threads").s);
	rich_text(v, " wait for ");
	rich_code(v, buf_cstr(&name));
	rich_text(v, ", which %s %s. ", buf_cstr(&holder), thing->guessed ? "probably has" : "has");
}

static void add_verdict(struct exam *exam, struct report *report, const struct thread_snapshot *s,
			const struct thread_groups *gs)
{
	struct counts c = count(s);
	const struct thread_group *top = gs->v.n && gs->v.v[0].doing != ACTIVITY_IDLE ? &gs->v.v[0] : NULL;
	size_t awake = c.all - c.idle;
	uint32_t waiting, lock = busiest_lock(s, &waiting);
	bool queue = waiting >= MANY && (double)waiting >= QUEUE_SHARE * (double)awake;
	bool crowd = top && top->n >= MANY && (double)top->n >= CROWD_SHARE * (double)awake;
	bool pool = c.pool_blocked >= MANY && c.pool_blocked * 2 >= c.pool;
	const char *finding = queue ? "lock-queue" : pool ? "pool-blocked" : crowd ? "crowd" : "seen";
	struct rich *v = report_verdict(report, queue || pool ? REPORT_WARN : REPORT_INFO, finding);
	if (queue)
		say_lock(v, s, lock, waiting);
	rich_text(v, "%s: %s blocked, %s running, %s idle. ", fmt_plural(c.all, "managed thread", "managed threads").s,
		  fmt_count(c.blocked).s, fmt_count(c.running).s, fmt_count(c.idle).s);
	if (pool && !queue)
		rich_text(v, "%s of %s pool threads at work are blocked%s. ", fmt_count(c.pool_blocked).s,
			  fmt_count(c.pool).s,
			  !c.pool_sockets		    ? ""
			  : c.pool_sockets < c.pool_blocked ? ", some of them by a socket"
							    : " by a socket");
	if (top && top->n >= MANY && !queue)
		say_group(v, s, gs, top);
	snapshot_finalizer_say(s, top && top->n >= MANY && !queue ? " " : "", v);
	report_advice(report, exam->profiler, finding);
	report_figure(report, "Threads", V_COUNT(c.all), NULL);
	report_figure(report, "Blocked", V_COUNT(c.blocked), "until another thread acts");
	report_figure(report, "Running", V_COUNT(c.running), NULL);
	report_figure(report, "Elsewhere", V_COUNT(c.all - c.blocked - c.running - c.idle),
		      "I/O, the clock, native code");
	report_figure(report, "Idle", V_COUNT(c.idle), "the runtime's own");
}

static void add_groups(struct report *report, const struct thread_snapshot *s, const struct thread_groups *gs)
{
	struct report_table *table = report_table(report, TITLE);
	report_column(table, "Threads", VALUE_COUNT, 0);
	report_column(table, "Where", VALUE_CODE, COLUMN_MAIN);
	report_column(table, "What", VALUE_TEXT, COLUMN_MAIN);
	vec_each(g, &gs->v) {
		CLEANUP(buf_free) struct buf words = { 0 };
		thread_group_words(s, gs, g, true, &words);
		struct value cells[] = { V_COUNT(g->n), V_CODE(thread_group_site(s, g)), V_TEXT(buf_cstr(&words)) };
		thread_group_lines(s, gs, g, report_row(table, cells));
	}
}

static void add_how(struct report *report, const struct stacks_merged *m)
{
	size_t lost = 0;
	if (m->by_events) {
		report_how(report, "Way", V_TEXT("events"),
			   "the runtime's own sampler: where threads stand, but not what they wait for");
		report_how(report, "Lost", V_COUNT(m->lost), NULL);
		return;
	}
	image_exam_how(report, &m->facts, 1);
	vec_each(t, &m->seen->threads)
		lost += t->lost;
	if (lost)
		report_how(report, "Stacks cut short", V_COUNT(lost), "the image lacks what is needed to follow them");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	const struct stacks_merged *m = exam->state;
	CLEANUP(thread_groups_free) struct thread_groups groups = { 0 };
	thread_groups_make(m->seen, &groups);
	add_verdict(exam, report, m->seen, &groups);
	add_groups(report, m->seen, &groups);
	add_how(report, m);
	return NULL;
}

static void free_state(void *state)
{
	struct stacks_merged *m = state;
	thread_snapshot_free(m->seen);
	mem_free(m);
}

const struct profiler profiler_merged_call_stacks = {
	.id = "merged-call-stacks",
	.uuid = "9404d16c-b49e-11ed-afa1-0242ac120002",
	.name = "Merged call stacks",
	.chapter = CHAPTER_THREADS,
	.label = "It hangs, or is slow without using the CPU",
	.symptom = "it hangs, or is slow without using the CPU: what do all its threads do right now?",
	.description = "Takes every managed thread at one instant and puts those together that do the same in the same "
		       "place, the largest group first, each with what it waits for: a lock, a task, a socket, a file, "
		       "the clock. Threads of the runtime that have nothing to do are one line.",
	.cost = "one pause of a few milliseconds; everything is read from a copy",
	.contract_files = (const char *const[]){ "pstacks.md", "collapsible_pstacks.html", NULL },
	.params =
		(const struct param[]){
			PARAM_MAX_PAUSE,
		},
	.n_params = 1,
	.ways = { WAY_IMAGE, WAY_AGENT, WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "lock-queue", "Look at what its owner does meanwhile (its row below); run deadlocks to see "
					"whether they will "
					"ever go on." },
			{ "pool-blocked",
			  "Run thread-pool to see whether work waits behind them; blocking on tasks (.Result, .Wait()) "
			  "and on sockets becomes await." },
		},
	.n_advice = 2,
	.runs = (const struct advice_run[]){ { "lock-queue", "deadlocks" }, { "pool-blocked", "thread-pool" }, { 0 } },
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
