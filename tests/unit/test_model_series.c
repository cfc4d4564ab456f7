#include "unit.h"

#include "model/series.h"
#include <math.h>
#include <stdio.h>

static struct series *put(struct series_set *set, const char *name, enum series_kind kind)
{
	return series_put(set, (struct series_key){ .provider = "Shop", .name = name, .tags = "" },
			  &(struct series_info){ .kind = kind, .unit = "By" });
}

static void the_oldest_points_go_first(void **state UNUSED)
{
	for (size_t max = 1; max < 100; max += 7) {
		CLEANUP(series_set_freep)
		struct series_set *set = series_set_new(&(struct series_limits){ .max_points = max });
		struct series *s = put(set, "a", SERIES_RATE);
		for (int i = 0; i < 300; i++) {
			series_add(set, s, i * 10, (double[]){ i, -i });
			double v[SERIES_COLUMNS_MAX];
			size_t kept = MIN((size_t)i + 1, max);
			assert_int_equal(s->n, kept);
			assert_int_equal(series_point(s, 0, v), ((size_t)i + 1 - kept) * 10);
			assert_int_equal(series_point(s, kept - 1, v), i * 10);
			assert_true(v[0] == i && v[1] == -i);
		}
		assert_true(s->max[0] == 299 && s->min[0] == 0 && s->min[1] == -299);
		assert_int_equal(s->seen, 300);
	}
}

static void unmeasured_values_change_no_extreme(void **state UNUSED)
{
	CLEANUP(series_set_freep) struct series_set *set = series_set_new(NULL);
	struct series *s = put(set, "a", SERIES_GAUGE);
	assert_true(isnan(s->last[0]) && isnan(s->max[0]));
	series_add(set, s, 1, (double[]){ NAN });
	series_add(set, s, 2, (double[]){ 5 });
	series_add(set, s, 3, (double[]){ INFINITY });
	assert_true(s->min[0] == 5 && s->max[0] == 5 && isnan(s->last[0]));
	assert_int_equal(s->n, 3);
	series_add(set, s, 1, (double[]){ 4 }); /* time does not go back */
	assert_int_equal(s->last_ns, 3);
}

static void the_number_of_series_is_bounded(void **state UNUSED)
{
	CLEANUP(series_set_freep) struct series_set *set = series_set_new(&(struct series_limits){ .max_series = 10 });
	char name[16];
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 15; i++) {
			snprintf(name, sizeof(name), "n%d", i);
			assert_int_equal(put(set, name, SERIES_GAUGE) != NULL, i < 10);
		}
	assert_int_equal(series_count(set), 10);
	assert_int_equal(series_refused(set), 10);
	assert_null(put(set, "n3", SERIES_RATE)); /* known as something else */
	assert_string_equal(series_at(set, 3)->key.name, "n3");
	assert_string_equal(series_at(set, 3)->unit, "By");
}

static void the_bytes_are_bounded(void **state UNUSED)
{
	const size_t max = 200000;
	CLEANUP(series_set_freep)
	struct series_set *set = series_set_new(&(struct series_limits){ .max_bytes = max, .max_points = 100000 });
	char name[4000];
	memset(name, 'x', sizeof(name));
	for (int i = 0; i < 1000; i++) {
		snprintf(name + sizeof(name) - 8, 8, "%d", i);
		struct series *s = put(set, name, SERIES_HISTOGRAM);
		for (int k = 0; s && k < 1000; k++)
			series_add(set, s, k, (double[]){ 1, 2, 3, 4, 5 });
	}
	assert_true(series_refused(set) > 0);
	assert_in_range(series_bytes(set), max / 2, max + 20000);
	for (size_t i = 0; i < series_count(set); i++)
		assert_true(series_at(set, i)->n > 0);
}

static void keys_do_not_run_into_each_other(void **state UNUSED)
{
	CLEANUP(series_set_freep) struct series_set *set = series_set_new(NULL);
	const struct series_info info = { .kind = SERIES_GAUGE };
	struct series *a = series_put(set, (struct series_key){ "ab", "c", "d" }, &info);
	struct series *b = series_put(set, (struct series_key){ "a", "bc", "d" }, &info);
	struct series *c = series_put(set, (struct series_key){ "ab", "cd", "" }, &info);
	assert_true(a != b && b != c && a != c);
	assert_ptr_equal(series_put(set, (struct series_key){ "ab", "c", "d" }, &info), a);
	assert_ptr_equal(series_find(set, (struct series_key){ "ab", "cd", "" }), c);
	assert_null(series_find(set, (struct series_key){ "ab", "cd", "x" }));
}

static void cells_hold_the_highest(void **state UNUSED)
{
	CLEANUP(series_set_freep) struct series_set *set = series_set_new(NULL);
	struct series *s = put(set, "a", SERIES_GAUGE);
	int64_t from, to;
	assert_false(series_window(set, &from, &to));
	for (int i = 0; i < 100; i++)
		series_add(set, s, 1000 + i, (double[]){ i % 10 == 3 ? 50 + i : 1 });
	assert_true(series_window(set, &from, &to));
	assert_int_equal(from, 1000);
	assert_int_equal(to, 1099);
	double cells[10];
	series_cells(s, 0, 1000, 1100, cells, 10);
	for (int i = 0; i < 10; i++)
		assert_true(cells[i] == 53 + i * 10);
	series_cells(s, 0, 900, 1100, cells, 10);
	assert_true(isnan(cells[0]) && isnan(cells[4]) && cells[5] == 63);
	series_cells(s, 0, 1050, 1050, cells, 10);
	assert_true(cells[0] == 1 && isnan(cells[1]));
	series_cells(s, 0, INT64_MIN, INT64_MAX, cells, 10);
	series_cells(s, 7, 0, 2000, cells, 10);
	assert_true(isnan(cells[9]));
	series_cells(s, 0, 2000, 1000, cells, 10);
	assert_true(isnan(cells[0]));
	series_cells(s, 0, 0, 1, cells, 0);
}

static void a_reset_forgets_all_but_the_names(void **state UNUSED)
{
	CLEANUP(series_set_freep) struct series_set *set = series_set_new(NULL);
	struct series *s = put(set, "a", SERIES_GAUGE);
	series_add(set, s, 100, (double[]){ 7 });
	series_set_reset(set);
	assert_int_equal(s->n, 0);
	assert_true(isnan(s->max[0]) && isnan(s->last[0]));
	series_add(set, s, 50, (double[]){ 1 });
	assert_true(s->max[0] == 1 && s->last_ns == 50);
	assert_int_equal(series_count(set), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_points_go_first),
		cmocka_unit_test(unmeasured_values_change_no_extreme),
		cmocka_unit_test(the_number_of_series_is_bounded),
		cmocka_unit_test(the_bytes_are_bounded),
		cmocka_unit_test(keys_do_not_run_into_each_other),
		cmocka_unit_test(cells_hold_the_highest),
		cmocka_unit_test(a_reset_forgets_all_but_the_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
