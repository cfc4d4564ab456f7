/* The thread pool: does work wait in its queue, and what are the workers doing instead?
 *
 * "pool" has workers that start, stop, and why. "queue" has every item that is queued and taken (in bursts where they
 * are many); the time between is what a request waits before it runs. Only while work waits long or nothing moves,
 * "looks" asks for the stacks of all threads, a few times, each a stop of a fraction of a millisecond: that shows every
 * way to block a worker, on every runtime, whereas events of waits include neither Thread.Sleep nor blocking I/O. */

#include "profilers/thread_pool.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include "target/threads.h"
#include <stdlib.h>
#include <unistd.h>

#define ITEMS_MAX 1000000
#define WAITS_MAX 200000
#define WORKERS_MAX 100000
#define SEEN_MAX 100000
#define QUEUE_RATE 5000.0 /* two events an item */
#define QUEUE_SHARE 0.10
#define OLD_QUEUE_RATE 1000.0
#define QUEUE_LEAST_MS 500 /* shorter would not see longer waits than that */
#define LOOKS_MAX 3
#define LOOK_EVERY_NS NS_PER_S
#define SLOW_NS (200 * NS_PER_MS)
#define STALLED_NS (500 * NS_PER_MS)
#define SUSPENDED_FOR_GC 1

/* --- the queue --- */

const struct pool_item *pool_oldest(const struct pool *p)
{
	return p->head < p->items.n ? &p->items.v[p->head] : NULL;
}

static void drop_gone(struct pool *p)
{
	while (p->head < p->items.n && p->items.v[p->head].gone)
		p->head++;
	if (p->head < 1024 || p->head * 2 < p->items.n)
		return;
	p->items.n -= p->head;
	memmove(p->items.v, p->items.v + p->head, p->items.n * sizeof(*p->items.v));
	p->dropped += p->head;
	p->head = 0;
}

static struct pool_item *item_of(struct pool *p, uint64_t id)
{
	const uint64_t *index = map_u64_get(&p->by_id, id);
	if (!index || *index <= p->dropped)
		return NULL;
	struct pool_item *item = &p->items.v[*index - 1 - p->dropped];
	return item->id == id && !item->gone ? item : NULL;
}

static void on_enqueue(struct pool *p, uint64_t id, uint64_t now)
{
	p->enqueued++;
	struct pool_item *before = item_of(p, id);
	if (before) /* the same object twice, or two that share a number: the first cannot be identified any more */
		before->gone = true;
	if (p->items.n >= ITEMS_MAX || p->by_id.n >= ITEMS_MAX * 4) {
		p->not_kept++;
		return;
	}
	vec_push(&p->items, ((struct pool_item){ .id = id, .queued_ns = now }));
	*map_u64_put(&p->by_id, id, NULL) = p->items.n + p->dropped;
}

static void waited(struct pool *p, uint64_t now, uint64_t ns, bool older)
{
	dist_add(p->waits, ns);
	if (ns > p->longest_ns) {
		p->longest_ns = ns;
		p->longest_is_older = older;
	}
	p->late += ns >= POOL_LATE_NS;
	if (ns >= SLOW_NS)
		p->slow_at_ns = now;
	timeline_add(&p->longest, now - MIN(p->exam->start_ns, now), (double)ns);
}

static void on_dequeue(struct pool *p, uint64_t id, uint64_t now)
{
	p->dequeued++;
	p->last_taken_ns = now;
	struct pool_item *item = item_of(p, id);
	if (item) {
		item->gone = true;
		waited(p, now, now - MIN(item->queued_ns, now), false);
		drop_gone(p);
	} else {
		p->older++;
		waited(p, now, now - MIN(p->heard_since_ns, now), true);
	}
}

static void on_queue(void *user, const struct nettrace_event *event)
{
	struct pool *p = user;
	enum clr_event kind = clr_event(event);
	uint64_t id;
	if ((kind != CLR_POOL_ENQUEUE && kind != CLR_POOL_DEQUEUE) || !clr_decode_pool_work(event, &id))
		return;
	if (p->burst != p->streams[POOL_QUEUE].opened) {
		p->burst = p->streams[POOL_QUEUE].opened;
		p->heard_since_ns =
			event->time; /* the pool begins to report with its next item, not with our session */
		p->head = p->items.n = p->dropped = 0;
		map_u64_clear(&p->by_id);
	}
	if (kind == CLR_POOL_ENQUEUE)
		on_enqueue(p, id, event->time);
	else
		on_dequeue(p, id, event->time);
}

/* --- the workers --- */

static void workers_are(struct pool *p, uint64_t now, uint32_t n)
{
	if (p->workers.n < WORKERS_MAX)
		vec_push(&p->workers, ((struct pool_workers){ .at_ns = now, .n = n }));
}

static void on_pool(void *user, const struct nettrace_event *event)
{
	struct pool *p = user;
	struct clr_pool_adjustment a;
	uint32_t active;
	enum clr_event kind = clr_event(event);
	if (kind == CLR_POOL_ADJUSTMENT && clr_decode_pool_adjustment(event, &a)) {
		p->adjusted[MIN(a.reason, (uint32_t)POOL_REASONS)]++;
		bool blocks = a.reason == CLR_POOL_STARVATION || a.reason == CLR_POOL_COOPERATIVE_BLOCKING;
		if (blocks && a.workers > p->wanted) {
			p->injected++;
			p->needed_at_ns = event->time;
		}
		p->wanted = a.workers;
	} else if ((kind == CLR_POOL_WORKER_START || kind == CLR_POOL_WORKER_STOP) &&
		   clr_decode_pool_workers(event, &active)) {
		*(kind == CLR_POOL_WORKER_START ? &p->started : &p->stopped) += 1;
		workers_are(p, event->time, active);
	}
}

/* --- looks at all threads --- */

/* Only while work waits, or the pool itself says that it is blocked, or nothing moves. */
static bool time_to_look(void *user, uint64_t now)
{
	struct pool *p = user;
	if (p->looks >= LOOKS_MAX || now < p->looked_at_ns + LOOK_EVERY_NS)
		return false;
	const struct pool_item *oldest = pool_oldest(p);
	bool needed = p->needed_at_ns && now < p->needed_at_ns + LOOK_EVERY_NS;
	bool slow = p->slow_at_ns && now < p->slow_at_ns + LOOK_EVERY_NS;
	bool stalled = oldest && now > oldest->queued_ns + STALLED_NS && now > p->last_taken_ns + STALLED_NS;
	/* When no worker takes anything there are no events: is the queue empty, or stuck? */
	uint64_t heard_ns = MAX(p->last_taken_ns, p->exam->start_ns);
	bool quiet = !p->looks && p->workers_before && now > heard_ns + LOOK_EVERY_NS;
	if (!needed && !slow && !stalled && !quiet)
		return false;
	p->looks++;
	p->looked_at_ns = now;
	return true;
}

static void on_sample(struct pool *p, const struct nettrace_event *event)
{
	uint32_t look = p->streams[POOL_LOOKS].opened;
	bool new;
	uint32_t stack = stacks_add(p->stacks, event);
	if (stack == STACKS_NONE || p->seen.n >= SEEN_MAX)
		return;
	map_u64_put(&p->looked, (uint64_t)look << 32 | (uint32_t)event->thread_id, &new);
	if (!new)
		return; /* a second round before our stop came through */
	bool managed = event->payload_size >= 1 && event->payload[0] == 2;
	vec_push(&p->seen, ((struct pool_seen){ .look = look, .stack = stack, .managed = managed }));
}

static void on_look(void *user, const struct nettrace_event *event)
{
	struct pool *p = user;
	struct clr_suspend suspend;
	switch (clr_event(event)) {
	case CLR_THREAD_SAMPLE:
		on_sample(p, event);
		break;
	case CLR_SUSPEND_BEGIN:
		if (clr_decode_suspend(event, &suspend) && suspend.reason != SUSPENDED_FOR_GC)
			p->stopped_since_ns = event->time;
		break;
	case CLR_RESTART_END:
		if (p->stopped_since_ns && event->time > p->stopped_since_ns) {
			p->paused_ns += event->time - p->stopped_since_ns;
			p->pauses++;
		}
		p->stopped_since_ns = 0;
		break;
	default:
		break;
	}
}

/* --- facts from outside --- */

static void save_facts(struct pool *p)
{
	if (!p->exam->recording)
		return;
	json_t *fact = json_pack("{s:I, s:I, s:I, s:I}", "cpu_ns", (json_int_t)p->cpu_ns, "delay_ns",
				 (json_int_t)p->delay_ns, "workers_before", (json_int_t)p->workers_before,
				 "workers_after", (json_int_t)p->workers_after);
	recording_set_fact(p->exam->recording, "pool", fact);
	json_decref(fact);
}

static void load_facts(struct pool *p)
{
	const json_t *fact = recording_fact(p->exam->recording, "pool");
	p->cpu_ns = (uint64_t)json_get_int(fact, "cpu_ns", 0);
	p->delay_ns = (uint64_t)json_get_int(fact, "delay_ns", 0);
	if (p->budget.cores <= 0) /* as older recordings keep it */
		p->budget.cores = (double)json_get_int(fact, "cores", 0);
	p->workers_before = (size_t)json_get_int(fact, "workers_before", 0);
	p->workers_after = (size_t)json_get_int(fact, "workers_after", 0);
}

static size_t count_workers(struct pool *p)
{
	thread_names_free(&p->names);
	p->names = (struct thread_names){ 0 };
	thread_names_look(&p->names, p->exam);
	return thread_names_count(&p->names, POOL_WORKER_NAME);
}

static void pool_free(void *state)
{
	struct pool *p = state;
	vec_free(&p->items);
	vec_free(&p->workers);
	vec_free(&p->seen);
	knowledge_fini(&p->known);
	map_u64_free(&p->by_id);
	map_u64_free(&p->looked);
	dist_free(p->waits);
	stacks_free(p->stacks);
	methods_free(p->methods);
	thread_names_free(&p->names);
	mem_free(p);
}

static void describe_streams(struct pool *p)
{
	static const struct ipc_provider pool = { .name = CLR_PROVIDER, .keywords = CLR_THREADING, .level = 4 };
	static const struct ipc_provider queue = { .name = CLR_FRAMEWORK_PROVIDER,
						   .keywords = CLR_FRAMEWORK_THREAD_POOL,
						   .level = 5 };
	static const struct ipc_provider look[] = { { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 },
						    { .name = CLR_SAMPLE_PROVIDER, .level = 4 } };
	p->streams[POOL_EVENTS] = (struct events_stream){
		.name = "pool", .providers = &pool, .n_providers = 1, .event = on_pool, .user = p
	};
	p->streams[POOL_QUEUE] = (struct events_stream){
		.name = "queue",
		.providers = &queue,
		.n_providers = 1,
		.burst_rate = p->old ? OLD_QUEUE_RATE : QUEUE_RATE,
		.burst_share = QUEUE_SHARE,
		.burst_least_ms = QUEUE_LEAST_MS,
		.scaled = true,
		.event = on_queue,
		.user = p,
	};
	p->streams[POOL_LOOKS] = (struct events_stream){
		.name = "looks",
		.providers = look,
		.n_providers = ARRAY_SIZE(look),
		.stacks = true,
		.when = time_to_look,
		.event = on_look,
		.user = p,
	};
	p->streams[POOL_NAMES] = exam_methods_stream(&p->streams[POOL_LOOKS], p->methods);
}

static struct err *run(struct exam *exam)
{
	struct pool *p = exam->state = mem_zalloc(sizeof(*p));
	uint64_t window_ms = exam_duration_ms(exam), cpu_before = 0, cpu_after = 0;
	p->exam = exam;
	p->waits = dist_new(WAITS_MAX);
	p->stacks = stacks_new(exam->whose);
	p->methods = methods_new();
	p->longest.highest = true;
	p->old = exam_runtime_major(exam) < 9;
	describe_streams(p);
	knowledge_begin(exam, &p->known);
	if (!exam->replay)
		p->workers_before = count_workers(p);
	cpu_budget_begin(exam, &p->budget);
	bool known = !exam->replay && target_cpu_ns(&exam->patient->target, &cpu_before);
	uint64_t delay_before = known ? target_delay_ns(&exam->patient->target) : 0;
	TRY(exam_events(exam, p->streams, ARRAY_SIZE(p->streams), window_ms));
	if (known && target_cpu_ns(&exam->patient->target, &cpu_after)) {
		uint64_t delay_after = target_delay_ns(&exam->patient->target);
		p->cpu_ns = cpu_after - cpu_before;
		p->delay_ns = delay_after - MIN(delay_before, delay_after); /* threads may have ended */
	}
	cpu_budget_end(exam, &p->budget);
	if (exam->replay) {
		load_facts(p);
	} else {
		p->workers_after = count_workers(p);
		save_facts(p);
	}
	knowledge_look(exam, &(struct knowledge_wanted){ .older = "workers" }, &p->known);
	return exam_methods_of(exam, p->stacks, p->methods);
}

const struct profiler profiler_thread_pool = {
	.id = "thread-pool",
	.uuid = "9BB20A54-E1FB-4F35-A4CC-134FCD6CA7E0",
	.name = "Thread pool",
	.chapter = CHAPTER_THREADS,
	.label = "Requests are slow or time out",
	.symptom = "requests are slow or time out though the CPU is idle; the thread count creeps up",
	.description =
		"Measures how long work waits in the thread pool's queue, says whether the pool starves, how many "
		"workers it added and why, and which call holds the workers. One look into memory at the end counts "
		"blocked workers and names the task or lock they wait for.",
	.cost = LOOK_COST "; up to three stops of a fraction of a millisecond while work waits",
	.params =
		(const struct param[]){
			PARAM_DURATION("10"),
			PARAM_NO_LOOK,
			PARAM_LOOK_PAUSE,
		},
	.n_params = 3,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "starvation",
			  "Do not block in pool work: await instead of .Result, .Wait() and GetAwaiter().GetResult(), "
			  "Task.Delay instead of Thread.Sleep, asynchronous I/O instead of blocking calls. Until then, "
			  "ThreadPool.SetMinThreads buys time." },
			{ "workers-blocked", "If requests hang, this is why: do not block in pool work (await instead "
					     "of .Result and .Wait()), "
					     "or raise the limit of the pool. If these are background jobs by design, "
					     "give them threads of "
					     "their own (TaskCreationOptions.LongRunning)." },
			{ "many-blocked",
			  "Each of them keeps a thread: with more of them work will wait. Await instead of .Result and "
			  ".Wait(), use the asynchronous form of calls that read, and give them a time limit." },
			{ "queue-latency",
			  "The workers are not blocked, there is more work than they can do: cpu-hotpaths says what "
			  "they compute and whether they had to wait for a CPU. Move long computations out of the "
			  "pool." },
			{ "cpu-starved",
			  "Look at the machine: other processes take the CPU. The pool itself keeps up." },
		},
	.n_advice = 5,
	.runs = (const struct advice_run[]){ { "queue-latency", "cpu-hotpaths" }, { 0 } },
	.run = run,
	.analyse = pool_analyse,
	.free_state = pool_free,
};
