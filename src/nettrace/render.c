/* Payloads as JSON; see fields.h. What is written is measured, so that only the next piece must be estimated. */

#include "nettrace/fields.h"
#include "nettrace/internal.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX ((size_t)64 << 10)

struct render {
	struct jsonw *w;
	size_t end; /* of the output */
	bool cut;
	struct buf text;
};

static size_t budget(const struct render *r)
{
	return r->end > r->w->out->len ? r->end - r->w->out->len : 0;
}

static void put_hex(struct render *r, const char *key, const uint8_t *bytes, size_t size)
{
	size_t n = MIN(size, budget(r) / 2);
	buf_clear(&r->text);
	for (size_t i = 0; i < n; i++)
		buf_printf(&r->text, "%02x", bytes[i]);
	if (n < size) {
		buf_str(&r->text, "…");
		r->cut = true;
	}
	jsonw_strn(r->w, key, buf_cstr(&r->text), r->text.len);
}

static void put_guid(struct render *r, const char *key, const uint8_t *g)
{
	char s[40];
	snprintf(s, sizeof(s), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2], g[1],
		 g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
	jsonw_str(r->w, key, s);
}

/* Bytes of JSON that the character at s takes; *ret_len is its length. */
static size_t cost_at(const char *s, size_t len, size_t *ret_len)
{
	uint32_t cp = 0;
	*ret_len = MAX(utf8_decode(s, len, &cp), (size_t)1);
	if (*ret_len > 1 && cp_is_invisible(cp))
		return cp < 0x10000 ? 6 : 12;
	if (*ret_len > 1)
		return *ret_len;
	return (unsigned char)*s < 0x20 || strchr("\"\\<>&", *s) ? 6 : 1;
}

/* How much of the text fits into max bytes of JSON, cut between characters. */
static size_t fitting(const char *s, size_t len, size_t max)
{
	size_t i = 0, n, cost = 0;
	while (i < len) {
		cost += cost_at(s + i, len - i, &n);
		if (cost > max)
			break;
		i += n;
	}
	return i;
}

static void put_text(struct render *r, const char *key, const struct nettrace_value *value)
{
	struct nettrace_value v = *value;
	/* No unit takes less than a byte, so no more than these are needed to see that it does not fit. */
	size_t max = budget(r);
	if (v.kind == NETTRACE_IS_UTF16)
		v.utf16.n = MIN(v.utf16.n, max + 1);
	v.size = MIN(v.size, max + 1);
	buf_clear(&r->text);
	nettrace_value_text(&v, &r->text);
	size_t n = fitting(buf_cstr(&r->text), r->text.len, max);
	if (n < r->text.len) {
		r->text.len = n;
		buf_str(&r->text, "…");
		r->cut = true;
	}
	jsonw_strn(r->w, key, buf_cstr(&r->text), r->text.len);
}

static void put_walk(struct render *r, struct nettrace_walk *walk, unsigned depth);

static void put_value(struct render *r, const struct nettrace_walk *walk, const char *key,
		      const struct nettrace_value *v, unsigned depth)
{
	struct jsonw *w = r->w;
	struct nettrace_walk in;
	switch (v->kind) {
	case NETTRACE_IS_INT:
		return jsonw_i64(w, key, v->i);
	case NETTRACE_IS_UINT:
		return jsonw_u64(w, key, v->u);
	case NETTRACE_IS_DOUBLE:
		return jsonw_num(w, key, v->d);
	case NETTRACE_IS_BOOL:
		return jsonw_bool(w, key, v->u);
	case NETTRACE_IS_TIME:
		return jsonw_str(w, key, v->i ? fmt_time_iso(v->i).s : NULL);
	case NETTRACE_IS_UTF16:
	case NETTRACE_IS_UTF8:
		return put_text(r, key, v);
	case NETTRACE_IS_GUID:
		return put_guid(r, key, v->bytes);
	case NETTRACE_IS_BYTES:
		return put_hex(r, key, v->bytes, v->size);
	case NETTRACE_IS_ARRAY:
		in = nettrace_walk_into(walk, v);
		jsonw_array(w, key);
		put_walk(r, &in, depth + 1);
		jsonw_array_end(w);
		return;
	case NETTRACE_IS_OBJECT:
		in = nettrace_walk_into(walk, v);
		jsonw_object(w, key);
		put_walk(r, &in, depth + 1);
		jsonw_object_end(w);
		return;
	}
}

/* Whether the next field or element, up to its value, certainly fits: its name, and 48 for a guid, any number or the
 * beginning of something longer. */
static bool fits(const struct render *r, const struct nettrace_value *v)
{
	size_t max = budget(r), len = strlen(v->name);
	return max >= 48 && fitting(v->name, len, max - 48) == len;
}

static void put_walk(struct render *r, struct nettrace_walk *walk, unsigned depth)
{
	struct nettrace_value v;
	while (!r->cut && nettrace_walk_next(walk, &v)) {
		if (depth > 2 * NETTRACE_MAX_DEPTH || !fits(r, &v)) {
			r->cut = true;
		} else if (v.kind == NETTRACE_IS_OBJECT && !*v.name && !walk->elements) {
			struct nettrace_walk in = nettrace_walk_into(walk, &v);
			put_walk(r, &in, depth + 1);
		} else {
			put_value(r, walk, walk->elements ? NULL : v.name, &v, depth);
		}
	}
	r->cut |= !cursor_ok(&walk->c);
}

bool nettrace_event_json(const struct nettrace_event *event, struct jsonw *w, const char *key, size_t max_bytes)
{
	struct render r = { .w = w, .end = w->out->len + (max_bytes ? max_bytes : DEFAULT_MAX) };
	struct nettrace_walk walk = nettrace_walk_make(event);
	jsonw_object(w, key);
	if (!event->meta->n_fields && event->payload_size)
		put_hex(&r, "$bytes", event->payload, event->payload_size);
	else
		put_walk(&r, &walk, 0);
	jsonw_object_end(w);
	buf_free(&r.text);
	return !r.cut;
}
