/* Duplicated strings: equal texts that are kept more than once, what that wastes, and who keeps them.
 *
 * While the copy lives every string is hashed, and the groups of equal ones are written down behind the heap:
 *
 *   number of strings, bytes of strings
 *   groups of two and more: count, each { units, size / 8, copies, object numbers (differences) ... }
 *   texts of those that may waste most: count, each { group, length, bytes }; masked unless values are asked for
 *
 * Garbage is no waste: which copies are alive the graph tells, afterwards. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/heap_look.h"
#include "profilers/profiler.h"
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 30000000u
#define PORTION 32768u	/* bytes of a text that are hashed at once */
#define TEXTS_SPARE 4u	/* texts kept for each one shown: some groups turn out to be garbage */
#define TEXT_UNITS 1000 /* of a text, at most */

/* From here on it is worth doing something. */
#define WASTE_BYTES ((uint64_t)5 << 20)
#define WASTE_SHARE 0.1

/* ---- while the copy lives ---- */

struct group {
	uint64_t hash, address;
	uint32_t units, first, last, copies; /* first, last: of the chain of members */
};

struct gathering {
	struct map_u64 index; /* hash to group + 1 */
	VEC(struct group) groups;
	VEC(uint32_t) numbers, next; /* members: object number, next member of its group */
	uint64_t strings, bytes;
	uint64_t seed;
	uint32_t max_texts, max_units;
	bool show;
};

static void on_object(void *user, struct heap_walk *walk, const struct heap_found *f, uint32_t number)
{
	struct gathering *g = user;
	if (f->type->kind != HEAP_STRING)
		return;
	uint64_t hash = g->seed ^ f->n;
	for (uint64_t at = 0, end = 2 * (uint64_t)f->n; at < end; at += PORTION) {
		size_t len = (size_t)MIN(end - at, (uint64_t)PORTION);
		const uint8_t *bytes = heap_walk_bytes(walk, f, 12 + at, len);
		if (!bytes)
			return;
		hash = hash_bytes(bytes, len, hash);
	}
	g->strings++;
	g->bytes += f->size;
	bool fresh;
	uint64_t *at = map_u64_put(&g->index, hash, &fresh);
	uint32_t member = (uint32_t)g->numbers.n;
	if (fresh && g->groups.n >= GROUPS_MAX)
		return;
	vec_push(&g->numbers, number);
	vec_push(&g->next, UINT32_MAX);
	if (fresh || !*at) {
		vec_push(&g->groups,
			 ((struct group){ .hash = hash, .address = f->address, .units = f->n, .first = member }));
		*at = g->groups.n;
	} else {
		g->next.v[g->groups.v[*at - 1].last] = member;
	}
	g->groups.v[*at - 1].last = member;
	g->groups.v[*at - 1].copies++;
}

static uint64_t size_of(uint32_t units)
{
	return (22 + 2 * (uint64_t)units + 7) & ~(uint64_t)7;
}

static uint64_t waste_of(const struct group *g)
{
	return (uint64_t)(g->copies - 1) * size_of(g->units);
}

static int most_waste_first(const void *a, const void *b)
{
	uint64_t x = waste_of(a), y = waste_of(b);
	return x < y ? 1 : x > y ? -1 : 0;
}

/* The shape of a text without what it says. */
static void mask(const char *text, size_t len, struct buf *out)
{
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = utf8_decode(text + i, len - i, &cp);
		if (!n || cp >= 0x80)
			utf8_encode(out, 0x2022);
		else if (cp >= 'a' && cp <= 'z')
			buf_char(out, 'x');
		else if (cp >= 'A' && cp <= 'Z')
			buf_char(out, 'X');
		else if (cp >= '0' && cp <= '9')
			buf_char(out, '9');
		else
			buf_char(out, (char)cp);
		i += n ? n : 1;
	}
}

static void write_texts(struct gathering *g, struct heap *h, struct buf *out)
{
	uint32_t n = (uint32_t)MIN(g->groups.n, (size_t)g->max_texts);
	buf_varu64(out, n);
	for (uint32_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf text = { 0 }, masked = { 0 };
		(void)heap_string(h, g->groups.v[i].address, g->max_units, &text, NULL);
		if (!g->show)
			mask(buf_cstr(&text), text.len, &masked);
		const struct buf *shown = g->show ? &text : &masked;
		buf_varu64(out, i);
		buf_varu64(out, shown->len);
		buf_add(out, shown->data, shown->len);
	}
}

static void on_done(void *user, struct heap *h, struct buf *out)
{
	struct gathering *g = user;
	size_t n = 0;
	vec_each(group, &g->groups)
		if (group->copies > 1)
			g->groups.v[n++] = *group;
	g->groups.n = n;
	vec_sort(&g->groups, most_waste_first);
	buf_varu64(out, g->strings);
	buf_varu64(out, g->bytes);
	buf_varu64(out, n);
	vec_each(group, &g->groups) {
		uint32_t last = 0;
		buf_varu64(out, group->units);
		buf_varu64(out, group->copies);
		for (uint32_t m = group->first; m != UINT32_MAX; m = g->next.v[m]) {
			buf_varu64(out, g->numbers.v[m] - last);
			last = g->numbers.v[m];
		}
	}
	write_texts(g, h, out);
}

static void gathering_fini(struct gathering *g)
{
	map_u64_free(&g->index);
	vec_free(&g->groups);
	vec_free(&g->numbers);
	vec_free(&g->next);
}

/* ---- what was written ---- */

struct value_group {
	uint64_t units, copies, alive;
	size_t first;	  /* of its members */
	const char *text; /* NULL = not kept */
	/* Who refers to most of its copies. */
	uint32_t holder_type;
	const char *holder_field;
	uint64_t held;
};

struct duplicates {
	struct heap_look look;
	struct gathering gathering;
	struct arena arena;
	uint64_t strings, bytes;
	VEC(struct value_group) groups;
	VEC(uint32_t) members;
};

static struct err *misshapen(void)
{
	return err_new(ERR_BAD_DATA, "the recording of the strings is damaged");
}

static struct err *take_more(void *user, struct cursor *in)
{
	struct duplicates *d = user;
	d->strings = cursor_varu64(in);
	d->bytes = cursor_varu64(in);
	uint64_t n = cursor_varu64(in);
	if (n > cursor_left(in))
		return misshapen();
	for (uint64_t i = 0; i < n; i++) {
		struct value_group group = { .units = cursor_varu64(in), .first = d->members.n };
		uint64_t number = 0;
		group.copies = cursor_varu64(in);
		if (group.copies > cursor_left(in) || group.units > INT32_MAX)
			return misshapen();
		for (uint64_t k = 0; k < group.copies; k++) {
			number += cursor_varu64(in);
			if (number >= d->look.graph->n)
				return misshapen();
			vec_push(&d->members, (uint32_t)number);
		}
		vec_push(&d->groups, group);
	}
	n = cursor_varu64(in);
	for (uint64_t i = 0; i < n && cursor_ok(in); i++) {
		uint64_t group = cursor_varu64(in), len = cursor_varu64(in);
		const uint8_t *text = cursor_take(in, (size_t)MIN(len, (uint64_t)SIZE_MAX));
		if (!text || group >= d->groups.n)
			return misshapen();
		d->groups.v[group].text = arena_strndup(&d->arena, (const char *)text, (size_t)len);
	}
	return cursor_ok(in) ? NULL : misshapen();
}

/* ---- who holds them ---- */

/* Every reference to a member is looked at once. Referrers of one group are counted in a small table of their own. */
struct referrer {
	uint32_t type, slot;
	uint64_t n;
};
#define REFERRERS 8 /* of a group; the first ones met */

static void find_holders(struct duplicates *d, size_t n_shown)
{
	const struct heapgraph *g = d->look.graph;
	uint32_t *group_of = mem_zalloc(((size_t)g->n + 1) * sizeof(*group_of)); /* + 1; 0 = none */
	struct referrer(*seen)[REFERRERS] = mem_zalloc((n_shown + 1) * sizeof(*seen));
	for (size_t i = 0; i < n_shown; i++)
		for (uint64_t k = 0; k < d->groups.v[i].copies; k++)
			group_of[d->members.v[d->groups.v[i].first + k]] = (uint32_t)i + 1;
	for (uint32_t from = 0; from < g->n; from++) {
		if (!heapgraph_reached(g, from))
			continue;
		for (uint32_t e = g->first[from]; e < g->first[from + 1]; e++) {
			uint32_t group = g->target[e] == GRAPH_NONE ? 0 : group_of[g->target[e]];
			if (!group)
				continue;
			struct referrer *r = seen[group - 1];
			uint32_t slot = g->types.v[g->type[from]].variable ? 0 : e - g->first[from];
			size_t k = 0;
			while (k < REFERRERS && r[k].n && (r[k].type != g->type[from] || r[k].slot != slot))
				k++;
			if (k < REFERRERS) {
				r[k].type = g->type[from];
				r[k].slot = slot;
				r[k].n++;
			}
		}
	}
	for (size_t i = 0; i < n_shown; i++)
		for (size_t k = 0; k < REFERRERS; k++)
			if (seen[i][k].n > d->groups.v[i].held) {
				const struct graph_type *t = &g->types.v[seen[i][k].type];
				d->groups.v[i].held = seen[i][k].n;
				d->groups.v[i].holder_type = seen[i][k].type;
				d->groups.v[i].holder_field =
					seen[i][k].slot < t->n_slots ? t->slots[seen[i][k].slot] : "";
			}
	mem_free(seen);
	mem_free(group_of);
}

/* ---- words ---- */

static uint64_t group_waste(const struct value_group *g)
{
	return g->alive > 1 ? (g->alive - 1) * size_of((uint32_t)g->units) : 0;
}

static int wasteful_first(const void *a, const void *b)
{
	uint64_t x = group_waste(a), y = group_waste(b);
	return x < y ? 1 : x > y ? -1 : 0;
}

struct sums {
	uint64_t waste, copies, values, alive_bytes;
};

static struct sums count_alive(struct duplicates *d)
{
	const struct heapgraph *g = d->look.graph;
	struct sums s = { 0 };
	vec_each(group, &d->groups) {
		for (uint64_t k = 0; k < group->copies; k++)
			group->alive += heapgraph_reached(g, d->members.v[group->first + k]);
		if (group->alive < 2)
			continue;
		s.waste += group_waste(group);
		s.copies += group->alive;
		s.values++;
	}
	s.alive_bytes = g->reached_units * 8;
	vec_sort(&d->groups, wasteful_first);
	return s;
}

static void holder_words(const struct duplicates *d, const struct value_group *g, struct buf *out)
{
	if (!g->held)
		return;
	heap_type_short(d->look.graph, g->holder_type, out);
	if (*g->holder_field) {
		buf_char(out, '.');
		heap_field_name(g->holder_field, out);
	}
}

static void shown_text(const struct value_group *g, size_t max, struct buf *out)
{
	if (!g->text) {
		buf_printf(out, "(%s characters)", fmt_count(g->units).s);
		return;
	}
	buf_char(out, '"');
	str_add_visible(out, g->text, strlen(g->text), max);
	buf_char(out, '"');
}

static void add_verdict(const struct exam *exam, const struct duplicates *d, const struct sums *s,
			struct report *report)
{
	double share = s->alive_bytes ? (double)s->waste / (double)s->alive_bytes : 0;
	bool much = s->waste >= WASTE_BYTES && share >= WASTE_SHARE;
	const char *finding = much ? "many-duplicates" : "nothing-found";
	struct rich *v = report_verdict(report, much ? REPORT_WARN : REPORT_OK, finding);
	const struct value_group *top = s->values ? &d->groups.v[0] : NULL;
	if (!top) {
		rich_text(v, "No problem here: no text is kept twice.");
		return;
	}
	CLEANUP(buf_free) struct buf text = { 0 }, holder = { 0 };
	shown_text(top, 40, &text);
	holder_words(d, top, &holder);
	rich_text(v, "%s strings waste ", much ? "Equal" : "No problem here: equal");
	rich_strong(v, "%s", fmt_bytes(s->waste).s);
	rich_text(v, ", %s of what is alive: %s strings have only %s different values. ", fmt_percent(share).s,
		  fmt_count(s->copies).s, fmt_count(s->values).s);
	rich_text(v, "Most: %s copies of ", fmt_count(top->alive).s);
	rich_code(v, buf_cstr(&text));
	if (holder.len) {
		rich_text(v, ", kept by ");
		rich_code(v, buf_cstr(&holder));
	}
	rich_text(v, ".");
	const char *next = profiler_next(exam->profiler, finding);
	if (next)
		rich_text(report_next(report), "%s", next);
}

static void add_table(const struct exam *exam, const struct duplicates *d, const struct sums *s, size_t n,
		      struct report *report)
{
	size_t max = (size_t)params_int(exam->params, "max_string_display_size");
	uint64_t rest = s->waste, values = s->values;
	struct report_table *t = report_table(report, "Values");
	report_column(t, "Value", VALUE_CODE, 0);
	report_column(t, "Kept by", VALUE_CODE, 0);
	report_column(t, "Copies", VALUE_COUNT, 0);
	report_column(t, "Wasted", VALUE_BYTES, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	for (size_t i = 0; i < n && d->groups.v[i].alive > 1; i++) {
		const struct value_group *g = &d->groups.v[i];
		CLEANUP(buf_free) struct buf text = { 0 }, holder = { 0 };
		shown_text(g, max, &text);
		holder_words(d, g, &holder);
		struct report_row *row = report_row(
			t, (struct value[]){ V_CODE(buf_cstr(&text)), holder.len ? V_CODE(buf_cstr(&holder)) : V_NONE,
					     V_COUNT(g->alive), V_BYTES(group_waste(g)),
					     V_RATIO((double)group_waste(g) / (double)s->waste) });
		if (g->units > max) {
			CLEANUP(mem_freep)
			char *line = mem_printf("%s characters, %s each", fmt_count(g->units).s,
						fmt_bytes(size_of((uint32_t)g->units)).s);
			report_row_line(row, VALUE_TEXT, line, NULL);
		}
		rest -= group_waste(g);
		values--;
	}
	if (rest) {
		CLEANUP(mem_freep) char *words = mem_printf("%s more values", fmt_count(values).s);
		report_rest(t, (struct value[]){ V_TEXT(words), V_NONE, V_NONE, V_BYTES(rest),
						 V_RATIO((double)rest / (double)s->waste) });
	}
}

/* ---- the profiler ---- */

static struct err *run(struct exam *exam)
{
	struct duplicates *d = exam->state = mem_zalloc(sizeof(*d));
	d->gathering.show = params_bool(exam->params, "show_values");
	d->gathering.max_units =
		MIN((uint32_t)params_int(exam->params, "max_string_display_size"), (uint32_t)TEXT_UNITS);
	d->gathering.max_texts = TEXTS_SPARE * (uint32_t)params_int(exam->params, "top_count");
	d->gathering.seed = hash_bytes("strings", 7, 0);
	d->look = (struct heap_look){ .on_object = on_object,
				      .on_done = on_done,
				      .user = &d->gathering,
				      .take_more = take_more,
				      .take_user = d };
	return heap_look(&d->look, exam, "strings");
}

static struct err *analyse(struct exam *exam, struct report *report)
{
	struct duplicates *d = exam->state;
	heapgraph_dominate(d->look.graph);
	struct sums s = count_alive(d);
	size_t n = MIN(d->groups.n, (size_t)params_int(exam->params, "top_count"));
	find_holders(d, n);
	add_verdict(exam, d, &s, report);
	report_figure(report, "Wasted", V_BYTES(s.waste), "by copies of equal texts");
	report_figure(report, "Copies", V_COUNT(s.copies), fmt_plural(s.values, "value", "values").s);
	report_figure(report, "Strings", V_BYTES(d->bytes), fmt_plural(d->strings, "string", "strings").s);
	report_figure(report, "Alive", V_BYTES(s.alive_bytes), "of all types");
	if (s.values)
		add_table(exam, d, &s, n, report);
	look_how(report, &d->look.facts, 1);
	heap_look_how(report, &d->look);
	if (!d->gathering.show)
		report_how(report, "Values", V_TEXT("masked"), "--param show_values=true shows them");
	return NULL;
}

static void free_state(void *state)
{
	struct duplicates *d = state;
	heap_look_fini(&d->look);
	gathering_fini(&d->gathering);
	arena_free(&d->arena);
	vec_free(&d->groups);
	vec_free(&d->members);
	mem_free(d);
}

const struct profiler profiler_duplicated_strings = {
	.id = "duplicated-strings",
	.uuid = "bdaba522-104c-4343-8952-036bed81527d",
	.name = "Duplicated strings",
	.symptom = "memory is high and full of strings: how many are the same?",
	.description = "Compares all strings that are alive, adds up what equal copies waste (with the overhead of "
		       "each object), and "
		       "says which field keeps each value. Values are masked so that the report can be shared, unless "
		       "they are asked "
		       "for.",
	.cost = "one pause of about 20 ms for each GB; everything is read from a copy",
	.params =
		(const struct param[]){
			{ .key = "top_count",
			  .name = "Values",
			  .description = "How many to show.",
			  .type = PARAM_INT,
			  .default_value = "100",
			  .min = 1,
			  .max = 1000 },
			{ .key = "max_string_display_size",
			  .name = "Longest text",
			  .description = "Characters of a value that are shown.",
			  .type = PARAM_INT,
			  .default_value = "128",
			  .min = 1,
			  .max = 1000 },
			{ .key = "show_values",
			  .name = "Show values",
			  .description = "Show the texts as they are; else letters and digits are masked.",
			  .type = PARAM_BOOL,
			  .default_value = "false" },
			PARAM_MAX_PAUSE,
		},
	.n_params = 4,
	.ways = { WAY_IMAGE },
	.advice =
		(const struct advice[]){
			{ "many-duplicates", "Where these values are made, share them: string.Intern for a small fixed "
					     "set, a StringPool or "
					     "dictionary of your own, an enum instead of a text." },
		},
	.n_advice = 1,
	.run = run,
	.analyse = analyse,
	.free_state = free_state,
};
