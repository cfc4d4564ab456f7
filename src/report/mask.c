/* Values out of the target's memory, as their shape: what is handed to others shows how long and how built they are, but
 * not what they say. */

#include "report/doc.h"
#include "base/str.h"
#include <string.h>

#define ELLIPSIS 0x2026 /* ours: the value goes on */

static uint32_t shape_of(uint32_t cp)
{
	if (cp >= '0' && cp <= '9')
		return '9';
	if (cp >= 'A' && cp <= 'Z')
		return 'X';
	return (cp >= 'a' && cp <= 'z') || (cp >= 0x80 && cp != ELLIPSIS) ? 'x' : cp;
}

void report_mask_text(const char *text, struct buf *out)
{
	for (size_t at = 0, len = strlen(text); at < len;) {
		uint32_t cp = 0xFFFD;
		size_t n = utf8_decode(text + at, len - at, &cp);
		utf8_encode(out, shape_of(cp));
		at += n ? n : 1;
	}
}

static const char *shape(struct report *r, const char *s)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	report_mask_text(s, &out);
	return doc_text(r, buf_cstr(&out));
}

static void mask_pieces(struct rich *t)
{
	for (struct piece *p = t->first; p; p = p->next) {
		if (p->data)
			p->text = shape(t->report, p->text);
		p->data = false;
	}
}

/* Texts of ours between them, such as "12 smaller values", are no code. */
static void mask_cells(struct report_table *t, size_t column)
{
	for (struct report_row *row = t->top.first_child; row; row = (struct report_row *)(uintptr_t)row_next(row)) {
		struct value *v = &row->cells[column];
		if (v->kind == VALUE_CODE && !v->missing)
			v->text = shape(t->block.report, v->text);
	}
}

static void mask_table(struct report_table *t)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		struct column *c = &t->columns[i];
		if (!(c->flags & COLUMN_DATA))
			continue;
		mask_cells(t, i);
		CLEANUP(mem_freep) char *name = mem_printf("%s (masked)", c->name);
		c->name = doc_text(t->block.report, name);
		c->flags &= ~(unsigned)COLUMN_DATA;
	}
}

static void mask_findings(struct report_findings *f)
{
	for (struct finding_item *i = f->first; i; i = i->next)
		mask_pieces(&i->text);
}

static void mask_block(struct block *b)
{
	switch (b->kind) {
	case BLOCK_TABLE:
	case BLOCK_TREE:
		mask_table((struct report_table *)b);
		break;
	case BLOCK_NOTE:
		mask_pieces(&((struct report_note *)b)->text);
		break;
	case BLOCK_FINDINGS:
		mask_findings((struct report_findings *)b);
		break;
	case BLOCK_SECTION:
		mask_pieces(&((struct report_section *)b)->text);
		break;
	case BLOCK_CHART:
	case BLOCK_HISTOGRAM:
	case BLOCK_FLAME:
		break;
	}
}

void report_mask(struct report *r)
{
	mask_pieces(&r->verdict);
	mask_pieces(&r->next);
	for (struct block *b = r->first_block; b; b = b->next)
		mask_block(b);
	for (struct report_param *p = r->first_param; p; p = p->next) {
		if (p->data)
			p->value = shape(r, p->value);
		p->data = false;
	}
}
