#include "report/doc.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CUT_MARK_MAX 64 /* room for "… (1,048,576 bytes)" */

void report_clear(struct report *r)
{
	arena_free(&r->arena);
	*r = (struct report){ .figures.max = FIGURES_MAX, .how.max = HOW_MAX };
	r->verdict.report = r->effect.report = r->next.report = r;
}

struct report *report_new(void)
{
	struct report *r = mem_zalloc(sizeof(*r));
	report_clear(r);
	return r;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	while (r->taken) {
		struct report *one = r->taken;
		r->taken = one->next_taken;
		report_free(one);
	}
	arena_free(&r->arena);
	mem_free(r);
}

const char *doc_text(struct report *r, const char *s)
{
	if (!s)
		return NULL;
	size_t len = strlen(s), valid = 0;
	uint32_t cp;
	for (size_t i = 0; i < len && valid <= TEXT_MAX;) {
		size_t n = utf8_decode(s + i, len - i, &cp);
		valid += n ? n : 3;
		i += n ? n : 1;
	}
	size_t room = valid > TEXT_MAX ? TEXT_MAX - CUT_MARK_MAX : TEXT_MAX;
	char *copy = arena_alloc(&r->arena, MIN(valid, room) + CUT_MARK_MAX + 1);
	size_t o = 0, i = 0;
	while (i < len) {
		size_t n = utf8_decode(s + i, len - i, &cp);
		if (o + (n ? n : 3) > room)
			break;
		memcpy(copy + o, n ? s + i : "\xef\xbf\xbd", n ? n : 3);
		o += n ? n : 3;
		i += n ? n : 1;
	}
	copy[o] = '\0';
	if (i < len) {
		snprintf(copy + o, CUT_MARK_MAX, "… (%s bytes)", fmt_count(len).s);
		r->cut_strings++;
	}
	return copy;
}

/* How long the string was before doc_text() cut it. */
static uint64_t text_bytes(const char *s)
{
	size_t len = strlen(s);
	if (len < TEXT_MAX - CUT_MARK_MAX || !str_ends(s, " bytes)"))
		return len;
	const char *digits = strrchr(s, '(');
	uint64_t n = 0;
	for (const char *p = digits + 1; digits && *p != ' ' && n < UINT64_MAX / 16; p++) {
		if (*p >= '0' && *p <= '9')
			n = n * 10 + (uint64_t)(*p - '0');
		else if (*p != ',')
			return len;
	}
	return MAX(n, (uint64_t)len);
}

void doc_show(const char *s, size_t max_chars, struct buf *out)
{
	size_t len = strlen(s), chars = 0, end = 0;
	uint32_t cp;
	while (end < len && chars < max_chars) {
		size_t n = utf8_decode(s + end, len - end, &cp);
		end += n ? n : 1;
		chars++;
	}
	str_add_visible(out, s, end, 0);
	if (end < len)
		buf_printf(out, "… (%s bytes)", fmt_count(text_bytes(s)).s);
}

/* What never should be full is: take it, but keep it out of the report and say so. */
static void *left_out(struct report *r, size_t size)
{
	r->cut_items++;
	return arena_zalloc(&r->arena, size);
}

void report_set_facts(struct report *r, const struct report_facts *facts)
{
	r->facts = *facts;
	const char **texts[] = { &r->facts.profiler,  &r->facts.title,	&r->facts.process, &r->facts.runtime,
				 &r->facts.container, &r->facts.pod,	&r->facts.host,	   &r->facts.session,
				 &r->facts.version,   &r->facts.partial };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		*texts[i] = doc_text(r, *texts[i]);
	r->facts.window_ns = MIN(facts->window_ns, (uint64_t)INT64_MAX);
}

const struct report_facts *report_facts(const struct report *r)
{
	return &r->facts;
}

struct piece *rich_piece(struct rich *t, enum piece_kind kind, const char *text)
{
	if (!text || !*text)
		return NULL;
	if (t->n == PIECES_MAX) {
		t->report->cut_items++;
		return NULL;
	}
	struct piece *p = arena_zalloc(&t->report->arena, sizeof(*p));
	p->kind = kind;
	p->text = doc_text(t->report, text);
	if (t->last)
		t->last->next = p;
	else
		t->first = p;
	t->last = p;
	t->n++;
	return p;
}

void rich_text(struct rich *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *s = mem_vprintf(fmt, ap);
	va_end(ap);
	rich_piece(t, PIECE_TEXT, s);
}

void rich_strong(struct rich *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *s = mem_vprintf(fmt, ap);
	va_end(ap);
	rich_piece(t, PIECE_STRONG, s);
}

void rich_code(struct rich *t, const char *s)
{
	rich_piece(t, PIECE_CODE, s);
}

void rich_data(struct rich *t, const char *s)
{
	struct piece *p = rich_piece(t, PIECE_CODE, s);
	if (p)
		p->data = true;
}

void rich_plain(const struct rich *t, struct buf *out)
{
	for (const struct piece *p = t->first; p; p = p->next)
		str_add_visible(out, p->text, strlen(p->text), 0);
}

struct rich *report_verdict(struct report *r, enum report_health health, const char *finding)
{
	r->verdict = (struct rich){ .report = r };
	r->health = health;
	r->finding = doc_text(r, finding ? finding : "");
	return &r->verdict;
}

enum report_health report_health(const struct report *r)
{
	return r->health;
}

const char *report_finding(const struct report *r)
{
	return r->finding;
}

const struct rich *report_verdict_text(const struct report *r)
{
	return &r->verdict;
}

struct rich *report_effect(struct report *r)
{
	return &r->effect;
}

const struct rich *report_next_text(const struct report *r)
{
	return &r->next;
}

void report_set_next_profiler(struct report *r, const char *id)
{
	r->next_profiler = doc_text(r, id);
}

struct rich *report_next(struct report *r)
{
	r->next = (struct rich){ .report = r };
	return &r->next;
}

static struct value value_keep(struct report *r, struct value v, enum value_kind if_missing)
{
	bool text = kind_is_text(v.kind);
	if (v.missing || (text ? !v.text : !isfinite(v.number)))
		return (struct value){ .kind = if_missing, .missing = true };
	if (text)
		return (struct value){ .kind = v.kind, .text = doc_text(r, v.text) };
	return (struct value){ .kind = v.kind, .number = v.number + 0.0 }; /* no minus zero */
}

static void fact_add(struct report *r, struct fact_list *list, const char *label, struct value v, const char *context)
{
	if (list->n == list->max) {
		r->cut_items++;
		return;
	}
	struct fact *f = arena_zalloc(&r->arena, sizeof(*f));
	f->label = doc_text(r, label ? label : "");
	f->context = doc_text(r, context);
	f->value = value_keep(r, v, v.kind);
	if (list->last)
		list->last->next = f;
	else
		list->first = f;
	list->last = f;
	list->n++;
}

void report_figure(struct report *r, const char *label, struct value value, const char *context)
{
	fact_add(r, &r->figures, label, value, context);
}

void report_how(struct report *r, const char *label, struct value value, const char *context)
{
	fact_add(r, &r->how, label, value, context);
}

void report_param(struct report *r, const char *name, const char *value, bool is_default)
{
	if (r->n_params == PARAMS_MAX) {
		r->cut_items++;
		return;
	}
	struct report_param *p = arena_zalloc(&r->arena, sizeof(*p));
	p->name = doc_text(r, name ? name : "");
	p->value = doc_text(r, value ? value : "");
	p->is_default = is_default;
	if (r->last_param)
		r->last_param->next = p;
	else
		r->first_param = p;
	r->last_param = p;
	r->n_params++;
}

void report_param_is_data(struct report *r)
{
	if (r->last_param)
		r->last_param->data = true;
}

void block_append(struct report *r, struct block *b)
{
	b->next = NULL;
	if (r->last_block)
		r->last_block->next = b;
	else
		r->first_block = b;
	r->last_block = b;
	r->n_blocks++;
}

void block_to_front(struct report *r)
{
	struct block *last = r->last_block, *before = r->first_block;
	if (!last || last == before)
		return;
	while (before->next != last)
		before = before->next;
	before->next = NULL;
	r->last_block = before;
	last->next = r->first_block;
	r->first_block = last;
}

void *block_add(struct report *r, enum block_kind kind, const char *title, size_t size)
{
	bool full = r->n_blocks == BLOCKS_MAX;
	struct block *b = full ? left_out(r, size) : arena_zalloc(&r->arena, size);
	b->report = r;
	b->kind = kind;
	b->title = doc_text(r, title);
	b->detail = r->details && (kind < BLOCK_NOTE || kind == BLOCK_SECTION);
	b->asked = r->asked && kind < BLOCK_NOTE;
	if (!full)
		block_append(r, b);
	return b;
}

void report_details(struct report *r)
{
	r->details = true;
}

void report_asked(struct report *r)
{
	r->asked = true;
}

static struct report_table *table_new(struct report *r, enum block_kind kind, const char *title)
{
	struct report_table *t = block_add(r, kind, title ? title : "", sizeof(*t));
	t->top.table = t;
	return t;
}

struct report_table *report_table(struct report *r, const char *title)
{
	return table_new(r, BLOCK_TABLE, title);
}

struct report_table *report_tree(struct report *r, const char *title)
{
	return table_new(r, BLOCK_TREE, title);
}

void report_column(struct report_table *t, const char *name, enum value_kind kind, unsigned flags)
{
	if (t->n_columns == COLUMNS_MAX || t->n_rows) {
		t->block.report->cut_items++;
		return;
	}
	t->columns[t->n_columns++] = (struct column){
		.name = doc_text(t->block.report, name ? name : ""),
		.kind = kind,
		.flags = flags,
	};
}

static struct value *cells_keep(struct report_table *t, const struct value *cells)
{
	struct value *kept = arena_zalloc(&t->block.report->arena, MAX(t->n_columns, (size_t)1) * sizeof(*kept));
	for (size_t i = 0; i < t->n_columns; i++) {
		kept[i] = value_keep(t->block.report, cells[i], t->columns[i].kind);
		kept[i].with_sign = t->columns[i].flags & COLUMN_SIGNED;
	}
	return kept;
}

/* Does a belong before b? Only numbers of the main column count; what was not measured goes last. */
static bool is_larger(const struct report_table *t, const struct report_row *a, const struct report_row *b)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		if (!(t->columns[i].flags & COLUMN_MAIN) || kind_is_text(t->columns[i].kind))
			continue;
		bool a_known = !a->cells[i].missing && !kind_is_text(a->cells[i].kind);
		bool b_known = !b->cells[i].missing && !kind_is_text(b->cells[i].kind);
		return a_known && (!b_known || a->cells[i].number > b->cells[i].number);
	}
	return false;
}

static void row_link(struct report_row *row)
{
	struct report_row *after = row->parent->last_child;
	while (after && is_larger(row->table, row, after))
		after = after->prev;
	row->prev = after;
	row->next = after ? after->next : row->parent->first_child;
	*(row->next ? &row->next->prev : &row->parent->last_child) = row;
	*(after ? &after->next : &row->parent->first_child) = row;
}

static void drop_last(struct report_table *t)
{
	struct report_row *last = t->top.last_child;
	last->dropped = true;
	t->top.last_child = last->prev;
	if (last->prev)
		last->prev->next = NULL;
}

struct report_row *row_add(struct report_row *parent, const struct value *cells)
{
	struct report_table *t = parent->table;
	bool tree = t->block.kind == BLOCK_TREE;
	struct report_row *row = arena_zalloc(&t->block.report->arena, sizeof(*row));
	row->table = t;
	row->parent = parent;
	row->depth = parent == &t->top ? 0 : parent->depth + 1;
	row->cells = cells_keep(t, cells);
	if (parent->dropped || (tree ? t->n_rows == TREE_ROWS_MAX || row->depth == TREE_DEPTH_MAX : row->depth > 0)) {
		row->dropped = true;
		t->rows_cut++;
		return row;
	}
	row_link(row);
	if (!tree && t->n_rows == ROWS_MAX) {
		drop_last(t);
		t->rows_cut++;
	} else {
		t->n_rows++;
	}
	return row;
}

struct report_row *report_row(struct report_table *t, const struct value *cells)
{
	return row_add(&t->top, cells);
}

struct report_row *report_child(struct report_row *parent, const struct value *cells)
{
	return row_add(parent, cells);
}

void report_rest(struct report_table *t, const struct value *cells)
{
	t->rest = cells_keep(t, cells);
}

void report_row_line(struct report_row *row, enum value_kind kind, const char *text, const char *right)
{
	struct report *r = row->table->block.report;
	if (row->n_lines == LINES_MAX) {
		row->lines_cut++;
		return;
	}
	struct row_line *l = arena_zalloc(&r->arena, sizeof(*l));
	l->kind = kind == VALUE_CODE ? VALUE_CODE : VALUE_TEXT;
	l->text = doc_text(r, text ? text : "");
	l->right = doc_text(r, right);
	if (row->last_line)
		row->last_line->next = l;
	else
		row->first_line = l;
	row->last_line = l;
	row->n_lines++;
}

struct rich *report_note(struct report *r, enum report_health health)
{
	struct report_note *n = block_add(r, BLOCK_NOTE, NULL, sizeof(*n));
	n->health = health;
	n->text.report = r;
	return &n->text;
}

const struct report_row *row_next(const struct report_row *row)
{
	if (row->first_child)
		return row->first_child;
	while (row && !row->next)
		row = row->parent;
	return row ? row->next : NULL;
}

static double column_max(const struct report_table *t, size_t column)
{
	double max = 0;
	for (const struct report_row *row = table_first(t); row; row = row_next(row)) {
		const struct value *v = &row->cells[column];
		if (!v->missing && !kind_is_text(v->kind))
			max = MAX(max, v->number);
	}
	return max;
}

double bar_whole(const struct report_table *t, size_t column)
{
	double max = column_max(t, column);
	return t->columns[column].kind == VALUE_RATIO && max <= 1 ? 1 : max;
}

double bar_share(double whole, const struct value *v)
{
	if (v->missing || kind_is_text(v->kind) || v->number <= 0 || whole <= 0)
		return 0;
	return MIN(v->number / whole, 1.0);
}

size_t table_name_column(const struct report_table *t)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		if (kind_is_text(t->columns[i].kind))
			return i;
	}
	return 0;
}

bool table_has_missing(const struct report_table *t)
{
	for (const struct report_row *row = table_first(t); row; row = row_next(row)) {
		for (size_t i = 0; i < t->n_columns; i++) {
			if (row->cells[i].missing)
				return true;
		}
	}
	return false;
}

bool doc_is_short(const struct report *r)
{
	return str_eq(r->finding, "nothing-found") || (r->finding && r->health == REPORT_OK);
}

const char *doc_partial(const struct report *r, struct buf *out)
{
	/* That verdict says it. */
	if (str_empty(r->facts.partial) || str_eq(r->finding, "not-seen"))
		return NULL;
	struct fmt_text window = fmt_duration_ns(r->facts.window_ns);
	if (r->facts.window_ns && !strstr(r->facts.partial, window.s))
		buf_printf(out, "Only the first %s: %s.", window.s, r->facts.partial);
	else
		buf_printf(out, "Only a part: %s.", r->facts.partial);
	return buf_cstr(out);
}

const char *doc_cut(const struct report *r, struct buf *out)
{
	if (r->cut_strings)
		buf_printf(out, "%s cut at %u KB.", fmt_plural(r->cut_strings, "long text was", "long texts were").s,
			   TEXT_MAX / 1024);
	if (r->cut_items)
		buf_printf(out, "%s%s did not fit this report.", out->len ? " " : "",
			   fmt_plural(r->cut_items, "part", "parts").s);
	return out->len ? buf_cstr(out) : NULL;
}

static uint64_t to_u64(double x)
{
	return x >= 18446744073709549568.0 ? UINT64_MAX : (uint64_t)(x + 0.5);
}

void number_add(struct buf *out, enum value_kind kind, double number)
{
	double x = fabs(number);
	struct fmt_text t;
	switch (kind) {
	case VALUE_COUNT:
		t = fmt_count(to_u64(x));
		break;
	case VALUE_BYTES:
		t = fmt_bytes(to_u64(x));
		break;
	case VALUE_NS:
		t = fmt_duration_ns(to_u64(x));
		break;
	case VALUE_RATIO:
		t = fmt_percent(x);
		break;
	case VALUE_RATE:
		t = fmt_rate(x);
		break;
	case VALUE_TIME:
		t = fmt_time_utc((int64_t)MIN(MAX(number, -9.2e18), 9.2e18));
		number = 0;
		break;
	default:
		t = fmt_number(x);
	}
	/* Not for what rounds to nothing: "-0" says less than "0". */
	if (number < 0 && strcspn(t.s, "123456789") < strlen(t.s))
		buf_char(out, '-');
	buf_str(out, t.s);
}

void value_add(struct buf *out, const struct report *r, const struct value *v)
{
	if (v->missing) {
		buf_str(out, "–");
	} else if (kind_is_text(v->kind)) {
		buf_str(out, v->text);
	} else if (v->kind == VALUE_TIME) {
		int64_t at = (int64_t)MIN(MAX(v->number, -9.2e18), 9.2e18);
		at = (at + NS_PER_MS / 2) / NS_PER_MS * NS_PER_MS; /* a double is not exact to the last digits */
		struct fmt_text t = fmt_time_iso(at), day = fmt_time_iso(r->facts.when_unix_ns);
		bool same_day = r->facts.when_unix_ns && at > 0 && !memcmp(t.s, day.s, 11);
		buf_str(out, same_day ? t.s + 11 : fmt_time_utc(at).s);
	} else {
		if (v->with_sign && v->number > 0)
			buf_char(out, '+');
		number_add(out, v->kind, v->number);
	}
}
