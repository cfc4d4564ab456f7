#include "base/json.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define JSON_DEPTH_MAX 64

/* jansson returns NULL when memory is used up, in each of a hundred places; ours ends the process instead. */
static __attribute__((constructor)) void use_our_memory(void)
{
	json_set_alloc_funcs(mem_alloc, mem_free);
}

/* jansson recurses up to 2,048 levels; refuse absurd nesting before it does. */
static bool too_deep(const char *text, size_t len)
{
	unsigned depth = 0;
	bool in_string = false;
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return true;
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		}
	}
	return false;
}

struct err *json_parse(const char *text, size_t len, size_t max, json_t **ret)
{
	if (len > max)
		return err_new(ERR_BAD_DATA, "JSON text of %zu bytes is larger than the %zu allowed", len, max);
	if (too_deep(text, len))
		return err_new(ERR_BAD_DATA, "JSON is nested more than %d levels", JSON_DEPTH_MAX);
	json_error_t e;
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
	if (!j)
		return err_new(ERR_BAD_DATA, "not JSON: %s (line %d, column %d)", e.text, e.line, e.column);
	*ret = j;
	return NULL;
}

const char *json_get_str(const json_t *obj, const char *key, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(obj, key));
	return s ? s : otherwise;
}

int64_t json_get_int(const json_t *obj, const char *key, int64_t otherwise)
{
	const json_t *v = json_object_get(obj, key);
	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

double json_get_num(const json_t *obj, const char *key, double otherwise)
{
	const json_t *v = json_object_get(obj, key);
	return json_is_number(v) ? json_number_value(v) : otherwise;
}

bool json_get_bool(const json_t *obj, const char *key, bool otherwise)
{
	const json_t *v = json_object_get(obj, key);
	return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

struct jsonw jsonw_make(struct buf *out, bool pretty)
{
	return (struct jsonw){ .out = out, .pretty = pretty };
}

static void add_escaped(struct buf *out, const char *s, size_t len)
{
	buf_char(out, '"');
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		if (!n) {
			buf_str(out, "\xef\xbf\xbd");
			i++;
			continue;
		}
		if (cp == '"' || cp == '\\')
			buf_printf(out, "\\%c", (char)cp);
		else if (cp == '\n')
			buf_str(out, "\\n");
		else if (cp == '\t')
			buf_str(out, "\\t");
		else if (cp == '<' || cp == '>' || cp == '&' || (cp < 0x10000 && cp_is_invisible(cp)))
			buf_printf(out, "\\u%04x", cp);
		else if (cp_is_invisible(cp))
			buf_printf(out, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff));
		else
			buf_add(out, s + i, n);
		i += n;
	}
	buf_char(out, '"');
}

static void lead(struct jsonw *w, const char *key)
{
	if (w->comma)
		buf_char(w->out, ',');
	if (w->pretty && w->depth) {
		buf_char(w->out, '\n');
		buf_repeat(w->out, "  ", w->depth);
	}
	if (key) {
		add_escaped(w->out, key, strlen(key));
		buf_str(w->out, w->pretty ? ": " : ":");
	}
	w->comma = true;
}

static void begin(struct jsonw *w, const char *key, char c)
{
	lead(w, key);
	buf_char(w->out, c);
	w->depth++;
	w->comma = false;
}

static void end(struct jsonw *w, char c)
{
	w->depth--;
	if (w->pretty && w->comma) {
		buf_char(w->out, '\n');
		buf_repeat(w->out, "  ", w->depth);
	}
	buf_char(w->out, c);
	w->comma = true;
}

void jsonw_object(struct jsonw *w, const char *key)
{
	begin(w, key, '{');
}

void jsonw_object_end(struct jsonw *w)
{
	end(w, '}');
}

void jsonw_array(struct jsonw *w, const char *key)
{
	begin(w, key, '[');
}

void jsonw_array_end(struct jsonw *w)
{
	end(w, ']');
}

void jsonw_strn(struct jsonw *w, const char *key, const char *s, size_t len)
{
	lead(w, key);
	add_escaped(w->out, s, len);
}

void jsonw_str(struct jsonw *w, const char *key, const char *s)
{
	if (s)
		jsonw_strn(w, key, s, strlen(s));
	else
		jsonw_null(w, key);
}

void jsonw_u64(struct jsonw *w, const char *key, uint64_t v)
{
	lead(w, key);
	buf_printf(w->out, "%llu", (unsigned long long)v);
}

void jsonw_i64(struct jsonw *w, const char *key, int64_t v)
{
	lead(w, key);
	buf_printf(w->out, "%lld", (long long)v);
}

void jsonw_num(struct jsonw *w, const char *key, double v)
{
	if (!isfinite(v)) {
		jsonw_null(w, key);
		return;
	}
	lead(w, key);
	/* The shortest of the two that reads back as the same number. */
	char text[40];
	snprintf(text, sizeof(text), "%.15g", v);
	double back;
	if (!str_to_double(text, &back) || back != v)
		snprintf(text, sizeof(text), "%.17g", v);
	buf_str(w->out, text);
}

void jsonw_bool(struct jsonw *w, const char *key, bool v)
{
	lead(w, key);
	buf_str(w->out, v ? "true" : "false");
}

void jsonw_null(struct jsonw *w, const char *key)
{
	lead(w, key);
	buf_str(w->out, "null");
}

void jsonw_raw(struct jsonw *w, const char *key, const char *json)
{
	lead(w, key);
	buf_str(w->out, json);
}
