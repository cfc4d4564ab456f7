#include "eventpipe/whose.h"
#include "eventpipe/clr.h"
#include "sampling/gc_frames.h"
#include "sampling/jit_frames.h"
#include "sampling/sample_summary.h"
#include "sampling/samples.h"
#include "sampling/sampling_parts.h"
#include "sampling/switches.h"
#include "report/flame_svg.h"
#include "unit.h"
#include <pthread.h>
#include <time.h>

static uint32_t code(struct samples *s, const char *name)
{
	return samples_frame(s, name, NULL, FRAME_CODE);
}

/* main -> a -> a -> a -> leaf, and main -> b with a kernel leaf. */
static struct samples *build(void)
{
	struct samples *s = samples_new();
	bool new;
	uint32_t main_ = code(s, "Main"), a = code(s, "A"), b = code(s, "B"), leaf = code(s, "Leaf");
	uint32_t kernel = samples_frame(s, "do_syscall_64", "kernel", FRAME_KERNEL);
	uint32_t one = samples_thread(s, 11, &new), two = samples_thread(s, 12, &new);
	samples_thread_name(s, one, "burner", 6);
	s->threads.v[one].cpu_ns = 12345;
	uint32_t deep = samples_stack(s, (uint32_t[]){ leaf, a, a, a, main_ }, 5, UNWIND_ROOT, false);
	uint32_t other = samples_stack(s, (uint32_t[]){ kernel, b, main_ }, 3, UNWIND_CUT, true);
	samples_add(s, 10, one, deep, 700, 0);
	samples_add(s, 5, two, other, 300, 0); /* a step back in time */
	samples_add(s, 40, one, deep, 100, 7);
	return s;
}

static void equal_things_are_one(void **state)
{
	(void)state;
	struct samples *s = build();
	bool new;
	assert_int_equal(code(s, "Main"), 0);
	assert_int_not_equal(samples_frame(s, "Main", NULL, FRAME_NATIVE), 0);
	assert_int_equal(samples_thread(s, 12, &new), 1);
	assert_false(new);
	assert_int_equal(s->stacks.n, 2);
	uint32_t again = samples_stack(s, (uint32_t[]){ 3, 1, 1, 1, 0 }, 5, UNWIND_ROOT, false);
	assert_int_equal(again, 0);
	assert_int_equal(samples_stack(s, (uint32_t[]){ 3, 1, 1, 1, 0 }, 5, UNWIND_LOST, false), 2);
	samples_free(s);
}

static void recursion_is_folded(void **state)
{
	(void)state;
	struct samples *s = build();
	uint32_t out[16];
	assert_int_equal(samples_fold(s, NULL, 0, out), 3);
	assert_int_equal(out[1], 1);
	/* Two that call each other. */
	uint32_t pair = samples_stack(s, (uint32_t[]){ 3, 1, 2, 1, 2, 1, 2, 0 }, 8, UNWIND_ROOT, false);
	assert_int_equal(samples_fold(s, NULL, pair, out), 4);
	samples_free(s);
}

static void written_and_read_again(void **state)
{
	(void)state;
	struct samples *s = build(), *again = NULL;
	struct buf bytes = { 0 }, second = { 0 };
	samples_write(s, &bytes);
	assert_ok(samples_read(bytes.data, bytes.len, &again));
	assert_int_equal(again->list.n, 3);
	assert_int_equal(again->list.v[1].time_us, 5);
	assert_int_equal(again->list.v[2].kind, 7);
	assert_int_equal(again->threads.v[0].cpu_ns, 12345);
	assert_true(again->threads.v[1].cpu_ns == UINT64_MAX);
	assert_string_equal(samples_thread_show(again, 0), "burner");
	assert_string_equal(samples_frame_name(again, again->stack_frames.v[5]), "do_syscall_64");
	assert_true(again->stacks.v[1].guessed);
	samples_write(again, &second);
	assert_int_equal(bytes.len, second.len);
	assert_memory_equal(bytes.data, second.data, bytes.len);
	samples_free(s);
	samples_free(again);
	buf_free(&bytes);
	buf_free(&second);
}

static void damage_is_refused(void **state)
{
	(void)state;
	struct samples *s = build();
	struct buf bytes = { 0 };
	samples_write(s, &bytes);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		struct samples *got = NULL;
		CLEANUP(mem_freep) char *part = mem_dup(bytes.data, cut ? cut : 1);
		struct err *err = samples_read(part, cut, &got);
		assert_non_null(err);
		err_free(err);
	}
	for (size_t at = 0; at < bytes.len; at++) {
		for (int v = 0; v < 256; v += 5) {
			struct samples *got = NULL;
			CLEANUP(mem_freep) char *part = mem_dup(bytes.data, bytes.len);
			part[at] = (char)v;
			struct err *err = samples_read(part, bytes.len, &got);
			if (!err)
				sample_summary_free(sample_summary_new(got, UINT64_MAX));
			err_free(err);
			samples_free(got);
		}
	}
	struct samples *got;
	bytes.data[8] = 99;
	assert_err(samples_read(bytes.data, bytes.len, &got), ERR_UNSUPPORTED);
	samples_free(s);
	buf_free(&bytes);
}

static void sums(void **state)
{
	(void)state;
	struct samples *s = build();
	struct sample_summary *h = sample_summary_new(s, 1);
	assert_int_equal(h->weight, 1000);
	assert_int_equal(h->count, 2);
	assert_int_equal(h->by_kind[FRAME_CODE], 700);
	assert_int_equal(h->by_kind[FRAME_KERNEL], 300);
	assert_string_equal(samples_frame_name(s, h->methods.v[0].frame), "Leaf");
	assert_int_equal(h->methods.v[0].self, 700);
	assert_int_equal(h->threads[0], 700);
	/* Leaf belongs to A; the kernel's time to B. */
	assert_int_equal(h->sites.n, 2);
	assert_string_equal(samples_frame_name(s, h->sites.v[0].frame), "Leaf");
	assert_string_equal(samples_frame_name(s, h->sites.v[0].caller), "A");
	assert_string_equal(samples_frame_name(s, h->sites.v[1].frame), "B");
	assert_string_equal(samples_frame_name(s, h->sites.v[1].below), "do_syscall_64");
	struct buf folded = { 0 };
	sample_summary_folded(h, 100, &folded);
	assert_string_equal(buf_cstr(&folded), "Main;A;Leaf 7\nMain;B;do_syscall_64 3\n");
	buf_free(&folded);
	sample_summary_free(h);
	samples_free(s);
}

/* A handler that is inlined in what was compiled to call it. */
static void compiled_code_stands_for_what_is_inlined_in_it(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	bool new;
	uint32_t frames[] = { samples_frame(s, "System.Text.RegularExpressions.Regex.Match", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "dynamicClass.lambda_method41", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "Microsoft.AspNetCore.Invoke", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
	samples_add(s, 0, samples_thread(s, 1, &new), samples_stack(s, frames, 3, UNWIND_ROOT, false), 10, 0);
	samples_add(s, 0, samples_thread(s, 1, &new), samples_stack(s, frames, 4, UNWIND_ROOT, false), 5, 0);
	struct sample_summary *h = sample_summary_new(s, 1);
	assert_int_equal(h->sites.n, 2);
	assert_string_equal(samples_frame_name(s, h->sites.v[0].frame), "dynamicClass.lambda_method41");
	assert_string_equal(samples_frame_name(s, h->sites.v[0].called), "System.Text.RegularExpressions.Regex.Match");
	assert_string_equal(samples_frame_name(s, h->sites.v[1].frame), "Shop.Main");
	sample_summary_free(h);
	samples_free(s);
}

/* A module without symbols says less than the method that called into it, wherever it stands on the stack. */
static void code_without_a_name_is_not_the_end_of_a_path(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	bool new;
	uint32_t native = samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE);
	uint32_t stub = samples_frame(s, "[stub]", NULL, FRAME_OTHER);
	uint32_t sort = samples_frame(s, "System.Array.Sort", NULL, FRAME_FRAMEWORK);
	uint32_t copy = samples_frame(s, "memmove", "libc.so.6", FRAME_NATIVE);
	uint32_t gc = samples_frame(s, "[garbage collection]", "libcoreclr.so", FRAME_GC);
	const struct {
		uint32_t frames[4], n;
		const char *below, *called;
	} cases[] = {
		{ { native, native, sort, code(s, "A") }, 4, "System.Array.Sort", "System.Array.Sort" },
		{ { native, stub, code(s, "B") }, 3, "B", NULL },
		{ { native, code(s, "C") }, 2, "C", NULL },
		{ { copy, native, code(s, "D") }, 3, "memmove", "memmove" },
		{ { gc, native, code(s, "E") }, 3, "[garbage collection]", "[garbage collection]" },
		{ { native, sort }, 2, "System.Array.Sort", "System.Array.Sort" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		samples_add(s, 0, samples_thread(s, 1, &new),
			    samples_stack(s, cases[i].frames, cases[i].n, UNWIND_ROOT, false), 100 - i, 0);
	struct sample_summary *h = sample_summary_new(s, 1);
	assert_int_equal(h->sites.n, ARRAY_SIZE(cases));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct summary_site *site = &h->sites.v[i];
		assert_string_equal(samples_frame_name(s, site->below), cases[i].below);
		if (cases[i].called)
			assert_string_equal(samples_frame_name(s, site->called), cases[i].called);
		else
			assert_int_equal(site->called, UINT32_MAX);
	}
	sample_summary_free(h);
	samples_free(s);
}

/* One that few know may be of the user's company; one that all know is not. */
static void a_package_stands_where_there_is_nothing_of_the_users(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	CLEANUP(whose_names_freep) struct whose_names *names = whose_names_new();
	bool new;
	whose_names_add(names, "Zeta", WHOSE_PACKAGE);
	s->whose = names;
	uint32_t frames[] = { samples_frame(s, "System.Math.Sin", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "Npgsql.Reader.Read", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "Zeta.Kernel.Burn", NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
	for (uint32_t n = 2; n <= 4; n++)
		samples_add(s, 0, samples_thread(s, 1, &new), samples_stack(s, frames, n, UNWIND_ROOT, false), 5 * n,
			    0);
	struct sample_summary *h = sample_summary_new(s, 1);
	assert_int_equal(h->sites.n, 3);
	assert_string_equal(samples_frame_name(s, h->sites.v[0].frame), "Shop.Main");
	assert_string_equal(samples_frame_name(s, h->sites.v[1].frame), "Zeta.Kernel.Burn");
	assert_int_equal(h->sites.v[2].frame, UINT32_MAX);
	sample_summary_free(h);
	samples_free(s);
}

static void hostile_names_stay_in_their_place(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	bool new;
	uint32_t evil = code(s, "a;b\n]]></script><svg onload=\"x\">&");
	samples_add(s, 0, samples_thread(s, 1, &new), samples_stack(s, &evil, 1, UNWIND_ROOT, false), 10, 0);
	struct sample_summary *h = sample_summary_new(s, 1);
	struct buf folded = { 0 }, svg = { 0 };
	sample_summary_folded(h, 1, &folded);
	assert_null(strchr(buf_cstr(&folded), ';'));
	assert_ptr_equal(strchr(folded.data, '\n'), folded.data + folded.len - 1);
	flame_svg(h->down, "CPU <time>", VALUE_NS, &svg);
	assert_null(strstr(svg.data, "<svg onload"));
	assert_null(strstr(svg.data, "CPU <time>"));
	assert_non_null(strstr(svg.data, "&lt;svg onload"));
	buf_free(&folded);
	buf_free(&svg);
	sample_summary_free(h);
	samples_free(s);
}

/* --- samples of the collector --- */

static uint32_t runtime_below(struct samples *s, const char *method)
{
	uint32_t frames[] = { samples_frame(s, "schedule", "kernel", FRAME_KERNEL),
			      samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE),
			      samples_frame(s, method, NULL, FRAME_FRAMEWORK),
			      samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE) };
	return samples_stack(s, frames, ARRAY_SIZE(frames), UNWIND_ROOT, false);
}

static bool is_collector(const struct samples *s, size_t sample)
{
	const struct samples_stack *k = &s->stacks.v[s->list.v[sample].stack];
	uint8_t below = s->frames.v[s->stack_frames.v[k->first + 3]].kind;
	assert_int_equal(below, FRAME_NATIVE); /* what is below managed code is not the collector's */
	return s->frames.v[s->stack_frames.v[k->first + 1]].kind == FRAME_GC;
}

static void what_works_in_the_runtime_during_a_pause_is_the_collector(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	struct gc_marks m = { 0 };
	bool new;
	uint32_t worker = samples_thread(s, 11, &new), server = samples_thread(s, 12, &new);
	samples_thread_name(s, server, ".NET Server GC0", 15);
	uint32_t allocates = runtime_below(s, "System.String.Concat");
	uint32_t idle = runtime_below(s, "System.Threading.LowLevelLifoSemaphore.WaitNative");
	uint32_t single = samples_frame(s, "[shop]", "shop", FRAME_NATIVE);
	uint32_t one_file =
		samples_stack(s, (uint32_t[]){ single, single, code(s, "Shop.Main"), single }, 4, UNWIND_ROOT, false);
	const uint64_t start_ns = 1000000;
	samples_add(s, 100, worker, allocates, 1, 0); /* before, in, after */
	samples_add(s, 250, worker, allocates, 1, 0);
	samples_add(s, 400, worker, allocates, 1, 0);
	samples_add(s, 250, worker, idle, 1, 0); /* only waits */
	samples_add(s, 900, server, allocates, 1, 0);
	samples_add(s, 990, worker, allocates, 1, 0);
	samples_add(s, 250, worker, one_file, 1, 0);
	vec_push(&m.pauses, ((struct attributed_span){ 0, start_ns + 200000, start_ns + 300000 }));
	vec_push(&m.pauses, ((struct attributed_span){ 0, start_ns + 950000, 0 }));
	/* How the last one ends may still be told; and the runtime may be part of the program. */
	for (int over = 0; over < 2; over++) {
		m.runtime = over ? mem_strdup("shop") : NULL;
		gc_marks_apply(&m, s, start_ns, over);
		const bool expected[] = { false, true, false, false, true, over, over };
		for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
			assert_int_equal(is_collector(s, i), expected[i]);
	}
	gc_marks_fini(&m);
	samples_free(s);
}

static void a_function_of_the_collector_keeps_its_name(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	struct gc_marks m = { 0 };
	bool new;
	uint32_t thread = samples_thread(s, 11, &new);
	uint32_t named = samples_frame(s, "WKS::gc_heap::mark_phase", "libcoreclr.so", FRAME_NATIVE);
	uint32_t bare = samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE);
	samples_add(s, 20, thread, samples_stack(s, (uint32_t[]){ named, bare }, 2, UNWIND_ROOT, false), 1, 0);
	vec_push(&m.pauses, ((struct attributed_span){ 0, 10000, 30000 }));
	gc_marks_apply(&m, s, 0, true);
	const uint32_t *frames = &s->stack_frames.v[s->stacks.v[s->list.v[0].stack].first];
	assert_string_equal(samples_frame_name(s, frames[0]), "WKS::gc_heap::mark_phase");
	assert_string_equal(samples_frame_name(s, frames[1]), "[garbage collection]");
	assert_int_equal(s->frames.v[frames[0]].kind, FRAME_GC);
	assert_int_equal(s->frames.v[frames[1]].kind, FRAME_GC);
	gc_marks_fini(&m);
	samples_free(s);
}

static void what_works_in_one_file_while_a_method_is_compiled_is_the_compiler(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	struct jit_marks m = { 0 };
	bool new;
	uint32_t thread = samples_thread(s, 11, &new), other = samples_thread(s, 12, &new);
	uint32_t runtime = samples_frame(s, "[shop]", "shop", FRAME_NATIVE),
		 library = samples_frame(s, "read", "libc.so.6", FRAME_NATIVE);
	uint32_t compiles = samples_stack(s, (uint32_t[]){ library, runtime, code(s, "Shop.Main"), runtime }, 4,
					  UNWIND_ROOT, false);
	const uint64_t start_ns = 1000000;
	samples_add(s, 100, thread, compiles, 1, 0); /* before, in, after, in the next */
	samples_add(s, 250, thread, compiles, 1, 0);
	samples_add(s, 350, thread, compiles, 1, 0);
	samples_add(s, 450, thread, compiles, 1, 0);
	samples_add(s, 250, other, compiles, 1, 0);
	/* Events of several threads come in no order. */
	vec_push(&m.spans, ((struct attributed_span){ 11, start_ns + 400000, start_ns + 500000 }));
	vec_push(&m.spans, ((struct attributed_span){ 9, start_ns + 100000, start_ns + 500000 }));
	vec_push(&m.spans, ((struct attributed_span){ 11, start_ns + 200000, start_ns + 300000 }));
	jit_marks_apply(&m, s, "shop", start_ns);
	const bool expected[] = { false, true, false, true, false };
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct samples_stack *k = &s->stacks.v[s->list.v[i].stack];
		static const uint8_t kinds[] = { FRAME_NATIVE, FRAME_JIT, FRAME_CODE, FRAME_NATIVE };
		for (uint32_t f = 0; f < ARRAY_SIZE(kinds); f++)
			assert_int_equal(s->frames.v[s->stack_frames.v[k->first + f]].kind,
					 f == 1 && !expected[i] ? FRAME_NATIVE : kinds[f]);
	}
	jit_marks_fini(&m);
	samples_free(s);
}

static void waits_that_begin_in_a_pause_are_for_the_collector(void **state)
{
	(void)state;
	struct samples *s = samples_new();
	struct gc_marks m = { 0 };
	bool new;
	uint32_t thread = samples_thread(s, 11, &new), main_ = code(s, "Shop.Main");
	uint32_t runtime = samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE);
	uint32_t enter = samples_frame(s, "System.Threading.Monitor.Enter_Slowpath", NULL, FRAME_FRAMEWORK);
	uint32_t concat = samples_frame(s, "System.String.Concat", NULL, FRAME_FRAMEWORK);
	uint32_t bare = samples_stack(s, (uint32_t[]){ runtime, main_ }, 2, UNWIND_ROOT, false);
	uint32_t lock = samples_stack(s, (uint32_t[]){ runtime, enter, main_ }, 3, UNWIND_ROOT, false);
	uint32_t allocates = samples_stack(s, (uint32_t[]){ runtime, concat, main_ }, 3, UNWIND_ROOT, false);
	const struct {
		uint32_t at_us, stack, kind, expected;
	} cases[] = { { 21000, bare, WAIT_LOCK, WAIT_GC },	 { 21000, allocates, WAIT_EVENT, WAIT_GC },
		      { 17000, allocates, WAIT_EVENT, WAIT_GC }, { 10000, bare, WAIT_LOCK, WAIT_LOCK },
		      { 41000, bare, WAIT_LOCK, WAIT_LOCK },	 { 21000, lock, WAIT_LOCK, WAIT_LOCK },
		      { 21000, bare, WAIT_SOCKET, WAIT_SOCKET } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		samples_add(s, cases[i].at_us, thread, cases[i].stack, 1000, cases[i].kind);
	vec_push(&m.pauses, ((struct attributed_span){ 0, 20000000, 40000000 }));
	gc_marks_waits(&m, s, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(s->list.v[i].kind, cases[i].expected);
	gc_marks_fini(&m);
	samples_free(s);
}

static void collections_are_counted_by_who_asked_for_them(void **state)
{
	(void)state;
	enum { GC_START = 1, SMALL = 0, INDUCED = 1 };
	static const uint32_t reasons[] = { SMALL, INDUCED, INDUCED };
	struct gc_marks m = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(reasons) + 1; i++) {
		/* The last one is cut. */
		uint32_t payload[] = { (uint32_t)i, 2, reasons[i % ARRAY_SIZE(reasons)], 0, 0, 0, 0 };
		struct nettrace_meta meta = { .provider = CLR_PROVIDER, .event_id = GC_START, .name = "" };
		struct nettrace_event event = { .meta = &meta,
						.payload = (const uint8_t *)payload,
						.payload_size = i < ARRAY_SIZE(reasons) ? sizeof(payload) : 6,
						.pointer_size = 8 };
		gc_marks_event(&m, &event);
	}
	assert_int_equal(m.collections, 3);
	assert_int_equal(m.induced, 2);
	gc_marks_fini(&m);
}

/* --- switches --- */

static struct samples *with_wait(const char *kernel, const char *managed, enum frame_kind kind, uint32_t *ret_stack)
{
	struct samples *s = samples_new();
	uint32_t frames[] = { samples_frame(s, "schedule", "kernel", FRAME_KERNEL),
			      samples_frame(s, kernel, "kernel", FRAME_KERNEL),
			      samples_frame(s, "[libcoreclr.so]", "libcoreclr.so", FRAME_NATIVE),
			      samples_frame(s, managed, NULL, kind), samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
	*ret_stack = samples_stack(s, frames, ARRAY_SIZE(frames), UNWIND_ROOT, false);
	return s;
}

static void kinds_of_waits(void **state)
{
	(void)state;
	static const struct {
		const char *kernel, *managed;
		enum frame_kind frame;
		enum wait_kind kind;
	} cases[] = {
		{ "futex_do_wait", "Shop.Stock.Reserve", FRAME_CODE, WAIT_LOCK },
		{ "futex_do_wait", "System.Threading.Monitor.Enter_Slowpath", FRAME_FRAMEWORK, WAIT_LOCK },
		{ "futex_wait", "System.Threading.Lock.TryEnterSlow", FRAME_FRAMEWORK, WAIT_LOCK },
		{ "futex_wait", "System.Threading.SpinLock.ContinueTryEnter", FRAME_FRAMEWORK, WAIT_LOCK },
		{ "futex_wait", "System.Threading.ReaderWriterLockSlim.TryEnterReadLockCore", FRAME_FRAMEWORK,
		  WAIT_LOCK },
		{ "futex_wait", "System.Threading.WaitHandle.WaitOneNoCheck", FRAME_FRAMEWORK, WAIT_EVENT },
		{ "futex_wait", "System.Threading.Thread.Sleep", FRAME_FRAMEWORK, WAIT_SLEEP },
		{ "futex_wait", "System.Net.Sockets.SocketAsyncContext.PerformSyncOperation", FRAME_FRAMEWORK,
		  WAIT_SOCKET },
		{ "futex_wait", "Npgsql.PoolingDataSource.Get", FRAME_FRAMEWORK, WAIT_LOCK },
		{ "hrtimer_nanosleep", "Shop.A", FRAME_CODE, WAIT_SLEEP },
		{ "ep_poll", "Shop.A", FRAME_CODE, WAIT_POLL },
		{ "anon_pipe_read", "Shop.A", FRAME_CODE, WAIT_PIPE },
		{ "tcp_recvmsg", "Shop.A", FRAME_CODE, WAIT_SOCKET },
		{ "io_schedule", "Shop.A", FRAME_CODE, WAIT_FILE },
		{ "exc_page_fault", "Shop.A", FRAME_CODE, WAIT_FAULT },
		{ "do_wait", "Shop.A", FRAME_CODE, WAIT_CHILD },
		{ "something_new", "Shop.A", FRAME_CODE, WAIT_OTHER },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t stack;
		struct samples *s = with_wait(cases[i].kernel, cases[i].managed, cases[i].frame, &stack);
		assert_int_equal(wait_kind_of(s, stack, -1), cases[i].kind);
		samples_free(s);
	}
}

static void a_lock_that_sleeps_or_goes_through_a_stub_is_a_lock(void **state)
{
	(void)state;
	static const char *const between[] = { "dynamicClass.IL_STUB_PInvoke", "System.Threading.Thread.Sleep" };
	static const char *const locks[] = { "System.Threading.Lock.TryEnterSlow", "System.Threading.SpinLock.Enter" };
	for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
		struct samples *s = samples_new();
		uint32_t frames[] = { samples_frame(s, "futex_do_wait", "kernel", FRAME_KERNEL),
				      samples_frame(s, between[i], NULL, FRAME_FRAMEWORK),
				      samples_frame(s, locks[i], NULL, FRAME_FRAMEWORK),
				      samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
		uint32_t stack = samples_stack(s, frames, ARRAY_SIZE(frames), UNWIND_ROOT, false);
		assert_int_equal(wait_kind_of(s, stack, -1), WAIT_LOCK);
		samples_free(s);
	}
}

static void what_goes_straight_into_the_runtime_may_be_no_lock(void **state)
{
	(void)state;
	static const struct {
		const char *native;
		bool lock_frames;
		enum wait_kind kind;
	} cases[] = { { "__GI___pthread_cond_wait", false, WAIT_LOCK },
		      { "__GI___pthread_cond_timedwait", false, WAIT_EVENT },
		      { "__GI___pthread_cond_wait", true, WAIT_EVENT } };
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		struct samples *s = samples_new();
		s->lock_frames = cases[i / 2].lock_frames;
		uint32_t frames[] = { samples_frame(s, "futex_do_wait", "kernel", FRAME_KERNEL),
				      samples_frame(s, cases[i / 2].native, "libc.so.6", FRAME_NATIVE),
				      i % 2 ? samples_frame(s, "Npgsql.PoolingDataSource.Get", NULL, FRAME_FRAMEWORK)
					    : samples_frame(s, "Shop.Stock.Reserve", NULL, FRAME_CODE),
				      samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
		uint32_t stack = samples_stack(s, frames, ARRAY_SIZE(frames), UNWIND_ROOT, false);
		assert_int_equal(wait_kind_of(s, stack, -1), cases[i / 2].kind);
		samples_free(s);
	}
}

static void waits_are_timed(void **state)
{
	(void)state;
	uint32_t stack;
	bool new;
	struct samples *s = with_wait("ep_poll", "Shop.A", FRAME_CODE, &stack);
	for (uint32_t i = 0; i < 5; i++)
		samples_thread(s, i, &new);
	struct switches *w = switches_new(s, 1000);
	/* 0: a whole wait. */
	switches_sample(w, 0, 2000, stack);
	switches_switch(w, 0, 2010, true, false);
	switches_switch(w, 0, 5010, false, false);
	/* 1: preempted. */
	switches_sample(w, 1, 2000, stack);
	switches_switch(w, 1, 2000, true, true);
	switches_switch(w, 1, 2500, false, false);
	/* 2: waited before we came, and wakes. */
	switches_before(w, 2, stack, WAIT_SOCKET);
	switches_switch(w, 2, 4000, false, false);
	/* 3: never moves. */
	switches_before(w, 3, stack, WAIT_LOCK);
	/* 4: still waits at the end. */
	switches_sample(w, 4, 8000, stack);
	switches_switch(w, 4, 8000, true, false);
	switches_finish(w, 11000);
	static const struct {
		uint32_t thread, kind;
		uint64_t weight;
	} want[] = { { 0, WAIT_POLL, 3000 },
		     { 1, WAIT_CPU, 500 },
		     { 2, WAIT_SOCKET, 3000 },
		     { 4, WAIT_POLL, 3000 },
		     { 3, WAIT_LOCK | WAIT_WHOLE, 10000 } };
	assert_int_equal(s->list.n, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_int_equal(s->list.v[i].thread, want[i].thread);
		assert_int_equal(s->list.v[i].kind, want[i].kind);
		assert_int_equal(s->list.v[i].weight, want[i].weight);
	}
	switches_free(w);
	samples_free(s);
}

static void what_was_heard_stands_for_the_whole(void **state)
{
	(void)state;
	uint32_t stack;
	bool new;
	struct samples *s = with_wait("ep_poll", "Shop.A", FRAME_CODE, &stack);
	for (uint32_t i = 0; i < 4; i++)
		samples_thread(s, i, &new);
	struct switches *w = switches_new(s, 0);
	switches_before(w, 1, stack, WAIT_LOCK);
	switches_before(w, 2, stack, WAIT_LOCK);
	/* 0: waits 200 of 1000, and again when listening ends. */
	switches_sample(w, 0, 100, stack);
	switches_switch(w, 0, 100, true, false);
	switches_switch(w, 0, 300, false, false);
	switches_sample(w, 0, 900, stack);
	switches_switch(w, 0, 900, true, false);
	switches_rest(w, 1000);
	/* What happens now nobody knows. 1 still stands there when it goes on, 2 has moved. */
	switches_before(w, 1, stack, WAIT_LOCK);
	switches_go_on(w, 9000);
	switches_switch(w, 2, 9500, true, false);
	switches_switch(w, 2, 9600, false, false);
	/* 3 stood still whenever it was heard, but ran in between. */
	switches_before(w, 3, stack, WAIT_LOCK);
	switches_moved(w, 3);
	switches_finish(w, 10000);
	uint64_t sums[4] = { 0 };
	vec_each(x, &s->list) {
		sums[x->thread] += x->weight;
		assert_int_equal(x->kind & WAIT_WHOLE, x->thread == 1 ? WAIT_WHOLE : 0);
	}
	/* The first 1000 that were heard stand for 9000, the last for themselves. */
	assert_int_equal(switches_facts(w).listened_ns, 2000);
	assert_int_equal(sums[0], 9 * 300);
	assert_int_equal(sums[1], 9 * 1000 + 1000);
	assert_int_equal(sums[2], 9 * 1000 + 100); /* its second wait without a stack is the first's */
	assert_int_equal(sums[3], 1000);
	switches_free(w);
	samples_free(s);
}

static void sampled_waits_stand_for_all_of_their_thread(void **state)
{
	(void)state;
	uint32_t stack;
	bool new;
	struct samples *s = with_wait("ep_poll", "Shop.A", FRAME_CODE, &stack);
	samples_thread(s, 0, &new);
	struct switches *w = switches_new(s, 0);
	for (uint64_t i = 0; i < 10; i++) {
		if (i == 3)
			switches_sample(w, 0, 1000 * i, stack);
		switches_switch(w, 0, 1000 * i, true, false);
		switches_switch(w, 0, 1000 * i + 400, false, false);
	}
	switches_finish(w, 20000);
	assert_int_equal(s->list.n, 1);
	assert_int_equal(s->list.v[0].weight, 4000);
	assert_int_equal(switches_facts(w).waits, 10);
	assert_int_equal(switches_facts(w).with_stack, 1);
	switches_free(w);
	samples_free(s);
}

/* --- lives --- */

static void hear(struct sampling *g, enum record_kind kind, uint32_t pid, const char *comm, uint64_t period)
{
	struct record r = { .kind = kind,
			    .pid = pid,
			    .tid = pid,
			    .period = period,
			    .comm = comm,
			    .comm_len = comm ? strlen(comm) : 0,
			    .exec = comm != NULL };
	sampling_on_record(g, &r);
}

static void processes_that_it_started_are_none_of_its_own(void **state)
{
	(void)state;
	struct patient patient = { .target = { .pid = 10, .name = (char[]){ "shop" } } };
	struct exam exam = { .patient = &patient };
	struct sampling_facts facts = { 0 };
	struct sampling g = { .exam = &exam, .facts = &facts, .samples = samples_new() };
	hear(&g, RECORD_SAMPLE, 20, NULL, 5); /* not yet another program */
	hear(&g, RECORD_COMM, 20, "sh", 0);
	hear(&g, RECORD_SAMPLE, 20, NULL, 30);
	hear(&g, RECORD_COMM, 21, "convert", 0);
	hear(&g, RECORD_SAMPLE, 21, NULL, 20);
	hear(&g, RECORD_COMM, 22, "convert", 0);
	hear(&g, RECORD_SAMPLE, 22, NULL, 20);
	hear(&g, RECORD_COMM, 23, "a name of sixteen bytes and more", 0);
	sampling_started_sum(&g);
	assert_int_equal(facts.started_ns, 75);
	assert_string_equal(facts.started, "convert");
	assert_int_equal(facts.samples, 0);
	assert_int_equal(g.samples->list.n, 0);
	sampling_lives_fini(&g);
	samples_free(g.samples);
}

/* Milliseconds of CPU time. */
static void *burn(void *ms)
{
	struct timespec now, begin;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000 + (uint64_t)(now.tv_nsec / 1000000) <
	       (uint64_t)(begin.tv_nsec / 1000000) + *(const uint64_t *)ms);
	return NULL;
}

static bool lives_are_short(size_t threads, uint64_t ms)
{
	struct patient patient = { .target = { .pid = getpid() } };
	struct exam exam = { .patient = &patient };
	struct sampling g = { .exam = &exam };
	sampling_lives_begin(&g);
	burn(&(uint64_t){ threads ? 0 : ms });
	for (size_t i = 0; i < threads; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, burn, &ms), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	bool are = sampling_lives_are_short(&g);
	sampling_lives_fini(&g);
	return are;
}

static void threads_that_end_soon_are_noticed(void **state)
{
	(void)state;
	assert_false(lives_are_short(0, 200));
	lives_are_short(50, 20); /* a habit of some time */
	assert_true(lives_are_short(50, 5));
	assert_false(lives_are_short(0, 50));
}

static void who_gives_its_cpu_away_lacks_none(void **state)
{
	(void)state;
	assert_int_equal(sampling_lacked_ns(30000000, 90000000, 10), 90000000); /* 3 ms at a time */
	assert_int_equal(sampling_lacked_ns(3000000, 90000000, 100), 0);	/* 30 µs */
	assert_int_equal(sampling_lacked_ns(0, 90000000, 0), 90000000);		/* never */
}

static void a_wait_that_began_before_it_was_listened_counts_from_then(void **state UNUSED)
{
	uint32_t stack;
	bool new;
	struct samples *s = with_wait("ep_poll", "Shop.A", FRAME_CODE, &stack);
	samples_thread(s, 0, &new);
	struct switches *w = switches_new(s, 0);
	switches_rest(w, 1000);
	/* Its events were opened first, and told of a switch before all of them were. */
	switches_go_on(w, 9000);
	switches_sample(w, 0, 8000, stack);
	switches_switch(w, 0, 8000, true, false);
	switches_rest(w, 9100);
	switches_finish(w, 10000);
	uint64_t sum = 0;
	vec_each(x, &s->list)
		sum += x->weight;
	assert_int_equal(sum, 1000); /* all of the last 1000, for which 100 stand */
	switches_free(w);
	samples_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_things_are_one),
		cmocka_unit_test(recursion_is_folded),
		cmocka_unit_test(written_and_read_again),
		cmocka_unit_test(damage_is_refused),
		cmocka_unit_test(sums),
		cmocka_unit_test(compiled_code_stands_for_what_is_inlined_in_it),
		cmocka_unit_test(code_without_a_name_is_not_the_end_of_a_path),
		cmocka_unit_test(a_package_stands_where_there_is_nothing_of_the_users),
		cmocka_unit_test(hostile_names_stay_in_their_place),
		cmocka_unit_test(what_works_in_the_runtime_during_a_pause_is_the_collector),
		cmocka_unit_test(a_function_of_the_collector_keeps_its_name),
		cmocka_unit_test(what_works_in_one_file_while_a_method_is_compiled_is_the_compiler),
		cmocka_unit_test(waits_that_begin_in_a_pause_are_for_the_collector),
		cmocka_unit_test(collections_are_counted_by_who_asked_for_them),
		cmocka_unit_test(kinds_of_waits),
		cmocka_unit_test(a_lock_that_sleeps_or_goes_through_a_stub_is_a_lock),
		cmocka_unit_test(what_goes_straight_into_the_runtime_may_be_no_lock),
		cmocka_unit_test(waits_are_timed),
		cmocka_unit_test(what_was_heard_stands_for_the_whole),
		cmocka_unit_test(sampled_waits_stand_for_all_of_their_thread),
		cmocka_unit_test(processes_that_it_started_are_none_of_its_own),
		cmocka_unit_test(threads_that_end_soon_are_noticed),
		cmocka_unit_test(a_wait_that_began_before_it_was_listened_counts_from_then),
		cmocka_unit_test(who_gives_its_cpu_away_lacks_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
