#pragma once
/* The command line: one const struct a command, one list. Help, completion and the man page are made from them. */

#include "base/err.h"

struct option {
	const char *name;  /* "--duration" */
	char short_name;   /* 'o', or 0 */
	const char *value; /* what to call its value: "FILE"; NULL = a switch */
	const char *bare;  /* its value where none stands behind '='; NULL = it needs one, also as the next word */
	const char *param; /* key of the parameter of a profiler that it sets; NULL = none */
	const char *help;
	const char *const *choices; /* accepted words, NULL-terminated; NULL = any */
	bool hidden, repeat;
};

/* Parsed: every given option in order, and the rest. */
struct args {
	const struct command *command;
	struct args_given {
		const struct option *option;
		const char *value;
	} * given;
	size_t n_given;
	const char **words; /* not options */
	size_t n_words;
	char **program; /* the words after "--", of commands that start a program; ends with NULL. NULL without */
};
/* The last one given, or NULL. */
const char *args_value(const struct args *a, const char *option);
bool args_has(const struct args *a, const char *option);

struct command {
	const char *name;
	const char *words;	      /* "TARGET", "[list|show|report|export|delete|prune] [SESSION]" */
	const char *summary;	      /* one line */
	const char *example;	      /* shown first in its help: "drdotnet ps" lines with what they do */
	const char *details;	      /* paragraphs, or NULL */
	const struct option *options; /* ended by name NULL */
	size_t min_words, max_words;
	bool hidden;
	bool takes_program;		 /* the words after "--" are a program to start */
	const struct profiler *profiler; /* whose verb it is (cli/verb.h), or NULL */
	bool remote;			 /* may run on another machine, by --server */
	/* ret_exit is 0 at first. An error is printed by main and gives the exit code of its kind. */
	struct err *(*run)(const struct args *args, int *ret_exit);
};
