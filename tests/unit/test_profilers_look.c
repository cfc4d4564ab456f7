/* The image instrument: what is kept of a look, and who may look where. */

#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "exam_fixture.h"
#include "exam/image_exam.h"
#include "profilers/registry.h"
#include <string.h>

#define VERSION 3
#define HEADER 12

static struct err *no_run(struct exam *exam)
{
	(void)exam;
	return NULL;
}

static struct err *no_analyse(struct exam *exam, struct report *report)
{
	(void)exam, (void)report;
	return NULL;
}

static const struct param look_params[] = { PARAM_MAX_PAUSE };
static const struct profiler looker = { .id = "looker",
					.params = look_params,
					.n_params = 1,
					.ways = { WAY_IMAGE, WAY_EVENTS },
					.run = no_run,
					.analyse = no_analyse };

static struct err *take(void *user, struct cursor *in)
{
	uint32_t *seen = user;
	*seen = cursor_u32(in);
	return cursor_ok(in) ? NULL : err_new(ERR_BAD_DATA, "short");
}

static void add_part(struct recording *r, const char *name, const void *bytes, size_t len)
{
	struct recording_part *part;
	assert_ok(recording_part_new(r, name, "look", &part));
	recording_part_write(part, bytes, len);
	recording_part_close(part, true);
}

static void build(struct buf *out, uint32_t version, uint32_t value)
{
	buf_add(out, "DRLOOK\0", 8);
	buf_add(out, &version, 4);
	buf_add(out, &value, 4);
}

/* An exam that replays what was recorded so far. */
static void replay(struct fixture *f)
{
	assert_ok(recording_seal(f->recording));
	recording_free(f->recording);
	assert_ok(recording_open(f->dir, &f->recording));
	f->params = params_new(&looker);
	f->exam = (struct exam){ .profiler = &looker,
				 .params = f->params,
				 .patient = &f->patient,
				 .way = WAY_IMAGE,
				 .recording = f->recording,
				 .replay = true,
				 .cancel_fd = -1 };
}

static void test_replay(void **state)
{
	(void)state;
	struct fixture f;
	struct buf bytes = { 0 };
	uint32_t seen = 0;
	fixture_begin(&f);
	fixture_window(f.recording, 2000 * MS);
	build(&bytes, VERSION, 4711);
	add_part(f.recording, "one", bytes.data, bytes.len);
	json_t *fact = json_pack("{s:I, s:I, s:I, s:i, s:b}", "pause_ns", (json_int_t)7 * MS, "life_ns",
				 (json_int_t)400 * MS, "copied", (json_int_t)5 << 20, "attempts", 2, "core", 0);
	recording_set_fact(f.recording, "look-one", fact);
	json_decref(fact);
	replay(&f);
	struct image_exam_part part = { .name = "one", .version = VERSION, .take = take, .user = &seen };
	assert_ok(exam_image(&f.exam, &part));
	assert_int_equal(seen, 4711);
	assert_int_equal(part.facts.pause_ns, 7 * MS);
	assert_int_equal(part.facts.attempts, 2);
	assert_false(part.facts.core);
	assert_int_equal(f.exam.end_ns - f.exam.start_ns, 2000 * MS);
	assert_true(exam_image_again(&f.exam, 100000, "one"));
	assert_false(exam_image_again(&f.exam, 100000, "two"));
	part.name = "two";
	assert_err(exam_image(&f.exam, &part), ERR_NOT_FOUND);
	buf_free(&bytes);
	fixture_end(&f);
}

static void test_hostile_parts(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	build(&bytes, VERSION, 4711);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		struct fixture f;
		uint32_t seen = 0;
		fixture_begin(&f);
		fixture_window(f.recording, 0);
		add_part(f.recording, "one", bytes.data, cut);
		replay(&f);
		struct image_exam_part part = { .name = "one", .version = VERSION, .take = take, .user = &seen };
		assert_err(exam_image(&f.exam, &part), ERR_BAD_DATA);
		fixture_end(&f);
	}
	for (size_t at = 0; at < HEADER; at++) {
		struct fixture f;
		uint32_t seen = 0;
		fixture_begin(&f);
		fixture_window(f.recording, 0);
		bytes.data[at] ^= 0x40;
		add_part(f.recording, "one", bytes.data, bytes.len);
		bytes.data[at] ^= 0x40;
		replay(&f);
		struct image_exam_part part = { .name = "one", .version = VERSION, .take = take, .user = &seen };
		assert_err(exam_image(&f.exam, &part), at < 8 ? ERR_BAD_DATA : ERR_UNSUPPORTED);
		assert_int_equal(seen, 0);
		fixture_end(&f);
	}
	buf_free(&bytes);
}

static void test_cores(void **state)
{
	(void)state;
	char dir[64];
	struct patient patient = { 0 };
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/core", dir);
	assert_err(image_exam_core_patient(path, &patient), ERR_NOT_FOUND);
	assert_ok(file_write_atomic(path, "hello", 5, 0600));
	assert_err(image_exam_core_patient(path, &patient), ERR_BAD_DATA);
	assert_ok(dir_remove(dir));

	const struct profiler *pauses;
	assert_ok(profiler_find("runtime-pauses", &pauses));
	struct exam exam = { .profiler = pauses, .patient = &patient, .core = path, .cancel_fd = -1 };
	assert_err(exam_choose_way(&exam, WAY_AUTO), ERR_USAGE);
	exam.profiler = &looker;
	assert_ok(exam_choose_way(&exam, WAY_AUTO));
	assert_int_equal(exam.way, WAY_IMAGE);
	assert_err(exam_choose_way(&exam, WAY_EVENTS), ERR_USAGE);
	assert_false(exam_image_again(&exam, 100000, "two"));
}

static void test_a_cut_wait(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	struct patient patient = { 0 };
	struct exam exam = { .profiler = &looker, .patient = &patient, .cancel_fd = ends[0] };
	assert_false(exam_image_again(&exam, 100000, "two"));
	assert_true(exam.cancelled);
	assert_string_equal(exam.partial, "cancelled before the second look");
	exam_fini(&exam);
	close(ends[0]);
	close(ends[1]);
}

static void test_how(void **state)
{
	(void)state;
	struct report *r = report_new();
	struct image_exam_facts two[] = {
		{ .pause_ns = 4 * MS, .life_ns = 100 * MS, .copied = 1 << 20 },
		{ .pause_ns = 9 * MS, .life_ns = 50 * MS, .copied = 1 << 20, .dac_deaths = 1 }
	};
	rich_text(report_verdict(r, REPORT_INFO, "seen"), "Seen.");
	image_exam_how(r, two, 2);
	assert_true(fixture_says(r, "9 ms"));
	assert_true(fixture_says(r, "2 copies of its memory, read for 150 ms; meanwhile the process had to copy 2 MB"));
	assert_true(fixture_says(r, "did not survive"));
	assert_false(fixture_says(r, "limit of the pause"));
	report_free(r);
	r = report_new();
	two[0].limit_ns = 4 * MS;
	two[1].limit_ns = 5 * MS;
	rich_text(report_verdict(r, REPORT_INFO, "seen"), "Seen.");
	image_exam_how(r, two, 2);
	assert_true(fixture_says(r, "limit of the pause"));
	assert_true(fixture_says(r, "broken: it stood still for 4 ms longer"));
	report_free(r);
	r = report_new();
	struct image_exam_facts core = { .core = true, .bytes = 3 << 20, .missing = 1 << 20 };
	rich_text(report_verdict(r, REPORT_INFO, "seen"), "Seen.");
	image_exam_how(r, &core, 1);
	assert_true(fixture_says(r, "core file"));
	assert_true(fixture_says(r, "the file is cut short"));
	assert_false(fixture_says(r, "paused"));
	report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay),	   cmocka_unit_test(test_hostile_parts), cmocka_unit_test(test_cores),
		cmocka_unit_test(test_a_cut_wait), cmocka_unit_test(test_how),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
