/* Streams that lie: every one ends in an error that says where and what, and in little memory. */

#include "unit.h"
#include "build_nettrace.h"
#include "nettrace_seen.h"

static const struct nettrace_field some_fields[] = {
	{ .name = "Id", .type = NETTRACE_I32 },
	{ .name = "Paid", .type = NETTRACE_BOOL32 },
};

static void fails_with(struct build_nettrace *b, const struct nettrace_options *options, enum err_kind kind,
		       const char *part)
{
	struct seen s = { 0 };
	seen_read(&s, b->out.data, b->out.len, b->out.len ? b->out.len : 1, options, NULL);
	assert_non_null(s.err);
	assert_int_equal(err_kind(s.err), kind);
	if (!strstr(err_text(s.err), part))
		fail_msg("'%s' does not say '%s'", err_text(s.err), part);
	assert_true(s.heap_peak < s.heap_start + (2 << 20));
	thread_snapshot_free(&s);
	build_nettrace_free(b);
}

static void text(struct build_nettrace *b, const void *data, size_t len)
{
	*b = (struct build_nettrace){ 0 };
	buf_add(&b->out, data, len);
}

static void wrong_beginnings(void **state)
{
	(void)state;
	struct build_nettrace b;
	text(&b, "", 0);
	fails_with(&b, NULL, ERR_BAD_DATA, "found nothing");
	text(&b, "PK\3\4", 4);
	fails_with(&b, NULL, ERR_BAD_DATA, "offset 0: expected 'Nettrace'");
	text(&b, "Nettrace\0\0\0\x14", 12);
	fails_with(&b, NULL, ERR_BAD_DATA, "big-endian");
	text(&b, "\x14\0\0\0!FastSerialization.1", 24);
	fails_with(&b, NULL, ERR_UNSUPPORTED, "netperf");
	text(&b, "Nettrace\0\0\0\0\7\0\0\0\0\0\0\0", 20);
	fails_with(&b, NULL, ERR_UNSUPPORTED, "version 7");
	text(&b, "Nettrace\0\0\0\0\5\0\0\0\0\0\0\0", 20);
	fails_with(&b, NULL, ERR_BAD_DATA, "expected version 6, found 5");
	text(&b, "Nettrace\x14\0\0\0!FastSerialization.2", 32);
	fails_with(&b, NULL, ERR_BAD_DATA, "offset 12");

	text(&b, "", 0);
	build_nettrace_begin(&b, 7); /* the writer takes it for 6 */
	b.out.data[12] = 7;
	fails_with(&b, NULL, ERR_UNSUPPORTED, "version 7");
	b = (struct build_nettrace){ .pointer_size = 3 };
	build_nettrace_begin(&b, 4);
	fails_with(&b, NULL, ERR_BAD_DATA, "4 or 8 bytes, found 3");
	b = (struct build_nettrace){ .pointer_size = 8u << 24 };
	build_nettrace_begin(&b, 6);
	fails_with(&b, NULL, ERR_BAD_DATA, "4 or 8 bytes");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	b.out.data[32 + 3] = b.out.data[32 + 7] = 9;
	fails_with(&b, NULL, ERR_UNSUPPORTED, "version 9");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	b.out.data[32 + 21 + 2] = 13;
	fails_with(&b, NULL, ERR_BAD_DATA, "date");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	memset(b.out.data + 32 + 21 + 24, 0, 8);
	fails_with(&b, NULL, ERR_BAD_DATA, "ticks a second, found 0");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	b.out.len = 32;
	build_nettrace_object(&b, "EventBlock", "", 0);
	fails_with(&b, NULL, ERR_BAD_DATA, "'Trace' first, found 'EventBlock'");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 6);
	struct build_nettrace again = { 0 };
	build_nettrace_begin(&again, 6);
	buf_add(&b.out, again.out.data + 20, again.out.len - 20);
	build_nettrace_free(&again);
	fails_with(&b, NULL, ERR_BAD_DATA, "a second");
}

static void block_with(struct build_nettrace *b, int format, const char *name, unsigned kind, const char *body,
		       size_t len)
{
	*b = (struct build_nettrace){ 0 };
	build_nettrace_begin(b, format);
	if (format >= 6)
		build_nettrace_block(b, kind, body, len);
	else
		build_nettrace_object(b, name, body, len);
}

static void hostile_lengths(void **state)
{
	(void)state;
	struct build_nettrace b;
	/* 64 MB claimed, ten bytes there. */
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	size_t at = b.out.len;
	build_nettrace_object(&b, "EventBlock", "0123456789", 10);
	memcpy(b.out.data + at + 15 + 10 + 1, &(uint32_t){ 64 << 20 }, 4);
	fails_with(&b, NULL, ERR_BAD_DATA, "the stream was cut");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_object(&b, "EventBlock", "0123456789", 10);
	memcpy(b.out.data + at + 15 + 10 + 1, &(uint32_t){ (64 << 20) + 1 }, 4);
	fails_with(&b, NULL, ERR_BAD_DATA, "at most 67108864 bytes, found 67108865");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_object(&b, "0123456789012345678901234567890123456789012345678901234567890123456789", "", 0);
	fails_with(&b, NULL, ERR_BAD_DATA, "at most 64 bytes, found 70");
	b = (struct build_nettrace){ 0 };
	build_nettrace_begin(&b, 6);
	buf_add(&b.out, "\xff\xff\xff\x02", 4);
	fails_with(&b, &(struct nettrace_options){ .max_block_bytes = 1000 }, ERR_BAD_DATA, "at most 1000 bytes");

	for (int format = 4; format <= 6; format += 2) {
		block_with(&b, format, "EventBlock", 2, "\x14\0\1\0", 4);
		fails_with(&b, NULL, ERR_BAD_DATA, "event block header");
		/* payload of 2^32-1 */
		block_with(&b, format, "EventBlock", 2, "\x14\0\1\0________________\x80\0\xff\xff\xff\xff\x0f", 27);
		fails_with(&b, NULL, ERR_BAD_DATA, "passes the end of its block");
		/* varint that never ends */
		block_with(&b, format, "EventBlock", 2,
			   "\x14\0\1\0________________\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 32);
		fails_with(&b, NULL, ERR_BAD_DATA, "passes the end of its block");
		/* plain event of 2^32-1 */
		block_with(&b, format, "EventBlock", 2, "\x14\0\0\0________________\xff\xff\xff\xff____", 28);
		fails_with(&b, NULL, ERR_BAD_DATA, "passes the end of its block");
		block_with(&b, format, "StackBlock", 5, "\1\0\0\0\xff\xff\xff\xff", 8);
		fails_with(&b, NULL, ERR_BAD_DATA, "4294967295 stacks");
		block_with(&b, format, "StackBlock", 5, "\1\0\0\0\1\0\0\0\xff\xff\xff\x7f", 12);
		fails_with(&b, NULL, ERR_BAD_DATA, "expected stack 1, found one of 2147483647 bytes");
		block_with(&b, format, "SPBlock", 4, "_________\xff\xff\xff\xff", 4);
		fails_with(&b, NULL, ERR_BAD_DATA, "expected a sequence point");
		block_with(&b, format, "SPBlock", 4, "________\xff\xff\xff\xff\xff\xff\xff\xff", 16);
		fails_with(&b, NULL, ERR_BAD_DATA, "expected a thread of a sequence point");
	}
	block_with(&b, 4, "MetadataBlock", 3, "\x14\0\1\0________________\x80\0\4\1\0\0\0", 27);
	fails_with(&b, NULL, ERR_BAD_DATA, "description of an event");
	block_with(&b, 6, "", 3, "\0\0\xff\xff\1", 5);
	fails_with(&b, NULL, ERR_BAD_DATA, "metadata row");
	block_with(&b, 6, "", 6, "\xff\xff\1", 3);
	fails_with(&b, NULL, ERR_BAD_DATA, "expected a thread");
	block_with(&b, 6, "", 6, "\3\0\1\1\x7f", 5);
	fails_with(&b, NULL, ERR_BAD_DATA, "ends early");
	block_with(&b, 6, "", 7, "\xff", 1);
	fails_with(&b, NULL, ERR_BAD_DATA, "thread index");
	block_with(&b, 6, "", 8, "\1\0\0\0\xff\xff\xff\xff", 8);
	fails_with(&b, NULL, ERR_BAD_DATA, "label list 1 of 4294967295");
	block_with(&b, 6, "", 8, "\1\0\0\0\1\0\0\0\x7f", 9);
	fails_with(&b, NULL, ERR_BAD_DATA, "label list 1 of 1");
}

static void tables_are_bounded(void **state)
{
	(void)state;
	struct build_nettrace b = { 0 };
	uint64_t frames[100] = { 0 };
	build_nettrace_begin(&b, 4);
	for (uint32_t i = 1; i < 200; i++)
		build_nettrace_stack(&b, i, frames, 100);
	fails_with(&b, &(struct nettrace_options){ .max_reorder_bytes = 50000 }, ERR_BAD_DATA,
		   "expected a sequence point");

	build_nettrace_begin(&b, 5);
	struct nettrace_meta meta = { .provider = "Shop", .fields = some_fields, .n_fields = 2 };
	for (meta.id = 1; meta.id < 200; meta.id++)
		build_nettrace_meta(&b, &meta);
	fails_with(&b, &(struct nettrace_options){ .max_meta_bytes = 20000 }, ERR_BAD_DATA,
		   "at most 20000 bytes of metadata");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_beginnings),
		cmocka_unit_test(hostile_lengths),
		cmocka_unit_test(tables_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
