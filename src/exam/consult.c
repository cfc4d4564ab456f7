#include "exam/consult.h"
#include "base/str.h"
#include "exam/profiler.h"
#include "exam/shared_looks.h"
#include <stdio.h>

/* ---- its progress is part of the whole ---- */

static void on_progress(void *user, double ratio, const char *what)
{
	struct consult *c = user;
	const struct consult_wanted *w = &c->wanted;
	double whole = ratio < 0 ? -1 : w->from + (w->to - w->from) * MIN(ratio, 1.0);
	exam_progress(c->outer, whole, "%s: %s", w->what, what);
}

static void on_log(void *user, const char *line)
{
	struct consult *c = user;
	exam_log(c->outer, "%s: %s", c->profiler->id, line);
}

/* ---- one profiler ---- */

static struct err *set_params(struct consult *c)
{
	char ms[24];
	for (const char *const *p = c->wanted.params; p && *p; p += 2)
		TRY(params_set(c->params, p[0], p[1]));
	if (!c->wanted.max_pause_ms || !profiler_param(c->profiler, "max_pause_ms"))
		return NULL;
	snprintf(ms, sizeof(ms), "%llu", (unsigned long long)c->wanted.max_pause_ms);
	return params_set(c->params, "max_pause_ms", ms);
}

static void keep_way(struct consult *c)
{
	json_t *way = json_string(way_name(c->exam.way)), *reason = json_string(c->exam.way_reason);
	recording_set_fact(c->recording, "way", way);
	recording_set_fact(c->recording, "wayReason", reason);
	json_decref(way);
	json_decref(reason);
}

static struct err *recall_way(struct consult *c)
{
	const char *failed = json_string_value(recording_fact(c->recording, "failed"));
	const char *way = json_string_value(recording_fact(c->recording, "way"));
	const char *reason = json_string_value(recording_fact(c->recording, "wayReason"));
	if (failed)
		return err_new(ERR_NOT_FOUND, "%s", failed);
	if (!way)
		return err_new(ERR_NOT_FOUND, "it was not made");
	c->exam.way_reason = reason ? mem_strndup(reason, 1024) : NULL;
	return way_parse(way, &c->exam.way);
}

static struct err *examine(struct consult *c)
{
	TRY(set_params(c));
	if (c->exam.replay) {
		TRY(recall_way(c));
		return exam_run(&c->exam);
	}
	const char *refused = shared_looks_refused(c->exam.looks, c->profiler);
	if (refused)
		return err_new(ERR_DENIED, "%s", refused);
	c->exam.way = shared_looks_way(c->exam.looks, c->profiler);
	if (c->exam.way == WAY_AUTO)
		TRY(exam_choose_way(&c->exam, WAY_AUTO));
	/* Where the runtime takes the samples, it stops its threads for each. */
	if (c->exam.gentle && c->exam.way == WAY_EVENTS && c->profiler->ways[0] == WAY_SAMPLES)
		return err_new(ERR_DENIED, "samples by events would stop the process, which 'gentle' forbids");
	if (c->recording)
		keep_way(c);
	return exam_run(&c->exam);
}

static void keep_failure(struct consult *c)
{
	if (!c->failed || !c->recording || c->exam.replay)
		return;
	json_t *why = json_string(err_text(c->failed));
	recording_set_fact(c->recording, "failed", why);
	json_decref(why);
}

struct err *consult_run(struct exam *exam, const struct consult_wanted *wanted, struct consult *ret)
{
	struct consult *c = ret;
	*c = (struct consult){ .profiler = wanted->profiler, .outer = exam, .wanted = *wanted };
	c->params = params_new(wanted->profiler);
	c->recording = exam->recording ? recording_inside(exam->recording, wanted->profiler->id) : NULL;
	c->exam = (struct exam){ .profiler = wanted->profiler,
				 .params = c->params,
				 .patient = exam->patient,
				 .core = wanted->core ? wanted->core : exam->core,
				 .recording = c->recording,
				 .replay = exam->replay,
				 .gentle = wanted->gentle,
				 .looks = wanted->looks,
				 .leads = wanted->leads,
				 .session = exam->session,
				 .cancel_fd = exam->cancel_fd,
				 .on_progress = on_progress,
				 .on_log = on_log,
				 .user = c };
	c->failed = examine(c);
	keep_failure(c);
	exam->cancelled |= c->exam.cancelled || (c->failed && err_kind(c->failed) == ERR_CANCELLED);
	exam->other_program |= c->exam.other_program;
	return NULL;
}

void consult_analyse(struct consult *c)
{
	if (c->failed)
		return;
	c->report = report_new();
	c->failed = exam_analyse(&c->exam, c->report);
	if (!c->failed)
		return;
	report_free(c->report);
	c->report = NULL;
}

void consult_fini(struct consult *c)
{
	exam_fini(&c->exam);
	report_free(c->report);
	recording_free(c->recording);
	params_free(c->params);
	err_free(c->failed);
	*c = (struct consult){ 0 };
}
