#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "profilers/profiler.h"
#include <stdio.h>

static void param_json(struct jsonw *w, const struct param *p)
{
	static const char *const types[] = { "unknown", "string", "int", "float", "boolean" };
	jsonw_object(w, NULL);
	jsonw_str(w, "key", p->key);
	jsonw_str(w, "name", p->name);
	jsonw_str(w, "description", p->description);
	jsonw_str(w, "type", types[p->type]);
	jsonw_str(w, "unit", p->unit);
	jsonw_str(w, "default", p->default_value);
	if (p->type == PARAM_INT || p->type == PARAM_FLOAT) {
		jsonw_num(w, "min", p->min);
		jsonw_num(w, "max", p->max);
	}
	if (p->choices) {
		jsonw_array(w, "choices");
		for (const char *const *c = p->choices; *c; c++)
			jsonw_str(w, NULL, *c);
		jsonw_array_end(w);
	}
	jsonw_object_end(w);
}

static void profiler_json(struct jsonw *w, const struct profiler *p)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "id", p->id);
	jsonw_str(w, "uuid", p->uuid);
	jsonw_str(w, "name", p->name);
	jsonw_str(w, "symptom", p->symptom);
	jsonw_str(w, "description", p->description);
	jsonw_bool(w, "experimental", p->experimental);
	jsonw_array(w, "ways");
	for (const enum way *way = p->ways; *way; way++)
		jsonw_str(w, NULL, way_name(*way));
	jsonw_array_end(w);
	jsonw_array(w, "parameters");
	for (size_t i = 0; i < p->n_params; i++)
		param_json(w, &p->params[i]);
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
			profiler_json(&w, all[i]);
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
	.run = run,
};
