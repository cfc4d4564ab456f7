/* The life of a session without a patient: a profiler of the test's own looks at a small recording again. The worker is
 * this very program, started by session_start as `_worker GUID`. */

#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "session/internal.h"
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char root[64];

static struct err *fake_run(struct exam *exam)
{
	const char *mode = params_text(exam->params, "mode");
	exam->start_unix_ns = 1700000000000000000;
	exam->start_ns = 1;
	exam->end_ns = 1000000001;
	exam_log(exam, "mode is %s", mode);
	exam_progress(exam, 0.25, "looking");
	if (str_eq(mode, "wait")) {
		TRY(fd_wait(exam->cancel_fd, POLLIN, deadline_in_ms(20000)));
		exam->cancelled = true;
		exam_cut(exam, "cancelled after a while");
	}
	if (str_eq(mode, "deaf"))
		err_ignore(fd_wait(-1, POLLIN, deadline_in_ms(20000)));
	if (str_eq(mode, "cut"))
		exam_cut(exam, "the process ended after 1 s");
	if (str_eq(mode, "crash"))
		raise(SIGSEGV);
	if (str_eq(mode, "no-memory"))
		mem_free(mem_array(SIZE_MAX, 2));
	if (str_eq(mode, "exit"))
		_exit(9);
	if (str_eq(mode, "denied"))
		return err_new(ERR_DENIED, "not for you");
	if (str_eq(mode, "stopped-early"))
		return err_new(ERR_CANCELLED, "nothing was seen");
	return NULL;
}

static struct err *fake_analyse(struct exam *exam, struct report *report)
{
	if (str_eq(params_text(exam->params, "mode"), "bad-analysis"))
		return err_new(ERR_BAD_DATA, "makes no sense");
	if (str_eq(params_text(exam->params, "mode"), "crash-late"))
		raise(SIGABRT);
	rich_text(report_verdict(report, REPORT_WARN, "fake-finding"), "All is fake.");
	return NULL;
}

static const struct profiler fake = {
	.id = "fake",
	.uuid = "805A308B-061C-47F3-9B30-F785C3186E82",
	.name = "Fake",
	.symptom = "nothing",
	.description = "Nothing.",
	.contract_files = (const char *const[]){ "summary.md", "all.html", NULL },
	.params =
		(const struct param[]){
			{ .key = "mode", .name = "Mode", .type = PARAM_STRING, .default_value = "plain" } },
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.run = fake_run,
	.analyse = fake_analyse,
};

static struct err *find_fake(const char *name, const struct profiler **ret)
{
	if (!str_eq(name, "fake"))
		return err_new(ERR_NOT_FOUND, "no '%s'", name);
	*ret = &fake;
	return NULL;
}

static char *make_recording(void)
{
	static unsigned n;
	char *dir = mem_printf("%s/recording%u", root, n++);
	struct recording *r;
	assert_ok(recording_create(dir, 0, &r));
	json_t *patient = json_pack("{s:i,s:s,s:s}", "id", 42, "name", "Shop\x1b[31m", "runtime", "10.0.1");
	recording_set_fact(r, "patient", patient);
	json_decref(patient);
	assert_ok(recording_seal(r));
	recording_free(r);
	return dir;
}

struct fixture {
	struct store *store;
	char *home, *recording;
};

static void fixture_init(struct fixture *f)
{
	static unsigned n;
	f->home = mem_printf("%s/home%u", root, n++);
	f->recording = make_recording();
	assert_ok(store_open(f->home, &f->store));
}

static void fixture_fini(struct fixture *f)
{
	store_close(f->store);
	mem_free(f->home);
	mem_free(f->recording);
}

static struct session *start(struct fixture *f, const char *mode)
{
	struct session *s = NULL;
	CLEANUP(params_freep) struct params *params = params_new(&fake);
	assert_ok(params_set(params, "mode", mode));
	struct session_spec spec = { .profiler = &fake, .params = params, .recording = f->recording };
	assert_ok(session_start(f->store, &spec, &s));
	return s;
}

struct seen {
	unsigned states; /* bits */
	struct buf log;
	double ratio;
};

static void see_state(void *user, enum store_state state)
{
	((struct seen *)user)->states |= 1u << state;
}

static void see_progress(void *user, double ratio, const char *what)
{
	((struct seen *)user)->ratio = ratio;
	assert_string_equal(what, "looking");
}

static void see_log(void *user, const char *line)
{
	buf_printf(&((struct seen *)user)->log, "%s\n", line);
}

/* Pumps until `state` was seen or it ended. */
static bool pump_until(struct session *s, struct seen *seen, enum store_state state)
{
	struct session_events events = {
		.on_state = see_state, .on_progress = see_progress, .on_log = see_log, .user = seen
	};
	bool ended = false;
	struct deadline deadline = deadline_in_ms(20000);
	while (!ended && !(seen->states & 1u << state)) {
		assert_ok(fd_wait(session_fd(s), POLLIN, deadline));
		assert_ok(session_pump(s, &events, &ended));
	}
	return ended;
}

static void pump(struct session *s, struct seen *seen)
{
	while (!pump_until(s, seen, STORE_STATES))
		;
}

static bool has_file(const struct fixture *f, const char *guid, const char *name)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/sessions/%s/%s", f->home, guid, name);
	return access(path, F_OK) == 0;
}

static void a_session_goes_through_its_states(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	fixture_init(&f);
	struct session *s = start(&f, "plain");
	pump(s, &seen);
	const struct store_row *row = session_row(s);
	assert_int_equal(seen.states, 1u << STORE_RUNNING | 1u << STORE_ANALYSING | 1u << STORE_DONE);
	assert_true(seen.ratio == 0.25);
	assert_non_null(strstr(buf_cstr(&seen.log), "mode is plain"));
	assert_int_equal(row->state, STORE_DONE);
	assert_string_equal(row->verdict, "All is fake.");
	assert_string_equal(row->health, "warn");
	assert_string_equal(row->finding, "fake-finding");
	assert_string_equal(row->runtime, "10.0.1");
	assert_int_equal(row->target_id, 42);
	assert_null(row->partial);
	assert_true(row->created_ns <= row->started_ns && row->started_ns <= row->finished_ns && row->bytes > 0);
	assert_null(session_error(s));
	static const char *const files[] = { "session.json", "report.json", "report.md", "report.html",
					     "report.txt",   "summary.md",  "all.html",	 "log.txt" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		assert_true(has_file(&f, row->guid, files[i]));
	struct report *report;
	assert_ok(session_report(f.store, row->guid, &report));
	assert_string_equal(report_finding(report), "fake-finding");
	assert_string_equal(report_facts(report)->session, row->guid);
	report_free(report);
	CLEANUP(mem_freep) char *dir = store_session_dir(f.store, row->guid);
	struct store_row record;
	assert_ok(store_record_read(dir, row->guid, &record));
	assert_string_equal(record.verdict, row->verdict);
	assert_string_equal(record.parameters, "{\"mode\":\"plain\"}");
	store_row_fini(&record);
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void one_that_waits_is_seen_started_or_ended(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	struct session *s = NULL;
	struct store_row row;
	char guid[STORE_GUID_LEN + 1], other[STORE_GUID_LEN + 1];
	fixture_init(&f);
	CLEANUP(params_freep) struct params *params = params_new(&fake);
	struct session_spec spec = { .profiler = &fake, .params = params, .recording = f.recording };
	assert_ok(session_enqueue(f.store, &spec, guid));
	assert_ok(session_enqueue(f.store, &spec, other));
	/* Its owner lives, so nobody tidies it away. */
	assert_ok(session_sweep(f.store));
	assert_ok(store_get(f.store, guid, &row));
	assert_int_equal(row.state, STORE_QUEUED);
	int64_t created_ns = row.created_ns;
	store_row_fini(&row);
	spec.guid = guid;
	assert_ok(session_start(f.store, &spec, &s));
	pump(s, &seen);
	assert_string_equal(session_row(s)->guid, guid);
	assert_int_equal(session_row(s)->state, STORE_DONE);
	assert_int_equal(session_row(s)->created_ns, created_ns);
	session_free(s);
	assert_err(session_ask_to_stop(f.store, guid), ERR_BUSY);
	assert_ok(session_unqueue(f.store, other, STORE_CANCELLED, "not wanted any more"));
	assert_ok(store_get(f.store, other, &row));
	assert_int_equal(row.state, STORE_CANCELLED);
	assert_string_equal(row.error, "not wanted any more");
	store_row_fini(&row);
	assert_true(has_file(&f, other, "session.json"));
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void cancel_keeps_what_was_seen(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	fixture_init(&f);
	struct session *s = start(&f, "wait");
	assert_false(pump_until(s, &seen, STORE_RUNNING));
	session_cancel(s);
	pump(s, &seen);
	const struct store_row *row = session_row(s);
	assert_int_equal(row->state, STORE_CANCELLED);
	assert_string_equal(row->partial, "cancelled after a while");
	assert_string_equal(row->verdict, "All is fake.");
	assert_true(has_file(&f, row->guid, "report.html"));
	session_free(s);
	/* Before it could see anything: cancelled, without a report. */
	s = start(&f, "stopped-early");
	pump(s, &seen);
	assert_int_equal(session_row(s)->state, STORE_CANCELLED);
	assert_false(has_file(&f, session_row(s)->guid, "report.json"));
	session_free(s);
	/* In its very first instants. */
	s = start(&f, "wait");
	session_cancel(s);
	pump(s, &seen);
	assert_int_equal(session_row(s)->state, STORE_CANCELLED);
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void a_target_that_ends_gives_a_partial_report(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	fixture_init(&f);
	struct session *s = start(&f, "cut");
	pump(s, &seen);
	assert_int_equal(session_row(s)->state, STORE_DONE);
	assert_string_equal(session_row(s)->partial, "the process ended after 1 s");
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void failures_have_a_reason_and_no_report(void **state UNUSED)
{
	static const struct {
		const char *mode, *reason;
		enum err_kind kind;
	} cases[] = {
		{ "crash", "signal 11 (Segmentation fault)", ERR_IO },
		{ "crash-late", "signal 6 (Aborted)", ERR_IO },
		{ "no-memory", "out of memory", ERR_IO },
		{ "exit", "status 9", ERR_IO },
		{ "denied", "not for you", ERR_DENIED },
		{ "bad-analysis", "makes no sense", ERR_BAD_DATA },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture f;
		struct seen seen = { 0 };
		fixture_init(&f);
		struct session *s = start(&f, cases[i].mode);
		pump(s, &seen);
		const struct store_row *row = session_row(s);
		assert_int_equal(row->state, STORE_FAILED);
		assert_non_null(strstr(row->error, cases[i].reason));
		struct err *err = session_error(s);
		assert_int_equal(err_kind(err), cases[i].kind);
		err_free(err);
		assert_true(has_file(&f, row->guid, "session.json"));
		assert_true(has_file(&f, row->guid, "log.txt"));
		assert_false(has_file(&f, row->guid, "report.json"));
		session_free(s);
		buf_free(&seen.log);
		fixture_fini(&f);
	}
}

static void giving_up_kills_and_says_so(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	fixture_init(&f);
	struct session *s = start(&f, "deaf");
	assert_false(pump_until(s, &seen, STORE_RUNNING));
	session_cancel(s); /* not heard */
	session_kill(s);
	pump(s, &seen);
	assert_int_equal(session_row(s)->state, STORE_CANCELLED);
	assert_non_null(strstr(session_row(s)->error, "given up"));
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

/* A starter in a process of its own, so that it can be killed. Returns its pid once the worker runs. */
static pid_t start_elsewhere(struct fixture *f, const char *mode, char guid[STORE_GUID_LEN + 1])
{
	int p[2];
	assert_int_equal(pipe(p), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct store *store;
		struct seen seen = { 0 };
		assert_ok(store_open(f->home, &store));
		f->store = store;
		struct session *s = start(f, mode);
		pump_until(s, &seen, STORE_RUNNING);
		assert_int_equal(write(p[1], session_row(s)->guid, STORE_GUID_LEN), STORE_GUID_LEN);
		pump(s, &seen);
		_exit(0);
	}
	assert_ok(fd_read_full(p[0], guid, STORE_GUID_LEN, deadline_in_ms(20000)));
	guid[STORE_GUID_LEN] = '\0';
	close(p[0]);
	close(p[1]);
	return pid;
}

static enum store_state state_of(struct fixture *f, const char *guid)
{
	struct store_row row;
	assert_ok(store_get(f->store, guid, &row));
	enum store_state state = row.state;
	store_row_fini(&row);
	return state;
}

static void wait_until_unlocked(struct fixture *f, const char *guid)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(f->store, guid);
	struct deadline deadline = deadline_in_ms(20000);
	while (owner_locked(dir)) {
		assert_false(deadline_passed(deadline));
		sched_yield();
	}
}

static void a_dead_starter_cancels_its_worker(void **state UNUSED)
{
	struct fixture f;
	char guid[STORE_GUID_LEN + 1];
	fixture_init(&f);
	pid_t pid = start_elsewhere(&f, "wait", guid);
	assert_ok(session_sweep(f.store));
	assert_int_equal(state_of(&f, guid), STORE_RUNNING);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	wait_until_unlocked(&f, guid);
	assert_ok(session_sweep(f.store));
	assert_int_equal(state_of(&f, guid), STORE_CANCELLED);
	assert_true(has_file(&f, guid, "report.json"));
	fixture_fini(&f);
}

/* It lets go of its lock a moment before it is gone. */
static void wait_until_gone(const struct store_row *row)
{
	struct deadline deadline = deadline_in_ms(20000);
	while (owner_alive(row->owner_pid, row->owner_start)) {
		assert_false(deadline_passed(deadline));
		sched_yield();
	}
}

static void a_dead_worker_is_swept(void **state UNUSED)
{
	struct fixture f;
	char guid[STORE_GUID_LEN + 1];
	fixture_init(&f);
	pid_t pid = start_elsewhere(&f, "deaf", guid);
	struct store_row row;
	assert_ok(store_get(f.store, guid, &row));
	/* Both at once: nobody is left to write the end. */
	kill(pid, SIGSTOP);
	kill((pid_t)row.owner_pid, SIGKILL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	wait_until_gone(&row);
	wait_until_unlocked(&f, guid);
	store_row_fini(&row);
	CLEANUP(mem_freep) char *half = mem_printf("%s/sessions/%s/report.json.77.tmp", f.home, guid);
	assert_ok(file_write_atomic(half, "{", 1, 0600));
	assert_ok(session_sweep(f.store));
	assert_int_equal(state_of(&f, guid), STORE_FAILED);
	assert_int_not_equal(access(half, F_OK), 0);
	assert_true(has_file(&f, guid, "session.json"));
	fixture_fini(&f);
}

static void a_lost_index_comes_back_from_the_folders(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	char running[STORE_GUID_LEN + 1];
	fixture_init(&f);
	struct session *s = start(&f, "plain");
	pump(s, &seen);
	pid_t pid = start_elsewhere(&f, "wait", running);
	store_close(f.store);
	CLEANUP(mem_freep) char *index = mem_printf("%s/index.db", f.home);
	CLEANUP(mem_freep) char *wal = mem_printf("%s-wal", index);
	CLEANUP(mem_freep) char *shm = mem_printf("%s-shm", index);
	unlink(index);
	unlink(wal);
	unlink(shm);
	CLEANUP(mem_freep) char *leftover = mem_printf("%s/sessions/11111111-0000-4000-8000-000000000001", f.home);
	CLEANUP(mem_freep) char *gone = mem_printf("%s/sessions/.gone-11111111-0000-4000-8000-000000000001", f.home);
	CLEANUP(mem_freep) char *foreign = mem_printf("%s/sessions/notes", f.home);
	assert_ok(dir_make(leftover, 0700));
	assert_ok(dir_make(gone, 0700));
	assert_ok(dir_make(foreign, 0700));
	assert_ok(store_open(f.home, &f.store));
	assert_ok(session_sweep(f.store));
	assert_int_equal(state_of(&f, session_row(s)->guid), STORE_DONE);
	assert_int_not_equal(access(leftover, F_OK), 0);
	assert_int_not_equal(access(gone, F_OK), 0);
	assert_int_equal(access(foreign, F_OK), 0);
	/* The one that still runs keeps its folder and enters the index when it ends. */
	assert_true(has_file(&f, running, "log.txt"));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	wait_until_unlocked(&f, running);
	assert_ok(session_sweep(f.store));
	assert_int_equal(state_of(&f, running), STORE_CANCELLED);
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void a_crash_between_record_and_row_is_finished(void **state UNUSED)
{
	struct fixture f;
	struct seen seen = { 0 };
	fixture_init(&f);
	struct session *s = start(&f, "plain");
	pump(s, &seen);
	struct store_row row;
	assert_ok(store_get(f.store, session_row(s)->guid, &row));
	row.state = STORE_ANALYSING; /* as the index would have it */
	store_set(&row.verdict, NULL);
	assert_ok(store_put(f.store, &row));
	store_row_fini(&row);
	assert_ok(session_sweep(f.store));
	assert_ok(store_get(f.store, session_row(s)->guid, &row));
	assert_int_equal(row.state, STORE_DONE);
	assert_string_equal(row.verdict, "All is fake.");
	store_row_fini(&row);
	session_free(s);
	buf_free(&seen.log);
	fixture_fini(&f);
}

static void add_session(struct fixture *f, unsigned i, uint64_t bytes, enum store_state state, int64_t age_s)
{
	struct store_row row = { .state = state, .bytes = bytes };
	snprintf(row.guid, sizeof(row.guid), "%08x-0000-4000-8000-000000000000", i);
	row.created_ns = row.finished_ns = clock_real_ns() - age_s * 1000000000;
	CLEANUP(mem_freep) char *dir = store_session_dir(f->store, row.guid);
	assert_ok(dir_make(dir, 0700));
	assert_ok(store_record_write(dir, &row));
	assert_ok(store_put(f->store, &row));
}

static size_t pruned(struct fixture *f, struct session_retention limits, bool dry_run)
{
	struct store_rows gone;
	assert_ok(session_prune(f->store, &limits, dry_run, &gone));
	size_t n = gone.n;
	store_rows_free(&gone);
	return n;
}

static void retention_takes_the_oldest(void **state UNUSED)
{
	struct fixture f;
	struct session_retention none = { UINT64_MAX, UINT64_MAX, UINT64_MAX }, limits = none;
	fixture_init(&f);
	for (unsigned i = 0; i < 10; i++)
		add_session(&f, i, 100, i == 9 ? STORE_RUNNING : STORE_DONE, i * 3600);
	assert_int_equal(pruned(&f, none, false), 0);
	limits.max_age_ns = (uint64_t)(7.5 * 3600 * 1e9);
	assert_int_equal(pruned(&f, limits, true), 1); /* 8; not 9, which runs */
	assert_int_equal(pruned(&f, limits, false), 1);
	assert_int_equal(pruned(&f, limits, false), 0);
	limits = none;
	limits.max_bytes = 550;
	assert_int_equal(pruned(&f, limits, false), 4); /* 4 to 7: the one that runs counts */
	limits = none;
	limits.max_count = 0;
	assert_int_equal(pruned(&f, limits, false), 3); /* never the newest */
	struct store_rows rows;
	assert_ok(store_list(f.store, NULL, &rows));
	assert_int_equal(rows.n, 2);
	store_rows_free(&rows);
	assert_false(has_file(&f, "00000004-0000-4000-8000-000000000000", "session.json"));
	struct store_row running = { .state = STORE_RUNNING };
	assert_err(session_delete(f.store, &running), ERR_BUSY);
	fixture_fini(&f);
}

/* Sessions end in another order than they begin in, and one program may have many. */
static void retention_keeps_what_was_just_saved(void **state UNUSED)
{
	struct fixture f;
	struct session_retention limits = { UINT64_MAX, 3, UINT64_MAX };
	fixture_init(&f);
	int64_t now = clock_real_ns();
	for (unsigned i = 0; i < 6; i++) {
		add_session(&f, i, 100, STORE_DONE, i * 60);
		struct store_row row;
		CLEANUP(mem_freep) char *guid = mem_printf("%08x-0000-4000-8000-000000000000", i);
		assert_ok(store_get(f.store, guid, &row));
		/* The oldest looked longest and has ended last; another is the only one on its program. */
		row.finished_ns = i == 5 ? now : row.finished_ns;
		store_set(&row.process, i == 4 ? "Rare" : "Shop");
		store_set(&row.verdict, i == 0 ? NULL : "Something.");
		assert_ok(store_put(f.store, &row));
		store_row_fini(&row);
	}
	assert_int_equal(pruned(&f, limits, false), 2);
	struct store_rows rows;
	assert_ok(store_list(f.store, NULL, &rows));
	assert_int_equal(rows.n, 4);
	static const unsigned left[] = { 0, 1, 4, 5 };
	for (size_t i = 0; i < rows.n; i++)
		assert_int_equal(strtoul(rows.v[i].guid, NULL, 16), left[i]);
	store_rows_free(&rows);
	limits = (struct session_retention){ 1, UINT64_MAX, UINT64_MAX };
	assert_int_equal(pruned(&f, limits, false), 3); /* age goes for all but the newest */
	fixture_fini(&f);
}

static void limits_are_read_as_people_write_them(void **state UNUSED)
{
	uint64_t n;
	assert_true(str_to_age_ns("7d", &n) && n == 7ull * 24 * 3600 * 1000000000);
	assert_true(str_to_age_ns("1.5h", &n) && n == 5400ull * 1000000000);
	assert_true(str_to_age_ns("2w", &n));
	assert_false(str_to_age_ns("7", &n) || str_to_age_ns("", &n) || str_to_age_ns("-1d", &n) ||
		     str_to_age_ns("7 days", &n));
	assert_true(str_to_bytes("500M", &n) && n == 500ull << 20);
	assert_true(str_to_bytes("2GB", &n) && n == 2ull << 30);
	assert_true(str_to_bytes("1.5k", &n) && n == 1536);
	assert_true(str_to_bytes("17", &n) && n == 17);
	assert_false(str_to_bytes("G", &n) || str_to_bytes("1X", &n) || str_to_bytes("-1", &n) ||
		     str_to_bytes("99999999999T", &n));
	struct session_retention r;
	setenv("DRDOTNET_KEEP_COUNT", "three", 1);
	assert_err(session_retention_default(&r), ERR_USAGE);
	setenv("DRDOTNET_KEEP_COUNT", "3", 1);
	assert_ok(session_retention_default(&r));
	assert_int_equal(r.max_count, 3);
	unsetenv("DRDOTNET_KEEP_COUNT");
}

static void a_recording_without_a_patient_is_refused_before_it_starts(void **state UNUSED)
{
	struct fixture f;
	fixture_init(&f);
	mem_free(f.recording);
	f.recording = mem_printf("%s/empty", root);
	struct recording *r;
	assert_ok(recording_create(f.recording, 0, &r));
	assert_ok(recording_seal(r));
	recording_free(r);
	CLEANUP(params_freep) struct params *params = params_new(&fake);
	struct session_spec spec = { .profiler = &fake, .params = params, .recording = f.recording };
	struct session *s;
	assert_err(session_start(f.store, &spec, &s), ERR_BAD_DATA);
	spec.recording = "/nowhere/at/all";
	assert_err(session_start(f.store, &spec, &s), ERR_NOT_FOUND);
	struct store_rows rows;
	assert_ok(store_list(f.store, NULL, &rows));
	assert_int_equal(rows.n, 0);
	fixture_fini(&f);
}

static int setup(void **state UNUSED)
{
	unit_temp_dir(root, sizeof(root));
	return 0;
}

static int teardown(void **state UNUSED)
{
	err_ignore(dir_remove(root));
	return 0;
}

int main(int argc, char **argv)
{
	/* The crashes here are wanted: no core files, no sanitizer report. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	if (argc == 3 && str_eq(argv[1], "_worker")) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGABRT, SIG_DFL);
		return session_worker(argv[2], find_fake);
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_goes_through_its_states),
		cmocka_unit_test(one_that_waits_is_seen_started_or_ended),
		cmocka_unit_test(cancel_keeps_what_was_seen),
		cmocka_unit_test(a_target_that_ends_gives_a_partial_report),
		cmocka_unit_test(failures_have_a_reason_and_no_report),
		cmocka_unit_test(giving_up_kills_and_says_so),
		cmocka_unit_test(a_dead_starter_cancels_its_worker),
		cmocka_unit_test(a_dead_worker_is_swept),
		cmocka_unit_test(a_lost_index_comes_back_from_the_folders),
		cmocka_unit_test(a_crash_between_record_and_row_is_finished),
		cmocka_unit_test(retention_takes_the_oldest),
		cmocka_unit_test(retention_keeps_what_was_just_saved),
		cmocka_unit_test(limits_are_read_as_people_write_them),
		cmocka_unit_test(a_recording_without_a_patient_is_refused_before_it_starts),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
