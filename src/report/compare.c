#include "report/compare.h"
#include "base/fmt.h"
#include "base/str.h"
#include "report/compare_changes.h"
#include "report/compare_findings.h"
#include <math.h>

#define ROWS_SHOWN 50
#define JSON_ROWS_MAX 200
/* Windows that differ by less are the same. */
#define WINDOW_SHARE 0.05

static struct value number(enum value_kind kind, bool known, double n)
{
	return known ? (struct value){ .kind = kind, .number = n } : V_NONE;
}

static bool is_number(const struct fact *f)
{
	return f && !f->value.missing && !kind_is_text(f->value.kind) && f->value.kind != VALUE_TIME;
}

/* ---- the document ---- */

/* What is not listed, so that the columns still add up. */
static void add_rest(struct report_table *t, const struct compared *l)
{
	size_t n = 0;
	double before = 0, after = 0;
	bool known = true;
	vec_each(c, &l->changes) {
		if (c->status != CHANGE_SAME)
			continue;
		n++;
		before += c->before;
		after += c->after;
		known &= change_before_known(l, c) && change_after_known(l, c);
	}
	if (!n)
		return;
	/* Shares of frames overlap. */
	known &= !l->flame_after;
	CLEANUP(mem_freep) char *words = mem_printf("%s as before", fmt_plural(n, "other", "others").s);
	struct value cells[CHANGE_NAMES_MAX + 3] = { V_TEXT(words) };
	for (size_t i = 1; i < l->n_names; i++)
		cells[i] = V_NONE;
	cells[l->n_names] = number(l->value.kind, known, before);
	cells[l->n_names + 1] = number(l->value.kind, known, after);
	cells[l->n_names + 2] = number(l->value.kind, known, after - before);
	report_rest(t, cells);
}

static void add_table(struct report *r, const struct compared *l)
{
	enum value_kind kind = l->value.kind;
	CLEANUP(mem_freep)
	char *title =
		str_eq(l->value.name, l->title) ? mem_strdup(l->title) : mem_printf("%s: %s", l->title, l->value.name);
	struct report_table *t = report_table(r, title);
	for (size_t i = 0; i < l->n_names; i++)
		report_column(t, l->names[i].name, l->names[i].kind, l->names[i].flags & COLUMN_DATA);
	report_column(t, "Before", kind, 0);
	report_column(t, "After", kind, COLUMN_BAR);
	report_column(t, "Change", kind, COLUMN_SIGNED);
	size_t n = 0;
	vec_each(c, &l->changes) {
		struct value cells[CHANGE_NAMES_MAX + 3];
		bool was = change_before_known(l, c), is = change_after_known(l, c);
		if (c->status == CHANGE_SAME || n++ >= ROWS_SHOWN)
			continue;
		for (size_t i = 0; i < l->n_names; i++)
			cells[i] = *c->names[i];
		cells[l->n_names] = number(kind, was, c->before);
		cells[l->n_names + 1] = number(kind, is, c->after);
		cells[l->n_names + 2] = number(kind, was && is, c->after - c->before);
		report_row(t, cells);
	}
	t->rows_cut = n > ROWS_SHOWN ? n - ROWS_SHOWN : 0;
	add_rest(t, l);
}

static void add_list(struct report *r, const struct compared *l)
{
	bool changed = false;
	vec_each(c, &l->changes)
		changed |= c->status != CHANGE_SAME;
	if (l->flame_after)
		compare_flame(r, l->flame_before, l->flame_after);
	if (changed)
		add_table(r, l);
}

/* "before: 2 s, +250 %" */
static void figure_words(struct buf *out, const struct report *before, const struct fact *old, const struct fact *new)
{
	double was = old->value.number, size = fabs(new->value.number - was);
	bool numbers = is_number(old) && is_number(new);
	char sign = new->value.number > was ? '+' : '-';
	if (numbers && size == 0) {
		buf_str(out, "as before");
		return;
	}
	buf_str(out, "before: ");
	value_add(out, before, &old->value);
	if (!numbers)
		return;
	if (!change_matters(new->value.kind, was, new->value.number, size))
		buf_str(out, ", about the same");
	else if (new->value.kind == VALUE_RATIO)
		buf_printf(out, ", %c%s points", sign, fmt_number(size * 100).s);
	else if (was != 0)
		buf_printf(out, ", %c%s", sign, fmt_percent(size / fabs(was)).s);
}

static void add_figures(struct report *r, const struct report *before, const struct report *after)
{
	for (const struct fact *f = after->figures.first; f; f = f->next) {
		const struct fact *old = fact_find(&before->figures, f->label);
		CLEANUP(buf_free) struct buf was = { 0 };
		if (!old || old->value.kind != f->value.kind)
			continue;
		figure_words(&was, before, old, f);
		report_figure(r, f->label, f->value, buf_cstr(&was));
	}
}

/* ---- the verdict ---- */

static void verdict_number(struct rich *text, const struct report *r, enum value_kind kind, bool known, double n)
{
	CLEANUP(buf_free) struct buf s = { 0 };
	struct value v = number(kind, known, n);
	if (known)
		value_add(&s, r, &v);
	else
		buf_str(&s, "below what is shown");
	rich_strong(text, "%s", buf_cstr(&s));
}

/* Of the first list: what a profiler shows first is what it is about. */
static void add_verdict(struct report *r, const struct compared *l)
{
	const struct change *c = l && l->changes.n && l->changes.v[0].size > 0 ? &l->changes.v[0] : NULL;
	bool note = c && c->status != CHANGE_SAME, grew = c && c->in_after && (!c->in_before || c->after > c->before);
	struct rich *text = report_verdict(r, note ? REPORT_INFO : REPORT_OK,
					   !note  ? "no-change"
					   : grew ? "grew"
						  : "shrank");
	if (!note)
		rich_text(text, "Nothing of note changed between the two%s", c ? ": " : ".");
	if (!c)
		return;
	for (size_t i = 0; i < l->n_names; i++) {
		if (c->names[i]->missing || !c->names[i]->text)
			continue;
		rich_text(text, "%s", i ? ", " : "");
		(l->names[i].flags & COLUMN_DATA ? rich_data : rich_code)(text, c->names[i]->text);
	}
	rich_text(text, " %s most%s from ", grew ? "grew" : "shrank", note ? ":" : ",");
	verdict_number(text, r, l->value.kind, change_before_known(l, c), c->before);
	rich_text(text, " to ");
	verdict_number(text, r, l->value.kind, change_after_known(l, c), c->after);
	rich_text(text, " (%s, %s).", l->title, l->value.name);
}

/* Of reports that list findings: what came and went says more than any table. */
static void add_findings(struct report *r, const struct report *before, const struct report *after)
{
	static const char *const words[] = { "Better", "Neither better nor worse", "Worse" };
	static const char *const ids[] = { "got-better", "no-change", "got-worse" };
	CLEANUP(findings_freep) struct findings_compared list;
	struct report_table *t = NULL;
	struct rich say = { .report = r };
	findings_compare(before, after, &list);
	int worse = findings_say(&list, before, after, &say);
	struct rich *text = report_verdict(r,
					   worse > 0   ? REPORT_WARN
					   : worse < 0 ? REPORT_OK
						       : REPORT_INFO,
					   ids[worse + 1]);
	rich_strong(text, "%s", words[worse + 1]);
	rich_text(text, ": ");
	rich_add(text, &say);
	rich_text(text, ".");
	vec_each(f, &list) {
		if (!t) {
			t = report_table(r, "Findings");
			report_column(t, "Finding", VALUE_CODE, 0);
			report_column(t, "Severity before", VALUE_COUNT, 0);
			report_column(t, "After", VALUE_COUNT, 0);
			report_column(t, "Change", VALUE_TEXT, 0);
		}
		const struct value cells[] = { V_CODE(f->finding), f->before ? V_COUNT(f->before) : V_NONE,
					       f->after ? V_COUNT(f->after) : V_NONE,
					       V_TEXT(finding_change_names[f->change]) };
		report_row(t, cells);
	}
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
	report_how(r, "Change means", V_TEXT("2 points of a share or a tenth of anything else"), "less is noise");
	double longer = (double)MAX(a->window_ns, b->window_ns), shorter = (double)MIN(a->window_ns, b->window_ns);
	if (longer > shorter * (1 + WINDOW_SHARE))
		rich_text(report_note(r, REPORT_INFO),
			  "The windows differ: %s before, %s after. Counts and sums are as they were measured.",
			  fmt_duration_ns(b->window_ns).s, fmt_duration_ns(a->window_ns).s);
}

static struct report *document(const struct comparison *c, const struct report *before, const struct report *after)
{
	struct report *r = report_new();
	if (findings_has(before) && findings_has(after))
		add_findings(r, before, after);
	else
		add_verdict(r, c->lists.n ? &c->lists.v[0] : NULL);
	add_figures(r, before, after);
	vec_each(l, &c->lists) {
		add_list(r, l);
		report_details(r);
	}
	add_facts(r, before, after);
	return r;
}

struct err *report_compare(const struct report *before, const struct report *after, struct report **ret)
{
	struct comparison c;
	struct err *err = comparison_init(&c, before, after);
	if (!err)
		*ret = document(&c, before, after);
	comparison_fini(&c);
	return err;
}

/* ---- JSON ---- */

static void json_number(struct jsonw *w, const char *key, bool known, double n)
{
	jsonw_num(w, key, known ? n : NAN); /* written as null */
}

static void json_values(struct jsonw *w, bool was, double before, bool is, double after, bool change_known)
{
	json_number(w, "before", was, before);
	json_number(w, "after", is, after);
	json_number(w, "change", change_known, after - before);
	json_number(w, "ratio", was && is && before > 0, before > 0 ? after / before : 0);
}

static void json_figure(struct jsonw *w, const struct fact *before, const struct fact *after)
{
	const struct fact *either = after ? after : before;
	bool was = before && is_number(before), is = after && is_number(after);
	double a = was ? before->value.number : 0, b = is ? after->value.number : 0;
	if (!was && !is)
		return; /* a text says nothing about more or less */
	bool matters = change_matters(either->value.kind, a, b, fabs(b - a));
	enum change_status status = !matters ? CHANGE_SAME
				    : !was   ? CHANGE_NEW
				    : !is    ? CHANGE_GONE
				    : b > a  ? CHANGE_GREW
					     : CHANGE_SHRANK;
	jsonw_object(w, NULL);
	jsonw_str(w, "label", either->label);
	jsonw_str(w, "kind", value_kind_names[either->value.kind]);
	json_values(w, was, a, is, b, true);
	jsonw_str(w, "status", change_status_names[status]);
	jsonw_object_end(w);
}

static void json_figures(struct jsonw *w, const struct fact_list *before, const struct fact_list *after)
{
	jsonw_array(w, "figures");
	for (const struct fact *f = after->first; f; f = f->next)
		json_figure(w, fact_find(before, f->label), f);
	for (const struct fact *f = before->first; f; f = f->next)
		if (!fact_find(after, f->label))
			json_figure(w, f, NULL);
	jsonw_array_end(w);
}

static void json_row(struct jsonw *w, const struct compared *l, const struct change *c)
{
	jsonw_object(w, NULL);
	jsonw_array(w, "names");
	for (size_t i = 0; i < l->n_names; i++)
		jsonw_str(w, NULL, c->names[i]->text);
	jsonw_array_end(w);
	json_values(w, c->in_before, c->before, c->in_after, c->after,
		    change_before_known(l, c) && change_after_known(l, c));
	jsonw_str(w, "status", change_status_names[c->status]);
	jsonw_object_end(w);
}

static void json_list(struct jsonw *w, const struct compared *l)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "title", l->title);
	jsonw_array(w, "columns");
	for (size_t i = 0; i < l->n_names; i++)
		jsonw_str(w, NULL, l->names[i].name);
	jsonw_array_end(w);
	jsonw_str(w, "value", l->value.name);
	jsonw_str(w, "kind", value_kind_names[l->value.kind]);
	jsonw_array(w, "rows");
	for (size_t i = 0; i < l->changes.n && i < JSON_ROWS_MAX; i++)
		json_row(w, l, &l->changes.v[i]);
	jsonw_array_end(w);
	jsonw_u64(w, "rowsCut", l->changes.n > JSON_ROWS_MAX ? l->changes.n - JSON_ROWS_MAX : 0);
	jsonw_object_end(w);
}

static void json_findings(struct jsonw *w, const struct report *before, const struct report *after)
{
	CLEANUP(findings_freep) struct findings_compared list;
	findings_compare(before, after, &list);
	jsonw_array(w, "findings");
	vec_each(f, &list) {
		jsonw_object(w, NULL);
		jsonw_str(w, "finding", f->finding);
		json_number(w, "before", f->before, f->before);
		json_number(w, "after", f->after, f->after);
		jsonw_str(w, "status", finding_change_names[f->change]);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
}

struct err *report_compare_json(const struct report *before, const struct report *after, struct jsonw *w)
{
	struct comparison c;
	struct err *err = comparison_init(&c, before, after);
	if (!err) {
		json_figures(w, &before->figures, &after->figures);
		jsonw_array(w, "tables");
		vec_each(l, &c.lists)
			json_list(w, l);
		jsonw_array_end(w);
		json_findings(w, before, after);
	}
	comparison_fini(&c);
	return err;
}
