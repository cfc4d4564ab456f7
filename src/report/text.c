#include "report/text.h"
#include "base/fmt.h"
#include "base/str.h"
#include <ctype.h>
#include <string.h>

static void wrap_show(struct text_wrap *w, enum ink ink, const char *s)
{
	struct buf shown = { 0 };
	text_show(w->t, s, &shown);
	text_wrap_add(w, ink, buf_cstr(&shown));
	buf_free(&shown);
}

static void title_line(const struct text_out *t)
{
	const struct report_facts *f = &t->r->facts;
	const char *dot = t->ascii ? " - " : " · ", *open = " (";
	struct text_wrap w = text_wrap_begin(t, 0);
	if (f->process)
		wrap_show(&w, INK_STRONG, f->process);
	if (f->target_id) {
		struct buf id = { 0 };
		buf_printf(&id, "%s%d", f->target_id > 0 ? "pid " : "target ", f->target_id);
		text_wrap_add(&w, INK_PLAIN, open);
		text_wrap_add(&w, INK_PLAIN, buf_cstr(&id));
		buf_free(&id);
		open = ", ";
	}
	const struct {
		const char *word, *text;
	} more[] = { { ".NET ", f->runtime }, { "pod ", f->pod } };
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		if (!more[i].text)
			continue;
		text_wrap_add(&w, INK_PLAIN, open);
		text_wrap_add(&w, INK_PLAIN, more[i].word);
		wrap_show(&w, INK_PLAIN, more[i].text);
		open = ", ";
	}
	if (*open == ',')
		text_wrap_add(&w, INK_PLAIN, ")");
	if (f->title) {
		text_wrap_add(&w, INK_PLAIN, dot);
		wrap_show(&w, INK_PLAIN, f->title);
	}
	if (f->when_unix_ns) {
		text_wrap_add(&w, INK_PLAIN, dot);
		text_wrap_add(&w, INK_PLAIN, fmt_time_utc(f->when_unix_ns).s);
	}
	if (f->window_ns) {
		text_wrap_add(&w, INK_PLAIN, dot);
		wrap_show(&w, INK_PLAIN, fmt_duration_ns(f->window_ns).s);
	}
	text_wrap_end(&w);
}

static void verdict(const struct text_out *t)
{
	static const enum ink inks[] = { INK_OK, INK_PLAIN, INK_WARN, INK_BAD };
	static const char *const marks[] = { "●", "●", "▲", "■" };
	struct buf partial = { 0 };
	size_t start = t->out->len;
	struct text_wrap w = text_wrap_begin(t, 2);
	if (t->r->finding)
		text_wrap_rich(&w, &t->r->verdict);
	else
		text_wrap_add(&w, INK_PLAIN, "No verdict was reached.");
	text_wrap_end(&w);
	/* The mark stands in the margin, so that plain and coloured text have the same lines. */
	if (t->colour && !t->ascii && t->r->finding && t->out->len > start) {
		struct buf rest = { 0 };
		buf_add(&rest, t->out->data + start + 1, t->out->len - start - 1);
		t->out->len = start;
		text_ink(t, inks[t->r->health], marks[t->r->health]);
		buf_add(t->out, rest.data, rest.len);
		buf_free(&rest);
	}
	if (doc_partial(t->r, &partial)) {
		w = text_wrap_begin(t, 2);
		wrap_show(&w, INK_WARN, buf_cstr(&partial));
		text_wrap_end(&w);
	}
	buf_free(&partial);
	if (t->r->effect.first) {
		w = text_wrap_begin(t, 2);
		text_wrap_rich(&w, &t->r->effect);
		text_wrap_end(&w);
	}
	if (!t->r->next.first)
		return;
	w = text_wrap_begin(t, 2);
	text_wrap_add(&w, INK_STRONG, "Next:");
	text_wrap_add(&w, INK_PLAIN, " ");
	text_wrap_rich(&w, &t->r->next);
	text_wrap_end(&w);
}

static void add_fact_value(const struct text_out *t, const struct fact *f, struct buf *s)
{
	text_value(t, &f->value, s);
	if (f->value.missing && !f->context)
		buf_str(s, " not measured");
}

/* Whole figures on a line; a figure is never torn. */
static void figures(const struct text_out *t)
{
	size_t column = 0;
	if (!t->r->figures.first)
		return;
	buf_char(t->out, '\n');
	for (const struct fact *f = t->r->figures.first; f; f = f->next) {
		struct buf label = { 0 }, value = { 0 }, context = { 0 };
		text_show(t, f->label, &label);
		add_fact_value(t, f, &value);
		if (f->context) {
			buf_str(&context, " (");
			text_show(t, f->context, &context);
			buf_char(&context, ')');
		}
		text_fit(t, VALUE_TEXT, &label, t->columns / 3);
		text_fit(t, VALUE_TEXT, &value, t->columns / 3);
		size_t width = utf8_width(buf_cstr(&label)) + 1 + utf8_width(buf_cstr(&value));
		text_fit(t, VALUE_TEXT, &context, t->columns - 2 - MIN(width, t->columns - 2));
		width += utf8_width(buf_cstr(&context));
		if (column && column + 3 + width > t->columns) {
			buf_char(t->out, '\n');
			column = 0;
		}
		text_pad(t, column ? 3 : 2);
		column += (column ? 3 : 2) + width;
		text_ink(t, INK_DIM, buf_cstr(&label));
		buf_char(t->out, ' ');
		text_ink(t, INK_STRONG, buf_cstr(&value));
		text_ink(t, INK_DIM, buf_cstr(&context));
		buf_free(&label);
		buf_free(&value);
		buf_free(&context);
	}
	buf_char(t->out, '\n');
}

static void how_item(const struct text_out *t, struct text_wrap *w, const struct fact *f)
{
	struct buf s = { 0 };
	/* The way needs no label; the others read on in the sentence. */
	if (!str_eq(f->label, "Way")) {
		struct buf label = { 0 };
		text_show(t, f->label, &label);
		if (label.len > 1 && !isupper((unsigned char)label.data[1]))
			label.data[0] = (char)tolower((unsigned char)label.data[0]);
		buf_str(&s, buf_cstr(&label));
		buf_char(&s, ' ');
		buf_free(&label);
	}
	size_t at = s.len;
	add_fact_value(t, f, &s);
	if (kind_is_text(f->value.kind) && s.len > at + 1 && f != t->r->how.first &&
	    islower((unsigned char)s.data[at + 1]))
		s.data[at] = (char)tolower((unsigned char)s.data[at]);
	if (f->context) {
		buf_str(&s, " (");
		text_show(t, f->context, &s);
		buf_char(&s, ')');
	}
	buf_str(&s, f->next ? "; " : ".");
	text_wrap_add(w, INK_DIM, buf_cstr(&s));
	buf_free(&s);
}

static void how(const struct text_out *t)
{
	struct buf cut = { 0 };
	if (t->r->how.first || doc_cut(t->r, &cut))
		buf_char(t->out, '\n');
	buf_clear(&cut);
	if (t->r->how.first) {
		struct text_wrap w = text_wrap_begin(t, 0);
		text_wrap_add(&w, INK_DIM, "How: ");
		for (const struct fact *f = t->r->how.first; f; f = f->next)
			how_item(t, &w, f);
		text_wrap_end(&w);
	}
	if (doc_cut(t->r, &cut)) {
		struct text_wrap w = text_wrap_begin(t, 0);
		text_wrap_add(&w, INK_DIM, buf_cstr(&cut));
		text_wrap_end(&w);
	}
	buf_free(&cut);
}

static void parameters(const struct text_out *t)
{
	struct text_wrap w = text_wrap_begin(t, 0);
	bool any = false;
	for (const struct report_param *p = t->r->first_param; p; p = p->next) {
		if (p->is_default)
			continue;
		text_wrap_add(&w, INK_DIM, any ? ", " : "Set by you: ");
		wrap_show(&w, INK_DIM, p->name);
		text_wrap_add(&w, INK_DIM, " = ");
		wrap_show(&w, INK_DIM, p->value);
		any = true;
	}
	if (any)
		text_wrap_add(&w, INK_DIM, ".");
	text_wrap_end(&w);
}

/* What the page shows beyond this text. */
static void details(const struct text_out *t)
{
	const char *between = "More as a page (-o FILE.html): ";
	struct text_wrap w = text_wrap_begin(t, 2);
	for (const struct block *b = t->r->first_block; b; b = b->next) {
		if (!b->detail)
			continue;
		if (*between != ',')
			buf_char(t->out, '\n');
		text_wrap_add(&w, INK_DIM, between);
		wrap_show(&w, INK_DIM, b->title);
		between = ", ";
	}
	if (*between == ',')
		text_wrap_add(&w, INK_DIM, ".");
	text_wrap_end(&w);
}

void report_render_text(const struct report *r, const struct report_text_style *style, struct buf *out)
{
	struct text_out t = { .r = r, .out = out, .columns = 100 };
	if (style) {
		t.columns = style->columns ? MIN(MAX(style->columns, 40u), 400u) : 100;
		t.colour = style->colour;
		t.ascii = style->ascii;
	}
	title_line(&t);
	buf_char(out, '\n');
	verdict(&t);
	bool is_short = doc_is_short(r);
	if (!is_short)
		figures(&t);
	for (const struct block *b = r->first_block; b; b = b->next) {
		if (!b->detail && (!is_short || b->asked || b->kind == BLOCK_NOTE || b->kind == BLOCK_FINDINGS))
			text_block(&t, b);
	}
	if (!is_short)
		details(&t);
	how(&t);
	parameters(&t);
}
