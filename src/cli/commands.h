#pragma once
/* All commands, in the order help shows them. A new one: src/cli/cmd_<name>.c with one const struct, its name here. */

#include "cli/command.h"

/* One a line: names that begin with an underscore are hidden. */
#define COMMANDS(X)                                                                                                    \
	X(ps)                                                                                                          \
	X(check)                                                                                                       \
	X(run)                                                                                                         \
	X(profilers)                                                                                                   \
	X(cpu)                                                                                                         \
	X(top)                                                                                                         \
	X(counters)                                                                                                    \
	X(perf_map)                                                                                                    \
	X(symbols)                                                                                                     \
	X(trace)                                                                                                       \
	X(stacks)                                                                                                      \
	X(dump)                                                                                                        \
	X(inspect)                                                                                                     \
	X(sessions)                                                                                                    \
	X(serve)                                                                                                       \
	X(config)                                                                                                      \
	X(completion)                                                                                                  \
	X(help)                                                                                                        \
	X(worker)                                                                                                      \
	X(health)                                                                                                      \
	X(generate)

#define COMMAND_EXTERN(name) extern const struct command cmd_##name;
COMMANDS(COMMAND_EXTERN)
#undef COMMAND_EXTERN

#define COMMAND_ENTRY(name) &cmd_##name,
static const struct command *const commands[] = { COMMANDS(COMMAND_ENTRY) };
#undef COMMAND_ENTRY

/* 'cpu' under the name of its ancestor. */
extern const struct command cmd_profcpu;

const struct command *command_find(const char *name); /* NULL when there is none */
struct err *unknown_word(const char *word);	      /* neither a command nor a profiler */

/* Help texts, appended to out; fit 100 columns. */
struct buf;
void help_overview(struct buf *out);
/* Words of text and the end of the line, wrapped; the first line starts at column `at`, the others behind `indent` blanks. */
void help_wrap(struct buf *out, const char *text, size_t at, size_t indent, size_t columns);
void help_command(const struct command *command, struct buf *out);
struct profiler;
void help_profiler(const struct profiler *profiler, struct buf *out);
