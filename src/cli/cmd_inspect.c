/* drdotnet inspect: questions to a living process at one instant. `dump open` asks the same of a core file. */

#include "base/fd.h"
#include "base/home.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "cli/launched.h"
#include "cli/prompt.h"
#include "dump/dump.h"
#include "eventpipe/whose.h"
#include "exam/own_code.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAUSE_LIMIT_MS 60000

struct err *inspect_ask(const struct args *args, struct inspect *in)
{
	VEC(const char *) questions = { 0 };
	for (size_t i = 0; i < args->n_given; i++)
		if (str_eq(args->given[i].option->name, "--command"))
			vec_push(&questions, args->given[i].value);
	CLOSE_FD int signal_fd = -1;
	struct err *err = signals_open(false, &signal_fd);
	inspect_set_cancel(in, signal_fd);
	struct prompt p = { .inspect = in,
			    .questions = questions.v,
			    .n = questions.n,
			    .json = args_has(args, "--json"),
			    .signal_fd = signal_fd };
	if (!err)
		err = prompt_run(&p);
	vec_free(&questions);
	return err;
}

/* The copy is not kept alive while the user thinks: it is written to an unnamed file. */
static struct err *take_to_disk(const struct patient *p, const struct image_limits *limits, struct image_exam *ret)
{
	CLEANUP(mem_freep) char *home = NULL;
	TRY(home_path(&home));
	TRY(dir_make(home, 0700));
	CLEANUP(mem_freep) char *path = mem_printf("%s/inspect-%d.core", home, (int)getpid());
	struct dump_order order = { .path = path, .type = DUMP_HEAP, .limits = *limits };
	struct dump_result result;
	uint64_t pause_ns;
	TRY(dump_check(p, &order, &pause_ns));
	TRY(dump_collect(p, &order, &result));
	struct err *err = image_exam_of_core(path, ret);
	unlink(path);
	fprintf(stderr, "it stood still for %s; what follows is asked of a copy on disk (%s)\n",
		fmt_duration_ns(result.held_ns).s, fmt_bytes(result.disk_bytes).s);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	CLEANUP(patient_fini) struct patient p = { 0 };
	CLEANUP(whose_names_freep) struct whose_names *whose = NULL;
	CLEANUP(inspect_closep) struct inspect *in = NULL;
	struct image_limits limits = { 0 };
	struct image_exam look = { 0 };
	const char *pause = args_value(args, "--max-pause");
	if (pause && (!str_to_duration_ms(pause, &limits.max_pause_ms) || !limits.max_pause_ms ||
		      limits.max_pause_ms > MAX_PAUSE_LIMIT_MS))
		return err_new(ERR_USAGE, "--max-pause takes a time such as 50ms or 1s, at most 60s, not '%s'", pause);
	TRY(patient_look(args->words[0], FIND_TIMEOUT_MS, &p));
	whose = own_code_of_process(&p);
	if (p.answered)
		limits.cookie = p.info.cookie;
	if (args_has(args, "--command"))
		TRY_WRAP(image_exam_of_patient(&p, &limits, &look), "%s (%d)", patient_name(&p), p.target.id);
	else
		TRY_WRAP(take_to_disk(&p, &limits, &look), "%s (%d)", patient_name(&p), p.target.id);
	look.whose = whose;
	CLEANUP(mem_freep) char *source = mem_printf("%s (%d)", patient_name(&p), p.target.id);
	TRY(inspect_open(&look, source, &in));
	return inspect_ask(args, in);
}

const struct command cmd_inspect = {
	.name = "inspect",
	.words = "TARGET",
	.summary = "Ask a living process about its threads, objects, locks and code, at a prompt or by -c.",
	.example = "drdotnet inspect 1234 -c threads -c 'heap stat'   two answers\n"
		   "drdotnet inspect 1234                             a prompt\n",
	.details = "The process is held for the few milliseconds that a copy of it takes. With -c the copy is asked "
		   "and then "
		   "dropped; for a prompt it is written to disk first, into a file without a name. 'help' lists the "
		   "commands; "
		   "'drdotnet dump open FILE' asks the same of a core file.",
	.options =
		(const struct option[]){
			{ .name = "--command",
			  .short_name = 'c',
			  .value = "COMMAND",
			  .help = "Ask this and end; may be given more than once",
			  .repeat = true },
			{ .name = "--max-pause",
			  .value = "TIME",
			  .help = "Refuse when it would stand still for longer (100ms; of a large process 40ms a GB)" },
			{ .name = "--json", .help = "Print answers as JSON objects" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};
