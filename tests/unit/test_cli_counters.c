#include "cli/counters_export.h"
#include "counters_stage.h"
#include "base/json.h"
#include "base/str.h"
#include "ipc/patient.h"
#include <math.h>

static const char *shown(enum series_kind kind, const char *unit, size_t column, double value)
{
	static struct fmt_text text;
	const struct series s = { .unit = unit, .kind = kind };
	text = counters_value_text(&s, column, value);
	return text.s;
}

static void values_are_written_as_people_read_them(void **state UNUSED)
{
	static const struct {
		enum series_kind kind;
		const char *unit;
		size_t column;
		double value;
		const char *text;
	} cases[] = {
		{ SERIES_GAUGE, "By", 0, 1048576, "1 MB" },
		{ SERIES_GAUGE, "MB", 0, 50, "47.7 MB" }, /* EventCounters count in millions */
		{ SERIES_GAUGE, "By", 0, -2048, "-2 KB" },
		{ SERIES_GAUGE, "s", 0, 0.0062, "6.2 ms" },
		{ SERIES_GAUGE, "ms", 0, 0, "0 s" },
		{ SERIES_GAUGE, "%", 0, 12, "12 %" },
		{ SERIES_GAUGE, "%", 0, 1.5, "1.5 %" },
		{ SERIES_GAUGE, "{request}", 0, 1234567, "1,234,567" },
		{ SERIES_GAUGE, "", 0, -3, "-3" },
		{ SERIES_GAUGE, "Cel", 0, 21.5, "21.5 Cel" },
		{ SERIES_GAUGE, "evil\033[31m", 0, 1, "1 evil\\u{1b}" },
		{ SERIES_GAUGE, "", 0, NAN, "-" },
		{ SERIES_GAUGE, "By", 0, 1e300, "16 EB" },
		{ SERIES_GAUGE, "s", 0, 1e300, NULL },
		{ SERIES_RATE, "By", SERIES_PER_SECOND, 1048576, "1 MB/s" },
		{ SERIES_RATE, "By", SERIES_TOTAL, 1048576, "1 MB" },
		{ SERIES_RATE, "s", SERIES_PER_SECOND, 0.25, "250 ms/s" },
		{ SERIES_RATE, "{order}", SERIES_PER_SECOND, 412, "412/s" },
		{ SERIES_RATE, "", SERIES_PER_SECOND, 0, "0/s" },
		{ SERIES_HISTOGRAM, "s", SERIES_P95, 0.095, "95 ms" },
		{ SERIES_HISTOGRAM, "s", SERIES_COUNT_PER_SECOND, 200, "200/s" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = shown(cases[i].kind, cases[i].unit, cases[i].column, cases[i].value);
		if (cases[i].text && !str_starts(text, cases[i].text))
			fail_msg("%g %s is '%s', not '%s'", cases[i].value, cases[i].unit, text, cases[i].text);
	}
}

static void sparklines_start_at_zero(void **state UNUSED)
{
	struct buf out = { 0 };
	counters_sparkline((double[]){ 0, 1, 7, NAN, 3.5 }, 5, false, &out);
	assert_string_equal(buf_cstr(&out), "▁▂█ ▅");
	buf_clear(&out);
	counters_sparkline((double[]){ 0, 0, -5 }, 3, true, &out);
	assert_string_equal(buf_cstr(&out), "___");
	buf_free(&out);
}

/* A process whose names try everything. */
#define EVIL "x\033[31m\"\\,\n{}<b>"

static void stage_evil(struct stage *s, const struct counters_want *want)
{
	struct buf p = { 0 };
	stage_begin(s);
	stage_session(s, 110);
	build_collection(&p, 1);
	stage_event(s, 102, &p);
	for (int i = 0; i < 2; i++) {
		BUILD_TEXTS(&p, "SHARED", "=cmd", "", EVIL, EVIL, i ? "a=1,2,meter=" EVIL : "", "1", "2");
		build_u32(&p, 1);
		stage_event(s, 104, &p);
	}
	BUILD_TEXTS(&p, "SHARED", "=cmd", "", "9lives", "s", "", "0.5=1;0.95=2;0.99=3");
	build_u32(&p, 4);
	build_f64(&p, 8);
	build_u32(&p, 1);
	stage_event(s, 106, &p);
	build_collection(&p, 1);
	stage_event(s, 103, &p);
	stage_open(s, want);
}

static void no_form_is_broken_by_names(void **state UNUSED)
{
	struct stage s;
	const struct counters_want want = { .all_meters = true, .wildcard = true, .interval_ms = 1000 };
	stage_evil(&s, &want);
	char title[] = "Shop (1)";
	const struct counters_view view = { .c = s.c, .title = title, .filter = "" };
	struct buf out = { 0 };

	counters_plain(&view, true, &out);
	assert_null(strchr(buf_cstr(&out), '\033'));
	assert_non_null(strstr(buf_cstr(&out), "\n=cmd\n"));
	assert_non_null(strstr(buf_cstr(&out), "p99"));

	buf_clear(&out);
	const struct patient patient = { .target = { .id = 1 } };
	counters_json(&view, &patient, &out);
	json_t *json = NULL;
	assert_ok(json_parse(out.data, out.len, 1 << 20, &json));
	assert_int_equal(json_array_size(json_object_get(json, "counters")), 3);
	const json_t *first = json_array_get(json_object_get(json, "counters"), 0);
	assert_string_equal(json_get_str(first, "name", ""), EVIL);
	json_decref(json);

	buf_clear(&out);
	counters_csv(&view, &out);
	assert_non_null(strstr(buf_cstr(&out), ",'=cmd,\"x\033[31m\"\"\\,\n{}<b>\","));

	buf_clear(&out);
	counters_prometheus(&view, &out);
	assert_null(strchr(buf_cstr(&out), '\033'));
	assert_non_null(strstr(buf_cstr(&out),
			       "# TYPE _9lives_seconds summary\n_9lives_seconds{meter=\"=cmd\",quantile=\"0.5\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&out),
			       "{meter=\"=cmd\",a=\"1,2\",tag_meter=\"x\\\\u{1b}[31m\\\"\\\\,\\\\u{a}{}<b>\"} 2\n"));
	buf_free(&out);
	stage_end(&s);
}

static void rows_are_grouped_filtered_and_sorted(void **state UNUSED)
{
	struct stage s;
	const struct counters_want want = { .all_meters = true, .wildcard = true, .interval_ms = 1000 };
	stage_begin(&s);
	stage_session(&s, 110);
	stage_collection(&s, 1, "5", "5");
	stage_open(&s, &want);
	char title[] = "Shop (1)";
	struct counters_view view = { .c = s.c, .title = title, .filter = "" };
	static const char *const by_name[] = { "Shop.Meters", "shop.duration", "route=/a",    "p50",	 "p95",
					       "p99",	      "shop.free",     "shop.orders", "kind=web" };
	struct counters_rows rows = { 0 };
	counters_rows_make(&view, &rows);
	assert_int_equal(rows.n, ARRAY_SIZE(by_name));
	for (size_t i = 0; i < rows.n; i++)
		assert_string_equal(rows.v[i].label, by_name[i]);
	counters_rows_free(&rows);

	view.sort = COUNTERS_BY_VALUE; /* free 100, duration 8/s, orders 5/s */
	counters_rows_make(&view, &rows);
	assert_string_equal(rows.v[1].label, "shop.free");
	assert_string_equal(rows.v[2].label, "shop.duration");
	counters_rows_free(&rows);

	view.filter = "KIND=";
	counters_rows_make(&view, &rows);
	assert_int_equal(rows.n, 3);
	assert_string_equal(rows.v[2].label, "kind=web");
	assert_true(counters_value_now(&view, rows.v[2].s, 0) == 5);
	view.until_ns = 1; /* long ago */
	assert_true(isnan(counters_value_now(&view, rows.v[2].s, 0)));
	counters_rows_free(&rows);
	stage_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_written_as_people_read_them),
		cmocka_unit_test(sparklines_start_at_zero),
		cmocka_unit_test(no_form_is_broken_by_names),
		cmocka_unit_test(rows_are_grouped_filtered_and_sorted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
