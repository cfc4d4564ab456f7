#include "cli/args.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/remote.h"
#include <string.h>

static const struct option help_option = { .name = "--help", .short_name = 'h', .help = "Show this help" };

static const struct option *find_option(const struct command *command, const char *name, size_t len, char short_name)
{
	if ((short_name && short_name == help_option.short_name) ||
	    (!short_name && len == strlen(help_option.name) && !memcmp(name, help_option.name, len)))
		return &help_option;
	for (const struct option *o = command->options; o && o->name; o++) {
		if (short_name ? o->short_name == short_name : strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	}
	return NULL;
}

/* "-pid 1" for "--pid 1": as programs in Go take it. */
static const struct option *find_one_dash(const struct command *command, const char *word)
{
	size_t len = strcspn(word, "=");
	for (const struct option *o = command->options; o && o->name && len > 2; o++) {
		if (strlen(o->name + 1) == len && !memcmp(o->name + 1, word, len))
			return o;
	}
	return NULL;
}

const struct option *args_option(const struct command *command, const char *word, const char **ret_value)
{
	const struct option *o = find_one_dash(command, word);
	bool is_long = word[1] == '-' || o;
	const char *equals = is_long ? strchr(word, '=') : NULL;
	size_t len = equals ? (size_t)(equals - word) : strlen(word);
	*ret_value = equals ? equals + 1 : !is_long && word[2] ? word + 2 : NULL;
	return o ? o : find_option(command, word, len, is_long ? '\0' : word[1]);
}

void option_add_value(const struct option *o, struct buf *out)
{
	if (!o->bare && o->value)
		buf_printf(out, " %s", o->value);
	else if (!str_eq(o->bare, o->value))
		buf_printf(out, "=%s", o->value);
}

/* The option that was meant: by its spelling, or "--pause" for "--max-pause-ms". */
static const char *guess_option(const struct option *const lists[], size_t n, const char *word)
{
	struct guess guess = { .word = word, .least = SIZE_MAX };
	const char *part = word + strspn(word, "-"), *holds = NULL;
	for (size_t i = 0; i < n; i++) {
		for (const struct option *o = lists[i]; o && o->name; o++) {
			if (o->hidden)
				continue;
			guess_name(&guess, o->name);
			if (!holds && strlen(part) >= 3 && str_contains_nocase(o->name, part))
				holds = o->name;
		}
	}
	return guess.best ? guess.best : holds;
}

static struct err *unknown_option(const struct command *command, const char *word)
{
	const struct option *const lists[] = { command->options, command->remote ? remote_options : NULL };
	CLEANUP(mem_freep) char *name = mem_strndup(word, strcspn(word, "="));
	const char *meant = guess_option(lists, ARRAY_SIZE(lists), name);
	if (meant)
		return err_new(ERR_USAGE,
			       "unknown option '%s' for 'drdotnet %s'; did you mean '%s'? See 'drdotnet help %s'", word,
			       command->name, meant, command->name);
	CLEANUP(buf_free) struct buf known = { 0 };
	for (const struct option *o = command->options; o && o->name; o++) {
		if (!o->hidden)
			buf_printf(&known, "%s%s", known.len ? ", " : "", o->name);
	}
	buf_printf(&known, "%s--help", known.len ? " and " : "");
	return err_new(ERR_USAGE, "unknown option '%s' for 'drdotnet %s'; it knows %s", word, command->name,
		       buf_cstr(&known));
}

static struct err *check_choice(const struct option *o, const char *value)
{
	if (!o->choices)
		return NULL;
	struct buf list = { 0 };
	for (const char *const *c = o->choices; *c; c++) {
		if (str_eq(*c, value)) {
			buf_free(&list);
			return NULL;
		}
		buf_printf(&list, "%s%s", list.len ? ", " : "", *c);
	}
	struct err *err = err_new(ERR_USAGE, "%s takes one of %s, not '%s'", o->name, buf_cstr(&list), value);
	buf_free(&list);
	return err;
}

/* "--gcdump true" would take "true" for the target. */
static struct err *check_bare(const struct option *o, const char *next)
{
	return str_eq(next, "true") || str_eq(next, "false")
		       ? err_new(ERR_USAGE, "%s takes its value behind '=': %s=%s", o->name, o->name, next)
		       : NULL;
}

/* One option; *next is the word behind it, or NULL, and becomes NULL when it was its value. */
static struct err *take_option(const struct command *command, const char *word, const char **next,
			       struct args_given *ret)
{
	const char *value;
	const struct option *o = args_option(command, word, &value);
	if (!o)
		return unknown_option(command, word);
	if (!o->value && value)
		return err_new(ERR_USAGE, "%s takes no value", o->name);
	*ret = (struct args_given){ o, value };
	if (!o->value)
		return NULL;
	if (!value && o->bare) {
		ret->value = o->bare;
		return check_bare(o, *next);
	}
	if (!value && !*next)
		return err_new(ERR_USAGE, "%s needs a value: %s %s", o->name, o->name, o->value);
	if (!value) {
		ret->value = *next;
		*next = NULL;
	}
	return check_choice(o, ret->value);
}

static struct err *check_words(const struct args *a)
{
	const struct command *command = a->command;
	if (args_has(a, "--help"))
		return NULL;
	if (a->n_words < command->min_words)
		return err_new(ERR_USAGE, "'drdotnet %s' needs %s; see 'drdotnet help %s'", command->name,
			       command->words, command->name);
	if (a->n_words > command->max_words)
		return err_new(ERR_USAGE, "too many words for 'drdotnet %s': '%s' is not expected", command->name,
			       a->words[command->max_words]);
	return NULL;
}

struct err *args_parse(const struct command *command, int argc, char **argv, struct args *ret)
{
	VEC(struct args_given) given = { 0 };
	VEC(const char *) words = { 0 };
	struct err *err = NULL;
	bool options_over = false;
	char **program = NULL;
	for (int i = 0; i < argc && !err; i++) {
		const char *word = argv[i];
		if (options_over || word[0] != '-' || !word[1]) {
			vec_push(&words, word);
		} else if (!str_eq(word, "--")) {
			const char *next = i + 1 < argc ? argv[i + 1] : NULL;
			struct args_given one = { 0 };
			bool last = !next;
			err = take_option(command, word, &next, &one);
			if (!err)
				vec_push(&given, one);
			i += !next && !last;
		} else if (!command->takes_program) {
			options_over = true;
		} else {
			program = argv + i + 1;
			if (!argv[i + 1])
				err = err_new(ERR_USAGE, "behind '--' comes the program to start and its arguments");
			break;
		}
	}
	*ret = (struct args){ command, given.v, given.n, words.v, words.n, program };
	return err ? err : check_words(ret);
}

void args_fini(struct args *a)
{
	mem_free(a->given);
	mem_free(a->words);
	*a = (struct args){ 0 };
}

void args_word_to_option(struct args *a, size_t at, const struct option *o)
{
	a->given = mem_realloc_array(a->given, a->n_given + 1, sizeof(*a->given));
	a->given[a->n_given++] = (struct args_given){ o, a->words[at] };
	a->n_words--;
	for (size_t i = at; i < a->n_words; i++)
		a->words[i] = a->words[i + 1];
}

const char *args_value(const struct args *a, const char *option)
{
	for (size_t i = a->n_given; i-- > 0;) {
		if (str_eq(a->given[i].option->name, option))
			return a->given[i].value;
	}
	return NULL;
}

bool args_has(const struct args *a, const char *option)
{
	for (size_t i = 0; i < a->n_given; i++) {
		if (str_eq(a->given[i].option->name, option))
			return true;
	}
	return false;
}
