#pragma once
/* All commands, in the order help shows them. A new one: src/cli/cmd_<name>.c with one const struct, its name here. */

#include "cli/command.h"

extern const struct command cmd_ps, cmd_check, cmd_run, cmd_profilers, cmd_sessions, cmd_completion, cmd_help,
	cmd_worker, cmd_generate, cmd_trace, cmd_dump, cmd_stacks;

static const struct command *const commands[] = {
	&cmd_ps,     &cmd_check,    &cmd_run,	     &cmd_profilers, &cmd_trace,  &cmd_dump,
	&cmd_stacks, &cmd_sessions, &cmd_completion, &cmd_help,	     &cmd_worker, &cmd_generate,
};

const struct command *command_find(const char *name); /* NULL when there is none */
struct err *unknown_word(const char *word);	      /* neither a command nor a profiler */

/* Help texts, appended to out; fit 100 columns. */
struct buf;
void help_overview(struct buf *out);
void help_command(const struct command *command, struct buf *out);
struct profiler;
void help_profiler(const struct profiler *profiler, struct buf *out);
