/* drdotnet config: what is configured, and where each value comes from. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/home.h"
#include "base/str.h"
#include "cli/commands.h"
#include "config/config.h"
#include <stdio.h>
#include <string.h>

#define WIDE_MAX 40

struct shown_value {
	const char *text; /* in the arena */
	enum config_origin origin;
	size_t line;
};

static struct shown_value look_up(const struct config *c, enum setting_id id, struct arena *arena)
{
	struct shown_value v;
	const char *value;
	char *home = NULL;
	v.origin = config_origin(c, id, &value, &v.line);
	if (!value && id == SETTING_HOME)
		err_ignore(home_path(&home));
	CLEANUP(buf_free) struct buf text = { 0 };
	value = settings[id].secret && value ? "(secret)" : value ? value : home ? home : "-";
	str_add_visible(&text, value, strlen(value), 0);
	v.text = arena_strdup(arena, buf_cstr(&text));
	mem_free(home);
	return v;
}

static void add_origin(const struct setting *s, enum config_origin origin, size_t line, struct buf *out)
{
	if (origin == CONFIG_FILE)
		buf_printf(out, "line %zu", line);
	else
		buf_str(out, origin == CONFIG_VARIABLE ? s->variable : "");
}

/* A column is as wide as what it shows; a very long value pushes what comes behind. */
static void show(const struct config *c)
{
	CLEANUP(arena_free) struct arena arena = { 0 };
	struct shown_value values[SETTING_COUNT];
	int key = 0, wide = 0;
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		values[i] = look_up(c, (enum setting_id)i, &arena);
		key = MAX(key, (int)strlen(settings[i].key));
		wide = MAX(wide, (int)MIN(strlen(values[i].text), (size_t)WIDE_MAX));
	}
	printf("# file: %s\n", config_file(c) ? config_file(c) : CONFIG_PATH " (there is none)");
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		CLEANUP(buf_free) struct buf from = { 0 };
		add_origin(&settings[i], values[i].origin, values[i].line, &from);
		printf("%-*s  %-*s%s%s\n", key, settings[i].key, from.len ? wide : 0, values[i].text,
		       from.len ? "  from " : "", buf_cstr(&from));
	}
}

static struct err *check_variables(void)
{
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const char *value;
		TRY(setting_get((enum setting_id)i, &value));
	}
	return NULL;
}

static struct err *run(const struct args *args, int *ret_exit)
{
	(void)ret_exit;
	const char *what = args->n_words ? args->words[0] : "show";
	CLEANUP(config_freep) struct config *c = NULL;
	TRY(config_read(args_value(args, "--config"), &c));
	TRY(check_variables());
	if (str_eq(what, "show")) {
		show(c);
		return NULL;
	}
	if (!str_eq(what, "check"))
		return err_new(ERR_USAGE, "'drdotnet config' takes check or show, not '%s'", what);
	printf("%s: fine\n", config_file(c) ? config_file(c) : "no configuration file; the variables");
	return NULL;
}

const struct command cmd_config = {
	.name = "config",
	.words = "[check|show]",
	.max_words = 1,
	.summary = "Check the configuration, or show every setting and where its value comes from.",
	.example = "drdotnet config show                       every setting, its value, and who said so\n"
		   "drdotnet config check --config my.yaml     is this file right?\n",
	.details =
		"Settings come from options of the command line, else from variables of the environment, else from the "
		"configuration file (YAML), else they have the value shown. The file is the one that --config or "
		"DRDOTNET_CONFIG names, otherwise " CONFIG_PATH ". Keys with a dot may be written as sections:\n\n"
		"  keep:\n    age: 30d",
	.options =
		(const struct option[]){
			{ .name = "--config", .value = "FILE", .help = "This file instead of " CONFIG_PATH },
			{ 0 },
		},
	.run = run,
};
