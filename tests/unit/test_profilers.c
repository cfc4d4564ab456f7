#include "unit.h"

#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam_fixture.h"
#include "profilers/registry.h"
#include <unistd.h>

/* --- the registry --- */

static void every_profiler_is_complete(void **state UNUSED)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	assert_true(n >= 2);
	for (size_t i = 0; i < n; i++) {
		const struct profiler *p = all[i];
		const struct profiler *found = NULL;
		assert_false(str_empty(p->symptom) || str_empty(p->description) || str_empty(p->name) ||
			     str_empty(p->cost) || str_empty(p->chapter) || str_empty(p->label));
		assert_int_equal(strlen(p->uuid), 36);
		assert_true(p->ways[0] != WAY_AUTO && p->run && p->analyse);
		assert_ok(profiler_find(p->uuid, &found));
		assert_ptr_equal(found, p);
		for (size_t k = 0; k < i; k++)
			assert_false(str_eq(all[k]->id, p->id) || str_eq_nocase(all[k]->uuid, p->uuid) ||
				     str_eq(all[k]->label, p->label));
		struct params *params = params_new(p);
		for (size_t k = 0; k < p->n_params; k++) { /* the default passes its own check */
			assert_ok(params_set(params, p->params[k].key, p->params[k].default_value));
			assert_true(params_is_default(params, p->params[k].key));
		}
		params_free(params);
	}
}

/* What clients of the Dr-Dotnet contract find, and no more. */
static void the_contract_names_its_files(void **state UNUSED)
{
	static const char *const named[][3] = {
		{ "805A307B-061C-47F3-9B30-F795C3186E86", "summary.html" },
		{ "805A308B-061C-47F3-9B30-F785C3186E82", "summary.md" },
		{ "805A308B-061C-47F3-9B30-F785C3186E84", "summary.md" },
		{ "805A308B-061C-47F3-9B30-F785C3186E83", "summary.md" },
		{ "805A308B-061C-47F3-9B30-F785C3186E85", "summary.md" },
		{ "805A308B-061C-47F3-9B30-A485B2056E71", "cpu_hotpaths.html" },
		{ "bdaba522-104c-4343-8952-036bed81527d", "summary.md" },
		{ "9404d16c-b49e-11ed-afa1-0242ac120002", "pstacks.md", "collapsible_pstacks.html" },
	};
	size_t n, with_files = 0;
	const struct profiler *const *all = profiler_all(&n);
	const struct profiler *p = NULL;
	for (size_t i = 0; i < n; i++)
		with_files += all[i]->contract_files != NULL;
	assert_int_equal(with_files, ARRAY_SIZE(named));
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		assert_ok(profiler_find(named[i][0], &p));
		assert_string_equal(p->contract_files[0], named[i][1]);
		if (named[i][2])
			assert_string_equal(p->contract_files[1], named[i][2]);
		assert_null(p->contract_files[named[i][2] ? 2 : 1]);
	}
}

/* What scripts for Dr-Dotnet set: it had no limits. */
static void the_contract_takes_its_parameters(void **state UNUSED)
{
	static const char *const taken[][3] = {
		{ "gc-survivors", "sort_by_size", "False" },
		{ "gc-survivors", "retained_references_threshold", "0" },
		{ "gc-survivors", "retained_bytes_threshold", "0" },
		{ "gc-survivors", "max_depth", "1000" },
		{ "exceptions", "duration", "3600" },
		{ "cpu-hotpaths", "duration_seconds", "3600" },
		{ "cpu-hotpaths", "time_interval_ms", "5000" },
		{ "cpu-hotpaths", "filter_suspended_threads", "True" },
		{ "cpu-hotpaths", "caller_to_callee", "True" },
		{ "cpu-hotpaths", "max_stacks", "100000" },
		{ "duplicated-strings", "top_count", "5000" },
		{ "duplicated-strings", "max_string_display_size", "65536" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		const struct profiler *p = NULL;
		assert_ok(profiler_find(taken[i][0], &p));
		CLEANUP(params_freep) struct params *params = params_new(p);
		assert_ok(params_set(params, taken[i][1], taken[i][2]));
	}
}

static bool runs_after(const struct profiler *p, const char *finding)
{
	const struct advice_run *run = p->runs;
	while (run && run->finding && !str_eq(run->finding, finding))
		run++;
	return run && run->finding;
}

/* Pages offer to run what the words name. */
static void advice_that_names_a_profiler_says_so_to_programs(void **state UNUSED)
{
	size_t n, named = 0;
	const struct profiler *const *all = profiler_all(&n), *found;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < all[i]->n_advice * n; k++) {
			const struct advice *a = &all[i]->advice[k / n];
			CLEANUP(mem_freep) char *run = mem_printf("Run %s", all[k % n]->id);
			assert_true(runs_after(all[i], a->finding) || !str_contains_nocase(a->next, run));
		}
		for (const struct advice_run *run = all[i]->runs; run && run->finding; run++, named++) {
			const char *next = profiler_next(all[i], run->finding);
			assert_ok(profiler_find(run->profiler, &found));
			assert_string_equal(found->id, run->profiler);
			assert_non_null(next);
			assert_non_null(strstr(next, run->profiler));
			CLEANUP(report_freep) struct report *r = report_new();
			CLEANUP(buf_free) struct buf json = { 0 };
			report_advice(r, all[i], run->finding);
			report_render_json(r, &json);
			CLEANUP(mem_freep) char *member = mem_printf("\"nextProfiler\":\"%s\"", run->profiler);
			assert_non_null(strstr(buf_cstr(&json), member));
		}
	}
	assert_true(named > 20);
}

static void programs_get_the_short_words(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, false);
	const struct profiler p = { .id = "x",
				    .uuid = "",
				    .name = "X",
				    .label = "It is slow",
				    .symptom = "",
				    .description = "Reads .NET 8.0 files. More.",
				    .cost = "no stop; some CPU" };
	jsonw_object(&w, NULL);
	profiler_json(&w, &p);
	jsonw_object_end(&w);
	assert_non_null(strstr(buf_cstr(&text), "\"label\":\"It is slow\""));
	assert_non_null(strstr(buf_cstr(&text), "\"summary\":\"Reads .NET 8.0 files.\""));
	assert_non_null(strstr(buf_cstr(&text), "\"effect\":\"no stop\""));
	assert_non_null(strstr(buf_cstr(&text), "\"durationKey\":null"));
}

static void bad_parameters_are_refused_in_words(void **state UNUSED)
{
	const struct profiler *p = NULL;
	assert_err(profiler_find("no-such", &p), ERR_USAGE);
	assert_ok(profiler_find("exceptions", &p));
	struct params *params = params_new(p);
	assert_err(params_set(params, "nope", "1"), ERR_USAGE);
	static const char *const bad[] = { "", "x", "0", "-1", "1.5", "99999999999999999999", "10s", " 5", "86401" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err *err = params_set(params, "duration", bad[i]);
		assert_non_null(err);
		assert_int_equal(err_kind(err), ERR_USAGE);
		assert_non_null(strstr(err_text(err), "from 1 to 86400"));
		err_free(err);
	}
	assert_int_equal(params_int(params, "duration"), 10);
	assert_ok(params_set(params, "duration", "3"));
	assert_int_equal(params_int(params, "duration"), 3);
	params_free(params);
}

static void advice_is_the_next_step_of_its_finding(void **state UNUSED)
{
	const struct profiler p = { .advice = (const struct advice[]){ { "a", "Do 100 %s." }, { "b", "Do that." } },
				    .n_advice = 2 };
	static const struct {
		const char *finding, *next;
	} cases[] = { { "a", "Do 100 %s." }, { "b", "Do that." }, { "nothing-found", NULL } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct report *report = report_new();
		rich_text(report_verdict(report, REPORT_WARN, cases[i].finding), "So it is.");
		report_advice(report, &p, cases[i].finding);
		json_t *j = fixture_json(report);
		const json_t *next = json_object_get(j, "next");
		const char *text = json_string_value(json_object_get(json_array_get(next, 0), "text"));
		assert_true(str_eq(text, cases[i].next));
		json_decref(j);
		report_free(report);
	}
}

static void a_wait_ends_when_someone_asks_to_stop(void **state UNUSED)
{
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	struct exam exam = { .cancel_fd = ends[0] }, alone = { .cancel_fd = -1 };
	assert_false(exam_cancelled(&exam) || exam_wait_ms(&exam, 1));
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_true(exam_cancelled(&exam));
	assert_true(exam_wait_ms(&exam, 3600000));
	assert_true(exam_cancelled(&exam));
	assert_false(exam_cancelled(&alone) || exam_wait_ms(&alone, 1));
	close(ends[0]);
	close(ends[1]);
}

/* --- examinations of recordings built here --- */

/* --- runtime pauses --- */

enum { META_SUSPEND = 1, META_SUSPENDED, META_RESTARTED, META_GC_START, META_GC_END };

static void gc_stream(struct build_nettrace *b)
{
	static const struct {
		uint32_t meta, event;
	} kinds[] = { { META_SUSPEND, 9 },
		      { META_SUSPENDED, 8 },
		      { META_RESTARTED, 3 },
		      { META_GC_START, 1 },
		      { META_GC_END, 2 } };
	build_nettrace_begin(b, 4);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		build_nettrace_meta(b, &(struct nettrace_meta){ .id = kinds[i].meta,
								.event_id = kinds[i].event,
								.provider = CLR_PROVIDER,
								.name = "",
								.version = 1 });
}

static void gc_event(struct build_nettrace *b, uint32_t meta, uint64_t at_ns, const uint32_t *words, size_t n)
{
	struct buf payload = { 0 };
	for (size_t i = 0; i < n; i++)
		build_u32(&payload, words[i]);
	build_u16(&payload, 0);
	build_nettrace_event(b, &(struct build_event){ .meta_id = meta,
						       .sequence = b->last.sequence + 1,
						       .capture_thread = 7,
						       .time = WINDOW_START + at_ns,
						       .payload = payload.data,
						       .payload_size = payload.len });
	buf_free(&payload);
}

struct fake_pause {
	uint64_t at_ns, stop_ns, length_ns;
	uint32_t reason, gc, generation, gc_reason, gc_type;
};

static void add_pause(struct build_nettrace *b, const struct fake_pause *p)
{
	gc_event(b, META_SUSPEND, p->at_ns, (uint32_t[]){ p->reason, p->gc }, 2);
	gc_event(b, META_SUSPENDED, p->at_ns + p->stop_ns, NULL, 0);
	if (p->reason == 1) {
		gc_event(b, META_GC_START, p->at_ns + p->stop_ns + 1,
			 (uint32_t[]){ p->gc, p->generation, p->gc_reason, p->gc_type }, 4);
		gc_event(b, META_GC_END, p->at_ns + p->length_ns - 1, (uint32_t[]){ p->gc, p->generation }, 2);
	}
	gc_event(b, META_RESTARTED, p->at_ns + p->length_ns, NULL, 0);
}

static void pauses_report(struct fixture *f, const struct fake_pause *list, size_t n)
{
	struct build_nettrace b = { 0 };
	fixture_begin(f);
	gc_stream(&b);
	for (size_t i = 0; i < n; i++)
		add_pause(&b, &list[i]);
	fixture_end_stream(&b);
	fixture_window(f->recording, 10000 * MS);
	fixture_part(f->recording, "gc-0.nettrace", &b);
	fixture_examine(f, "runtime-pauses");
}

/* A hundred pauses of one kind: what is to be done depends on which collections they are. */
static void what_to_do_depends_on_the_generation(void **state UNUSED)
{
	static const struct {
		uint64_t length_ns;
		uint32_t generation;
		const char *finding;
	} cases[] = { { 80 * MS, 1, "long-young-pauses" },
		      { 80 * MS, 2, "long-pauses" },
		      { 10 * MS, 0, "frequent-pauses" },
		      { 10 * MS, 2, "frequent-full-pauses" } };
	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		struct fake_pause list[100];
		for (size_t i = 0; i < ARRAY_SIZE(list); i++)
			list[i] = (struct fake_pause){ .at_ns = i * 100 * MS,
						       .stop_ns = 10000,
						       .length_ns = cases[c].length_ns,
						       .reason = 1,
						       .gc = (uint32_t)i + 1,
						       .generation = cases[c].generation,
						       .gc_reason = 4 };
		struct fixture f;
		pauses_report(&f, list, ARRAY_SIZE(list));
		assert_string_equal(report_finding(f.report), cases[c].finding);
		fixture_end(&f);
	}
}

static void pauses_are_measured_exactly(void **state UNUSED)
{
	const struct fake_pause list[] = {
		{ .at_ns = 100 * MS,
		  .stop_ns = 20000,
		  .length_ns = 300 * MS,
		  .reason = 1,
		  .gc = 1,
		  .generation = 2,
		  .gc_reason = 4 },
		{ .at_ns = 600 * MS, .stop_ns = 10000, .length_ns = 2 * MS, .reason = 1, .gc = 2 },
		{ .at_ns = 700 * MS, .stop_ns = 30000, .length_ns = 1 * MS, .reason = 0 },
	};
	struct fixture f;
	pauses_report(&f, list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "long-pauses");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	assert_int_equal((int)fixture_figure(f.report, "Pauses"), 3);
	assert_int_equal((uint64_t)fixture_figure(f.report, "Standing still"), 303 * MS);
	assert_int_equal((uint64_t)fixture_figure(f.report, "Longest"), 300 * MS);
	struct buf text = { 0 };
	report_render_text(f.report, &(struct report_text_style){ 0 }, &text);
	assert_non_null(strstr(buf_cstr(&text), "gen 2 blocking GC, large-object allocation"));
	assert_non_null(strstr(buf_cstr(&text), "runtime work other than GC"));
	buf_free(&text);
	fixture_end(&f);
}

static void short_pauses_are_no_problem(void **state UNUSED)
{
	const struct fake_pause list[] = {
		{ .at_ns = 5 * MS, .stop_ns = 1000, .length_ns = 3 * MS, .reason = 1, .gc = 1 }
	};
	struct fixture f;
	pauses_report(&f, list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_int_equal(report_health(f.report), REPORT_OK);
	fixture_end(&f);
	pauses_report(&f, NULL, 0);
	assert_string_equal(report_finding(f.report), "no-pause");
	fixture_end(&f);
}

static void induced_and_slow_stops_are_told_apart(void **state UNUSED)
{
	struct fake_pause list[8];
	for (uint32_t i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = (struct fake_pause){ .at_ns = i * 500 * MS,
					       .stop_ns = 20000,
					       .length_ns = 25 * MS,
					       .reason = 1,
					       .gc = i + 1,
					       .generation = 2,
					       .gc_reason = 1 };
	struct fixture f;
	pauses_report(&f, list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "induced-collections");
	fixture_end(&f);
	for (uint32_t i = 0; i < ARRAY_SIZE(list); i++) {
		list[i].gc_reason = 0;
		list[i].length_ns = 80 * MS;
		list[i].stop_ns = 70 * MS;
	}
	pauses_report(&f, list, ARRAY_SIZE(list));
	assert_string_equal(report_finding(f.report), "slow-to-stop");
	fixture_end(&f);
}

static void only_the_window_counts(void **state UNUSED)
{
	const struct fake_pause list[] = {
		{ .at_ns = 0 - 500 * MS, .stop_ns = 1000, .length_ns = 100 * MS, .reason = 1, .gc = 1 },
		{ .at_ns = 5000 * MS, .stop_ns = 1000, .length_ns = 1 * MS, .reason = 1, .gc = 2 },
		{ .at_ns = 10001 * MS, .stop_ns = 1000, .length_ns = 100 * MS, .reason = 1, .gc = 3 },
	};
	struct fixture f;
	pauses_report(&f, list, ARRAY_SIZE(list));
	assert_int_equal((int)fixture_figure(f.report, "Pauses"), 1);
	fixture_end(&f);
}

/* --- exceptions --- */

static void exception_event(struct build_nettrace *b, uint64_t at_ns, const char *type, const char *message,
			    uint16_t flags, uint32_t stack)
{
	struct buf payload = { 0 };
	build_utf16z(&payload, type);
	build_utf16z(&payload, message);
	build_u64(&payload, 0);
	build_u32(&payload, 0x80131500);
	build_u16(&payload, flags);
	build_u16(&payload, 0);
	build_nettrace_event(b, &(struct build_event){ .meta_id = 1,
						       .sequence = b->last.sequence + 1,
						       .capture_thread = 7,
						       .stack_id = stack,
						       .time = WINDOW_START + at_ns,
						       .payload = payload.data,
						       .payload_size = payload.len });
	buf_free(&payload);
}

/* The platform throws, an await throws it again in the user's own method. */
static void what_fails_outside_is_told_by_who_gets_it(void **state UNUSED)
{
	struct build_nettrace counts = { 0 }, stacks = { 0 }, names = { 0 }, *streams[] = { &counts, &stacks };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	for (size_t k = 0; k < ARRAY_SIZE(streams); k++) {
		struct build_nettrace *b = streams[k];
		build_nettrace_begin(b, 4);
		build_nettrace_meta(
			b, &(struct nettrace_meta){
				   .id = 1, .event_id = 80, .provider = CLR_PROVIDER, .name = "", .version = 1 });
		build_nettrace_stack(b, 5, (uint64_t[]){ 0x1010 }, 1);
		build_nettrace_stack(b, 6, (uint64_t[]){ 0x3010, 0x2021 }, 2);
		for (uint32_t i = 0; i < 200; i++)
			exception_event(b, i * 5 * MS, "System.Net.Http.HttpRequestException", "refused", 0,
					k ? 5 + i % 2 : 0);
		fixture_end_stream(b);
	}
	fixture_names(&names,
		      (struct fixture_method[]){
			      { 0x1000, "System.Net.Http.HttpConnectionPool", "Connect" },
			      { 0x2000, "Shop.Prices", "Fetch" },
			      { 0x3000, "System.Runtime.ExceptionServices.ExceptionDispatchInfo", "Throw" } },
		      3);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_part(f.recording, "stacks-0.nettrace", &stacks);
	fixture_part(f.recording, "names-0.nettrace", &names);
	fixture_examine(&f, "exceptions");
	assert_true(fixture_says(f.report, "thrown in System.Net.Http.HttpConnectionPool.Connect, which reaches "
					   "Shop.Prices.Fetch. The first says “refused”."));
	assert_true(fixture_says(f.report, "Something that it calls fails: look there."));
	fixture_end(&f);
}

static void exceptions_stream(struct build_nettrace *b, bool stacks)
{
	build_nettrace_begin(b, 4);
	build_nettrace_meta(b, &(struct nettrace_meta){
				       .id = 1, .event_id = 80, .provider = CLR_PROVIDER, .name = "", .version = 1 });
	if (stacks)
		build_nettrace_stack(b, 5, (uint64_t[]){ 0x1010, 0x2021 }, 2);
	for (uint32_t i = 0; i < 100; i++)
		exception_event(b, i * 10 * MS, i % 4 ? "System.FormatException" : "Shop.Oops", "bad | `x` <b>", 0,
				stacks ? 5 : 0);
	fixture_end_stream(b);
}

static void exceptions_are_counted_by_type_and_place(void **state UNUSED)
{
	struct build_nettrace counts = { 0 }, stacks = { 0 }, names = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	exceptions_stream(&counts, false);
	exceptions_stream(&stacks, true);
	fixture_names(&names,
		      (struct fixture_method[]){ { 0x1000, "System.Number", "Parse" },
						 { 0x2000, "Shop.Import+<>c", "<Load>b__0_0" } },
		      2);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_part(f.recording, "stacks-0.nettrace", &stacks);
	fixture_part(f.recording, "names-0.nettrace", &names);
	fixture_examine(&f, "exceptions");
	assert_string_equal(report_finding(f.report), "many-exceptions");
	assert_int_equal((int)fixture_figure(f.report, "Throws"), 100);
	assert_int_equal((int)fixture_figure(f.report, "Rate"), 100);
	struct buf text = { 0 };
	rich_plain(report_verdict_text(f.report), &text);
	assert_non_null(strstr(buf_cstr(&text),
			       "75 % are System.FormatException, thrown in lambda in Shop.Import.Load. The first "
			       "says “bad | `x` <b>”."));
	buf_clear(&text);
	json_t *j = fixture_json(f.report);
	const json_t *rows = json_object_get(json_array_get(json_object_get(j, "blocks"), 0), "rows");
	assert_int_equal(json_array_size(rows), 2);
	json_decref(j);
	buf_free(&text);
	fixture_end(&f);
}

static void begin_burst(struct build_nettrace *b)
{
	build_nettrace_begin(b, 4);
	build_nettrace_meta(b, &(struct nettrace_meta){
				       .id = 1, .event_id = 80, .provider = CLR_PROVIDER, .name = "", .version = 1 });
	build_nettrace_stack(b, 5, (uint64_t[]){ 0x1010 }, 1);
}

static void throw_one(struct build_nettrace *b, uint64_t at_ns)
{
	exception_event(b, at_ns, "Shop.Oops", "", 0, 5);
}

/* Before .NET 9 the stream of stacks counts, too; here without the runtime's own counter. */
static void bursts_stand_for_the_window(void **state UNUSED)
{
	for (size_t i = 0; i < FIXTURE_BURSTS; i++) {
		const struct fixture_bursts *bursts = &fixture_bursts[i];
		struct fixture f;
		fixture_begin_bursts(&f, bursts, "stacks", begin_burst, throw_one);
		fixture_examine(&f, "exceptions");
		assert_int_equal((int)fixture_figure(f.report, "Throws"), bursts->stand_for);
		assert_int_equal(fixture_says(f.report, "heard in bursts and scaled up"), bursts->n > 0);
		fixture_end(&f);
	}
}

static void a_damaged_recording_is_partial(void **state UNUSED)
{
	struct build_nettrace counts = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	exceptions_stream(&counts, false);
	counts.out.len -= 300; /* inside the events */
	memset(counts.out.data + counts.out.len - 64, 0xff, 64);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_examine(&f, "exceptions");
	assert_non_null(f.exam.partial);
	assert_non_null(report_facts(f.report)->partial);
	fixture_end(&f);
}

static void a_recording_without_a_window_is_refused(void **state UNUSED)
{
	struct fixture f;
	fixture_begin(&f);
	assert_ok(recording_seal(f.recording));
	recording_free(f.recording);
	assert_ok(recording_open(f.dir, &f.recording));
	const struct profiler *p = NULL;
	assert_ok(profiler_find("exceptions", &p));
	f.params = params_new(p);
	f.exam = (struct exam){ .profiler = p,
				.params = f.params,
				.patient = &f.patient,
				.recording = f.recording,
				.replay = true,
				.cancel_fd = -1 };
	assert_err(exam_run(&f.exam), ERR_BAD_DATA);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_profiler_is_complete),
		cmocka_unit_test(the_contract_names_its_files),
		cmocka_unit_test(the_contract_takes_its_parameters),
		cmocka_unit_test(advice_that_names_a_profiler_says_so_to_programs),
		cmocka_unit_test(programs_get_the_short_words),
		cmocka_unit_test(bad_parameters_are_refused_in_words),
		cmocka_unit_test(advice_is_the_next_step_of_its_finding),
		cmocka_unit_test(a_wait_ends_when_someone_asks_to_stop),
		cmocka_unit_test(what_to_do_depends_on_the_generation),
		cmocka_unit_test(pauses_are_measured_exactly),
		cmocka_unit_test(short_pauses_are_no_problem),
		cmocka_unit_test(induced_and_slow_stops_are_told_apart),
		cmocka_unit_test(only_the_window_counts),
		cmocka_unit_test(exceptions_are_counted_by_type_and_place),
		cmocka_unit_test(what_fails_outside_is_told_by_who_gets_it),
		cmocka_unit_test(bursts_stand_for_the_window),
		cmocka_unit_test(a_damaged_recording_is_partial),
		cmocka_unit_test(a_recording_without_a_window_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
