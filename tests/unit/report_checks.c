#include "unit.h"

#include "report_checks.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <math.h>

const char *const form_names[FORMS] = { "txt", "md", "html", "json" };

void render(const struct report *r, enum form form, struct buf *out)
{
	buf_clear(out);
	if (form == TEXT)
		report_render_text(r, NULL, out);
	else if (form == MARKDOWN)
		report_render_markdown(r, out);
	else if (form == HTML)
		report_render_html(r, out);
	else
		report_render_json(r, out);
	assert_false(out->overflow);
}

void assert_contains(const struct buf *b, const char *part)
{
	if (!strstr(buf_cstr(b), part))
		fail_msg("'%s' is not in:\n%.3000s", part, buf_cstr(b));
}

void assert_lacks(const struct buf *b, const char *part)
{
	if (strstr(buf_cstr(b), part))
		fail_msg("'%s' is in:\n%.3000s", part, buf_cstr(b));
}

/* ---- what every form promises of any report ---- */

/* Printable, well-formed, nothing invisible; `escape` allows colours. */
static void check_bytes(const struct buf *b, bool ascii, bool escape)
{
	for (size_t i = 0; i < b->len;) {
		uint32_t cp;
		size_t n = utf8_decode(b->data + i, b->len - i, &cp);
		bool allowed = n && (cp == '\n' || (escape && cp == 0x1b) || cp >= 0x20) &&
			       !(cp >= 0x7f && cp < 0xa0) && !(cp >= 0x200b && cp <= 0x200f) &&
			       !(cp >= 0x2028 && cp <= 0x202e) && cp != 0xfeff && !(ascii && cp >= 0x80);
		if (!allowed)
			fail_msg("byte %zu (0x%02x) near '%.20s'", i, (uint8_t)b->data[i],
				 b->data + (i > 10 ? i - 10 : 0));
		i += n;
	}
}

static void check_lines(const struct buf *b, size_t columns)
{
	CLEANUP(mem_freep) char *copy = mem_strdup(buf_cstr(b));
	char *rest = copy;
	for (char *line; (line = strsep(&rest, "\n"));) {
		if (utf8_width(line) > columns)
			fail_msg("%zu columns, not %zu: %s", utf8_width(line), columns, line);
	}
}

/* Without the colours, of which only a few are used. */
static void strip_colours(const struct buf *in, struct buf *out)
{
	for (const char *p = buf_cstr(in); *p; p++) {
		if (*p != 0x1b) {
			buf_char(out, *p);
			continue;
		}
		size_t n = strspn(p + 2, "0123456789");
		assert_true(p[1] == '[' && n >= 1 && n <= 2 && p[2 + n] == 'm');
		p += 2 + n;
	}
}

static void check_text(const struct report *r)
{
	static const unsigned widths[] = { 40, 60, 79, 100, 250 };
	for (size_t i = 0; i < ARRAY_SIZE(widths) * 2; i++) {
		struct report_text_style style = { .columns = widths[i / 2], .ascii = i % 2 };
		struct buf plain = { 0 }, coloured = { 0 }, stripped = { 0 };
		report_render_text(r, &style, &plain);
		check_bytes(&plain, style.ascii, false);
		check_lines(&plain, style.columns);
		style.colour = true;
		report_render_text(r, &style, &coloured);
		check_bytes(&coloured, style.ascii, true);
		strip_colours(&coloured, &stripped);
		check_lines(&stripped, style.columns);
		buf_free(&plain);
		buf_free(&coloured);
		buf_free(&stripped);
	}
}

static bool one_of(const char *s, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(words[i]) == len && !memcmp(s, words[i], len))
			return true;
	}
	return false;
}

/* Checks one tag's attributes; p stands behind its name. Returns the end, behind '>'. */
static const char *check_attributes(const char *p, bool *ret_closed)
{
	static const char *const known[] = {
		"lang",
		"charset",
		"http-equiv",
		"content",
		"name",
		"class",
		"scope",
		"aria-sort",
		"aria-hidden",
		"role",
		"x",
		"y",
		"x1",
		"x2",
		"y1",
		"y2",
		"r",
		"cx",
		"cy",
		"d",
		"width",
		"height",
		"fill",
		"stroke",
		"stroke-width",
		"viewBox",
		"points",
		"open",
		"colspan",
		"aria-label",
		"stroke-linejoin",
		"stroke-linecap",
		"preserveAspectRatio",
	};
	*ret_closed = false;
	for (;;) {
		p += strspn(p, " ");
		if (*p == '>')
			return p + 1;
		if (*p == '/' && p[1] == '>') {
			*ret_closed = true;
			return p + 2;
		}
		size_t n = strcspn(p, "= >\"'/");
		if (!n || (!one_of(p, n, known, ARRAY_SIZE(known)) && strncmp(p, "data-", 5)))
			fail_msg("attribute %.40s", p);
		p += n;
		if (*p != '=')
			continue;
		assert_int_equal(p[1], '"');
		size_t value = strcspn(p + 2, "\"<>");
		if (p[2 + value] != '"')
			fail_msg("value %.60s", p);
		p += 2 + value + 1;
	}
}

static size_t entity_length(const char *p)
{
	static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
	for (size_t i = 0; i < ARRAY_SIZE(entities); i++) {
		if (str_starts(p, entities[i]))
			return strlen(entities[i]);
	}
	fail_msg("'&' in %.40s", p);
	return 1;
}

struct open_tag {
	const char *name;
	size_t len;
};

/* A reader that knows exactly what our pages are made of, and refuses all else. */
static void check_html(const struct report *r)
{
	static const char *const known[] = {
		"html", "head", "meta",	   "title",  "style",	 "body",  "main",  "header",  "div",
		"h1",	"h2",	"svg",	   "circle", "path",	 "span",  "p",	   "section", "b",
		"code", "dl",	"dt",	   "dd",     "small",	 "table", "thead", "tbody",   "tr",
		"th",	"td",	"ol",	   "ul",     "li",	 "i",	  "rect",  "details", "summary",
		"wbr",	"line", "polygon", "figure", "polyline", "text",  "aside", "footer",  "script",
	};
	static const char *const empty[] = { "meta", "wbr" };
	struct buf page = { 0 };
	VEC(struct open_tag) open = { 0 };
	size_t scripts = 0, styles = 0;
	render(r, HTML, &page);
	check_bytes(&page, false, false);
	assert_true(str_starts(buf_cstr(&page), "<!doctype html>\n<html lang=\"en\">"));
	for (const char *p = buf_cstr(&page) + strlen("<!doctype html>"); *p;) {
		if (*p == '&') {
			p += entity_length(p);
			continue;
		}
		assert_int_not_equal(*p, '>');
		if (*p != '<') {
			p++;
			continue;
		}
		bool end = p[1] == '/', closed;
		const char *name = p + 1 + end;
		size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
		if (!one_of(name, n, known, ARRAY_SIZE(known)))
			fail_msg("tag %.40s", p);
		if (end) {
			if (!open.n || vec_last(&open).len != n || memcmp(vec_last(&open).name, name, n))
				fail_msg("closed but not open: %.40s", p);
			open.n--;
			assert_int_equal(name[n], '>');
			p = name + n + 1;
			continue;
		}
		p = check_attributes(name + n, &closed);
		if (!closed && !one_of(name, n, empty, ARRAY_SIZE(empty)))
			vec_push(&open, ((struct open_tag){ name, n }));
		if (str_starts(name, "script") || str_starts(name, "style")) {
			*(str_starts(name, "script") ? &scripts : &styles) += 1;
			const char *close = strstr(p, "</");
			assert_non_null(close);
			p += close - p;
		}
	}
	assert_int_equal(open.n, 0);
	assert_int_equal(scripts, 1);
	assert_int_equal(styles, 1);
	assert_lacks(&page, "unsafe-inline");
	vec_free(&open);
	buf_free(&page);
}

static size_t count_unescaped_pipes(const char *line)
{
	size_t n = 0;
	bool code = false;
	for (const char *p = line; *p; p++) {
		if (*p == '\\' && !code && p[1])
			p++;
		else if (*p == '`')
			code = !code;
		else
			n += *p == '|';
	}
	assert_false(code);
	return n;
}

/* Outside of fences and code spans: no tag but ours, no link, no image; rows of a table are all of one width. */
static void check_markdown(const struct report *r)
{
	static const char *const ours[] = { "<b>",	 "</b>",      "<code>",	    "</code>",
					    "<details>", "<summary>", "</summary>", "</details>" };
	struct buf page = { 0 };
	render(r, MARKDOWN, &page);
	check_bytes(&page, false, false);
	CLEANUP(mem_freep) char *copy = mem_strdup(buf_cstr(&page));
	char *rest = copy;
	size_t fence = 0, pipes = 0;
	for (char *line; (line = strsep(&rest, "\n"));) {
		size_t ticks = strspn(line, "`");
		if (ticks >= 3 && (!fence || (ticks == fence && !line[ticks]))) {
			fence = fence ? 0 : ticks;
			continue;
		}
		if (fence)
			continue;
		bool row = line[0] == '|';
		if (row && pipes)
			assert_int_equal(count_unescaped_pipes(line), pipes);
		pipes = row ? count_unescaped_pipes(line) : 0;
		bool summary = strstr(line, "<summary>");
		for (char *p = line; *p; p++) {
			if (*p == '\\' && !summary && p[1]) {
				p++;
			} else if (*p == '`' && !summary) {
				p = strchr(p + 1, '`');
				assert_non_null(p);
			} else if (*p == '<') {
				size_t i = 0;
				while (i < ARRAY_SIZE(ours) && !str_starts(p, ours[i]))
					i++;
				if (i == ARRAY_SIZE(ours))
					fail_msg("markup: %.60s", p);
			} else if (!summary && (strchr("[]*_~!$", *p) || str_starts(p, "://"))) {
				fail_msg("unescaped: %.60s", p);
			}
		}
	}
	assert_int_equal(fence, 0);
	buf_free(&page);
}

void assert_same(const struct buf *a, const struct buf *b)
{
	if (a->len != b->len || memcmp(a->data, b->data, a->len)) {
		size_t i = 0;
		while (i < a->len && i < b->len && a->data[i] == b->data[i])
			i++;
		size_t from = i > 60 ? i - 60 : 0;
		fail_msg("differ at byte %zu:\n%.160s\n%.160s", i, a->data + from, b->data + from);
	}
}

/* JSON and back is the same report in every form. */
void check_round_trip(const struct report *r)
{
	struct buf json = { 0 };
	CLEANUP(report_freep) struct report *again = NULL;
	render(r, JSON, &json);
	check_bytes(&json, false, false);
	assert_ok(report_from_json(json.data, json.len, &again));
	for (enum form f = 0; f < FORMS; f++) {
		struct buf one = { 0 }, two = { 0 };
		render(r, f, &one);
		render(again, f, &two);
		assert_same(&one, &two);
		buf_free(&one);
		buf_free(&two);
	}
	buf_free(&json);
}

void check_all(const struct report *r)
{
	check_text(r);
	check_markdown(r);
	check_html(r);
	check_round_trip(r);
}
