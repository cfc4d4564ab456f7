/* corpus_nettrace FOLDER: writes the beginnings of the corpora of fuzz_nettrace and fuzz_metadata. Run by hand when
 * the format learns something new; real recordings may be added beside them. */

#include "base/fd.h"
#include "build_nettrace.h"
#include <stdio.h>

static const struct nettrace_field counter[] = {
	{ .name = "Name", .type = NETTRACE_UTF16Z },
	{ .name = "Mean", .type = NETTRACE_F64 },
};
static const struct nettrace_field row = { .name = "", .type = NETTRACE_ARRAY, .element = NETTRACE_U8 };
static const struct nettrace_field fields[] = {
	{ .name = "Id", .type = NETTRACE_I32 },
	{ .name = "Payload", .type = NETTRACE_OBJECT, .children = counter, .n_children = 2 },
	{ .name = "List", .type = NETTRACE_ARRAY, .element = NETTRACE_OBJECT, .children = counter, .n_children = 2 },
	{ .name = "Rows", .type = NETTRACE_ARRAY, .element = NETTRACE_ARRAY, .children = &row, .n_children = 1 },
	{ .name = "Fixed", .type = NETTRACE_FIXED_ARRAY, .element = NETTRACE_VARINT, .fixed_count = 2 },
	{ .name = "Loc", .type = NETTRACE_REL_LOC, .element = NETTRACE_UTF8 },
	{ .name = "Data", .type = NETTRACE_DATA_LOC, .element = NETTRACE_U16 },
};

/* The last three exist in version 6 only, objects and arrays in arrays in V2 and version 6. */
static size_t n_fields(int format, bool v2)
{
	return format >= 6 ? ARRAY_SIZE(fields) : v2 ? 4 : 2;
}

static void put_payload(struct buf *p, int format, bool v2)
{
	build_u32(p, 7);
	build_utf16z(p, "cpu");
	build_f64(p, 1.5);
	if (format < 6 && !v2)
		return;
	build_u16(p, 1);
	build_utf16z(p, "x");
	build_f64(p, 2);
	build_u16(p, 2);
	build_u16(p, 1);
	build_u8(p, 9);
	build_u16(p, 0);
	if (format < 6)
		return;
	build_var(p, 300);
	build_var(p, 1);
	build_u32(p, 2u << 16 | 4);
	build_u32(p, 4u << 16 | 0);
	buf_str(p, "ok");
}

static void put_stream(struct build_nettrace *b, int format, bool plain, bool v2)
{
	static const uint8_t id[16] = { 1, 2, 3 };
	struct buf payload = { 0 };
	*b = (struct build_nettrace){ .plain = plain, .fields_v2 = v2, .pointer_size = plain ? 4 : 8 };
	build_nettrace_begin(b, format);
	if (format >= 6) {
		build_nettrace_thread(b, 1, 11, 1, "main");
		build_nettrace_thread(b, 2, 12, 1, "worker");
		build_nettrace_labels(b, 1, id, id);
	}
	build_nettrace_meta(b, &(struct nettrace_meta){ .id = 1,
							.provider = "Shop",
							.event_id = 2,
							.name = "Sold",
							.opcode = 3,
							.fields = fields,
							.n_fields = n_fields(format, v2) });
	build_nettrace_stack(b, 1, (const uint64_t[]){ 4096, 8192 }, 2);
	put_payload(&payload, format, v2);
	struct build_event e = { .meta_id = 1,
				 .stack_id = 1,
				 .label_id = 1,
				 .activity_id = format < 6 ? id : NULL,
				 .payload = payload.data,
				 .payload_size = payload.len };
	for (e.capture_thread = 1; e.capture_thread <= 2; e.capture_thread++) {
		e.sorted = true;
		for (uint32_t i = 0; i < 6; i++) {
			e.sequence = i < 3 ? i + 1 : i + 2;
			e.time = 10 * e.capture_thread + 15 * i;
			build_nettrace_event(b, &e);
			e.sorted = false;
		}
	}
	build_nettrace_sequence_point(b, 500, 0, &(struct build_sequence){ 1, 9 }, 1);
	if (format >= 6)
		build_nettrace_remove_thread(b, 2, 9);
	e.time = 600;
	e.capture_thread = 1;
	build_nettrace_event(b, &e);
	build_nettrace_end(b);
	buf_free(&payload);
}

static struct err *write_stream(const char *folder, int format, bool plain, bool v2)
{
	struct build_nettrace b;
	put_stream(&b, format, plain, v2);
	CLEANUP(mem_freep)
	char *path = mem_printf("%s/nettrace/v%d%s%s", folder, format, plain ? "-plain" : "", v2 ? "-v2" : "");
	struct err *err = file_write_atomic(path, b.out.data, b.out.len, 0644);
	build_nettrace_free(&b);
	return err;
}

/* The bytes of the description, cut out of a stream that has it. */
static struct err *write_metadata(const char *folder, int format, bool v2)
{
	struct build_nettrace b = { .fields_v2 = v2, .plain = true };
	struct buf out = { 0 };
	build_nettrace_begin(&b, format);
	size_t start = b.out.len;
	build_nettrace_meta(&b, &(struct nettrace_meta){ .id = 1,
							 .provider = "Shop",
							 .event_id = 2,
							 .name = "Sold",
							 .opcode = 3,
							 .fields = fields,
							 .n_fields = n_fields(format, v2) });
	/* Version 6: block head 4, header 2 + 2, row size 2. Before: object head up to padding, block head 20,
	 * event 80. */
	size_t at = format >= 6 ? start + 10 : ((start + 15 + 13 + 1 + 4 + 3) & ~(size_t)3) + 100;
	size_t len = b.out.len - at - (format >= 6 ? 0 : 1);
	build_u8(&out, format >= 6);
	build_u16(&out, (uint16_t)len);
	buf_add(&out, b.out.data + at, len);
	put_payload(&out, format, v2);
	CLEANUP(mem_freep) char *path = mem_printf("%s/metadata/v%d%s", folder, format, v2 ? "-v2" : "");
	struct err *err = file_write_atomic(path, out.data, out.len, 0644);
	buf_free(&out);
	build_nettrace_free(&b);
	return err;
}

static struct err *write_all(const char *folder)
{
	for (int plain = 0; plain < 2; plain++) {
		TRY(write_stream(folder, 4, plain, false));
		TRY(write_stream(folder, 5, plain, true));
		TRY(write_stream(folder, 6, plain, false));
	}
	TRY(write_metadata(folder, 4, false));
	TRY(write_metadata(folder, 5, true));
	return write_metadata(folder, 6, false);
}

int main(int argc, char **argv)
{
	CLEANUP(err_freep)
	struct err *err = argc == 2 ? write_all(argv[1]) : err_new(ERR_USAGE, "usage: corpus_nettrace FOLDER");
	if (err)
		fprintf(stderr, "%s\n", err_text(err));
	return err ? 1 : 0;
}
