/* Completion scripts, made from the command and profiler tables. Targets complete to ids and names that `ps` shows. */

#include "base/buf.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "profilers/registry.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 64
#define ZSH_TARGETS "'*:target:($(drdotnet ps --ids 2>/dev/null))'"

static void names(struct buf *out, bool with_commands, const char *between)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	bool first = true;
	for (size_t i = 0; with_commands && i < ARRAY_SIZE(commands); i++) {
		if (commands[i]->hidden)
			continue;
		buf_printf(out, "%s%s", first ? "" : between, commands[i]->name);
		first = false;
	}
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%s%s", first ? "" : between, all[i]->id);
		first = false;
	}
}

/* Calls take() with each verb of a command, once: "collect" of "collect TARGET | collect -- PROGRAM...", and whether
 * a TARGET stands behind it. */
static void each_verb(const struct command *c, void (*take)(const char *verb, bool target, void *user), void *user)
{
	CLEANUP(buf_free) struct buf seen = { 0 }, verb = { 0 };
	for (const char *p = c->words ? c->words : ""; *p; p++) {
		buf_clear(&verb);
		while (islower((unsigned char)*p))
			buf_char(&verb, *p++);
		bool word = verb.len && (!*p || strchr(" |]", *p));
		CLEANUP(mem_freep) char *listed = mem_printf(" %s ", buf_cstr(&verb));
		if (word && !strstr(buf_cstr(&seen), listed)) {
			buf_str(&seen, listed);
			take(buf_cstr(&verb), str_starts(p, " TARGET"), user);
		}
		if (!*p)
			break;
	}
}

static void add_verb(const char *verb, bool target UNUSED, void *user)
{
	buf_printf(user, "%s%s", ((struct buf *)user)->len ? " " : "", verb);
}

static void verbs_of(const struct command *c, struct buf *out)
{
	each_verb(c, add_verb, out);
}

static bool takes_target(const struct command *c)
{
	return c->words && strstr(c->words, "TARGET");
}

/* "duration= rate=", as --param takes them. */
static void keys_of(const struct profiler *p, struct buf *out)
{
	for (size_t i = 0; i < p->n_params; i++)
		buf_printf(out, "%s%s=", i ? " " : "", p->params[i].key);
}

/* Its own, and where it can be asked for from another machine, what that takes. Hidden ones not. */
static size_t options_of(const struct command *c, const struct option *ret[OPTIONS_MAX])
{
	const struct option *lists[] = { c->options, c->remote ? remote_options : NULL };
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (const struct option *o = lists[i]; o && o->name && n < OPTIONS_MAX; o++)
			if (!o->hidden)
				ret[n++] = o;
	return n;
}

/* One that is on unless its value says otherwise. */
static bool needs_equals(const struct option *o)
{
	return o->bare && !str_eq(o->bare, o->value);
}

static void bash_options(struct buf *out, const char *pattern, const struct command *c)
{
	const struct option *list[OPTIONS_MAX];
	CLEANUP(buf_free) struct buf keys = { 0 };
	if (c->profiler)
		keys_of(c->profiler, &keys);
	buf_printf(out, "\t%s) opts=\"--help", pattern);
	for (size_t i = 0, n = options_of(c, list); i < n; i++)
		buf_printf(out, " %s%s", list[i]->name, needs_equals(list[i]) ? "=" : "");
	buf_printf(out, "\" keys=\"%s\";;\n", buf_cstr(&keys));
}

struct bash_verb {
	struct buf *out;
	const char *command;
};

static void bash_verb_target(const char *verb, bool target, void *user)
{
	const struct bash_verb *v = user;
	if (target)
		buf_printf(v->out, "|%s:%s", v->command, verb);
}

/* Where a TARGET is expected, as a pattern of command:second-word. */
static void bash_targets(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	buf_str(out, "run:*");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "|%s:*", all[i]->id);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const struct command *c = commands[i];
		CLEANUP(buf_free) struct buf verbs = { 0 };
		verbs_of(c, &verbs);
		if (c->hidden || c == &cmd_run || !takes_target(c))
			continue;
		if (verbs.len)
			each_verb(c, bash_verb_target, &(struct bash_verb){ out, c->name });
		else
			buf_printf(out, "|%s:*", c->name);
	}
}

static void bash_words(struct buf *out)
{
	buf_str(out, "\tcase $cmd:$COMP_CWORD in\n\trun:2) COMPREPLY=($(compgen -W \"");
	names(out, false, " ");
	buf_str(out, "\" -- \"$cur\")); return;;\n\thelp:2) COMPREPLY=($(compgen -W \"");
	names(out, true, " ");
	buf_str(out, "\" -- \"$cur\")); return;;\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		CLEANUP(buf_free) struct buf verbs = { 0 };
		verbs_of(commands[i], &verbs);
		if (!commands[i]->hidden && verbs.len)
			buf_printf(out, "\t%s:2) COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return;;\n",
				   commands[i]->name, buf_cstr(&verbs));
	}
	buf_str(out, "\tesac\n");
}

static void bash(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	buf_str(out, "# bash completion for drdotnet\n"
		     "_drdotnet() {\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]} verb=${COMP_WORDS[1]} opts= keys=\n"
		     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		     "\t\tCOMPREPLY=($(compgen -W \"");
	names(out, true, " ");
	buf_str(out, "\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
		     "\t[[ $cmd = run && $COMP_CWORD -gt 2 ]] && verb=${COMP_WORDS[2]}\n\tcase $verb in\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!commands[i]->hidden)
			bash_options(out, commands[i] == &cmd_run ? "run|-*" : commands[i]->name, commands[i]);
	}
	for (size_t i = 0; i < n; i++) {
		CLEANUP(verb_freep) struct verb *verb = verb_new(all[i]);
		bash_options(out, all[i]->id, &verb->command);
	}
	buf_str(out,
		"\tesac\n\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n"
		"\t-p|--param) compopt -o nospace 2>/dev/null; COMPREPLY=($(compgen -W \"$keys\" -- \"$cur\")); return;;\n"
		"\t-o|--output|--core|--recording|--config|--*-file) COMPREPLY=($(compgen -f -- \"$cur\")); return;;\n"
		"\tesac\n\tcase $cur in\n\t-*) COMPREPLY=($(compgen -W \"$opts\" -- \"$cur\")); return;;\n\tesac\n");
	bash_words(out);
	buf_str(out, "\tcase $cmd:${COMP_WORDS[2]} in\n\t");
	bash_targets(out);
	buf_str(out, ") COMPREPLY=($(compgen -W \"$(drdotnet ps --ids 2>/dev/null)\" -- \"$cur\"));;\n"
		     "\t*) COMPREPLY=($(compgen -f -- \"$cur\"));;\n\tesac\n}\ncomplete -F _drdotnet drdotnet\n");
}

/* Inside single quotes of zsh and fish, and of zsh's option descriptions, where [ ] and : have a meaning. */
static void quoted(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\'')
			buf_str(out, "’");
		else if (*s == ':' || *s == '[' || *s == ']')
			buf_printf(out, "\\%c", *s);
		else
			buf_char(out, *s);
	}
}

static void choices(struct buf *out, const char *const *words)
{
	for (const char *const *word = words; *word; word++)
		buf_printf(out, "%s%s", word == words ? "" : " ", *word);
}

static void zsh_option(struct buf *out, const struct option *o, const char *name, const struct profiler *profiler)
{
	buf_printf(out, " '%s%s%s[", o->repeat ? "*" : "", name, o->bare ? "=-" : "");
	quoted(out, o->help);
	buf_char(out, ']');
	if (profiler && str_eq(o->name, "--param")) {
		buf_printf(out, ":%s:{compadd -S \"\" -- ", o->value);
		keys_of(profiler, out);
		buf_char(out, '}');
	} else if (o->bare) {
		buf_str(out, "::value:(true false)");
	} else if (o->value && o->choices) {
		buf_printf(out, ":%s:(", o->value);
		choices(out, o->choices);
		buf_char(out, ')');
	} else if (o->value) {
		buf_printf(out, ":%s:%s", o->value, str_eq(o->value, "FILE") ? "_files" : " ");
	}
	buf_char(out, '\'');
}

/* rest: what the words that are no options are. */
static void zsh_options(struct buf *out, const char *pattern, const struct command *c, const char *rest)
{
	buf_printf(out, "\t%s) _arguments '--help[Show this help]'", pattern);
	const struct option *list[OPTIONS_MAX];
	for (size_t i = 0, n = options_of(c, list); i < n; i++)
		zsh_option(out, list[i], list[i]->name, c->profiler);
	for (size_t i = 0, n = options_of(c, list); i < n; i++) {
		char name[] = { '-', list[i]->short_name, '\0' };
		if (list[i]->short_name)
			zsh_option(out, list[i], name, c->profiler);
	}
	buf_printf(out, " %s;;\n", rest);
}

/* The words of a command that are no options. */
static void zsh_rest(const struct command *c, struct buf *out)
{
	CLEANUP(buf_free) struct buf verbs = { 0 };
	verbs_of(c, &verbs);
	if (c == &cmd_run || c == &cmd_help) {
		buf_str(out, "'1:profiler:(");
		names(out, c == &cmd_help, " ");
		buf_str(out, ")' ");
	} else if (verbs.len) {
		buf_printf(out, "'1:verb:(%s)' ", buf_cstr(&verbs));
	}
	if (verbs.len && takes_target(c))
		buf_str(out, "'*: :{compadd -- $(drdotnet ps --ids 2>/dev/null); _files}'");
	else
		buf_str(out, takes_target(c) ? ZSH_TARGETS : "'*:: :_files'");
}

static void zsh_commands(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		CLEANUP(buf_free) struct buf rest = { 0 };
		if (commands[i]->hidden)
			continue;
		zsh_rest(commands[i], &rest);
		zsh_options(out, commands[i]->name, commands[i], buf_cstr(&rest));
	}
}

static void zsh(struct buf *out)
{
	buf_str(out, "#compdef drdotnet\n_drdotnet() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a words_known=(\n");
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i]->hidden)
			continue;
		buf_printf(out, "\t\t\t'%s:", commands[i]->name);
		quoted(out, commands[i]->summary);
		buf_str(out, "'\n");
	}
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "\t\t\t'%s:", all[i]->id);
		quoted(out, all[i]->symptom);
		buf_str(out, "'\n");
	}
	buf_str(out,
		"\t\t)\n\t\t_describe command words_known\n\t\treturn\n\tfi\n"
		"\t[[ $words[2] = run && $CURRENT -gt 3 && $words[3] != -* ]] && { shift words; (( CURRENT-- )) }\n"
		"\tlocal cmd=$words[2]\n\tshift words; (( CURRENT-- ))\n\tcase $cmd in\n");
	zsh_commands(out);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(verb_freep) struct verb *verb = verb_new(all[i]);
		zsh_options(out, all[i]->id, &verb->command, ZSH_TARGETS);
	}
	buf_str(out, "\tesac\n}\n_drdotnet \"$@\"\n");
}

static void fish_option(struct buf *out, const char *seen, const struct option *o)
{
	buf_printf(out, "complete -c drdotnet -n '__fish_seen_subcommand_from %s' -l %s%s", seen, o->name + 2,
		   o->value && !o->bare ? " -r" : "");
	if (o->short_name)
		buf_printf(out, " -s %c", o->short_name);
	if (o->choices || needs_equals(o)) {
		buf_str(out, " -f -a '");
		choices(out, o->choices ? o->choices : (const char *const[]){ "true", "false", NULL });
		buf_char(out, '\'');
	}
	buf_str(out, " -d '");
	quoted(out, o->help);
	buf_str(out, "'\n");
}

static void fish_options(struct buf *out, const char *seen, const struct command *c)
{
	const struct option *list[OPTIONS_MAX];
	for (size_t i = 0, n = options_of(c, list); i < n; i++)
		fish_option(out, seen, list[i]);
}

/* Only what it has more than 'run'. */
static void fish_verb(struct buf *out, const struct profiler *p)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	for (const struct option *o = verb->command.options; o->param; o++)
		if (!o->hidden && !str_eq(o->name, "--duration"))
			fish_option(out, p->id, o);
	buf_printf(out, "complete -c drdotnet -n '__fish_seen_subcommand_from %s' -l param -s p -x -a '", p->id);
	keys_of(p, out);
	buf_str(out, "'\n");
}

static void fish_words(struct buf *out, const char *ids)
{
	buf_printf(out, "complete -c drdotnet -n '__fish_seen_subcommand_from run help' -a '%s'\n", ids);
	buf_str(out, "complete -c drdotnet -n '__fish_seen_subcommand_from help' -a '");
	names(out, true, " ");
	buf_printf(out, "'\ncomplete -c drdotnet -n '__fish_seen_subcommand_from %s", ids);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (!commands[i]->hidden && takes_target(commands[i]))
			buf_printf(out, " %s", commands[i]->name);
	buf_str(out, "' -a '(drdotnet ps --ids 2>/dev/null)'\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		CLEANUP(buf_free) struct buf verbs = { 0 };
		verbs_of(commands[i], &verbs);
		if (!commands[i]->hidden && verbs.len)
			buf_printf(out, "complete -c drdotnet -n '__fish_seen_subcommand_from %s' -a '%s'\n",
				   commands[i]->name, buf_cstr(&verbs));
	}
}

static void fish(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	struct buf ids = { 0 };
	names(&ids, false, " ");
	buf_str(out, "complete -c drdotnet -f\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i]->hidden)
			continue;
		buf_printf(out, "complete -c drdotnet -n __fish_use_subcommand -a %s -d '", commands[i]->name);
		quoted(out, commands[i]->summary);
		buf_str(out, "'\n");
		fish_options(out, commands[i]->name, commands[i]);
	}
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "complete -c drdotnet -n __fish_use_subcommand -a %s -d '", all[i]->id);
		quoted(out, all[i]->symptom);
		buf_str(out, "'\n");
		fish_verb(out, all[i]);
	}
	fish_options(out, buf_cstr(&ids), &cmd_run);
	fish_words(out, buf_cstr(&ids));
	buf_free(&ids);
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	struct buf out = { 0 };
	if (str_eq(args->words[0], "bash"))
		bash(&out);
	else if (str_eq(args->words[0], "zsh"))
		zsh(&out);
	else if (str_eq(args->words[0], "fish"))
		fish(&out);
	else
		return err_new(ERR_USAGE, "no completion for '%s'; there is bash, zsh and fish", args->words[0]);
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return NULL;
}

const struct command cmd_completion = {
	.name = "completion",
	.words = "bash|zsh|fish",
	.summary = "Print a completion script for your shell.",
	.example = "source <(drdotnet completion bash)\n"
		   "drdotnet completion fish > ~/.config/fish/completions/drdotnet.fish\n"
		   "drdotnet completion zsh > /usr/local/share/zsh/site-functions/_drdotnet",
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
