#include "unit.h"

#include "base/str.h"
#include "build_knowledge.h"
#include "exam_fixture.h"

enum { START = 81, STOP = 91 };
enum { STACK_RESERVE = 5, STACK_REFILL = 6 };
enum { LOCK_A = 0x7000, LOCK_B = 380 };

static void start(struct build_nettrace *b, uint64_t at_ns, uint64_t thread, uint64_t lock, uint64_t owner,
		  uint32_t stack)
{
	struct buf p = { 0 };
	build_u8(&p, 0);
	build_u16(&p, 0);
	build_u64(&p, lock);
	build_u64(&p, lock + 8);
	build_u64(&p, owner);
	fixture_event(b, START, at_ns, thread, stack, &p);
	buf_free(&p);
}

static void stop(struct build_nettrace *b, uint64_t at_ns, uint64_t thread, uint64_t length_ns)
{
	struct buf p = { 0 };
	build_u8(&p, 0);
	build_u16(&p, 0);
	build_f64(&p, (double)length_ns);
	fixture_event(b, STOP, at_ns, thread, 0, &p);
	buf_free(&p);
}

struct wait {
	uint64_t at_ns, length_ns, thread, lock, owner;
	uint64_t late_ns; /* so much later the stream with stacks is told */
	bool open;
};

/* Events of a thread stand in order; build_nettrace keeps one sequence a stream, so threads are told apart by id. */
static void waits_stream(struct build_nettrace *b, const struct wait *list, size_t n, bool stacks)
{
	fixture_stream(b, (uint32_t[]){ START, STOP }, 2);
	if (stacks) {
		build_nettrace_stack(b, STACK_RESERVE, (uint64_t[]){ 0x1010, 0x3021 }, 2);
		build_nettrace_stack(b, STACK_REFILL, (uint64_t[]){ 0x4010, 0x2021 }, 2);
	}
	for (size_t i = 0; i < n; i++) {
		const struct wait *w = &list[i];
		uint32_t stack = !stacks ? 0 : w->lock == LOCK_A ? STACK_RESERVE : STACK_REFILL;
		start(b, w->at_ns + (stacks ? w->late_ns : 0), w->thread, w->lock, w->owner, stack);
		if (!w->open)
			stop(b, w->at_ns + w->length_ns, w->thread, w->length_ns);
	}
	fixture_end_stream(b);
}

/* The thread waits for the lock when we look; what the runtime called it is told by the address, or by the thread. */
static void add_look(struct fixture *f, uint32_t thread, uint64_t address)
{
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	uint32_t holder = knowledge_built_thread(s, 10, "cashier", SNAPSHOT_RUNS, BUILT_FRAMES("Shop.Till.Print"));
	uint32_t waits = knowledge_built_thread(s, thread, NULL, KNOWLEDGE_FUTEX,
						BUILT_FRAMES("System.Threading.Monitor.Enter", "Shop.Stock.Reserve"));
	vec_push(&s->holders, holder);
	s->threads.v[waits].waits_for =
		thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = address,
									  .kind = WAIT_OBJECT_MONITOR,
									  .type = "System.Object",
									  .name = "Shop.Stock.Shelf",
									  .next = SNAPSHOT_NONE });
	knowledge_built_bytes(&(struct knowledge_built){ .threads = s }, &bytes);
	knowledge_built_keep(f->recording, bytes.data, bytes.len);
}

static uint32_t look_thread; /* 0 = no look */
static uint64_t look_address;

static void examine(struct fixture *f, const char *runtime, const struct wait *list, size_t n)
{
	static const struct fixture_method methods[] = { { 0x1000, "System.Threading.Monitor", "Enter" },
							 { 0x2000, "Shop.Stock", "Refill" },
							 { 0x3000, "Shop.Stock", "Reserve" },
							 { 0x4000, "System.Threading.Lock", "Enter" } };
	struct build_nettrace counts = { 0 }, stacks = { 0 }, names = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup(runtime);
	fixture_window(f->recording, 1000 * MS);
	waits_stream(&stacks, list, n, true);
	fixture_part(f->recording, "stacks-0.nettrace", &stacks);
	if (!str_starts(runtime, "8")) {
		waits_stream(&counts, list, n, false);
		fixture_part(f->recording, "counts-0.nettrace", &counts);
	}
	fixture_names(&names, methods, ARRAY_SIZE(methods));
	fixture_part(f->recording, "names-0.nettrace", &names);
	if (look_thread)
		add_look(f, look_thread, look_address);
	fixture_examine(f, "lock-contention");
}

static const char *text_of(const json_t *row, size_t cell)
{
	return json_string_value(json_array_get(json_object_get(row, "cells"), cell));
}

static double number_of(const json_t *row, size_t cell)
{
	return json_number_value(json_array_get(json_object_get(row, "cells"), cell));
}

static const struct wait two_locks[] = {
	{ .at_ns = 100 * MS, .length_ns = 50 * MS, .thread = 11, .lock = LOCK_A, .owner = 10 },
	{ .at_ns = 300 * MS, .length_ns = 200 * MS, .thread = 11, .lock = LOCK_A, .owner = 12 },
	{ .at_ns = 600 * MS, .length_ns = 10 * MS, .thread = 11, .lock = LOCK_B, .owner = 10 },
};

static void waits_are_summed_by_lock_and_place(void **state UNUSED)
{
	static const char *const runtimes[] = { "8.0.31", "9.0.20", "10.0.12" };
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		struct fixture f;
		examine(&f, runtimes[i], two_locks, ARRAY_SIZE(two_locks));
		assert_string_equal(report_finding(f.report), "contention");
		assert_int_equal((int)fixture_figure(f.report, "Waits"), 3);
		assert_int_equal((uint64_t)fixture_figure(f.report, "Waiting in all"), 260 * MS);
		assert_int_equal((uint64_t)fixture_figure(f.report, "Longest"), 200 * MS);
		json_t *j = fixture_json(f.report);
		const json_t *rows = fixture_rows(j, "By lock");
		assert_int_equal(json_array_size(rows), 2);
		assert_string_equal(text_of(json_array_get(rows, 0), 1), "#1 Monitor");
		assert_string_equal(text_of(json_array_get(rows, 0), 0), "Shop.Stock.Reserve");
		assert_int_equal((int)number_of(json_array_get(rows, 0), 2), 2);
		assert_string_equal(text_of(json_array_get(rows, 1), 1), "#2 Lock");
		assert_string_equal(text_of(json_array_get(rows, 1), 0), "Shop.Stock.Refill");
		assert_int_equal(json_array_size(fixture_rows(j, "By place")), 2);
		json_decref(j);
		assert_true(fixture_says(f.report, "held by thread 10 50 %, thread 12 50 %"));
		fixture_end(&f);
	}
}

/* Both wait for 10, then 12 for 11: each wait has two threads in it. */
/* The runtime tells one stream after the other, and the thread may lose the processor in between. */
static void a_stack_that_comes_late_is_not_that_of_the_next_wait(void **state UNUSED)
{
	static const struct wait list[] = {
		{ .at_ns = 100 * MS,
		  .length_ns = 40 * MS,
		  .thread = 11,
		  .lock = LOCK_A,
		  .owner = 10,
		  .late_ns = 35 * MS },
		{ .at_ns = 141 * MS, .length_ns = 10 * MS, .thread = 11, .lock = LOCK_A, .owner = 10 },
	};
	struct fixture f;
	examine(&f, "10.0.12", list, ARRAY_SIZE(list));
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "By place");
	assert_int_equal(json_array_size(rows), 1);
	assert_string_equal(text_of(json_array_get(rows, 0), 0), "Shop.Stock.Reserve");
	assert_int_equal((int)number_of(json_array_get(rows, 0), 2), 2);
	json_decref(j);
	fixture_end(&f);
}

static void a_queue_is_a_convoy(void **state UNUSED)
{
	struct wait list[20];
	for (uint32_t i = 0; i < 10; i++) {
		list[i] = (struct wait){
			.at_ns = i * 100 * MS, .length_ns = 90 * MS, .thread = 11, .lock = LOCK_A, .owner = 10
		};
		list[10 + i] = (struct wait){
			.at_ns = i * 100 * MS + MS, .length_ns = 95 * MS, .thread = 12, .lock = LOCK_A, .owner = 11
		};
	}
	struct fixture f;
	examine(&f, "10.0.12", list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "convoy");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	assert_true(fixture_says(f.report, "up to 2 threads waited at once, two or more 89 % of the time"));
	assert_true(fixture_says(f.report, "it changed hands 19 times"));
	/* 11 had waited there before it had the lock that 12 waits for */
	assert_true(fixture_says(f.report, "where the owner had taken it"));
	fixture_end(&f);
}

static void what_still_waits_counts_up_to_the_end(void **state UNUSED)
{
	const struct wait list[] = { { .at_ns = 400 * MS, .thread = 11, .lock = LOCK_A, .owner = 10, .open = true } };
	struct fixture f;
	examine(&f, "9.0.20", list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "contention");
	assert_int_equal((uint64_t)fixture_figure(f.report, "Longest"), 600 * MS);
	assert_true(fixture_says(f.report, "1 thread still waited when the window ended, for 600 ms by then"));
	fixture_end(&f);
}

static void an_end_without_a_begin_is_left_out_and_said(void **state UNUSED)
{
	struct build_nettrace counts = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	fixture_stream(&counts, (uint32_t[]){ START, STOP }, 2);
	stop(&counts, 30 * MS, 11, 500 * MS);
	fixture_end_stream(&counts);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_examine(&f, "lock-contention");
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "left out 1"));
	assert_true(fixture_says(f.report, "30 ms of them"));
	fixture_end(&f);
}

static void begin_burst(struct build_nettrace *b)
{
	fixture_stream(b, (uint32_t[]){ START, STOP }, 2);
	build_nettrace_stack(b, STACK_RESERVE, (uint64_t[]){ 0x1010 }, 1);
}

static void short_wait(struct build_nettrace *b, uint64_t at_ns)
{
	start(b, at_ns, 11, LOCK_A, 10, STACK_RESERVE);
	stop(b, at_ns + 4 * MS, 11, 4 * MS);
}

/* Before .NET 9 the stream of stacks counts, too. */
static void bursts_stand_for_the_window(void **state UNUSED)
{
	for (size_t i = 0; i < FIXTURE_BURSTS; i++) {
		const struct fixture_bursts *bursts = &fixture_bursts[i];
		struct fixture f;
		fixture_begin_bursts(&f, bursts, "stacks", begin_burst, short_wait);
		fixture_examine(&f, "lock-contention");
		assert_int_equal((int)fixture_figure(f.report, "Waits"), bursts->stand_for);
		assert_int_equal((uint64_t)fixture_figure(f.report, "Waiting in all"), bursts->stand_for * 4 * MS);
		assert_int_equal(fixture_says(f.report, "heard in bursts and scaled up"), bursts->n > 0);
		fixture_end(&f);
	}
}

static void few_and_short_waits_are_no_problem(void **state UNUSED)
{
	const struct wait list[] = {
		{ .at_ns = 400 * MS, .length_ns = 3 * MS, .thread = 11, .lock = LOCK_A, .owner = 10 },
	};
	struct fixture f;
	examine(&f, "10.0.12", list, 1);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	examine(&f, "10.0.12", NULL, 0);
	assert_true(fixture_says(f.report, "no thread waited for a lock"));
	fixture_end(&f);
}

/* Lies of a stream cost its result, nothing else. */
static void hostile_payloads_are_survived(void **state UNUSED)
{
	struct build_nettrace counts = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	fixture_stream(&counts, (uint32_t[]){ START, STOP }, 2);
	struct buf cut = { 0 };
	for (size_t n = 0; n < 27; n++) { /* every truncation of both */
		fixture_event(&counts, START, n * MS, n, 0, &cut);
		fixture_event(&counts, STOP, n * MS, n, 0, &cut);
		build_u8(&cut, 0xff);
	}
	buf_free(&cut);
	for (uint64_t i = 0; i < 100; i++) /* begins again and again, without an end */
		start(&counts, 30 * MS + i, 7, i, 7, 0);
	fixture_end_stream(&counts);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_examine(&f, "lock-contention");
	assert_non_null(report_finding(f.report));
	fixture_end(&f);
}

static void the_look_names_a_lock_its_holder_and_what_that_does(void **state UNUSED)
{
	/* By its address; by the thread that waited for it, where the object has moved. */
	static const struct {
		uint32_t thread;
		uint64_t address;
	} looks[] = { { 99, LOCK_A + 8 }, { 11, 0x123450 } };
	static const struct wait list[] = {
		{ .at_ns = 100 * MS, .length_ns = 10 * MS, .thread = 11, .lock = LOCK_B, .owner = 12 },
		{ .at_ns = 300 * MS, .length_ns = 700 * MS, .thread = 11, .lock = LOCK_A, .owner = 10, .open = true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
		struct fixture f;
		look_thread = looks[i].thread;
		look_address = looks[i].address;
		examine(&f, "10.0.12", list, ARRAY_SIZE(list));
		assert_string_equal(report_finding(f.report), "contention");
		assert_true(fixture_says(f.report,
					 "is one lock (#1), Shop.Stock.Shelf, waited for in Shop.Stock.Reserve."));
		assert_true(fixture_says(f.report, "When we looked, 'cashier' (tid 10) had it, which runs in "
						   "Shop.Till.Print (Yard.cs:29)."));
		fixture_end(&f);
	}
	look_thread = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_look_names_a_lock_its_holder_and_what_that_does),
		cmocka_unit_test(waits_are_summed_by_lock_and_place),
		cmocka_unit_test(a_stack_that_comes_late_is_not_that_of_the_next_wait),
		cmocka_unit_test(a_queue_is_a_convoy),
		cmocka_unit_test(what_still_waits_counts_up_to_the_end),
		cmocka_unit_test(an_end_without_a_begin_is_left_out_and_said),
		cmocka_unit_test(bursts_stand_for_the_window),
		cmocka_unit_test(few_and_short_waits_are_no_problem),
		cmocka_unit_test(hostile_payloads_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
