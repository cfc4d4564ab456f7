/* drdotnet cpu (and profcpu): CPU samples as a folder of files that other programs open; nothing is kept elsewhere. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/partfile.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/cpu_folder.h"
#include "cli/launched.h"
#include "cli/progress.h"
#include "sampling/perf_samples.h"
#include "exam/own_code.h"
#include "profilers/registry.h"
#include "sampling/sampling.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define EXIT_CANCELLED 130
#define EXIT_NOT_SEEN 1
#define PROFCPU_FOLDER "profilings"

struct cpu_order {
	const char *pid, *dir, *output;
	uint64_t duration_ms, hz;
	bool quiet;
};

static struct err *order_read(const struct args *args, struct cpu_order *o)
{
	const char *duration = args_value(args, "--duration"), *hz = args_value(args, "--frequency");
	*o = (struct cpu_order){ .pid = args_value(args, "--pid"),
				 .dir = args_value(args, "--dir"),
				 .output = args_value(args, "--output"),
				 .duration_ms = 30000,
				 .hz = 99,
				 .quiet = args_has(args, "--quiet") };
	o->pid = o->pid ? o->pid : "1";
	if (o->dir && o->output)
		return err_new(ERR_USAGE, "a folder (--dir) or one file (-o), not both");
	if (duration &&
	    (!str_to_duration_ms(duration, &o->duration_ms) || o->duration_ms < 100 || o->duration_ms > 3600000))
		return err_new(ERR_USAGE,
			       "--duration takes a time from 100ms to 1h, in seconds without a unit, not '%s'",
			       duration);
	if (hz && (!str_to_u64(hz, &o->hz) || o->hz < 1 || o->hz > 10000))
		return err_new(ERR_USAGE, "--frequency takes 1 to 10000 samples a second, not '%s'", hz);
	return NULL;
}

/* A new folder named after the time, as profcpu did: "%H-%M-%S_%F". NULL and the reason when it cannot be made. */
static char *make_folder(const char *parent, struct err **ret_err)
{
	time_t now = (time_t)(clock_real_ns() / NS_PER_S);
	struct tm tm;
	char name[64];
	localtime_r(&now, &tm);
	strftime(name, sizeof(name), "%H-%M-%S_%F", &tm);
	CLEANUP(mem_freep) char *path = parent ? mem_printf("%s/%s", parent, name) : mem_strdup(name);
	*ret_err = parent ? dir_make(parent, 0755) : NULL;
	if (!*ret_err && mkdir(path, 0755) < 0)
		*ret_err = err_errno(errno, "cannot make the folder '%s'", path);
	return *ret_err ? NULL : STEAL(path);
}

static void on_progress(void *user, double ratio, const char *what)
{
	progress_update(user, ratio, what);
	progress_draw(user);
}

/* Chooses the way, which may take its turn, and samples. */
static struct err *sample(const struct cpu_order *o, struct exam *exam, struct samples **ret,
			  struct sampling_facts *facts)
{
	struct sampling_options options = { .kind = SAMPLER_CPU,
					    .period = NS_PER_S / o->hz,
					    .window_ms = o->duration_ms };
	struct progress progress;
	CLEANUP(mem_freep)
	char *title = mem_printf("cpu on %s (%d)", patient_name(exam->patient), exam->patient->target.id);
	progress_init(&progress, title, o->quiet);
	progress_state(&progress, STORE_RUNNING);
	exam->on_progress = on_progress;
	exam->user = &progress; // cppcheck-suppress autoVariables; taken back below
	struct err *err = exam_choose_way(exam, WAY_AUTO);
	if (!err)
		err = exam_samples(exam, &options, ret, facts);
	exam->on_progress = NULL;
	exam->user = NULL;
	progress_fini(&progress);
	return err;
}

static void say_samples(const struct samples *s, const struct sampling_facts *f, const char *partial)
{
	fprintf(stderr, "%s of %s", fmt_plural(s->list.n, "sample", "samples").s,
		fmt_plural(f->threads, "thread", "threads").s);
	if (f->lost)
		fprintf(stderr, ", %s lost", fmt_count(f->lost).s);
	if (partial)
		fprintf(stderr, "; %s", partial);
	if (f->started_ns)
		fprintf(stderr, "; not among them: %s of CPU time of processes that it started",
			fmt_duration_ns(f->started_ns).s);
	fputc('\n', stderr);
	if (!f->named && !f->from_files)
		fputs("drdotnet: managed code has no names: the diagnostics socket is closed, or its runtime did not "
		      "answer\n",
		      stderr);
}

/* Only the archive is kept: the folder was made beside it, and is removed. */
static struct err *keep_archive(const char *dir, const char *output, struct err *err)
{
	CLEANUP(mem_freep) char *archive = mem_printf("%s/prof.tar.gz", dir);
	if (!err && rename(archive, output) < 0)
		err = err_errno(errno, "cannot write to '%s'", output);
	err_ignore(dir_remove(dir));
	return err;
}

static struct err *collect_from(const struct cpu_order *o, struct patient *patient, int signal_fd, int *ret_exit)
{
	const struct profiler *profiler;
	TRY(profiler_find("cpu-hotpaths", &profiler));
	CLEANUP(params_freep) struct params *params = params_new(profiler);
	CLEANUP(samples_freep) struct samples *samples = NULL;
	struct err *err = NULL;
	struct exam exam = { .profiler = profiler, .params = params, .patient = patient, .cancel_fd = signal_fd };
	struct sampling_facts facts;
	if (o->output) {
		TRY(partfile_check(o->output));
		TRY(file_check_regular(o->output));
	}
	CLEANUP(mem_freep) char *beside = o->output ? file_folder(o->output) : NULL;
	CLEANUP(mem_freep) char *dir = make_folder(beside ? beside : o->dir, &err);
	if (!dir) {
		exam_fini(&exam);
		return err;
	}
	exam.whose = own_code_of_process(patient);
	err = sample(o, &exam, &samples, &facts);
	if (err) {
		rmdir(dir);
		exam_fini(&exam);
		return err;
	}
	struct cpu_folder folder = { .dir = dir,
				     .pid = (uint32_t)patient->target.pid,
				     .process = patient_process(patient),
				     .event = "cpu-clock",
				     .period_ns = NS_PER_S / o->hz,
				     .timed = true };
	err = cpu_folder_write(&folder, samples);
	if (o->output)
		err = keep_archive(dir, o->output, err);
	if (!err && !o->quiet)
		say_samples(samples, &facts, exam.partial);
	if (!err)
		puts(o->output ? o->output : dir);
	if (exam.cancelled)
		*ret_exit = EXIT_CANCELLED;
	else if (exam.unproven)
		*ret_exit = EXIT_NOT_SEEN;
	exam_fini(&exam);
	return err;
}

static struct err *collect(const struct args *args, int *ret_exit)
{
	struct cpu_order o;
	TRY(order_read(args, &o));
	if (args->command == &cmd_profcpu && !o.dir && !o.output)
		o.dir = PROFCPU_FOLDER;
	CLOSE_FD int signal_fd = -1;
	TRY(signals_open(false, &signal_fd));
	struct patient patient = { 0 };
	TRY(patient_find(o.pid, FIND_TIMEOUT_MS, &patient));
	struct err *err = collect_from(&o, &patient, signal_fd, ret_exit);
	patient_fini(&patient);
	return err;
}

static const char *event_name(const struct perf_file_facts *f)
{
	if (f->type == 1)
		return f->config == 0 ? "cpu-clock" : f->config == 1 ? "task-clock" : "software";
	return f->type == 0 && f->config == 0 ? "cycles" : "event";
}

static void say_file(const struct perf_samples_facts *f)
{
	fprintf(stderr, "%s", fmt_plural(f->file.samples, "sample", "samples").s);
	if (f->file.lost)
		fprintf(stderr, ", %s lost", fmt_count(f->file.lost).s);
	if (f->unnamed)
		fprintf(stderr, "; some code has no name here%s",
			f->own ? "" : ": look for perf-PID.map beside perf.data, and for the same libraries");
	fputc('\n', stderr);
	if (f->file.cut)
		fputs("drdotnet: perf.data ends early; what is there was read\n", stderr);
	if (f->file.user_stacks)
		fputs("drdotnet: copied stacks (--call-graph dwarf) are not unwound; record with -g\n", stderr);
}

static struct err *postprocess(const struct args *args, int *ret_exit UNUSED)
{
	const char *dir = args_value(args, "--dir");
	if (!dir)
		return err_new(ERR_USAGE, "'drdotnet cpu postprocess' needs -dir DIR, the folder of a perf.data");
	CLEANUP(samples_freep) struct samples *samples = NULL;
	struct perf_samples_facts facts;
	TRY(perf_samples_read(dir, &samples, &facts));
	if (!samples->list.n)
		return err_new(ERR_NOT_FOUND, "'%s/perf.data' holds no samples", dir);
	struct cpu_folder folder = { .dir = dir,
				     .pid = facts.pid,
				     .process = *facts.process ? facts.process : "?",
				     .event = event_name(&facts.file),
				     .period_ns = facts.file.period ? facts.file.period : samples->list.v[0].weight,
				     .timed = facts.timed,
				     .keep_data = !facts.own };
	TRY(cpu_folder_write(&folder, samples));
	if (!args_has(args, "--quiet"))
		say_file(&facts);
	puts(dir);
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	const char *verb = args->words[0];
	if (str_eq(verb, "collect"))
		return collect(args, ret_exit);
	if (!str_eq(verb, "postprocess"))
		return err_new(ERR_USAGE, "'drdotnet cpu' does collect and postprocess, not '%s'", verb);
	if (args_has(args, "--pid") || args_has(args, "--duration") || args_has(args, "--frequency") ||
	    args_has(args, "--output"))
		return err_new(ERR_USAGE, "'drdotnet cpu postprocess' looks at no process: it takes -dir only");
	return postprocess(args, ret_exit);
}

static const struct option options[] = {
	{ .name = "--pid", .value = "PID", .help = "collect: the process, also by its name (1)" },
	{ .name = "--duration", .short_name = 'd', .value = "TIME", .help = "collect: how long, in seconds (30)" },
	{ .name = "--frequency", .value = "HZ", .help = "collect: samples a second of CPU time (99)" },
	{ .name = "--dir",
	  .value = "DIR",
	  .help = "postprocess: the folder; collect: where to make one (here; profcpu: profilings)" },
	{ .name = "--output",
	  .short_name = 'o',
	  .value = "FILE",
	  .help = "collect: one archive (.tar.gz) instead of a folder" },
	{ .name = "--quiet", .short_name = 'q', .help = "No progress, nothing but the folder" },
	{ 0 },
};

const struct command cmd_cpu = {
	.name = "cpu",
	.words = "collect | postprocess",
	.summary = "Sample the CPU into a folder: perf.data, perf_script.out, folded stacks, flame graph.",
	.example = "drdotnet cpu collect -pid 1234 -duration 30\n"
		   "drdotnet cpu postprocess -dir 14-03-22_2026-11-15    again, also from perf.data of linux-perf\n"
		   "drdotnet cpu collect --pid shop -o prof.tar.gz --server https://web1:9292",
	.details =
		"collect makes a folder named after the time, prints its name, and writes into it perf.data (perf "
		"report -i and perf script -i show managed names; they are in symbols/), perf_script.out (for "
		"speedscope and FlameScope), folded_stacks.out, flamegraph.svg, and all of it as prof.tar.gz; with -o "
		"only that one file. Nothing else is kept.\n\n"
		"postprocess makes the rest again from a folder with a perf.data: ours, moved here from another "
		"machine, or one that linux-perf recorded with -g. Managed names of the latter come from perf-PID.map "
		"in the folder or in /tmp, see 'drdotnet perf-map'.\n\n"
		"Called by the name profcpu the program is this command, and collects into profilings/. A session with a "
		"report is made by 'drdotnet cpu-hotpaths'.",
	.options = options,
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};

/* Its words, its defaults and its folder: those who know it find what they left. */
const struct command cmd_profcpu = {
	.name = "cpu",
	.summary = "Sample the CPU of a process into a folder that other programs open.",
	.words = "collect | postprocess",
	.example = "profcpu collect [-pid N=1] [-duration S=30]    into profilings/%H-%M-%S_%F/\n"
		   "profcpu postprocess -dir DIR                   again, from the perf.data in DIR",
	.details = "perf.data, perf_script.out, folded_stacks.out, flamegraph.svg, and all of it as prof.tar.gz. "
		   "'drdotnet help cpu' says more.",
	.options = options,
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
