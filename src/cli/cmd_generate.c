/* What is made from the tables at build time: the man page, the guide, the REST reference. Hidden; `make` and a test
 * call it. */

#include "base/buf.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "config/config.h"
#include "profilers/registry.h"
#include "server/openapi.h"
#include "version.h"
#include <stdio.h>
#include <string.h>

/* Of the last change to the words of this page; not of the build, so that two builds are the same. */
#define MAN_DATE "2026-11-16"

/* roff: backslashes, and dots or quotes at the start of a line, have a meaning. */
static void roff(struct buf *out, const char *s)
{
	bool line_start = true;
	for (; *s; s++) {
		if (line_start && (*s == '.' || *s == '\''))
			buf_str(out, "\\&");
		if (*s == '\\')
			buf_str(out, "\\e");
		else if (*s == '-')
			buf_str(out, "\\-");
		else
			buf_char(out, *s);
		line_start = *s == '\n';
	}
}

static void roff_example(struct buf *out, const char *example)
{
	buf_str(out, ".PP\n.nf\n");
	roff(out, example);
	buf_str(out, "\n.fi\n");
}

/* Those that set a parameter of a profiler, or the others. */
static void man_options(struct buf *out, const struct option *options, bool params)
{
	for (const struct option *o = options; o && o->name; o++) {
		if (o->hidden || !o->param == params)
			continue;
		buf_str(out, ".TP\n.B ");
		if (o->short_name)
			buf_printf(out, "\\-%c, ", o->short_name);
		roff(out, o->name);
		CLEANUP(buf_free) struct buf value = { 0 };
		option_add_value(o, &value);
		buf_str(out, value.len ? "\\fI" : "");
		roff(out, buf_cstr(&value));
		buf_str(out, value.len ? "\\fR" : "");
		buf_char(out, '\n');
		roff(out, o->help);
		buf_char(out, '\n');
	}
}

static void man_command(struct buf *out, const struct command *c)
{
	buf_str(out, ".SS \"drdotnet ");
	roff(out, c->name);
	buf_printf(out, "%s", c->words ? " " : "");
	roff(out, c->words ? c->words : "");
	buf_str(out, "\"\n");
	roff(out, c->summary);
	buf_char(out, '\n');
	if (c->example)
		roff_example(out, c->example);
	if (c->details) {
		buf_str(out, ".PP\n");
		roff(out, c->details);
		buf_char(out, '\n');
	}
	man_options(out, c->options, false);
}

static void man_remote(struct buf *out)
{
	buf_str(out, ".SH OTHER MACHINES\nWhere\n.B drdotnet serve\nruns, these commands, and all profilers, work from "
		     "here on its processes and sessions:\n");
	for (size_t i = 0, n = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i]->remote)
			buf_printf(out, "%s%s", n++ ? ", " : "", commands[i]->name);
	buf_str(out, ".\n");
	man_options(out, remote_options, false);
}

/* Some symptoms are questions. */
static const char *full_stop(const char *sentence)
{
	size_t n = strlen(sentence);
	return n && sentence[n - 1] == '?' ? "" : ".";
}

static void man_profiler(struct buf *out, const struct profiler *p)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	buf_str(out, ".TP\n.B ");
	roff(out, verb->begin);
	buf_char(out, '\n');
	roff(out, p->symptom);
	buf_printf(out, "%s ", full_stop(p->symptom));
	roff(out, p->description);
	buf_char(out, '\n');
	if (!p->n_params)
		return;
	buf_str(out, ".RS\n");
	man_options(out, verb->command.options, true);
	buf_str(out, ".RE\n");
}

static void man_settings(struct buf *out)
{
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *s = &settings[i];
		buf_str(out, ".TP\n.B ");
		roff(out, s->variable);
		buf_str(out, "\nAs ");
		roff(out, s->option);
		buf_printf(out, " of %s; key ", setting_of_option(s->option) ? "serve" : "symbols fetch");
		roff(out, s->key);
		buf_str(out, " of the configuration file. Takes ");
		CLEANUP(buf_free) struct buf takes = { 0 };
		setting_add_kind(s, &takes);
		roff(out, buf_cstr(&takes));
		buf_str(out, ".\n");
	}
}

static void man(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	buf_printf(out, ".TH DRDOTNET 1 \"" MAN_DATE "\" \"drdotnet %s\" \"User Commands\"\n", DRDOTNET_VERSION);
	buf_str(out,
		".SH NAME\ndrdotnet \\- a doctor for .NET on Linux\n"
		".SH SYNOPSIS\n.B drdotnet\n.I COMMAND\n[ARGUMENTS]\n.br\n.B drdotnet\n.I PROFILER TARGET\n[OPTIONS]\n"
		".SH DESCRIPTION\n"
		"Point it at a running .NET process and it says in a few true sentences what is wrong and where.\n"
		"It needs no restart, no preparation and no SDK.\n"
		"A TARGET is a pid, a process name, an assembly name or an id that\n.B drdotnet ps\nshows.\n"
		"The result goes to standard output, everything else to standard error.\n.SH PROFILERS\n");
	for (size_t i = 0; i < n; i++)
		man_profiler(out, all[i]);
	buf_str(out, ".SH COMMANDS\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!commands[i]->hidden)
			man_command(out, commands[i]);
	}
	man_remote(out);
	buf_str(out,
		".SH EXIT STATUS\n"
		"0 ok, 1 failed, 2 wrong usage, 3 target not found, 4 no permission, 5 busy, 6 what --fail-on names was found, 130 cancelled.\n"
		".SH ENVIRONMENT\nOptions come before variables, variables before the configuration file.\n");
	man_settings(out);
	buf_str(out,
		".TP\n.B DRDOTNET_CONFIG\nThe configuration file.\n"
		".TP\n.B DRDOTNET_RUNTIME_PACKS\nA folder with runtimes of other versions, for core files of other "
		"machines.\n"
		".TP\n.B DRDOTNET_DACHOST\nThe helper that reads memory, instead of drdotnet-dachost beside drdotnet.\n"
		".TP\n.B DRDOTNET_AGENT\nThe library that a process loads, instead of libdrdotnet-agent.so beside drdotnet.\n"
		".TP\n.B TMPDIR\nWhere sockets of runtimes are looked for beside /tmp, as the runtime does.\n"
		".TP\n.B XDG_STATE_HOME\nWhere the home is for others than root.\n"
		".TP\n.B XDG_RUNTIME_DIR\nWhere a program that drdotnet starts calls back; otherwise TMPDIR or /tmp.\n"
		".TP\n.B TERM\nA dumb terminal gets no colours and no progress bar.\n"
		".TP\n.B DEBUGINFOD_URLS\nFurther servers of debug files, for symbols fetch.\n"
		".TP\n.B NO_COLOR\nNo colours, also on a terminal.\n"
		".SH FILES\n.TP\n.I " CONFIG_PATH "\nThe configuration file (YAML); need not exist.\n"
		".TP\n.I /var/lib/drdotnet\nThe home of root; of others $XDG_STATE_HOME/drdotnet or "
		"~/.local/state/drdotnet. Sessions, core files, symbols, the server's token and log.\n"
		".TP\n.I drdotnet\\-dachost, libdrdotnet\\-agent.so\nParts of drdotnet that lie beside it: what reads the "
		"memory of .NET, and what a process loads.\n"
		".TP\n.I dotnet\\-diagnostic\\-PID\\-TIME\\-socket\nIn /tmp or TMPDIR of a process: how its runtime is "
		"reached.\n"
		".SH EXAMPLES\n.TP\n.B drdotnet\nThe processes with their vital signs, and what to type next.\n"
		".TP\n.B drdotnet ps\nWhich .NET processes are here, and how they are.\n"
		".TP\n.B drdotnet memory\\-leaks shop\nWhat grows in the process called shop, and who holds it.\n"
		".TP\n.B drdotnet serve\nThe pages; the link is printed.\n"
		".SH SEE ALSO\n.BR perf (1),\n.BR gdb (1),\n.BR proc (5),\n.BR systemd.exec (5)\n");
}

/* docs/configuration.md: the table; what stands around it is made by hand there. */
static void settings_table(struct buf *out)
{
	buf_str(out, "| Key | Option | Variable | Takes | Otherwise |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *s = &settings[i];
		buf_printf(out, "| `%s` | `%s%s%s` | `%s` | ", s->key, s->option, s->value ? " " : "",
			   s->value ? s->value : "", s->variable);
		setting_add_kind(s, out);
		buf_printf(out, " | %s%s%s |\n", s->otherwise ? "`" : "", s->otherwise ? s->otherwise : "–",
			   s->otherwise ? "`" : "");
	}
}

/* As it is typed: "drdotnet exceptions TARGET". */
static void add_usage(struct buf *out, const struct profiler *p)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	buf_printf(out, "`drdotnet %s %s`", p->id, verb->command.words);
}

static void guide_parameters(struct buf *out, const struct profiler *p)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	if (p->n_params)
		buf_str(out, "| Option | Parameter | Meaning |\n|---|---|---|\n");
	for (const struct option *o = verb->command.options; o->param; o++) {
		if (o->hidden)
			continue;
		buf_printf(out, "| `%s", o->name);
		option_add_value(o, out);
		buf_printf(out, "` | `%s` | %s |\n", o->param, o->help);
	}
}

static void guide(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	buf_str(out, "# Guide: from symptom to next step\n\n"
		     "Generated from the registry by `make docs`; change the profiler's struct, not this page.\n\n"
		     "| What you see | Run | What it costs the process |\n|---|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "| %s | [", all[i]->symptom);
		add_usage(out, all[i]);
		buf_printf(out, "](#%s) | %s |\n", all[i]->id, all[i]->cost);
	}
	buf_str(out,
		"\nNot sure? `drdotnet ps` lists the patients, `drdotnet check TARGET` says which ways of looking are "
		"open and what would open the others.\n");
	for (size_t i = 0; i < n; i++) {
		const struct profiler *p = all[i];
		buf_printf(out, "\n## %s\n\n**%s%s** %s\n\n", p->id, p->symptom, full_stop(p->symptom), p->description);
		guide_parameters(out, p);
		if (p->n_advice)
			buf_str(out, "\n| When it finds | Do next |\n|---|---|\n");
		for (size_t k = 0; k < p->n_advice; k++)
			buf_printf(out, "| %s | %s |\n", p->advice[k].finding, p->advice[k].next);
	}
	buf_str(out, "\n## Where to go deeper\n\n"
		     "- Every session is kept: `drdotnet sessions`, `drdotnet sessions report ID --format html`.\n"
		     "- How each thing is measured: [internals](internals/).\n"
		     "- What it costs, measured: [performance](performance.md).\n"
		     "- A session failed, or a report looks wrong: [debugging](debugging.md).\n"
		     "- A symptom without a profiler: [adding a profiler](adding-a-profiler.md).\n");
}

/* The table of the front page. */
static void symptoms(struct buf *out)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	buf_str(out, "| What you see | Run |\n|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		if (all[i]->experimental)
			continue;
		buf_printf(out, "| %s | ", all[i]->symptom);
		add_usage(out, all[i]);
		buf_str(out, " |\n");
	}
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	struct buf out = { 0 };
	if (str_eq(args->words[0], "man"))
		man(&out);
	else if (str_eq(args->words[0], "guide"))
		guide(&out);
	else if (str_eq(args->words[0], "symptoms"))
		symptoms(&out);
	else if (str_eq(args->words[0], "settings"))
		settings_table(&out);
	else if (str_eq(args->words[0], "rest"))
		openapi_page(&out);
	else if (str_eq(args->words[0], "openapi"))
		openapi_document(&out);
	else
		return err_new(
			ERR_USAGE,
			"nothing called '%s' is generated; there is man, guide, symptoms, settings, rest and openapi",
			args->words[0]);
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return NULL;
}

const struct command cmd_generate = {
	.name = "_generate",
	.words = "man|guide|symptoms|settings|rest|openapi",
	.summary =
		"Print the man page, the guide, the tables of symptoms and settings, the REST reference or its OpenAPI document.",
	.min_words = 1,
	.max_words = 1,
	.hidden = true,
	.run = run,
};
