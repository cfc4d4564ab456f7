#include "report/compare_changes.h"
#include "base/str.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What counts as a change, for everybody who compares: points of a share, part of anything else. compare.c says so in
 * words. */
#define POINTS_LEAST 0.02
#define SHARE_LEAST 0.10

const char *const change_status_names[] = { "same", "grew", "shrank", "new", "gone" };

bool change_matters(enum value_kind kind, double before, double after, double size)
{
	if (kind == VALUE_RATIO)
		return size >= POINTS_LEAST;
	return size > 0 && size >= SHARE_LEAST * MAX(fabs(before), fabs(after));
}

static enum change_status status_of(const struct compared *l, const struct change *c)
{
	if (!change_matters(l->value.kind, c->before, c->after, c->size))
		return CHANGE_SAME;
	if (!c->in_before && l->all_before)
		return CHANGE_NEW;
	if (!c->in_after && l->all_after)
		return CHANGE_GONE;
	return c->in_after && (!c->in_before || c->after > c->before) ? CHANGE_GREW : CHANGE_SHRANK;
}

struct change *change_of(struct changes *list, struct strtab *keys, const char *key, size_t len)
{
	uint32_t id = strtab_add(keys, key, len);
	if (id == list->n)
		vec_push(list, ((struct change){ 0 }));
	return &list->v[id];
}

/* ---- tables ---- */

static bool is_amount(const struct column *c)
{
	return c->kind == VALUE_BYTES || c->kind == VALUE_NS;
}

/* The main one, else the first amount, else the first number. */
static bool numbers_column(const struct report_table *t, size_t *ret)
{
	const struct column *best = NULL;
	for (const struct column *c = t->columns; c < t->columns + t->n_columns; c++) {
		bool main = c->flags & COLUMN_MAIN;
		if (kind_is_text(c->kind) || (c->kind == VALUE_TIME && !main))
			continue;
		if (!best || main || (is_amount(c) && !is_amount(best)))
			best = c;
		if (main)
			break;
	}
	*ret = best ? (size_t)(best - t->columns) : 0;
	return best;
}

static const struct block *find_block(const struct report *r, enum block_kind kind, const char *title)
{
	for (const struct block *b = r->first_block; b; b = b->next) {
		if (b->kind == kind && str_eq(b->title, title))
			return b;
	}
	return NULL;
}

/* One table on both sides, and its columns that are compared. */
struct compare_pair {
	const struct report_table *before, *after;
	size_t names_before[CHANGE_NAMES_MAX], names_after[CHANGE_NAMES_MAX], n_names, value_before, value_after;
};

static size_t same_column(const struct report_table *t, const struct column *wanted)
{
	size_t i = 0;
	while (i < t->n_columns && !(kind_is_text(t->columns[i].kind) && str_eq(t->columns[i].name, wanted->name)))
		i++;
	return i;
}

/* What names a row: its first text, and further names out of the target that both have. Other texts (states, remarks)
 * differ from run to run. */
static void pair_names(struct compare_pair *p)
{
	p->names_before[0] = table_name_column(p->before);
	p->names_after[0] = table_name_column(p->after);
	p->n_names = 1;
	for (size_t i = 0; i < p->after->n_columns && p->n_names < CHANGE_NAMES_MAX; i++) {
		const struct column *c = &p->after->columns[i];
		size_t was = same_column(p->before, c);
		if (i == p->names_after[0] || c->kind != VALUE_CODE || was == p->before->n_columns)
			continue;
		p->names_before[p->n_names] = was;
		p->names_after[p->n_names++] = i;
	}
}

static bool make_pair(const struct block *before, const struct block *after, struct compare_pair *ret)
{
	*ret = (struct compare_pair){ .before = (const struct report_table *)before,
				      .after = (const struct report_table *)after };
	if (!numbers_column(ret->before, &ret->value_before) || !numbers_column(ret->after, &ret->value_after))
		return false;
	pair_names(ret);
	const struct column *was = &ret->before->columns[ret->value_before],
			    *is = &ret->after->columns[ret->value_after];
	return was->kind == is->kind && str_eq(was->name, is->name);
}

/* Rows of one name are one: threads, for example, share names. */
static void add_rows(struct compared *l, const struct compare_pair *p, bool after, struct strtab *keys)
{
	const struct report_table *t = after ? p->after : p->before;
	const size_t *names = after ? p->names_after : p->names_before;
	CLEANUP(buf_free) struct buf key = { 0 };
	for (const struct report_row *row = table_first(t); row; row = row->next) {
		const struct value *first = &row->cells[names[0]],
				   *v = &row->cells[after ? p->value_after : p->value_before];
		if (v->missing || kind_is_text(v->kind) || first->missing || !first->text)
			continue;
		buf_clear(&key);
		for (size_t i = 0; i < p->n_names; i++)
			buf_printf(&key, "%s\x1f", row->cells[names[i]].text ? row->cells[names[i]].text : "");
		struct change *c = change_of(&l->changes, keys, buf_cstr(&key), key.len);
		for (size_t i = 0; i < p->n_names; i++)
			c->names[i] = &row->cells[names[i]];
		*(after ? &c->after : &c->before) += v->number;
		*(after ? &c->in_after : &c->in_before) = true;
	}
}

static bool shows_all(const struct report_table *t)
{
	return !t->rest && !t->rows_cut;
}

/* The most that a row can be which is not shown. */
static double least_shown(const struct report_table *t, size_t value)
{
	double least = INFINITY;
	for (const struct report_row *row = table_first(t); row; row = row->next) {
		if (!row->cells[value].missing)
			least = MIN(least, fabs(row->cells[value].number));
	}
	return isfinite(least) ? least : 0;
}

static int largest_first(const void *pa, const void *pb)
{
	const struct change *a = pa, *b = pb;
	bool a_grew = a->after > a->before, b_grew = b->after > b->before;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	if (a_grew != b_grew)
		return a_grew ? -1 : 1;
	return strcmp(a->names[0]->text, b->names[0]->text);
}

/* hidden: the most that something can be which its side does not show. */
static void measure(struct compared *l, double hidden_before, double hidden_after)
{
	vec_each(c, &l->changes) {
		c->size = fabs(c->after - c->before);
		/* At least so much, whatever the side says that does not show it. */
		if (!change_before_known(l, c))
			c->size = MAX(c->after - hidden_before, 0.0);
		else if (!change_after_known(l, c))
			c->size = MAX(c->before - hidden_after, 0.0);
		/* Rounding must not decide the order of rows whose changes are equal. */
		if (c->size < 1e6)
			c->size = round(c->size * 1e6) / 1e6;
		c->status = status_of(l, c);
	}
	vec_sort(&l->changes, largest_first);
}

static void compare_tables(struct compared *l, const struct compare_pair *p)
{
	struct strtab keys = { 0 };
	l->value = p->after->columns[p->value_after];
	l->n_names = p->n_names;
	for (size_t i = 0; i < p->n_names; i++)
		l->names[i] = p->after->columns[p->names_after[i]];
	l->all_before = shows_all(p->before);
	l->all_after = shows_all(p->after);
	add_rows(l, p, false, &keys);
	add_rows(l, p, true, &keys);
	strtab_free(&keys);
	measure(l, l->all_before ? 0 : least_shown(p->before, p->value_before),
		l->all_after ? 0 : least_shown(p->after, p->value_after));
}

/* ---- reports ---- */

static void compare_block(struct comparison *c, const struct report *before, const struct block *b)
{
	const struct block *was = b->title ? find_block(before, b->kind, b->title) : NULL;
	bool table = b->kind == BLOCK_TABLE || b->kind == BLOCK_TREE;
	struct compared l = { .title = b->title };
	struct compare_pair pair;
	if (!was)
		return;
	if (table && make_pair(was, b, &pair)) {
		compare_tables(&l, &pair);
		vec_push(&c->lists, l);
	} else if (b->kind == BLOCK_FLAME) {
		l.flame_before = (const struct report_flame *)was;
		l.flame_after = (const struct report_flame *)b;
		l.all_before = l.all_after = true;
		compare_frames(&l, &c->arena);
		measure(&l, 0, 0);
		vec_push(&c->lists, l);
	}
}

struct err *comparison_init(struct comparison *c, const struct report *before, const struct report *after)
{
	*c = (struct comparison){ 0 };
	if (!str_eq(before->facts.profiler, after->facts.profiler))
		return err_new(ERR_USAGE, "only reports of one profiler can be compared: these are of %s and %s",
			       before->facts.profiler ? before->facts.profiler : "nobody",
			       after->facts.profiler ? after->facts.profiler : "nobody");
	for (const struct block *b = after->first_block; b; b = b->next)
		compare_block(c, before, b);
	return NULL;
}

void comparison_fini(struct comparison *c)
{
	vec_each(l, &c->lists)
		vec_free(&l->changes);
	vec_free(&c->lists);
	arena_free(&c->arena);
}

const struct fact *fact_find(const struct fact_list *list, const char *label)
{
	for (const struct fact *f = list->first; f; f = f->next) {
		if (str_eq(f->label, label))
			return f;
	}
	return NULL;
}
