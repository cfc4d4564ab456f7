#include "cli/args.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
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

static struct err *unknown_option(const struct command *command, const char *word)
{
	struct buf known = { 0 };
	for (const struct option *o = command->options; o && o->name; o++) {
		if (!o->hidden)
			buf_printf(&known, "%s%s", known.len ? ", " : "", o->name);
	}
	buf_printf(&known, "%s--help", known.len ? " and " : "");
	struct err *err = err_new(ERR_USAGE, "unknown option '%s' for 'drdotnet %s'; it knows %s", word, command->name,
				  buf_cstr(&known));
	buf_free(&known);
	return err;
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
			continue;
		}
		if (str_eq(word, "--")) {
			options_over = true;
			if (command->takes_program) {
				program = argv + i + 1;
				if (!argv[i + 1])
					err = err_new(ERR_USAGE, "behind '--' comes the program to start and its "
								 "arguments");
				break;
			}
			continue;
		}
		const struct option *o = find_one_dash(command, word);
		bool is_long = word[1] == '-' || o;
		const char *equals = is_long ? strchr(word, '=') : NULL;
		size_t len = equals ? (size_t)(equals - word) : strlen(word);
		o = o ? o : find_option(command, word, len, is_long ? '\0' : word[1]);
		const char *value = equals ? equals + 1 : !is_long && word[2] ? word + 2 : NULL;
		if (!o) {
			err = unknown_option(command, word);
		} else if (!o->value && value) {
			err = err_new(ERR_USAGE, "%s takes no value", o->name);
		} else if (o->value && !value && i + 1 >= argc) {
			err = err_new(ERR_USAGE, "%s needs a value: %s %s", o->name, o->name, o->value);
		} else {
			if (o->value && !value)
				value = argv[++i];
			err = o->value ? check_choice(o, value) : NULL;
			vec_push(&given, ((struct args_given){ o, value }));
		}
	}
	*ret = (struct args){ command, given.v, given.n, words.v, words.n, program };
	if (!err && !args_has(ret, "--help") && words.n < command->min_words)
		err = err_new(ERR_USAGE, "'drdotnet %s' needs %s; see 'drdotnet help %s'", command->name,
			      command->words, command->name);
	if (!err && !args_has(ret, "--help") && words.n > command->max_words)
		err = err_new(ERR_USAGE, "too many words for 'drdotnet %s': '%s' is not expected", command->name,
			      words.v[command->max_words]);
	return err;
}

void args_fini(struct args *a)
{
	mem_free(a->given);
	mem_free(a->words);
	*a = (struct args){ 0 };
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
