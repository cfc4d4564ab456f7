/* drdotnet help: prints what help.c composes. */

#include "base/buf.h"
#include "cli/commands.h"
#include "profilers/registry.h"
#include <stdio.h>

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	struct buf out = { 0 };
	struct err *err = NULL;
	if (!args->n_words) {
		help_overview(&out);
	} else {
		const struct command *command = command_find(args->words[0]);
		const struct profiler *profiler = NULL;
		if (command)
			help_command(command, &out);
		else
			err_ignore(profiler_find(args->words[0], &profiler));
		if (profiler)
			help_profiler(profiler, &out);
		else if (!command)
			err = unknown_word(args->words[0]);
	}
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return err;
}

const struct command cmd_help = {
	.name = "help",
	.words = "[COMMAND|PROFILER]",
	.summary = "Say what a command or a profiler does, an example first.",
	.example = "drdotnet help exceptions",
	.max_words = 1,
	.run = run,
};
