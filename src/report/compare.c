#include "report/compare.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "report/doc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 50
/* What counts as a change: points of a ratio, share of anything else. */
#define POINTS_LEAST 0.02
#define SHARE_LEAST 0.10
/* Windows that differ by less are the same. */
#define WINDOW_SHARE 0.05

struct change {
	const char *name;
	enum value_kind name_kind;
	bool in_before, in_after;
	double before, after;
	double size; /* what it is sorted by */
};
VEC_TYPE(changes, struct change);

/* One table on both sides, and its columns that are compared. */
struct compare_pair {
	const struct report_table *before, *after;
	size_t name_before, name_after, value_before, value_after;
};

/* --- tables --- */

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

static bool is_table(const struct block *b)
{
	return b->kind == BLOCK_TABLE || b->kind == BLOCK_TREE;
}

static const struct block *find_block(const struct report *r, enum block_kind kind, const char *title)
{
	for (const struct block *b = r->first_block; b; b = b->next) {
		if (b->kind == kind && str_eq(b->title, title))
			return b;
	}
	return NULL;
}

static bool make_pair(const struct report *before, const struct block *b, struct compare_pair *ret)
{
	const struct block *other = is_table(b) ? find_block(before, b->kind, b->title) : NULL;
	if (!other)
		return false;
	*ret = (struct compare_pair){ .before = (const struct report_table *)other,
				      .after = (const struct report_table *)b };
	ret->name_before = table_name_column(ret->before);
	ret->name_after = table_name_column(ret->after);
	return numbers_column(ret->before, &ret->value_before) && numbers_column(ret->after, &ret->value_after) &&
	       ret->before->columns[ret->value_before].kind == ret->after->columns[ret->value_after].kind &&
	       str_eq(ret->before->columns[ret->value_before].name, ret->after->columns[ret->value_after].name);
}

/* Rows of one name are one: threads, for example, share names. */
static void add_rows(const struct report_table *t, size_t name, size_t value, bool after, struct strtab *names,
		     struct changes *list)
{
	for (const struct report_row *row = table_first(t); row; row = row->next) {
		const struct value *n = &row->cells[name], *v = &row->cells[value];
		if (v->missing || n->missing || !n->text)
			continue;
		uint32_t id = strtab_add_cstr(names, n->text);
		if (id == list->n)
			vec_push(list, ((struct change){ .name = n->text, .name_kind = n->kind }));
		struct change *c = &list->v[id];
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
	return strcmp(a->name, b->name);
}

static void find_changes(const struct compare_pair *p, struct changes *list)
{
	struct strtab names = { 0 };
	add_rows(p->before, p->name_before, p->value_before, false, &names, list);
	add_rows(p->after, p->name_after, p->value_after, true, &names, list);
	strtab_free(&names);
	double hidden_before = shows_all(p->before) ? 0 : least_shown(p->before, p->value_before);
	double hidden_after = shows_all(p->after) ? 0 : least_shown(p->after, p->value_after);
	vec_each(c, list) {
		c->in_before |= shows_all(p->before);
		c->in_after |= shows_all(p->after);
		c->size = fabs(c->after - c->before);
		/* At least so much, whatever the side says that does not show it. */
		if (!c->in_before)
			c->size = MAX(c->after - hidden_before, 0.0);
		else if (!c->in_after)
			c->size = MAX(c->before - hidden_after, 0.0);
		/* What one gains another loses: rounding must not decide who comes first. */
		if (c->size < 1e6)
			c->size = round(c->size * 1e6) / 1e6;
	}
	vec_sort(list, largest_first);
}

static struct value number(enum value_kind kind, bool known, double n)
{
	return known ? (struct value){ .kind = kind, .number = n } : V_NONE;
}

static void add_table(struct report *r, const struct compare_pair *p, const struct changes *list)
{
	const struct column *value = &p->after->columns[p->value_after];
	CLEANUP(mem_freep)
	char *title = str_eq(value->name, p->after->block.title)
			      ? mem_strdup(p->after->block.title)
			      : mem_printf("%s: %s", p->after->block.title, value->name);
	struct report_table *t = report_table(r, title);
	report_column(t, p->after->columns[p->name_after].name, p->after->columns[p->name_after].kind, 0);
	report_column(t, "Before", value->kind, 0);
	report_column(t, "After", value->kind, COLUMN_BAR);
	report_column(t, "Change", value->kind, 0);
	for (size_t i = 0; i < list->n && i < ROWS_SHOWN; i++) {
		const struct change *c = &list->v[i];
		bool both = c->in_before && c->in_after;
		if (c->size <= 0)
			break;
		report_row(t, (struct value[]){ { .kind = c->name_kind, .text = c->name },
						number(value->kind, c->in_before, c->before),
						number(value->kind, c->in_after, c->after),
						number(value->kind, both, c->after - c->before) });
	}
}

/* --- figures --- */

static const struct fact *find_fact(const struct fact_list *list, const char *label)
{
	for (const struct fact *f = list->first; f; f = f->next) {
		if (str_eq(f->label, label))
			return f;
	}
	return NULL;
}

static void add_figures(struct report *r, const struct report *before, const struct report *after)
{
	for (const struct fact *f = after->figures.first; f; f = f->next) {
		const struct fact *old = find_fact(&before->figures, f->label);
		struct buf was = { 0 };
		if (!old || old->value.kind != f->value.kind)
			continue;
		buf_str(&was, "before: ");
		value_add(&was, before, &old->value);
		report_figure(r, f->label, f->value, buf_cstr(&was));
		buf_free(&was);
	}
}

/* --- flame graphs --- */

struct compare_merged {
	uint32_t frame, parent;
	uint64_t before;
};
struct merging {
	struct strtab names; /* name and kind -> frame */
	VEC(struct flame_frame) frames;
	VEC(struct compare_merged) nodes;
	struct map_u64 edges; /* parent and frame -> node */
};

static uint32_t merge_frame(struct merging *m, const struct flame_frame *f)
{
	CLEANUP(mem_freep) char *key = mem_printf("%d %s", f->kind, f->name);
	uint32_t id = strtab_add_cstr(&m->names, key);
	if (id == m->frames.n)
		vec_push(&m->frames, *f);
	return id;
}

static void merge_flame(struct merging *m, const struct report_flame *f)
{
	uint32_t path[FLAME_DEPTH_MAX + 1] = { 0 };
	for (size_t i = 0; i < f->n_nodes; i++) {
		const struct flame_node *n = &f->nodes[i];
		uint32_t node = 0;
		if (i) {
			uint32_t frame = merge_frame(m, &f->frames[n->frame]), parent = path[n->depth - 1];
			bool new;
			uint64_t *at = map_u64_put(&m->edges, (uint64_t)parent << 32 | frame, &new);
			if (new) {
				*at = m->nodes.n;
				vec_push(&m->nodes, ((struct compare_merged){ .frame = frame, .parent = parent }));
			}
			node = (uint32_t)*at;
		}
		path[n->depth] = node;
		m->nodes.v[node].before += n->total;
	}
}

/* The order of the second one: its nodes, each with what it was before. */
static void add_flame(struct report *r, const struct report_flame *before, const struct report_flame *after)
{
	struct merging m = { 0 };
	vec_push(&m.nodes, ((struct compare_merged){ 0 }));
	merge_flame(&m, before);
	CLEANUP(mem_freep) char *title = mem_printf("%s: what changed", after->block.title);
	struct report_flame *f = flame_new(r, title, after->weight_kind);
	f->compared = true;
	f->frames = arena_zalloc(&r->arena, MAX(after->n_frames, (size_t)1) * sizeof(*f->frames));
	f->nodes = arena_zalloc(&r->arena, after->n_nodes * sizeof(*f->nodes));
	f->n_frames = after->n_frames;
	f->n_nodes = after->n_nodes;
	f->cut = after->cut;
	for (size_t i = 0; i < after->n_frames; i++)
		f->frames[i] = (struct flame_frame){ doc_text(r, after->frames[i].name), after->frames[i].kind };
	uint32_t path[FLAME_DEPTH_MAX + 1] = { 0 };
	for (size_t i = 0; i < after->n_nodes; i++) {
		struct flame_node n = after->nodes[i];
		uint32_t was = 0;
		if (i) {
			uint32_t frame = merge_frame(&m, &after->frames[n.frame]), parent = path[n.depth - 1];
			const uint64_t *at =
				parent == UINT32_MAX ? NULL : map_u64_get(&m.edges, (uint64_t)parent << 32 | frame);
			was = at ? (uint32_t)*at : UINT32_MAX;
		}
		path[n.depth] = was;
		n.before = was == UINT32_MAX ? 0 : m.nodes.v[was].before;
		f->nodes[i] = n;
	}
	strtab_free(&m.names);
	vec_free(&m.frames);
	vec_free(&m.nodes);
	map_u64_free(&m.edges);
}

/* --- the verdict --- */

static bool matters(const struct change *c, enum value_kind kind)
{
	if (kind == VALUE_RATIO)
		return c->size >= POINTS_LEAST;
	return c->size > 0 && c->size >= SHARE_LEAST * MAX(fabs(c->before), fabs(c->after));
}

static void add_number(struct rich *text, const struct report *r, enum value_kind kind, bool known, double n)
{
	CLEANUP(buf_free) struct buf s = { 0 };
	struct value v = number(kind, known, n);
	if (known)
		value_add(&s, r, &v);
	else
		buf_str(&s, "below what is shown");
	rich_strong(text, "%s", buf_cstr(&s));
}

static void add_verdict(struct report *r, const struct compare_pair *p, const struct changes *list)
{
	enum value_kind kind = p ? p->after->columns[p->value_after].kind : VALUE_NUMBER;
	const struct change *c = p && list->n && list->v[0].size > 0 ? &list->v[0] : NULL;
	bool note = c && matters(c, kind), grew = c && c->in_after && (!c->in_before || c->after > c->before);
	struct rich *text = report_verdict(r, note ? REPORT_INFO : REPORT_OK,
					   !note  ? "no-change"
					   : grew ? "grew"
						  : "shrank");
	if (!note)
		rich_text(text, "Nothing of note changed between the two%s", c ? ": " : ".");
	if (!c)
		return;
	rich_code(text, c->name);
	rich_text(text, " %s most%s from ", grew ? "grew" : "shrank", note ? ":" : ",");
	add_number(text, r, kind, c->in_before, c->before);
	rich_text(text, " to ");
	add_number(text, r, kind, c->in_after, c->after);
	rich_text(text, " (%s, %s).", p->after->block.title, p->after->columns[p->value_after].name);
}

static void add_facts(struct report *r, const struct report *before, const struct report *after)
{
	const struct report_facts *a = &after->facts, *b = &before->facts;
	struct report_facts f = *a;
	CLEANUP(mem_freep) char *title = mem_printf("Change in %s", a->title ? a->title : "reports");
	f.title = title;
	f.session = f.partial = NULL;
	report_set_facts(r, &f);
	const struct report_facts *sides[] = { b, a };
	static const char *const labels[] = { "Before", "After" };
	for (size_t i = 0; i < 2; i++) {
		CLEANUP(buf_free) struct buf text = { 0 };
		buf_str(&text, fmt_time_utc(sides[i]->when_unix_ns).s);
		if (sides[i]->window_ns)
			buf_printf(&text, ", %s", fmt_duration_ns(sides[i]->window_ns).s);
		if (sides[i]->session)
			buf_printf(&text, ", session %.8s", sides[i]->session);
		if (sides[i]->partial)
			buf_printf(&text, "; %s", sides[i]->partial);
		report_how(r, labels[i], V_TEXT(buf_cstr(&text)), sides[i]->process);
	}
	double longer = (double)MAX(a->window_ns, b->window_ns), shorter = (double)MIN(a->window_ns, b->window_ns);
	if (longer > shorter * (1 + WINDOW_SHARE))
		rich_text(report_note(r, REPORT_INFO),
			  "The windows differ: %s before, %s after. Counts and sums are as they were measured.",
			  fmt_duration_ns(b->window_ns).s, fmt_duration_ns(a->window_ns).s);
}

struct err *report_compare(const struct report *before, const struct report *after, struct report **ret)
{
	if (!str_eq(before->facts.profiler, after->facts.profiler))
		return err_new(ERR_USAGE, "one is a report of %s, the other of %s",
			       before->facts.profiler ? before->facts.profiler : "nobody",
			       after->facts.profiler ? after->facts.profiler : "nobody");
	CLEANUP(report_freep) struct report *r = report_new();
	bool first = true;
	for (const struct block *b = after->first_block; b; b = b->next) {
		struct compare_pair p;
		struct changes list = { 0 };
		if (make_pair(before, b, &p)) {
			find_changes(&p, &list);
			if (first) {
				add_verdict(r, &p, &list);
				add_figures(r, before, after);
			}
			if (list.n && list.v[0].size > 0)
				add_table(r, &p, &list);
			if (first)
				report_details(r);
			first = false;
			vec_free(&list);
		} else if (b->kind == BLOCK_FLAME) {
			const struct block *was = find_block(before, b->kind, b->title);
			if (was)
				add_flame(r, (const struct report_flame *)was, (const struct report_flame *)b);
		}
	}
	if (first) {
		add_verdict(r, NULL, NULL);
		add_figures(r, before, after);
	}
	add_facts(r, before, after);
	*ret = STEAL(r);
	return NULL;
}
