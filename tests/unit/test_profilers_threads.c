/* Threads as a look saw them: kept, told what they do, put together. */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "threads/thread_groups.h"
#include "threads/wait_graph.h"

#define FUTEX 202

/* A thread with these frames, innermost first; names that begin with "Shop." are the user's. */
static void add(struct thread_snapshot *s, struct snapshot_thread thread, const char *const *frames)
{
	for (; *frames; frames++)
		thread_snapshot_add_frame_at(s, thread_snapshot_method(s, *frames, !str_starts(*frames, "Shop.")),
					     str_starts(*frames, "Shop.") ? "Shop.cs:29" : NULL);
	thread.waits_for = SNAPSHOT_NONE;
	thread.before = thread.after = (struct snapshot_times){ UINT64_MAX, UINT64_MAX };
	thread_snapshot_add_thread(s, &thread);
}
#define FRAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_FRAMES ((const char *const[]){ NULL })

static struct thread_snapshot *shop(void)
{
	struct thread_snapshot *s = thread_snapshot_new();
	for (uint32_t i = 0; i < 4; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("hand-%u", i);
		add(s, (struct snapshot_thread){ .managed_id = 10 + i, .os_id = 100 + i, .name = name, .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait", "Shop.Hall.Wait",
			   i % 2 ? "Shop.Hall.Odd" : "Shop.Hall.Even", "System.Threading.Thread.StartCallback"));
	}
	add(s,
	    (struct snapshot_thread){
		    .managed_id = 1, .os_id = 99, .call = SNAPSHOT_RUNS, .exception = "Shop.NoStock: none left" },
	    FRAMES("Shop.Program.Main"));
	add(s, (struct snapshot_thread){ .managed_id = 2, .os_id = 98, .finalizer = true, .call = FUTEX }, NO_FRAMES);
	add(s, (struct snapshot_thread){ .managed_id = 3, .os_id = 97, .os_name = ".NET Tiered Com", .call = FUTEX },
	    NO_FRAMES);
	s->ended = 7;
	return s;
}

static void test_kept(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = shop(), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 }, again = { 0 };
	thread_snapshot_write(s, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(thread_snapshot_take(&back, &in));
	assert_int_equal(back->threads.n, 7);
	assert_int_equal(back->ended, 7);
	assert_string_equal(back->threads.v[2].name, "hand-2");
	assert_null(back->threads.v[4].name);
	assert_string_equal(back->threads.v[4].exception, "Shop.NoStock: none left");
	assert_int_equal(back->threads.v[4].call, SNAPSHOT_RUNS);
	assert_true(back->threads.v[5].finalizer);
	assert_string_equal(snapshot_frame(back, &back->threads.v[1], 3)->name, "Shop.Hall.Odd");
	assert_string_equal(snapshot_line(back, &back->threads.v[1], 3), "Shop.cs:29");
	assert_null(snapshot_line(back, &back->threads.v[1], 0));
	thread_snapshot_write(back, &again);
	assert_int_equal(again.len, bytes.len);
	assert_memory_equal(again.data, bytes.data, bytes.len);
}

static void test_hostile(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = shop();
	CLEANUP(buf_free) struct buf bytes = { 0 };
	thread_snapshot_write(s, &bytes);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *back = NULL;
		struct cursor in = cursor_make(bytes.data, cut);
		assert_err(thread_snapshot_take(&back, &in), ERR_BAD_DATA);
		assert_null(back);
	}
	size_t whole = 0;
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *back = NULL;
		CLEANUP(thread_groups_free) struct thread_groups groups = { 0 };
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		struct cursor in = cursor_make(bytes.data, bytes.len);
		err_ignore(thread_snapshot_take(&back, &in));
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (!back)
			continue;
		whole++;
		thread_groups_make(back, &groups);
		assert_int_equal(groups.members.n, back->threads.n);
	}
	assert_true(whole > 0);
}

static void test_deep(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new(), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	for (size_t i = 0; i < 20000; i++)
		thread_snapshot_add_frame(s, thread_snapshot_method(s, "Shop.Tree.Walk", false));
	thread_snapshot_add_thread(s, &(struct snapshot_thread){ .managed_id = 1, .waits_for = SNAPSHOT_NONE });
	add(s, (struct snapshot_thread){ .managed_id = 2 }, FRAMES("Shop.Other"));
	assert_true(s->threads.v[0].cut);
	assert_true(s->threads.v[0].n < 1000);
	assert_string_equal(snapshot_frame(s, &s->threads.v[1], 0)->name, "Shop.Other");
	thread_snapshot_write(s, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(thread_snapshot_take(&back, &in));
	assert_true(back->threads.v[0].cut);
}

static void test_doing(void **state)
{
	(void)state;
	const struct {
		enum activity want;
		int32_t call;
		const char *frames[6];
	} cases[] = {
		{ ACTIVITY_RUNS, SNAPSHOT_RUNS, { "Shop.A" } },
		{ ACTIVITY_RUNS, SNAPSHOT_RUNS, { "System.Threading.Monitor.Enter", "Shop.A" } },
		{ ACTIVITY_LOCK, FUTEX, { "System.Threading.Monitor.Enter_Slowpath", "Shop.A" } },
		{ ACTIVITY_LOCK, FUTEX, { "System.Threading.Lock.EnterSlow", "Shop.A" } },
		{ ACTIVITY_PULSE,
		  FUTEX,
		  { "System.Threading.Monitor.ObjWait", "System.Threading.Monitor.Wait", "Shop.A" } },
		{ ACTIVITY_SEMAPHORE,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait", "Shop.A" } },
		{ ACTIVITY_TASK,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.ManualResetEventSlim.Wait",
		    "System.Threading.Tasks.Task.SpinThenBlockingWait", "System.Threading.Tasks.Task.InternalWaitCore",
		    "Shop.A" } },
		{ ACTIVITY_QUEUE,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait",
		    "System.Collections.Concurrent.BlockingCollection<Int32>.TryTake", "Shop.A" } },
		{ ACTIVITY_ROOM,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.SemaphoreSlim.Wait",
		    "System.Collections.Concurrent.BlockingCollection<Int32>.TryAddWithNoTimeValidation", "Shop.A" } },
		{ ACTIVITY_SOCKET,
		  FUTEX,
		  { "System.Threading.Monitor.Wait", "System.Threading.ManualResetEventSlim.Wait",
		    "System.Net.Sockets.SocketAsyncContext.PerformSyncOperation",
		    "System.Net.Sockets.NetworkStream.Read", "Shop.A" } },
		{ ACTIVITY_INIT, FUTEX, { "System.Runtime.CompilerServices.InitHelpers.InitClassSlow", "Shop.A" } },
		/* What stands below the user's code does not count. */
		{ ACTIVITY_SLEEP,
		  230,
		  { "System.Threading.Thread.Sleep", "Shop.A", "System.Threading.Tasks.Task.InternalWait", "Shop.B" } },
		{ ACTIVITY_IDLE,
		  FUTEX,
		  { "System.Threading.LowLevelLifoSemaphore.WaitNative",
		    "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart" } },
		{ ACTIVITY_IDLE,
		  SNAPSHOT_RUNS,
		  { "System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart",
		    "System.Threading.Thread.StartCallback" } },
		/* Its frames could not be read, but the kernel says that it runs. */
		{ ACTIVITY_RUNS, SNAPSHOT_RUNS, { NULL } },
		{ ACTIVITY_SOCKET,
		  47,
		  { "Interop.Sys.ReceiveMessage", "System.Net.Sockets.Socket.Receive", "Shop.A" } },
		{ ACTIVITY_FILE, 0, { "Interop.Sys.Read", "System.IO.RandomAccess.ReadAtOffset", "Shop.A" } },
		{ ACTIVITY_CONSOLE, 0, { "Interop.Sys.Read", "System.ConsolePal.Read", "Shop.A" } },
		{ ACTIVITY_SLEEP, 230, { "Shop.Native.Sleep" } },
		{ ACTIVITY_RUNS, 228, { "Shop.Clock.Read" } },
		{ ACTIVITY_CALL, 232, { "Shop.Native.Epoll" } },
		{ ACTIVITY_CALL, 999, { "Shop.Native.New" } },
		{ ACTIVITY_NATIVE, SNAPSHOT_UNKNOWN, { "Shop.Native.Call" } },
		{ ACTIVITY_LOCK, SNAPSHOT_UNKNOWN, { "System.Threading.Monitor.Enter", "Shop.A" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
		CLEANUP(buf_free) struct buf one = { 0 }, many = { 0 };
		add(s, (struct snapshot_thread){ .managed_id = 1, .call = cases[i].call }, cases[i].frames);
		enum activity doing = snapshot_activity(s, &s->threads.v[0]);
		if (doing != cases[i].want)
			fail_msg("case %zu: %d instead of %d", i, doing, cases[i].want);
		activity_words(doing, &s->threads.v[0], false, &one);
		activity_words(doing, &s->threads.v[0], true, &many);
		assert_true(one.len > 3 && many.len > 2);
		assert_string_not_equal(buf_cstr(&one), buf_cstr(&many));
	}
}

/* The queue of a logger has nothing to do; the same wait in the user's code, or of a worker of the pool, is one. */
static void test_idle_libraries(void **state)
{
	(void)state;
	static const struct {
		enum activity want;
		uint32_t state;
		const char *const frames[4];
	} cases[] = {
		{ ACTIVITY_IDLE,
		  DAC_THREAD_BACKGROUND,
		  { "System.Threading.Monitor.Wait", "System.Logging.Queue.Run" } },
		{ ACTIVITY_IDLE, DAC_THREAD_BACKGROUND, { "System.Threading.Thread.Sleep", "System.Cache.Scan" } },
		{ ACTIVITY_PULSE, DAC_THREAD_BACKGROUND, { "System.Threading.Monitor.Wait", "Shop.Queue.Run" } },
		{ ACTIVITY_PULSE,
		  DAC_THREAD_BACKGROUND | DAC_THREAD_POOL,
		  { "System.Threading.Monitor.Wait", "System.Logging.Queue.Run" } },
		{ ACTIVITY_PULSE, 0, { "System.Threading.Monitor.Wait", "System.Logging.Queue.Run" } },
		{ ACTIVITY_LOCK,
		  DAC_THREAD_BACKGROUND,
		  { "System.Threading.Monitor.Enter", "System.Logging.Queue.Run" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
		add(s, (struct snapshot_thread){ .managed_id = 4, .call = FUTEX, .state = cases[i].state },
		    cases[i].frames);
		enum activity doing = snapshot_activity(s, &s->threads.v[0]);
		if (doing != cases[i].want)
			fail_msg("case %zu: %d instead of %d", i, doing, cases[i].want);
	}
}

static void test_groups(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = shop();
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	CLEANUP(buf_free) struct buf names = { 0 };
	thread_groups_make(s, &gs);
	assert_int_equal(gs.v.n, 3);
	assert_int_equal(gs.v.v[0].n, 4);
	assert_string_equal(thread_group_site(s, &gs.v.v[0]), "Shop.Hall.Wait");
	assert_int_equal(gs.v.v[1].doing, ACTIVITY_RUNS);
	assert_int_equal(gs.v.v[2].doing, ACTIVITY_IDLE);
	assert_int_equal(gs.v.v[2].n, 2);
	thread_group_names(s, &gs, &gs.v.v[0], &names);
	assert_string_equal(buf_cstr(&names), "'hand-…' ×4");
}

static void add_part(struct fixture *f, const struct thread_snapshot *s, const char *name)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	struct recording_part *part;
	uint32_t version = THREAD_SNAPSHOT_VERSION;
	buf_add(&bytes, "DRLOOK\0", 8);
	buf_add(&bytes, &version, 4);
	thread_snapshot_write(s, &bytes);
	assert_ok(recording_part_new(f->recording, name, "look", &part));
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, true);
	CLEANUP(mem_freep) char *key = mem_printf("look-%s", name);
	json_t *fact = json_pack("{s:I}", "at_ns", (json_int_t)(str_ends(name, "-2") ? 3000 * MS : 1000 * MS));
	recording_set_fact(f->recording, key, fact);
	json_decref(fact);
}

/* Replays what one look left, or two. */
static void examine_twice(struct fixture *f, const struct thread_snapshot *s, const struct thread_snapshot *second,
			  const char *profiler)
{
	fixture_begin(f);
	fixture_window(f->recording, 0);
	add_part(f, s, "threads");
	if (second)
		add_part(f, second, "threads-2");
	f->way = WAY_IMAGE;
	fixture_examine(f, profiler);
}

static void examine(struct fixture *f, const struct thread_snapshot *s, const char *profiler)
{
	examine_twice(f, s, NULL, profiler);
}

static void test_merged(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = shop();
	examine(&f, s, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "crowd");
	assert_int_equal((int)fixture_figure(f.report, "Threads"), 7);
	assert_int_equal((int)fixture_figure(f.report, "Blocked"), 4);
	assert_int_equal((int)fixture_figure(f.report, "Running"), 1);
	assert_int_equal((int)fixture_figure(f.report, "Idle"), 2);
	assert_true(fixture_says(f.report, "7 managed threads: 4 blocked, 1 running, 2 idle. 4 threads in "
					   "Shop.Hall.Wait wait for a semaphore."));
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
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	for (uint32_t i = 0; i < 5; i++)
		add(s, (struct snapshot_thread){ .managed_id = i, .state = DAC_THREAD_POOL, .call = FUTEX },
		    FRAMES("System.Threading.Tasks.Task.InternalWait", i < 4 ? "Shop.Api.Handle" : "Shop.Api.Other"));
	add(s, (struct snapshot_thread){ .managed_id = 9, .state = DAC_THREAD_POOL, .call = SNAPSHOT_RUNS },
	    FRAMES("Shop.Api.Handle"));
	examine(&f, s, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "pool-blocked");
	assert_true(fixture_says(f.report, "5 of 6 pool threads at work are blocked. 4 threads in "
					   "Shop.Api.Handle block on a task."));
	fixture_end(&f);
	/* A blocking read of the database is no better. */
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *reads = thread_snapshot_new();
	for (uint32_t i = 0; i < 5; i++)
		add(reads, (struct snapshot_thread){ .managed_id = i, .state = DAC_THREAD_POOL, .call = FUTEX },
		    FRAMES("System.Threading.ManualResetEventSlim.Wait",
			   "System.Net.Sockets.SocketAsyncContext.PerformSyncOperation", "Npgsql.NpgsqlCommand.Execute",
			   "Shop.Api.Handle"));
	examine(&f, reads, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "pool-blocked");
	assert_true(fixture_says(f.report, "5 of 5 pool threads at work are blocked by a socket. 5 threads in "
					   "Shop.Api.Handle wait for a socket."));
	fixture_end(&f);
}

/* ---- who waits for whom ---- */

/* Threads 'a', 'b', ... each of which waits for a thing (its index + 1) or for none (0). */
static struct thread_snapshot *waiting(const uint32_t *waits, size_t n)
{
	struct thread_snapshot *s = thread_snapshot_new();
	for (uint32_t i = 0; i < n; i++) {
		char name[2] = { (char)('a' + i), 0 };
		add(s, (struct snapshot_thread){ .managed_id = i + 1, .os_id = 100 + i, .name = name, .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Enter", "Shop.Stock.Take", "Shop.Main"));
		s->threads.v[i].waits_for = waits[i] - 1;
	}
	return s;
}

static void has(struct thread_snapshot *s, enum wait_object_kind kind, const char *name, uint32_t holder, bool guessed)
{
	if (holder != SNAPSHOT_NONE)
		vec_push(&s->holders, holder);
	thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = 0x1000 + s->things.n,
								  .kind = kind,
								  .type = "System.Object",
								  .name = name,
								  .guessed = guessed,
								  .next = SNAPSHOT_NONE });
}

static void test_circles(void **state)
{
	(void)state;
	/* a -> b -> c -> a; d and e behind them; f waits for its own; g waits for nobody's. */
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 1, 2, 3, 1, 4, 5, 6, 0 }, 8);
	CLEANUP(circles_free) struct circles found = { 0 };
	has(s, WAIT_OBJECT_MONITOR, "Shop.One", 1, false);
	has(s, WAIT_OBJECT_LOCK, "Shop.Two", 2, false);
	has(s, WAIT_OBJECT_RWLOCK, "Shop.Three", 0, false);
	has(s, WAIT_OBJECT_MONITOR, "Shop.Four", 3, false);
	has(s, WAIT_OBJECT_MONITOR, "Shop.Five", 5, false);
	has(s, WAIT_OBJECT_OTHER, "Shop.Bell", SNAPSHOT_NONE, false);
	circles_find(s, &found);
	assert_int_equal(found.v.n, 1);
	assert_int_equal(found.v.v[0].n, 3);
	assert_int_equal(found.v.v[0].behind, 2);
	assert_false(found.v.v[0].guessed);
	assert_int_equal(thing_waiting(s, 0), 2);
	assert_true(circles_have(s, &found, s, &found, &found.v.v[0]));
	CLEANUP(circles_free) struct circles none = { 0 };
	assert_false(circles_have(s, &none, s, &found, &found.v.v[0]));
}

static void test_circle_through_tasks(void **state)
{
	(void)state;
	/* a blocks on a task that awaits another, which b runs; b waits for what a has. */
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 1, 3 }, 2);
	CLEANUP(circles_free) struct circles found = { 0 };
	has(s, WAIT_OBJECT_TASK, "Shop.OuterAsync", SNAPSHOT_NONE, false);
	has(s, WAIT_OBJECT_TASK, "Shop.InnerAsync", 1, false);
	has(s, WAIT_OBJECT_MONITOR, "Shop.Gate", 0, false);
	s->things.v[0].next = 1;
	circles_find(s, &found);
	assert_int_equal(found.v.n, 1);
	CLEANUP(buf_free) struct buf words = { 0 };
	snapshot_waits_words(s, &s->threads.v[0], 0, &words);
	assert_string_equal(buf_cstr(&words),
			    "blocks on the task of Shop.OuterAsync, which in the end awaits the task of "
			    "Shop.InnerAsync, run by 'b' (tid 101)");
	/* A chain that bites its own tail is no reason to hang. */
	s->things.v[1].n = 0;
	s->things.v[1].next = 0;
	circles_free(&found);
	circles_find(s, &found);
	assert_int_equal(found.v.n, 0);
}

static void test_many(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	CLEANUP(circles_free) struct circles found = { 0 };
	const uint32_t n = 20000;
	for (uint32_t i = 0; i < n; i++) {
		add(s, (struct snapshot_thread){ .managed_id = i + 1, .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Enter"));
		s->threads.v[i].waits_for = i;
	}
	for (uint32_t i = 0; i < n; i++)
		has(s, WAIT_OBJECT_MONITOR, NULL, (i + 1) % n, false);
	circles_find(s, &found);
	assert_int_equal(found.v.n, 1);
	assert_int_equal(found.v.v[0].n, n);
}

static struct thread_snapshot *deadlocked(bool guessed)
{
	struct thread_snapshot *s = waiting((uint32_t[]){ 2, 1, 1 }, 3);
	has(s, guessed ? WAIT_OBJECT_SEMAPHORE : WAIT_OBJECT_MONITOR, "Shop.Stock._gate", 0, guessed);
	has(s, WAIT_OBJECT_LOCK, "Shop.Ledger._gate", 1, false);
	return s;
}

static void test_deadlock_report(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = deadlocked(false);
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	assert_true(fixture_says(
		f.report, "Deadlock: 2 threads wait for each other and will never go on. 'a' (tid 100) has "
			  "Shop.Stock._gate and waits for Shop.Ledger._gate; 'b' (tid 101) has Shop.Ledger._gate "
			  "and waits for Shop.Stock._gate. 1 more thread waits behind them."));
	assert_true(fixture_says(f.report, "System.Threading.Monitor.Enter waits for Ledger._gate"));
	fixture_end(&f);
}

static void test_likely_deadlock(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = deadlocked(true);
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock-likely");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	assert_true(fixture_says(f.report, "'a' (tid 100) probably has Shop.Stock._gate"));
	fixture_end(&f);
}

static void test_a_circle_that_passes(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep)
	struct thread_snapshot *s = deadlocked(false), *later = waiting((uint32_t[]){ 0, 1, 1 }, 3);
	has(later, WAIT_OBJECT_MONITOR, "Shop.Stock._gate", 0, false);
	examine_twice(&f, later, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	examine_twice(&f, s, later, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* With one look only, it is said to be one. */
	examine(&f, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock");
	assert_true(fixture_says(f.report, "in this instant"));
	fixture_end(&f);
}

/* A timer that runs needs nobody: the owner will go on. */
static void test_held_until_a_timer_ends(void **state)
{
	(void)state;
	struct fixture f;
	static const char *const types[] = { WAIT_OBJECT_TIMER, "delay without end" };
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
		add(s, (struct snapshot_thread){ .managed_id = 1, .os_id = 100, .name = "a", .call = FUTEX },
		    FRAMES("System.Threading.Tasks.Task.Wait", "Shop.Till.Close"));
		add(s, (struct snapshot_thread){ .managed_id = 2, .os_id = 101, .name = "b", .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Enter", "Shop.Till.Count"));
		s->threads.v[0].waits_for = 1;
		s->threads.v[1].waits_for = 0;
		s->threads.v[0].before = s->threads.v[0].after = (struct snapshot_times){ 5, 7 };
		has(s, WAIT_OBJECT_MONITOR, "Shop.Till.Gate", 0, false);
		has(s, WAIT_OBJECT_TASK, "Shop.Till.WaitAsync", SNAPSHOT_NONE, false);
		has(s, WAIT_OBJECT_TASK, NULL, SNAPSHOT_NONE, false);
		s->things.v[1].next = 2;
		s->things.v[2].type = types[i];
		examine_twice(&f, s, s, "deadlocks");
		assert_string_equal(report_finding(f.report), i ? "held-waiting" : "held-long");
		fixture_end(&f);
	}
}

/* Its owner waits for somebody to signal it: perhaps for one of those who wait for the lock. */
static void test_held_while_waiting(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
	add(s, (struct snapshot_thread){ .managed_id = 1, .os_id = 100, .name = "a", .call = FUTEX },
	    FRAMES("System.Threading.ManualResetEventSlim.Wait", "Shop.Till.Close"));
	add(s, (struct snapshot_thread){ .managed_id = 2, .os_id = 101, .name = "b", .call = FUTEX },
	    FRAMES("System.Threading.Monitor.Enter", "Shop.Till.Count"));
	s->threads.v[0].waits_for = 1;
	s->threads.v[1].waits_for = 0;
	s->threads.v[0].before = s->threads.v[0].after = (struct snapshot_times){ 5, 7 };
	has(s, WAIT_OBJECT_MONITOR, "Shop.Till.Gate", 0, false);
	has(s, WAIT_OBJECT_OTHER, "Shop.Till.Counted", SNAPSHOT_NONE, false);
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "held-waiting");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	assert_true(fixture_says(f.report,
				 "Perhaps a deadlock: 1 thread waits for Shop.Till.Gate, which 'a' (tid 100) has "
				 "had for at least 2 s: it waits for an event: Shop.Till.Counted in "
				 "Shop.Till.Close."));
	fixture_end(&f);
}

/* A lock that the finalizer thread waits for as well holds up more than those who wait for it. */
static void test_finalizer_behind_a_lock(void **state)
{
	(void)state;
	struct fixture f;
	for (uint32_t finalizer = 0; finalizer < 2; finalizer++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
		add(s, (struct snapshot_thread){ .managed_id = 5, .os_id = 100, .name = "robot", .call = FUTEX },
		    FRAMES("System.Net.Sockets.NetworkStream.ReadByte", "Shop.Library.Mount"));
		add(s, (struct snapshot_thread){ .managed_id = 2, .os_id = 101, .finalizer = finalizer, .call = FUTEX },
		    FRAMES("System.Threading.Monitor.Enter", "Shop.Library.Release"));
		s->threads.v[1].waits_for = 0;
		for (size_t i = 0; i < 2; i++)
			s->threads.v[i].before = s->threads.v[i].after = (struct snapshot_times){ 5, 7 };
		has(s, WAIT_OBJECT_MONITOR, "Shop.Library.Gate", 0, false);
		examine_twice(&f, s, s, "deadlocks");
		assert_string_equal(report_finding(f.report), finalizer ? "finalizer-blocked" : "held-long");
		assert_int_equal(report_health(f.report), REPORT_WARN);
		if (finalizer)
			assert_true(fixture_says(f.report, "'robot' (tid 100) has had that lock for at least 2 s"));
		fixture_end(&f);
	}
}

/* The queue of the console logger is full in both looks; one thread may be a coincidence. */
static void test_logging_blocks(void **state)
{
	(void)state;
	struct fixture f;
	for (uint32_t n = 1; n < 4; n++) {
		CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = thread_snapshot_new();
		for (uint32_t i = 0; i < n; i++)
			add(s, (struct snapshot_thread){ .managed_id = 10 + i, .os_id = 100 + i, .call = FUTEX },
			    FRAMES("System.Threading.Monitor.Wait",
				   "Microsoft.Extensions.Logging.Console.ConsoleLoggerProcessor.Enqueue",
				   "Shop.Orders.Accept"));
		examine_twice(&f, s, s, "deadlocks");
		assert_string_equal(report_finding(f.report), n < 2 ? "nothing-found" : "logging-blocks");
		if (n == 3)
			assert_true(fixture_says(f.report, "holds up 3 threads, one of them in Shop.Orders.Accept"));
		fixture_end(&f);
	}
}

/* A thread blocks on a task whose next part only itself would run. */
static void test_waits_for_itself(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep)
	struct thread_snapshot *s = thread_snapshot_new(), *moved = thread_snapshot_new();
	for (size_t i = 0; i < 2; i++) {
		struct thread_snapshot *one = i ? moved : s;
		add(one, (struct snapshot_thread){ .managed_id = 1, .os_id = 100, .name = "ui", .call = FUTEX },
		    FRAMES("System.Threading.Tasks.Task.InternalWait", "Shop.Form.Click"));
		one->threads.v[0].waits_for = 0;
		one->threads.v[0].before = one->threads.v[0].after = (struct snapshot_times){ 5 + i, 7 + i };
		thread_snapshot_add_wait_object(one, &(struct wait_object){ .address = 0x1000,
									    .kind = WAIT_OBJECT_TASK,
									    .name = "Shop.Form.LoadAsync",
									    .more = "its next part waits to be run",
									    .posted = true,
									    .next = SNAPSHOT_NONE });
	}
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock-itself");
	assert_true(
		fixture_says(f.report, "'ui' (tid 100) blocks in Shop.Form.Click on the task of Shop.Form.LoadAsync"));
	fixture_end(&f);
	/* The same where tasks take turns. */
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *turns = thread_snapshot_new();
	add(turns, (struct snapshot_thread){ .managed_id = 1, .os_id = 100, .state = DAC_THREAD_POOL, .call = FUTEX },
	    FRAMES("System.Threading.Tasks.Task.InternalWait", "Shop.Desk.Serve",
		   "System.Threading.Tasks.ConcurrentExclusiveSchedulerPair.ProcessExclusiveTasks"));
	turns->threads.v[0].waits_for = 0;
	thread_snapshot_add_wait_object(turns, &(struct wait_object){ .address = 0x1000,
								      .kind = WAIT_OBJECT_TASK,
								      .name = "Shop.Desk.WriteBook",
								      .more = WAIT_OBJECT_NOT_BEGUN,
								      .posted = true,
								      .next = SNAPSHOT_NONE });
	turns->threads.v[0].before = turns->threads.v[0].after = (struct snapshot_times){ 5, 7 };
	examine_twice(&f, turns, turns, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock-itself");
	assert_true(fixture_says(f.report,
				 "blocks in Shop.Desk.Serve on the task of Shop.Desk.WriteBook, which waits "
				 "for its turn at a ConcurrentExclusiveSchedulerPair, and that very thread has "
				 "the turn."));
	fixture_end(&f);
	/* It ran meanwhile: then it does not block on that for good. */
	examine_twice(&f, s, moved, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(
		fixture_says(f.report, "it blocks on the task of Shop.Form.LoadAsync (its next part waits to be run)"));
	fixture_end(&f);
}

/* Every thread of the pool blocks on a task that needs one. */
static struct thread_snapshot *starved(uint32_t n, bool one_idle)
{
	struct thread_snapshot *s = thread_snapshot_new();
	for (uint32_t i = 0; i < n; i++) {
		bool idle = one_idle && !i;
		add(s,
		    (struct snapshot_thread){
			    .managed_id = i + 1, .os_id = 100 + i, .state = DAC_THREAD_POOL, .call = FUTEX },
		    idle ? FRAMES("System.Threading.LowLevelLifoSemaphore.WaitForSignal")
			 : FRAMES("System.Threading.Tasks.Task.InternalWait", "Shop.Api.Handle"));
		s->threads.v[i].before = s->threads.v[i].after = (struct snapshot_times){ 5, 7 };
		s->threads.v[i].waits_for = idle ? SNAPSHOT_NONE : i - (one_idle ? 1 : 0);
		if (!idle)
			thread_snapshot_add_wait_object(s, &(struct wait_object){ .address = 0x1000 + i,
										  .kind = WAIT_OBJECT_TASK,
										  .name = "Shop.Api.LoadAsync",
										  .more = WAIT_OBJECT_NEXT_PART,
										  .next = SNAPSHOT_NONE });
	}
	add(s, (struct snapshot_thread){ .managed_id = 99, .state = DAC_THREAD_POOL, .call = FUTEX },
	    FRAMES("System.Threading.WaitHandle.WaitOneNoCheck",
		   "System.Threading.PortableThreadPool.GateThread.Start"));
	return s;
}

static void test_pool_blocked(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep)
	struct thread_snapshot *s = starved(4, false), *idle = starved(4, true), *one = starved(1, false);
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "pool-blocked");
	assert_true(fixture_says(f.report,
				 "All 4 threads of the pool block on tasks that only a thread of the pool could "
				 "run, and did not run for 2 s: tasks of Shop.Api.LoadAsync."));
	fixture_end(&f);
	examine_twice(&f, idle, idle, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	examine_twice(&f, one, one, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

static void test_static_constructor(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 2, 1 }, 2);
	has(s, WAIT_OBJECT_INIT, "Shop.Registry", 0, false);
	has(s, WAIT_OBJECT_THREAD, NULL, 1, false);
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "deadlock");
	assert_true(fixture_says(f.report,
				 "'a' (tid 100) runs the static constructor of Shop.Registry and waits for the end "
				 "of 'b' (tid 101); 'b' (tid 101) waits for the static constructor of "
				 "Shop.Registry."));
	assert_true(fixture_says(f.report, "a static constructor must not wait for another thread"));
	fixture_end(&f);
}

static void test_held_long(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 0, 1, 1 }, 3);
	has(s, WAIT_OBJECT_MONITOR, "Shop.Stock._gate", 0, false);
	s->threads.v[0].before.turns = s->threads.v[0].after.turns = 7;
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "held-long");
	assert_true(fixture_says(f.report,
				 "2 threads wait for Shop.Stock._gate, which 'a' (tid 100) has had for at least 2 s"));
	fixture_end(&f);
	/* It ran between the looks: who knows what it did. */
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *later = waiting((uint32_t[]){ 0, 1, 1 }, 3);
	has(later, WAIT_OBJECT_MONITOR, "Shop.Stock._gate", 0, false);
	later->threads.v[0].before.turns = later->threads.v[0].after.turns = 8;
	examine_twice(&f, s, later, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

/* A semaphore that somebody took, and nobody knows who: that is no "no". */
static void test_open_question(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 1, 1, 2 }, 3);
	has(s, WAIT_OBJECT_SEMAPHORE, "Shop.Stock._slot", SNAPSHOT_NONE, false);
	has(s, WAIT_OBJECT_SEMAPHORE, "Shop.Cafe.Table", SNAPSHOT_NONE, false);
	s->things.v[0].taken = true;
	for (size_t i = 0; i < 3; i++)
		s->threads.v[i].before.turns = s->threads.v[i].after.turns = 7;
	examine_twice(&f, s, s, "deadlocks");
	assert_string_equal(report_finding(f.report), "semaphore-taken");
	assert_true(fixture_says(f.report,
				 "No circle was found, but 2 threads wait for Shop.Stock._slot and did not run for "
				 "2 s. A semaphore does not say who took it"));
	fixture_end(&f);
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *later = waiting((uint32_t[]){ 1, 1, 2 }, 3);
	has(later, WAIT_OBJECT_SEMAPHORE, "Shop.Stock._slot", SNAPSHOT_NONE, false);
	has(later, WAIT_OBJECT_SEMAPHORE, "Shop.Cafe.Table", SNAPSHOT_NONE, false);
	later->things.v[0].taken = true;
	examine_twice(&f, s, later, "deadlocks");
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

/* Many threads, each of which blocks on a task of its own, do the same. */
static void test_alike(void **state)
{
	(void)state;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 1, 2, 3 }, 3);
	CLEANUP(thread_groups_free) struct thread_groups gs = { 0 };
	CLEANUP(buf_free) struct buf words = { 0 };
	for (uint32_t i = 0; i < 3; i++)
		has(s, WAIT_OBJECT_TASK, "Shop.Api.FetchAsync", SNAPSHOT_NONE, false);
	thread_groups_make(s, &gs);
	assert_int_equal(gs.v.n, 1);
	assert_int_equal(gs.v.v[0].n, 3);
	thread_group_words(s, &gs, &gs.v.v[0], false, &words);
	assert_string_equal(buf_cstr(&words), "block on tasks of Shop.Api.FetchAsync");
}

static void test_lock_queue(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(thread_snapshot_freep) struct thread_snapshot *s = waiting((uint32_t[]){ 0, 1, 1, 1 }, 4);
	has(s, WAIT_OBJECT_MONITOR, "Shop.Stock._gate", 0, false);
	examine(&f, s, "merged-call-stacks");
	assert_string_equal(report_finding(f.report), "lock-queue");
	assert_true(fixture_says(f.report, "3 threads wait for Shop.Stock._gate, which 'a' (tid 100) has."));
	assert_true(fixture_says(f.report, "wait for Stock._gate, held by 'a'"));
	fixture_end(&f);
}

/* A thread that the runtime made for one purpose is named by it, unless its author gave it a name. */
static void test_roles(void **state)
{
	(void)state;
	static const struct {
		struct snapshot_thread thread;
		const char *words;
	} cases[] = {
		{ { .managed_id = 2, .os_id = 98, .finalizer = true, .n = 1 }, "the finalizer thread (tid 98)" },
		{ { .managed_id = 2, .os_id = 98, .finalizer = true }, "thread 2 (tid 98)" },
		{ { .os_id = 97, .os_name = ".NET SigHandler", .n = 1 }, "the thread for signals (tid 97)" },
		{ { .managed_id = 4, .os_id = 96, .name = ".NET Timer", .n = 1 }, "the timer thread (tid 96)" },
		{ { .managed_id = 5, .os_id = 95, .name = ".NET TP Worker", .state = DAC_THREAD_POOL },
		  "pool thread 5 (tid 95)" },
		{ { .managed_id = 6, .os_id = 94, .name = "checkout", .os_name = ".NET Timer" },
		  "'checkout' (tid 94)" },
		{ { .managed_id = 7 }, "thread 7" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf words = { 0 };
		snapshot_thread_words(&cases[i].thread, &words);
		assert_string_equal(buf_cstr(&words), cases[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_doing),
		cmocka_unit_test(test_idle_libraries),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_blocked_pool),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_circle_through_tasks),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_deadlock_report),
		cmocka_unit_test(test_likely_deadlock),
		cmocka_unit_test(test_a_circle_that_passes),
		cmocka_unit_test(test_finalizer_behind_a_lock),
		cmocka_unit_test(test_logging_blocks),
		cmocka_unit_test(test_held_until_a_timer_ends),
		cmocka_unit_test(test_held_long),
		cmocka_unit_test(test_held_while_waiting),
		cmocka_unit_test(test_waits_for_itself),
		cmocka_unit_test(test_static_constructor),
		cmocka_unit_test(test_pool_blocked),
		cmocka_unit_test(test_lock_queue),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_open_question),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
