#include "base/str.h"
#include "profilers/registry.h"
#include <string.h>

#define CPU "CPU and waiting"
#define THREADS "Threads and tasks"
#define MEMORY "Memory"
#define RUNTIME "Runtime"

/* Stable order: help, pages and docs show them like this. And what each is about, for long lists. */
#define PROFILERS(X)                                                                                                   \
	X(cpu_hotpaths, CPU)                                                                                           \
	X(off_cpu, CPU)                                                                                                \
	X(runtime_pauses, RUNTIME)                                                                                     \
	X(exceptions, RUNTIME)                                                                                         \
	X(lock_contention, CPU)                                                                                        \
	X(thread_pool, THREADS)                                                                                        \
	X(merged_call_stacks, THREADS)                                                                                 \
	X(deadlocks, THREADS)                                                                                          \
	X(stuck_tasks, THREADS)                                                                                        \
	X(zombie_threads, THREADS)                                                                                     \
	X(gc_survivors, MEMORY)                                                                                        \
	X(memory_leaks, MEMORY)                                                                                        \
	X(heap_stats, MEMORY)                                                                                          \
	X(duplicated_strings, MEMORY)                                                                                  \
	X(wasted_collections, MEMORY)                                                                                  \
	X(gc_stats, RUNTIME)                                                                                           \
	X(allocations, MEMORY)                                                                                         \
	X(jit, RUNTIME)                                                                                                \
	X(loader, RUNTIME)                                                                                             \
	X(crash, RUNTIME)

#define PROFILER_EXTERN(name, chapter) extern const struct profiler profiler_##name;
PROFILERS(PROFILER_EXTERN)

#define PROFILER_ENTRY(name, chapter) &profiler_##name,
static const struct profiler *const all_profilers[] = { PROFILERS(PROFILER_ENTRY) };
#define PROFILER_CHAPTER(name, chapter) chapter,
static const char *const chapters[] = { PROFILERS(PROFILER_CHAPTER) };

const struct profiler *const *profiler_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(all_profilers);
	return all_profilers;
}

const char *profiler_chapter(const struct profiler *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_profilers); i++)
		if (all_profilers[i] == p)
			return chapters[i];
	return "Other";
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
	jsonw_str(w, "chapter", profiler_chapter(p));
	jsonw_bool(w, "experimental", p->experimental);
	jsonw_bool(w, "forCore", p->for_core);
	jsonw_array(w, "ways");
	for (const enum way *way = p->ways; *way; way++)
		jsonw_str(w, NULL, way_name(*way));
	jsonw_array_end(w);
}
