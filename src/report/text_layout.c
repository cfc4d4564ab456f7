/* The pieces that text_blocks.c is made of: values, cutting to a width, wrapping, bars, colours. */

#include "report/text.h"
#include "base/fmt.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOW_CHARS_MAX 400
#define ELLIPSIS(t) ((t)->ascii ? "..." : "…")

static void add_ascii(struct buf *out, const char *s)
{
	static const struct {
		uint32_t cp;
		const char *ascii;
	} known[] = { { 0xb7, "-" }, { 0x2026, "..." }, { 0x2013, "-" }, { 0x2014, "-" },
		      { 0xb5, "u" }, { 0x2192, "->" },	{ 0xd7, "x" },	 { 0x2019, "'" } };
	size_t len = strlen(s);
	for (size_t i = 0; i < len;) {
		uint32_t cp = 0xfffd;
		size_t n = utf8_decode(s + i, len - i, &cp), k = 0;
		if (n == 1) {
			buf_char(out, s[i++]);
			continue;
		}
		while (k < ARRAY_SIZE(known) && known[k].cp != cp)
			k++;
		if (k < ARRAY_SIZE(known))
			buf_str(out, known[k].ascii);
		else
			buf_printf(out, "\\u{%x}", cp);
		i += n ? n : 1;
	}
}

void text_show(const struct text_out *t, const char *s, struct buf *ret)
{
	struct buf visible = { 0 };
	doc_show(s, SHOW_CHARS_MAX, &visible);
	if (t->ascii)
		add_ascii(ret, buf_cstr(&visible));
	else
		buf_add(ret, visible.data, visible.len);
	buf_free(&visible);
}

void text_value(const struct text_out *t, const struct value *v, struct buf *ret)
{
	struct buf plain = { 0 };
	value_add(&plain, t->r, v);
	text_show(t, buf_cstr(&plain), ret);
	buf_free(&plain);
}

/* Bytes of s that take at most width columns. */
static size_t fitting(const char *s, size_t width)
{
	size_t len = strlen(s), i = 0, used = 0;
	while (i < len) {
		uint32_t cp;
		size_t n = utf8_decode(s + i, len - i, &cp);
		char one[5] = { 0 };
		memcpy(one, s + i, n ? n : 1);
		size_t w = utf8_width(one);
		if (used + w > width)
			break;
		used += w;
		i += n ? n : 1;
	}
	return i;
}

static void cut_end(const struct text_out *t, struct buf *s, size_t width)
{
	char mark[64];
	if (utf8_width(buf_cstr(s)) <= width)
		return;
	/* A text cut for its length keeps saying how long it was. */
	const char *length = str_ends(s->data, " bytes)") ? strrchr(s->data, '(') : NULL;
	bool keeps = length && strlen(length) < 30 && width > strlen(length) + 8;
	snprintf(mark, sizeof(mark), "%s%s%s", ELLIPSIS(t), keeps ? " " : "", keeps ? length : "");
	size_t taken = utf8_width(mark);
	s->len = fitting(buf_cstr(s), width > taken ? width - taken : 0);
	s->data[s->len] = '\0';
	buf_str(s, mark);
}

/* Drops one part of the namespace after the other until the rest fits; the member stays. False if it does not fit. */
static bool drop_namespace(const struct text_out *t, struct buf *s, size_t width, bool keep_type)
{
	size_t mark = utf8_width(ELLIPSIS(t));
	for (size_t from = name_skip(buf_cstr(s), 0); from; from = name_skip(s->data, from)) {
		if (keep_type && !name_skip(s->data, from))
			return false;
		if (utf8_width(s->data + from) + mark > width)
			continue;
		struct buf shorter = { 0 };
		buf_str(&shorter, ELLIPSIS(t));
		buf_str(&shorter, s->data + from);
		buf_free(s);
		*s = shorter;
		return true;
	}
	return false;
}

/* "lambda in ", "lambda at line 36 in ": how much of it stands before the name. */
static size_t lambda_words(const char *s)
{
	const char *in = str_starts(s, "lambda ") ? strstr(s, "in ") : NULL;
	/* The line has an "in", too. */
	while (in && in[-1] != ' ')
		in = strstr(in + 1, "in ");
	return in ? (size_t)(in - s) + 3 : 0;
}

void text_fit(const struct text_out *t, enum value_kind kind, struct buf *s, size_t width)
{
	if (utf8_width(buf_cstr(s)) <= width)
		return;
	size_t words = kind == VALUE_CODE ? lambda_words(s->data) : 0;
	if (words && words * 2 < width) {
		struct buf name = { 0 };
		buf_str(&name, s->data + words);
		text_fit(t, kind, &name, width - words);
		s->len = words;
		s->data[words] = '\0';
		buf_str(s, buf_cstr(&name));
		buf_free(&name);
		return;
	}
	if (kind == VALUE_CODE && !drop_namespace(t, s, width, true)) {
		struct buf collapsed = { 0 };
		name_collapse(buf_cstr(s), ELLIPSIS(t), &collapsed);
		bool done = utf8_width(buf_cstr(&collapsed)) <= width || drop_namespace(t, &collapsed, width, false);
		if (done || name_split(buf_cstr(&collapsed)).member) {
			size_t member = done ? 0 : name_split(collapsed.data).member;
			buf_clear(s);
			buf_str(s, collapsed.data + member);
		}
		buf_free(&collapsed);
	}
	cut_end(t, s, width);
}

size_t text_least(const struct text_out *t, const struct value *v)
{
	enum { TEXT_LEAST = 16, NAME_MOST = 40 };
	struct buf s = { 0 }, collapsed = { 0 };
	text_value(t, v, &s);
	size_t whole = utf8_width(buf_cstr(&s)), least = MIN(whole, (size_t)TEXT_LEAST);
	if (v->kind == VALUE_CODE && !v->missing) {
		name_collapse(buf_cstr(&s), ELLIPSIS(t), &collapsed);
		size_t words = lambda_words(buf_cstr(&collapsed));
		const char *name = buf_cstr(&collapsed) + words;
		size_t member = name_split(name).member;
		least = words + utf8_width(name + member) + (member ? utf8_width(ELLIPSIS(t)) : 0);
		whole = MIN(whole, (size_t)NAME_MOST);
		least = MIN(least, whole);
	}
	buf_free(&s);
	buf_free(&collapsed);
	return least;
}

void text_ink(const struct text_out *t, enum ink ink, const char *s)
{
	static const char *const codes[] = { "", "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[31m" };
	bool inked = t->colour && ink != INK_PLAIN;
	if (inked)
		buf_str(t->out, codes[ink]);
	buf_str(t->out, s);
	if (inked)
		buf_str(t->out, "\x1b[0m");
}

void text_pad(const struct text_out *t, size_t n)
{
	buf_repeat(t->out, " ", n);
}

size_t text_bar(const struct text_out *t, double share, size_t width)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█" };
	if (!(share > 0))
		return 0;
	struct buf bar = { 0 };
	size_t units = (size_t)lround(MIN(share, 1.0) * (double)width * 8);
	size_t used;
	units = MAX(units, (size_t)1);
	if (t->ascii) {
		used = MAX((units + 4) / 8, (size_t)1);
		buf_repeat(&bar, "#", used);
	} else {
		used = (units + 7) / 8;
		buf_repeat(&bar, eighths[8], units / 8);
		buf_str(&bar, eighths[units % 8]);
	}
	text_ink(t, INK_DATA, buf_cstr(&bar));
	buf_free(&bar);
	return used;
}

const char *text_spark(const struct text_out *t, double share)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { ".", ".", ":", "-", "=", "+", "*", "#" };
	int step = share >= 1 ? 7 : share > 0 ? (int)(share * 8) : 0;
	return (t->ascii ? ascii : blocks)[step];
}

struct text_wrap text_wrap_begin(const struct text_out *t, size_t indent)
{
	return (struct text_wrap){ .t = t, .indent = indent };
}

static void flush_word(struct text_wrap *w)
{
	if (!w->word_width) {
		w->blank = w->blank || w->word.len;
		return;
	}
	size_t need = w->word_width + (w->blank && w->column);
	if (!w->column || w->column + need > w->t->columns) {
		if (w->column)
			buf_char(w->t->out, '\n');
		text_pad(w->t, w->indent);
		w->column = w->indent;
	} else if (w->blank) {
		buf_char(w->t->out, ' ');
		w->column++;
	}
	buf_add(w->t->out, w->word.data, w->word.len);
	w->column += w->word_width;
	buf_clear(&w->word);
	w->word_width = 0;
	w->blank = false;
}

/* "310 MB" stays together. */
static bool joins_a_unit(const char *before, const char *start, const char *after)
{
	static const char *const units[] = { "ns", "µs",    "us", "ms", "s",  "min", "h",
					     "d",  "bytes", "KB", "MB", "GB", "TB",  "%" };
	if (before == start || before[-1] < '0' || before[-1] > '9')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = strlen(units[i]);
		if (str_starts(after, units[i]) && !strspn(after + n, "abcdefghijklmnopqrstuvwxyz"))
			return true;
	}
	return false;
}

static void word_add(struct text_wrap *w, enum ink ink, const char *s, size_t len)
{
	size_t room = w->t->columns - w->indent;
	CLEANUP(mem_freep) char *part = mem_strndup(s, len);
	for (char *at = part; *at;) {
		size_t n = fitting(at, room - w->word_width);
		if (!n) {
			if (!w->word_width)
				return; /* narrower than one character */
			flush_word(w);
			continue;
		}
		char kept = at[n];
		at[n] = '\0';
		struct text_out word = *w->t;
		word.out = &w->word;
		text_ink(&word, ink, at);
		w->word_width += utf8_width(at);
		at[n] = kept;
		at += n;
	}
}

void text_wrap_add(struct text_wrap *w, enum ink ink, const char *shown)
{
	const char *from = shown;
	for (const char *p = shown;; p++) {
		bool blank = *p == ' ' && !joins_a_unit(p, shown, p + 1);
		if (*p && !blank)
			continue;
		word_add(w, ink, from, (size_t)(p - from));
		if (!*p)
			return;
		flush_word(w);
		w->blank = true;
		from = p + 1;
	}
}

void text_wrap_rich(struct text_wrap *w, const struct rich *rich)
{
	for (const struct piece *p = rich->first; p; p = p->next) {
		struct buf shown = { 0 };
		text_show(w->t, p->text, &shown);
		text_wrap_add(w, p->kind == PIECE_STRONG ? INK_STRONG : INK_PLAIN, buf_cstr(&shown));
		buf_free(&shown);
	}
}

void text_wrap_end(struct text_wrap *w)
{
	flush_word(w);
	if (w->column)
		buf_char(w->t->out, '\n');
	buf_free(&w->word);
}
