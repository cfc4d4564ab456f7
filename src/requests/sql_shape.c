/* Statements without their values. Not a parser: what it does not understand it keeps, but never what may be a value. */

#include "requests/request_events.h"
#include <string.h>

#define SHAPE_MAX 300

struct sql_text {
	const char *p, *end;
	struct buf *out;
	size_t begin;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static char last_of(const struct sql_text *t)
{
	return t->out->len > t->begin ? t->out->data[t->out->len - 1] : ' ';
}

static void put_blank(struct sql_text *t)
{
	if (last_of(t) != ' ')
		buf_char(t->out, ' ');
}

/* "?" once for a list of values. */
static void put_value(struct sql_text *t)
{
	size_t len = t->out->len - t->begin;
	const char *text = t->out->len ? t->out->data + t->begin : "";
	size_t end = len;
	while (end && (text[end - 1] == ' ' || text[end - 1] == ','))
		end--;
	bool list = end < len && end && memchr(text + end, ',', len - end);
	if (list && text[end - 1] == '?') {
		t->out->len = t->begin + end;
		buf_str(t->out, "...");
	} else if (list && end >= 4 && !memcmp(text + end - 4, "?...", 4)) {
		t->out->len = t->begin + end;
	} else {
		buf_char(t->out, '?');
	}
}

/* Behind the closing quote; doubled ones are part of the text, and so is what follows a backslash: better too much is left
 * out than too little. */
static void skip_quoted(struct sql_text *t, char quote)
{
	for (t->p++; t->p < t->end; t->p++) {
		if (*t->p == '\\' && t->p + 1 < t->end)
			t->p++;
		else if (*t->p == quote && t->p + 1 < t->end && t->p[1] == quote)
			t->p++;
		else if (*t->p == quote)
			break;
	}
	t->p += t->p < t->end;
}

/* $tag$ ... $tag$; false when it is none. */
static bool skip_dollar_quoted(struct sql_text *t)
{
	const char *tag_end = t->p + 1;
	while (tag_end < t->end && is_word(*tag_end) && !is_digit(t->p[1]))
		tag_end++;
	if (tag_end >= t->end || *tag_end != '$')
		return false;
	size_t tag = (size_t)(tag_end - t->p) + 1;
	const char *from = tag_end + 1;
	const char *close = memmem(from, (size_t)(t->end - from), t->p, tag);
	t->p = close ? close + tag : t->end;
	return true;
}

static bool skip_comment(struct sql_text *t)
{
	size_t left = (size_t)(t->end - t->p);
	const char *close;
	if (left >= 2 && !memcmp(t->p, "--", 2)) {
		close = memchr(t->p, '\n', left);
		t->p = close ? close : t->end;
		return true;
	}
	if (left >= 2 && !memcmp(t->p, "/*", 2)) {
		close = memmem(t->p + 2, left - 2, "*/", 2);
		t->p = close ? close + 2 : t->end;
		return true;
	}
	return false;
}

static void take_word(struct sql_text *t)
{
	const char *from = t->p;
	while (t->p < t->end && is_word(*t->p))
		t->p++;
	buf_add(t->out, from, (size_t)(t->p - from));
}

static void take_number(struct sql_text *t)
{
	while (t->p < t->end && (is_word(*t->p) || *t->p == '.'))
		t->p++;
	put_value(t);
}

void sql_shape(const char *sql, size_t len, struct buf *out)
{
	struct sql_text t = { .p = sql, .end = sql + len, .out = out, .begin = out->len };
	while (t.p < t.end && out->len - t.begin < SHAPE_MAX) {
		char c = *t.p;
		if (is_blank(c) || c == '\0') {
			put_blank(&t);
			t.p++;
		} else if (skip_comment(&t)) {
			put_blank(&t);
		} else if (c == '\'') {
			skip_quoted(&t, c);
			put_value(&t);
		} else if (c == '$' && t.p + 1 < t.end && skip_dollar_quoted(&t)) {
			put_value(&t);
		} else if ((c == '$' || c == '@' || c == ':') && t.p + 1 < t.end && is_word(t.p[1])) {
			buf_char(out, c); /* a parameter's name */
			t.p++;
			take_word(&t);
		} else if (is_digit(c)) {
			take_number(&t);
		} else if (is_word(c)) {
			take_word(&t);
		} else {
			buf_char(out, c);
			t.p++;
		}
	}
	while (out->len > t.begin && out->data[out->len - 1] == ' ')
		out->len--;
	bool more = t.p < t.end;
	while (out->len > t.begin + SHAPE_MAX || (more && out->len > t.begin && (out->data[out->len - 1] & 0x80)))
		out->len--; /* no part of a character */
	if (more && out->len > t.begin)
		buf_str(out, "...");
	else if (out->data)
		out->data[out->len] = '\0';
}
