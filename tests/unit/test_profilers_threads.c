/* Threads as a look saw them: kept, told what they do, put together. */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "profilers/groups.h"

#define FUTEX 202

/* A thread with these frames, innermost first; names that begin with "Shop." are the user's. */
static void add(struct seen *s, struct seen_thread thread, const char *const *frames)
{
	for (; *frames; frames++)
		seen_add_frame(s, seen_method(s, *frames, !str_starts(*frames, "Shop.")));
	seen_add_thread(s, &thread);
}
#define FRAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_FRAMES ((const char *const[]){ NULL })

static struct seen *shop(void)
{
	struct seen *s = seen_new();
	for (uint32_t i = 0; i < 4; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("hand-%u", i);
		add(s, (struct seen_thread){ .managed_id = 10 + i, .os_id = 100 + i, .name = name, .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait", "Shop.Hall.Wait",
			   i % 2 ? "Shop.Hall.Odd" : "Shop.Hall.Even", "System.Threading.Thread.StartCallback"));
	}
	add(s,
	    (struct seen_thread){
		    .managed_id = 1, .os_id = 99, .call = SEEN_RUNS, .exception = "Shop.NoStock: none left" },
	    FRAMES("Shop.Program.Main"));
	add(s, (struct seen_thread){ .managed_id = 2, .os_id = 98, .finalizer = true, .call = FUTEX }, NO_FRAMES);
	add(s, (struct seen_thread){ .managed_id = 3, .os_id = 97, .os_name = ".NET Tiered Com", .call = FUTEX },
	    NO_FRAMES);
	s->ended = 7;
	return s;
}

static void test_kept(void **state)
{
	(void)state;
	CLEANUP(seen_freep) struct seen *s = shop(), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 }, again = { 0 };
	seen_write(s, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(seen_take(&back, &in));
	assert_int_equal(back->threads.n, 7);
	assert_int_equal(back->ended, 7);
	assert_string_equal(back->threads.v[2].name, "hand-2");
	assert_null(back->threads.v[4].name);
	assert_string_equal(back->threads.v[4].exception, "Shop.NoStock: none left");
	assert_int_equal(back->threads.v[4].call, SEEN_RUNS);
	assert_true(back->threads.v[5].finalizer);
	assert_string_equal(seen_frame(back, &back->threads.v[1], 3)->name, "Shop.Hall.Odd");
	seen_write(back, &again);
	assert_int_equal(again.len, bytes.len);
	assert_memory_equal(again.data, bytes.data, bytes.len);
}

static void test_hostile(void **state)
{
	(void)state;
	CLEANUP(seen_freep) struct seen *s = shop();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	seen_write(s, &bytes);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		CLEANUP(seen_freep) struct seen *back = NULL;
		struct cursor in = cursor_make(bytes.data, cut);
		assert_err(seen_take(&back, &in), ERR_BAD_DATA);
		assert_null(back);
	}
	size_t whole = 0;
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		CLEANUP(seen_freep) struct seen *back = NULL;
		CLEANUP(groups_free) struct groups groups = { 0 };
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		struct cursor in = cursor_make(bytes.data, bytes.len);
		err_ignore(seen_take(&back, &in));
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (!back)
			continue;
		whole++;
		groups_make(back, &groups);
		assert_int_equal(groups.members.n, back->threads.n);
	}
	assert_true(whole > 0);
}

static void test_deep(void **state)
{
	(void)state;
	CLEANUP(seen_freep) struct seen *s = seen_new(), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	for (size_t i = 0; i < 20000; i++)
		seen_add_frame(s, seen_method(s, "Shop.Tree.Walk", false));
	seen_add_thread(s, &(struct seen_thread){ .managed_id = 1 });
	add(s, (struct seen_thread){ .managed_id = 2 }, FRAMES("Shop.Other"));
	assert_true(s->threads.v[0].cut);
	assert_true(s->threads.v[0].n < 1000);
	assert_string_equal(seen_frame(s, &s->threads.v[1], 0)->name, "Shop.Other");
	seen_write(s, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(seen_take(&back, &in));
	assert_true(back->threads.v[0].cut);
}

static void test_doing(void **state)
{
	(void)state;
	const struct {
		enum doing want;
		int32_t call;
		const char *frames[6];
	} cases[] = {
		{ DOING_RUNS, SEEN_RUNS, { "Shop.A" } },
		{ DOING_RUNS, SEEN_RUNS, { "System.Threading.Monitor.Enter", "Shop.A" } },
		{ DOING_LOCK, FUTEX, { "System.Threading.Monitor.Enter_Slowpath", "Shop.A" } },
		{ DOING_LOCK, FUTEX, { "System.Threading.Lock.EnterSlow", "Shop.A" } },
		{ DOING_PULSE,
		  FUTEX,
		  { "System.Threading.Monitor.ObjWait", "System.Threading.Monitor.Wait", "Shop.A" } },
		{ DOING_SEMAPHORE,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait", "Shop.A" } },
		{ DOING_TASK,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.ManualResetEventSlim.Wait",
		    "System.Threading.Tasks.Task.SpinThenBlockingWait", "System.Threading.Tasks.Task.InternalWaitCore",
		    "Shop.A" } },
		{ DOING_QUEUE,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait",
		    "System.Collections.Concurrent.BlockingCollection<Int32>.TryTake", "Shop.A" } },
		/* What stands below the user's code does not count. */
		{ DOING_SLEEP,
		  230,
		  { "System.Threading.Thread.Sleep", "Shop.A", "System.Threading.Tasks.Task.InternalWait", "Shop.B" } },
		{ DOING_IDLE,
		  FUTEX,
		  { "System.Threading.LowLevelLifoSemaphore.WaitNative",
		    "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart" } },
		{ DOING_SOCKET, 47, { "Interop.Sys.ReceiveMessage", "System.Net.Sockets.Socket.Receive", "Shop.A" } },
		{ DOING_FILE, 0, { "Interop.Sys.Read", "System.IO.RandomAccess.ReadAtOffset", "Shop.A" } },
		{ DOING_CONSOLE, 0, { "Interop.Sys.Read", "System.ConsolePal.Read", "Shop.A" } },
		{ DOING_SLEEP, 230, { "Shop.Native.Sleep" } },
		{ DOING_CALL, 232, { "Shop.Native.Epoll" } },
		{ DOING_CALL, 999, { "Shop.Native.New" } },
		{ DOING_NATIVE, SEEN_UNKNOWN, { "Shop.Native.Call" } },
		{ DOING_LOCK, SEEN_UNKNOWN, { "System.Threading.Monitor.Enter", "Shop.A" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(seen_freep) struct seen *s = seen_new();
		CLEANUP(buf_free) struct buf one = { 0 }, many = { 0 };
		add(s, (struct seen_thread){ .managed_id = 1, .call = cases[i].call }, cases[i].frames);
		enum doing doing = seen_doing(s, &s->threads.v[0]);
		if (doing != cases[i].want)
			fail_msg("case %zu: %d instead of %d", i, doing, cases[i].want);
		doing_words(doing, &s->threads.v[0], false, &one);
		doing_words(doing, &s->threads.v[0], true, &many);
		assert_true(one.len > 3 && many.len > 2);
		assert_string_not_equal(buf_cstr(&one), buf_cstr(&many));
	}
}

static void test_groups(void **state)
{
	(void)state;
	CLEANUP(seen_freep) struct seen *s = shop();
	CLEANUP(groups_free) struct groups gs = { 0 };
	CLEANUP(buf_free) struct buf names = { 0 };
	groups_make(s, &gs);
	assert_int_equal(gs.v.n, 3);
	assert_int_equal(gs.v.v[0].n, 4);
	assert_string_equal(group_site(s, &gs.v.v[0]), "Shop.Hall.Wait");
	assert_int_equal(gs.v.v[1].doing, DOING_RUNS);
	assert_int_equal(gs.v.v[2].doing, DOING_IDLE);
	assert_int_equal(gs.v.v[2].n, 2);
	group_names(s, &gs, &gs.v.v[0], &names);
	assert_string_equal(buf_cstr(&names), "'hand-…' ×4");
}

/* Replays what a look left. */
static void examine(struct fixture *f, const struct seen *s, const char *profiler)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct recording_part *part;
	uint32_t version = SEEN_VERSION;
	fixture_begin(f);
	fixture_window(f->recording, 0);
	buf_add(&bytes, "DRLOOK\0", 8);
	buf_add(&bytes, &version, 4);
	seen_write(s, &bytes);
	assert_ok(recording_part_new(f->recording, "threads", "look", &part));
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, true);
	f->way = WAY_IMAGE;
	fixture_examine(f, profiler);
}

static void test_merged(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(seen_freep) struct seen *s = shop();
	examine(&f, s, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "crowd");
	assert_int_equal((int)fixture_figure(f.report, "Threads"), 7);
	assert_int_equal((int)fixture_figure(f.report, "Blocked"), 4);
	assert_int_equal((int)fixture_figure(f.report, "Running"), 1);
	assert_int_equal((int)fixture_figure(f.report, "Idle"), 2);
	assert_true(fixture_says(f.report,
				 "7 managed threads: 4 blocked, 1 running, 2 idle. 4 threads wait for a semaphore in "
				 "Shop.Hall.Wait."));
	/* Callers part behind the site. */
	assert_true(fixture_says(f.report, "Shop.Hall.Even ×2"));
	assert_true(fixture_says(f.report, "Shop.Hall.Odd ×2"));
	assert_true(fixture_says(f.report, "exception in flight"));
	assert_false(fixture_says(f.report, "StartCallback"));
	fixture_end(&f);
}

static void test_blocked_pool(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(seen_freep) struct seen *s = seen_new();
	for (uint32_t i = 0; i < 5; i++)
		add(s, (struct seen_thread){ .managed_id = i, .state = DAC_THREAD_POOL, .call = FUTEX },
		    FRAMES("System.Threading.Tasks.Task.InternalWait", i < 4 ? "Shop.Api.Handle" : "Shop.Api.Other"));
	add(s, (struct seen_thread){ .managed_id = 9, .state = DAC_THREAD_POOL, .call = SEEN_RUNS },
	    FRAMES("Shop.Api.Handle"));
	examine(&f, s, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "pool-blocked");
	assert_true(fixture_says(f.report, "5 of 6 pool threads at work are blocked. 4 threads block on a task in "
					   "Shop.Api.Handle."));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),	     cmocka_unit_test(test_hostile), cmocka_unit_test(test_deep),
		cmocka_unit_test(test_doing),	     cmocka_unit_test(test_groups),  cmocka_unit_test(test_merged),
		cmocka_unit_test(test_blocked_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
