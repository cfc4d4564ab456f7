/* The report of a diagnosis: one verdict, what was also seen, what was ruled out and by what, what could not be looked
 * at, each examination as a section, and the vital signs. */

#include "base/fmt.h"
#include "base/str.h"
#include "profilers/diagnose.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

#define SERIOUS 90
#define EFFECTS_SAID 2
#define CPU_STEP 0.1 /* cores: less is no change */

struct diagnosis_view {
	struct diagnosis *d;
	struct report *report;
	struct outcome outcomes[PLAN_MAX]; /* of each consult, in its order */
	struct verdict verdict;
	size_t ruled_out, unknown;
};

/* ---- sentences ---- */

/* A clause as a sentence of its own. */
static void say_sentence(const struct diagnosis *d, const struct judgement *j, struct rich *out)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	j->rule->say(&d->vitals, j->measured, &text);
	if (text.len)
		text.data[0] = (char)toupper((unsigned char)text.data[0]);
	rich_text(out, "%s.", buf_cstr(&text));
}

static const struct consult *consult_of(const struct diagnosis_view *v, const struct outcome *o)
{
	return &v->d->consults[o - v->outcomes];
}

/* Up to the place; all that an examination says stands in its section. */
static void say(const struct diagnosis_view *v, const struct finding *f, struct rich *out)
{
	if (f->outcome)
		rich_add_place(out, report_verdict_text(consult_of(v, f->outcome)->report));
	else
		say_sentence(v->d, f->judged, out);
}

/* How sure, and by what. */
static char *confidence(const struct finding *f)
{
	const char *word = finding_confidence_word(f->confidence);
	if (f->outcome)
		return mem_printf("%s: examined by %s%s", word, f->outcome->profiler,
				  f->outcome->why ? ", which was cut short" : "");
	if (f->confidence == FINDING_DOUBTFUL && f->judged->rule->proof)
		return mem_printf("%s: by the vital signs; %s did not confirm it", word, f->judged->rule->proof);
	return mem_printf("%s: by the vital signs", word);
}

/* ---- the verdict ---- */

static const struct finding *cause_of(const struct verdict *v)
{
	return v->n && v->findings[0].role == FINDING_CAUSE ? &v->findings[0] : NULL;
}

/* Is it what made one look for that cause? */
static bool led_to(const struct finding *f, const struct finding *cause)
{
	return f->judged && cause->outcome && str_eq(f->judged->rule->proof, cause->outcome->profiler);
}

/* Numbers that users feel; what an examination says stands in its section. What led to the cause says the same again, of
 * another window: one of it at most, and none alone. */
static bool say_effects(const struct diagnosis_view *v, const struct finding *cause)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	size_t said = 0, again = 0;
	for (size_t i = 1; i < v->verdict.n && said < EFFECTS_SAID; i++) {
		const struct finding *f = &v->verdict.findings[i];
		bool same = led_to(f, cause);
		if (f->role != FINDING_EFFECT || !f->judged || (same && again))
			continue;
		again += same;
		buf_str(&text, said++ ? "; " : "");
		f->judged->rule->say(&v->d->vitals, f->judged->measured, &text);
	}
	if (said > again)
		rich_text(report_effect(v->report), "It shows: %s.", buf_cstr(&text));
	return said > again;
}

/* A second sickness, which the first does not explain, is no less true for being named after it. */
static void say_second(const struct diagnosis_view *v, bool more)
{
	for (const struct finding *f = v->verdict.findings; f < v->verdict.findings + v->verdict.n; f++) {
		if (f->role != FINDING_ALSO || f->severity < SCORE_WARNING)
			continue;
		struct rich *text = report_effect(v->report);
		rich_strong(text, more ? " And beside it: " : "And beside it: ");
		say(v, f, text);
		return;
	}
}

static void say_next(const struct diagnosis_view *v, const struct finding *cause)
{
	const struct report *of = cause->outcome ? consult_of(v, cause->outcome)->report : NULL;
	if (of)
		rich_add(report_next(v->report), report_next_text(of));
	else if (cause->judged->rule->next)
		rich_text(report_next(v->report), "%s", cause->judged->rule->next);
}

static void say_cause(const struct diagnosis_view *v, const struct finding *cause)
{
	enum report_health health = cause->severity >= SERIOUS	       ? REPORT_BAD
				    : cause->severity >= SCORE_WARNING ? REPORT_WARN
								       : REPORT_INFO;
	struct rich *text = report_verdict(v->report, health, cause->id);
	say(v, cause, text);
	bool effects = say_effects(v, cause);
	say_second(v, effects);
	say_next(v, cause);
}

/* The few numbers that a healthy process is described by. */
static void describe(const struct vitals *s, struct rich *out)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (vitals_has(s, VITALS_REQUESTS))
		buf_printf(&text, ", %s requests", fmt_rate(vitals_mean(s, VITALS_REQUESTS)).s);
	if (vitals_has(s, VITALS_CPU))
		buf_printf(&text, ", %s of %s cores", fmt_number(vitals_mean(s, VITALS_CPU)).s,
			   fmt_number(vitals_mean(s, VITALS_CPU_USABLE)).s);
	if (vitals_has(s, VITALS_GC_LONGEST) && s->of[VITALS_GC_LONGEST].last > 0)
		buf_printf(&text, ", longest GC pause %s", fmt_duration_ns((uint64_t)s->of[VITALS_GC_LONGEST].last).s);
	if (vitals_has(s, VITALS_HEAP))
		buf_printf(&text, ", %s on the heap", fmt_bytes((uint64_t)s->of[VITALS_HEAP].last).s);
	if (vitals_has(s, VITALS_THREADS))
		buf_printf(&text, ", %s", fmt_plural((uint64_t)s->of[VITALS_THREADS].last, "thread", "threads").s);
	if (text.len)
		rich_text(out, ":%s.", buf_cstr(&text) + 1);
	else
		rich_text(out, ".");
}

/* What vital signs cannot rule out. */
static const char *const only_by_looks[] = { "deadlocks", "stuck-tasks", "zombie-threads" };

static bool was_examined(const struct diagnosis_view *v, const char *profiler)
{
	for (size_t i = 0; i < v->d->n_consults; i++)
		if (str_eq(v->outcomes[i].profiler, profiler) && v->outcomes[i].finding)
			return true;
	return false;
}

/* "deadlocks, stuck-tasks and zombie-threads", of those that were not examined; NULL = none. */
static char *unseen_words(const struct diagnosis_view *v)
{
	const char *names[ARRAY_SIZE(only_by_looks)];
	size_t n = 0;
	CLEANUP(buf_free) struct buf words = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(only_by_looks); i++)
		if (!was_examined(v, only_by_looks[i]))
			names[n++] = only_by_looks[i];
	for (size_t i = 0; i < n; i++)
		buf_printf(&words, "%s%s", !i ? "" : i + 1 < n ? ", " : " and ", names[i]);
	return n ? mem_strdup(buf_cstr(&words)) : NULL;
}

static void say_healthy(const struct diagnosis_view *v)
{
	struct fmt_text things = fmt_plural(v->ruled_out, "thing was", "things were");
	bool cut = v->d->exam->partial || v->d->n_consults < v->d->plan.n;
	if (!v->d->n_judged) {
		struct rich *text = report_verdict(v->report, REPORT_INFO, "nothing-found");
		rich_text(text, "Nothing unusual was found in this core file: %s looked at.", things.s);
		return;
	}
	/* No all-clear where most could not be looked at, what only a look can see was not, or the end is missing. */
	CLEANUP(mem_freep) char *unseen = unseen_words(v);
	if (unseen || v->unknown > v->ruled_out || cut) {
		struct rich *text = report_verdict(v->report, REPORT_INFO, "little-seen");
		CLEANUP(mem_freep) char *others = unseen ? NULL : mem_printf("%s", fmt_count(v->unknown).s);
		rich_text(text, "%s looked at, none unusual, but %s could not be: this is no all-clear.", things.s,
			  unseen ? unseen : others);
		return;
	}
	struct rich *text = report_verdict(v->report, REPORT_OK, "healthy");
	rich_strong(text, "Healthy");
	rich_text(text, ": %s looked at, none unusual", things.s);
	describe(&v->d->vitals, text);
}

/* ---- lists ---- */

/* Each examination has a window of its own: what changed between two of them is no contradiction. */
static char *window_words(const struct diagnosis *d, const struct exam *exam)
{
	uint64_t zero_ns = d->vitals.start_ns ? d->vitals.start_ns : d->exam->start_ns;
	struct fmt_text from = fmt_duration_ns(exam->start_ns - MIN(zero_ns, exam->start_ns));
	struct fmt_text to = fmt_duration_ns(exam->end_ns - MIN(zero_ns, exam->end_ns));
	if (exam->core || !exam->start_ns)
		return mem_strdup("in the file");
	return mem_printf("from %s to %s after the beginning", from.s, to.s);
}

static void add_finding(const struct diagnosis_view *v, struct report_findings *list, const struct finding *f)
{
	CLEANUP(mem_freep) char *sure = confidence(f);
	say(v, f, report_finding_add(list, f->id, f->severity, sure));
}

/* Cause and effects in their order, with how serious and how sure. */
static void list_chain(const struct diagnosis_view *v)
{
	if (!cause_of(&v->verdict))
		return;
	struct report_findings *list = report_findings(v->report, "How it hangs together", false);
	for (size_t i = 0; i < v->verdict.n; i++) {
		const struct finding *f = &v->verdict.findings[i];
		CLEANUP(mem_freep) char *sure = confidence(f);
		if (f->role == FINDING_ALSO)
			continue;
		struct rich *text = report_finding_add(list, f->id, f->severity, sure);
		rich_strong(text, f->role == FINDING_CAUSE ? "Cause: " : "Effect: ");
		if (f->role == FINDING_CAUSE && f->outcome) {
			CLEANUP(mem_freep) char *when = window_words(v->d, &consult_of(v, f->outcome)->exam);
			rich_text(text, "found by %s, %s; its proof is below.", f->outcome->profiler, when);
		} else
			say(v, f, text);
	}
}

static void list_also(const struct diagnosis_view *v)
{
	struct report_findings *list = NULL;
	for (size_t i = 0; i < v->verdict.n; i++) {
		if (v->verdict.findings[i].role != FINDING_ALSO)
			continue;
		list = list ? list : report_findings(v->report, "Also seen", false);
		add_finding(v, list, &v->verdict.findings[i]);
	}
}

/* There is nothing to look at: no limit is set, no request was sent. */
static bool is_absent(const struct judgement *j)
{
	return j->state == RULE_OUT && (j->why || isnan(j->measured));
}

static void list_rules_out(const struct diagnosis_view *v, struct report_findings *list, bool absent)
{
	for (const struct judgement *j = v->d->judged; j < v->d->judged + v->d->n_judged; j++) {
		CLEANUP(buf_free) struct buf by = { 0 };
		if (j->state != RULE_OUT || is_absent(j) != absent)
			continue;
		if (absent)
			buf_str(&by, j->why ? j->why : "does not apply");
		else
			j->rule->ruled_out(&v->d->vitals, j->measured, &by);
		rich_text(report_finding_add(list, j->rule->id, 0, NULL), "%s (%s)", j->rule->subject, buf_cstr(&by));
	}
}

/* "stuck tasks (nothing is stuck: ...)" */
static void add_examined_out(const struct diagnosis_view *v, struct report_findings *list, const struct outcome *o)
{
	const struct consult *c = consult_of(v, o);
	const char *name = c->profiler->name;
	bool word = !isupper((unsigned char)name[1]);
	struct rich *text = report_finding_add(list, o->profiler, 0, NULL);
	rich_text(text, "%c%s (%s", word ? tolower((unsigned char)*name) : *name, name + 1,
		  o->severity ? "nothing serious: " : "");
	rich_add_clause(text, report_verdict_text(c->report));
	rich_text(text, ")");
}

/* What was examined first, what is not there last. */
static void list_ruled_out(const struct diagnosis_view *v)
{
	struct report_findings *list = report_findings(v->report, "Ruled out", true);
	for (const struct outcome *o = v->outcomes; o < v->outcomes + v->d->n_consults; o++)
		if (o->finding && o->severity < SCORE_WARNING)
			add_examined_out(v, list, o);
	list_rules_out(v, list, false);
	list_rules_out(v, list, true);
}

static void count_things(struct diagnosis_view *v)
{
	for (size_t i = 0; i < v->d->n_judged; i++) {
		v->ruled_out += v->d->judged[i].state == RULE_OUT && !is_absent(&v->d->judged[i]);
		v->unknown += v->d->judged[i].state == RULE_UNKNOWN;
	}
	for (size_t i = 0; i < v->d->n_consults; i++) {
		v->ruled_out += v->outcomes[i].finding && v->outcomes[i].severity < SCORE_WARNING;
		v->unknown += !v->outcomes[i].finding;
	}
	v->unknown += v->d->plan.n - v->d->n_consults;
}

/* What an examination would have to say that does not exist yet; NULL = none is missing. */
static const char *unplaced(const struct rule *rule)
{
	if (rule->unplaced || !rule->proof)
		return rule->unplaced;
	return plan_examination(rule->proof) ? NULL : rule->subject;
}

static void add_unknown(const struct diagnosis_view *v, struct report_findings **list, const char *finding,
			const char *subject, const char *why)
{
	if (!*list)
		*list = report_findings(v->report, "Could not be looked at", true);
	rich_text(report_finding_add(*list, finding, 0, NULL), "%s (%s)", subject, why);
}

static void list_unknown(const struct diagnosis_view *v)
{
	struct report_findings *list = NULL;
	const struct diagnosis *d = v->d;
	for (const struct judgement *j = d->judged; j < d->judged + d->n_judged; j++)
		if (j->state == RULE_UNKNOWN)
			add_unknown(v, &list, j->rule->id, j->rule->subject, j->why);
		else if (j->state == RULE_SUSPECTED && unplaced(j->rule))
			add_unknown(v, &list, j->rule->id, unplaced(j->rule), "no examination for it exists yet");
	for (const struct outcome *o = v->outcomes; o < v->outcomes + d->n_consults; o++)
		if (!o->finding)
			add_unknown(v, &list, o->profiler, o->profiler, o->why);
	for (size_t i = d->n_consults; i < d->plan.n; i++) {
		const char *profiler = d->plan.steps[i].examination->profiler;
		add_unknown(v, &list, profiler, profiler, "the diagnosis ended before");
	}
	for (size_t i = 0; i < ARRAY_SIZE(only_by_looks) && params_bool(d->exam->params, "gentle"); i++)
		add_unknown(v, &list, only_by_looks[i], only_by_looks[i], "it needs a look, which --gentle forbids");
}

/* ---- examinations ---- */

static void judge_consults(struct diagnosis_view *v)
{
	for (size_t i = 0; i < v->d->n_consults; i++) {
		struct consult *c = &v->d->consults[i];
		consult_analyse(c);
		v->outcomes[i] = (struct outcome){ .profiler = c->profiler->id };
		if (c->report) {
			v->outcomes[i].finding = report_finding(c->report);
			v->outcomes[i].severity = outcome_severity(report_health(c->report));
			v->outcomes[i].why = c->exam.partial;
			/* Of a window that was cut short only what it found is worth something. */
			if (c->exam.partial && v->outcomes[i].severity < SCORE_WARNING)
				v->outcomes[i].finding = NULL;
		} else {
			v->outcomes[i].why = c->failed ? err_text(c->failed) : "it was not made";
		}
	}
}

/* Its report is ours afterwards. Of the cause only what the verdict has not said. */
static void add_section(const struct diagnosis_view *v, size_t i, bool is_cause)
{
	struct consult *c = &v->d->consults[i];
	const struct plan_step *step = &v->d->plan.steps[i];
	CLEANUP(mem_freep) char *when = window_words(v->d, &c->exam);
	CLEANUP(mem_freep) char *title = mem_printf("%s%s", is_cause ? "Proof: " : "", c->profiler->name);
	struct rich *text =
		report_section(v->report, title, c->profiler->id, report_health(c->report), report_finding(c->report));
	if (is_cause)
		rich_add_rest(text, report_verdict_text(c->report));
	else
		rich_add(text, report_verdict_text(c->report));
	if (c->exam.partial)
		rich_text(text, " Cut short: %s.", c->exam.partial);
	if (step->because)
		rich_text(text, " Examined because of %s%s, %s.", rule_article(step->because), step->because->subject,
			  when);
	else
		rich_text(text, " Examined %s.", when);
	report_take_blocks(v->report, STEAL(c->report), is_cause ? 1 : 0);
}

/* The cause first, then what else was found; what was ruled out is a line of its list, and more on the page only. */
static void add_sections(const struct diagnosis_view *v)
{
	const struct finding *cause = cause_of(&v->verdict);
	size_t first = cause && cause->outcome ? (size_t)(cause->outcome - v->outcomes) : PLAN_MAX;
	if (first < v->d->n_consults)
		add_section(v, first, true);
	for (size_t i = 0; i < v->d->n_consults; i++)
		if (v->d->consults[i].report && v->outcomes[i].severity >= SCORE_WARNING)
			add_section(v, i, false);
	report_details(v->report);
	for (size_t i = 0; i < v->d->n_consults; i++)
		if (v->d->consults[i].report)
			add_section(v, i, false);
}

/* ---- vital signs ---- */

static struct value value_of(enum vital_unit unit, double x)
{
	if (!isfinite(x))
		return V_NONE;
	switch (unit) {
	case VITAL_RATIO:
		return V_RATIO(x);
	case VITAL_BYTES:
	case VITAL_BYTES_PER_SECOND:
		return V_BYTES(x);
	case VITAL_PER_SECOND:
		return V_RATE(x);
	case VITAL_NS:
		return V_NS(x);
	case VITAL_COUNT:
	case VITAL_CORES:
	case VITAL_THREADS:
		break;
	}
	return V_NUMBER(x);
}

static void add_table(const struct diagnosis_view *v)
{
	const struct vitals *s = &v->d->vitals;
	struct report_table *t = report_table(v->report, "Vital signs");
	report_column(t, "Signal", VALUE_TEXT, 0);
	report_column(t, "Mean", VALUE_NUMBER, 0);
	report_column(t, "Least", VALUE_NUMBER, 0);
	report_column(t, "Most", VALUE_NUMBER, 0);
	report_column(t, "From", VALUE_TEXT, 0);
	for (size_t i = 0; i < VITALS_N; i++) {
		const struct vital_info *info = &vital_infos[i];
		bool has = s->of[i].n;
		CLEANUP(mem_freep)
		char *from = has ? mem_strdup(vital_source_name(info->source))
				 : mem_printf("%s: %s", vital_source_name(info->source),
					      s->of[i].why ? s->of[i].why : "not measured");
		const struct value cells[] = { V_TEXT(info->label),
					       value_of(info->unit, vitals_mean(s, (enum vital_id)i)),
					       value_of(info->unit, has ? s->of[i].min : NAN),
					       value_of(info->unit, has ? s->of[i].max : NAN), V_TEXT(from) };
		report_row(t, cells);
	}
}

static void add_line(const struct vitals *s, struct report_chart *c, enum vital_id id, const char *name)
{
	uint64_t x[VITAL_POINTS_MAX];
	double y[VITAL_POINTS_MAX];
	size_t n = 0;
	vec_each(p, &s->of[id].points) {
		if (p->at_ns < s->start_ns)
			continue;
		x[n] = p->at_ns - s->start_ns;
		y[n++] = p->value;
	}
	if (n)
		report_chart_line(c, name, x, y, n);
}

static void add_charts(const struct diagnosis_view *v)
{
	const struct vitals *s = &v->d->vitals;
	uint64_t window_ns = s->end_ns - MIN(s->start_ns, s->end_ns);
	struct report_chart *c = report_chart(v->report, "Cores used", VALUE_NUMBER, window_ns);
	add_line(s, c, VITALS_CPU, "CPU");
	c = report_chart(v->report, "Memory", VALUE_BYTES, window_ns);
	add_line(s, c, VITALS_RSS, "resident");
	add_line(s, c, VITALS_HEAP, "managed heap");
	c = report_chart(v->report, "Work that waits", VALUE_NUMBER, window_ns);
	add_line(s, c, VITALS_POOL_QUEUE, "pool queue");
	add_line(s, c, VITALS_REQUESTS_NOW, "requests in flight");
}

/* "of 2 cores, first 10 s; 0.042 at their end": a process that has just started, or is just done, has no one number. */
static char *cpu_words(const struct vitals *s, const char *window)
{
	double mean = vitals_mean(s, VITALS_CPU), last = s->of[VITALS_CPU].last;
	struct fmt_text cores = fmt_number(vitals_mean(s, VITALS_CPU_USABLE));
	if (s->of[VITALS_CPU].n < 2 || fabs(mean - last) < CPU_STEP || MAX(mean, last) < 2 * MIN(mean, last))
		return mem_printf("of %s cores, %s", cores.s, window);
	return mem_printf("of %s cores, %s; %s at their end", cores.s, window, fmt_number(last).s);
}

static void add_figures(const struct diagnosis_view *v)
{
	const struct vitals *s = &v->d->vitals;
	CLEANUP(mem_freep)
	char *window = mem_printf("first %s", fmt_duration_ns(s->end_ns - MIN(s->start_ns, s->end_ns)).s);
	CLEANUP(mem_freep) char *of = cpu_words(s, window);
	CLEANUP(mem_freep) char *gc = mem_printf("of the time stopped, %s", window);
	CLEANUP(mem_freep) char *queue = mem_printf("work items, %s", window);
	if (!v->d->n_judged)
		return;
	report_figure(v->report, "CPU", value_of(VITAL_CORES, vitals_mean(s, VITALS_CPU)), of);
	report_figure(v->report, "Memory",
		      value_of(VITAL_BYTES, vitals_has(s, VITALS_RSS) ? s->of[VITALS_RSS].last : NAN), "resident");
	report_figure(v->report, "GC", value_of(VITAL_RATIO, vitals_mean(s, VITALS_GC_PAUSED)), gc);
	report_figure(v->report, "Pool queue", value_of(VITAL_COUNT, vitals_mean(s, VITALS_POOL_QUEUE)), queue);
	if (vitals_has(s, VITALS_REQUESTS))
		report_figure(v->report, "Requests", V_RATE(vitals_mean(s, VITALS_REQUESTS)), NULL);
}

/* Which examinations had the same looks, by the instants that they tell; NULL = none. */
static char *shared_words(const struct diagnosis *d)
{
	CLEANUP(buf_free) struct buf words = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < d->n_consults; i++)
		for (size_t k = 0; k < d->n_consults; k++) {
			const struct consult *a = &d->consults[i], *b = &d->consults[k];
			if (i == k || a->failed || b->failed || !a->exam.start_ns || a->exam.way == WAY_EVENTS ||
			    a->exam.start_ns != b->exam.start_ns)
				continue;
			buf_printf(&words, "%s%s", n++ ? ", " : "", a->profiler->id);
			break;
		}
	return n ? mem_printf("the longest; %s saw the same looks", buf_cstr(&words)) : NULL;
}

static void add_how(const struct diagnosis_view *v, double pause_ns)
{
	const struct diagnosis *d = v->d;
	CLEANUP(buf_free) struct buf made = { 0 };
	uint64_t lost = 0;
	for (size_t i = 0; i < SIGNS_STREAMS; i++)
		lost += d->streams[i].lost;
	for (size_t i = 0; i < d->n_consults; i++)
		buf_printf(&made, "%s%s", i ? ", " : "", d->consults[i].profiler->id);
	if (d->n_judged) {
		CLEANUP(mem_freep)
		char *by = mem_printf("by /proc, its control group%s; without a stop",
				      d->exam->way == WAY_EVENTS ? " and events" : "");
		report_how(v->report, "Vital signs", V_NS(d->vitals.end_ns - d->vitals.start_ns), by);
		report_how(v->report, "Lost", V_COUNT(lost), "events of the vital signs");
	}
	if (!d->n_judged)
		report_how(v->report, "Way", V_TEXT("core file"), NULL);
	report_how(v->report, "Examinations", V_COUNT(d->n_consults), made.len ? buf_cstr(&made) : NULL);
	if (!d->n_judged)
		return;
	CLEANUP(mem_freep) char *together = shared_words(d);
	report_how(v->report, "Target paused", isnan(pause_ns) ? V_NS(0) : V_NS(pause_ns),
		   isnan(pause_ns) ? "no look was taken"
		   : together	   ? together
				   : "the longest");
}

/* Of all looks; NAN when there was none. Before their reports are taken over. */
static double longest_pause(const struct diagnosis *d)
{
	double most = NAN;
	for (size_t i = 0; i < d->n_consults; i++) {
		static const char *const labels[] = { "Target paused", "One look into memory" };
		for (size_t k = 0; k < ARRAY_SIZE(labels) && d->consults[i].report; k++) {
			double ns = report_how_number(d->consults[i].report, labels[k]);
			most = isnan(most) || ns > most ? ns : most;
		}
	}
	return most;
}

struct err *diagnosis_report(struct exam *exam, struct report *report)
{
	struct diagnosis *d = exam->state;
	struct diagnosis_view v = { .d = d, .report = report };
	judge_consults(&v);
	verdict_make(d->judged, d->n_judged, v.outcomes, d->n_consults, &v.verdict);
	count_things(&v);
	const struct finding *cause = cause_of(&v.verdict);
	if (cause)
		say_cause(&v, cause);
	else
		say_healthy(&v);
	add_figures(&v);
	list_chain(&v);
	list_also(&v);
	list_ruled_out(&v);
	list_unknown(&v);
	double pause_ns = longest_pause(d);
	add_how(&v, pause_ns);
	add_sections(&v);
	if (d->n_judged) {
		add_charts(&v);
		add_table(&v);
	}
	return NULL;
}
