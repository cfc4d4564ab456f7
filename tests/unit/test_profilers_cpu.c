#include "unit.h"

#include "exam_fixture.h"
#include "sampling/sampling.h"
#include <stdio.h>

/* A window of two seconds in which these samples were taken. */
static void examine_samples(struct fixture *f, struct samples *s, struct sampling_facts facts)
{
	fixture_begin(f);
	f->way = WAY_SAMPLES;
	fixture_window(f->recording, 2000 * MS);
	facts.named = true;
	facts.period = 10 * MS;
	facts.samples = s->list.n;
	facts.cpus = 2;
	struct exam live = { .recording = f->recording };
	sampling_save(&live, s, &facts);
	samples_free(s);
	fixture_examine(f, "cpu-hotpaths");
}

/* One living thread with `own_ns` of samples in a method of the user's. */
static void examine(struct fixture *f, uint64_t own_ns, struct sampling_facts facts)
{
	struct samples *s = samples_new();
	bool new;
	uint32_t frames[] = { samples_frame(s, "Shop.Tax.Compute", NULL, FRAME_CODE),
			      samples_frame(s, "Shop.Main", NULL, FRAME_CODE) };
	uint32_t thread = samples_thread(s, 11, &new), stack = samples_stack(s, frames, 2, UNWIND_ROOT, false);
	for (uint64_t ns = 0; ns < own_ns; ns += 10 * MS)
		samples_add(s, ns / 1000, thread, stack, 10 * MS, 0);
	s->threads.v[thread].cpu_ns = own_ns;
	facts.kernel = facts.kernel_names = true;
	facts.ends[UNWIND_ROOT] = s->list.n;
	facts.threads = 1;
	examine_samples(f, s, facts);
}

static void processes_that_it_started_are_told_beside_it(void **state UNUSED)
{
	struct fixture f;
	struct sampling_facts facts = { .cpu_ns = 20 * MS, .started_ns = 1000 * MS, .started = "convert" };
	examine(&f, 20 * MS, facts);
	assert_string_equal(report_finding(f.report), "other-processes");
	assert_true(fixture_says(f.report, "Idle: 1 % of one core was used"));
	assert_true(fixture_says(
		f.report, "Processes that it started meanwhile used 0.5 cores beside it, most of it by convert."));
	fixture_end(&f);
	/* A busy process keeps its own story. */
	facts.cpu_ns = 1600 * MS;
	examine(&f, 1600 * MS, facts);
	assert_string_equal(report_finding(f.report), "hot-path");
	assert_true(fixture_says(f.report, "100 % of that is Shop.Main → Shop.Tax.Compute. Processes that it started"));
	fixture_end(&f);
	/* A little of it is nothing to tell. */
	facts.started_ns = 50 * MS;
	examine(&f, 1600 * MS, facts);
	assert_false(fixture_says(f.report, "Processes that it started"));
	fixture_end(&f);
}

static void what_ended_threads_used_is_said(void **state UNUSED)
{
	struct fixture f;
	struct sampling_facts facts = { .cpu_ns = 1000 * MS };
	examine(&f, 100 * MS, facts);
	assert_string_equal(report_finding(f.report), "short-lived-threads");
	assert_true(fixture_says(f.report,
				 "0.5 of 2 cores busy. 90 % of its CPU time was used by threads that ended before "
				 "they had a sample. 100 % of the rest is Shop.Main → Shop.Tax.Compute."));
	fixture_end(&f);
	/* Nobody knows where lost ones were; and whole cpus miss none. */
	facts.lost = 1;
	examine(&f, 100 * MS, facts);
	assert_string_equal(report_finding(f.report), "hot-path");
	fixture_end(&f);
	facts.lost = 0;
	facts.per_cpu = facts.short_lived = true;
	examine(&f, 100 * MS, facts);
	assert_string_equal(report_finding(f.report), "hot-path");
	assert_true(fixture_says(f.report, "short-lived threads whole cpus were sampled"));
	fixture_end(&f);
}

static void collections_that_code_asks_for_are_told_from_garbage(void **state UNUSED)
{
	for (uint64_t induced = 2; induced < 9; induced += 6) {
		struct fixture f;
		struct samples *s = samples_new();
		bool new;
		uint32_t thread = samples_thread(s, 11, &new);
		uint32_t frame = samples_frame(s, "[garbage collection]", "libcoreclr.so", FRAME_GC);
		samples_add(s, 0, thread, samples_stack(s, &frame, 1, UNWIND_ROOT, false), 1000 * MS, 0);
		struct sampling_facts facts = { .cpu_ns = UINT64_MAX, .collections = 10, .induced = induced };
		examine_samples(&f, s, facts);
		assert_string_equal(report_finding(f.report), induced > 5 ? "gc-induced" : "gc-heavy");
		assert_int_equal(fixture_says(f.report, "8 of 10 collections were asked for by code"), induced > 5);
		fixture_end(&f);
	}
}

/* Three functions without any code of the user's: none of them is most of it. */
static void the_largest_part_is_not_called_most(void **state UNUSED)
{
	struct fixture f;
	struct samples *s = samples_new();
	bool new;
	uint32_t thread = samples_thread(s, 11, &new);
	static const char *const names[] = { "deflate", "crc32_z", "memset" };
	for (size_t i = 0; i < 3; i++) {
		uint32_t frame = samples_frame(s, names[i], "libz.so", FRAME_NATIVE);
		samples_add(s, i, thread, samples_stack(s, &frame, 1, UNWIND_ROOT, false), (400 - 50 * i) * MS, 0);
	}
	examine_samples(&f, s, (struct sampling_facts){ .kernel = true, .cpu_ns = UINT64_MAX });
	assert_string_equal(report_finding(f.report), "outside-your-code");
	assert_true(fixture_says(f.report, "none of your code on its stack; the largest part, 38 %, is in deflate."));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_that_it_started_are_told_beside_it),
		cmocka_unit_test(what_ended_threads_used_is_said),
		cmocka_unit_test(collections_that_code_asks_for_are_told_from_garbage),
		cmocka_unit_test(the_largest_part_is_not_called_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
