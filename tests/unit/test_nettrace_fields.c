#include "unit.h"
#include "base/json.h"
#include "base/vec.h"
#include "build_nettrace.h"
#include "nettrace/fields.h"

/* An event as a stream would bring it, and what is asked of it while it lives. */
struct asked {
	void (*ask)(const struct nettrace_event *event, void *arg);
	void *arg;
	unsigned n;
};

static void on_event(void *user, const struct nettrace_event *event)
{
	struct asked *a = user;
	a->n++;
	a->ask(event, a->arg);
}

static void with_event(int format, bool v2, const struct nettrace_field *fields, size_t n_fields,
		       const struct buf *payload, void (*ask)(const struct nettrace_event *, void *), void *arg)
{
	struct build_nettrace b = { .fields_v2 = v2 };
	struct asked asked = { ask, arg, 0 };
	const struct nettrace_meta meta = {
		.id = 1, .provider = "Shop", .event_id = 1, .name = "E", .fields = fields, .n_fields = n_fields
	};
	const struct build_event event = {
		.meta_id = 1, .sequence = 1, .capture_thread = 1, .payload = payload->data, .payload_size = payload->len
	};
	build_nettrace_begin(&b, format);
	build_nettrace_meta(&b, &meta);
	build_nettrace_event(&b, &event);
	build_nettrace_end(&b);
	struct nettrace_reader *r =
		nettrace_reader_new(NULL, &(struct nettrace_callbacks){ .event = on_event }, &asked);
	assert_ok(nettrace_reader_feed(r, b.out.data, b.out.len));
	assert_ok(nettrace_reader_finish(r));
	assert_int_equal(asked.n, 1);
	nettrace_reader_free(r);
	build_nettrace_free(&b);
}

struct rendering {
	struct buf out;
	size_t max;
	bool complete;
};

static void render(const struct nettrace_event *event, void *arg)
{
	struct rendering *r = arg;
	struct jsonw w = jsonw_make(&r->out, false);
	r->complete = nettrace_event_json(event, &w, NULL, r->max);
}

static void expect_json(int format, bool v2, const struct nettrace_field *fields, size_t n, const struct buf *payload,
			bool complete, const char *want)
{
	struct rendering r = { 0 };
	with_event(format, v2, fields, n, payload, render, &r);
	assert_string_equal(buf_cstr(&r.out), want);
	assert_int_equal(r.complete, complete);
	buf_free(&r.out);
}

static const struct nettrace_field counter[] = {
	{ .name = "Name", .type = NETTRACE_UTF16Z },
	{ .name = "Mean", .type = NETTRACE_F64 },
	{ .name = "Count", .type = NETTRACE_I32 },
};
static const struct nettrace_field counters[] = {
	{ .name = "Payload", .type = NETTRACE_OBJECT, .children = counter, .n_children = 3 },
	{ .name = "After", .type = NETTRACE_U8 },
};

static void put_counter(struct buf *p)
{
	build_utf16z(p, "cpu-\xc3\xbcsage");
	build_f64(p, 12.5);
	build_u32(p, (uint32_t)-3);
	build_u8(p, 200);
}

static void find_by_name(const struct nettrace_event *event, void *arg)
{
	struct nettrace_value v;
	struct buf text = { 0 };
	double number = 0;
	(void)arg;
	assert_true(nettrace_find(event, "Payload.Name", &v));
	assert_int_equal(v.kind, NETTRACE_IS_UTF16);
	assert_false(nettrace_value_number(&v, &number));
	assert_true(nettrace_value_text(&v, &text));
	assert_string_equal(buf_cstr(&text), "cpu-\xc3\xbcsage");
	assert_true(nettrace_find(event, "Payload.Mean", &v));
	assert_true(nettrace_value_number(&v, &number));
	assert_true(number == 12.5);
	assert_false(nettrace_value_text(&v, &text));
	assert_true(nettrace_find(event, "Payload.Count", &v));
	assert_int_equal(v.i, -3);
	assert_true(nettrace_find(event, "Payload", &v));
	assert_int_equal(v.kind, NETTRACE_IS_OBJECT);
	assert_true(nettrace_find(event, "After", &v));
	assert_int_equal(v.u, 200);
	assert_false(nettrace_find(event, "Payload.Nam", &v));
	assert_false(nettrace_find(event, "Payload.Name.More", &v));
	assert_false(nettrace_find(event, "", &v));
	assert_false(nettrace_find(event, "Absent", &v));
	buf_free(&text);
}

static void nested_objects(void **state)
{
	(void)state;
	static const struct {
		int format;
		bool v2;
	} ways[] = { { 4, false }, { 5, true }, { 6, false } };
	struct buf p = { 0 };
	put_counter(&p);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		with_event(ways[i].format, ways[i].v2, counters, 2, &p, find_by_name, NULL);
		expect_json(ways[i].format, ways[i].v2, counters, 2, &p, true,
			    "{\"Payload\":{\"Name\":\"cpu-\xc3\xbcsage\",\"Mean\":12.5,\"Count\":-3},\"After\":200}");
	}
	buf_free(&p);
}

/* As the runtime describes EventCounters: everything inside one object without a name. */
static void nameless_objects(void **state)
{
	(void)state;
	static const struct nettrace_field outer = {
		.name = "", .type = NETTRACE_OBJECT, .children = counters, .n_children = 2
	};
	struct buf p = { 0 };
	put_counter(&p);
	with_event(4, false, &outer, 1, &p, find_by_name, NULL);
	expect_json(4, false, &outer, 1, &p, true,
		    "{\"Payload\":{\"Name\":\"cpu-\xc3\xbcsage\",\"Mean\":12.5,\"Count\":-3},\"After\":200}");
	buf_free(&p);
}

static void every_scalar(void **state)
{
	(void)state;
	static const struct nettrace_field fields[] = {
		{ .name = "b", .type = NETTRACE_BOOL32 }, { .name = "c", .type = NETTRACE_CHAR16 },
		{ .name = "i8", .type = NETTRACE_I8 },	  { .name = "u8", .type = NETTRACE_U8 },
		{ .name = "i16", .type = NETTRACE_I16 },  { .name = "u16", .type = NETTRACE_U16 },
		{ .name = "i32", .type = NETTRACE_I32 },  { .name = "u32", .type = NETTRACE_U32 },
		{ .name = "i64", .type = NETTRACE_I64 },  { .name = "u64", .type = NETTRACE_U64 },
		{ .name = "f32", .type = NETTRACE_F32 },  { .name = "d", .type = NETTRACE_DECIMAL },
		{ .name = "g", .type = NETTRACE_GUID },	  { .name = "t", .type = NETTRACE_DATETIME },
	};
	struct buf p = { 0 };
	build_u32(&p, 1);
	build_u16(&p, 0xe9);
	build_u8(&p, 0xff);
	build_u8(&p, 0xff);
	build_u16(&p, 0xfffe);
	build_u16(&p, 0xfffe);
	build_u32(&p, 0xfffffffd);
	build_u32(&p, 0xfffffffd);
	build_u64(&p, (uint64_t)-4);
	build_u64(&p, (uint64_t)-4);
	build_u32(&p, 0x3fc00000); /* 1.5 */
	build_u64(&p, 1);
	build_u64(&p, 2);
	buf_add(&p, "\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16);
	build_u64(&p, 116444736000000000 + 10000000ULL * 86400);
	static const char want[] = "{\"b\":true,\"c\":\"\xc3\xa9\",\"i8\":-1,\"u8\":255,\"i16\":-2,\"u16\":65534,"
				   "\"i32\":-3,\"u32\":4294967293,\"i64\":-4,\"u64\":18446744073709551612,\"f32\":1.5,"
				   "\"d\":\"01000000000000000200000000000000\","
				   "\"g\":\"00112233-4455-6677-8899-aabbccddeeff\",\"t\":\"1970-01-02T00:00:00.000Z\"}";
	expect_json(4, false, fields, ARRAY_SIZE(fields), &p, true, want);
	expect_json(5, true, fields, ARRAY_SIZE(fields), &p, true, want);

	/* A time that no clock shows. */
	struct buf never = { 0 };
	build_u64(&never, (uint64_t)INT64_MIN);
	expect_json(4, false, &fields[13], 1, &never, true, "{\"t\":null}");
	buf_free(&never);

	/* Every shorter payload gives a beginning and says that it is one. */
	for (size_t len = p.len; len--;) {
		struct rendering r = { 0 };
		struct buf cut = { .data = p.data, .len = len };
		with_event(4, false, fields, ARRAY_SIZE(fields), &cut, render, &r);
		assert_false(r.complete);
		assert_true(r.out.len >= 2 && r.out.len < sizeof(want) - 1);
		assert_memory_equal(buf_cstr(&r.out), want, r.out.len - 1);
		buf_free(&r.out);
	}
	buf_free(&p);
}

static void version_6_types(void **state)
{
	(void)state;
	static const struct nettrace_field fields[] = {
		{ .name = "vi", .type = NETTRACE_VARINT },
		{ .name = "vu", .type = NETTRACE_VARUINT },
		{ .name = "b", .type = NETTRACE_BOOL8 },
		{ .name = "s", .type = NETTRACE_UTF8 },
		{ .name = "fixed", .type = NETTRACE_FIXED_ARRAY, .element = NETTRACE_U16, .fixed_count = 2 },
		{ .name = "t", .type = NETTRACE_DATETIME },
		{ .name = "rel", .type = NETTRACE_REL_LOC, .element = NETTRACE_UTF8 },
		{ .name = "data", .type = NETTRACE_DATA_LOC, .element = NETTRACE_CHAR16 },
		{ .name = "numbers", .type = NETTRACE_DATA_LOC, .element = NETTRACE_I16 },
		{ .name = "chars", .type = NETTRACE_ARRAY, .element = NETTRACE_UTF8 },
		{ .name = "tag", .type = NETTRACE_FIXED_ARRAY, .element = NETTRACE_UTF8, .fixed_count = 3 },
	};
	static const uint16_t when[] = { 2026, 3, 4, 5, 5, 1, 1, 234 };
	struct buf p = { 0 };
	build_var(&p, 5); /* zigzag -3 */
	build_var(&p, UINT64_MAX);
	build_u8(&p, 7);
	build_u16(&p, 2);
	buf_str(&p, "\xc3\xa9");
	build_u16(&p, 10);
	build_u16(&p, 20);
	buf_add(&p, when, sizeof(when));
	/* 4 + 4 + 4 + 5 + 3 bytes follow the rel loc's own four before "tail" */
	build_u32(&p, 4u << 16 | 16);
	size_t tail = p.len + 16;
	build_u32(&p, (uint32_t)(4u << 16 | (tail + 4)));
	build_u32(&p, (uint32_t)(4u << 16 | (tail + 4)));
	build_u16(&p, 3);
	buf_str(&p, "abc");
	buf_str(&p, "xyz");
	assert_int_equal(p.len, tail);
	buf_str(&p, "tail");
	build_u16(&p, 'h');
	build_u16(&p, 'i');
	expect_json(6, false, fields, ARRAY_SIZE(fields), &p, true,
		    "{\"vi\":-3,\"vu\":18446744073709551615,\"b\":true,\"s\":\"\xc3\xa9\",\"fixed\":[10,20],"
		    "\"t\":\"2026-03-05T05:01:01.234Z\",\"rel\":\"tail\",\"data\":\"hi\",\"numbers\":[104,105],"
		    "\"chars\":\"abc\",\"tag\":\"xyz\"}");
	buf_free(&p);
	/* A loc that points outside. */
	build_u32(&p, 4u << 16 | 1);
	buf_str(&p, "four");
	expect_json(6, false, &fields[6], 1, &p, false, "{}");
	expect_json(6, false, &fields[7], 1, &p, true, "{\"data\":\"\xd0\x80\xe6\x98\x80\"}"); /* 00 04 00 66 */
	buf_free(&p);
}

static void arrays(void **state)
{
	(void)state;
	static const struct nettrace_field pair[] = { { .name = "Key", .type = NETTRACE_UTF16Z },
						      { .name = "Value", .type = NETTRACE_U16 } };
	static const struct nettrace_field row = { .name = "", .type = NETTRACE_ARRAY, .element = NETTRACE_I8 };
	static const struct nettrace_field fields[] = {
		{ .name = "pairs",
		  .type = NETTRACE_ARRAY,
		  .element = NETTRACE_OBJECT,
		  .children = pair,
		  .n_children = 2 },
		{ .name = "rows",
		  .type = NETTRACE_ARRAY,
		  .element = NETTRACE_ARRAY,
		  .children = &row,
		  .n_children = 1 },
		{ .name = "bytes", .type = NETTRACE_ARRAY, .element = NETTRACE_U8 },
		{ .name = "text", .type = NETTRACE_ARRAY, .element = NETTRACE_CHAR16 },
		{ .name = "names", .type = NETTRACE_ARRAY, .element = NETTRACE_UTF16Z },
		{ .name = "none", .type = NETTRACE_ARRAY, .element = NETTRACE_F64 },
	};
	struct buf p = { 0 };
	build_u16(&p, 2);
	build_utf16z(&p, "a");
	build_u16(&p, 1);
	build_utf16z(&p, "");
	build_u16(&p, 2);
	build_u16(&p, 3);
	build_u16(&p, 1);
	build_u8(&p, 0xff);
	build_u16(&p, 0);
	build_u16(&p, 2);
	build_u8(&p, 5);
	build_u8(&p, 6);
	build_u16(&p, 3);
	buf_add(&p, "\1\2\xab", 3);
	build_u16(&p, 2);
	build_u16(&p, 'o');
	build_u16(&p, 'k');
	build_u16(&p, 2);
	build_utf16z(&p, "x");
	build_utf16z(&p, "y");
	build_u16(&p, 0);
	static const char want[] =
		"{\"pairs\":[{\"Key\":\"a\",\"Value\":1},{\"Key\":\"\",\"Value\":2}],"
		"\"rows\":[[-1],[],[5,6]],\"bytes\":\"0102ab\",\"text\":\"ok\",\"names\":[\"x\",\"y\"],"
		"\"none\":[]}";
	expect_json(5, true, fields, ARRAY_SIZE(fields), &p, true, want);
	expect_json(6, false, fields, ARRAY_SIZE(fields), &p, true, want);
	for (size_t len = p.len; len--;) {
		struct rendering r = { 0 };
		struct buf cut = { .data = p.data, .len = len };
		with_event(5, true, fields, ARRAY_SIZE(fields), &cut, render, &r);
		assert_false(r.complete);
		CLEANUP(err_freep) struct err *err = NULL;
		json_t *parsed = NULL;
		err = json_parse(buf_cstr(&r.out), r.out.len, 1 << 20, &parsed);
		assert_null(err);
		json_decref(parsed);
		buf_free(&r.out);
	}
	buf_free(&p);
}

/* Elements of no size must not make two bytes endless. */
static void elements_of_no_size(void **state)
{
	(void)state;
	struct nettrace_field levels[10] = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		levels[i] = (struct nettrace_field){ .name = "a",
						     .type = NETTRACE_FIXED_ARRAY,
						     .element = i ? NETTRACE_FIXED_ARRAY : NETTRACE_OBJECT,
						     .fixed_count = 65535,
						     .children = i ? &levels[i - 1] : NULL,
						     .n_children = i ? 1 : 0 };
	struct buf p = { 0 };
	buf_str(&p, "xx");
	expect_json(6, false, &levels[9], 1, &p, false, "{}");
	buf_free(&p);
}

/* Deeper than anybody writes: the event is there, its fields are not described. */
static void too_deep(void **state)
{
	(void)state;
	struct nettrace_field levels[40] = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		levels[i] = (struct nettrace_field){ .name = "a",
						     .type = i ? NETTRACE_OBJECT : NETTRACE_U8,
						     .children = i ? &levels[i - 1] : NULL,
						     .n_children = i ? 1 : 0 };
	struct buf p = { 0 };
	build_u8(&p, 9);
	for (int format = 4; format <= 6; format++) {
		expect_json(format, format == 5, &levels[39], 1, &p, true, "{\"$bytes\":\"09\"}");
		expect_json(format, format == 5, &levels[3], 1, &p, true, "{\"a\":{\"a\":{\"a\":{\"a\":9}}}}");
	}
	buf_free(&p);
}

static void json_is_capped(void **state)
{
	(void)state;
	static const struct nettrace_field fields[] = { { .name = "s", .type = NETTRACE_UTF16Z },
							{ .name = "n", .type = NETTRACE_I32 } };
	struct buf p = { 0 };
	for (int i = 0; i < 5000; i++)
		build_u16(&p, i % 3 ? '<' : 0x20ac);
	build_u16(&p, 0);
	build_u32(&p, 1);
	for (size_t max = 1; max < 3000; max += 37) {
		struct rendering r = { .max = max };
		with_event(4, false, fields, 2, &p, render, &r);
		assert_false(r.complete);
		assert_true(r.out.len <= max + 50);
		json_t *parsed = NULL;
		assert_ok(json_parse(buf_cstr(&r.out), r.out.len, 1 << 20, &parsed));
		json_decref(parsed);
		buf_free(&r.out);
	}
	buf_free(&p);
	/* No description at all. */
	for (int i = 0; i < 100; i++)
		build_u8(&p, 0xab);
	struct rendering r = { .max = 50 };
	with_event(4, false, NULL, 0, &p, render, &r);
	assert_false(r.complete);
	assert_true(r.out.len < 80);
	buf_free(&r.out);
	buf_free(&p);
	expect_json(4, false, NULL, 0, &p, true, "{}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested_objects), cmocka_unit_test(nameless_objects),
		cmocka_unit_test(every_scalar),	  cmocka_unit_test(version_6_types),
		cmocka_unit_test(arrays),	  cmocka_unit_test(elements_of_no_size),
		cmocka_unit_test(too_deep),	  cmocka_unit_test(json_is_capped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
