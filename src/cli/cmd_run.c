/* drdotnet run: everything is checked first, then a session is started and watched, then its report printed. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/impressions.h"
#include "cli/launched.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "exam/image_exam.h"
#include "exam/proof.h"
#include "profilers/registry.h"
#include "session/session.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_MS 2000
#define TICK_MS 100
#define EXIT_CANCELLED 130
#define EXIT_NOT_SEEN 1
#define EXIT_FINDING 6 /* --fail-on */

static struct err *choose_way(const struct args *args, const struct profiler *profiler, enum way *ret)
{
	const char *word = args_value(args, "--way");
	*ret = WAY_AUTO;
	if (!word)
		return NULL;
	TRY(way_parse(word, ret));
	return profiler_check_way(profiler, *ret);
}

static bool takes_samples(const struct profiler *profiler)
{
	const enum way *w = profiler->ways;
	while (*w && *w != WAY_SAMPLES)
		w++;
	return *w;
}

/* What the command line asks for, checked as far as possible without contacting a process. */
struct run_order {
	const struct args *args;
	const struct profiler *profiler;
	struct params *params;
	enum way way;
	struct output output;
	const char *target, *recording, *session, *before, *core;
	char **program;
	bool keep_recording, quiet;
	int fail_on; /* health_level(); 0 = nothing fails */
};

/* Of a report ("warn") or of --fail-on ("warning"); 0 is the best. */
static int health_level(const char *word)
{
	static const char *const levels[] = { "ok", "info", "warn", "bad" };
	for (size_t i = 0; word && i < ARRAY_SIZE(levels); i++)
		if (str_starts(word, levels[i]))
			return (int)i;
	return 0;
}

/* Some profilers look at an instant, and only they can look into a core file. */
static struct err *check_instant(const struct run_order *o)
{
	bool image = false;
	for (const enum way *w = o->profiler->ways; *w; w++)
		image |= *w == WAY_IMAGE;
	if (o->core && !image)
		return err_new(ERR_USAGE, "%s watches a living process; it cannot look into a core file",
			       o->profiler->id);
	if (o->program && o->profiler->ways[0] == WAY_IMAGE)
		return err_new(ERR_USAGE, "%s looks at one instant; start the program first, then name it as TARGET",
			       o->profiler->id);
	return NULL;
}

/* target: NULL = as the words say. */
static struct err *order_read(const struct args *args, const char *target, struct run_order *o)
{
	o->args = args;
	o->profiler = args->command->profiler;
	if (!o->profiler)
		TRY(profiler_find(args->words[0], &o->profiler));
	o->params = params_new(o->profiler);
	o->target = args->n_words > 1 ? args->words[1] : target;
	o->fail_on = health_level(args_value(args, "--fail-on"));
	o->program = args->program;
	o->recording = args_value(args, "--recording");
	o->session = args_value(args, "--session");
	o->before = args_value(args, "--before");
	o->core = args_value(args, "--core");
	o->keep_recording = args_has(args, "--keep-recording");
	o->quiet = args_has(args, "--quiet");
	if (!!o->target + !!o->program + !!o->recording + !!o->session + !!o->core != 1)
		return err_new(ERR_USAGE,
			       "'drdotnet %s' needs one TARGET (a pid, a process name or an assembly name; "
			       "'drdotnet ps' lists them), or instead -- and a program to start, --core, --recording "
			       "or --session",
			       o->profiler->id);
	if (o->before && !o->profiler->two_recordings)
		return err_new(ERR_USAGE, "%s looks at one session; 'drdotnet sessions compare' takes two of it",
			       o->profiler->id);
	if (o->before && !o->session && !o->recording)
		return err_new(ERR_USAGE, "--before needs the later session too: --session GUID");
	TRY(verb_params(args, o->profiler, o->params));
	if (o->target || o->program || o->core)
		TRY(params_complete(o->params));
	TRY(choose_way(args, o->profiler, &o->way));
	if (!o->target && o->way != WAY_AUTO)
		return err_new(ERR_USAGE, "--way is for a living target; a recording was made by the way it was made");
	TRY(check_instant(o));
	TRY(output_parse(args, &o->output));
	if (o->output.format == OUTPUT_PROFILE && !takes_samples(o->profiler))
		return err_new(ERR_USAGE, "%s takes no samples: its report ends in .txt, .md, .html, .json or .zip",
			       o->profiler->id);
	/* It is made from the recording. */
	o->keep_recording |= o->output.format == OUTPUT_PROFILE;
	return output_check(&o->output);
}

struct run_watch {
	struct progress progress;
	struct session *session;
	struct launch *launch; /* or NULL */
	int signal_fd;
	unsigned interrupts;
	struct deadline kill_at;
};

static void on_state(void *user, enum store_state state)
{
	progress_state(&((struct run_watch *)user)->progress, state);
}

static void on_progress(void *user, double ratio, const char *what)
{
	progress_update(&((struct run_watch *)user)->progress, ratio, what);
}

static void on_news(void *user, const char *line)
{
	CLEANUP(buf_free) struct buf shown = { 0 };
	str_add_visible(&shown, line, strlen(line), 0);
	progress_say(&((struct run_watch *)user)->progress, "%s", buf_cstr(&shown));
}

static void on_listening(void *user)
{
	struct run_watch *w = user;
	struct err *err = w->launch ? launch_resume(w->launch) : NULL;
	if (err)
		progress_say(&w->progress, "drdotnet: %s", err_text(err));
	err_free(err);
}

/* First: stop looking, analyse what there is. Second: soon. Third: now. */
static void interrupted(struct run_watch *w)
{
	bool typed;
	int signal = signals_take(w->signal_fd, &typed);
	if (!signal)
		return;
	if (w->launch && !typed)
		launch_signal(w->launch, signal);
	switch (++w->interrupts) {
	case 1:
		session_cancel(w->session);
		progress_say(&w->progress,
			     "Stopping; what was seen so far will be reported (Ctrl-C again gives it up).");
		break;
	case 2:
		session_cancel(w->session);
		w->kill_at = deadline_in_ms(GRACE_MS);
		break;
	default:
		session_kill(w->session);
	}
}

static struct err *watch_session(struct run_watch *w)
{
	const struct session_events events = { .on_state = on_state,
					       .on_progress = on_progress,
					       .on_news = on_news,
					       .on_listening = on_listening,
					       .user = w };
	for (bool ended = false; !ended;) {
		struct pollfd fds[] = { { .fd = session_fd(w->session), .events = POLLIN },
					{ .fd = w->signal_fd, .events = POLLIN },
					{ .fd = w->launch ? launch_fd(w->launch) : -1, .events = POLLIN } };
		int wait_ms = w->progress.terminal || w->interrupts > 1 ? TICK_MS : -1;
		if (poll(fds, ARRAY_SIZE(fds), wait_ms) < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		if (fds[1].revents & POLLIN)
			interrupted(w);
		if (fds[2].revents)
			TRY(launch_turn(w->launch));
		if (deadline_passed(w->kill_at))
			session_kill(w->session);
		TRY(session_pump(w->session, &events, &ended));
		progress_draw(&w->progress);
	}
	return NULL;
}

static void apply_retention(struct store *store)
{
	struct session_retention limits;
	struct err *err = session_retention_default(&limits);
	if (!err)
		err = session_prune(store, &limits, false, NULL);
	if (err)
		fprintf(stderr, "drdotnet: old sessions could not be removed: %s\n", err_text(err));
	err_free(err);
}

/* The report of an ended session, and where it is kept. */
static struct err *show(const struct run_order *o, struct store *store, const struct session *session, int *ret_exit)
{
	const struct store_row *row = session_row(session);
	struct err *failed = session_error(session);
	if (session_aftermath(session))
		fprintf(stderr, "drdotnet: after the session was saved, %s\n", session_aftermath(session));
	if (failed) {
		CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
		if (access(dir, F_OK) == 0)
			fprintf(stderr, "Its log is kept as session %.8s: drdotnet sessions show %.8s\n", row->guid,
				row->guid);
		return failed;
	}
	if (row->state == STORE_CANCELLED)
		*ret_exit = EXIT_CANCELLED;
	else if (str_eq(row->finding, FINDING_NOT_SEEN))
		*ret_exit = EXIT_NOT_SEEN;
	else if (o->fail_on && health_level(row->health) >= o->fail_on)
		*ret_exit = EXIT_FINDING;
	if (!row->verdict)
		return err_new(ERR_CANCELLED, "cancelled before anything was seen");
	TRY(output_write(&o->output, store, row));
	if (o->output.path && !o->quiet)
		fprintf(stderr, "Written to %s\n", o->output.path);
	if (!o->quiet)
		fprintf(stderr, "Saved as session %.8s%s; open with: drdotnet sessions show %.8s\n", row->guid,
			output_is_utf8() ? "…" : "...", row->guid);
	return NULL;
}

/* launch: the program that was started for it and waits, or NULL. */
static struct err *run_session(const struct run_order *o, struct store *store, const struct session_spec *spec,
			       struct launch *launch, int signal_fd, int *ret_exit)
{
	struct run_watch w = { .signal_fd = signal_fd, .launch = launch, .kill_at = DEADLINE_NEVER };
	CLEANUP(session_freep) struct session *session = NULL;
	TRY(session_start(store, spec, &session));
	const struct store_row *row = session_row(session);
	CLEANUP(mem_freep)
	char *title =
		mem_printf("%s on %s (%d)", o->profiler->id, row->process ? row->process : "?", (int)row->target_id);
	w.session = session;
	progress_init(&w.progress, title, o->quiet);
	struct err *err = watch_session(&w);
	progress_fini(&w.progress);
	TRY(err);
	err = show(o, store, session, ret_exit);
	apply_retention(store);
	return err;
}

static struct err *recording_of(struct store *store, const char *guid, char **ret)
{
	struct store_row row;
	TRY(store_get(store, guid, &row));
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row.guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/recording", dir);
	struct err *err =
		access(path, F_OK) == 0
			? NULL
			: err_new(ERR_NOT_FOUND, "session %s kept no recording (--keep-recording keeps large ones)",
				  row.guid);
	store_row_fini(&row);
	TRY(err);
	*ret = STEAL(path);
	return NULL;
}

static struct err *examine(const struct run_order *o, struct store *store, int signal_fd, int *ret_exit)
{
	CLEANUP(launch_freep) struct launch *launch = NULL;
	struct patient patient = { 0 };
	struct session_spec spec = { .profiler = o->profiler,
				     .params = o->params,
				     .patient = &patient,
				     .way = o->way,
				     .keep_recording = o->keep_recording };
	int program_exit = 0;
	struct err *err = o->program ? launched_start(o->program, signal_fd, &launch, &patient, ret_exit)
				     : patient_find(o->target, FIND_TIMEOUT_MS, &patient);
	if (err)
		return o->program ? launched_error(err, ret_exit) : err;
	spec.launched = launch;
	err = run_session(o, store, &spec, launch, signal_fd, ret_exit);
	patient_fini(&patient);
	if (!launch)
		return err;
	/* Whatever the result of the examination, the program continues and its exit code is ours. */
	struct err *later = launch_resume(launch);
	if (!later)
		later = launched_wait(launch, signal_fd, &program_exit);
	*ret_exit = program_exit;
	if (!err)
		return later;
	err_ignore(later);
	return launched_error(err, ret_exit);
}

static struct err *examine_core(const struct run_order *o, struct store *store, int signal_fd, int *ret_exit)
{
	CLEANUP(patient_fini) struct patient patient = { 0 };
	TRY(image_exam_core_patient(o->core, &patient));
	CLEANUP(mem_freep) char *path = realpath(o->core, NULL);
	if (!path)
		return err_errno(errno, "'%s'", o->core);
	struct session_spec spec = { .profiler = o->profiler,
				     .params = o->params,
				     .patient = &patient,
				     .core = path,
				     .keep_recording = o->keep_recording };
	return run_session(o, store, &spec, NULL, signal_fd, ret_exit);
}

static struct err *replay(const struct run_order *o, struct store *store, int signal_fd, int *ret_exit)
{
	CLEANUP(mem_freep) char *path = NULL, *before = NULL;
	CLEANUP(params_freep) struct params *params = params_new(o->profiler);
	if (o->session)
		TRY(recording_of(store, o->session, &path));
	if (o->before)
		TRY(recording_of(store, o->before, &before));
	const char *recording = path ? path : o->recording;
	TRY(session_recorded_params(recording, o->profiler, params));
	TRY(verb_params(o->args, o->profiler, params));
	TRY(params_complete(params));
	struct session_spec spec = {
		.profiler = o->profiler, .params = params, .recording = recording, .before = before
	};
	return run_session(o, store, &spec, NULL, signal_fd, ret_exit);
}

static struct err *carry_out(const struct run_order *o, int *ret_exit)
{
	CLEANUP(store_closep) struct store *store = NULL;
	CLOSE_FD int signal_fd = -1;
	TRY(signals_open(false, &signal_fd));
	TRY(session_open_store(&store));
	if (store_repaired(store))
		fprintf(stderr, "drdotnet: %s\n", store_repaired(store));
	if (o->core)
		return examine_core(o, store, signal_fd, ret_exit);
	return o->target || o->program ? examine(o, store, signal_fd, ret_exit) : replay(o, store, signal_fd, ret_exit);
}

static struct err *run_one(const struct args *args, const char *target, int *ret_exit)
{
	struct run_order o = { 0 };
	struct err *err = order_read(args, target, &o);
	if (!err)
		err = carry_out(&o, ret_exit);
	params_free(o.params);
	return err;
}

static bool names_what_to_look_at(const struct args *args)
{
	return args->program || args_value(args, "--recording") || args_value(args, "--session") ||
	       args_value(args, "--core");
}

/* One after the other; what fails of one does not keep the next from being looked at. */
static struct err *run_all(const struct args *args, const struct impression_ids *ids, int *ret_exit)
{
	for (size_t i = 0; i < ids->n && *ret_exit != EXIT_CANCELLED; i++) {
		CLEANUP(mem_freep) char *target = mem_printf("%d", ids->v[i]);
		int code = 0;
		struct err *err = run_one(args, target, &code);
		if (ids->n == 1) {
			*ret_exit = code;
			return err;
		}
		if (err) {
			fprintf(stderr, "drdotnet: %s: %s\n", target, err_text(err));
			code = EXIT_NOT_SEEN;
		}
		err_free(err);
		*ret_exit = MAX(*ret_exit, code);
		fflush(stdout);
	}
	return NULL;
}

/* Diagnose without a target: the only one, or all that there are. */
static struct err *run_any(const struct args *args, int *ret_exit)
{
	struct impression_ids ids = { 0 };
	bool all = args_has(args, "--all");
	if (all && args_value(args, "--output"))
		return err_new(ERR_USAGE, "--all prints one report after the other; -o FILE is for one");
	/* Before reports it is no part of the output, which may be JSON. */
	TRY(impressions(all ? stderr : stdout, &ids));
	struct err *err = all || ids.n == 1 ? run_all(args, &ids, ret_exit) : NULL;
	if (!all && ids.n > 1)
		fprintf(stderr,
			"Several processes: name the one to diagnose, as in 'drdotnet diagnose %d', or add --all for "
			"each in turn.\n",
			ids.v[0]);
	vec_free(&ids);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	const struct profiler *profiler = args->command->profiler;
	if (!profiler)
		TRY(profiler_find(args->words[0], &profiler));
	bool chooses = str_eq(profiler->id, "diagnose") && args->n_words < 2 && !names_what_to_look_at(args);
	if (chooses)
		return run_any(args, ret_exit);
	if (args_has(args, "--all"))
		return err_new(ERR_USAGE, "--all is for 'drdotnet diagnose' without a target");
	return run_one(args, NULL, ret_exit);
}

const struct command cmd_run = {
	.name = "run",
	.words = "PROFILER TARGET | PROFILER -- PROGRAM...",
	.summary = "Examine a process with one profiler and print its report.",
	.example = "drdotnet run runtime-pauses 1234 --duration 30s\n"
		   "drdotnet runtime-pauses Shop.Api -o pauses.html     short form, report as a file\n"
		   "drdotnet cpu-hotpaths Shop.Api -o cpu.speedscope.json  samples for another program\n"
		   "drdotnet run exceptions -- dotnet Shop.dll          from its first instruction\n"
		   "drdotnet run exceptions --session 7f3c              look at a kept recording again\n"
		   "drdotnet memory-leaks --before 7f3c --session 81aa  what grew between two looks at the heap",
	.details =
		"TARGET is a pid, a process name, an assembly name or an id from 'drdotnet ps'. Everything is "
		"checked before "
		"the process is touched.\n\n"
		"The report goes to standard output, the rest to standard error. Each run is kept as a session, see "
		"'drdotnet sessions'.\n\n"
		"Ctrl-C stops looking and reports what was seen; a second one gives the session up. The process is "
		"left "
		"as it was.\n\n"
		"With '-- PROGRAM ARGUMENTS' the program is started and waits before its first instruction until we "
		"listen. It keeps our input and output; signals are passed on to it, and the exit code is its own.\n\n"
		"Exit code: 0 ok (also when the process ended before the window did), 1 failed or nothing could be "
		"seen, 2 wrong usage, 3 "
		"target "
		"not found, 4 no permission, 5 busy, 6 found what --fail-on names, 130 cancelled.",
	.options =
		(const struct option[]){
			{ .name = "--param",
			  .short_name = 'p',
			  .value = "KEY=VALUE",
			  .help = "Set a parameter of the profiler; each is an option too, see 'drdotnet help "
				  "PROFILER'",
			  .repeat = true },
			{ .name = "--duration",
			  .short_name = 'd',
			  .value = "TIME",
			  .help = "How long to look: 10s, 500ms, 2m" },
			{ .name = "--way",
			  .value = "WAY",
			  .help = "How to look into the process; 'drdotnet check TARGET' says which are open",
			  .choices = (const char *const[]){ "auto", "events", "samples", "image", "agent", "proc",
							    NULL } },
			{ .name = "--format",
			  .short_name = 'f',
			  .value = "FORMAT",
			  .help = "Form of the report",
			  .choices = output_formats },
			{ .name = "--output",
			  .short_name = 'o',
			  .value = "FILE",
			  .help = "Write it to a file: .txt, .md, .html, .json or .zip; of samples also .svg, .folded, "
				  ".pb.gz or .speedscope.json" },
			{ .name = "--json", .help = "Same as --format json" },
			{ .name = "--mask", .help = OUTPUT_MASK_HELP },
			{ .name = "--keep-recording",
			  .help = "Keep the raw recording even when it is larger than 16 MB" },
			{ .name = "--core", .value = "FILE", .help = "Look into a core file instead of a process" },
			{ .name = "--recording",
			  .value = "DIR",
			  .help = "Analyse a kept recording again instead of a process" },
			{ .name = "--session", .value = "GUID", .help = "The same, by the session that made it" },
			{ .name = "--before",
			  .value = "GUID",
			  .help = "memory-leaks: compare that session with this earlier one" },
			{ .name = "--all", .help = "diagnose: each process in turn, the worst first" },
			{ .name = "--fail-on",
			  .value = "HEALTH",
			  .help = "End with exit code 6 when what is found is that bad, or worse",
			  .choices = (const char *const[]){ "info", "warning", "bad", NULL } },
			{ .name = "--quiet", .short_name = 'q', .help = "No progress, nothing but the report" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 2,
	.takes_program = true,
	.remote = true,
	.run = run,
};
