/* The loader: which code is loaded into the process while it runs, and is it ever unloaded?
 *
 * One stream has assemblies, contexts, compiled methods and started threads, with the stack that asked; loading and
 * compiling cost so much that a stack in addition does not matter. A second one has full collections, without which
 * nothing can be unloaded. At the end the runtime lists what is loaded. */

#include "profilers/loader.h"
#include "base/json.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include "target/threads.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LOADED_MAX 200000
#define NAMES_MAX 200000
#define DYNAMICS_MAX 200000
#define STARTS_MAX 100000
#define JITTING_MAX 100000
#define FULL_GCS_MAX 100000
#define NAME_UNITS 512
#define METHOD_DYNAMIC 1

static void utf8_of(struct loader *l, struct utf16_span span)
{
	buf_clear(&l->text);
	utf16_add(&l->text, span.units, MIN(span.n, (size_t)NAME_UNITS));
}

static uint64_t since_start(const struct loader *l, const struct nettrace_event *event)
{
	return event->time - MIN(l->exam->start_ns, event->time);
}

/* --- assemblies --- */

/* "Regex17_Scan" and "Regex18_Scan" are one kind: "Regex#_Scan". Returns the new length. */
static size_t without_numbers(char *text, size_t len)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		bool digit = isdigit((unsigned char)text[i]) != 0;
		if (digit && n && text[n - 1] == '#')
			continue;
		text[n++] = digit ? '#' : text[i];
	}
	return n;
}

/* By the name before the first comma; NULL past the limit. *ret_full gets the whole name. Those that are made at run
 * time are often numbered: they are one kind. */
static struct assembly *assembly_of(struct loader *l, const struct clr_assembly *a, uint32_t *ret_index,
				    uint32_t *ret_full)
{
	utf8_of(l, a->name);
	size_t simple = strcspn(buf_cstr(&l->text), ",");
	if (l->names.n >= NAMES_MAX)
		return NULL;
	uint32_t full = strtab_add(&l->names, buf_cstr(&l->text), l->text.len);
	if (a->flags & CLR_ASSEMBLY_DYNAMIC)
		simple = without_numbers(l->text.data, simple);
	uint32_t id = strtab_add(&l->names, buf_cstr(&l->text), simple);
	uint64_t *index = map_u64_put(&l->assembly_of, id, NULL);
	if (!*index) {
		vec_push(&l->assemblies, ((struct assembly){ 0 }));
		vec_push(&l->simple_names, id);
		*index = l->assemblies.n;
	}
	*ret_index = (uint32_t)*index - 1;
	*ret_full = full;
	return &l->assemblies.v[*index - 1];
}

static void on_load(struct loader *l, const struct nettrace_event *event)
{
	struct clr_assembly a;
	uint32_t index, full;
	if (!clr_decode_assembly(event, &a))
		return;
	struct assembly *assembly = assembly_of(l, &a, &index, &full);
	timeline_add(&l->assembly_growth, since_start(l, event), 1);
	if (!assembly || l->loaded.n >= LOADED_MAX) {
		l->not_kept++;
		return;
	}
	assembly->loads++;
	assembly->full_name = full;
	vec_push(&l->loaded, ((struct loaded){ .id = a.id,
					       .at_ns = event->time,
					       .name = index,
					       .context = LOADER_NO_CONTEXT,
					       .stack = stacks_add(l->stacks, event),
					       .collectible = (a.flags & CLR_ASSEMBLY_COLLECTIBLE) != 0,
					       .dynamic = (a.flags & CLR_ASSEMBLY_DYNAMIC) != 0 }));
	*map_u64_put(&l->by_id, a.id, NULL) = l->loaded.n;
	*map_u64_put(&l->pending, event->thread_id, NULL) = l->loaded.n;
}

static void on_unload(struct loader *l, const struct nettrace_event *event)
{
	struct clr_assembly a;
	uint32_t index, full;
	if (!clr_decode_assembly(event, &a))
		return;
	l->unloads++;
	timeline_add(&l->assembly_growth, since_start(l, event), -1);
	struct assembly *assembly = assembly_of(l, &a, &index, &full);
	if (assembly)
		assembly->unloads++;
	uint64_t *loaded = map_u64_get(&l->by_id, a.id);
	if (loaded && *loaded)
		l->loaded.v[*loaded - 1].gone = true;
	if (loaded)
		*loaded = 0; /* the runtime may use the number again */
}

/* The binder ends what it began on the same thread, after the load itself. */
static void on_bound(struct loader *l, const struct nettrace_event *event)
{
	struct clr_assembly_bound b;
	uint64_t *pending = map_u64_get(&l->pending, event->thread_id);
	if (!pending || !*pending || !clr_decode_assembly_bound(event, &b) || !b.success || b.cached)
		return;
	struct loaded *loaded = &l->loaded.v[*pending - 1];
	utf8_of(l, b.name);
	const char *simple = strtab_get(&l->names, l->simple_names.v[loaded->name]);
	size_t len = strlen(simple);
	if (strncmp(buf_cstr(&l->text), simple, len) || (l->text.len > len && l->text.data[len] != ','))
		return;
	*pending = 0;
	utf8_of(l, b.context);
	if (l->contexts.n < NAMES_MAX)
		loaded->context = strtab_add(&l->contexts, buf_cstr(&l->text), l->text.len);
}

/* --- dynamic code --- */

static uint32_t kind_of(struct loader *l, struct utf16_span name)
{
	utf8_of(l, name);
	const char *text = buf_cstr(&l->text);
	size_t n = without_numbers(l->text.data, l->text.len);
	return l->names.n < NAMES_MAX ? strtab_add(&l->names, n ? text : "", n) : STRTAB_NONE;
}

static void on_jitting(struct loader *l, const struct nettrace_event *event)
{
	struct clr_method m;
	if (!clr_decode_jitting(event, &m) || m.token & 0xffffff)
		return; /* dynamic methods have no token */
	if (l->jitting.n >= JITTING_MAX)
		map_u64_clear(&l->jitting);
	uint32_t stack = stacks_add(l->stacks, event);
	*map_u64_put(&l->jitting, m.id, NULL) = stack == STACKS_NONE ? 0 : (uint64_t)stack + 1;
}

static void on_method(struct loader *l, const struct nettrace_event *event)
{
	struct clr_method m;
	if (!clr_decode_method(event, &m))
		return;
	l->compiled++;
	if (!(m.flags & METHOD_DYNAMIC))
		return;
	l->dynamic_loads++;
	timeline_add(&l->dynamic_growth, since_start(l, event), 1);
	timeline_add(&l->dynamic_made, since_start(l, event), 1);
	const uint64_t *jitting = map_u64_get(&l->jitting, m.id);
	uint32_t stack = jitting && *jitting ? (uint32_t)*jitting - 1 : STACKS_NONE, kind = kind_of(l, m.name);
	bool new;
	uint64_t *index = map_u64_put(&l->dynamic_of, (uint64_t)kind << 32 | stack, &new);
	if (new && (kind == STRTAB_NONE || l->dynamics.n >= DYNAMICS_MAX)) {
		l->not_kept++;
		return;
	}
	if (new) {
		vec_push(&l->dynamics, ((struct dynamic){ .name = kind, .stack = stack }));
		*index = l->dynamics.n;
	}
	if (*index) {
		l->dynamics.v[*index - 1].loads++;
		l->dynamics.v[*index - 1].bytes += m.size;
	}
}

static void on_method_unload(struct loader *l, const struct nettrace_event *event)
{
	struct clr_method m;
	if (!clr_decode_method(event, &m) || !(m.flags & METHOD_DYNAMIC))
		return;
	l->dynamic_gone++;
	timeline_add(&l->dynamic_growth, since_start(l, event), -1);
	uint32_t kind = kind_of(l, m.name);
	if (kind != STRTAB_NONE)
		++*map_u64_put(&l->dynamic_unloads, kind, NULL);
}

/* --- threads --- */

static void on_thread(struct loader *l, const struct nettrace_event *event)
{
	l->threads_started++;
	uint32_t stack = stacks_add(l->stacks, event);
	if (stack == STACKS_NONE || l->starts.n >= STARTS_MAX)
		return;
	bool new;
	uint64_t *index = map_u64_put(&l->starts_of, stack, &new);
	if (new) {
		*index = l->starts.n;
		vec_push(&l->starts, ((struct starts){ .stack = stack }));
	}
	l->starts.v[*index].count++;
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct loader *l = user;
	switch (clr_event(event)) {
	case CLR_ASSEMBLY_LOAD:
		on_load(l, event);
		break;
	case CLR_ASSEMBLY_UNLOAD:
		on_unload(l, event);
		break;
	case CLR_ASSEMBLY_BOUND:
		on_bound(l, event);
		break;
	case CLR_METHOD_JITTING:
		on_jitting(l, event);
		break;
	case CLR_METHOD_LOAD:
		on_method(l, event);
		break;
	case CLR_METHOD_UNLOAD:
		on_method_unload(l, event);
		break;
	case CLR_THREAD_CREATING:
		on_thread(l, event);
		break;
	default:
		break;
	}
}

static void on_gc(void *user, const struct nettrace_event *event)
{
	struct loader *l = user;
	struct clr_gc_start gc;
	if (clr_event(event) != CLR_GC_START || !clr_decode_gc_start(event, &gc) || gc.generation < 2)
		return;
	l->full_gcs++;
	if (l->full_gc_ns.n < FULL_GCS_MAX)
		vec_push(&l->full_gc_ns, event->time);
}

/* The runtime's list of what is loaded at the end. */
static void on_listed(void *user, const struct nettrace_event *event)
{
	struct loader *l = user;
	struct clr_assembly a;
	uint32_t index, full;
	methods_event(l->methods, event); /* before .NET 9 they come with it */
	if (clr_event(event) != CLR_ASSEMBLY_LOAD || !clr_decode_assembly(event, &a))
		return;
	l->listed = true;
	l->alive++;
	struct assembly *assembly = assembly_of(l, &a, &index, &full);
	if (assembly)
		assembly->alive++;
}

static void loader_free(void *state)
{
	struct loader *l = state;
	strtab_free(&l->names);
	strtab_free(&l->contexts);
	map_u64_free(&l->assembly_of);
	map_u64_free(&l->by_id);
	map_u64_free(&l->pending);
	map_u64_free(&l->jitting);
	map_u64_free(&l->dynamic_of);
	map_u64_free(&l->dynamic_unloads);
	map_u64_free(&l->starts_of);
	vec_free(&l->assemblies);
	vec_free(&l->simple_names);
	vec_free(&l->loaded);
	vec_free(&l->dynamics);
	vec_free(&l->starts);
	vec_free(&l->full_gc_ns);
	stacks_free(l->stacks);
	methods_free(l->methods);
	buf_free(&l->text);
	mem_free(l);
}

static uint64_t count_threads(const struct exam *exam)
{
	struct target_threads threads = { 0 };
	struct err *err = target_threads(&exam->patient->target, &threads);
	uint64_t n = err ? 0 : threads.n;
	err_free(err);
	vec_free(&threads);
	return n;
}

static void keep_threads(struct loader *l)
{
	if (!l->exam->recording)
		return;
	if (l->exam->replay) {
		const json_t *fact = recording_fact(l->exam->recording, "thread-counts");
		l->threads_before = (uint64_t)json_get_int(fact, "before", 0);
		l->threads_after = (uint64_t)json_get_int(fact, "after", 0);
		return;
	}
	json_t *fact =
		json_pack("{s:I, s:I}", "before", (json_int_t)l->threads_before, "after", (json_int_t)l->threads_after);
	recording_set_fact(l->exam->recording, "thread-counts", fact);
	json_decref(fact);
}

/* Names cost the target some milliseconds: only when there is a stack to be named, and then once. */
static bool time_for_names(void *user, uint64_t now UNUSED)
{
	struct loader *l = user;
	bool now_or_never = stacks_count(l->stacks) && !l->asked_names;
	l->asked_names |= now_or_never;
	return now_or_never;
}

static void on_name(void *user, const struct nettrace_event *event)
{
	methods_event(((struct loader *)user)->methods, event);
}

static void describe_streams(struct loader *l)
{
	static const struct ipc_provider code = {
		.name = CLR_PROVIDER, .keywords = CLR_LOADER | CLR_BINDER | CLR_JIT | CLR_THREADING, .level = 5
	}; /* the requester of a method is reported from level 5 on */
	static const struct ipc_provider gc = { .name = CLR_PROVIDER, .keywords = CLR_GC, .level = 4 };
	l->streams[LOADER_EVENTS] = (struct events_stream){
		.name = "loader", .providers = &code, .n_providers = 1, .stacks = true, .event = on_event, .user = l
	};
	l->streams[LOADER_GCS] =
		(struct events_stream){ .name = "gc", .providers = &gc, .n_providers = 1, .event = on_gc, .user = l };
	l->streams[LOADER_NAMES] = exam_methods_stream(NULL, l->methods);
	l->streams[LOADER_NAMES].when = time_for_names;
	l->streams[LOADER_NAMES].event = on_name;
	l->streams[LOADER_NAMES].user = l;
}

static struct err *run(struct exam *exam)
{
	struct loader *l = exam->state = mem_zalloc(sizeof(*l));
	uint64_t window_ms = exam_duration_ms(exam);
	l->exam = exam;
	l->stacks = stacks_new(exam->whose);
	l->methods = methods_new();
	describe_streams(l);
	if (!exam->replay)
		l->threads_before = count_threads(exam);
	TRY(exam_events(exam, l->streams, ARRAY_SIZE(l->streams), window_ms));
	if (!exam->replay)
		l->threads_after = count_threads(exam);
	keep_threads(l);
	struct events_stream list = exam_methods_stream(NULL, l->methods);
	list.name = "listed";
	list.rundown = CLR_LOADER;
	list.event = on_listed;
	list.user = l;
	TRY(exam_rundown(exam, &list));
	return exam_methods_of(exam, l->stacks, l->methods);
}

const struct profiler profiler_loader = {
	.id = "loader",
	.uuid = "7A672A87-EC24-4519-A980-61DE369D9F2F",
	.name = "Loaded code",
	.chapter = CHAPTER_RUNTIME,
	.label = "Slow start",
	.symptom = "slow start, or memory that creeps up with every request though the GC heap does not",
	.description =
		"Counts the code that comes into the process while it runs: assemblies and load contexts, dynamic "
		"methods (compiled regular expressions, expression trees, serializers), threads that are started; who "
		"asked for it, and whether it goes again.",
	.cost = "no stop; a few events for each assembly and compiled method",
	.params =
		(const struct param[]){
			PARAM_DURATION("20"),
		},
	.n_params = 1,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "contexts-leak",
			  "Call Unload() on each AssemblyLoadContext when it is done, and let go of everything that "
			  "came out "
			  "of it: instances, types, delegates, static events. One reference keeps the whole context." },
			{ "assemblies-stay",
			  "Make it once and keep it: one XmlSerializer for a type and root, one AssemblyBuilder for "
			  "all "
			  "types that are made, one load of a file. Or load into a collectible AssemblyLoadContext "
			  "(AssemblyBuilderAccess.RunAndCollect) and unload it." },
			{ "contexts-pile-up", "Run again over a longer time: nothing can be unloaded before a full "
					      "collection, and none ran. If "
					      "one context a request is not meant, keep one and use it again." },
			{ "dynamic-code-grows", "Make it once and keep it: a static Regex or [GeneratedRegex], a "
						"cached delegate of the expression "
						"tree, one XmlSerializer a type. Each new one is compiled again and "
						"takes memory outside of the GC "
						"heap." },
			{ "many-assemblies", "Start-up pays for each of them: trim what is not used, or compile ahead "
					     "(ReadyToRun). If it goes on "
					     "while requests are served, look at who loads them." },
			{ "threads-come-and-go", "Queue that work to the thread pool (Task.Run) or keep one thread for "
						 "it: each new thread costs "
						 "about a tenth of a millisecond and a stack of its own." },
		},
	.n_advice = 6,
	.run = run,
	.analyse = loader_analyse,
	.free_state = loader_free,
};
