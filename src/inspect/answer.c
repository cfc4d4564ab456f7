#include "inspect/answer.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define MAX_COLUMNS 10
#define TEXT_COLUMNS 120 /* of a cell that is not the last */
#define LAST_COLUMNS 400
#define JSON_TEXT_BYTES 65536

struct answer_row {
	struct answer_row *next;
	struct cell cells[];
};
struct answer_part {
	struct answer_part *next;
	const char *text; /* a line; NULL = a table */
	const char *title;
	const char *columns[MAX_COLUMNS];
	size_t n_columns;
	bool plain;
	struct answer_row *first, *last;
};

void answer_free(struct answer *a)
{
	arena_free(&a->arena);
	a->first = a->last = NULL;
}

static struct answer_part *add_part(struct answer *a)
{
	struct answer_part *p = arena_zalloc(&a->arena, sizeof(*p));
	if (a->last)
		a->last->next = p;
	else
		a->first = p;
	a->last = p;
	return p;
}

void answer_line(struct answer *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	add_part(a)->text = arena_strdup(&a->arena, text);
}

void answer_table_begin(struct answer *a, const char *title, const char *const *columns, size_t n)
{
	struct answer_part *p = add_part(a);
	p->title = title ? arena_strdup(&a->arena, title) : NULL;
	for (size_t i = 0; i < n && i < MAX_COLUMNS; i++)
		p->columns[p->n_columns++] = columns[i];
}

void answer_plain(struct answer *a)
{
	a->last->plain = true;
}

void answer_row(struct answer *a, const struct cell *cells)
{
	struct answer_part *p = a->last;
	struct answer_row *row = arena_zalloc(&a->arena, sizeof(*row) + p->n_columns * sizeof(*cells));
	for (size_t i = 0; i < p->n_columns; i++) {
		row->cells[i] = cells[i];
		if (cells[i].text)
			row->cells[i].text = arena_strdup(&a->arena, cells[i].text);
	}
	if (p->last)
		p->last->next = row;
	else
		p->first = row;
	p->last = row;
}

/* ---- text ---- */

static void cell_text(const struct cell *c, size_t columns, struct buf *out)
{
	switch (c->kind) {
	case CELL_TEXT:
		if (c->text)
			str_add_visible(out, c->text, strlen(c->text), columns);
		break;
	case CELL_ADDRESS:
		buf_printf(out, "%012llx", (unsigned long long)c->number);
		break;
	case CELL_COUNT:
		buf_str(out, fmt_count(c->number).s);
		break;
	case CELL_BYTES:
		buf_str(out, fmt_bytes(c->number).s);
		break;
	case CELL_NONE:
		break;
	}
}

static bool is_number(const struct answer_part *p, size_t column)
{
	for (const struct answer_row *r = p->first; r; r = r->next)
		if (r->cells[column].kind == CELL_TEXT || r->cells[column].kind == CELL_ADDRESS)
			return false;
	return true;
}

static void add_padded(struct buf *out, const char *text, size_t width, bool right, bool last)
{
	size_t used = utf8_width(text), fill = used < width ? width - used : 0;
	buf_repeat(out, " ", right ? fill : 0);
	buf_str(out, text);
	buf_repeat(out, " ", right || last ? 0 : fill);
	buf_str(out, last ? "" : "  ");
}

static void table_text(const struct answer_part *p, struct buf *out)
{
	size_t width[MAX_COLUMNS], n = p->n_columns;
	CLEANUP(buf_free) struct buf text = { 0 };
	for (size_t i = 0; i < n; i++) {
		width[i] = p->plain ? 0 : utf8_width(p->columns[i]);
		for (const struct answer_row *r = p->first; r; r = r->next) {
			buf_clear(&text);
			cell_text(&r->cells[i], i + 1 < n ? TEXT_COLUMNS : LAST_COLUMNS, &text);
			width[i] = MAX(width[i], utf8_width(buf_cstr(&text)));
		}
	}
	if (p->title)
		buf_printf(out, "%s\n", p->title);
	for (size_t i = 0; i < n && !p->plain; i++)
		add_padded(out, p->columns[i], width[i], is_number(p, i), i + 1 == n);
	if (!p->plain)
		buf_char(out, '\n');
	for (const struct answer_row *r = p->first; r; r = r->next) {
		size_t start = out->len;
		buf_str(out, p->plain ? "    " : "");
		for (size_t i = 0; i < n; i++) {
			buf_clear(&text);
			cell_text(&r->cells[i], i + 1 < n ? TEXT_COLUMNS : LAST_COLUMNS, &text);
			add_padded(out, buf_cstr(&text), width[i], is_number(p, i), i + 1 == n);
		}
		while (out->len > start && out->data[out->len - 1] == ' ')
			out->len--;
		buf_char(out, '\n');
	}
}

void answer_write_text(const struct answer *a, struct buf *out)
{
	for (const struct answer_part *p = a->first; p; p = p->next) {
		if (p->text) {
			buf_printf(out, "%s\n", p->text);
			continue;
		}
		if (p != a->first)
			buf_char(out, '\n');
		table_text(p, out);
	}
}

/* ---- JSON ---- */

static void cell_json(struct jsonw *w, const char *key, const struct cell *c)
{
	char address[20];
	switch (c->kind) {
	case CELL_TEXT:
		if (c->text)
			jsonw_strn(w, key, c->text, strnlen(c->text, JSON_TEXT_BYTES));
		else
			jsonw_null(w, key);
		break;
	case CELL_ADDRESS:
		snprintf(address, sizeof(address), "0x%llx", (unsigned long long)c->number);
		jsonw_str(w, key, address);
		break;
	case CELL_COUNT:
	case CELL_BYTES:
		jsonw_u64(w, key, c->number);
		break;
	case CELL_NONE:
		jsonw_null(w, key);
		break;
	}
}

void answer_write_json(const struct answer *a, struct jsonw *w)
{
	jsonw_array(w, "lines");
	for (const struct answer_part *p = a->first; p; p = p->next)
		if (p->text)
			jsonw_str(w, NULL, p->text);
	jsonw_array_end(w);
	jsonw_array(w, "tables");
	for (const struct answer_part *p = a->first; p; p = p->next) {
		if (p->text)
			continue;
		jsonw_object(w, NULL);
		jsonw_str(w, "title", p->title);
		jsonw_array(w, "rows");
		for (const struct answer_row *r = p->first; r; r = r->next) {
			jsonw_object(w, NULL);
			for (size_t i = 0; i < p->n_columns; i++)
				cell_json(w, p->columns[i], &r->cells[i]);
			jsonw_object_end(w);
		}
		jsonw_array_end(w);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}
