#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include <math.h>

/* --- allocations --- */

enum { TICK = 10, SAMPLED = 303 };
enum { STACK_BLOCK = 5, STACK_LINE = 6, STACK_RENT = 7 };

struct drawn {
	uint32_t heap;
	uint64_t tick_bytes, object_bytes;
	const char *type;
	uint32_t stack;
};

static void allocation_event(struct build_nettrace *b, uint32_t id, uint64_t at_ns, const struct drawn *d)
{
	struct buf payload = { 0 };
	if (id == TICK)
		build_u32(&payload, (uint32_t)d->tick_bytes);
	build_u32(&payload, d->heap);
	build_u16(&payload, 0);
	if (id == TICK)
		build_u64(&payload, d->tick_bytes);
	build_u64(&payload, 0x7f00);
	build_utf16z(&payload, d->type);
	if (id == TICK)
		build_u32(&payload, 0);
	build_u64(&payload, 0x7e00);
	build_u64(&payload, d->object_bytes);
	if (id == SAMPLED)
		build_u64(&payload, 7);
	fixture_event(b, id, at_ns, 7, d->stack, &payload);
	buf_free(&payload);
}

/* Each of the samples `times` times, evenly over the window of one second. */
static void allocation_stream(struct build_nettrace *b, uint32_t id, const struct drawn *list, size_t n, uint32_t times,
			      bool stacks)
{
	fixture_stream(b, &id, 1);
	if (stacks) {
		build_nettrace_stack(b, STACK_BLOCK, (uint64_t[]){ 0x2010 }, 1);
		build_nettrace_stack(b, STACK_LINE, (uint64_t[]){ 0x1010, 0x3021 }, 2);
		build_nettrace_stack(b, STACK_RENT, (uint64_t[]){ 0x4010, 0x2021 }, 2);
	}
	for (uint32_t i = 0; i < times; i++) {
		for (size_t k = 0; k < n; k++) {
			struct drawn d = list[k];
			d.stack = stacks ? d.stack : 0;
			allocation_event(b, id, i * 1000 * MS / times + k, &d);
		}
	}
	fixture_end_stream(b);
}

static void allocations_report(struct fixture *f, const char *runtime, const struct drawn *list, size_t n,
			       uint32_t times)
{
	uint32_t id = str_starts(runtime, "10.") ? SAMPLED : TICK;
	struct build_nettrace counts = { 0 }, stacks = { 0 }, names = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup(runtime);
	fixture_window(f->recording, 1000 * MS);
	allocation_stream(&counts, id, list, n, times, false);
	allocation_stream(&stacks, id, list, n, times, true);
	fixture_names(&names,
		      (struct fixture_method[]){ { 0x1000, "System.String", "Ctor" },
						 { 0x2000, "Shop.Reader", "ReadBlock" },
						 { 0x3000, "Shop.Parser", "MakeLine" },
						 { 0x4000, "System.Buffers.SharedArrayPool`1[System.Byte]", "Rent" } },
		      4);
	fixture_part(f->recording, "counts-0.nettrace", &counts);
	fixture_part(f->recording, "stacks-0.nettrace", &stacks);
	fixture_part(f->recording, "names-0.nettrace", &names);
	fixture_examine(f, "allocations");
}

static double cell(const json_t *rows, size_t row, size_t column)
{
	return json_number_value(json_array_get(json_object_get(json_array_get(rows, row), "cells"), column));
}

static const char *text_cell(const json_t *rows, size_t row, size_t column)
{
	return json_string_value(json_array_get(json_object_get(json_array_get(rows, row), "cells"), column));
}

static void near(double value, double wanted)
{
	if (fabs(value - wanted) > fabs(wanted) * 1e-6)
		fail_msg("%.9g is not %.9g", value, wanted);
}

static const struct drawn mix[] = {
	{ .tick_bytes = 106000, .object_bytes = 1000, .type = "System.Byte[]", .stack = STACK_BLOCK },
	{ .tick_bytes = 106000, .object_bytes = 1000, .type = "System.Byte[]", .stack = STACK_BLOCK },
	{ .tick_bytes = 106000, .object_bytes = 200, .type = "System.String", .stack = STACK_LINE },
};

static void ticks_are_credited_to_type_and_place(void **state UNUSED)
{
	static const char *const runtimes[] = { "8.0.31", "9.0.20" };
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		struct fixture f;
		allocations_report(&f, runtimes[i], mix, ARRAY_SIZE(mix), 100);
		assert_string_equal(report_finding(f.report), "high-allocation-rate");
		near(fixture_figure(f.report, "Per second"), 300 * 106000);
		near(fixture_figure(f.report, "Objects"), 200 * 106 + 100 * 530);
		json_t *j = fixture_json(f.report);
		const json_t *rows = fixture_rows(j, "By type and place");
		assert_int_equal(json_array_size(rows), 2);
		assert_string_equal(text_cell(rows, 0, 0), "System.Byte[]");
		assert_string_equal(text_cell(rows, 0, 1), "Shop.Reader.ReadBlock");
		assert_string_equal(text_cell(rows, 1, 1), "Shop.Parser.MakeLine");
		near(cell(rows, 0, 2), 200 * 106000);
		near(cell(rows, 1, 2), 100 * 106000);
		/* Two thirds of 300 draws: the other third is the doubt. */
		near(cell(rows, 0, 4), 1.96 * sqrt(200.0 * 105000 * 105000 / 3) / (200 * 106000));
		assert_null(fixture_rows(j, "By type")); /* the same as the first */
		json_decref(j);
		fixture_end(&f);
	}
}

static void samples_stand_for_what_they_were_drawn_from(void **state UNUSED)
{
	struct fixture f;
	allocations_report(&f, "10.0.12", mix, ARRAY_SIZE(mix), 100);
	double blocks = 1 / (1 - pow(1 - 1 / 102400.0, 1000)), lines = 1 / (1 - pow(1 - 1 / 102400.0, 200));
	assert_int_equal((int)fixture_figure(f.report, "Samples"), 300);
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "By type and place");
	near(cell(rows, 0, 2), 200 * blocks * 1000);
	near(cell(rows, 1, 2), 100 * lines * 200);
	near(cell(rows, 0, 3), round(200 * blocks));
	/* The error that theory gives for that many draws: a little below 1.96 / sqrt(200). */
	near(cell(rows, 0, 4), 1.96 * sqrt((1 - 1 / blocks) / 200));
	json_decref(j);
	fixture_end(&f);
}

static void a_sample_of_a_huge_object_is_certain(void **state UNUSED)
{
	const struct drawn huge = {
		.heap = 1, .object_bytes = 50 << 20, .type = "System.Int64[]", .stack = STACK_BLOCK
	};
	struct fixture f;
	allocations_report(&f, "10.0.12", &huge, 1, 1);
	near(fixture_figure(f.report, "Per second"), 50 << 20);
	near(fixture_figure(f.report, "Objects"), 1);
	near(fixture_figure(f.report, "Large objects"), 1);
	assert_string_equal(report_finding(f.report), "large-objects");
	assert_true(fixture_says(f.report, "allocated in Shop.Reader.ReadBlock"));
	fixture_end(&f);
}

static void what_is_rented_should_come_back(void **state UNUSED)
{
	struct drawn rented = { .heap = 1, .object_bytes = 50 << 20, .type = "System.Byte[]", .stack = STACK_RENT };
	struct fixture f;
	allocations_report(&f, "10.0.12", &rented, 1, 1);
	assert_string_equal(report_finding(f.report), "large-objects");
	assert_true(fixture_says(f.report, "allocated in Shop.Reader.ReadBlock"));
	assert_true(fixture_says(f.report, "These are rented from an ArrayPool"));
	assert_false(fixture_says(f.report, "Rent large buffers from ArrayPool"));
	fixture_end(&f);
	rented.stack = STACK_BLOCK;
	allocations_report(&f, "10.0.12", &rented, 1, 1);
	assert_true(fixture_says(f.report, "Rent large buffers from ArrayPool"));
	fixture_end(&f);
}

static void little_is_no_problem_and_nothing_is_said_so(void **state UNUSED)
{
	struct fixture f;
	allocations_report(&f, "10.0.12", mix, 1, 3);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_int_equal(report_health(f.report), REPORT_OK);
	fixture_end(&f);
	allocations_report(&f, "9.0.20", mix, 0, 0);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "not one sample"));
	fixture_end(&f);
}

/* Stacks of half of the samples only: their places stand for all of the type. */
static void places_are_scaled_to_what_was_counted(void **state UNUSED)
{
	struct build_nettrace counts = { 0 }, stacks = { 0 }, names = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	allocation_stream(&counts, SAMPLED, mix, ARRAY_SIZE(mix), 100, false);
	allocation_stream(&stacks, SAMPLED, mix, 2, 50, true);
	fixture_names(&names, (struct fixture_method[]){ { 0x2000, "Shop.Reader", "ReadBlock" } }, 1);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_part(f.recording, "stacks-0.nettrace", &stacks);
	fixture_part(f.recording, "names-0.nettrace", &names);
	fixture_examine(&f, "allocations");
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "By type and place");
	near(cell(rows, 0, 2), 200 * 1000 / (1 - pow(1 - 1 / 102400.0, 1000)));
	assert_string_equal(text_cell(rows, 1, 0), "System.String");
	assert_null(text_cell(rows, 1, 1)); /* its stack was not seen */
	json_decref(j);
	fixture_end(&f);
}

static void begin_burst(struct build_nettrace *b)
{
	fixture_stream(b, (uint32_t[]){ TICK }, 1);
	build_nettrace_stack(b, STACK_BLOCK, (uint64_t[]){ 0x2010 }, 1);
}

static void tick(struct build_nettrace *b, uint64_t at_ns)
{
	static const struct drawn large = {
		.tick_bytes = 1060000, .object_bytes = 1000, .type = "System.Byte[]", .stack = STACK_BLOCK
	};
	allocation_event(b, TICK, at_ns, &large);
}

/* Before .NET 9 the stream of stacks counts, too. */
static void bursts_stand_for_the_window(void **state UNUSED)
{
	for (size_t i = 0; i < FIXTURE_BURSTS; i++) {
		const struct fixture_bursts *bursts = &fixture_bursts[i];
		struct fixture f;
		fixture_begin_bursts(&f, bursts, "stacks", begin_burst, tick);
		fixture_examine(&f, "allocations");
		assert_int_equal((int)fixture_figure(f.report, "Samples"), bursts->heard);
		near(fixture_figure(f.report, "Per second"), bursts->stand_for * 1060000.0);
		assert_int_equal(fixture_says(f.report, "heard in bursts and scaled up"), bursts->n > 0);
		fixture_end(&f);
	}
}

static void short_and_strange_payloads_are_left_out(void **state UNUSED)
{
	struct build_nettrace counts = { 0 };
	struct fixture f;
	fixture_begin(&f);
	f.patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f.recording, 1000 * MS);
	fixture_stream(&counts, (uint32_t[]){ TICK, SAMPLED }, 2);
	struct buf payload = { 0 };
	for (size_t len = 0; len < 64; len++) {
		fixture_event(&counts, SAMPLED, len, 7, 0, &payload);
		build_u8(&payload, 0xff);
	}
	allocation_event(&counts, TICK, 100, &mix[0]); /* not asked for */
	allocation_event(&counts, SAMPLED, 101, &(struct drawn){ .object_bytes = 0, .type = "" });
	allocation_event(&counts, SAMPLED, 102, &(struct drawn){ .object_bytes = 24, .type = "" });
	fixture_end_stream(&counts);
	buf_free(&payload);
	fixture_part(f.recording, "counts-0.nettrace", &counts);
	fixture_examine(&f, "allocations");
	assert_int_equal((int)fixture_figure(f.report, "Samples"), 1);
	json_t *j = fixture_json(f.report);
	assert_string_equal(text_cell(fixture_rows(j, "By type and place"), 0, 0), "(type not told)");
	json_decref(j);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ticks_are_credited_to_type_and_place),
		cmocka_unit_test(samples_stand_for_what_they_were_drawn_from),
		cmocka_unit_test(a_sample_of_a_huge_object_is_certain),
		cmocka_unit_test(what_is_rented_should_come_back),
		cmocka_unit_test(little_is_no_problem_and_nothing_is_said_so),
		cmocka_unit_test(places_are_scaled_to_what_was_counted),
		cmocka_unit_test(bursts_stand_for_the_window),
		cmocka_unit_test(short_and_strange_payloads_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
