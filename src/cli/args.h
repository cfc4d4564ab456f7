#pragma once
/* Words of the command line into struct args. Strict: what a command does not know is an error that says what it
 * knows. */

#include "base/buf.h"
#include "cli/command.h"

/* argv without the program's and the command's names. `--help` is known to every command and lifts the checks on
 * words. The strings stay argv's. Call args_fini also after an error. */
struct err *args_parse(const struct command *command, int argc, char **argv, struct args *ret) MUST_USE;
void args_fini(struct args *a);
/* The word at that place was the value of an option. */
void args_word_to_option(struct args *a, size_t at, const struct option *o);

/* The option that a word such as "-d5" or "--duration=5" names, and its value when it has one there, else NULL. */
const struct option *args_option(const struct command *command, const char *word, const char **ret_value);
/* Appends how its value is given, for help: " FILE", "=false" or nothing. */
void option_add_value(const struct option *o, struct buf *out);
