#include "profilers/registry.h"
#include "base/str.h"
#include "profilers/list.h"
#include <string.h>

#define PROFILER_EXTERN(name) extern const struct profiler profiler_##name;
PROFILERS(PROFILER_EXTERN)

#define PROFILER_ENTRY(name) &profiler_##name,
static const struct profiler *const all_profilers[] = { PROFILERS(PROFILER_ENTRY) };

const struct profiler *const *profiler_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(all_profilers);
	return all_profilers;
}

struct err *profiler_find(const char *name, const struct profiler **ret)
{
	struct buf known = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(all_profilers); i++) {
		const struct profiler *p = all_profilers[i];
		if (str_eq(p->id, name) || str_eq_nocase(p->uuid, name)) {
			buf_free(&known);
			*ret = p;
			return NULL;
		}
		buf_printf(&known, "%s%s", known.len ? ", " : "", p->id);
	}
	struct err *err = err_new(ERR_USAGE, "no profiler is called '%s'; there are %s", name, buf_cstr(&known));
	buf_free(&known);
	return err;
}

/* Up to the first full stop. */
static size_t first_sentence(const char *text)
{
	size_t n = strcspn(text, ".!?");
	while (text[n] && text[n + 1] && text[n + 1] != ' ' && text[n + 1] != '\n')
		n += 1 + strcspn(text + n + 1, ".!?");
	return text[n] ? n + 1 : n;
}

void profiler_json(struct jsonw *w, const struct profiler *p)
{
	const struct param *duration = profiler_duration(p);
	jsonw_str(w, "uuid", p->uuid);
	jsonw_str(w, "id", p->id);
	jsonw_str(w, "name", p->name);
	jsonw_str(w, "label", p->label ? p->label : p->name);
	jsonw_str(w, "symptom", p->symptom);
	jsonw_str(w, "description", p->description);
	jsonw_strn(w, "summary", p->description, first_sentence(p->description));
	jsonw_str(w, "cost", p->cost);
	jsonw_strn(w, "effect", p->cost, strcspn(p->cost, ";"));
	jsonw_str(w, "durationKey", duration ? duration->key : NULL);
	jsonw_str(w, "chapter", p->chapter);
	jsonw_bool(w, "experimental", p->experimental);
	jsonw_bool(w, "forCore", p->for_core);
	jsonw_array(w, "ways");
	for (const enum way *way = p->ways; *way; way++)
		jsonw_str(w, NULL, way_name(*way));
	jsonw_array_end(w);
}
