#include "unit.h"

#include "base/arena.h"
#include "base/cursor.h"
#include "base/exhausted.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/json.h"
#include "base/map.h"
#include "base/ranks.h"
#include "base/str.h"
#include "base/vec.h"
#include <sys/wait.h>

static void errors_wrap_and_keep_their_kind(void **state UNUSED)
{
	struct err *e = err_wrap(err_errno(2, "open '%s'", "x"), "look at %d", 7);
	assert_int_equal(err_kind(e), ERR_NOT_FOUND);
	assert_string_equal(err_text(e), "look at 7: open 'x': No such file or directory");
	err_free(e);
}

static void numbers_compare_without_overflow(void **state UNUSED)
{
	assert_int_equal(CMP(1u, UINT32_MAX), -1);
	assert_int_equal(CMP(UINT64_MAX, (uint64_t)0), 1);
	assert_int_equal(CMP(INT64_MIN, INT64_MAX), -1);
	assert_int_equal(CMP(0.5, 0.5) ?: CMP(2, 1), 1);
}

static void shares_of_nothing_are_nothing(void **state UNUSED)
{
	uint64_t part = 3, whole = 4, none = 0;
	assert_true(ratio(part, whole) == 0.75);
	assert_true(ratio(part, none) == 0);
	assert_true(per_second(100, 1 * NS_PER_S) == 100);
	assert_true(per_second(1, 500 * NS_PER_US) == 2000);
	assert_true(per_second(100, none) == 0);
	assert_int_equal(timespec_ns((struct timespec){ .tv_sec = -1, .tv_nsec = 5 }), 5 - NS_PER_S);
}

static void estimates_have_two_digits(void **state UNUSED)
{
	static const double cases[][2] = { { 0, 0 },	 { 7.4, 7 },	 { 99.4, 99 },
					   { 104, 100 }, { 1251, 1300 }, { 5e15, 5e15 } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(fmt_estimate(cases[i][0]) == cases[i][1]);
}

static void buf_stops_at_its_limit(void **state UNUSED)
{
	struct buf b = { .limit = 10 };
	buf_str(&b, "12345");
	buf_printf(&b, "%s", "678901");
	assert_true(b.overflow);
	assert_string_equal(buf_cstr(&b), "12345");
	buf_consume(&b, 2);
	assert_string_equal(buf_cstr(&b), "345");
	buf_free(&b);
}

static void what_a_buf_writes_a_cursor_reads(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_u8(&b, 0xFE);
	buf_u16(&b, 0xFEDC);
	buf_u32(&b, 0xFEDCBA98);
	buf_u64(&b, 0xFEDCBA9876543210);
	buf_i32(&b, INT32_MIN);
	buf_i64(&b, INT64_MIN);
	buf_f32(&b, 0.5f);
	buf_f64(&b, -0.25);
	buf_varu64(&b, 300);
	buf_text(&b, "text", 4);
	buf_vartext(&b, NULL, 0);
	buf_vartext(&b, "a\0b", 3);
	static const uint8_t begins[] = { 0xFE, 0xDC, 0xFE, 0x98, 0xBA, 0xDC, 0xFE };
	assert_memory_equal(b.data, begins, sizeof(begins));
	for (size_t cut = 0; cut <= b.len; cut++) {
		struct cursor c = cursor_make(b.data, b.len - cut);
		size_t len;
		bool same = cursor_u8(&c) == 0xFE && cursor_u16(&c) == 0xFEDC && cursor_u32(&c) == 0xFEDCBA98 &&
			    cursor_u64(&c) == 0xFEDCBA9876543210 && cursor_i32(&c) == INT32_MIN &&
			    cursor_i64(&c) == INT64_MIN && cursor_f32(&c) == 0.5f && cursor_f64(&c) == -0.25 &&
			    cursor_varu64(&c) == 300;
		const char *text = cursor_text(&c, 4, &len);
		same = same && text && len == 4 && !memcmp(text, "text", 4);
		same = same && cursor_vartext(&c, 0, &len) && !len;
		text = cursor_vartext(&c, 3, &len);
		same = same && text && len == 3 && !memcmp(text, "a\0b", 3);
		assert_int_equal(same, cut == 0);
		assert_int_equal(cursor_ok(&c), cut == 0);
	}
	struct cursor c = cursor_make("\4\0\0\0text", 8);
	size_t len;
	assert_null(cursor_text(&c, 3, &len));
	assert_false(cursor_ok(&c));
}

static void maps_hold_many_keys(void **state UNUSED)
{
	struct map_u64 m = { 0 };
	for (uint64_t i = 0; i < 5000; i++)
		*map_u64_put(&m, i * 0x1000, NULL) = i;
	assert_int_equal(m.n, 5000);
	for (uint64_t i = 0; i < 5000; i++)
		assert_int_equal(*map_u64_get(&m, i * 0x1000), i);
	assert_null(map_u64_get(&m, 1));
	size_t pos = 0, seen = 0;
	for (uint64_t k, v; map_u64_next(&m, &pos, &k, &v); seen++)
		assert_int_equal(k, v * 0x1000);
	assert_int_equal(seen, 5000);
	map_u64_free(&m);
}

static void strings_are_interned_once(void **state UNUSED)
{
	struct strtab t = { 0 };
	char name[16];
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 1000; i++) {
			snprintf(name, sizeof(name), "n%u", i);
			assert_int_equal(strtab_add_cstr(&t, name), i);
		}
	}
	assert_int_equal(t.n, 1000);
	assert_string_equal(strtab_get(&t, 999), "n999");
	assert_int_equal(strtab_find(&t, "nope", 4), STRTAB_NONE);
	strtab_free(&t);
}

static void arena_survives_large_and_small(void **state UNUSED)
{
	struct arena a = { 0 };
	char *small = arena_strdup(&a, "small");
	memset(arena_alloc(&a, 1 << 20), 7, 1 << 20);
	char *text = arena_printf(&a, "%d%s", 42, "x");
	assert_string_equal(small, "small");
	assert_string_equal(text, "42x");
	arena_clear(&a);
	assert_string_equal(arena_strdup(&a, "again"), "again");
	arena_free(&a);
}

static void numbers_parse_strictly(void **state UNUSED)
{
	uint64_t u;
	int64_t i;
	double d;
	bool b;
	assert_true(str_to_u64("42", &u) && u == 42);
	assert_false(str_to_u64("", &u) || str_to_u64("-1", &u) || str_to_u64(" 1", &u) || str_to_u64("1x", &u));
	assert_false(str_to_u64("18446744073709551616", &u));
	assert_true(str_to_i64("-7", &i) && i == -7);
	assert_true(str_to_double("1.5", &d) && d == 1.5);
	assert_false(str_to_double("nan", &d) || str_to_double("inf", &d) || str_to_double("0x10", &d) ||
		     str_to_double("1e999", &d) || str_to_double("", &d));
	assert_true(str_to_bool("Yes", &b) && b);
	assert_false(str_to_bool("maybe", &b));
	assert_true(str_to_duration_ms("1.5s", &u) && u == 1500);
	assert_true(str_to_duration_ms("250ms", &u) && u == 250);
	assert_true(str_to_duration_ms("2m", &u) && u == 120000);
	assert_true(str_to_duration_ms("7", &u) && u == 7000);
	assert_false(str_to_duration_ms("7x", &u) || str_to_duration_ms("s", &u) || str_to_duration_ms("-1s", &u) ||
		     str_to_duration_ms("1.2.3s", &u) || str_to_duration_ms("99999999999999999h", &u));
}

static void text_from_targets_is_made_visible(void **state UNUSED)
{
	struct buf b = { 0 };
	const char hostile[] = "a\x1b[31m\xe2\x80\xae<b>\xff é";
	str_add_visible(&b, hostile, sizeof(hostile) - 1, 0);
	assert_string_equal(buf_cstr(&b), "a\\u{1b}[31m\\u{202e}<b>\\xff é");
	buf_clear(&b);
	str_add_visible(&b, "éééé", 8, 3);
	assert_string_equal(buf_cstr(&b), "ééé…");
	buf_free(&b);
	assert_int_equal(utf8_width("aé漢"), 4);
	uint32_t cp;
	assert_int_equal(utf8_decode("\xc0\x80", 2, &cp), 0);	      /* overlong */
	assert_int_equal(utf8_decode("\xed\xa0\x80", 3, &cp), 0);     /* surrogate */
	assert_int_equal(utf8_decode("\xf4\x90\x80\x80", 4, &cp), 0); /* beyond Unicode */
	assert_int_equal(utf8_decode("\xe2\x82", 2, &cp), 0);	      /* cut */
}

static void messages_become_one_line(void **state UNUSED)
{
	static const struct {
		const char *message, *shown; /* at most 14 characters */
	} rows[] = {
		{ "shelf is empty", "shelf is empty" },
		{ "\r\n  no\tsuch thing \r\n", "no\tsuch thing" },
		{ "wrong value\nParameter name: x", "wrong value…" },
		{ "   at Shop.A.B()\n--- End of inner exception ---\nreal words\n   at C.D()", "real words…" },
		{ "   at Shop.A.B()\n   at C.D()", "" },
		{ "at", "at" },
		{ "ééééééééééééééé", "éééééééééééééé…" },
		{ "éééééééééééééé", "éééééééééééééé" },
		{ "123456789012\xff\xff\xff", "123456789012\xff\xff…" },
		{ "", "" },
		{ "\n\n", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(buf_free) struct buf b = { 0 };
		str_add_message(&b, rows[i].message, 14);
		assert_string_equal(buf_cstr(&b), rows[i].shown);
	}
}

static void utf16_round_trips(void **state UNUSED)
{
	struct buf wide = { 0 }, back = { 0 };
	utf16_from_utf8(&wide, "aé漢😀");
	utf16_add(&back, (const uint8_t *)wide.data, wide.len / 2);
	assert_string_equal(buf_cstr(&back), "aé漢😀");
	buf_clear(&back);
	const uint8_t lone[] = { 0x00, 0xd8, 'x', 0 };
	utf16_add(&back, lone, 2);
	assert_string_equal(buf_cstr(&back), "\xef\xbf\xbdx");
	buf_free(&wide);
	buf_free(&back);
}

static void cursor_goes_bad_once_and_stays(void **state UNUSED)
{
	const uint8_t bytes[] = { 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff };
	struct cursor c = cursor_make(bytes, sizeof(bytes));
	assert_int_equal(cursor_u16(&c), 1);
	assert_int_equal(cursor_varu32(&c), UINT32_MAX);
	assert_true(cursor_ok(&c));
	assert_int_equal(cursor_varu32(&c), 0);
	assert_false(cursor_ok(&c));
	assert_int_equal(cursor_u8(&c), 0);
	const uint8_t over[] = { 0xff, 0xff, 0xff, 0xff, 0x1f };
	c = cursor_make(over, sizeof(over));
	cursor_varu32(&c);
	assert_false(cursor_ok(&c));
	const uint8_t longest[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 };
	c = cursor_make(longest, sizeof(longest));
	assert_true(cursor_varu64(&c) == UINT64_MAX && cursor_ok(&c));
	struct buf written = { 0 };
	uint64_t numbers[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		buf_varu64(&written, numbers[i]);
	c = cursor_make(written.data, written.len);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		assert_true(cursor_varu64(&c) == numbers[i]);
	assert_true(cursor_ok(&c) && !cursor_left(&c));
	buf_free(&written);
	const uint8_t unterminated[] = { 'a', 0, 'b', 0 };
	c = cursor_make(unterminated, sizeof(unterminated));
	cursor_utf16z(&c);
	assert_false(cursor_ok(&c));
}

/* A number is added whole or not at all, also where the limit is near. */
static void numbers_keep_the_limit(void **state UNUSED)
{
	for (size_t limit = 1; limit < 40; limit++) {
		struct buf b = { .limit = limit };
		size_t whole = 0;
		for (unsigned i = 0; i < 20; i++)
			buf_varu64(&b, i % 3 ? 1 : 300);
		for (unsigned i = 0; i < 20 && whole + (i % 3 ? 1 : 2) <= limit; i++)
			whole += i % 3 ? 1 : 2;
		assert_true(b.len <= limit);
		assert_true(b.len >= whole);
		assert_true(b.overflow == (limit < 27));
		buf_free(&b);
	}
}

static void ranks_know_their_numbers(void **state UNUSED)
{
	static const struct {
		uint64_t limit, expected, step;
	} sets[] = { { 1, 1, 1 },	 { 64, 64, 1 },	  { 5000, 5000, 3 },	 { 5000, 1, 7 },
		     { 100000, 10, 99 }, { 128, 0, 128 }, { 1 << 20, 5, 65537 }, { (uint64_t)1 << 32, 4, 1u << 30 } };
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		struct ranks r;
		uint64_t last = sets[i].limit - 1;
		uint32_t n = 0;
		ranks_init(&r, sets[i].limit, sets[i].expected);
		for (uint64_t x = sets[i].step / 2; x < sets[i].limit; x += sets[i].step)
			ranks_add(&r, x);
		ranks_seal(&r);
		for (uint64_t x = sets[i].step / 2; x < sets[i].limit; x += sets[i].step, n++) {
			assert_int_equal(ranks_of(&r, x), n);
			assert_int_equal(ranks_at(&r, n), x);
			assert_int_equal(ranks_up_to(&r, x), n);
			if (sets[i].step == 1)
				continue;
			assert_int_equal(ranks_of(&r, x + 1), RANKS_NONE);
			assert_int_equal(ranks_up_to(&r, x + 1), n);
			assert_int_equal(ranks_up_to(&r, x - 1), n ? n - 1 : RANKS_NONE);
		}
		assert_int_equal(ranks_up_to(&r, last), n - 1);
		assert_int_equal(ranks_up_to(&r, UINT64_MAX), n - 1);
		assert_int_equal(ranks_of(&r, sets[i].limit), RANKS_NONE);
		ranks_free(&r);
	}
	struct ranks none;
	ranks_init(&none, 1000, 1000);
	ranks_seal(&none);
	assert_int_equal(ranks_of(&none, 5), RANKS_NONE);
	assert_int_equal(ranks_up_to(&none, 999), RANKS_NONE);
	assert_int_equal(ranks_up_to(&none, UINT64_MAX), RANKS_NONE);
	ranks_free(&none);
}

static void utf16_ends_at_its_zero(void **state UNUSED)
{
	/* Every length, and every unit that could be taken for a zero or spoil its neighbour. */
	static const uint16_t units[] = { 1, 0x100, 0x8000, 0x8001, 0xff00, 0x7fff, 'a' };
	for (size_t len = 0; len < 20; len++) {
		for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
			uint16_t text[24];
			for (size_t i = 0; i < ARRAY_SIZE(text); i++)
				text[i] = units[u];
			text[len] = 0;
			struct cursor c = cursor_make(text, sizeof(text));
			assert_int_equal(cursor_utf16z(&c).n, len);
			assert_int_equal(cursor_left(&c), sizeof(text) - (len + 1) * 2);
			c = cursor_make(text, len * 2);
			cursor_utf16z(&c);
			assert_false(cursor_ok(&c));
		}
	}
}

static void numbers_read_well(void **state UNUSED)
{
	assert_string_equal(fmt_count(1204311).s, "1,204,311");
	assert_string_equal(fmt_count(999).s, "999");
	assert_string_equal(fmt_signed(-1204).s, "-1,204");
	assert_string_equal(fmt_bytes(812).s, "812 bytes");
	assert_string_equal(fmt_bytes(310ull << 20).s, "310 MB");
	assert_string_equal(fmt_bytes(4614000).s, "4.4 MB");
	assert_string_equal(fmt_duration_ns(6200000).s, "6.2 ms");
	assert_string_equal(fmt_duration_ns(12340000000ull).s, "12.3 s");
	assert_string_equal(fmt_duration_ns(125000000000ull).s, "2 min 5 s");
	assert_string_equal(fmt_duration_ns(940).s, "940 ns");
	assert_string_equal(fmt_duration_ns(45600).s, "45.6 µs");
	assert_string_equal(fmt_percent(0.77).s, "77 %");
	assert_string_equal(fmt_percent(0.0015).s, "0.15 %");
	assert_string_equal(fmt_percent(0.00001).s, "below 0.01 %");
	assert_string_equal(fmt_percent(0.9999).s, "99.9 %");
	assert_string_equal(fmt_percent(1).s, "100 %");
	assert_string_equal(fmt_percent(0).s, "0 %");
	assert_string_equal(fmt_rate(412).s, "412/s");
	assert_string_equal(fmt_rate(0.05).s, "3 per min");
	assert_string_equal(fmt_time_utc(1794712329000000000).s, "2026-11-15 03:12:09Z");
	assert_string_equal(fmt_plural(1, "pause", "pauses").s, "1 pause");
	assert_string_equal(fmt_plural(1400, "pause", "pauses").s, "1,400 pauses");
}

static void json_can_be_printed(void **state UNUSED)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_make(&b, false);
	jsonw_str(&w, NULL, "\x7f \xc2\x9b \xe2\x80\xae \xe2\x80\x8b \xef\xbb\xbf \xc3\xa9");
	assert_string_equal(buf_cstr(&b), "\"\\u007f \\u009b \\u202e \\u200b \\ufeff \xc3\xa9\"");
	buf_free(&b);
}

static void json_is_escaped_and_capped(void **state UNUSED)
{
	struct buf b = { 0 };
	struct jsonw w = jsonw_make(&b, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "a", "<\"\\\n\x01\xff>");
	jsonw_array(&w, "list");
	jsonw_u64(&w, NULL, UINT64_MAX);
	jsonw_num(&w, NULL, 0.1);
	jsonw_num(&w, NULL, 1.0 / 0.0);
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	assert_string_equal(buf_cstr(&b), "{\"a\":\"\\u003c\\\"\\\\\\n\\u0001\xef\xbf\xbd\\u003e\","
					  "\"list\":[18446744073709551615,0.1,null]}");
	json_t *j = NULL;
	assert_err(json_parse("{\"a\":1,\"a\":2}", 13, 100, &j), ERR_BAD_DATA);
	assert_err(json_parse("[1,2,3]", 7, 3, &j), ERR_BAD_DATA);
	char deep[200];
	memset(deep, '[', sizeof(deep));
	assert_err(json_parse(deep, sizeof(deep), 1000, &j), ERR_BAD_DATA);
	assert_ok(json_parse("{\"n\":3,\"s\":\"x\"}", 15, 100, &j));
	assert_int_equal(json_get_int(j, "n", 0), 3);
	assert_int_equal(json_get_int(j, "s", 9), 9);
	json_decref(j);
	buf_free(&b);
}

static void vectors_grow(void **state UNUSED)
{
	VEC(int) v = { 0 };
	for (int i = 0; i < 100; i++)
		vec_push(&v, i);
	int sum = 0;
	vec_each(it, &v)
		sum += *it;
	assert_int_equal(sum, 4950);
	assert_int_equal(vec_last(&v), 99);
	vec_free(&v);
}

static void test_str_distance(void **state)
{
	(void)state;
	static const struct {
		const char *a, *b;
		size_t n;
	} cases[] = { { "", "", 0 },
		      { "abc", "abc", 0 },
		      { "Abc", "aBC", 0 },
		      { "", "abc", 3 },
		      { "excepions", "exceptions", 1 },
		      { "exeptoins", "exceptions", 2 },
		      { "ab", "ba", 1 },
		      { "kitten", "sitting", 3 } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(str_distance(cases[i].a, cases[i].b), cases[i].n);
		assert_int_equal(str_distance(cases[i].b, cases[i].a), cases[i].n);
	}
	char longest[41], longer[42];
	memset(longest, 'x', sizeof(longest));
	memset(longer, 'x', sizeof(longer));
	longest[40] = longer[41] = '\0';
	assert_int_equal(str_distance(longest, ""), 40);
	assert_int_equal(str_distance(longer, ""), SIZE_MAX);
	assert_int_equal(str_distance("", longer), SIZE_MAX);
}

/* Ends in order, with the code that was chosen, and not by a signal that would write a core file. */
static void used_up_memory_ends_the_process(void **state UNUSED)
{
	json_malloc_t get;
	json_free_t give;
	json_get_alloc_funcs(&get, &give);
	assert_ptr_equal(get, mem_alloc); /* of jansson too, which would go on with less than it was given */
	assert_ptr_equal(give, mem_free);
	for (int code = 1; code < 8; code += 6) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			if (code > 1)
				mem_set_exhausted_exit(code);
			mem_free(mem_array(SIZE_MAX, 2));
			_exit(0);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_str_distance),
		cmocka_unit_test(errors_wrap_and_keep_their_kind),
		cmocka_unit_test(numbers_compare_without_overflow),
		cmocka_unit_test(shares_of_nothing_are_nothing),
		cmocka_unit_test(estimates_have_two_digits),
		cmocka_unit_test(buf_stops_at_its_limit),
		cmocka_unit_test(what_a_buf_writes_a_cursor_reads),
		cmocka_unit_test(maps_hold_many_keys),
		cmocka_unit_test(strings_are_interned_once),
		cmocka_unit_test(arena_survives_large_and_small),
		cmocka_unit_test(numbers_parse_strictly),
		cmocka_unit_test(text_from_targets_is_made_visible),
		cmocka_unit_test(messages_become_one_line),
		cmocka_unit_test(utf16_round_trips),
		cmocka_unit_test(cursor_goes_bad_once_and_stays),
		cmocka_unit_test(numbers_keep_the_limit),
		cmocka_unit_test(ranks_know_their_numbers),
		cmocka_unit_test(utf16_ends_at_its_zero),
		cmocka_unit_test(numbers_read_well),
		cmocka_unit_test(json_is_escaped_and_capped),
		cmocka_unit_test(json_can_be_printed),
		cmocka_unit_test(vectors_grow),
		cmocka_unit_test(used_up_memory_ends_the_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
