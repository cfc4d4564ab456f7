#pragma once
/* Words of the command line into struct args. Strict: what a command does not know is an error that says what it
 * knows. */

#include "cli/command.h"

/* argv without the program's and the command's names. `--help` is known to every command and lifts the checks on
 * words. The strings stay argv's. Call args_fini also after an error. */
struct err *args_parse(const struct command *command, int argc, char **argv, struct args *ret) MUST_USE;
void args_fini(struct args *a);
