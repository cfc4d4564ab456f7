/* Findings, and sections that take over what another profiler has found. */

#include "report/doc.h"
#include "base/fmt.h"
#include "base/str.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

#define NS_A_DAY (24 * 3600e9)
#define DATE_END 11
#define MINUTES_END 16

struct report_findings *report_findings(struct report *r, const char *title, bool brief)
{
	struct report_findings *f = block_add(r, BLOCK_FINDINGS, title ? title : "", sizeof(*f));
	f->brief = brief;
	return f;
}

struct rich *report_finding_add(struct report_findings *f, const char *finding, unsigned severity,
				const char *confidence)
{
	struct report *r = f->block.report;
	struct finding_item *item = arena_zalloc(&r->arena, sizeof(*item));
	item->finding = doc_text(r, finding ? finding : "");
	item->confidence = doc_text(r, confidence);
	item->severity = MIN(severity, (unsigned)SEVERITY_MAX);
	item->text.report = r;
	if (f->n == FINDINGS_MAX) {
		r->cut_items++;
		return &item->text;
	}
	if (f->last)
		f->last->next = item;
	else
		f->first = item;
	f->last = item;
	f->n++;
	return &item->text;
}

struct rich *report_section(struct report *r, const char *title, const char *profiler, enum report_health health,
			    const char *finding)
{
	struct report_section *s = block_add(r, BLOCK_SECTION, title ? title : "", sizeof(*s));
	s->profiler = doc_text(r, profiler);
	s->finding = doc_text(r, finding);
	s->health = health;
	s->text.report = r;
	return &s->text;
}

void report_take_blocks(struct report *r, struct report *from, size_t shown)
{
	for (struct block *b = from->first_block, *next; b; b = next) {
		next = b->next;
		b->detail |= !shown && b->kind < BLOCK_NOTE;
		shown -= shown && !b->detail;
		if (r->n_blocks == BLOCKS_MAX)
			r->cut_items++;
		else
			block_append(r, b);
	}
	r->cut_strings += from->cut_strings;
	r->cut_items += from->cut_items;
	from->first_block = from->last_block = NULL;
	from->next_taken = r->taken;
	r->taken = from;
}

const char *doc_when(const struct report *r, int64_t unix_ns, struct buf *out)
{
	struct fmt_text when = fmt_time_utc(unix_ns); /* "2026-11-15 03:12:09Z" */
	bool today = fabs((double)r->facts.when_unix_ns - (double)unix_ns) < NS_A_DAY;
	if (strlen(when.s) > MINUTES_END)
		buf_printf(out, "%.*s", today ? MINUTES_END - DATE_END : MINUTES_END,
			   today ? when.s + DATE_END : when.s);
	return buf_cstr(out);
}

const char *doc_first_seen(const struct report *r, const struct finding_item *i, struct buf *out)
{
	if (i->first_seen_unix_ns) {
		buf_str(out, ", first seen ");
		doc_when(r, i->first_seen_unix_ns, out);
	}
	return buf_cstr(out);
}

double report_how_number(const struct report *r, const char *label)
{
	for (const struct fact *f = r->how.first; f; f = f->next)
		if (str_eq(f->label, label) && !f->value.missing && !kind_is_text(f->value.kind))
			return f->value.number;
	return NAN;
}

void rich_add(struct rich *t, const struct rich *from)
{
	for (const struct piece *p = from->first; p; p = p->next) {
		struct piece *copy = rich_piece(t, p->kind, p->text);
		if (copy)
			copy->data = p->data;
	}
}

/* Where the first sentence of the text ends, behind its full stop; NULL = not in it. */
static const char *sentence_end(const char *text)
{
	for (const char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.'))
		if (!dot[1] ||
		    (dot[1] == ' ' && (isupper((unsigned char)dot[2]) || isdigit((unsigned char)dot[2]) || !dot[2])))
			return dot + 1;
	return NULL;
}

/* Where a text is cut: in that piece, at that place of it. */
struct cut {
	const struct piece *piece; /* NULL: nowhere */
	const char *at;
};

/* Behind the first sentence, or behind the first that names a place in code. */
static struct cut cut_of(const struct rich *from, bool place)
{
	bool there = !place;
	for (const struct piece *p = from->first; p; p = p->next) {
		const char *end = there && p->kind != PIECE_CODE ? sentence_end(p->text) : NULL;
		if (end)
			return (struct cut){ p, end };
		there |= p->kind == PIECE_CODE;
	}
	return (struct cut){ 0 };
}

static void add_part(struct rich *t, const struct piece *of, const char *text, size_t len)
{
	CLEANUP(mem_freep) char *part = mem_strndup(text, len);
	struct piece *copy = len ? rich_piece(t, of->kind, part) : NULL;
	if (copy)
		copy->data = of->data;
}

static void add_until(struct rich *t, const struct rich *from, const struct cut *cut)
{
	for (const struct piece *p = from->first; p; p = p->next) {
		bool last = p == cut->piece;
		add_part(t, p, p->text, last ? (size_t)(cut->at - p->text) : strlen(p->text));
		if (last)
			return;
	}
}

void rich_add_place(struct rich *t, const struct rich *from)
{
	struct cut cut = cut_of(from, true);
	add_until(t, from, &cut);
}

void rich_add_rest(struct rich *t, const struct rich *from)
{
	struct cut cut = cut_of(from, true);
	const char *at = cut.piece ? cut.at + strspn(cut.at, " ") : NULL;
	for (const struct piece *p = cut.piece; p; p = p->next, at = NULL)
		add_part(t, p, at ? at : p->text, strlen(at ? at : p->text));
}

void rich_add_clause(struct rich *t, const struct rich *from)
{
	struct cut cut = cut_of(from, false);
	struct rich part = { .report = t->report };
	if (cut.piece)
		cut.at--;
	add_until(&part, from, &cut);
	const struct piece *first = part.first, *last = part.last;
	for (const struct piece *p = first; p; p = p->next) {
		CLEANUP(mem_freep) char *text = mem_strdup(p->text);
		size_t len = strlen(text);
		if (p == first && p->kind != PIECE_CODE && len > 1 && !isupper((unsigned char)text[1]))
			text[0] = (char)tolower((unsigned char)text[0]);
		add_part(t, p, text, p == last && !cut.piece && str_ends(text, ".") ? len - 1 : len);
	}
}
