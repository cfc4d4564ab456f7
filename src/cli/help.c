/* Help texts, composed from the structs of commands, options, profilers and parameters. */

#include "base/buf.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "profilers/registry.h"
#include <string.h>

#define COLUMNS 100

void help_wrap(struct buf *out, const char *text, size_t at, size_t indent, size_t columns)
{
	size_t column = at;
	bool first = true;
	while (*text) {
		size_t len = strcspn(text, " \n");
		if (!first && (column + 1 + len > columns || text[-1] == '\n')) {
			buf_char(out, '\n');
			buf_repeat(out, " ", len ? indent : 0);
			column = indent;
		} else if (!first) {
			buf_char(out, ' ');
			column++;
		}
		buf_add(out, text, len);
		column += len;
		text += len;
		if (*text)
			text++;
		first = false;
	}
	buf_char(out, '\n');
}

static void wrap(struct buf *out, const char *text, size_t at, size_t indent)
{
	help_wrap(out, text, at, indent, COLUMNS);
}

/* Two columns: a term, and words about it. */
static void term(struct buf *out, const char *name, size_t width, const char *about)
{
	size_t indent = width + 4;
	if (strlen(name) > width) {
		buf_printf(out, "  %s\n", name);
		buf_repeat(out, " ", indent);
	} else {
		buf_printf(out, "  %-*s  ", (int)width, name);
	}
	wrap(out, about, indent, indent);
}

/* Each line of an example, indented. */
static void example(struct buf *out, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		buf_printf(out, "  %.*s\n", (int)len, text);
		text += len;
		if (*text)
			text++;
	}
}

void help_overview(struct buf *out)
{
	buf_str(out, "drdotnet - a doctor for .NET on Linux\n\n"
		     "  drdotnet ps                     which .NET processes are here\n"
		     "  drdotnet 4211                   what is wrong with process 4211?\n"
		     "  drdotnet runtime-pauses 4211    examine it for one symptom\n\n"
		     "Symptom → profiler\n");
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n; i++) {
		if (!all[i]->experimental)
			term(out, all[i]->id, 18, all[i]->symptom);
	}
	buf_str(out, "\nCommands\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!commands[i]->hidden)
			term(out, commands[i]->name, 18, commands[i]->summary);
	}
	buf_str(out,
		"\nA TARGET is a pid, a process name, an assembly name, NAMESPACE/POD or an id from 'drdotnet ps'.\n"
		"With --server URL [--token TOKEN] a command works on the machine where 'drdotnet serve' runs.\n"
		"'drdotnet help COMMAND' or 'drdotnet help PROFILER' says more.\n");
}

static void option(const struct option *o, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	if (o->short_name)
		buf_printf(&name, "-%c, ", o->short_name);
	buf_str(&name, o->name);
	option_add_value(o, &name);
	term(out, buf_cstr(&name), 24, o->help);
}

/* Those of a list that set a parameter of a profiler, or the others. */
static void options(const char *title, const struct option *list, bool params, struct buf *out)
{
	bool any = false;
	for (const struct option *o = list; o && o->name; o++) {
		if (o->hidden || !o->param == params)
			continue;
		if (!any)
			buf_printf(out, "\n%s\n", title);
		any = true;
		option(o, out);
	}
}

static void all_options(const struct command *command, struct buf *out)
{
	options("Parameters", command->options, true, out);
	options("Options", command->options, false, out);
	if (command->remote)
		options("On another machine", remote_options, false, out);
}

void help_command(const struct command *command, struct buf *out)
{
	if (command->example) {
		example(out, command->example);
		buf_char(out, '\n');
	}
	buf_printf(out, "drdotnet %s%s%s%s\n  ", command->name, command->words ? " " : "",
		   command->words ? command->words : "", command->options ? " [OPTIONS]" : "");
	wrap(out, command->summary, 2, 2);
	if (command->details) {
		buf_str(out, "\n  ");
		wrap(out, command->details, 2, 2);
	}
	all_options(command, out);
}

void help_profiler(const struct profiler *profiler, struct buf *out)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(profiler);
	if (!profiler->for_core)
		buf_printf(out, "  drdotnet %s 4211\n", verb->begin);
	if (profiler->ways[0] == WAY_IMAGE)
		buf_printf(out, "  drdotnet %s --core core.4211\n", verb->begin);
	buf_printf(out, "  drdotnet %s %s%s -o report.html\n\n%s", verb->begin,
		   profiler->for_core ? "--core core.4211" : "Shop.Api",
		   profiler_duration(profiler) ? " --duration 30s" : "", profiler->name);
	buf_printf(out, "%s\n  Symptom: ", profiler->experimental ? " (experimental)" : "");
	wrap(out, profiler->symptom, 11, 2);
	buf_str(out, "  ");
	wrap(out, profiler->description, 2, 2);
	buf_str(out, "\n  Ways: ");
	for (const enum way *w = profiler->ways; *w; w++)
		buf_printf(out, "%s%s", w == profiler->ways ? "" : ", then ", way_name(*w));
	buf_char(out, '\n');
	all_options(&verb->command, out);
}
