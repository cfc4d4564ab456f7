#pragma once
/* A profiler as a command of its own, made from its struct: the options of 'run', and one more of each parameter.
 * Parsing, help, completion, man page and guide read it. */

#include "base/arena.h"
#include "cli/args.h"
#include "exam/profiler.h"

struct verb {
	struct command command; /* named as the profiler; runs as 'run' does */
	const char *begin;	/* what is typed before a target: "exceptions", "calls METHOD" */
	struct arena arena;	/* of its texts */
};
/* What args_parse made by its command points into it. */
struct verb *verb_new(const struct profiler *profiler);
void verb_free(struct verb *v);
DEFINE_CLEANUP(verb_free, struct verb *)

/* Of the profiler that the words behind 'run' name; NULL when they name none. */
struct verb *verb_named(int argc, char **argv);
/* args_parse() of 'PROFILER [WORD] [TARGET]': a word that is a parameter becomes its option, so that the words left are
 * the profiler and its TARGET, if it has one. */
struct err *verb_parse(const struct verb *v, int argc, char **argv, struct args *ret) MUST_USE;
/* Sets what the options say, --param among them. Their errors name the option, its range and its unit. */
struct err *verb_params(const struct args *args, const struct profiler *profiler, struct params *params) MUST_USE;
