/* drdotnet trace: collects, converts and sums up .nettrace files. */

#include "base/fmt.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/trace.h"
#include <stdio.h>
#include <string.h>

struct err *trace_args_ids(const struct args *args, struct trace_ids *ret)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const char *name = args->given[i].option->name;
		bool skip = str_eq(name, "--skip-ids");
		if (skip || str_eq(name, "--only-ids"))
			TRY(trace_ids_parse(name, args->given[i].value, skip, ret));
	}
	return NULL;
}

struct err *trace_args_check(const struct args *args, const char *const *allowed)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const char *const *a = allowed;
		while (*a && !str_eq(*a, args->given[i].option->name))
			a++;
		if (!*a)
			return err_new(ERR_USAGE, "'drdotnet trace %s' has no %s", args->words[0],
				       args->given[i].option->name);
	}
	return NULL;
}

void trace_say_source(const struct trace_source *source, const char *path)
{
	uint64_t all = source->stats.events + source->stats.lost;
	if (source->damage)
		fprintf(stderr, "drdotnet: '%s' was not read to a proper end: %s\n", path, source->damage);
	if (source->stats.lost)
		fprintf(stderr, "drdotnet: the runtime lost %s while this was collected (%s)\n",
			fmt_plural(source->stats.lost, "event", "events").s,
			fmt_percent((double)source->stats.lost / (double)all).s);
}

static const struct {
	const char *name;
	struct err *(*run)(const struct args *, int *);
} verbs[] = {
	{ "collect", trace_collect_run },
	{ "convert", trace_convert_run },
	{ "report", trace_report_run },
};

static struct err *run(const struct args *args, int *ret_exit)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (str_eq(args->words[0], verbs[i].name))
			return verbs[i].run(args, ret_exit);
	}
	return err_new(ERR_USAGE, "'drdotnet trace' does collect, convert and report, not '%s'", args->words[0]);
}

const struct command cmd_trace = {
	.name = "trace",
	.words = "collect TARGET | collect -- PROGRAM... | convert FILE | report FILE",
	.summary = "Collect runtime events into a .nettrace file, convert it, or sum it up.",
	.example = "drdotnet trace collect 1234 --duration 30s -o shop.nettrace\n"
		   "drdotnet trace collect 1234 --ring 30s --stop-on 'gc-pause>50ms'     what led to it\n"
		   "drdotnet trace collect --profile startup -- dotnet Shop.dll          from its first instruction\n"
		   "drdotnet trace convert shop.nettrace -o shop.speedscope.json\n"
		   "drdotnet trace report shop.nettrace",
	.details =
		"collect writes the events as the runtime sends them, until --duration is over, Ctrl-C, or the "
		"process ends. A second Ctrl-C leaves out the names of methods that the runtime lists at the end. "
		"The file grows as FILE.partial and gets its name when it is whole.\n\n"
		"Profiles: cpu (default), gc, alloc, contention, exceptions, threading, startup, jit, loader, http; "
		"several with commas. --providers Name:keywords:level:key=value;key=value adds any other; keywords "
		"are hexadecimal.\n\n"
		"--ring keeps only the last seconds in memory, and writes them when --stop-on strikes, on SIGUSR1, or "
		"on Ctrl-C. --stop-on takes exception:TYPE (or exception) and gc-pause>TIME.\n\n"
		"convert writes speedscope, chromium, folded, pprof or json (one event a line); the end of the file's "
		"name tells which (.speedscope.json, .chromium.json, .folded, .pb.gz, .jsonl), or --to. Stacks are the "
		"samples of all threads, or of another event with --event.\n\n"
		"With '-- PROGRAM' the exit code is the program's.",
	.options =
		(const struct option[]){
			{ .name = "--output", .short_name = 'o', .value = "FILE", .help = "The file to write" },
			{ .name = "--profile", .value = "LIST", .help = "collect: what to listen to", .repeat = true },
			{ .name = "--providers",
			  .value = "LIST",
			  .help = "collect: Name[:keywords[:level[:args]]],...",
			  .repeat = true },
			{ .name = "--duration",
			  .short_name = 'd',
			  .value = "TIME",
			  .help = "collect: how long: 10s, 500ms, 2m" },
			{ .name = "--buffer",
			  .value = "MB",
			  .help = "collect: memory in the process for events (256)" },
			{ .name = "--no-rundown",
			  .help = "collect: do not list methods at the end; stacks stay without names" },
			{ .name = "--ring", .value = "TIME", .help = "collect: keep only the last seconds, in memory" },
			{ .name = "--stop-on",
			  .value = "WHEN",
			  .help = "collect: stop at exception:TYPE or gc-pause>50ms",
			  .repeat = true },
			{ .name = "--only-ids",
			  .value = "IDS",
			  .help = "Only events with these numbers",
			  .repeat = true },
			{ .name = "--skip-ids", .value = "IDS", .help = "All but these", .repeat = true },
			{ .name = "--to",
			  .value = "FORMAT",
			  .help = "convert: the format",
			  .choices =
				  (const char *const[]){ "speedscope", "chromium", "folded", "pprof", "json", NULL } },
			{ .name = "--event",
			  .value = "NAME",
			  .help = "convert: stacks of this event instead of the samples of all threads" },
			{ .name = "--json", .help = "report: as JSON" },
			{ .name = "--quiet", .short_name = 'q', .help = "No progress" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 2,
	.takes_program = true,
	.remote = true,
	.run = run,
};
