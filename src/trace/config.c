#include "trace/config.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/clr.h"
#include <stdlib.h>
#include <string.h>

#define PROVIDERS_MAX 64
#define LEVEL_DEFAULT 5
#define NAME_MAX_BYTES 256
#define ARGS_MAX_BYTES 4096

#define KEYWORD_COMPILATION 0x1000000000ull
#define KEYWORD_WAIT_HANDLE 0x40000000000ull
#define KEYWORD_ALLOCATION_SAMPLING 0x80000000000ull

struct config_part {
	const char *provider;
	uint64_t keywords;
	uint32_t level;
	const char *args;
	unsigned from, before; /* runtime versions it is for; 0 = any */
};

struct profile_def {
	const char *name, *help;
	struct config_part parts[4];
	bool no_stacks; /* where its events are written says nothing */
};

static const struct profile_def defs[] = {
	{ .name = "cpu",
	  .help = "where threads spend their time, sampled every millisecond",
	  .parts = { { CLR_SAMPLE_PROVIDER, 0, 4, NULL, 0, 0 },
		     { CLR_PROVIDER, CLR_LOADER | CLR_JIT | CLR_NGEN, 4, NULL, 0, 0 } } },
	{ .name = "gc", .help = "garbage collections", .parts = { { CLR_PROVIDER, CLR_GC, 4, NULL, 0, 0 } } },
	{ .name = "alloc",
	  .help = "allocations, sampled about every 100 KB, with stacks",
	  .parts = { { CLR_PROVIDER, CLR_GC | KEYWORD_ALLOCATION_SAMPLING, 4, NULL, 10, 0 },
		     { CLR_PROVIDER, CLR_GC, 5, NULL, 0, 10 } } },
	{ .name = "contention",
	  .help = "waits for locks, with stacks",
	  .parts = { { CLR_PROVIDER, CLR_CONTENTION, 4, NULL, 0, 0 } } },
	{ .name = "exceptions",
	  .help = "exceptions, with stacks",
	  .parts = { { CLR_PROVIDER, CLR_EXCEPTION, 2, NULL, 0, 0 } } },
	{ .name = "threading",
	  .help = "thread pool, threads, locks; waits from .NET 9 on",
	  .parts = { { CLR_PROVIDER, CLR_THREADING | CLR_CONTENTION | KEYWORD_WAIT_HANDLE, 5, NULL, 9, 0 },
		     { CLR_PROVIDER, CLR_THREADING | CLR_CONTENTION, 4, NULL, 0, 9 } } },
	{ .name = "startup",
	  .help = "what happens before Main and after: loading, compiling, stack samples",
	  .parts = { { CLR_PROVIDER, CLR_LOADER | CLR_JIT | CLR_NGEN | 0x4 | KEYWORD_COMPILATION, 5, NULL, 0, 0 },
		     { CLR_SAMPLE_PROVIDER, 0, 4, NULL, 0, 0 } } },
	{ .name = "jit",
	  .help = "methods compiled, and in which tier",
	  .parts = { { CLR_PROVIDER, CLR_JIT | KEYWORD_COMPILATION, 5, NULL, 0, 0 } } },
	{ .name = "loader",
	  .help = "assemblies and modules loaded and unloaded",
	  .parts = { { CLR_PROVIDER, CLR_LOADER | 0x4, 4, NULL, 0, 0 } } },
	{ .name = "http",
	  .help = "requests in and out",
	  .parts = { { "Microsoft.AspNetCore.Hosting", UINT64_MAX, 4, NULL, 0, 0 },
		     { "System.Net.Http", UINT64_MAX, 4, NULL, 0, 0 } },
	  .no_stacks = true },
};

const struct trace_profile *trace_profiles(void)
{
	static struct trace_profile list[ARRAY_SIZE(defs) + 1];
	for (size_t i = 0; i < ARRAY_SIZE(defs); i++)
		list[i] = (struct trace_profile){ defs[i].name, defs[i].help };
	return list;
}

static struct ipc_provider *find_provider(struct trace_config *c, const char *name)
{
	vec_each(p, &c->providers) {
		if (str_eq(p->name, name))
			return p;
	}
	return NULL;
}

/* Asked for twice: the union of both. */
static struct err *add_provider(struct trace_config *c, const char *name, uint64_t keywords, uint32_t level,
				const char *args)
{
	struct ipc_provider *p = find_provider(c, name);
	if (p) {
		p->keywords |= keywords;
		p->level = MAX(p->level, level);
		if (args)
			p->args = arena_strdup(&c->arena, args);
		return NULL;
	}
	if (c->providers.n >= PROVIDERS_MAX)
		return err_new(ERR_USAGE, "more than %d providers", PROVIDERS_MAX);
	vec_push(&c->providers, ((struct ipc_provider){ .name = arena_strdup(&c->arena, name),
							.keywords = keywords,
							.level = level,
							.args = args ? arena_strdup(&c->arena, args) : NULL }));
	return NULL;
}

static const struct profile_def *find_def(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(defs); i++) {
		if (strlen(defs[i].name) == len && !memcmp(defs[i].name, name, len))
			return &defs[i];
	}
	return NULL;
}

static struct err *unknown_profile(const char *name, size_t len)
{
	CLEANUP(buf_free) struct buf known = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(defs); i++)
		buf_printf(&known, "%s%s", i ? ", " : "", defs[i].name);
	return err_new(ERR_USAGE, "there is no trace profile '%.*s'; there are %s", (int)len, name, buf_cstr(&known));
}

static struct err *add_profile(struct trace_config *c, const struct profile_def *def, unsigned major)
{
	c->stacks |= !def->no_stacks;
	for (const struct config_part *p = def->parts; p->provider; p++) {
		/* Not known: the events that every version has. */
		if ((p->from && major < p->from) || (p->before && major >= p->before))
			continue;
		TRY(add_provider(c, p->provider, p->keywords, p->level, p->args));
	}
	return NULL;
}

struct err *trace_config_profile(struct trace_config *c, const char *list, unsigned runtime_major)
{
	for (const char *end; list; list = *end ? end + 1 : NULL) {
		end = list + strcspn(list, ",");
		const struct profile_def *def = find_def(list, (size_t)(end - list));
		if (!def)
			return unknown_profile(list, (size_t)(end - list));
		if (c)
			TRY(add_profile(c, def, runtime_major));
	}
	return NULL;
}

struct err *trace_config_check_profile(const char *list)
{
	return trace_config_profile(NULL, list, 0);
}

/* --- providers --- */

static bool parse_keywords(const char *s, uint64_t *ret)
{
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	uint64_t v = 0;
	size_t n = 0;
	for (; *s; s++, n++) {
		int digit = *s >= '0' && *s <= '9'   ? *s - '0'
			    : *s >= 'a' && *s <= 'f' ? *s - 'a' + 10
			    : *s >= 'A' && *s <= 'F' ? *s - 'A' + 10
						     : -1;
		if (digit < 0 || n >= 16)
			return false;
		v = v << 4 | (uint64_t)digit;
	}
	*ret = v;
	return n > 0;
}

static bool parse_level(const char *s, uint32_t *ret)
{
	static const char *const names[] = { "logalways", "critical", "error", "warning", "informational", "verbose" };
	uint64_t number;
	if (str_to_u64(s, &number) && number <= 5) {
		*ret = (uint32_t)number;
		return true;
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq_nocase(s, names[i]) || (i == 4 && str_eq_nocase(s, "info"))) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool name_ok(const char *s)
{
	size_t n = strlen(s);
	if (!n || n > NAME_MAX_BYTES)
		return false;
	for (; *s; s++) {
		if ((unsigned char)*s <= ' ' || *s == '"' || *s == ',' || *s == ';' || *s == '=' || *s == 0x7f)
			return false;
	}
	return true;
}

/* One word of the list, cut in place: name, keywords, level, args. Args may hold colons. */
static struct err *parse_provider(struct trace_config *c, char *word)
{
	char *fields[4] = { word, NULL, NULL, NULL };
	for (size_t i = 1; i < ARRAY_SIZE(fields) && fields[i - 1]; i++) {
		char *colon = strchr(fields[i - 1], ':');
		if (colon) {
			*colon = '\0';
			fields[i] = colon + 1;
		}
	}
	uint64_t keywords = UINT64_MAX;
	uint32_t level = LEVEL_DEFAULT;
	if (!name_ok(fields[0]))
		return err_new(ERR_USAGE, "providers: '%s' is no name of a provider (Name:keywords:level:args)",
			       fields[0]);
	if (!str_empty(fields[1]) && !parse_keywords(fields[1], &keywords))
		return err_new(ERR_USAGE, "providers: keywords of '%s' are hexadecimal such as 0x8000, not '%s'",
			       fields[0], fields[1]);
	if (!str_empty(fields[2]) && !parse_level(fields[2], &level))
		return err_new(ERR_USAGE, "providers: the level of '%s' is 0 to 5 or a name such as verbose, not '%s'",
			       fields[0], fields[2]);
	if (!str_empty(fields[3]) && (!strchr(fields[3], '=') || strlen(fields[3]) > ARGS_MAX_BYTES))
		return err_new(ERR_USAGE, "providers: arguments of '%s' are key=value;key=value, not '%s'", fields[0],
			       fields[3]);
	return add_provider(c, fields[0], keywords, level, str_empty(fields[3]) ? NULL : fields[3]);
}

struct err *trace_config_providers(struct trace_config *c, const char *list)
{
	CLEANUP(mem_freep) char *copy = mem_strdup(list);
	char *start = copy;
	c->stacks = true;
	bool quoted = false;
	for (char *p = copy;; p++) {
		quoted ^= *p == '"';
		if (*p && (*p != ',' || quoted))
			continue;
		bool last = !*p;
		if (last && quoted)
			return err_new(ERR_USAGE, "providers: a quotation mark is not closed in '%s'", list);
		*p = '\0';
		TRY(parse_provider(c, start));
		if (last)
			return NULL;
		start = p + 1;
	}
}

/* --- triggers --- */

struct err *trace_config_stop_on(struct trace_config *c, const char *when)
{
	struct trace_trigger t = { .text = arena_strdup(&c->arena, when) };
	uint64_t ms;
	if (str_eq(when, "exception")) {
		/* any */
	} else if (str_starts(when, "exception:") && when[strlen("exception:")]) {
		t.type = arena_strdup(&c->arena, when + strlen("exception:"));
	} else if (str_starts(when, "gc-pause>")) {
		const char *value = when + strlen("gc-pause>");
		value += *value == '=';
		if (!str_to_duration_ms(value, &ms) || !ms)
			return err_new(ERR_USAGE, "'gc-pause>' takes a time such as 50ms, not '%s'", value);
		t.pause_ns = ms * NS_PER_MS;
	} else {
		return err_new(ERR_USAGE, "--stop-on takes exception, exception:TYPE or gc-pause>TIME, not '%s'", when);
	}
	vec_push(&c->triggers, t);
	return NULL;
}

static struct err *need(struct trace_config *c, uint64_t keyword, uint32_t level)
{
	const struct ipc_provider *p = find_provider(c, CLR_PROVIDER);
	c->widened |= !p || !(p->keywords & keyword) || p->level < level;
	return add_provider(c, CLR_PROVIDER, keyword, level, NULL);
}

static void give_ids(struct trace_config *c, struct ipc_provider *p, const struct trace_ids *ids)
{
	uint32_t *list = arena_alloc(&c->arena, ids->n * sizeof(*list));
	size_t n = 0;
	for (size_t i = 0; i < ids->n; i++) {
		/* Numbers without a provider are those of the runtime, unless it is not among the providers. */
		const char *of = ids->v[i].provider;
		if (of ? str_eq(of, p->name) : str_eq(p->name, CLR_PROVIDER) || !find_provider(c, CLR_PROVIDER))
			list[n++] = ids->v[i].id;
	}
	if (!n)
		return;
	p->only_ids = list;
	p->n_only_ids = n;
	p->skip_ids = ids->skip;
}

/* The events that strike must come, whatever the filter says. */
static bool strikes_missing(const struct trace_config *c)
{
	for (size_t i = 0; i < c->providers.n; i++) {
		const struct ipc_provider *p = &c->providers.v[i];
		if (!str_eq(p->name, CLR_PROVIDER) || !p->n_only_ids)
			continue;
		for (size_t t = 0; t < c->triggers.n; t++) {
			static const uint32_t exception[] = { 80, 0 }, pause[] = { 9, 3, 0 };
			for (const uint32_t *id = c->triggers.v[t].pause_ns ? pause : exception; *id; id++) {
				bool listed = false;
				for (size_t n = 0; n < p->n_only_ids; n++)
					listed |= p->only_ids[n] == *id;
				if (listed == p->skip_ids)
					return true;
			}
		}
	}
	return false;
}

struct err *trace_config_finish(struct trace_config *c, const struct trace_ids *ids)
{
	vec_each(t, &c->triggers)
		TRY(t->pause_ns ? need(c, CLR_GC, 4) : need(c, CLR_EXCEPTION, 2));
	for (size_t i = 0; i < ids->n; i++) {
		if (ids->v[i].provider && !find_provider(c, ids->v[i].provider))
			return err_new(ERR_USAGE, "--%s-ids names '%s', which is not listened to",
				       ids->skip ? "skip" : "only", ids->v[i].provider);
	}
	vec_each(p, &c->providers)
		give_ids(c, p, ids);
	if (strikes_missing(c))
		return err_new(ERR_USAGE,
			       "the event numbers leave out what --stop-on waits for (80 for exceptions, 9 and 3 for "
			       "GC pauses)");
	return NULL;
}

void trace_config_fini(struct trace_config *c)
{
	vec_free(&c->providers);
	vec_free(&c->triggers);
	arena_free(&c->arena);
}

/* "TimeoutException" is System.TimeoutException too. */
static bool is_type(const char *name, const char *wanted)
{
	size_t a = strlen(name), b = strlen(wanted);
	if (a < b || !str_eq(name + a - b, wanted))
		return false;
	return a == b || name[a - b - 1] == '.' || name[a - b - 1] == '+';
}

static bool strikes_exception(const struct trace_trigger *t, const struct nettrace_event *event)
{
	struct clr_exception e;
	if (!clr_decode_exception(event, &e))
		return false;
	if (!t->type)
		return true;
	CLEANUP(buf_free) struct buf name = { 0 };
	utf16_add(&name, e.type.units, MIN(e.type.n, (size_t)1024));
	return is_type(buf_cstr(&name), t->type);
}

const struct trace_trigger *trace_triggers_event(const struct trace_triggers *triggers,
						 struct trace_trigger_state *state, const struct nettrace_event *event)
{
	enum clr_event kind = clr_event(event);
	struct clr_suspend suspend;
	uint64_t pause_ns = 0;
	if (kind == CLR_SUSPEND_BEGIN && clr_decode_suspend(event, &suspend)) {
		state->suspended = suspend.reason == 1 || suspend.reason == 6;
		state->suspend_ns = event->time;
	} else if (kind == CLR_RESTART_END) {
		if (state->suspended && event->time > state->suspend_ns)
			pause_ns = event->time - state->suspend_ns;
		state->suspended = false;
	}
	for (size_t i = 0; i < triggers->n; i++) {
		const struct trace_trigger *t = &triggers->v[i];
		if (t->pause_ns ? pause_ns && pause_ns >= t->pause_ns
				: kind == CLR_EXCEPTION_THROWN && strikes_exception(t, event))
			return t;
	}
	return NULL;
}
