/* drdotnet profilers: the registry as a table or as JSON. */

#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "profilers/registry.h"
#include <stdio.h>

static void add_profiler(struct jsonw *w, const struct profiler *p)
{
	static const char *const types[] = { "unknown", "string", "int", "float", "boolean" };
	jsonw_object(w, NULL);
	profiler_json(w, p);
	jsonw_array(w, "parameters");
	for (size_t i = 0; i < p->n_params; i++) {
		jsonw_object(w, NULL);
		param_json(w, &p->params[i]);
		jsonw_str(w, "type", types[p->params[i].type]);
		jsonw_str(w, "default", p->params[i].default_value);
		jsonw_object_end(w);
	}
	jsonw_array_end(w);
	jsonw_object_end(w);
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	bool experimental = args_has(args, "--experimental"), json = args_has(args, "--json");
	struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	if (json)
		jsonw_array(&w, NULL);
	for (size_t i = 0; i < n; i++) {
		if (all[i]->experimental && !experimental)
			continue;
		if (json)
			add_profiler(&w, all[i]);
		else
			buf_printf(&out, "%-20s %s%s\n", all[i]->id, all[i]->symptom,
				   all[i]->experimental ? " (experimental)" : "");
	}
	if (json) {
		jsonw_array_end(&w);
		buf_char(&out, '\n');
	}
	fputs(buf_cstr(&out), stdout);
	buf_free(&out);
	return NULL;
}

const struct command cmd_profilers = {
	.name = "profilers",
	.summary = "List the profilers and the symptom each answers.",
	.example = "drdotnet profilers\ndrdotnet profilers --json     with parameters, defaults and ranges",
	.options =
		(const struct option[]){
			{ .name = "--json", .help = "Print as JSON, with all parameters" },
			{ .name = "--experimental", .help = "Show experimental ones too" },
			{ 0 },
		},
	.remote = true,
	.run = run,
};
