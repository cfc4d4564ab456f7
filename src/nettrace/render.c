/* Payloads as JSON; see fields.h. The budget is counted in bytes of output, with a little for every punctuation. */

#include "nettrace/fields.h"
#include "nettrace/internal.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX ((size_t)64 << 10)

struct render {
	struct jsonw *w;
	size_t budget;
	bool cut;
	struct buf text;
};

/* False when n more bytes do not fit. */
static bool afford(struct render *r, size_t n)
{
	if (n > r->budget) {
		r->cut = true;
		r->budget = 0;
		return false;
	}
	r->budget -= n;
	return true;
}

static void put_hex(struct render *r, const char *key, const uint8_t *bytes, size_t size)
{
	size_t n = MIN(size, r->budget / 2);
	buf_clear(&r->text);
	for (size_t i = 0; i < n; i++)
		buf_printf(&r->text, "%02x", bytes[i]);
	if (n < size) {
		buf_str(&r->text, "…");
		r->cut = true;
	}
	r->budget -= n * 2;
	jsonw_strn(r->w, key, buf_cstr(&r->text), r->text.len);
}

static void put_guid(struct render *r, const char *key, const uint8_t *g)
{
	char s[40];
	if (!afford(r, 36)) {
		jsonw_null(r->w, key);
		return;
	}
	snprintf(s, sizeof(s), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2], g[1],
		 g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
	jsonw_str(r->w, key, s);
}

/* How much of the text fits into max bytes of JSON, cut between characters; *ret_cost is what that takes. */
static size_t fitting(const char *s, size_t len, size_t max, size_t *ret_cost)
{
	size_t i = 0;
	*ret_cost = 0;
	while (i < len) {
		uint32_t cp;
		size_t n = MAX(utf8_decode(s + i, len - i, &cp), (size_t)1);
		size_t cost = n > 1 ? n : (unsigned char)s[i] < 0x20 || strchr("\"\\<>&", s[i]) ? 6 : 1;
		if (*ret_cost + cost > max)
			break;
		*ret_cost += cost;
		i += n;
	}
	return i;
}

static void put_text(struct render *r, const char *key, const struct nettrace_value *value)
{
	struct nettrace_value v = *value;
	/* No unit takes less than a byte. */
	v.utf16.n = v.kind == NETTRACE_IS_UTF16 ? MIN(v.utf16.n, r->budget + 1) : 0;
	v.size = MIN(v.size, r->budget + 1);
	buf_clear(&r->text);
	nettrace_value_text(&v, &r->text);
	size_t cost, n = fitting(buf_cstr(&r->text), r->text.len, r->budget, &cost);
	r->budget -= cost;
	if (n < r->text.len) {
		r->text.len = n;
		buf_str(&r->text, "…");
		r->cut = true;
	}
	jsonw_strn(r->w, key, buf_cstr(&r->text), r->text.len);
}

static bool put_walk(struct render *r, struct nettrace_walk *walk, unsigned depth);

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
		return jsonw_str(w, key, fmt_time_iso(v->i).s);
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

/* False when something was left out. */
static bool put_walk(struct render *r, struct nettrace_walk *walk, unsigned depth)
{
	struct nettrace_value v;
	while (nettrace_walk_next(walk, &v)) {
		/* 24 for a number or brackets; names may need escapes like any text. */
		if (depth > 2 * NETTRACE_MAX_DEPTH || !afford(r, strlen(v.name) * 6 + 24))
			return false;
		put_value(r, walk, walk->elements ? NULL : v.name, &v, depth);
		if (r->cut)
			return false;
	}
	r->cut |= !cursor_ok(&walk->c);
	return !r->cut;
}

bool nettrace_event_json(const struct nettrace_event *event, struct jsonw *w, const char *key, size_t max_bytes)
{
	struct render r = { .w = w, .budget = max_bytes ? max_bytes : DEFAULT_MAX };
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
