/* The entry point: finds the command, parses its words, prints its error, returns its exit code.
 *
 * Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no permission, 5 busy, 6 what --fail-on names
 * was found, 130 cancelled. */

#include "base/buf.h"
#include "base/str.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/impressions.h"
#include "cli/output.h"
#include "cli/remote.h"
#include "cli/secret.h"
#include "cli/verb.h"
#include "config/config.h"
#include "profilers/registry.h"
#include "target/target.h"
#include "version.h"
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int exit_code(enum err_kind kind)
{
	switch (kind) {
	case ERR_USAGE:
		return 2;
	case ERR_NOT_FOUND:
		return 3;
	case ERR_DENIED:
		return 4;
	case ERR_BUSY:
		return 5;
	case ERR_CANCELLED:
		return 130;
	default:
		return 1;
	}
}

static int fail(struct err *err)
{
	struct buf line = { 0 };
	const char *text = err_text(err);
	/* Errors may quote names out of a target, which begin no line; those of our own lists are indented. */
	for (const char *end; *text; text = *end ? end + 1 : end) {
		end = strstr(text, "\n  ");
		end = end ? end : text + strlen(text);
		str_add_visible(&line, text, (size_t)(end - text), 0);
		buf_char(&line, '\n');
	}
	fprintf(stderr, "drdotnet: %s", buf_cstr(&line));
	buf_free(&line);
	int code = exit_code(err_kind(err));
	err_free(err);
	return code;
}

static int print(void (*write)(struct buf *out))
{
	struct buf out = { 0 };
	write(&out);
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return 0;
}

static bool for_another_machine;

/* A profiler that does not exist is a better reason than an option which it might have. */
static struct err *parse(const struct command *command, const struct verb *verb, int argc, char **argv,
			 struct args *ret)
{
	if (verb)
		return verb_parse(verb, argc, argv, ret);
	struct err *err = args_parse(command, argc, argv, ret);
	const struct profiler *profiler = NULL;
	struct err *unknown =
		err && command == &cmd_run && ret->n_words ? profiler_find(ret->words[0], &profiler) : NULL;
	if (unknown)
		err_free(err);
	return unknown ? unknown : err;
}

/* The file is for the server first of all: other commands go on without one that is wrong, and say so. */
static struct err *configure(const struct command *command, const struct args *args)
{
	CLEANUP(config_freep) struct config *c = NULL;
	if (command == &cmd_config || (command->hidden && command != &cmd_health))
		return NULL;
	CLEANUP(err_freep) struct err *err = config_read(args_value(args, "--config"), &c);
	if (err && command == &cmd_serve)
		return STEAL(err);
	if (err)
		fprintf(stderr, "drdotnet: the configuration is not used: %s\n", err_text(err));
	else
		config_apply(c);
	return NULL;
}

static int run(const struct command *command, int argc, char **argv)
{
	CLEANUP(verb_freep) struct verb *verb = command == &cmd_run ? verb_named(argc, argv) : NULL;
	struct args args;
	int code = 0;
	struct err *err = parse(command, verb, argc, argv, &args);
	if (!err && for_another_machine)
		err = remote_check(&args);
	if (!err && args_has(&args, "--help")) {
		struct buf out = { 0 };
		if (verb)
			help_profiler(verb->command.profiler, &out);
		else
			help_command(command, &out);
		fputs(buf_cstr(&out), stdout);
		buf_free(&out);
	} else if (!err) {
		err = configure(command, &args);
		err = err ? err : command->run(&args, &code);
	}
	args_fini(&args);
	if (err)
		return fail(err);
	bool before = ferror(stdout); /* what failed then is not written again by a flush */
	if ((fflush(stdout) != 0 || before) && !output_is_unread())
		return fail(err_new(ERR_IO, "cannot write the result to standard output"));
	return code;
}

/* "shop", "Shop.dll" and "/app/Shop.dll" are all Shop. */
static bool same_name(const char *path, size_t len, const char *word)
{
	CLEANUP(mem_freep) char *name = mem_strndup(path, len);
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	CLEANUP(mem_freep) char *with = mem_printf("%s.dll", word);
	return str_eq_nocase(base, word) || str_eq_nocase(base, with);
}

static bool is_called(const struct target *t, const char *word)
{
	if (same_name(t->name, strlen(t->name), word))
		return true;
	for (const char *p = t->command_line ? t->command_line : ""; *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");
		if (len > 4 && !strncasecmp(p + len - 4, ".dll", 4) && same_name(p, len, word))
			return true;
		p += len;
	}
	return false;
}

/* Does the word name a process: by its number, or by its whole name? Only /proc is read, so a typo touches no process. */
static bool names_a_process(const char *word)
{
	CLEANUP(target_list_free) struct target_list list = { 0 };
	uint64_t number;
	if (str_empty(word) || *word == '-')
		return false;
	if (str_to_u64(word, &number))
		return true;
	err_ignore(target_find_all(NULL, &list));
	vec_each(t, &list)
		if (is_called(t, word))
			return true;
	return false;
}

/* `drdotnet shop` is `drdotnet diagnose shop`. */
static int diagnose(int argc, char **argv)
{
	char name[] = "diagnose";
	char **words = mem_array((size_t)argc + 1, sizeof(*words));
	words[0] = name;
	for (int i = 1; i < argc; i++)
		words[i] = argv[i];
	words[argc] = NULL;
	int code = run(&cmd_run, argc, words);
	mem_free(words);
	return code;
}

/* `drdotnet` alone: on a terminal the patients and what to type next, else the help. */
static int begin(void)
{
	CLEANUP(err_freep) struct err *err = NULL;
	if (!isatty(STDOUT_FILENO))
		return print(help_overview);
	err = impressions_start(stdout);
	if (!err)
		return 0;
	print(help_overview);
	fprintf(stderr, "\n%s; 'drdotnet ps' says more.\n", err_text(err));
	return 0;
}

int main(int argc, char **argv)
{
	/* Our numbers are the same everywhere; only the character set of the terminal matters. */
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error like a full disk */
	secret_hide(argc, argv);
	const char *slash = strrchr(argv[0] ? argv[0] : "", '/');
	if (argc && str_eq(slash ? slash + 1 : argv[0], "profcpu")) {
		char *help[] = { (char[]){ "--help" } };
		return argc > 1 ? run(&cmd_profcpu, argc - 1, argv + 1) : run(&cmd_profcpu, 1, help);
	}
	if (argc < 2)
		return begin();
	const char *word = argv[1];
	if (str_eq(word, "--help") || str_eq(word, "-h"))
		return print(help_overview);
	if (str_eq(word, "--version") || str_eq(word, "-V")) {
		printf("drdotnet %s\n", DRDOTNET_VERSION);
		return 0;
	}
	if (str_eq(word, "_remote")) {
		for_another_machine = true;
		argc--;
		argv++;
		word = argc > 1 ? argv[1] : "";
	}
	struct remote remote;
	bool elsewhere;
	int n = argc - 1, code = 0;
	struct err *err = remote_take(&n, argv + 1, &remote, &elsewhere);
	argc = n + 1;
	if (!err && elsewhere && for_another_machine)
		err = err_new(ERR_DENIED, "a command that another machine asked for is not passed on");
	if (!err && elsewhere)
		err = remote_run(&remote, n, argv + 1, &code);
	if (err || elsewhere)
		return err ? fail(err) : code;
	word = argc > 1 ? argv[1] : "";
	const struct command *command = command_find(word);
	if (command)
		return run(command, argc - 2, argv + 2);
	/* `drdotnet runtime-pauses 1234` is `drdotnet run runtime-pauses 1234`. */
	const struct profiler *profiler = NULL;
	err = profiler_find(word, &profiler);
	if (!err)
		return run(&cmd_run, argc - 1, argv + 1);
	err_free(err);
	/* A second word would be its target: then the first was meant as a command. */
	bool alone = argc < 3 || argv[2][0] == '-';
	if (alone && names_a_process(word))
		return diagnose(argc, argv);
	return fail(unknown_word(word));
}
