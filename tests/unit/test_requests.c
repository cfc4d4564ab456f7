#include "unit.h"

#include "build_activity.h"

static const enum activity_form forms[] = { ACTIVITY_FORM_NET8, ACTIVITY_FORM_NET10 };

static void check_path(enum activity_form form, const uint32_t *numbers, size_t n)
{
	uint8_t id[16];
	struct activity_path path;
	build_activity(id, form, numbers, n);
	assert_int_equal(activity_path_pid(id), BUILD_ACTIVITY_PID);
	assert_true(activity_path_decode(id, form, &path));
	assert_int_equal(path.n, n);
	assert_memory_equal(path.numbers, numbers, n * sizeof(*numbers));
	assert_false(path.overflow || path.shared);
}

static void paths_are_read(void **state UNUSED)
{
	static const uint32_t paths[][5] = { { 1 },
					     { 1, 4, 1, 1 },
					     { 1, 10 },
					     { 1, 11 },
					     { 1, 255, 3 },
					     { 1, 256, 3 },
					     { 1, 4095, 2, 5 },
					     { 1, 4096, 1 },
					     { 1, 70000, 7 },
					     { 1, 0x1000000, 2 },
					     { 1, 4, 300, 2, 5 },
					     { 1, 4, 4000, 2 },
					     { 1, 4, 5000, 2 },
					     { 1, 4, 70000, 9 },
					     { 1, 1059064 } };
	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
			size_t n = 0;
			while (n < 5 && paths[i][n])
				n++;
			check_path(forms[f], paths[i], n);
		}
	}
}

/* An activity that ends on a whole byte has ten children whose number is in their id on .NET 10. */
static void siblings_share_an_id_on_net10(void **state UNUSED)
{
	static const uint32_t eleventh[] = { 1, 6, 11, 1 }, last[] = { 1, 6, 255, 1 };
	uint8_t a[16], b[16];
	struct activity_path path;
	build_activity(a, ACTIVITY_FORM_NET10, eleventh, 4);
	build_activity(b, ACTIVITY_FORM_NET10, last, 4);
	assert_memory_equal(a, b, 16);
	assert_true(activity_path_decode(a, ACTIVITY_FORM_NET10, &path) && path.shared);
	assert_true(path.n == 4 && path.numbers[1] == 6 && path.numbers[2] == ACTIVITY_NUMBER_UNKNOWN &&
		    path.numbers[3] == 1);
	build_activity(a, ACTIVITY_FORM_NET8, eleventh, 4);
	build_activity(b, ACTIVITY_FORM_NET8, last, 4);
	assert_memory_not_equal(a, b, 16);
	assert_true(activity_path_decode(b, ACTIVITY_FORM_NET8, &path) && !path.shared && path.numbers[2] == 255);
}

static void an_activity_that_is_too_deep(void **state UNUSED)
{
	static const uint32_t above[] = { 1, 4, 2 };
	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		uint8_t id[16];
		struct activity_path path, parent;
		build_activity_overflow(id, forms[f], above, 3, 77);
		assert_true(activity_path_decode(id, forms[f], &path));
		assert_true(path.overflow && path.n == 4 && path.numbers[3] == 77);
		build_activity(id, forms[f], above, 3);
		assert_true(activity_path_decode(id, forms[f], &parent));
		assert_true(activity_path_key(&path, 3) == activity_path_key(&parent, 3));
	}
}

static void what_is_no_path(void **state UNUSED)
{
	static const uint8_t none[16] = { 0 },
			     cut[16] = { 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0xF0 };
	static const uint8_t bad_overflow[16] = { 0x1B, 0x50 },
			     ends_in_overflow[16] = { 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
						      0x11, 0x11, 0x11, 0x11, 0x11, 0x1B };
	struct activity_path path;
	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		assert_false(activity_path_decode(none, forms[f], &path));
		assert_false(activity_path_decode(cut, forms[f], &path));
		assert_false(activity_path_decode(bad_overflow, forms[f], &path));
		assert_false(activity_path_decode(ends_in_overflow, forms[f], &path));
	}
}

/* Whatever comes is refused or read, within its bounds. */
static void any_bytes(void **state UNUSED)
{
	uint64_t x = 88172645463325252ull;
	for (size_t i = 0; i < 200000; i++) {
		uint8_t id[16];
		struct activity_path path;
		for (size_t k = 0; k < 16; k++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			id[k] = (uint8_t)(x >> 20) & (i & 1 ? 0xff : 0xdd);
		}
		if (activity_path_decode(id, forms[i / 2 % 2], &path))
			assert_true(path.n > 0 && path.n <= ACTIVITY_PATH_MAX);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_read),
		cmocka_unit_test(siblings_share_an_id_on_net10),
		cmocka_unit_test(an_activity_that_is_too_deep),
		cmocka_unit_test(what_is_no_path),
		cmocka_unit_test(any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
