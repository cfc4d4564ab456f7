/* drdotnet trace collect: everything is checked first; then one event session, watched until something ends it. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/partfile.h"
#include "base/str.h"
#include "cli/launched.h"
#include "cli/output.h"
#include "cli/trace.h"
#include "eventpipe/settle.h"
#include "exam/code_list.h"
#include "trace/collect.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OPEN_TIMEOUT_MS 30000
#define SILENCE_NS (15 * NS_PER_S) /* after the stop nothing came for so long: give up waiting */
#define TICK_MS 250
#define PLAIN_EVERY_NS (10 * NS_PER_S)
#define BUFFER_MB 256
#define RING_BYTES_MAX ((size_t)256 << 20)
#define RING_MARGIN_MS 2000 /* what strikes is noticed a little later than it happens */
/* Modules, methods and how they were compiled: what other tools expect at the end of a trace. */
#define RUNDOWN 0x80020139ull
#define EXIT_CANCELLED 130

struct collect_request {
	const struct args *args;
	struct trace_config config;
	struct trace_ids ids;
	uint64_t duration_ms, ring_ms;
	uint32_t buffer_mb;
	bool quiet, program;
	size_t n_named; /* providers that were named one by one; they stand first */
	char *path;
};

static struct err *take_time(const struct args *args, const char *option, uint64_t *ret_ms)
{
	const char *word = args_value(args, option);
	if (word && (!str_to_duration_ms(word, ret_ms) || !*ret_ms || *ret_ms > 86400000ull * 7))
		return err_new(ERR_USAGE, "%s takes a time such as 10s, 500ms or 2m, not '%s'", option, word);
	return NULL;
}

/* Everything that can be known to be wrong before a process is looked for. */
static struct err *order_read(struct collect_request *o)
{
	static const char *const allowed[] = { "--output",     "--profile", "--providers", "--duration",
					       "--buffer",     "--ring",    "--stop-on",   "--only-ids",
					       "--no-rundown", "--quiet",   "--skip-ids",  NULL };
	const struct args *args = o->args;
	TRY(trace_args_check(args, allowed));
	o->program = args->program != NULL;
	if ((args->n_words == 2) + o->program != 1)
		return err_new(
			ERR_USAGE,
			"'drdotnet trace collect' needs one TARGET ('drdotnet ps' lists them), or -- and a program");
	for (size_t i = 0; i < args->n_given; i++) {
		const char *name = args->given[i].option->name, *value = args->given[i].value;
		if (str_eq(name, "--profile"))
			TRY(trace_config_check_profile(value));
		else if (str_eq(name, "--providers"))
			TRY(trace_config_providers(&o->config, value));
		else if (str_eq(name, "--stop-on"))
			TRY(trace_config_stop_on(&o->config, value));
	}
	TRY(take_time(args, "--duration", &o->duration_ms));
	TRY(take_time(args, "--ring", &o->ring_ms));
	TRY(trace_args_ids(args, &o->ids));
	const char *buffer = args_value(args, "--buffer");
	uint64_t mb = BUFFER_MB;
	if (buffer && (!str_to_u64(buffer, &mb) || mb < 1 || mb > 4096))
		return err_new(ERR_USAGE, "--buffer takes megabytes from 1 to 4096, not '%s'", buffer);
	o->buffer_mb = (uint32_t)mb;
	o->quiet = args_has(args, "--quiet");
	const char *path = args_value(args, "--output");
	return path ? partfile_check(path) : NULL;
}

/* The rest, which depends on the runtime. */
static struct err *order_finish(struct collect_request *o, const struct patient *p)
{
	unsigned major = p->info.runtime_version ? (unsigned)strtoul(p->info.runtime_version, NULL, 10) : 0;
	bool any = o->config.providers.n > 0;
	o->n_named = o->config.providers.n;
	for (size_t i = 0; i < o->args->n_given; i++) {
		if (str_eq(o->args->given[i].option->name, "--profile")) {
			TRY(trace_config_profile(&o->config, o->args->given[i].value, major));
			any = true;
		}
	}
	if (!any)
		TRY(trace_config_profile(&o->config, "cpu", major));
	return trace_config_finish(&o->config, &o->ids);
}

/* Shop.Api_1234_20261115_031209.nettrace */
static char *default_path(const struct patient *p)
{
	struct buf name = { 0 };
	for (const char *c = patient_name(p); *c && name.len < 60; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
			     *c == '.' || *c == '-' || *c == '_';
		buf_char(&name, plain && (name.len || *c != '.') ? *c : '_');
	}
	char stamp[32];
	time_t now = time(NULL);
	struct tm tm;
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", localtime_r(&now, &tm));
	char *path = mem_printf("%s_%d_%s.nettrace", buf_cstr(&name), p->target.id, stamp);
	buf_free(&name);
	return path;
}

/* --- during the collection --- */

struct collect_watch {
	const struct collect_request *order;
	struct collector *collector;
	struct launch *launch; /* NULL without */
	int signal_fd, pidfd;
	uint64_t start_ns, said_ns;
	unsigned interrupts;
	bool terminal, drawn, stop_asked;
	const char *why; /* it was stopped */
};

static void draw(struct collect_watch *w, bool stay)
{
	if (w->order->quiet)
		return;
	uint64_t now = clock_mono_ns();
	if (!w->terminal && !stay && now - w->said_ns < PLAIN_EVERY_NS)
		return;
	w->said_ns = now;
	struct collect_stats s = collector_stats(w->collector);
	struct buf line = { 0 };
	buf_printf(&line, "%s  %s, %s", fmt_duration_ns((now - w->start_ns) / (100 * NS_PER_MS) * (100 * NS_PER_MS)).s,
		   fmt_plural(s.events, "event", "events").s, fmt_bytes(s.bytes).s);
	if (s.lost)
		buf_printf(&line, ", %s lost (%s)", fmt_count(s.lost).s,
			   fmt_percent((double)s.lost / (double)(s.lost + s.events)).s);
	if (w->order->ring_ms && !w->stop_asked)
		buf_printf(&line, ", ring holds %s in %s", fmt_duration_ns(s.ring_ns).s, fmt_bytes(s.ring_bytes).s);
	if (w->stop_asked)
		buf_str(&line, ", waiting for the rest");
	fprintf(stderr, w->terminal ? "\r\033[K%s" : "%s\n", buf_cstr(&line));
	fflush(stderr);
	w->drawn = w->terminal;
	buf_free(&line);
}

static void say(struct collect_watch *w, const char *text)
{
	if (w->order->quiet)
		return;
	fprintf(stderr, "%s%s\n", w->drawn ? "\r\033[K" : "", text);
	w->drawn = false;
}

/* A runtime that cannot be asked any more is ending: its stream ends by itself. */
static void stop(struct collect_watch *w, const char *why)
{
	if (w->stop_asked)
		return;
	w->stop_asked = true;
	w->why = why;
	err_ignore(collector_stop(w->collector, deadline_in_ms(OPEN_TIMEOUT_MS)));
}

static void on_signal(struct collect_watch *w, bool *ret_now)
{
	bool typed;
	int signal = signals_take(w->signal_fd, &typed);
	if (!signal)
		return;
	if (signal == SIGUSR1) {
		stop(w, "SIGUSR1");
		return;
	}
	if (w->launch && !typed)
		launch_signal(w->launch, signal);
	if (++w->interrupts > 1) {
		*ret_now = true;
		return;
	}
	say(w, "Stopping; the runtime lists its methods now (Ctrl-C again leaves them out).");
	stop(w, "interrupted");
}

static struct err *watch_turn(struct collect_watch *w, bool *ret_ended)
{
	struct pollfd fds[] = { { .fd = collector_fd(w->collector), .events = POLLIN },
				{ .fd = w->signal_fd, .events = POLLIN },
				{ .fd = w->launch ? launch_fd(w->launch) : -1, .events = POLLIN } };
	uint64_t end_ns =
		w->order->duration_ms && !w->stop_asked ? w->start_ns + w->order->duration_ms * NS_PER_MS : UINT64_MAX;
	uint64_t wake_ns = MIN(end_ns, clock_mono_ns() + TICK_MS * NS_PER_MS);
	if (poll(fds, ARRAY_SIZE(fds), deadline_poll_ms((struct deadline){ wake_ns })) < 0 && errno != EINTR)
		return err_errno(errno, "poll");
	if (fds[2].revents)
		TRY(launch_turn(w->launch));
	if (fds[0].revents)
		TRY(collector_pump(w->collector, ret_ended));
	if (fds[1].revents)
		on_signal(w, ret_ended);
	uint64_t now = clock_mono_ns();
	if (collector_struck(w->collector))
		stop(w, collector_struck(w->collector));
	if (now >= end_ns)
		stop(w, NULL);
	if (w->stop_asked && now > MAX(collector_last_ns(w->collector), w->start_ns) + SILENCE_NS) {
		say(w, "drdotnet: the runtime did not finish its stream; let go");
		*ret_ended = true;
	}
	draw(w, false);
	return NULL;
}

/* --- what came of it --- */

/* A profile without events is an answer; a provider name without any may be a typing error. */
static void say_missing(const struct collect_watch *w)
{
	const struct trace_config *config = &w->order->config;
	for (size_t i = 0; i < w->order->n_named; i++) {
		const struct ipc_provider *p = &config->providers.v[i];
		if (!collector_heard(w->collector, p->name))
			fprintf(stderr,
				"drdotnet: nothing came from '%s': there is no such provider, or it had nothing to "
				"say\n",
				p->name);
	}
}

static void say_result(const struct collect_watch *w, const struct collect_stats *s)
{
	if (s->ids_ignored)
		fprintf(stderr,
			"drdotnet: this runtime cannot choose events by number (from .NET 10 on it can): the file "
			"holds all of them; 'trace convert' and 'trace report' take --only-ids and --skip-ids too\n");
	if (s->ring_squeezed)
		fprintf(stderr, "drdotnet: the ring was full (%s): it holds less than was asked for\n",
			fmt_bytes(RING_BYTES_MAX).s);
	if (!s->whole)
		fprintf(stderr, "drdotnet: the event stream broke off; the file ends behind the last whole block%s\n",
			s->names ? "" : " and has no names of methods");
	if (s->lost)
		fprintf(stderr,
			"drdotnet: %s lost (%s): the buffer in the process was full; --buffer makes it larger\n",
			fmt_plural(s->lost, "event was", "events were").s,
			fmt_percent((double)s->lost / (double)(s->lost + s->events)).s);
	say_missing(w);
	if (w->order->quiet)
		return;
	if (w->why && !str_eq(w->why, "interrupted"))
		fprintf(stderr, "Stopped by %s. ", w->why);
	if (w->order->ring_ms)
		fprintf(stderr, "%s came; the last %s of them, and what followed, are kept: %s.\n",
			fmt_plural(s->events, "event", "events").s, fmt_duration_ns(s->ring_ns).s,
			fmt_bytes(s->file_bytes).s);
	else
		fprintf(stderr, "%s, %s.\n", fmt_plural(s->events, "event", "events").s, fmt_bytes(s->file_bytes).s);
	fprintf(stderr, "Written to %s\n", w->order->path);
}

static struct err *finish(struct collect_watch *w)
{
	bool ended = false;
	struct err *err = NULL;
	while (!ended && !err)
		err = watch_turn(w, &ended);
	if (w->drawn)
		fputs("\r\033[K", stderr);
	if (!err)
		err = collector_finish(w->collector);
	struct collect_stats stats = collector_stats(w->collector);
	if (err && err_kind(err) == ERR_IO) {
		CLEANUP(mem_freep) char *partial = mem_printf("%s.partial", w->order->path);
		struct stat st;
		if (stat(partial, &st) == 0 && !st.st_size && unlink(partial) == 0)
			return err_wrap(err, "stopped; nothing could be written");
		return err_wrap(err, "stopped after %s; what could be written is kept as '%s'",
				fmt_bytes(stats.file_bytes).s, partial);
	}
	if (!err)
		say_result(w, &stats);
	return err;
}

/* What the runtime lists at the end: nothing when there are no stacks to name (.NET 8 cannot leave them out). Names of compiled code are not worth the
 * life of the process: a program that is started here has nothing to unload yet. */
static uint64_t rundown_of(const struct collect_request *o, const struct patient *p, bool launched, int signal_fd)
{
	if (args_has(o->args, "--no-rundown"))
		return 0;
	if (launched)
		return RUNDOWN;
	struct exam exam = { .patient = p, .way = WAY_EVENTS, .cancel_fd = signal_fd };
	if (!o->config.stacks && exam_runtime_major(&exam) > 8)
		return 0;
	uint64_t safe = exam_safe_rundown(&exam, RUNDOWN);
	exam_fini(&exam);
	if (safe != RUNDOWN && !o->quiet)
		fprintf(stderr,
			"drdotnet: the file will not name code that was %s before: %s, and .NET %u may crash when it "
			"lists its code meanwhile\n",
			safe ? "compiled" : "there", exam.code_unasked, exam_runtime_major(&exam));
	return safe;
}

static struct err *collect(struct collect_request *o, const struct patient *p, struct launch *launch, int signal_fd)
{
	struct collect_watch w = { .order = o, .launch = launch, .signal_fd = signal_fd };
	const char *path = args_value(o->args, "--output"), *term = getenv("TERM");
	o->path = path ? mem_strdup(path) : default_path(p);
	w.terminal = isatty(STDERR_FILENO) && !str_eq(term, "dumb");
	struct collect_order order = {
		.socket = p->target.socket,
		.at_start = launch,
		.config = &o->config,
		.path = o->path,
		.buffer_mb = o->buffer_mb,
		.rundown = rundown_of(o, p, launch, signal_fd),
		.ring_ms = o->ring_ms ? o->ring_ms + RING_MARGIN_MS : 0,
		.ring_max_bytes = RING_BYTES_MAX,
	};
	CLEANUP(collector_freep) struct collector *collector = NULL;
	if (!launch)
		TRY(settle_wait(order.socket,
				&(struct ipc_trace_config){ .providers = o->config.providers.v,
							    .n_providers = o->config.providers.n },
				signal_fd));
	TRY(collector_open(&order, deadline_in_ms(OPEN_TIMEOUT_MS), &collector));
	w.collector = collector;
	w.start_ns = w.said_ns = clock_mono_ns();
	if (launch)
		TRY(launch_resume(launch));
	if (o->config.widened && !o->quiet)
		fprintf(stderr, "drdotnet: --stop-on needs events that were not asked for; they are in the file too\n");
	if (!o->quiet) {
		struct buf name = { 0 };
		str_add_visible(&name, patient_name(p), strlen(patient_name(p)), 60);
		fprintf(stderr, "Collecting from %s (%d)%s\n", buf_cstr(&name), p->target.id,
			o->duration_ms ? "" : "; Ctrl-C stops");
		buf_free(&name);
	}
	return finish(&w);
}

static struct err *run_program(struct collect_request *o, int signal_fd, int *ret_exit)
{
	CLEANUP(launch_freep) struct launch *launch = NULL;
	struct patient patient = { 0 };
	struct err *none = launched_start(o->args->program, signal_fd, &launch, &patient, ret_exit);
	if (none)
		return launched_error(none, ret_exit);
	struct err *err = order_finish(o, &patient), *later = NULL;
	if (!err)
		err = collect(o, &patient, launch, signal_fd);
	patient_fini(&patient);
	/* Whatever the result of the trace, the program continues and its exit code is ours. */
	later = launch_resume(launch);
	if (!later)
		later = launched_wait(launch, signal_fd, ret_exit);
	if (!err)
		return later;
	err_ignore(later);
	return launched_error(err, ret_exit);
}

static struct err *run_target(struct collect_request *o, int signal_fd)
{
	struct patient patient = { 0 };
	TRY(patient_find(o->args->words[1], FIND_TIMEOUT_MS, &patient));
	struct err *err = NULL;
	if (!patient.answered)
		err = err_new(patient.failure ? patient.failure : ERR_UNSUPPORTED, "process %d does not answer: %s",
			      patient.target.id, patient.remark ? patient.remark : "it has no diagnostics socket");
	if (!err)
		err = order_finish(o, &patient);
	if (!err)
		err = collect(o, &patient, NULL, signal_fd);
	patient_fini(&patient);
	return err;
}

struct err *trace_collect_run(const struct args *args, int *ret_exit)
{
	struct collect_request o = { .args = args };
	CLOSE_FD int signal_fd = -1;
	struct err *err = order_read(&o);
	if (!err)
		err = signals_open(o.ring_ms != 0, &signal_fd);
	if (!err)
		err = o.program ? run_program(&o, signal_fd, ret_exit) : run_target(&o, signal_fd);
	trace_config_fini(&o.config);
	trace_ids_fini(&o.ids);
	mem_free(o.path);
	return err;
}
