#include "exam/exam.h"
#include "attach/attach.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/whose.h"
#include "exam/code_list.h"
#include "exam/image_exam.h"
#include "exam/own_code.h"
#include "exam/profiler.h"
#include "exam/proof.h"
#include "exam/shared_looks.h"
#include "version.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_UP_NS (60 * NS_PER_S)
#define AGE "process_age_ns" /* fact of a recording */

void exam_progress(struct exam *exam, double ratio, const char *fmt, ...)
{
	if (!exam->on_progress)
		return;
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *what = mem_vprintf(fmt, ap);
	va_end(ap);
	exam->on_progress(exam->user, ratio >= 0 && exam->share > 0 ? ratio * exam->share : ratio, what);
}

PRINTF(3, 0)
static void tell(void (*to)(void *user, const char *line), void *user, const char *fmt, va_list ap)
{
	CLEANUP(mem_freep) char *line = to ? mem_vprintf(fmt, ap) : NULL;
	if (to)
		to(user, line);
}

void exam_log(struct exam *exam, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tell(exam->on_log, exam->user, fmt, ap);
	va_end(ap);
}

void exam_news(struct exam *exam, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tell(exam->on_news, exam->user, fmt, ap);
	va_end(ap);
}

void exam_cut(struct exam *exam, const char *fmt, ...)
{
	if (exam->partial)
		return;
	va_list ap;
	va_start(ap, fmt);
	exam->partial = mem_vprintf(fmt, ap);
	va_end(ap);
}

bool exam_cancelled(const struct exam *exam)
{
	struct pollfd fd = { .fd = exam->cancel_fd, .events = POLLIN };
	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN);
}

bool exam_wait_ms(const struct exam *exam, uint64_t ms)
{
	struct deadline deadline = deadline_in_ms(ms);
	struct pollfd fd = { .fd = exam->cancel_fd, .events = POLLIN };
	while (!deadline_passed(deadline)) {
		if (poll(&fd, 1, deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			break;
		if (fd.revents & POLLIN)
			return true;
	}
	return false;
}

void exam_keep_window(struct exam *exam)
{
	if (!exam->recording)
		return;
	json_t *window =
		json_pack("{s:I, s:I, s:I, s:s?, s:s?, s:s?, s:i}", "start_unix_ns", (json_int_t)exam->start_unix_ns,
			  "start_ns", (json_int_t)exam->start_ns, "end_ns", (json_int_t)exam->end_ns, "partial",
			  exam->partial, "proof", exam->proof, "unproven", exam->unproven, "blind", exam->blind);
	recording_set_fact(exam->recording, "window", window);
	json_decref(window);
}

struct err *exam_recall_window(struct exam *exam)
{
	const json_t *window = recording_fact(exam->recording, "window");
	exam->start_unix_ns = json_get_int(window, "start_unix_ns", 0);
	exam->start_ns = (uint64_t)json_get_int(window, "start_ns", 0);
	exam->end_ns = (uint64_t)json_get_int(window, "end_ns", 0);
	if (!window || exam->end_ns < exam->start_ns)
		return err_new(ERR_BAD_DATA, "the recording does not say when it was made");
	const char *partial = json_get_str(window, "partial", NULL);
	if (partial)
		exam_cut(exam, "%s", partial);
	const char *unproven = json_get_str(window, "unproven", NULL), *proof = json_get_str(window, "proof", NULL);
	if (proof)
		exam_proven(exam, "%s", proof);
	if (unproven)
		exam_unproven(exam, json_get_int(window, "blind", 0) == REPORT_WARN ? REPORT_WARN : REPORT_INFO, "%s",
			      unproven);
	return NULL;
}

/* As it was when the recording was made. */
static void learn_age(struct exam *exam)
{
	const struct target *t = &exam->patient->target;
	if (exam->replay)
		exam->age_ns = (uint64_t)MAX(json_integer_value(recording_fact(exam->recording, AGE)), 0);
	if (exam->replay || exam->core || !t->seen_ns)
		return;
	exam->age_ns = MAX(t->uptime_ns + (clock_mono_ns() - t->seen_ns), (uint64_t)1);
	if (!exam->recording)
		return;
	json_t *age = json_integer((json_int_t)exam->age_ns);
	recording_set_fact(exam->recording, AGE, age);
	json_decref(age);
}

bool exam_is_young(const struct exam *exam)
{
	uint64_t window_ns = exam->end_ns - MIN(exam->end_ns, exam->start_ns);
	return exam->age_ns && exam->age_ns < WARM_UP_NS && window_ns < 2 * WARM_UP_NS;
}

uint64_t exam_duration_ms(const struct exam *exam)
{
	return (uint64_t)params_int(exam->params, profiler_duration(exam->profiler)->key) * 1000;
}

unsigned exam_runtime_major(const struct exam *exam)
{
	const char *version = exam->patient->info.runtime_version;
	return version ? (unsigned)strtoul(version, NULL, 10) : 0;
}

void exam_artifact(struct exam *exam, const char *name, const void *data, size_t len)
{
	if (exam->on_artifact && len && !exam->unproven)
		exam->on_artifact(exam->user, name, data, len);
}

static bool uses(const struct profiler *profiler, enum way way)
{
	for (const enum way *w = profiler->ways; *w; w++) {
		if (*w == way)
			return true;
	}
	return false;
}

static struct err *none_open(const struct exam *exam, const struct way_check *checks, enum way wanted)
{
	struct buf why = { 0 };
	for (const enum way *w = exam->profiler->ways; *w; w++) {
		if (wanted != WAY_AUTO && *w != wanted)
			continue;
		buf_printf(&why, "%s%s: %s", why.len ? "; " : "", way_name(*w), checks[*w].why);
		if (checks[*w].fix)
			buf_printf(&why, " (%s)", checks[*w].fix);
	}
	struct err *err = err_new(ERR_DENIED, "no way to look into process %d for %s is open: %s",
				  exam->patient->target.id, exam->profiler->id, buf_cstr(&why));
	buf_free(&why);
	return err;
}

static struct err *choose_core(struct exam *exam, enum way wanted)
{
	if (!uses(exam->profiler, WAY_IMAGE) || (wanted != WAY_AUTO && wanted != WAY_IMAGE))
		return err_new(ERR_USAGE, "%s watches a living process; a core file is one instant of a dead one",
			       exam->profiler->id);
	exam->way = WAY_IMAGE;
	return NULL;
}

/* That a copy can be taken is not enough: the library that understands it must be there, and the pause be allowed. */
static void check_look(const struct exam *exam, struct way_check *check)
{
	char *fix = NULL;
	CLEANUP(err_freep) struct err *err = check->open ? exam_image_check(exam, &fix) : NULL;
	if (!err)
		return;
	way_check_fini(check);
	*check = (struct way_check){ .why = mem_strdup(err_text(err)), .fix = fix };
}

/* What forbids a look from outside though the rights are there forbids one from inside too. */
static void close_agent_as(const struct way_check *image, struct way_check *agent)
{
	way_check_fini(agent);
	*agent = (struct way_check){ .why = mem_strdup(image->why), .fix = image->fix ? mem_strdup(image->fix) : NULL };
}

/* There must be a library, and the process's state must allow a copy, whichever way makes it. */
static void check_agent(const struct exam *exam, struct way_check *check)
{
	const char *fix = "install it beside drdotnet";
	CLEANUP(err_freep) struct err *err = check->open ? attach_check(exam->patient, NULL) : NULL;
	if (!err && check->open)
		err = exam_agent_check(exam, &fix);
	/* Where no copy is made, only a debugger or another examination stands against it. */
	if (!err || (!uses(exam->profiler, WAY_IMAGE) && err_kind(err) != ERR_BUSY))
		return;
	way_check_fini(check);
	*check = (struct way_check){ .why = mem_strdup(err_text(err)), .fix = fix ? mem_strdup(fix) : NULL };
}

/* The best one that is open. */
static enum way best_way(const struct exam *exam, const struct way_check *checks, enum way wanted)
{
	for (const enum way *w = exam->profiler->ways; *w; w++) {
		if ((wanted == WAY_AUTO || *w == wanted) && checks[*w].open)
			return *w;
	}
	return WAY_AUTO;
}

static void on_waiting(void *user, pid_t holder)
{
	if (holder > 0)
		exam_progress(user, -1, "waiting for its turn: process %d examines it", holder);
	else
		exam_progress(user, -1, "waiting for its turn: someone else examines it");
}

/* Only one intrusive examination of a target at a time. If another one still runs when the time is up, the way is
 * closed. */
static struct err *wait_turn(struct exam *exam, struct deadline deadline, bool *ret_waited)
{
	const struct patient *p = exam->patient;
	struct image_turn turn = { .cookie = p->answered ? p->info.cookie : NULL,
				   .deadline = deadline,
				   .cancel_fd = exam->cancel_fd,
				   .waiting = on_waiting,
				   .user = exam };
	struct err *err = image_wait_turn(&p->target, &turn, ret_waited);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_ignore(err);
	return NULL;
}

/* Those that were tried. */
static void close_failed(const struct exam *exam, struct way_check *checks)
{
	for (size_t i = 0; i < WAY_COUNT; i++) {
		if (!exam->way_failed[i])
			continue;
		way_check_fini(&checks[i]);
		checks[i].why = mem_strdup(exam->way_failed[i]);
	}
}

static void close_stopping(struct way_check *checks)
{
	const enum way stopping[] = { WAY_IMAGE, WAY_AGENT };
	for (size_t i = 0; i < ARRAY_SIZE(stopping); i++) {
		struct way_check *check = &checks[stopping[i]];
		way_check_fini(check);
		*check = (struct way_check){ .why = mem_strdup("it would stop the process, which --gentle forbids") };
	}
}

/* What the rights allow, then what the process's own state does. */
static struct err *check_ways(struct exam *exam, enum way wanted, struct deadline turn, struct way_check *checks,
			      bool *ret_waited)
{
	patient_check(exam->patient, FIND_TIMEOUT_MS, checks);
	if (exam->gentle)
		close_stopping(checks);
	bool rights = checks[WAY_IMAGE].open;
	enum way best = best_way(exam, checks, wanted);
	*ret_waited = false;
	if (best == WAY_IMAGE || best == WAY_AGENT)
		TRY(wait_turn(exam, turn, ret_waited));
	if (uses(exam->profiler, WAY_IMAGE))
		check_look(exam, &checks[WAY_IMAGE]);
	if (uses(exam->profiler, WAY_AGENT))
		check_agent(exam, &checks[WAY_AGENT]);
	if (rights && !checks[WAY_IMAGE].open && wanted == WAY_AUTO)
		close_agent_as(&checks[WAY_IMAGE], &checks[WAY_AGENT]);
	close_failed(exam, checks);
	exam->way = best_way(exam, checks, wanted);
	/* Another examination that waited too was faster: wait again. */
	*ret_waited = *ret_waited && exam->way != best && !deadline_passed(turn);
	return NULL;
}

struct err *exam_choose_way(struct exam *exam, enum way wanted)
{
	TRY(profiler_check_way(exam->profiler, wanted));
	if (exam->core)
		return choose_core(exam, wanted);
	struct way_check checks[WAY_COUNT] = { 0 };
	struct deadline turn = deadline_in_ms(EXAM_TURN_MS);
	struct err *err = NULL;
	exam->way_named = wanted != WAY_AUTO;
	for (bool again = true; again && !err;) {
		for (size_t i = 0; i < WAY_COUNT; i++)
			way_check_fini(&checks[i]);
		err = check_ways(exam, wanted, turn, checks, &again);
	}
	if (err)
		exam->way = WAY_AUTO;
	else if (exam->way == WAY_AUTO)
		err = none_open(exam, checks, wanted);
	else if (wanted == WAY_AUTO && exam->way != exam->profiler->ways[0])
		exam->way_reason = mem_strdup(checks[exam->profiler->ways[0]].why);
	for (size_t i = 0; i < WAY_COUNT; i++)
		way_check_fini(&checks[i]);
	return err;
}

static bool is_of_filter(const struct exam *exam, const struct err *failed)
{
	enum err_kind kind = err_kind(failed);
	const struct target *t = &exam->patient->target;
	return (kind == ERR_UNSUPPORTED || kind == ERR_DENIED || kind == ERR_IO || kind == ERR_TIMEOUT) &&
	       image_filter(t) != IMAGE_FILTER_NONE && (!t->pid || target_alive(t));
}

struct err *exam_next_way(struct exam *exam, struct err *failed)
{
	enum way before = exam->way;
	if (exam->way_named || exam->core || exam->replay || exam->way_failed[before] || !is_of_filter(exam, failed))
		return failed;
	exam->way_failed[before] = mem_strdup(err_text(failed));
	mem_free(exam->way_reason);
	exam->way_reason = NULL;
	struct err *none = exam_choose_way(exam, WAY_AUTO);
	if (none) {
		err_free(failed);
		exam->way = before;
		return none;
	}
	if (exam->recording)
		recording_clear(exam->recording);
	exam_log(exam, "by %s: %s; now by %s", way_name(before), err_text(failed), way_name(exam->way));
	err_free(failed);
	return NULL;
}

static void free_state(struct exam *exam)
{
	if (exam->looks)
		shared_looks_forget(exam->looks, exam);
	if (exam->state && exam->profiler->free_state)
		exam->profiler->free_state(exam->state);
	exam->state = NULL;
}

struct err *exam_run(struct exam *exam)
{
	learn_age(exam);
	own_code_learn(exam);
	for (;;) {
		struct err *err = exam->profiler->run(exam);
		if (!err)
			return NULL;
		TRY(exam_next_way(exam, err));
		free_state(exam);
	}
}

static void add_facts(struct exam *exam, struct report *report)
{
	char host[256] = "";
	if (!exam->replay && !exam->core)
		gethostname(host, sizeof(host) - 1);
	const struct patient *p = exam->patient;
	report_set_facts(report, &(struct report_facts){
					 .profiler = exam->profiler->id,
					 .title = exam->profiler->name,
					 .process = patient_name(p),
					 .target_id = p->target.id,
					 .runtime = p->info.runtime_version,
					 .container = p->target.container,
					 .pod = p->target.pod,
					 .host = *host ? host : NULL,
					 .when_unix_ns = exam->start_unix_ns,
					 .window_ns = exam->end_ns - exam->start_ns,
					 .session = exam->session,
					 .version = DRDOTNET_VERSION,
					 .partial = exam->partial,
				 });
}

static void add_params(const struct exam *exam, struct report *report)
{
	for (size_t i = 0; i < exam->profiler->n_params; i++) {
		const struct param *param = &exam->profiler->params[i];
		const char *value = params_text(exam->params, param->key);
		CLEANUP(mem_freep)
		char *shown = param->unit ? mem_printf("%s %s", value, param->unit) : mem_strdup(value);
		report_param(report, param->name, shown, params_is_default(exam->params, param->key));
		if (param->data)
			report_param_is_data(report);
	}
}

struct err *exam_analyse(struct exam *exam, struct report *report)
{
	TRY(exam->profiler->analyse(exam, report));
	exam_prove_report(exam, report);
	CLEANUP(mem_freep) char *not = mem_printf("Why not by %s", way_name(exam->profiler->ways[0]));
	if (exam->way_reason)
		report_how(report, not, V_TEXT(exam->way_reason), NULL);
	exam_code_how(exam, report);
	add_facts(exam, report);
	add_params(exam, report);
	return NULL;
}

void exam_fini(struct exam *exam)
{
	free_state(exam);
	whose_names_free(exam->whose);
	exam->whose = NULL;
	mem_free(exam->partial);
	mem_free(exam->proof);
	mem_free(exam->unproven);
	mem_free(exam->way_reason);
	mem_free(exam->code_unread);
	for (size_t i = 0; i < WAY_COUNT; i++) {
		mem_free(exam->way_failed[i]);
		exam->way_failed[i] = NULL;
	}
	exam->partial = exam->proof = exam->unproven = exam->way_reason = exam->code_unread = NULL;
}
