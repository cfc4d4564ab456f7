/* The worker's side: one process, one examination. It is told what to do on one pipe and tells how it goes, as JSON
 * lines, on another:
 *
 *   {"state":"running"}   {"progress":0.4,"what":"..."}   {"log":"..."}   {"error":"...","kind":"denied"}
 *   {"listening":true}   {"news":"..."}
 *
 * Order on disk: recording, reports and log, then session.json, then the row. A death at any point leaves the session
 * unfinished, for session_conclude, or finished. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/exhausted.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "exam/exam.h"
#include "exam/image_exam.h"
#include "report/compare.h"
#include "version.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define EVENT_WRITE_MS 1000
#define SPEC_READ_MS 10000
#define PROGRESS_EVERY_NS (100 * NS_PER_MS)
#define PROGRESS_STORE_EVERY_NS NS_PER_S
#define LOG_BYTES_MAX ((size_t)1 << 20)

struct worker {
	struct worker_spec spec;
	struct store *store;
	struct store_row row;
	char *dir, *recording_dir;
	const struct profiler *profiler;
	struct params *params;
	struct patient patient;
	bool has_patient, live;
	struct recording *recording, *before;
	struct report *report;
	struct exam exam;
	int cancel_fd;
	size_t log_bytes;
	uint64_t told_ns, stored_ns;
	double ratio;
	bool listener_gone, listening;
};

static void tell(struct worker *w, struct buf *line)
{
	buf_char(line, '\n');
	/* A starter that was killed or does not read is no reason to stop. */
	if (!w->listener_gone) {
		struct err *err =
			fd_write_full(WORKER_EVENTS_FD, line->data, line->len, deadline_in_ms(EVENT_WRITE_MS));
		w->listener_gone = err != NULL;
		err_ignore(err);
	}
	buf_free(line);
}

static void tell_text(struct worker *w, const char *key, const char *text, const char *kind)
{
	struct buf line = { 0 };
	struct jsonw j = jsonw_make(&line, false);
	jsonw_object(&j, NULL);
	jsonw_strn(&j, key, text, strnlen(text, 8192));
	if (kind)
		jsonw_str(&j, "kind", kind);
	jsonw_object_end(&j);
	tell(w, &line);
}

static void log_line(struct worker *w, const char *text)
{
	struct buf line = { 0 };
	buf_printf(&line, "%s ", fmt_time_iso(clock_real_ns()).s);
	str_add_visible(&line, text, strlen(text), 2000);
	buf_char(&line, '\n');
	w->log_bytes += line.len;
	/* Standard error is log.txt. A full disk costs the log only. */
	if (w->log_bytes <= LOG_BYTES_MAX && write(2, line.data, line.len) < 0)
		w->log_bytes = LOG_BYTES_MAX;
	buf_free(&line);
	tell_text(w, "log", text, NULL);
}

static void log_f(struct worker *w, const char *fmt, ...) PRINTF(2, 3);
static void log_f(struct worker *w, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	log_line(w, text);
}

static void on_log(void *user, const char *text)
{
	log_line(user, text);
}

static void on_news(void *user, const char *text)
{
	log_line(user, text);
	tell_text(user, "news", text, NULL);
}

static void on_progress(void *user, double ratio, const char *what)
{
	struct worker *w = user;
	uint64_t now_ns = clock_mono_ns();
	if (ratio >= 0)
		w->ratio = MIN(ratio, 1.0);
	if (now_ns - w->told_ns < PROGRESS_EVERY_NS)
		return;
	w->told_ns = now_ns;
	struct buf line = { 0 };
	struct jsonw j = jsonw_make(&line, false);
	jsonw_object(&j, NULL);
	jsonw_num(&j, "progress", ratio);
	jsonw_strn(&j, "what", what, strnlen(what, 1000));
	jsonw_object_end(&j);
	tell(w, &line);
	if (now_ns - w->stored_ns < PROGRESS_STORE_EVERY_NS)
		return;
	w->stored_ns = now_ns;
	err_ignore(store_progress(w->store, w->row.guid, w->ratio));
}

static void on_listening(void *user)
{
	struct worker *w = user;
	struct buf line = { 0 };
	if (w->listening)
		return;
	w->listening = true;
	buf_str(&line, "{\"listening\":true}");
	tell(w, &line);
}

/* Files beside the report are a help, not the result: one that cannot be written costs only itself. */
static void on_artifact(void *user, const char *name, const void *data, size_t len)
{
	struct worker *w = user;
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", w->dir, name);
	struct err *err = file_put(path, data, len, 0600);
	if (err)
		log_line(w, err_text(err));
	err_free(err);
}

static void set_state(struct worker *w, enum store_state state)
{
	w->row.state = state;
	w->row.progress = store_state_finished(state) ? 1 : w->ratio;
	/* The index may lag or be busy; the folder decides in the end. */
	struct err *err = store_put(w->store, &w->row);
	if (err)
		log_line(w, err_text(err));
	err_free(err);
	tell_text(w, "state", store_state_name(state), NULL);
}

/* The signals stay blocked and pending: the fd stays readable, however often it is polled. */
static struct err *listen_for_cancel(struct worker *w)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (w->cancel_fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
		return err_errno(errno, "listen for signals");
	return NULL;
}

static struct err *read_spec(struct worker *w)
{
	struct buf text = { .limit = SPEC_BYTES_MAX };
	struct deadline deadline = deadline_in_ms(SPEC_READ_MS);
	struct err *err = NULL;
	for (ssize_t n = 1; n && !err;) {
		char *room = buf_room(&text, 4096);
		err = room ? fd_wait(WORKER_SPEC_FD, POLLIN, deadline) : err_new(ERR_BAD_DATA, "a very long order");
		if (err)
			break;
		n = read(WORKER_SPEC_FD, room, 4096);
		if (n < 0 && errno != EINTR)
			err = err_errno(errno, "read the order");
		text.len += n > 0 ? (size_t)n : 0;
	}
	if (!err)
		err = spec_read(buf_cstr(&text), text.len, &w->spec);
	buf_free(&text);
	return err;
}

/* Under memory pressure the kernel shall take the examiner, not the patient. */
static void offer_to_oom(void)
{
	CLOSE_FD int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "600", 3) < 0)
		return;
}

/* Up to the point from which failures can be kept in the session. */
static struct err *begin(struct worker *w, const char *guid)
{
	TRY(listen_for_cancel(w));
	TRY(read_spec(w));
	TRY(store_open(w->spec.home, &w->store));
	w->dir = store_session_dir(w->store, guid);
	w->recording_dir = mem_printf("%s/recording", w->dir);
	TRY(store_get(w->store, guid, &w->row));
	w->row.owner_pid = getpid();
	w->row.owner_start = owner_start_ticks(getpid());
	w->row.started_ns = clock_real_ns();
	offer_to_oom();
	return NULL;
}

static struct err *identify_core(struct worker *w)
{
	struct patient found;
	TRY(image_exam_core_patient(w->spec.core, &found));
	patient_fini(&w->patient);
	w->patient = found;
	store_set(&w->row.process, patient_name(&found));
	store_set(&w->row.runtime, found.info.runtime_version);
	w->row.target_id = found.target.id;
	return NULL;
}

static struct err *find_patient(struct worker *w)
{
	char id[16];
	if (w->spec.core) {
		TRY(spec_read_patient(json_object_get(w->spec.json, "patient"), &w->patient));
		w->has_patient = true;
		w->exam.core = w->spec.core;
		/* The patient is determined here when the starter knows only the file. */
		return w->patient.info.runtime_version ? NULL : identify_core(w);
	}
	snprintf(id, sizeof(id), "%d", w->spec.target_id);
	TRY(patient_find(id, FIND_TIMEOUT_MS, &w->patient));
	w->has_patient = true;
	return spec_check_patient(&w->spec, &w->patient);
}

static void keep_fact(struct worker *w, const char *key, json_t *value)
{
	recording_set_fact(w->recording, key, value);
	json_decref(value);
}

/* A living process or a core file. */
static struct err *open_live(struct worker *w)
{
	TRY(find_patient(w));
	/* What will not be kept need not be written. */
	TRY(recording_create(w->recording_dir, w->spec.keep_recording ? 0 : RECORDING_KEEP_BYTES, &w->recording));
	keep_fact(w, "patient", spec_patient_json(&w->patient));
	keep_fact(w, "profiler", json_string(w->profiler->id));
	keep_fact(w, "session", json_string(w->row.guid));
	keep_fact(w, "version", json_string(DRDOTNET_VERSION));
	keep_fact(w, "parameters", spec_parameters(w->profiler, w->params));
	w->exam.patient = &w->patient;
	w->exam.recording = w->recording;
	w->exam.launched = w->spec.launched;
	TRY(exam_choose_way(&w->exam, w->spec.way));
	keep_fact(w, "way", json_string(way_name(w->exam.way)));
	if (w->exam.way_reason)
		keep_fact(w, "wayReason", json_string(w->exam.way_reason));
	return NULL;
}

static struct err *open_replay(struct worker *w)
{
	TRY(recording_open(w->spec.recording, &w->recording));
	TRY(session_recorded_patient(w->recording, &w->patient));
	w->has_patient = true;
	w->exam.patient = &w->patient;
	w->exam.recording = w->recording;
	w->exam.replay = true;
	if (w->spec.before)
		TRY(recording_open(w->spec.before, &w->before));
	w->exam.before = w->before;
	const char *way = json_string_value(recording_fact(w->recording, "way"));
	const char *reason = json_string_value(recording_fact(w->recording, "wayReason"));
	w->exam.way_reason = reason ? mem_strndup(reason, 1024) : NULL;
	w->exam.way = w->profiler->ways[0];
	return way ? way_parse(way, &w->exam.way) : NULL;
}

static struct err *prepare(struct worker *w, struct err *(*find)(const char *, const struct profiler **))
{
	TRY(find(w->spec.profiler, &w->profiler));
	w->params = params_new(w->profiler);
	TRY(spec_set_parameters(w->profiler, w->params, json_object_get(w->spec.json, "parameters")));
	w->exam = (struct exam){ .profiler = w->profiler,
				 .params = w->params,
				 .session = w->row.guid,
				 .cancel_fd = w->cancel_fd,
				 .on_progress = on_progress,
				 .on_log = on_log,
				 .on_news = on_news,
				 .on_listening = on_listening,
				 .on_artifact = on_artifact,
				 .user = w };
	w->live = !w->spec.recording;
	return w->live ? open_live(w) : open_replay(w);
}

static struct err *collect(struct worker *w, bool *ret_cancelled)
{
	TRY(exam_run(&w->exam));
	*ret_cancelled = w->exam.cancelled;
	if (!w->live)
		return NULL;
	struct err *err = recording_seal(w->recording);
	const char *why = err ? err_text(err) : recording_drop_reason(w->recording);
	if (why)
		log_f(w, "the recording is not kept whole: %s", why);
	err_free(err);
	return NULL;
}

static const char *health_name(enum report_health health)
{
	static const char *const names[] = { "ok", "info", "warn", "bad" };
	return names[health];
}

/* The newest one that is done and began after the process did; NULL = none. A number of an ended process may be used
 * again: the age of the process tells. */
static struct report *last_report(struct worker *w)
{
	const struct store_filter filter = { .profiler = w->profiler->id,
					     .process = w->row.process,
					     .target_id = w->row.target_id,
					     .states = 1u << STORE_DONE,
					     .limit = 1 };
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	struct report *report = NULL;
	if (!w->exam.age_ns)
		return NULL;
	err_ignore(store_list(w->store, &filter, &rows));
	int64_t began_ns = w->row.started_ns - (int64_t)w->exam.age_ns;
	if (rows.n && rows.v[0].started_ns >= began_ns)
		err_ignore(session_report_of(w->store, &rows.v[0], &report));
	return report;
}

static struct err *conclude(struct worker *w)
{
	w->report = report_new();
	TRY(exam_analyse(&w->exam, w->report));
	CLEANUP(report_freep) struct report *last = w->profiler->remembers && w->live ? last_report(w) : NULL;
	if (last)
		report_since(w->report, last);
	struct buf verdict = { 0 };
	if (report_verdict_text(w->report))
		rich_plain(report_verdict_text(w->report), &verdict);
	store_set(&w->row.verdict, buf_cstr(&verdict));
	buf_free(&verdict);
	store_set(&w->row.health, health_name(report_health(w->report)));
	store_set(&w->row.finding, report_finding(w->report));
	store_set(&w->row.partial, w->exam.partial);
	return NULL;
}

static void drop_recording(struct worker *w)
{
	if (w->live)
		err_ignore(dir_remove(w->recording_dir));
}

/* With all that was written before it: one wait for the disk. */
static struct err *save_report(struct worker *w)
{
	TRY(files_save_report(w->dir, w->profiler, w->report));
	return dir_sync(w->dir);
}

/* With the disk full, the report matters more than the raw data. */
static struct err *save(struct worker *w)
{
	bool sealed = w->live && recording_sealed(w->recording);
	if (!sealed || (recording_kept_bytes(w->recording) > RECORDING_KEEP_BYTES && !w->spec.keep_recording))
		drop_recording(w);
	struct err *err = save_report(w);
	if (!err)
		return NULL;
	log_line(w, err_text(err));
	err_free(err);
	drop_recording(w);
	return save_report(w);
}

/* Two at once disturb each other's looks only, which take turns: the user is told why it takes longer. */
static void tell_of_others(struct worker *w)
{
	const struct store_filter filter = {
		.profiler = w->profiler->id, .target_id = w->row.target_id, .states = 1u << STORE_RUNNING, .limit = 2
	};
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	if (!w->live || w->spec.core || !w->profiler->remembers)
		return;
	err_ignore(store_list(w->store, &filter, &rows));
	vec_each(other, &rows) {
		CLEANUP(mem_freep)
		char *text = mem_printf("Session %.8s diagnoses the same process: what stops it waits for its turn.",
					other->guid);
		if (!str_eq(other->guid, w->row.guid))
			on_news(w, text);
	}
}

static struct err *examine(struct worker *w, struct err *(*find)(const char *, const struct profiler **),
			   bool *ret_cancelled)
{
	TRY(prepare(w, find));
	log_f(w, "%s on %s (%d) by %s, drdotnet %s", w->profiler->id, patient_name(&w->patient), w->patient.target.id,
	      w->spec.core ? "its core file"
	      : w->live	   ? way_name(w->exam.way)
			   : "its recording",
	      DRDOTNET_VERSION);
	tell_of_others(w);
	TRY(collect(w, ret_cancelled));
	uint64_t window_ns = w->exam.end_ns - w->exam.start_ns;
	log_f(w, "looked %s%s%s%s", window_ns ? "for " : "once", window_ns ? fmt_duration_ns(window_ns).s : "",
	      w->exam.partial ? ": " : "", w->exam.partial ? w->exam.partial : "");
	set_state(w, STORE_ANALYSING);
	uint64_t start_ns = clock_mono_ns();
	TRY(conclude(w));
	/* The verdict may name values that a share link does not show; the log is shown as it is. */
	log_f(w, "analysed in %s: %s", fmt_duration_ns(clock_mono_ns() - start_ns).s,
	      w->row.finding ? w->row.finding : "no finding");
	TRY_WRAP(save(w), "the report could not be saved");
	return NULL;
}

/* session.json, then the row; when not even that can be written, rather nothing at all. */
static void finish(struct worker *w, enum store_state state, struct err *err)
{
	if (err) {
		log_line(w, err_text(err));
		tell_text(w, "error", err_text(err), err_kind_name(err_kind(err)));
		store_set(&w->row.error, err_text(err));
		files_drop_reports(w->dir);
		if (!w->recording || !recording_sealed(w->recording))
			drop_recording(w);
		err_ignore(dir_sync(w->dir));
	}
	w->row.finished_ns = clock_real_ns();
	w->row.state = state;
	w->row.progress = 1;
	struct err *bad = store_record_write(w->dir, &w->row);
	if (bad) {
		tell_text(w, "error", err_text(bad), err_kind_name(err_kind(bad)));
		err_free(bad);
		err_ignore(dir_remove(w->dir));
		err_ignore(store_delete(w->store, w->row.guid));
		return;
	}
	w->row.bytes = dir_bytes(w->dir);
	set_state(w, state);
}

static void worker_fini(struct worker *w)
{
	exam_fini(&w->exam);
	report_free(w->report);
	recording_free(w->recording);
	recording_free(w->before);
	if (w->has_patient)
		patient_fini(&w->patient);
	params_free(w->params);
	store_row_fini(&w->row);
	store_close(w->store);
	worker_spec_fini(&w->spec);
	mem_free(w->dir);
	mem_free(w->recording_dir);
	fd_closep(&w->cancel_fd);
}

int session_worker(const char *guid, struct err *(*find)(const char *name, const struct profiler **ret))
{
	struct worker w = { .cancel_fd = -1 };
	int fds[] = { WORKER_SPEC_FD, WORKER_EVENTS_FD, WORKER_LOCK_FD };
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) < 0)
			return 2; /* started by hand, not by us */
	signal(SIGPIPE, SIG_IGN);
	mem_set_exhausted_exit(WORKER_NO_MEMORY);
	CLEANUP(err_freep) struct err *err = store_guid_ok(guid) ? begin(&w, guid) : err_new(ERR_USAGE, "no guid");
	if (err) {
		tell_text(&w, "error", err_text(err), err_kind_name(err_kind(err)));
		worker_fini(&w);
		return 1;
	}
	set_state(&w, STORE_RUNNING);
	bool cancelled = false;
	err = examine(&w, find, &cancelled);
	if (err)
		cancelled = err_kind(err) == ERR_CANCELLED;
	finish(&w, cancelled ? STORE_CANCELLED : err ? STORE_FAILED : STORE_DONE, err);
	worker_fini(&w);
	return 0;
}
