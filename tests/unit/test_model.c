#include "unit.h"

#include "model/calltree.h"
#include "model/dist.h"
#include "model/timeline.h"
#include <math.h>
#include <stdio.h>

static int ascending(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
	return (a > b) - (a < b);
}

/* Straight from the definition: the smallest value with at least q of all at or below it. */
static uint64_t naive_quantile(const uint64_t *sorted, size_t n, double percent)
{
	for (size_t i = 0; i < n; i++) {
		if ((double)(i + 1) * 100 >= percent * (double)n)
			return sorted[i];
	}
	return sorted[n - 1];
}

static void quantiles_are_those_of_the_sorted_values(void **state UNUSED)
{
	for (size_t n = 1; n < 300; n += 7) {
		CLEANUP(dist_freep) struct dist *d = dist_new(1000);
		uint64_t values[300], sum = 0;
		for (size_t i = 0; i < n; i++) {
			values[i] = hash_u64(n * 1000 + i) % 500;
			sum += values[i];
			dist_add(d, values[i]);
		}
		qsort(values, n, sizeof(*values), ascending);
		static const double percents[] = { 0, 1, 25, 50, 75, 90, 95, 99, 99.9, 100 };
		for (size_t i = 0; i < ARRAY_SIZE(percents); i++)
			assert_int_equal(dist_quantile(d, percents[i] / 100), naive_quantile(values, n, percents[i]));
		assert_int_equal(dist_count(d), n);
		assert_int_equal(dist_sum(d), sum);
		assert_int_equal(dist_min(d), values[0]);
		assert_int_equal(dist_max(d), values[n - 1]);
		assert_true(dist_exact(d));
	}
}

static void quantiles_may_be_asked_between_adds(void **state UNUSED)
{
	CLEANUP(dist_freep) struct dist *d = dist_new(100);
	assert_int_equal(dist_quantile(d, 0.5), 0);
	for (uint64_t v = 100; v > 0; v--) {
		dist_add(d, v);
		assert_int_equal(dist_quantile(d, 0), v);
		assert_int_equal(dist_quantile(d, 1), 100);
	}
	assert_int_equal(dist_quantile(d, 0.95), 95);
	assert_int_equal(dist_quantile(d, NAN), 1);
}

static void a_large_distribution_is_a_fair_sample(void **state UNUSED)
{
	CLEANUP(dist_freep) struct dist *d = dist_new(2000);
	enum { N = 200000 };
	for (uint64_t i = 0; i < N; i++)
		dist_add(d, i);
	assert_false(dist_exact(d));
	assert_int_equal(dist_count(d), N);
	assert_int_equal(dist_sum(d), (uint64_t)N * (N - 1) / 2);
	assert_int_equal(dist_min(d), 0);
	assert_int_equal(dist_quantile(d, 1), N - 1);
	/* The standard error of a quantile here is about 1.1 % of N; five of them. */
	for (double q = 0.1; q < 0.95; q += 0.1)
		assert_true(fabs((double)dist_quantile(d, q) / N - q) < 0.056);
	struct dist_bucket b[32];
	size_t n = dist_buckets(d, 1, b, 32);
	uint64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all += b[i].count;
	assert_in_range(all, N / 100 * 99, N / 100 * 101);
}

static void sums_saturate(void **state UNUSED)
{
	CLEANUP(dist_freep) struct dist *d = dist_new(4);
	dist_add(d, UINT64_MAX);
	dist_add(d, 5);
	assert_true(dist_sum(d) == UINT64_MAX);
}

static void buckets_double_and_hold_every_value(void **state UNUSED)
{
	CLEANUP(dist_freep) struct dist *d = dist_new(100);
	struct dist_bucket b[8];
	assert_int_equal(dist_buckets(d, 1000, b, 8), 0);
	static const uint64_t values[] = { 0, 999, 1000, 1999, 2000, 3999, 4000, 16000 };
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		dist_add(d, values[i]);
	assert_int_equal(dist_buckets(d, 1000, b, 8), 6);
	static const struct dist_bucket want[] = { { 0, 1000, 2 },    { 1000, 2000, 2 },  { 2000, 4000, 2 },
						   { 4000, 8000, 1 }, { 8000, 16000, 0 }, { 16000, 32000, 1 } };
	assert_memory_equal(b, want, sizeof(want));
	assert_int_equal(dist_buckets(d, 1000, b, 2), 2);
	assert_int_equal(b[0].from, 0);
	assert_int_equal(b[0].to, 16000);
	assert_int_equal(b[0].count, 7);
}

static void buckets_of_huge_values_do_not_overflow(void **state UNUSED)
{
	CLEANUP(dist_freep) struct dist *d = dist_new(4);
	dist_add(d, UINT64_MAX);
	struct dist_bucket b[2];
	assert_int_equal(dist_buckets(d, 0, b, 2), 1);
	assert_true(b[0].from == 1ULL << 63 && b[0].to == UINT64_MAX && b[0].count == 1);
	assert_int_equal(dist_buckets(d, 1000, b, 2), 1);
	assert_true(b[0].from < UINT64_MAX && b[0].to == UINT64_MAX);
}

static const struct calltree_node *child(const struct calltree *t, const struct calltree_node *n, const char *name)
{
	for (uint32_t c = n->first_child; c; c = calltree_node(t, c)->next_sibling) {
		if (!strcmp(calltree_frame_name(t, calltree_node(t, c)->frame), name))
			return calltree_node(t, c);
	}
	return NULL;
}

static void stacks_merge_by_common_frames(void **state UNUSED)
{
	CLEANUP(calltree_freep) struct calltree *t = calltree_new(100);
	uint32_t main_ = calltree_frame(t, "Main", FRAME_CODE), a = calltree_frame(t, "A", FRAME_CODE),
		 b = calltree_frame(t, "B", FRAME_FRAMEWORK);
	assert_int_equal(calltree_frame(t, "A", FRAME_CODE), a);
	assert_int_not_equal(calltree_frame(t, "A", FRAME_GC), a);
	calltree_add(t, (uint32_t[]){ main_, a }, 2, 3);
	calltree_add(t, (uint32_t[]){ main_, b }, 2, 5);
	calltree_add(t, (uint32_t[]){ main_, a, b }, 3, 4);
	calltree_add(t, (uint32_t[]){ main_ }, 1, 1);
	calltree_add(t, NULL, 0, 2);
	assert_int_equal(calltree_n_nodes(t), 5);
	calltree_sort(t);
	const struct calltree_node *root = calltree_node(t, 0), *m = child(t, root, "Main");
	assert_int_equal(root->total, 15);
	assert_int_equal(root->self, 2);
	assert_int_equal(m->total, 13);
	assert_int_equal(m->self, 1);
	assert_int_equal(calltree_node(t, m->first_child)->frame, a);
	assert_int_equal(child(t, m, "A")->total, 7);
	assert_int_equal(child(t, m, "A")->self, 3);
	assert_int_equal(child(t, child(t, m, "A"), "B")->total, 4);
	assert_int_equal(child(t, m, "B")->total, 5);
	assert_int_equal(calltree_frame_kind(t, b), FRAME_FRAMEWORK);
	assert_int_equal(calltree_truncated(t), 0);
}

static void a_full_tree_counts_what_it_cut(void **state UNUSED)
{
	CLEANUP(calltree_freep) struct calltree *t = calltree_new(50);
	uint32_t main_ = calltree_frame(t, "Main", FRAME_CODE);
	for (uint32_t i = 0; i < 10000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "m%u", i % 1000);
		uint32_t deep = calltree_frame(t, name, FRAME_CODE);
		calltree_add(t, (uint32_t[]){ main_, deep, deep, deep }, 4, 2);
	}
	assert_in_range(calltree_n_nodes(t), 50, 100);
	assert_true(calltree_truncated(t) > 9000);
	const struct calltree_node *m = child(t, calltree_node(t, 0), "Main");
	assert_int_equal(m->total, 20000);
	assert_int_equal(m->self, 0);
	assert_non_null(child(t, m, "[more]"));
	uint64_t self = 0;
	for (uint32_t i = 0; i < calltree_n_nodes(t); i++)
		self += calltree_node(t, i)->self;
	assert_int_equal(self, 20000);
}

static void long_frame_names_stay_whole(void **state UNUSED)
{
	CLEANUP(calltree_freep) struct calltree *t = calltree_new(4);
	char name[5001];
	memset(name, 'x', 5000);
	name[5000] = '\0';
	assert_string_equal(calltree_frame_name(t, calltree_frame(t, name, FRAME_JIT)), name);
	assert_string_equal(calltree_frame_name(t, calltree_frame(t, "", FRAME_JIT)), "");
}

/* ---- timeline ---- */

static void test_timeline_keeps_sums_however_long_it_gets(void **state)
{
	(void)state;
	struct timeline sums = { 0 }, highest = { .highest = true };
	uint64_t at[TIMELINE_POINTS];
	double values[TIMELINE_POINTS], sum = 0, top = 0;
	const uint64_t window = 20000000000ull;
	for (uint64_t i = 0; i < 1000; i++) {
		timeline_add(&sums, i * window / 1000, 1);
		timeline_add(&highest, i * window / 1000, (double)i);
	}
	size_t n = timeline_points(&sums, window, TIMELINE_POINTS, at, values);
	assert_true(n > TIMELINE_POINTS / 2 - 2 && n <= TIMELINE_POINTS);
	for (size_t i = 0; i < n; i++) {
		sum += values[i];
		assert_int_equal(at[i], i * at[1]);
	}
	assert_int_equal((int)sum, 1000);
	n = timeline_points(&highest, window, TIMELINE_POINTS, at, values);
	for (size_t i = 0; i < n; i++)
		top = values[i] > top ? values[i] : top;
	assert_int_equal((int)top, 999);
	assert_int_equal((int)values[n - 1], 999);
}

static void test_timeline_of_nothing_and_of_one_moment(void **state)
{
	(void)state;
	struct timeline t = { 0 };
	uint64_t at[TIMELINE_POINTS];
	double values[TIMELINE_POINTS];
	assert_int_equal(timeline_points(&t, 0, TIMELINE_POINTS, at, values), 0);
	assert_true(timeline_points(&t, 60000000000ull, TIMELINE_POINTS, at, values) <= TIMELINE_POINTS);
	timeline_add(&t, 0, 5);
	timeline_add(&t, UINT64_MAX, 7); /* a lie of the stream */
	assert_true(timeline_points(&t, 60000000000ull, TIMELINE_POINTS, at, values) >= 1);
	assert_int_equal((int)values[0], 5);
}

static void test_timeline_gives_rates(void **state)
{
	(void)state;
	struct timeline events = { 0 }, spent = { 0 };
	uint64_t at[TIMELINE_POINTS];
	double rates[TIMELINE_POINTS], ns = 0;
	const uint64_t window = 10000000000ull;
	for (uint64_t i = 0; i < 10000; i++) /* one a millisecond, and in one second another one */
		timeline_add(&events, i * 1000000, i / 1000 == 4 ? 2 : 1);
	size_t n = timeline_rates(&events, window, TIMELINE_POINTS, at, rates);
	assert_true(rates[0] > 999 && rates[0] < 1001);
	assert_true(rates[n - 1] > 999 && rates[n - 1] < 1001); /* also where the window cuts it */
	assert_true(timeline_peak(&events, window) > 1900 && timeline_peak(&events, window) <= 2000);
	n = timeline_rates(&events, window, 10, at, rates);
	assert_true(n >= 5 && n <= 10);
	timeline_add_span(&spent, 3, 3);
	timeline_add_span(&spent, 2000000001, 7000000002);
	timeline_add_span(&spent, UINT64_MAX - 5, UINT64_MAX); /* a lie of the stream */
	n = timeline_points(&spent, UINT64_MAX, TIMELINE_POINTS, at, rates);
	for (size_t i = 0; i < n; i++)
		ns += rates[i];
	assert_true(ns == 5000000001 + 5);
	assert_true(timeline_peak(&(struct timeline){ 0 }, window) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
		cmocka_unit_test(quantiles_may_be_asked_between_adds),
		cmocka_unit_test(a_large_distribution_is_a_fair_sample),
		cmocka_unit_test(sums_saturate),
		cmocka_unit_test(buckets_double_and_hold_every_value),
		cmocka_unit_test(buckets_of_huge_values_do_not_overflow),
		cmocka_unit_test(stacks_merge_by_common_frames),
		cmocka_unit_test(a_full_tree_counts_what_it_cut),
		cmocka_unit_test(long_frame_names_stay_whole),
		cmocka_unit_test(test_timeline_keeps_sums_however_long_it_gets),
		cmocka_unit_test(test_timeline_of_nothing_and_of_one_moment),
		cmocka_unit_test(test_timeline_gives_rates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
