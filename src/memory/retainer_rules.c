/* The table of what keeps objects: a shape in the heap, and how to say it. The next holder that people forget about is
 * one more row. Rules are tried in order; a reference that no rule fits is passed over. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "memory/retainers_internal.h"
#include <ctype.h>
#include <string.h>

/* ---- what rows ask ---- */

static const char *type_name(const struct retainers *k, uint32_t v)
{
	return v < k->g->n ? k->g->types.v[k->g->type[v]].name : "";
}

static bool has_shape(const struct retainers *k, uint32_t v, uint8_t shape)
{
	return v < k->g->n && (k->shapes[k->g->type[v]] & shape);
}

static bool is_array(const struct retainers *k, uint32_t v)
{
	return v < k->g->n && k->g->types.v[k->g->type[v]].kind == GRAPH_ARRAY;
}

static uint32_t n_refs(const struct heapgraph *g, uint32_t v)
{
	return v < g->n ? g->first[v + 1] - g->first[v] : 0;
}

/* "Shop.Cart._lines", "static Shop.Cart.All" without its kind: the field that refers to v on the path. */
static void add_place(const struct retainers *k, uint32_t v, struct buf *out)
{
	const struct heapgraph *g = k->g;
	uint32_t from = v < g->n ? k->from[v] : GRAPH_NONE, slot = GRAPH_NONE;
	if (from >= g->n && from != GRAPH_NONE) {
		heap_root_name(g, from - g->n, false, out);
		return;
	}
	if (from != GRAPH_NONE)
		slot = heap_slot(g, from, v);
	heap_type_name(g, g->type[slot == GRAPH_NONE ? v : from], out);
	if (slot != GRAPH_NONE) {
		buf_char(out, '.');
		heap_field_name(g->types.v[g->type[from]].slots[slot], out);
	}
}

/* ---- subscriptions ---- */

static uint64_t subscribers(const struct retainers *k, const struct retainer_edge *e)
{
	uint32_t list = retainer_field(k->g, e->to, "_invocationList");
	return is_array(k, list) ? n_refs(k->g, list) : 1;
}

/* A field with a delegate of the user's own, or with several of them. A property's field is none: events have a field of
 * their own name. */
static bool fits_event(const struct retainers *k, const struct retainer_edge *e)
{
	bool root = e->from >= k->g->n;
	if (!has_shape(k, e->to, SHAPE_DELEGATE) || (!root && e->slot == GRAPH_NONE) ||
	    has_shape(k, e->from, SHAPE_DELEGATE | SHAPE_CLOSURE) || *e->field == '<')
		return false;
	if (root && k->g->roots.v[e->from - k->g->n].kind != GRAPH_STATIC)
		return false;
	return subscribers(k, e) > 1 || (has_shape(k, e->from, SHAPE_OWN) && isupper((unsigned char)*e->field));
}

static void event_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	add_place(k, e->to, &name);
	const char *dot = strrchr(buf_cstr(&name), '.'), *field = dot ? dot + 1 : buf_cstr(&name);
	buf_printf(out, "%s %s", isupper((unsigned char)*field) ? "event" : "delegate", buf_cstr(&name));
}

/* ---- timers ---- */

static void add_times(const struct heap_note *note, bool always_due, struct buf *out)
{
	bool again = note && note->period_ms && note->period_ms != HEAP_NOTE_NEVER;
	if (again && !always_due)
		buf_printf(out, " every %s", fmt_duration_ns(note->period_ms * (uint64_t)NS_PER_MS).s);
	else if (note && note->due_ms != HEAP_NOTE_NEVER)
		buf_printf(out, "%s%s", always_due ? "" : " after ",
			   fmt_duration_ns(note->due_ms * (uint64_t)NS_PER_MS).s);
}

static void timer_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	const struct heap_note *note = heap_notes_of(k->notes, e->from);
	uint32_t state = retainer_field(k->g, e->from, "_state"),
		 call = retainer_field(k->g, e->from, "_timerCallback");
	const char *of = type_name(k, state), *method = heap_notes_method(k->notes, call);
	uint32_t target = retainer_field(k->g, call, "_target");
	if (str_starts(of, "System.Threading.Tasks.Task+DelayPromise")) {
		buf_str(out, " of Task.Delay, ");
		add_times(note, true, out);
	} else if (strstr(of, "CancellationTokenSource")) {
		buf_str(out, " of CancellationTokenSources that cancel after ");
		add_times(note, true, out);
	} else if (str_starts(of, "System.Threading.PeriodicTimer")) {
		buf_str(out, " of PeriodicTimer");
		add_times(note, false, out);
	} else {
		buf_str(out, method || target < k->g->n ? " calling " : "");
		if (method)
			buf_str(out, method);
		else if (target < k->g->n)
			heap_type_name(k->g, k->g->type[target], out);
		add_times(note, false, out);
	}
}

/* ---- cancellation ---- */

static void registration_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	uint32_t source = retainer_field(k->g, retainer_field(k->g, e->from, "Registrations"), "Source");
	uint32_t above = source < k->g->n ? k->from[source] : GRAPH_NONE;
	buf_str(out, " on ");
	if (source >= k->g->n)
		buf_str(out, "a CancellationTokenSource");
	else if (strstr(type_name(k, above), "CancellationTokenSource+CallbackNode"))
		buf_str(out, "linked CancellationTokenSources");
	else if (str_eq(type_name(k, above), "System.Threading.TimerQueueTimer"))
		buf_str(out, "CancellationTokenSources with a time-out");
	else
		add_place(k, source, out);
}

/* ---- services ---- */

static void scope_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	uint32_t provider = retainer_field(k->g, e->from, "<RootProvider>");
	bool root = retainer_field(k->g, provider, "<Root>") == e->from;
	buf_str(out, root ? " the root service scope" : " a service scope");
}

static uint64_t services(const struct retainers *k, const struct retainer_edge *e)
{
	uint32_t items = retainer_field(k->g, e->to, "_items");
	return is_array(k, items) ? n_refs(k->g, items) : 0;
}

/* ---- contexts ---- */

static bool is_async_local(const struct retainers *k, uint32_t v)
{
	return str_starts(type_name(k, v), "System.Threading.AsyncLocal`1");
}

/* A context has its values in fields by number, or in an array of keys and values. */
static uint32_t async_local_of(const struct retainers *k, const struct retainer_edge *e)
{
	const struct heapgraph *g = k->g;
	if (str_starts(e->field, "_value")) {
		char key[16] = "_key";
		str_copy(key + 4, sizeof(key) - 4, e->field + strlen("_value"));
		return retainer_field(g, e->from, key);
	}
	uint32_t last = GRAPH_NONE;
	for (uint32_t i = 0; i < n_refs(g, e->from) && g->target[g->first[e->from] + i] != e->to; i++)
		if (is_async_local(k, g->target[g->first[e->from] + i]))
			last = g->target[g->first[e->from] + i];
	return last;
}

static bool fits_async_local(const struct retainers *k, const struct retainer_edge *e)
{
	const char *type = type_name(k, e->from);
	return (strstr(type, "AsyncLocalValueMap+") ||
		(is_array(k, e->from) && strstr(type, "[System.Threading.IAsyncLocal"))) &&
	       !is_async_local(k, e->to) && is_async_local(k, async_local_of(k, e));
}

static void async_local_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	uint32_t local = async_local_of(k, e);
	buf_str(out, "AsyncLocal ");
	/* Its own path may lead through a context as well: a static field is what its author knows. */
	for (uint32_t r = 0; r < k->g->roots.n; r++) {
		const struct graph_root_set *set = &k->g->roots.v[r];
		if (set->kind == GRAPH_STATIC && set->n == 1 && k->g->root_targets[set->first] == local) {
			heap_root_name(k->g, r, false, out);
			return;
		}
	}
	heap_type_name(k->g, k->g->type[local], out);
}

/* ---- what the compiler makes ---- */

/* "page" of "page", "StateMachine.<page>5__2" and "<page>5__2"; "this"; nothing of what has no name in the source. */
static void add_variable(const char *field, struct buf *out)
{
	const char *dot = strrchr(field, '.'), *name = dot ? dot + 1 : field;
	const char *end = *name == '<' ? strchr(name, '>') : NULL;
	if (end && str_starts(end, ">4__this"))
		buf_str(out, "this");
	else if (end)
		buf_add(out, name + 1, (size_t)(end - name - 1));
	else if (!strchr(name, '<'))
		buf_str(out, name);
}

static bool fits_closure(const struct retainers *k, const struct retainer_edge *e)
{
	return has_shape(k, e->from, SHAPE_CLOSURE) && has_shape(k, e->from, SHAPE_OWN) &&
	       !has_shape(k, e->to, SHAPE_CLOSURE) && e->slot != GRAPH_NONE;
}

static void closure_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	uint32_t above = k->from[e->from];
	const char *method = has_shape(k, above, SHAPE_DELEGATE) ? heap_notes_method(k->notes, above) : NULL;
	buf_str(out, "variable ");
	add_variable(e->field, out);
	buf_str(out, " of ");
	if (method)
		buf_str(out, method);
	else
		heap_type_name(k->g, k->g->type[e->from], out);
}

/* ---- what follows a key, or a type ---- */

/* References beyond the fields: of a dependent handle, of an instance of an unloadable type. */
static bool fits_beyond(const struct retainers *k, const struct retainer_edge *e)
{
	return e->from < k->g->n && e->slot == GRAPH_NONE && !k->g->types.v[k->g->type[e->from]].variable;
}

static bool fits_loader(const struct retainers *k, const struct retainer_edge *e)
{
	return fits_beyond(k, e) && str_eq(type_name(k, e->to), "System.Reflection.LoaderAllocator");
}

static void of_type_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	heap_type_name(k->g, k->g->type[e->from], out);
}

/* ---- fields ---- */

static bool fits_own(const struct retainers *k, const struct retainer_edge *e)
{
	return has_shape(k, e->from, SHAPE_OWN) && !has_shape(k, e->from, SHAPE_CLOSURE | SHAPE_DELEGATE);
}

static void own_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	CLEANUP(buf_free) struct buf type = { 0 }, variable = { 0 };
	heap_type_name(k->g, k->g->type[e->from], &type);
	bool async = str_starts(buf_cstr(&type), "async ");
	if (async && strstr(e->field, "StateMachine"))
		add_variable(e->field, &variable);
	if (variable.len)
		buf_printf(out, "variable %s of ", buf_cstr(&variable));
	buf_str(out, buf_cstr(&type));
	if (!async && *e->field) {
		buf_char(out, '.');
		heap_field_name(e->field, out);
	}
}

static void root_words(const struct retainers *k, const struct retainer_edge *e, struct buf *out)
{
	heap_root_name(k->g, e->from - k->g->n, true, out);
}

const struct retainer_rule retainer_root_rule = { .more = root_words, .plain = true };
const struct retainer_rule retainer_own_root_rule = { .more = root_words, .plain = true };

/* ---- the table ---- */

static const struct retainer_rule rules[] = {
	{ .type = "System.Threading.TimerQueueTimer",
	  .fields = "_timerCallback _state",
	  .words = "timers",
	  .more = timer_words,
	  .advice =
		  "A timer keeps all that its callback and its state refer to until it is disposed, and a delay until "
		  "it ends: dispose timers, and give delays a token that is cancelled." },
	{ .type = "System.Threading.TimerQueueTimer",
	  .fields = "_executionContext",
	  .words = "the ExecutionContext of timers",
	  .more = timer_words,
	  .advice = "What is made within a context keeps all its AsyncLocal values: make long-lived timers under "
		    "ExecutionContext.SuppressFlow()." },
	{ .type = "System.Threading.CancellationTokenSource+CallbackNode",
	  .fields = "Callback CallbackState SynchronizationContext",
	  .words = "registrations",
	  .more = registration_words,
	  .advice = "A registration lives as long as the token's source: dispose what Register returned, and sources "
		    "that are linked or have a time-out." },
	{ .type = "System.Threading.CancellationTokenSource+CallbackNode",
	  .fields = "ExecutionContext",
	  .words = "the ExecutionContext of registrations",
	  .more = registration_words,
	  .advice =
		  "A registration lives as long as the token's source and keeps all AsyncLocal values of who made it: "
		  "dispose what Register returned." },
	{ .fits = fits_async_local, .more = async_local_words },
	{ .type = "Microsoft.Extensions.DependencyInjection.ServiceLookup.ServiceProviderEngineScope",
	  .fields = "_disposables",
	  .words = "the disposables of",
	  .more = scope_words,
	  .count = services,
	  .one = "service",
	  .many = "services",
	  .advice = "A service scope keeps every disposable service that it has made until it is disposed itself, and "
		    "the root scope lives as long as the process: resolve them in a scope of their own, and dispose "
		    "that." },
	{ .type = "Microsoft.Extensions.DependencyInjection.ServiceLookup.ServiceProviderEngineScope",
	  .fields = "<ResolvedServices>",
	  .words = "services of a scope" },
	{ .type = "Microsoft.Extensions.DependencyInjection.ServiceLookup.",
	  .fields = "<Value>",
	  .words = "singletons of the service provider" },
	{ .type = "Microsoft.Extensions.Caching.Memory.PostEvictionCallbackRegistration",
	  .words = "eviction callbacks of MemoryCache entries",
	  .advice = "An entry keeps what its eviction callback refers to: give entries an expiry or a size limit, and "
		    "callbacks no state." },
	{ .type = "Microsoft.Extensions.Caching.Memory.CacheEntry",
	  .fields = "_value <Key>",
	  .words = "entries of a MemoryCache",
	  .advice = "Entries stay until they expire: give them an expiry, or the cache a SizeLimit." },
	{ .type = "System.Threading.ThreadPoolWorkQueue", .words = "the thread pool's queue" },
	{ .type = "System.Threading.Channels.", .fields = "_items", .words = "a Channel that is not read" },
	{ .fits = fits_loader, .words = "the load context of its type, by an instance of ", .more = of_type_words },
	{ .fits = fits_beyond, .words = "a ConditionalWeakTable, with the key ", .more = of_type_words },
	{ .fits = fits_event,
	  .more = event_words,
	  .count = subscribers,
	  .one = "subscriber",
	  .many = "subscribers",
	  .advice =
		  "A subscription keeps the subscriber as long as the event's owner lives: unsubscribe (-=) when it is "
		  "done." },
	{ .fits = fits_closure, .more = closure_words },
	{ .fits = fits_own, .more = own_words, .plain = true },
};

/* One of the words, or its beginning up to a '>': "<Key>" is "<Key>k__BackingField". */
static bool names_field(const char *words, const char *field)
{
	while (*words) {
		size_t len = strcspn(words, " ");
		if (strncmp(words, field, len) == 0 && (!field[len] || words[len - 1] == '>'))
			return true;
		words += len + (words[len] == ' ');
	}
	return false;
}

static bool is_type(const char *name, const char *type)
{
	size_t len = strlen(type);
	return strncmp(name, type, len) == 0 &&
	       (!name[len] || name[len] == '`' || name[len] == '[' || type[len - 1] == '.');
}

const struct retainer_rule *retainer_rule_of(const struct retainers *k, const struct retainer_edge *e)
{
	const char *type = type_name(k, e->from);
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const struct retainer_rule *rule = &rules[i];
		if ((!rule->type || is_type(type, rule->type)) &&
		    (!rule->fields || names_field(rule->fields, e->field)) && (!rule->fits || rule->fits(k, e)))
			return rule;
	}
	return NULL;
}
