#include "cli/verb.h"
#include "base/str.h"
#include "cli/commands.h"
#include "profilers/registry.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- options of parameters ---- */

static char *spelled(struct arena *arena, const char *before, const char *key, int (*letter)(int))
{
	char *text = arena_printf(arena, "%s%s", before, key);
	for (char *c = text; *c; c++)
		*c = *c == '_' ? '-' : (char)letter((unsigned char)*c);
	return text;
}

static bool is_time(const struct param *p)
{
	return str_eq(p->unit, "s") || str_eq(p->unit, "ms");
}

static const char *value_name(struct arena *arena, const struct param *p)
{
	bool on = false;
	if (p->type == PARAM_STRING)
		return spelled(arena, "", p->key, toupper);
	if (p->type == PARAM_BOOL)
		return str_to_bool(p->default_value, &on) && on ? "BOOL" : "true";
	return is_time(p) ? "TIME" : str_eq(p->unit, "bytes") ? "BYTES" : "N";
}

/* Forms show the name as a label; here it stands where the option does not already say it. */
static void add_name(struct buf *text, const struct param *p)
{
	CLEANUP(mem_freep) char *plain = mem_strdup(p->key);
	for (char *c = plain; *c; c++)
		*c = *c == '_' ? ' ' : *c;
	if (!str_eq_nocase(plain, p->name))
		buf_printf(text, "%s. ", p->name);
}

static const char *about(struct arena *arena, const struct param *p)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	add_name(&text, p);
	buf_str(&text, p->description);
	const char *before = str_ends(p->description, ".") || str_ends(p->description, "?") ? "" : ".";
	if (*p->default_value)
		buf_printf(&text, "%s Default %s%s%s", before, p->default_value, p->unit ? " " : "",
			   p->unit ? p->unit : "");
	if (p->type == PARAM_INT || p->type == PARAM_FLOAT)
		buf_printf(&text, ", from %.15g to %.15g", p->min, p->max);
	for (const char *const *c = p->choices; c && *c; c++)
		buf_printf(&text, "%s%s", c == p->choices ? "; one of " : ", ", *c);
	buf_str(&text, *p->default_value ? "." : before);
	return arena_strdup(arena, buf_cstr(&text));
}

static struct option option_of(struct arena *arena, const struct param *p)
{
	return (struct option){ .name = spelled(arena, "--", p->key, tolower),
				.value = value_name(arena, p),
				.bare = p->type == PARAM_BOOL ? "true" : NULL,
				.param = p->key,
				.help = about(arena, p),
				.choices = p->choices };
}

/* How long it listens is --duration everywhere; "duration_seconds" of the Dr-Dotnet contract has its own name, too. */
static size_t add_duration(struct arena *arena, const struct param *p, struct option *list)
{
	size_t n = 0;
	struct option named = option_of(arena, p);
	if (!str_eq(named.name, "--duration")) {
		list[n] = named;
		list[n++].hidden = true;
	}
	list[n] = named;
	list[n].name = "--duration";
	list[n++].short_name = 'd';
	return n;
}

/* An option of 'run' that this profiler can only refuse, with a reason that names it: no help shows it. */
static bool is_refused(const struct profiler *p, const char *option)
{
	const enum way *way = p->ways;
	while (*way && *way != WAY_IMAGE)
		way++;
	if (str_eq(option, "--core"))
		return !*way;
	if (str_eq(option, "--before"))
		return !p->two_recordings;
	if (str_eq(option, "--way"))
		return p->for_core;
	return str_eq(option, "--all") && !str_eq(p->id, "diagnose");
}

/* Of the parameters, then those of 'run'. Who looks at instants has --duration for its error only. */
static const struct option *add_options(struct arena *arena, const struct profiler *p)
{
	const struct param *duration = profiler_duration(p);
	size_t n = 0, n_run = 0;
	while (cmd_run.options[n_run].name)
		n_run++;
	struct option *list = arena_zalloc(arena, (p->n_params + n_run + 2) * sizeof(*list));
	for (const struct param *one = p->params; one < p->params + p->n_params; one++) {
		if (one == duration)
			n += add_duration(arena, one, list + n);
		else
			list[n++] = option_of(arena, one);
	}
	for (const struct option *o = cmd_run.options; o->name; o++) {
		bool is_duration = str_eq(o->name, "--duration");
		if (is_duration && duration)
			continue;
		list[n] = *o;
		list[n++].hidden |= is_duration || is_refused(p, o->name);
	}
	return list;
}

struct verb *verb_new(const struct profiler *profiler)
{
	struct verb *v = mem_zalloc(sizeof(*v));
	const struct param *word = profiler->word ? profiler_param(profiler, profiler->word) : NULL;
	const char *called = word ? value_name(&v->arena, word) : "", *blank = word ? " " : "";
	v->begin = arena_printf(&v->arena, "%s%s%s", profiler->id, blank, called);
	v->command = cmd_run;
	v->command.profiler = profiler;
	v->command.name = profiler->id;
	v->command.words =
		arena_printf(&v->arena, "%s%s%s", called, blank, profiler->for_core ? "--core FILE" : "TARGET");
	v->command.max_words += word ? 1 : 0;
	v->command.options = add_options(&v->arena, profiler);
	return v;
}

void verb_free(struct verb *v)
{
	if (!v)
		return;
	arena_free(&v->arena);
	mem_free(v);
}

/* ---- the words ---- */

struct verb *verb_named(int argc, char **argv)
{
	for (int i = 0; i < argc && !str_eq(argv[i], "--"); i++) {
		const struct profiler *profiler = NULL;
		if (argv[i][0] == '-') {
			const char *value;
			const struct option *o = args_option(&cmd_run, argv[i], &value);
			i += o && o->value && !value;
			continue;
		}
		err_ignore(profiler_find(argv[i], &profiler));
		if (profiler)
			return verb_new(profiler);
	}
	return NULL;
}

static bool is_given(const struct args *a, const char *key)
{
	size_t len = strlen(key);
	for (size_t i = 0; i < a->n_given; i++) {
		const struct args_given *g = &a->given[i];
		if (str_eq(g->option->param, key) ||
		    (str_eq(g->option->name, "--param") && str_starts(g->value, key) && g->value[len] == '='))
			return true;
	}
	return false;
}

/* METHOD of 'calls METHOD TARGET' is the word behind the profiler, unless an option says it. The only word is METHOD
 * where something else than a TARGET is examined. */
static struct err *take_word(const struct option *o, const struct param *param, struct args *a)
{
	bool given = is_given(a, param->key), two = a->n_words == 3, one = a->n_words == 2;
	bool elsewhere = a->program || args_has(a, "--core") || args_has(a, "--recording") || args_has(a, "--session");
	if (two && given)
		return err_new(ERR_USAGE, "%s is given twice: as the word '%s' and by an option", o->value,
			       a->words[1]);
	if (one && !given && !elsewhere && !*param->default_value)
		return err_new(ERR_USAGE, "'drdotnet %s' needs %s, and there is only '%s'", a->command->name,
			       a->command->words, a->words[1]);
	if (!given && (two || (one && elsewhere)))
		args_word_to_option(a, 1, o);
	return NULL;
}

struct err *verb_parse(const struct verb *v, int argc, char **argv, struct args *ret)
{
	TRY(args_parse(&v->command, argc, argv, ret));
	const struct profiler *p = v->command.profiler;
	const struct option *o = v->command.options;
	while (p->word && !str_eq(o->param, p->word))
		o++;
	return p->word && !args_has(ret, "--help") ? take_word(o, profiler_param(p, p->word), ret) : NULL;
}

/* ---- their values ---- */

static struct err *set_param(struct params *params, const char *word)
{
	const char *equals = strchr(word, '=');
	if (!equals || equals == word)
		return err_new(ERR_USAGE, "--param takes key=value, not '%s'", word);
	CLEANUP(mem_freep) char *key = mem_strndup(word, (size_t)(equals - word));
	return params_set(params, key, equals + 1);
}

/* A plain number is in the parameter's own unit. */
static struct err *set_time(struct params *params, const struct param *p, const char *called, const char *word)
{
	uint64_t ms;
	double plain;
	char value[32];
	bool seconds = str_eq(p->unit, "s");
	if (!seconds && str_to_double(word, &plain))
		return params_set_as(params, p->key, called, word);
	if (!str_to_duration_ms(word, &ms))
		return err_new(ERR_USAGE, "%s takes a time from %.15g to %.15g %s, such as 500ms, 10s or 2m, not '%s'",
			       called, p->min, p->max, p->unit, word);
	if (seconds && p->type == PARAM_INT && ms % 1000)
		return err_new(ERR_USAGE, "%s takes whole seconds, from %.15g to %.15g, not '%s'", called, p->min,
			       p->max, word);
	snprintf(value, sizeof(value), "%.15g", seconds ? (double)ms / 1000 : (double)ms);
	return params_set_as(params, p->key, called, value);
}

static struct err *set_one(const struct args_given *g, const struct profiler *profiler, struct params *params)
{
	const struct param *p = g->option->param ? profiler_param(profiler, g->option->param) : NULL;
	if (p)
		return is_time(p) ? set_time(params, p, g->option->name, g->value)
				  : params_set_as(params, p->key, g->option->name, g->value);
	if (str_eq(g->option->name, "--param"))
		return set_param(params, g->value);
	if (str_eq(g->option->name, "--duration"))
		return profiler_param(profiler, "interval")
			       ? err_new(ERR_USAGE,
					 "%s takes no --duration: it looks twice, and --interval says how far apart",
					 profiler->id)
			       : err_new(ERR_USAGE, "%s takes no --duration: it looks once", profiler->id);
	return NULL;
}

struct err *verb_params(const struct args *args, const struct profiler *profiler, struct params *params)
{
	for (size_t i = 0; i < args->n_given; i++)
		TRY(set_one(&args->given[i], profiler, params));
	return NULL;
}
