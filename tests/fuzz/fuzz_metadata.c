/* Any bytes as the description of an event and the rest as its payload: byte 0 the version (even = 4, odd = 6), then
 * u16 length of the description, description, payload. */

#include "build_nettrace.h"
#include "base/cursor.h"
#include "nettrace/fields.h"
#include "nettrace/nettrace.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(struct nettrace_walk w, unsigned depth, unsigned *steps)
{
	struct nettrace_value v;
	struct buf text = { 0 };
	double number;
	while (nettrace_walk_next(&w, &v)) {
		if (++*steps > 1000000)
			abort();
		nettrace_value_text(&v, &text);
		nettrace_value_number(&v, &number);
		if (depth < 40)
			walk(nettrace_walk_into(&w, &v), depth + 1, steps);
	}
	buf_free(&text);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	(void)user;
	unsigned steps = 0;
	struct nettrace_value value;
	struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, false);
	walk(nettrace_walk_make(event), 0, &steps);
	nettrace_find(event, "Payload.Name", &value);
	nettrace_event_json(event, &w, NULL, 2000);
	if (out.len > 8000)
		abort();
	buf_free(&out);
}

/* The event below takes the id the description gave itself. */
static void on_meta(void *user, struct nettrace_meta *meta)
{
	*(uint32_t *)user = meta->id;
}

/* What was written since the last call. */
static void feed(struct nettrace_reader *r, const struct build_nettrace *b, size_t *fed)
{
	err_free(nettrace_reader_feed(r, b->out.data + *fed, b->out.len - *fed));
	*fed = b->out.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_make(data, size);
	int format = cursor_u8(&c) & 1 ? 6 : 4;
	size_t len = MIN((size_t)cursor_u16(&c), cursor_left(&c));
	const uint8_t *row = cursor_take(&c, len);
	if (!row)
		return 0;
	uint32_t id = 0;
	size_t fed = 0;
	struct build_nettrace b = { 0 };
	struct buf body = { 0 };
	struct nettrace_reader *r =
		nettrace_reader_new(&(struct nettrace_options){ .max_meta_bytes = 1 << 20 },
				    &(struct nettrace_callbacks){ .meta = on_meta, .event = on_event }, &id);
	build_nettrace_begin(&b, format);
	if (format == 6) {
		build_u16(&body, 0);
		build_u16(&body, (uint16_t)len);
		buf_add(&body, row, len);
		build_nettrace_block(&b, 3, body.data, body.len);
	} else {
		b.plain = true;
		build_nettrace_event(&b, &(struct build_event){ .payload = row, .payload_size = len });
		build_nettrace_object(&b, "MetadataBlock", b.block.data, b.block.len);
		b.any = false;
		build_nettrace_flush(&b);
		b.plain = false;
	}
	feed(r, &b, &fed);
	build_nettrace_event(
		&b,
		&(struct build_event){ .meta_id = id, .sequence = 1, .payload = c.p, .payload_size = cursor_left(&c) });
	build_nettrace_end(&b);
	feed(r, &b, &fed);
	err_free(nettrace_reader_finish(r));
	nettrace_reader_free(r);
	build_nettrace_free(&b);
	buf_free(&body);
	return 0;
}
