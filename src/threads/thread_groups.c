#include "threads/thread_groups.h"
#include "base/str.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define STEMS_SHOWN 3
#define CALLERS_SHOWN 3
#define NAME_CHARS 40

void thread_groups_free(struct thread_groups *g)
{
	vec_free(&g->v);
	vec_free(&g->members);
}

/* ---- grouping ---- */

struct keyed {
	struct thread_group key;
	uint32_t thread;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;
	return CMP(x->key.doing, y->key.doing) ?: CMP(x->key.thing, y->key.thing) ?:
	       CMP(x->key.site, y->key.site) ?: CMP(x->thread, y->thread);
}

static int by_size(const void *a, const void *b)
{
	const struct thread_group *x = a, *y = b;
	bool x_idle = x->doing == ACTIVITY_IDLE, y_idle = y->doing == ACTIVITY_IDLE;
	return CMP(x_idle, y_idle) ?: CMP(y->n, x->n) ?: CMP(x->first, y->first);
}

static uint32_t site_of(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t i = snapshot_site(s, t);
	if (i < t->n)
		return s->frames.v[t->first + i];
	return t->n ? s->frames.v[t->first] : SNAPSHOT_NONE;
}

static bool same_group(const struct thread_group *a, const struct thread_group *b)
{
	return a->doing == b->doing && a->thing == b->thing && a->site == b->site;
}

void thread_groups_make(const struct thread_snapshot *s, struct thread_groups *ret)
{
	VEC(struct keyed) list = { 0 };
	CLEANUP(mem_freep) uint32_t *classes = wait_object_classes(s);
	*ret = (struct thread_groups){ 0 };
	for (uint32_t i = 0; i < s->threads.n; i++) {
		const struct snapshot_thread *t = &s->threads.v[i];
		struct thread_group key = { .doing = snapshot_activity(s, t),
					    .thing = SNAPSHOT_NONE,
					    .site = SNAPSHOT_NONE };
		if (key.doing != ACTIVITY_IDLE) {
			key.site = site_of(s, t);
			key.thing = t->waits_for == SNAPSHOT_NONE ? SNAPSHOT_NONE : classes[t->waits_for];
		}
		vec_push(&list, ((struct keyed){ key, i }));
	}
	vec_sort(&list, by_key);
	vec_each(k, &list) {
		if (!ret->v.n || !same_group(&vec_last(&ret->v), &k->key)) {
			k->key.first = (uint32_t)ret->members.n;
			vec_push(&ret->v, k->key);
		}
		struct thread_group *g = &vec_last(&ret->v);
		g->alike |=
			g->n && s->threads.v[k->thread].waits_for != s->threads.v[vec_last(&ret->members)].waits_for;
		g->n++;
		g->pool += (s->threads.v[k->thread].state & DAC_THREAD_POOL) != 0;
		vec_push(&ret->members, k->thread);
	}
	vec_free(&list);
	vec_sort(&ret->v, by_size);
}

/* ---- words ---- */

static const struct snapshot_thread *member(const struct thread_snapshot *s, const struct thread_groups *gs,
					    const struct thread_group *g, size_t i)
{
	return &s->threads.v[gs->members.v[g->first + i]];
}

const char *thread_group_site(const struct thread_snapshot *s, const struct thread_group *g)
{
	if (g->doing == ACTIVITY_IDLE)
		return "[the runtime's own]";
	return g->site == SNAPSHOT_NONE ? "[no managed code]" : s->methods.v[g->site].name;
}

void thread_group_words(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			bool brief, struct buf *out)
{
	unsigned flags = (g->n > 1 ? WORDS_SEVERAL : 0) | (brief ? WORDS_BRIEF : 0) | (g->alike ? WORDS_ALIKE : 0);
	snapshot_waits_words(s, member(s, gs, g, 0), flags, out);
}

/* A name without the number at its end, which distinguishes threads that do the same. */
static void add_stem(const struct snapshot_thread *t, struct buf *out)
{
	const char *name = t->name ? t->name : t->os_name;
	size_t len = strlen(name);
	while (len && isdigit((unsigned char)name[len - 1]))
		len--;
	if (t->state & DAC_THREAD_POOL && (!t->name || str_starts(t->name, ".NET ")))
		buf_str(out, "pool worker");
	else if (!t->name && (!len || !str_starts(name, ".NET ")))
		buf_str(out, "unnamed");
	else if (!name[len])
		buf_printf(out, "'%s'", name);
	else
		buf_printf(out, "'%.*s…'", (int)len, name);
}

struct stem {
	uint32_t text, n;
};

static int by_number(const void *a, const void *b)
{
	const struct stem *x = a, *y = b;
	return CMP(y->n, x->n) ?: CMP(x->text, y->text);
}

static void add_stems(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
		      struct buf *out)
{
	struct strtab texts = { 0 };
	VEC(struct stem) stems = { 0 };
	for (size_t i = 0; i < g->n; i++) {
		CLEANUP(buf_free) struct buf text = { 0 };
		add_stem(member(s, gs, g, i), &text);
		uint32_t id = strtab_add_cstr(&texts, buf_cstr(&text));
		if (id == stems.n)
			vec_push(&stems, ((struct stem){ .text = id }));
		stems.v[id].n++;
	}
	vec_sort(&stems, by_number);
	size_t shown = 0, rest = g->n;
	for (; shown < stems.n && shown < STEMS_SHOWN; shown++) {
		buf_str(out, shown ? ", " : "");
		str_add_visible(out, strtab_get(&texts, stems.v[shown].text), strtab_len(&texts, stems.v[shown].text),
				NAME_CHARS);
		if (stems.v[shown].n > 1)
			buf_printf(out, " ×%u", stems.v[shown].n);
		rest -= stems.v[shown].n;
	}
	if (rest)
		buf_printf(out, " and %zu more", rest);
	vec_free(&stems);
	strtab_free(&texts);
}

void thread_group_names(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			struct buf *out)
{
	if (g->n > STEMS_SHOWN) {
		add_stems(s, gs, g, out);
		return;
	}
	for (size_t i = 0; i < g->n; i++) {
		buf_str(out, i ? ", " : "");
		snapshot_thread_words(member(s, gs, g, i), out);
	}
}

/* ---- merged stacks ---- */

/* Without the outermost frames that are the platform's: how a thread begins says nothing. */
static size_t end_of(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t end = t->n;
	while (end && snapshot_frame(s, t, end - 1)->framework)
		end--;
	return end ? end : t->n;
}

/* Frame `depth` outwards from the site; SNAPSHOT_NONE past the end. */
static uint32_t outwards(const struct thread_snapshot *s, const struct snapshot_thread *t, size_t depth)
{
	size_t site = snapshot_site(s, t), at = (site < t->n ? site : 0) + depth;
	return at < end_of(s, t) ? s->frames.v[t->first + at] : SNAPSHOT_NONE;
}

/* The source line of that frame, when all have the same. */
static const char *shared_line(const struct thread_snapshot *s, const struct thread_groups *gs,
			       const struct thread_group *g, size_t depth)
{
	const char *line = NULL;
	for (size_t i = 0; i < g->n; i++) {
		const struct snapshot_thread *t = member(s, gs, g, i);
		size_t site = snapshot_site(s, t);
		const char *its = snapshot_line(s, t, (site < t->n ? site : 0) + depth);
		if (i && !str_eq(its, line))
			return NULL;
		line = its;
	}
	return line;
}

static bool all_share(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
		      size_t depth)
{
	uint32_t method = outwards(s, member(s, gs, g, 0), depth);
	for (size_t i = 1; i < g->n; i++)
		if (outwards(s, member(s, gs, g, i), depth) != method)
			return false;
	return method != SNAPSHOT_NONE;
}

/* Where they part: the next callers, most frequent first. */
static void add_callers(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			size_t depth, struct report_row *row)
{
	struct map_u64 index = { 0 };
	VEC(struct stem) callers = { 0 };
	for (size_t i = 0; i < g->n; i++) {
		bool new;
		uint32_t method = outwards(s, member(s, gs, g, i), depth);
		uint64_t *place = map_u64_put(&index, method, &new);
		if (new) {
			*place = callers.n;
			vec_push(&callers, ((struct stem){ .text = method }));
		}
		callers.v[*place].n++;
	}
	vec_sort(&callers, by_number);
	for (size_t i = 0; i < callers.n && callers.n > 1; i++) {
		CLEANUP(mem_freep) char *times = mem_printf("×%u", callers.v[i].n);
		if (i == CALLERS_SHOWN) {
			CLEANUP(mem_freep) char *more = mem_printf("and %zu other callers", callers.n - i);
			report_row_line(row, VALUE_TEXT, more, NULL);
			break;
		}
		if (callers.v[i].text == SNAPSHOT_NONE)
			report_row_line(row, VALUE_TEXT, "called by nobody else", times);
		else
			report_row_line(row, VALUE_CODE, s->methods.v[callers.v[i].text].name, times);
	}
	vec_free(&callers);
	map_u64_free(&index);
}

/* What the site itself called: the platform's method that the author wrote there. */
static const char *called_from_site(const struct thread_snapshot *s, const struct snapshot_thread *t)
{
	size_t site = snapshot_site(s, t);
	return site && site < t->n ? snapshot_frame(s, t, site - 1)->name : NULL;
}

void thread_group_lines(const struct thread_snapshot *s, const struct thread_groups *gs, const struct thread_group *g,
			struct report_row *row)
{
	CLEANUP(buf_free) struct buf names = { 0 }, words = { 0 };
	const struct snapshot_thread *first = member(s, gs, g, 0);
	const char *callee = called_from_site(s, first);
	thread_group_names(s, gs, g, &names);
	report_row_line(row, VALUE_TEXT, buf_cstr(&names), NULL);
	if (g->thing != SNAPSHOT_NONE) {
		thread_group_words(s, gs, g, false, &words);
		report_row_line(row, VALUE_TEXT, buf_cstr(&words), NULL);
	}
	if (first->exception && g->n == 1)
		report_row_line(row, VALUE_TEXT, first->exception, "exception in flight");
	if (g->doing == ACTIVITY_IDLE || g->site == SNAPSHOT_NONE)
		return;
	for (size_t i = 1; i < g->n && callee; i++)
		if (!str_eq(called_from_site(s, member(s, gs, g, i)), callee))
			callee = NULL;
	if (callee)
		report_row_line(row, VALUE_CODE, callee, NULL);
	size_t depth = 0;
	for (; all_share(s, gs, g, depth); depth++)
		report_row_line(row, VALUE_CODE, s->methods.v[outwards(s, first, depth)].name,
				shared_line(s, gs, g, depth));
	add_callers(s, gs, g, depth, row);
	if (first->cut && g->n == 1)
		report_row_line(row, VALUE_TEXT, "and more", NULL);
}
