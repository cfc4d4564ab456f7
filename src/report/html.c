/* One self-contained page. Everything is readable without the script. The page's content policy allows its script and
 * style sheet by their hashes only, so that nothing that came from a target can ever run. */

#include "report/html.h"
#include "report_assets.h"
#include "base/fmt.h"
#include "base/str.h"
#include <string.h>

enum { SHOW_CHARS = 2000, MEMBER_WHOLE = 36 };

void html_text(const struct html *h, const char *s)
{
	struct buf shown = { 0 };
	doc_show(s, SHOW_CHARS, &shown);
	markup_escape(h->out, buf_cstr(&shown));
	buf_free(&shown);
}

/* A place to break behind each dot. */
static void breakable(const struct html *h, const char *s, size_t len)
{
	size_t from = 0;
	for (size_t i = 0; i < len; i++) {
		if (s[i] != '.' && i + 1 < len)
			continue;
		CLEANUP(mem_freep) char *part = mem_strndup(s + from, i + 1 - from);
		markup_escape(h->out, part);
		if (s[i] == '.')
			buf_str(h->out, "<wbr>");
		from = i + 1;
	}
}

void html_name(const struct html *h, const char *s)
{
	struct buf shown = { 0 };
	doc_show(s, SHOW_CHARS, &shown);
	const char *name = buf_cstr(&shown);
	struct name_parts parts = name_split(name);
	buf_str(h->out, "<span class=\"id\">");
	if (parts.member) {
		buf_str(h->out, "<span class=\"ns\">");
		breakable(h, name, parts.member);
		buf_str(h->out, "</span>");
	}
	CLEANUP(mem_freep) char *member = mem_strndup(name + parts.member, parts.rest - parts.member);
	/* A member of usual length is not torn. */
	bool whole = utf8_width(member) <= MEMBER_WHOLE;
	buf_str(h->out, whole ? "<span class=\"nm\">" : "");
	markup_escape(h->out, member);
	buf_str(h->out, whole ? "</span>" : "");
	if (name[parts.rest]) {
		buf_str(h->out, "<span class=\"ty\">");
		markup_escape(h->out, name + parts.rest);
		buf_str(h->out, "</span>");
	}
	buf_str(h->out, "</span>");
	buf_free(&shown);
}

void html_value(const struct html *h, const struct value *v)
{
	if (v->missing) {
		buf_str(h->out, "<span class=\"none\"><span aria-hidden=\"true\">–</span>"
				"<span class=\"sr\">not measured, or does not apply</span></span>");
	} else if (v->kind == VALUE_CODE) {
		html_name(h, v->text);
	} else {
		struct buf s = { 0 };
		value_add(&s, h->r, v);
		html_text(h, buf_cstr(&s));
		buf_free(&s);
	}
}

void html_data(const struct html *h, const struct value *v)
{
	if (!v->missing && !kind_is_text(v->kind))
		buf_printf(h->out, " data-v=\"%.17g\"", v->number);
}

void html_number(const struct html *h, enum value_kind kind, double number)
{
	struct buf s = { 0 };
	number_add(&s, kind, number);
	html_text(h, buf_cstr(&s));
	buf_free(&s);
}

void html_bar(const struct html *h, double share)
{
	buf_printf(h->out, "<svg class=\"bar\" aria-hidden=\"true\"><rect width=\"%.2f%%\" height=\"100%%\"/></svg>",
		   share > 0 ? MAX(share * 100, 0.8) : 0.0);
}

void html_heading(const struct html *h, const char *title)
{
	if (str_empty(title))
		return;
	buf_str(h->out, "<h2>");
	html_text(h, title);
	buf_str(h->out, "</h2>\n");
}

static void rich(const struct html *h, const struct rich *t)
{
	static const char *const open[] = { "", "<b>", "<code>" }, *const close[] = { "", "</b>", "</code>" };
	for (const struct piece *p = t->first; p; p = p->next) {
		buf_str(h->out, open[p->kind]);
		html_text(h, p->text);
		buf_str(h->out, close[p->kind]);
	}
}

/* Shape and colour and words, never colour alone. */
static void mark(const struct html *h, enum report_health health)
{
	static const char *const shapes[] = {
		"<circle cx=\"5\" cy=\"5\" r=\"4.4\"/>",
		"<circle cx=\"5\" cy=\"5\" r=\"3.5\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.6\"/>",
		"<path d=\"M5 .6 9.8 9.2H.2z\"/>",
		"<path d=\"M3.2.6h3.6l2.6 2.6v3.6L6.8 9.4H3.2L.6 6.8V3.2z\"/>",
	};
	static const char *const words[] = { "no problem", "for information", "found something", "serious" };
	buf_printf(h->out,
		   "<svg class=\"hd %s\" viewBox=\"0 0 10 10\" fill=\"currentColor\" role=\"img\" aria-label=\"%s\">%s"
		   "</svg>",
		   health_names[health], words[health], shapes[health]);
}

/* "15 Nov 2026, 03:12:09 UTC" */
static void date_words(const struct html *h, int64_t when)
{
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	struct fmt_text t = fmt_time_utc(when);
	unsigned month = (unsigned)(t.s[5] - '0') * 10 + (unsigned)(t.s[6] - '0');
	if (strlen(t.s) != 20 || month < 1 || month > 12) {
		html_text(h, t.s);
		return;
	}
	const char *day = t.s[8] == '0' ? t.s + 9 : t.s + 8;
	buf_printf(h->out, "%.*s %s %.4s, %.8s UTC", (int)(t.s + 10 - day), day, months[month - 1], t.s, t.s + 11);
}

static void title(const struct html *h)
{
	html_text(h, h->r->facts.title ? h->r->facts.title : "Report");
	if (!str_empty(h->r->facts.process)) {
		buf_str(h->out, " of ");
		html_text(h, h->r->facts.process);
	}
}

static void facts_line(const struct html *h)
{
	const struct report_facts *f = &h->r->facts;
	const char *between = "";
	buf_str(h->out, "<p class=\"facts\">");
	if (f->when_unix_ns) {
		date_words(h, f->when_unix_ns);
		if (f->window_ns) {
			buf_str(h->out, ", for ");
			html_text(h, fmt_duration_ns(f->window_ns).s);
		}
		buf_str(h->out, ". ");
	}
	if (f->target_id) {
		buf_printf(h->out, "%s %d", f->target_id > 0 ? "Pid" : "Target", f->target_id);
		between = ", ";
	}
	const struct {
		const char *word, *text;
	} more[] = { { ".NET ", f->runtime }, { "container ", f->pod ? NULL : f->container }, { "pod ", f->pod } };
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		if (str_empty(more[i].text))
			continue;
		buf_printf(h->out, "%s%s", between, more[i].word);
		html_text(h, more[i].text);
		between = ", ";
	}
	if (!str_empty(f->host)) {
		buf_str(h->out, *between ? " on " : "");
		html_text(h, f->host);
	}
	buf_str(h->out, "</p>");
}

static void head(const struct html *h)
{
	buf_str(h->out,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '" REPORT_CSS_HASH
		"'; script-src '" REPORT_JS_HASH "'; base-uri 'none'; form-action 'none'\">"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
		"<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"generator\" "
		"content=\"drdotnet\"><title>");
	title(h);
	buf_str(h->out, "</title><style>");
	buf_str(h->out, report_css);
	buf_str(h->out, "</style></head>\n<body><main class=\"doc\">\n<header class=\"top\"><div><h1>");
	title(h);
	buf_str(h->out,
		"</h1></div><div class=\"by\"><svg width=\"16\" height=\"16\" viewBox=\"0 0 20 20\" fill=\"none\" "
		"stroke=\"currentColor\" stroke-width=\"1.7\" stroke-linejoin=\"round\" stroke-linecap=\"round\" "
		"aria-hidden=\"true\"><circle cx=\"10\" cy=\"10\" r=\"8.2\"/>"
		"<path d=\"M4.6 10.6h2.6L9 6.4l2.4 7.4 1.6-4h2.4\"/></svg><span>drdotnet ");
	html_text(h, h->r->facts.version ? h->r->facts.version : "");
	buf_str(h->out, "</span></div></header>\n");
	facts_line(h);
}

static void verdict(const struct html *h)
{
	struct buf partial = { 0 };
	buf_str(h->out, "<section class=\"verdict\" aria-label=\"Verdict\">");
	mark(h, h->r->finding ? h->r->health : REPORT_INFO);
	buf_str(h->out, "<p class=\"say\">");
	if (h->r->finding)
		rich(h, &h->r->verdict);
	else
		buf_str(h->out, "No verdict was reached.");
	buf_str(h->out, "</p>");
	if (doc_partial(h->r, &partial)) {
		buf_str(h->out, "<p class=\"part\">");
		html_text(h, buf_cstr(&partial));
		buf_str(h->out, "</p>");
	}
	buf_free(&partial);
	if (h->r->effect.first) {
		buf_str(h->out, "<p class=\"effect\">");
		rich(h, &h->r->effect);
		buf_str(h->out, "</p>");
	}
	if (h->r->next.first) {
		buf_str(h->out, "<p class=\"next\">Next: ");
		rich(h, &h->r->next);
		buf_str(h->out, "</p>");
	}
	buf_str(h->out, "</section>\n");
}

/* The unit is smaller than the number: "402 <small>MB</small>". */
static void figure_value(const struct html *h, const struct value *v)
{
	if (v->missing || kind_is_text(v->kind) || v->kind == VALUE_TIME) {
		html_value(h, v);
		return;
	}
	struct buf s = { 0 };
	value_add(&s, h->r, v);
	const char *text = buf_cstr(&s), *unit = strchr(text, ' ');
	if (!unit)
		unit = strchr(text, '/');
	bool split = unit && text[0] >= '0' && text[0] <= '9';
	CLEANUP(mem_freep) char *number = mem_strndup(text, split ? (size_t)(unit - text) : strlen(text));
	html_text(h, number);
	if (split) {
		buf_str(h->out, *unit == ' ' ? " <small>" : "<small>");
		html_text(h, unit + (*unit == ' '));
		buf_str(h->out, "</small>");
	}
	buf_free(&s);
}

static void fact_context(const struct html *h, const struct fact *f)
{
	if (!f->context && !f->value.missing)
		return;
	buf_str(h->out, "<span class=\"x\">");
	html_text(h, f->context ? f->context : "not measured");
	buf_str(h->out, "</span>");
}

static void figures(const struct html *h)
{
	if (!h->r->figures.first)
		return;
	buf_str(h->out, "<dl class=\"kfs\">");
	for (const struct fact *f = h->r->figures.first; f; f = f->next) {
		buf_str(h->out, "<div class=\"kf\"><dt>");
		html_text(h, f->label);
		buf_str(h->out, "</dt><dd>");
		figure_value(h, &f->value);
		fact_context(h, f);
		buf_str(h->out, "</dd></div>");
	}
	buf_str(h->out, "</dl>\n");
}

static void how(const struct html *h)
{
	if (!h->r->how.first)
		return;
	buf_str(h->out, "<h2>How this was measured</h2>\n<dl class=\"strip\">");
	for (const struct fact *f = h->r->how.first; f; f = f->next) {
		buf_str(h->out, "<div><dt>");
		html_text(h, f->label);
		buf_str(h->out, "</dt><dd>");
		html_value(h, &f->value);
		fact_context(h, f);
		buf_str(h->out, "</dd></div>");
	}
	buf_str(h->out, "</dl>\n");
}

static void parameters(const struct html *h)
{
	if (!h->r->first_param)
		return;
	buf_str(h->out, "<h2>Parameters</h2>\n<div class=\"panel\"><dl class=\"params\">");
	for (const struct report_param *p = h->r->first_param; p; p = p->next) {
		buf_str(h->out, "<div><dt>");
		html_text(h, p->name);
		buf_str(h->out, "</dt><dd>");
		html_text(h, p->value);
		buf_printf(h->out, " <span>%s</span></dd></div>", p->is_default ? "default" : "set");
	}
	buf_str(h->out, "</dl></div>\n");
}

static void note(const struct html *h, const struct report_note *n)
{
	buf_str(h->out, "<aside class=\"note\">");
	mark(h, n->health);
	buf_str(h->out, "<p>");
	rich(h, &n->text);
	buf_str(h->out, "</p></aside>\n");
}

/* Severity and confidence stand behind the sentence, small; many of little weight are folded. */
static void findings(const struct html *h, const struct report_findings *f)
{
	html_heading(h, f->block.title);
	buf_str(h->out, f->brief ? "<ul class=\"fnd brief\">" : "<ul class=\"fnd\">");
	for (const struct finding_item *i = f->first; i; i = i->next) {
		CLEANUP(buf_free) struct buf seen = { 0 };
		buf_str(h->out, "<li>");
		rich(h, &i->text);
		if (i->severity || i->confidence) {
			buf_str(h->out, "<span class=\"x\">");
			html_text(h, i->finding);
			if (i->severity)
				buf_printf(h->out, ", severity %u", i->severity);
			if (i->confidence) {
				buf_str(h->out, ", ");
				html_text(h, i->confidence);
			}
			html_text(h, doc_first_seen(h->r, i, &seen));
			buf_str(h->out, "</span>");
		}
		buf_str(h->out, "</li>");
	}
	buf_str(h->out, "</ul>\n");
}

static void section(const struct html *h, const struct report_section *s)
{
	html_heading(h, s->block.title);
	buf_str(h->out, "<aside class=\"note\">");
	mark(h, s->health);
	buf_str(h->out, "<p>");
	rich(h, &s->text);
	buf_str(h->out, "</p></aside>\n");
}

static void block(const struct html *h, const struct block *b)
{
	switch (b->kind) {
	case BLOCK_TABLE:
		html_table(h, (const struct report_table *)b);
		break;
	case BLOCK_TREE:
		html_tree(h, (const struct report_table *)b);
		break;
	case BLOCK_CHART:
		html_chart(h, (const struct report_chart *)b);
		break;
	case BLOCK_HISTOGRAM:
		html_histogram(h, (const struct report_histogram *)b);
		break;
	case BLOCK_FLAME:
		html_flame(h, (const struct report_flame *)b);
		break;
	case BLOCK_NOTE:
		note(h, (const struct report_note *)b);
		break;
	case BLOCK_FINDINGS:
		findings(h, (const struct report_findings *)b);
		break;
	case BLOCK_SECTION:
		section(h, (const struct report_section *)b);
		break;
	}
}

static void foot(const struct html *h)
{
	struct buf cut = { 0 };
	const char *session = h->r->facts.session;
	bool cuts = doc_cut(h->r, &cut);
	if (!cuts && str_empty(session))
		return;
	buf_str(h->out, "<footer class=\"end\">");
	html_text(h, buf_cstr(&cut));
	if (!str_empty(session)) {
		buf_str(h->out, cuts ? " Session " : "Session ");
		html_text(h, session);
		buf_str(h->out, ". Open it again with <code>drdotnet sessions show ");
		CLEANUP(mem_freep) char *start = mem_strndup(session, strcspn(session, "-"));
		html_text(h, start);
		buf_str(h->out, "</code>.");
	}
	buf_str(h->out, "</footer>\n");
	buf_free(&cut);
}

void report_render_html(const struct report *r, struct buf *out)
{
	struct html h = { .r = r, .out = out };
	head(&h);
	verdict(&h);
	figures(&h);
	for (const struct block *b = r->first_block; b; b = b->next)
		block(&h, b);
	how(&h);
	parameters(&h);
	foot(&h);
	buf_str(out, "</main><script>");
	buf_str(out, report_js);
	buf_str(out, "</script></body></html>\n");
}
