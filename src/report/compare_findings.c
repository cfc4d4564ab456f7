#include "report/compare_findings.h"
#include "base/fmt.h"
#include "base/str.h"
#include "report/compare.h"
#include "report/compare_changes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_LEAST 25 /* less is a list of what was ruled out, or could not be looked at */
#define SEVERITY_STEP 10
#define FIGURES_SAID 3
#define IDS_SAID 4
#define FIGURE_FACTOR 1.5
#define STILL_LEAST 50 /* less is not repeated */

const char *const finding_change_names[6] = { "same", "new", "worse", "better", "gone", "not seen" };

/* ---- lists ---- */

static const struct report_findings *findings_of(const struct block *b)
{
	return b->kind == BLOCK_FINDINGS ? (const struct report_findings *)(const void *)b : NULL;
}

bool findings_has(const struct report *r)
{
	for (const struct block *b = r->first_block; b; b = b->next)
		if (b->kind == BLOCK_FINDINGS)
			return true;
	return false;
}

static unsigned severity_in(const struct report *r, const char *finding)
{
	for (const struct block *b = r->first_block; b; b = b->next)
		for (const struct finding_item *i = findings_of(b) ? findings_of(b)->first : NULL; i; i = i->next)
			if (i->severity >= LISTED_LEAST && str_eq(i->finding, finding))
				return i->severity;
	return 0;
}

/* Was it, or the profiler that finds it, looked at? What could not be is in a list without weight too: only a section, or
 * a place among what was ruled out, says so. */
static bool was_seen(const struct report *r, const char *finding)
{
	const char *dot = strchr(finding, '.');
	size_t len = dot ? (size_t)(dot - finding) : strlen(finding);
	for (const struct block *b = r->first_block; b; b = b->next) {
		const struct report_section *s = (const void *)b;
		if (b->kind == BLOCK_SECTION && dot && s->profiler && strlen(s->profiler) == len &&
		    strncmp(s->profiler, finding, len) == 0)
			return true;
		for (const struct finding_item *i = findings_of(b) ? findings_of(b)->first : NULL; i; i = i->next)
			if (!dot && str_eq(i->finding, finding))
				return str_eq(b->title, "Ruled out");
	}
	return false;
}

static enum finding_change change_between(const struct report *after, const struct finding_compared *f)
{
	if (!f->before)
		return FINDING_NEW;
	if (!f->after)
		return was_seen(after, f->finding) ? FINDING_GONE : FINDING_UNSEEN;
	if (f->after >= f->before + SEVERITY_STEP)
		return FINDING_WORSE;
	return f->before >= f->after + SEVERITY_STEP ? FINDING_BETTER : FINDING_SAME;
}

static bool is_listed(const struct findings_compared *list, const char *finding)
{
	vec_each(f, list)
		if (str_eq(f->finding, finding))
			return true;
	return false;
}

static void add_all(const struct report *of, const struct report *before, const struct report *after,
		    struct findings_compared *ret)
{
	for (const struct block *b = of->first_block; b; b = b->next)
		for (const struct finding_item *i = findings_of(b) ? findings_of(b)->first : NULL; i; i = i->next) {
			if (i->severity < LISTED_LEAST || is_listed(ret, i->finding))
				continue;
			struct finding_compared f = { .finding = i->finding,
						      .before = severity_in(before, i->finding),
						      .after = severity_in(after, i->finding) };
			f.change = change_between(after, &f);
			vec_push(ret, f);
		}
}

static int by_change(const void *a, const void *b)
{
	const struct finding_compared *x = a, *y = b;
	unsigned size_x = (unsigned)abs((int)x->after - (int)x->before);
	unsigned size_y = (unsigned)abs((int)y->after - (int)y->before);
	return size_x != size_y ? CMP(size_y, size_x) : strcmp(x->finding, y->finding);
}

void findings_compare(const struct report *before, const struct report *after, struct findings_compared *ret)
{
	*ret = (struct findings_compared){ 0 };
	add_all(after, before, after, ret);
	add_all(before, before, after, ret);
	vec_sort(ret, by_change);
}

/* ---- words ---- */

static bool say_ids(const struct findings_compared *list, enum finding_change change, const char *words, bool first,
		    struct rich *text)
{
	size_t n = 0;
	vec_each(f, list) {
		if (f->change != change || n++ >= IDS_SAID)
			continue;
		rich_text(text, "%s%s", n > 1 ? ", " : first ? "" : "; ", n > 1 ? "" : words);
		rich_code(text, f->finding);
		if (change == FINDING_WORSE || change == FINDING_BETTER)
			rich_text(text, " (%u, was %u)", f->after, f->before);
	}
	if (n > IDS_SAID)
		rich_text(text, " and %zu more", n - IDS_SAID);
	return n;
}

/* Figures of a window differ by themselves: only what is half as much again, and more than a trifle. */
static bool figure_changed(enum value_kind kind, double was, double is)
{
	double least = kind == VALUE_BYTES ? 16e6 : kind == VALUE_NUMBER ? 0.2 : kind == VALUE_RATIO ? 0.05 : 1;
	double low = MIN(was, is), high = MAX(was, is);
	return change_matters(kind, was, is, fabs(is - was)) && high - low >= least && high >= FIGURE_FACTOR * low;
}

static bool say_figures(const struct report *before, const struct report *after, bool first, struct rich *text)
{
	size_t n = 0;
	for (const struct fact *f = after->figures.first; f && n < FIGURES_SAID; f = f->next) {
		const struct fact *old = fact_find(&before->figures, f->label);
		CLEANUP(buf_free) struct buf was = { 0 }, is = { 0 };
		if (!old || old->value.kind != f->value.kind || old->value.missing || f->value.missing ||
		    kind_is_text(f->value.kind) || !figure_changed(f->value.kind, old->value.number, f->value.number))
			continue;
		value_add(&was, before, &old->value);
		value_add(&is, after, &f->value);
		rich_text(text, "%s%s %s (was %s)",
			  n++	  ? ", "
			  : first ? ""
				  : "; ",
			  f->label, buf_cstr(&is), buf_cstr(&was));
	}
	return n;
}

int findings_say(const struct findings_compared *list, const struct report *before, const struct report *after,
		 struct rich *text)
{
	static const struct {
		enum finding_change change;
		const char *words;
	} parts[] = { { FINDING_NEW, "new: " },
		      { FINDING_WORSE, "worse: " },
		      { FINDING_GONE, "gone: " },
		      { FINDING_BETTER, "better: " },
		      { FINDING_UNSEEN, "not looked at again: " } };
	bool said = false;
	unsigned worst = 0, was_worst = 0;
	vec_each(f, list) {
		worst = MAX(worst, f->after);
		was_worst = MAX(was_worst, f->before);
	}
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		said |= say_ids(list, parts[i].change, parts[i].words, !said, text);
	said |= say_figures(before, after, !said, text);
	if (!said)
		rich_text(text, "nothing of note changed");
	return worst >= was_worst + SEVERITY_STEP ? 1 : was_worst >= worst + SEVERITY_STEP ? -1 : 0;
}

/* ---- since the last ---- */

static const struct finding_item *item_in(const struct report *r, const char *finding)
{
	for (const struct block *b = r->first_block; b; b = b->next)
		for (const struct finding_item *i = findings_of(b) ? findings_of(b)->first : NULL; i; i = i->next)
			if (i->severity >= LISTED_LEAST && str_eq(i->finding, finding))
				return i;
	return NULL;
}

/* What an earlier one had found already: since then, or since it was first seen by one before that. */
static void note_first_seen(struct report *r, const struct report *before)
{
	for (struct block *b = r->first_block; b; b = b->next) {
		struct report_findings *f = b->kind == BLOCK_FINDINGS ? (struct report_findings *)(void *)b : NULL;
		for (struct finding_item *i = f ? f->first : NULL; i; i = i->next) {
			const struct finding_item *was =
				i->severity >= LISTED_LEAST ? item_in(before, i->finding) : NULL;
			if (was)
				i->first_seen_unix_ns =
					was->first_seen_unix_ns ? was->first_seen_unix_ns : before->facts.when_unix_ns;
		}
	}
}

/* "; still there: deadlocks.deadlock (first seen 03:12)": the most serious, which no word of change was about; the time
 * where it was not the last one that saw it first. */
static void say_still(const struct report *r, const struct report *before, const struct findings_compared *list,
		      struct rich *text)
{
	size_t n = 0;
	vec_each(f, list) {
		CLEANUP(buf_free) struct buf when = { 0 };
		const struct finding_item *i = f->change == FINDING_SAME ? item_in(r, f->finding) : NULL;
		if (!i || i->severity < STILL_LEAST || n == IDS_SAID)
			continue;
		rich_text(text, "%s", n++ ? ", " : "; still there: ");
		rich_code(text, i->finding);
		if (i->first_seen_unix_ns != before->facts.when_unix_ns)
			rich_text(text, " (first seen %s)", doc_when(r, i->first_seen_unix_ns, &when));
	}
}

void report_since(struct report *r, const struct report *before)
{
	CLEANUP(findings_freep) struct findings_compared list;
	CLEANUP(buf_free) struct buf when = { 0 };
	struct rich *text = report_note(r, REPORT_INFO);
	findings_compare(before, r, &list);
	note_first_seen(r, before);
	rich_text(text, "Since the diagnosis of %s: ", doc_when(r, before->facts.when_unix_ns, &when));
	findings_say(&list, before, r, text);
	say_still(r, before, &list, text);
	rich_text(text, ".");
	block_to_front(r);
}
