#include "unit.h"

#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam_fixture.h"
#include "threads/thread_snapshot.h"

enum { WORKER_START = 50, ADJUSTMENT = 55 };
enum { META_ENQUEUE = 1, META_DEQUEUE, META_SAMPLE };
enum { STACK_TASK = 5, STACK_SLEEP, STACK_IDLE, STACK_WORK };

static void add_u32s(struct buf *p, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		build_u32(p, words[i]);
	build_u16(p, 0);
}

static void adjustment(struct build_nettrace *b, uint64_t at_ns, uint32_t workers, uint32_t reason)
{
	struct buf p = { 0 };
	build_f64(&p, 1);
	add_u32s(&p, (uint32_t[]){ workers, reason }, 2);
	fixture_event(b, ADJUSTMENT, at_ns, 7, 0, &p);
	buf_free(&p);
	struct buf w = { 0 };
	add_u32s(&w, (uint32_t[]){ workers, 0 }, 2);
	fixture_event(b, WORKER_START, at_ns + 1, 7, 0, &w);
	buf_free(&w);
}

static void other_stream(struct build_nettrace *b)
{
	static const struct {
		uint32_t meta, event;
		const char *provider;
	} kinds[] = { { META_ENQUEUE, 30, CLR_FRAMEWORK_PROVIDER },
		      { META_DEQUEUE, 31, CLR_FRAMEWORK_PROVIDER },
		      { META_SAMPLE, 0, CLR_SAMPLE_PROVIDER } };
	build_nettrace_begin(b, 4);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		build_nettrace_meta(b, &(struct nettrace_meta){ .id = kinds[i].meta,
								.event_id = kinds[i].event,
								.provider = kinds[i].provider,
								.name = "",
								.version = 1 });
}

static void work(struct build_nettrace *b, uint32_t meta, uint64_t at_ns, uint64_t id)
{
	struct buf p = { 0 };
	build_u64(&p, id);
	fixture_event(b, meta, at_ns, 7, 0, &p);
	buf_free(&p);
}

struct setting {
	uint64_t wait_ms;    /* of each of 40 items, one every 20 ms */
	uint32_t inject;     /* threads, for starvation */
	uint32_t climb;	     /* adjustments by hill climbing */
	uint32_t stack;	     /* of all busy workers; 0 = no look */
	uint32_t busy, idle; /* workers in the look */
	bool managed, silent;
	uint32_t delay_ms; /* its threads could run and had no CPU; they ran for 100 ms of 2 s */
	uint32_t inlined;  /* blocked workers that a look into memory found, the handler inlined in what calls it */
};

static void add_memory(struct fixture *f, uint32_t workers)
{
	static const char *const frames[] = { "System.Threading.ManualResetEventSlim.Wait",
					      "System.Threading.Tasks.Task.InternalWait",
					      "DynamicClass.lambda_method35", "Microsoft.AspNetCore.Routing.Invoke" };
	struct thread_snapshot *s = thread_snapshot_new();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct recording_part *part;
	uint32_t version = THREAD_SNAPSHOT_VERSION;
	for (uint32_t i = 0; i < workers; i++) {
		for (size_t k = i % 2; k < ARRAY_SIZE(frames); k++)
			thread_snapshot_add_frame_at(s, thread_snapshot_method(s, frames[k], true), NULL);
		thread_snapshot_add_thread(s, &(struct snapshot_thread){ .managed_id = 10 + i,
									 .os_id = 100 + i,
									 .state = DAC_THREAD_POOL,
									 .call = 202,
									 .waits_for = SNAPSHOT_NONE });
	}
	buf_add(&bytes, "DRLOOK\0", 8);
	buf_add(&bytes, &version, 4);
	thread_snapshot_write(s, &bytes);
	thread_snapshot_free(s);
	assert_ok(recording_part_new(f->recording, "workers", "look", &part));
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, true);
}

static void add_looks(struct fixture *f, const struct setting *s)
{
	struct build_nettrace b = { 0 };
	other_stream(&b);
	build_nettrace_stack(&b, STACK_TASK, (uint64_t[]){ 0x1010, 0x2011, 0x3011, 0x9011 }, 4);
	build_nettrace_stack(&b, STACK_SLEEP, (uint64_t[]){ 0x4010, 0x3011, 0x9011 }, 3);
	build_nettrace_stack(&b, STACK_IDLE, (uint64_t[]){ 0x5010 }, 1);
	build_nettrace_stack(&b, STACK_WORK, (uint64_t[]){ 0x3010, 0x9011 }, 2);
	for (uint32_t i = 0; i < s->busy + s->idle; i++) {
		struct buf p = { 0 };
		build_u32(&p, s->managed ? 2 : 1);
		for (int round = 0; round < 2; round++) /* a second round is not a second worker */
			fixture_event(&b, META_SAMPLE, 500 * MS + i, 100 + i, i < s->busy ? s->stack : STACK_IDLE, &p);
		buf_free(&p);
	}
	fixture_end_stream(&b);
	fixture_part(f->recording, "looks-0.nettrace", &b);
}

static void examine(struct fixture *f, const struct setting *s)
{
	static const struct fixture_method methods[] = {
		{ 0x1000, "System.Threading.Monitor", "Wait" },
		{ 0x2000, "System.Threading.Tasks.Task", "InternalWaitCore" },
		{ 0x3000, "Shop.Api", "Handle" },
		{ 0x4000, "System.Threading.Thread", "Sleep" },
		{ 0x5000, "System.Threading.PortableThreadPool+WorkerThread", "WorkerThreadStart" },
		{ 0x9000, "System.Threading.ThreadPoolWorkQueue", "Dispatch" },
	};
	struct build_nettrace pool = { 0 }, queue = { 0 }, names = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 2000 * MS);
	fixture_stream(&pool, (uint32_t[]){ WORKER_START, ADJUSTMENT }, 2);
	for (uint32_t i = 0; i < s->inject; i++)
		adjustment(&pool, (100 + i * 100) * MS, 3 + i, CLR_POOL_STARVATION);
	for (uint32_t i = 0; i < s->climb; i++)
		adjustment(&pool, (100 + i * 100) * MS, 3 + i % 2, 3);
	fixture_end_stream(&pool);
	fixture_part(f->recording, "pool-0.nettrace", &pool);
	other_stream(&queue);
	for (uint64_t at = 0; at < 2000 && !s->silent; at += 10) { /* by time: one goes in, another out */
		if (at % 20 == 0 && at < 800)
			work(&queue, META_ENQUEUE, at * MS, at);
		if (at >= s->wait_ms && (at - s->wait_ms) % 20 == 0 && at - s->wait_ms < 800)
			work(&queue, META_DEQUEUE, at * MS, at - s->wait_ms);
	}
	fixture_end_stream(&queue);
	fixture_part(f->recording, "queue-0.nettrace", &queue);
	if (s->stack)
		add_looks(f, s);
	if (s->inlined)
		add_memory(f, s->inlined);
	fixture_names(&names, methods, ARRAY_SIZE(methods));
	fixture_part(f->recording, "names-0.nettrace", &names);
	json_t *fact = json_pack("{s:i, s:i, s:i, s:i, s:i}", "cpu_ns", 100000000, "delay_ns", (int)(s->delay_ms * MS),
				 "cores", 2, "workers_before", 2, "workers_after", 5);
	recording_set_fact(f->recording, "pool", fact);
	json_decref(fact);
	fixture_examine(f, "thread-pool");
}

static void quick_item(struct build_nettrace *b, uint64_t at_ns)
{
	work(b, META_ENQUEUE, at_ns, at_ns);
	work(b, META_DEQUEUE, at_ns + 4 * MS, at_ns);
}

/* What is taken is told as it was heard, and its rate by how long that was. */
static void bursts_give_the_rate(void **state UNUSED)
{
	for (size_t i = 0; i < FIXTURE_BURSTS; i++) {
		const struct fixture_bursts *bursts = &fixture_bursts[i];
		struct fixture f;
		fixture_begin_bursts(&f, bursts, "queue", other_stream, quick_item);
		fixture_examine(&f, "thread-pool");
		assert_int_equal((int)fixture_figure(f.report, "Items taken"), bursts->heard);
		assert_int_equal((uint64_t)fixture_figure(f.report, "Longest"), 4 * MS);
		json_t *j = fixture_json(f.report);
		const json_t *taken = json_array_get(json_object_get(j, "figures"), 2);
		assert_string_equal(json_get_str(taken, "context", ""), bursts->n ? "100/s" : "50/s");
		json_decref(j);
		assert_int_equal(fixture_says(f.report, "queue heard in part"), bursts->n > 0);
		fixture_end(&f);
	}
}

static void time_in_the_queue_is_exact(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct setting){ .wait_ms = 500, .inject = 3, .stack = STACK_TASK, .busy = 5 });
	assert_string_equal(report_finding(f.report), "starvation");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	assert_int_equal((uint64_t)fixture_figure(f.report, "Time in the queue"), 500 * MS);
	assert_int_equal((uint64_t)fixture_figure(f.report, "Longest"), 500 * MS);
	assert_int_equal((int)fixture_figure(f.report, "Items taken"), 40);
	assert_true(fixture_says(f.report, "0 still queued"));
	assert_int_equal((int)fixture_figure(f.report, "Workers"), 5);
	assert_true(fixture_says(f.report, "All workers are blocked in Shop.Api.Handle (waits for a task)"));
	assert_true(fixture_says(f.report, "Await that task"));
	assert_true(fixture_says(f.report, "3 added, 0 ended"));
	fixture_end(&f);
}

static void the_blocking_call_is_named_for_what_it_is(void **state UNUSED)
{
	struct fixture f;
	/* the mode that the runtime noted is that of just before */
	examine(&f, &(struct setting){ .wait_ms = 500, .stack = STACK_SLEEP, .busy = 2, .idle = 1, .managed = true });
	assert_string_equal(report_finding(f.report), "starvation");
	assert_true(fixture_says(f.report, "(sleeps)"));
	json_t *j = fixture_json(f.report);
	assert_int_equal(json_array_size(fixture_rows(j, "What the workers do")), 2);
	json_decref(j);
	fixture_end(&f);
}

static void workers_that_run_are_no_starvation(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct setting){ .wait_ms = 500, .stack = STACK_WORK, .busy = 2, .managed = true });
	assert_string_equal(report_finding(f.report), "queue-latency");
	fixture_end(&f);
}

/* Others have the CPU: no fault of the pool. Blocked workers are its fault all the same. */
static void a_machine_that_is_busy_with_others(void **state UNUSED)
{
	struct fixture f;
	struct setting s = { .wait_ms = 500, .stack = STACK_WORK, .busy = 2, .managed = true, .delay_ms = 250 };
	examine(&f, &s);
	assert_string_equal(report_finding(f.report), "cpu-starved");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	assert_true(fixture_says(f.report, "Other processes take the CPU"));
	fixture_end(&f);
	s.delay_ms = 150;
	examine(&f, &s);
	assert_string_equal(report_finding(f.report), "queue-latency");
	fixture_end(&f);
	s = (struct setting){ .wait_ms = 500, .inject = 3, .stack = STACK_TASK, .busy = 5, .delay_ms = 250 };
	examine(&f, &s);
	assert_string_equal(report_finding(f.report), "starvation");
	fixture_end(&f);
}

static void hill_climbing_alone_is_healthy(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct setting){ .wait_ms = 10, .climb = 10 });
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_int_equal(report_health(f.report), REPORT_OK);
	fixture_end(&f);
	examine(&f, &(struct setting){ .wait_ms = 10, .inject = 2 });
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "The pool added 2 threads because work blocks, and keeps up."));
	fixture_end(&f);
}

static void a_pool_in_which_nothing_moves(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct setting){ .silent = true, .stack = STACK_TASK, .busy = 2 });
	assert_string_equal(report_finding(f.report), "workers-blocked");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	fixture_end(&f);
	/* one below the number of cores: the next item gets a thread at once */
	examine(&f, &(struct setting){ .silent = true, .stack = STACK_TASK, .busy = 1 });
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	examine(&f, &(struct setting){ .silent = true, .stack = STACK_TASK, .busy = 2, .idle = 1 });
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

/* The pool has grown for them, so nothing waits; yet. */
static void workers_that_are_blocked_while_work_flows(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct setting){ .wait_ms = 10, .inlined = 9 });
	assert_string_equal(report_finding(f.report), "many-blocked");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	assert_true(fixture_says(f.report, "9 workers of the pool are blocked: 9 in DynamicClass.lambda_method35 block "
					   "on a task. The pool keeps up for now"));
	fixture_end(&f);
	examine(&f, &(struct setting){ .wait_ms = 10, .inlined = 7 });
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

/* Items that were there before, items that are never taken, numbers that come twice. */
static void odd_queues_are_survived(void **state UNUSED)
{
	struct build_nettrace queue = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	other_stream(&queue);
	work(&queue, META_ENQUEUE, 10 * MS, 1);
	work(&queue, META_ENQUEUE, 20 * MS, 1);
	work(&queue, META_DEQUEUE, 25 * MS, 1);
	work(&queue, META_DEQUEUE, 30 * MS, 1);
	work(&queue, META_DEQUEUE, 40 * MS, 99);
	for (uint64_t i = 0; i < 5000; i++)
		work(&queue, META_ENQUEUE, 50 * MS + i, 1000 + i);
	for (uint64_t i = 0; i < 4000; i++)
		work(&queue, META_DEQUEUE, 60 * MS + i, 1000 + i);
	struct buf cut = { 0 };
	fixture_event(&queue, META_ENQUEUE, 70 * MS, 7, 0, &cut);
	fixture_end_stream(&queue);
	fixture_part(f.recording, "queue-0.nettrace", &queue);
	fixture_examine(&f, "thread-pool");
	assert_int_equal((int)fixture_figure(f.report, "Items taken"), 4003);
	assert_string_equal(report_finding(f.report), "nothing-found"); /* the thousand may have run inside others */
	assert_true(fixture_says(f.report, "lower bounds 2 (of 4,003 items taken"));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bursts_give_the_rate),
		cmocka_unit_test(time_in_the_queue_is_exact),
		cmocka_unit_test(the_blocking_call_is_named_for_what_it_is),
		cmocka_unit_test(workers_that_run_are_no_starvation),
		cmocka_unit_test(a_machine_that_is_busy_with_others),
		cmocka_unit_test(hill_climbing_alone_is_healthy),
		cmocka_unit_test(a_pool_in_which_nothing_moves),
		cmocka_unit_test(workers_that_are_blocked_while_work_flows),
		cmocka_unit_test(odd_queues_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
