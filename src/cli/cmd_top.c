/* drdotnet top: the hottest methods and threads of a process, live. Samples the same way as cpu-hotpaths, keeps the
 * last seconds only, and begins anew now and then, so that memory stays bounded however long it runs. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/launched.h"
#include "cli/top_screen.h"
#include "exam/own_code.h"
#include "profilers/registry.h"
#include "sampling/sampling.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define AGAIN_MS 1800000 /* then sampling begins anew */
#define WINDOW_NS (5 * NS_PER_S)
#define DRAW_NS NS_PER_S
#define PERIOD_NS 10100000ull
#define PLAIN_ROWS 15

struct top {
	const struct args *args;
	struct patient patient;
	struct top_view view;
	struct top_screen *screen; /* NULL: plain lines */
	int signal_fd, stop_fd;
	uint64_t start_ns, drawn_ns;
	bool once, told, quit, session;
	uint64_t interval_ns;
};

static void stop(struct top *t)
{
	uint64_t one = 1;
	t->quit = true;
	if (write(t->stop_fd, &one, sizeof(one)) < 0)
		return; /* full: it has been told already */
}

static void print_plain(struct top *t)
{
	const struct top_view *v = &t->view;
	printf("%s%s  %s of %s busy, last %s\n", t->told ? "\n" : "", v->title, fmt_number(v->cores).s,
	       fmt_plural(v->cpus, "core", "cores").s,
	       fmt_duration_ns((v->seen_ns + 50 * NS_PER_MS) / (100 * NS_PER_MS) * (100 * NS_PER_MS)).s);
	printf("%7s  %7s  %s\n", v->what == TOP_METHODS ? "self" : "cpu", v->what == TOP_METHODS ? "callees" : "id",
	       v->what == TOP_METHODS ? "method" : "thread");
	for (size_t i = 0; i < v->rows.n && i < PLAIN_ROWS; i++) {
		const struct top_row *row = &v->rows.v[i];
		char id[16];
		snprintf(id, sizeof(id), "%u", row->tid);
		printf("%7s  %7s  %s\n", fmt_percent(row->self).s,
		       v->what == TOP_METHODS ? fmt_percent(row->total).s : id, row->name);
	}
	t->told = true;
	if (fflush(stdout) != 0 || t->once)
		stop(t);
}

static void show(struct top *t)
{
	if (t->screen && top_screen_paused(t->screen))
		return;
	top_view_rows(&t->view);
	if (t->screen)
		top_screen_draw(t->screen);
	else
		print_plain(t);
}

static void read_keys(struct top *t)
{
	bool typed;
	if (signals_take(t->signal_fd, &typed))
		stop(t);
	if (!t->screen)
		return;
	enum top_wish wish = top_screen_keys(t->screen);
	t->session |= wish == TOP_SESSION;
	if (wish != TOP_GO_ON)
		stop(t);
}

/* Called at least twenty times a second while samples come. */
static void on_samples(void *user, struct samples *samples, const struct sampler_facts *facts, uint64_t now_ns)
{
	struct top *t = user;
	t->view.cpus = (uint32_t)facts->cpus;
	t->view.lost = facts->lost;
	top_view_take(&t->view, samples, now_ns / 1000);
	read_keys(t);
	if (t->quit || clock_mono_ns() - t->drawn_ns < t->interval_ns)
		return;
	t->drawn_ns = clock_mono_ns();
	show(t);
}

/* One stretch of sampling. *ret_ended: the process has. */
static struct err *sample(struct top *t, bool *ret_ended)
{
	const struct profiler *profiler;
	TRY(profiler_find("cpu-hotpaths", &profiler));
	CLEANUP(samples_freep) struct samples *samples = NULL;
	struct sampling_facts facts;
	struct exam exam = { .profiler = profiler,
			     .patient = &t->patient,
			     .way = WAY_SAMPLES,
			     .whose = own_code_of_process(&t->patient),
			     .cancel_fd = t->stop_fd };
	struct sampling_options options = {
		.kind = SAMPLER_CPU, .period = PERIOD_NS, .window_ms = AGAIN_MS, .on_samples = on_samples, .user = t
	};
	t->drawn_ns = clock_mono_ns();
	struct err *err = exam_samples(&exam, &options, &samples, &facts);
	*ret_ended = !target_alive(&t->patient.target);
	t->view.samples = NULL;
	vec_clear(&t->view.recent);
	exam_fini(&exam);
	return err;
}

static struct err *watch(struct top *t)
{
	bool ended = false;
	while (!t->quit && !ended)
		TRY(sample(t, &ended));
	return NULL;
}

static char *title_of(const struct patient *p)
{
	struct buf title = { 0 };
	const char *name = patient_name(p);
	str_add_visible(&title, name, strlen(name), 40);
	buf_printf(&title, " (%d)", p->target.id);
	return buf_steal(&title);
}

/* As if the user had typed it. */
static struct err *full_session(const struct top *t, int *ret_exit)
{
	char id[16];
	snprintf(id, sizeof(id), "%d", t->patient.target.id);
	fprintf(stderr, "drdotnet run cpu-hotpaths %s\n", id);
	struct args args = { .command = &cmd_run, .words = (const char *[]){ "cpu-hotpaths", id }, .n_words = 2 };
	/* cppcheck-suppress returnDanglingLifetime; an error owns its text */
	return cmd_run.run(&args, ret_exit);
}

static struct err *check_way(const struct patient *p)
{
	const struct profiler *profiler;
	TRY(profiler_find("cpu-hotpaths", &profiler));
	struct exam exam = { .profiler = profiler, .patient = p, .cancel_fd = -1 };
	struct err *err = exam_choose_way(&exam, WAY_SAMPLES);
	exam_fini(&exam);
	return err;
}

static struct err *carry_out(struct top *t)
{
	CLEANUP(mem_freep) char *title = title_of(&t->patient);
	bool plain = t->once || args_has(t->args, "--plain") || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
	TRY(check_way(&t->patient));
	t->view = (struct top_view){ .title = title,
				     .filter = "",
				     .what = args_has(t->args, "--threads") ? TOP_THREADS : TOP_METHODS,
				     .window_ns = WINDOW_NS };
	t->screen = plain ? NULL : top_screen_open(&t->view);
	t->interval_ns = t->screen ? DRAW_NS : WINDOW_NS;
	if (t->screen)
		top_screen_draw(t->screen);
	struct err *err = watch(t);
	bool ended = !err && !t->quit;
	top_screen_close(t->screen);
	top_view_fini(&t->view);
	if (ended)
		fputs("the process has ended\n", stderr);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	struct top t = { .args = args, .once = args_has(args, "--once"), .signal_fd = -1, .stop_fd = -1 };
	CLOSE_FD int signal_fd = -1, stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0)
		return err_errno(errno, "eventfd");
	TRY(signals_open(false, &signal_fd));
	TRY(patient_find(args->words[0], FIND_TIMEOUT_MS, &t.patient));
	t.signal_fd = signal_fd;
	t.stop_fd = stop_fd;
	struct err *err = carry_out(&t);
	if (!err && t.session)
		err = full_session(&t, ret_exit);
	patient_fini(&t.patient);
	return err;
}

const struct command cmd_top = {
	.name = "top",
	.words = "TARGET",
	.summary = "Show the hottest methods and threads of a process, live.",
	.example = "drdotnet top 1234\n"
		   "drdotnet top Shop.Api --once --threads            the busiest threads of five seconds",
	.details =
		"Shares are of one core, over the last five seconds; threads that wait have none. Managed, native and "
		"kernel code is shown; the process is never stopped.\n\n"
		"Keys: q quit, Tab methods or threads, s sort, / filter, p pause, arrows scroll, Enter ends it and "
		"makes a full session with a report, ? help.",
	.options =
		(const struct option[]){
			{ .name = "--threads", .help = "Begin with threads" },
			{ .name = "--once", .help = "Print the first five seconds and end" },
			{ .name = "--plain", .help = "Lines instead of the screen" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};
