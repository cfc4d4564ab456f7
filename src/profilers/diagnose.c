/* Diagnose: what is wrong with this process? Vital signs first, then the few examinations that decide, each by the
 * profiler that would be run by hand; one verdict out of all of it (diagnose/verdict.h). */

#include "profilers/diagnose.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "exam/shared_looks.h"
#include "profilers/registry.h"
#include <math.h>

#define READ_EVERY_NS NS_PER_S
#define IMPRESSION_NS (4 * NS_PER_S)
#define LOCKS_RATE 2000 /* more contentions a second are heard in bursts */
#define LOCKS_SHARE 0.1
#define BUFFER_MB 8
#define FACT_SIGNS "vitals"
#define FACT_PLAN "plan"

/* ---- vital signs ---- */

static void on_event(void *user, const struct nettrace_event *event)
{
	runtime_signs_event(user, event);
}

static void open_streams(struct diagnosis *d)
{
	const struct events_stream streams[SIGNS_STREAMS] = {
		[SIGNS_COUNTERS] = { .name = "counters",
				     .providers = runtime_signs_counters,
				     .n_providers = RUNTIME_SIGNS_COUNTERS,
				     .unordered = true },
		[SIGNS_GC] = { .name = "gc", .providers = &runtime_signs_gc, .n_providers = 1 },
		[SIGNS_LOCKS] = { .name = "locks",
				  .providers = &runtime_signs_locks,
				  .n_providers = 1,
				  .unordered = true,
				  .burst_rate = LOCKS_RATE,
				  .burst_share = LOCKS_SHARE,
				  .scaled = true },
	};
	for (size_t i = 0; i < SIGNS_STREAMS; i++) {
		d->streams[i] = streams[i];
		d->streams[i].optional = true;
		d->streams[i].buffer_mb = BUFFER_MB;
		d->streams[i].event = on_event;
		d->streams[i].user = &d->runtime;
	}
}

/* Judges the vital signs as they are now. */
static void judge(struct diagnosis *d)
{
	d->n_judged = MIN(rules_count(), (size_t)JUDGED_MAX);
	for (size_t i = 0; i < d->n_judged; i++)
		d->judged[i] = rule_judge(rule_at(i), &d->vitals);
}

static const struct judgement *strongest(const struct diagnosis *d)
{
	const struct judgement *best = NULL;
	for (size_t i = 0; i < d->n_judged; i++)
		if (d->judged[i].state == RULE_SUSPECTED && (!best || d->judged[i].score > best->score))
			best = &d->judged[i];
	return best;
}

/* As soon as it stands; it may change, and says so. */
static void tell_impression(struct diagnosis *d, uint64_t now_ns)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	d->impression_told = true;
	d->vitals.end_ns = now_ns;
	/* The streams are still open: how long they were is known only at their end. */
	uint64_t heard_ns = now_ns - d->exam->start_ns;
	runtime_signs_end(&d->runtime, d->streams[SIGNS_GC].opened ? heard_ns : 0,
			  d->streams[SIGNS_LOCKS].opened && !d->streams[SIGNS_LOCKS].bursting ? heard_ns : 0);
	judge(d);
	const struct judgement *j = strongest(d);
	if (!j || j->score < VERDICT_NOTABLE) {
		exam_news(d->exam, "First impression: nothing unusual in the vital signs so far.");
		return;
	}
	j->rule->say(&d->vitals, j->measured, &text);
	exam_news(d->exam, "First impression, which can still change: %s.", buf_cstr(&text));
}

static struct err *begin_reading(void *user)
{
	struct diagnosis *d = user;
	kernel_signs_read(d->kernel, &d->vitals);
	d->next_read_ns = clock_mono_ns() + READ_EVERY_NS;
	return NULL;
}

static int no_fd(void *user UNUSED)
{
	return -1;
}

static void read_again(void *user)
{
	struct diagnosis *d = user;
	uint64_t now_ns = clock_mono_ns();
	if (now_ns < d->next_read_ns)
		return;
	kernel_signs_read(d->kernel, &d->vitals);
	d->next_read_ns += READ_EVERY_NS;
	if (!d->impression_told && d->exam->start_ns && now_ns - d->exam->start_ns >= IMPRESSION_NS)
		tell_impression(d, now_ns);
}

static void end_reading(void *user)
{
	struct diagnosis *d = user;
	kernel_signs_end(d->kernel, &d->vitals);
}

static struct err *take_signs(struct diagnosis *d)
{
	struct exam *exam = d->exam;
	const struct events_beside beside = { .start = begin_reading,
					      .fd = no_fd,
					      .turn = read_again,
					      .stop = end_reading,
					      .user = d,
					      .doing = "vital signs" };
	bool events = exam->way == WAY_EVENTS;
	open_streams(d);
	if (exam->replay)
		TRY(vitals_from_json(recording_fact(exam->recording, FACT_SIGNS), &d->vitals));
	TRY(exam_events_beside(exam, d->streams, events ? SIGNS_STREAMS : 0, exam_duration_ms(exam), &beside));
	runtime_signs_end(&d->runtime, d->streams[SIGNS_GC].open_ns, d->streams[SIGNS_LOCKS].open_ns);
	if (!exam->replay && exam->recording) {
		json_t *json = vitals_json(&d->vitals);
		recording_set_fact(exam->recording, FACT_SIGNS, json);
		json_decref(json);
	}
	return NULL;
}

/* ---- examinations ---- */

/* A replay makes those that were made, whatever the rules are now. */
static void recall_plan(struct diagnosis *d)
{
	const json_t *list = recording_fact(d->exam->recording, FACT_PLAN);
	d->plan = (struct plan){ 0 };
	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)PLAN_MAX); i++) {
		const json_t *step = json_array_get(list, i);
		const struct examination *e = plan_examination(json_get_str(step, "profiler", ""));
		if (e)
			d->plan.steps[d->plan.n++] =
				(struct plan_step){ .examination = e,
						    .because = rule_find(json_get_str(step, "because", "")) };
	}
}

static void keep_plan(const struct diagnosis *d)
{
	json_t *list = json_array();
	for (size_t i = 0; i < d->plan.n; i++) {
		const struct plan_step *s = &d->plan.steps[i];
		json_array_append_new(list, json_pack("{s:s, s:s}", "profiler", s->examination->profiler, "because",
						      s->because ? s->because->id : ""));
	}
	recording_set_fact(d->exam->recording, FACT_PLAN, list);
	json_decref(list);
}

static void make_plan(struct diagnosis *d)
{
	struct exam *exam = d->exam;
	const struct plan_options options = { .gentle = params_bool(exam->params, "gentle"),
					      .deep = params_bool(exam->params, "deep") };
	if (exam->replay && recording_fact(exam->recording, FACT_PLAN))
		recall_plan(d);
	else
		d->plan = plan_make(d->judged, d->n_judged, &options);
	if (!exam->replay && exam->recording)
		keep_plan(d);
}

static double seconds_of(const struct plan *p)
{
	double sum = 0;
	for (size_t i = 0; i < p->n; i++)
		sum += MAX(p->steps[i].examination->cost, 1u);
	return sum;
}

/* The first that stops the process: it looks for all the others too. */
static bool takes_looks(const struct diagnosis *d, size_t i)
{
	return d->plan.steps[i].examination->leads && (!i || !d->plan.steps[i - 1].examination->stops);
}

/* What the steps behind this one look for is drained with its looks. */
static struct err *share_looks(struct diagnosis *d, size_t leader)
{
	for (size_t i = leader + 1; i < d->plan.n; i++) {
		const struct profiler *p;
		TRY(profiler_find(d->plan.steps[i].examination->profiler, &p));
		shared_looks_want(d->looks, p);
	}
	return NULL;
}

static struct err *make_step(struct diagnosis *d, size_t i, const char *core, double *at, double whole)
{
	struct exam *exam = d->exam;
	const struct plan_step *s = &d->plan.steps[i];
	double to = *at + MAX(s->examination->cost, 1u) / whole;
	CLEANUP(mem_freep)
	char *what = core	  ? mem_strdup("the core file that it left")
		     : s->because ? mem_printf("%s, because of %s%s", s->examination->profiler,
					       rule_article(s->because), s->because->subject)
				  : mem_strdup(s->examination->profiler);
	struct consult_wanted wanted = { .params = s->examination->params,
					 .max_pause_ms = (uint64_t)params_int(exam->params, "max_pause"),
					 .gentle = params_bool(exam->params, "gentle"),
					 .core = core,
					 .looks = d->looks,
					 .leads = d->looks && takes_looks(d, i),
					 .from = *at,
					 .to = to,
					 .what = what };
	TRY(profiler_find(s->examination->profiler, &wanted.profiler));
	*at = to;
	struct consult *c = &d->consults[d->n_consults++];
	if (wanted.leads)
		TRY(share_looks(d, i));
	struct err *err = consult_run(exam, &wanted, c);
	c->wanted.what = NULL; /* ours, and gone */
	if (wanted.leads)
		shared_looks_end(d->looks, c->failed ? err_text(c->failed) : "no look was taken that it could share");
	return err;
}

/* The window of the whole diagnosis. */
static void note_window(struct diagnosis *d)
{
	struct exam *exam = d->exam;
	for (size_t i = 0; i < d->n_consults; i++) {
		const struct exam *c = &d->consults[i].exam;
		if (!exam->start_unix_ns) {
			exam->start_unix_ns = c->start_unix_ns;
			exam->start_ns = c->start_ns;
		}
		exam->end_ns = MAX(exam->end_ns, c->end_ns);
	}
	if (!exam->replay)
		exam_keep_window(exam);
}

static bool goes_on(const struct exam *exam)
{
	const struct target *t = &exam->patient->target;
	if (exam->replay || exam->core)
		return true;
	return !exam->cancelled && !exam_cancelled(exam) && !exam->other_program && (!t->pid || target_alive(t));
}

/* It died while it was looked at: its core file, if it left one, says why. */
static struct err *examine_core(struct diagnosis *d)
{
	const struct target *t = &d->exam->patient->target;
	char path[32];
	double at = 1;
	if (!t->pid || target_alive(t))
		return NULL;
	CLOSE_FD int fd = core_place_open(&d->core, d->exam->start_unix_ns);
	if (fd < 0)
		return NULL;
	exam_news(d->exam, "It ended and left a core file, which is looked at.");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	plan_insert_crash(&d->plan, d->n_consults);
	if (d->exam->recording)
		keep_plan(d);
	return make_step(d, d->n_consults, path, &at, 1.0);
}

/* Why not all of it was made: the reason is the report's, not only that of the examination that it met. */
static void note_end(struct diagnosis *d)
{
	struct exam *exam = d->exam;
	const struct target *t = &exam->patient->target;
	const struct consult *last = d->n_consults ? &d->consults[d->n_consults - 1] : NULL;
	bool met = last && (last->failed || last->exam.partial);
	const char *when = !last ? "before any examination"
			   : met ? "during "
				 : "after ",
		   *of = last ? last->profiler->id : "";
	if (exam->replay || exam->core || (!met && d->n_consults == d->plan.n))
		return;
	if (exam->cancelled || exam_cancelled(exam))
		exam_cut(exam, "cancelled %s%s", when, of);
	else if (exam->other_program)
		exam_cut(exam, "it became another program %s%s", when, of);
	else if (t->pid && !target_alive(t))
		exam_cut(exam, "the process ended %s%s", when, of);
}

static struct err *examine(struct diagnosis *d, double seconds_before)
{
	struct exam *exam = d->exam;
	double whole = seconds_before + seconds_of(&d->plan), at = whole > 0 ? seconds_before / whole : 0;
	exam->share = 0;
	for (size_t i = 0; i < d->plan.n && !exam->replay && !exam->core; i++)
		if (takes_looks(d, i))
			d->looks = shared_looks_new();
	for (size_t i = 0; i < d->plan.n && goes_on(exam); i++)
		TRY(make_step(d, i, NULL, &at, MAX(whole, 1.0)));
	if (d->looks)
		shared_looks_end(d->looks, "the diagnosis ended before");
	note_end(d);
	if (!exam->replay && !exam->core && !exam->cancelled)
		TRY(examine_core(d));
	note_window(d);
	return NULL;
}

static struct err *run(struct exam *exam)
{
	struct diagnosis *d = exam->state = mem_zalloc(sizeof(*d));
	d->exam = exam;
	d->core = (struct core_place){ .root = -1, .folder = -1 };
	runtime_signs_init(&d->runtime, &d->vitals);
	if (params_bool(exam->params, "gentle") && params_bool(exam->params, "deep"))
		return err_new(ERR_USAGE, "gentle and deep exclude each other");
	if (exam->core || (exam->replay && exam->way == WAY_IMAGE && !recording_fact(exam->recording, FACT_SIGNS))) {
		d->plan = plan_of_core();
		return examine(d, 0);
	}
	double seconds = (double)exam_duration_ms(exam) / 1e3;
	if (!exam->replay)
		core_place_note(&exam->patient->target, &d->core);
	d->kernel = kernel_signs_new("/proc", &exam->patient->target);
	exam->share = 0.5; /* until it is known what follows */
	TRY(take_signs(d));
	judge(d);
	make_plan(d);
	return examine(d, seconds);
}

static void free_state(void *state)
{
	struct diagnosis *d = state;
	for (size_t i = 0; i < d->n_consults; i++)
		consult_fini(&d->consults[i]);
	shared_looks_free(d->looks);
	core_place_fini(&d->core);
	kernel_signs_free(d->kernel);
	runtime_signs_fini(&d->runtime);
	vitals_fini(&d->vitals);
	mem_free(d);
}

const struct profiler profiler_diagnose = {
	.id = "diagnose",
	.uuid = "B1D9A6D2-3F0C-4B7E-9E57-64A0D1C2E8F3",
	.name = "Diagnosis",
	.chapter = CHAPTER_ALL,
	.label = "Something is wrong",
	.symptom = "something is wrong, and I do not know what",
	.description =
		"Looks for itself: takes the vital signs of the process (CPU, memory, limits, threads, the runtime's "
		"counters and events), judges them by rules, makes the few examinations that decide, and says "
		"the cause first, then its effects, then what to do; also what was ruled out and by what. "
		"`gentle` never stops the process; `deep` also looks for slow growth.",
	.cost = "stops a few milliseconds for each look, none with gentle; well under 1 % of its CPU for the vital signs",
	.params =
		(const struct param[]){
			{ .key = "duration",
			  .name = "Duration",
			  .description = "How long to take the vital signs, before any examination.",
			  .type = PARAM_INT,
			  .unit = "s",
			  .default_value = "10",
			  .min = 2,
			  .max = 600 },
			{ .key = "gentle",
			  .name = "Gentle",
			  .description = "Never stop the process: no look into its memory.",
			  .type = PARAM_BOOL,
			  .default_value = "false" },
			{ .key = "deep",
			  .name = "Deep",
			  .description = "Also look for growth of memory, which takes three looks.",
			  .type = PARAM_BOOL,
			  .default_value = "false" },
			{ .key = "max_pause",
			  .name = "Longest pause",
			  .description = "Make no look for which the process would stand still for longer.",
			  .type = PARAM_INT,
			  .unit = "ms",
			  .default_value = "50",
			  .min = 1,
			  .max = 60000 },
		},
	.n_params = 4,
	.ways = { WAY_EVENTS, WAY_IMAGE },
	.remembers = true,
	.run = run,
	.analyse = diagnosis_report,
	.free_state = free_state,
};
