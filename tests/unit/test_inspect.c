/* Words into commands, answers into text and JSON. What commands find is tested against real processes. */

#include "unit.h"

#include "base/str.h"
#include "inspect/internal.h"

static void test_split(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		size_t n;
		const char *words[4];
	} cases[] = {
		{ "", 0, { 0 } },
		{ " \t ", 0, { 0 } },
		{ "heap", 1, { "heap" } },
		{ "  heap   type\tShop.Order ", 3, { "heap", "type", "Shop.Order" } },
		{ "find-string 'a b'", 2, { "find-string", "a b" } },
		{ "find-string \"it's\"", 2, { "find-string", "it's" } },
		{ "x ''", 2, { "x", "" } },
		{ "a'b c'd e", 2, { "ab cd", "e" } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct inspect_words w;
		assert_ok(inspect_split(cases[i].line, &w));
		assert_int_equal(w.n, cases[i].n);
		for (size_t k = 0; k < w.n; k++)
			assert_string_equal(w.v[k], cases[i].words[k]);
	}
	struct inspect_words w;
	assert_err(inspect_split("find 'a", &w), ERR_USAGE);
	assert_err(inspect_split("'", &w), ERR_USAGE);
	assert_err(inspect_split("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", &w), ERR_USAGE);
	CLEANUP(buf_free) struct buf long_line = { 0 };
	buf_repeat(&long_line, "x", INSPECT_MAX_LINE);
	assert_err(inspect_split(buf_cstr(&long_line), &w), ERR_USAGE);
}

static void test_addresses(void **state)
{
	(void)state;
	uint64_t a = 0;
	assert_ok(inspect_address("7f00", &a));
	assert_int_equal(a, 0x7f00);
	assert_ok(inspect_address("0xFFFFffff00000001", &a));
	assert_true(a == 0xffffffff00000001);
	static const char *const bad[] = { "", "0x", "g", "12 3", "-1", "0x00000000000000001", "7f00h", "\x1b[0m" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_err(inspect_address(bad[i], &a), ERR_USAGE);
}

static void test_names(void **state)
{
	(void)state;
	assert_true(inspect_type_fits("Shop.Bank.Account", "Shop.Bank.Account"));
	assert_true(inspect_type_fits("Shop.Bank.Account", "Account"));
	assert_true(inspect_type_fits("Shop.Bank.Account", "Bank.Account"));
	assert_true(inspect_type_fits("Shop.Bank.Account", "*bank*"));
	assert_false(inspect_type_fits("Shop.Bank.Account", "count"));
	assert_false(inspect_type_fits("Shop.Bank.Account[]", "Account"));
	assert_false(inspect_type_fits("", "Account"));
}

static void test_answers(void **state)
{
	(void)state;
	CLEANUP(answer_free) struct answer a = { 0 };
	CLEANUP(buf_free) struct buf text = { 0 }, json = { 0 }, huge = { 0 };
	buf_repeat(&huge, "z", 5000);
	answer_line(&a, "%d things", 2);
	answer_table(&a, "Things", "n", "name", "at");
	ANSWER_ROW(&a, C_COUNT(1200), C_TEXT("plain"), C_ADDRESS(0x7f0012));
	ANSWER_ROW(&a, C_COUNT(7), C_TEXT("\x1b[31mred\n"), C_NONE);
	answer_table(&a, "Frames", "method", "line");
	answer_plain(&a);
	ANSWER_ROW(&a, C_TEXT("Shop.A"), C_TEXT("A.cs:1"));
	ANSWER_ROW(&a, C_TEXT(buf_cstr(&huge)), C_TEXT(NULL));
	answer_write_text(&a, &text);
	assert_non_null(strstr(buf_cstr(&text), "2 things\n\nThings\n"));
	assert_non_null(strstr(buf_cstr(&text), "1,200  plain"));
	assert_non_null(strstr(buf_cstr(&text), "0000007f0012\n"));
	assert_null(strchr(buf_cstr(&text), '\x1b'));
	assert_non_null(strstr(buf_cstr(&text), "zzz…"));
	assert_true(text.len < 1000);
	assert_null(strstr(buf_cstr(&text), "method"));
	struct jsonw w = jsonw_make(&json, false);
	jsonw_object(&w, NULL);
	answer_write_json(&a, &w);
	jsonw_object_end(&w);
	json_t *back = NULL;
	assert_ok(json_parse(json.data, json.len, 1 << 20, &back));
	const json_t *tables = json_object_get(back, "tables");
	assert_int_equal(json_array_size(tables), 2);
	const json_t *row = json_array_get(json_object_get(json_array_get(tables, 0), "rows"), 1);
	assert_int_equal(json_get_int(row, "n", 0), 7);
	assert_string_equal(json_get_str(row, "name", ""), "\x1b[31mred\n");
	assert_true(json_is_null(json_object_get(row, "at")));
	json_decref(back);
}

/* ldarg.0; ldc.i4.s -3; switch (2); br.s back; callvirt; constrained. ; ldc.r8 0.5; ret */
static const uint8_t il[] = { 0x02, 0x1f, 0xfd, 0x45, 2,    0,	  0,	0, 1, 0,    0,	  0,	0xf0,
			      0xff, 0xff, 0xff, 0x2b, 0xee, 0x6f, 0x12, 0, 0, 0x06, 0xfe, 0x16, 7,
			      0,    0,	  1,	0x23, 0,    0,	  0,	0, 0, 0,    0xe0, 0x3f, 0x2a };

static void test_il(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf all = { 0 };
	struct cursor c = cursor_make(il, sizeof(il));
	struct il_op op;
	CLEANUP(buf_free) struct buf operand = { 0 };
	while (il_next(&c, sizeof(il), &op, &operand)) {
		buf_printf(&all, "%x %s %s", op.offset, op.name, buf_cstr(&operand));
		buf_printf(&all, op.token ? "%08x; " : "; ", op.token);
		buf_clear(&operand);
	}
	assert_int_equal(op.offset, sizeof(il));
	assert_string_equal(buf_cstr(&all), "0 ldarg.0 ; 1 ldc.i4.s -3; 3 switch IL_0011 IL_0000; 10 br.s IL_0000; "
					    "12 callvirt 06000012; 17 constrained. 01000007; 1d ldc.r8 0.5; 26 ret ; ");
}

/* Cut or changed anywhere it ends, within its bytes. */
static void test_il_hostile(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(il) * 256; i++) {
		CLEANUP(mem_freep) uint8_t *bytes = mem_dup(il, sizeof(il));
		CLEANUP(buf_free) struct buf operand = { 0 };
		struct il_op op;
		size_t size = i % 256 ? sizeof(il) : i / 256, steps = 0;
		bytes[i / 256] ^= (uint8_t)(i % 256);
		struct cursor c = cursor_make(bytes, size);
		while (il_next(&c, size, &op, &operand))
			assert_true(++steps <= size);
		assert_true(op.offset <= size);
	}
}

static void test_table_is_sound(void **state)
{
	(void)state;
	size_t n;
	const struct inspect_command *all = inspect_commands(&n);
	for (size_t i = 0; i < n; i++) {
		assert_true(all[i].min_words <= all[i].max_words && all[i].run && *all[i].summary);
		assert_true(strlen(all[i].name) + strlen(all[i].words) + strlen(all[i].summary) < 115);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(all[i].name, all[k].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_il),
		cmocka_unit_test(test_il_hostile),
		cmocka_unit_test(test_table_is_sound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
