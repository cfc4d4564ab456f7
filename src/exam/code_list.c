#include "exam/code_list.h"
#include "base/clock.h"
#include "base/cursor.h"
#include "base/json.h"
#include "base/str.h"
#include "dac/dac.h"
#include "eventpipe/clr.h"
#include "exam/events.h"
#include "report/report.h"
#include <string.h>

/* No version of .NET is known to be safe. */
#define UNSAFE_KEYWORDS ((uint64_t)(CLR_JIT | CLR_IL_MAP))
#define WHOLE_LIST_BEFORE 9u /* .NET: earlier ones list everything, whatever they are asked for */
#define ANSWER_MS 2000
#define LOOK_MS 10000	  /* for all that is read at once */
#define READ_ATTEMPTS 10u /* what changes meanwhile may make no sense */
#define PLACES_PORTION 4096u
#define PLACES_MAX 65536u
#define PART_MAX ((size_t)256 << 20)
#define FACT "code_list"
#define CORE_LIBRARY "System.Private.CoreLib.dll"
#define LOADER_TYPE "System.Reflection.LoaderAllocator"

/* --- its memory --- */

struct code_look {
	struct image *image;
	struct dac *dac;
};

static void look_fini(struct code_look *l)
{
	dac_close(l->dac);
	image_close(l->image);
}

/* At the process while it runs. */
static struct err *look_open(const struct target *target, struct deadline deadline, struct code_look *ret)
{
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)target->pid);
	struct dac_options options = { .root = root, .answer_ms = ANSWER_MS, .deadline = deadline };
	if (!target->pid)
		return err_new(ERR_UNSUPPORTED, "its process is not visible from here");
	TRY(image_peek(target, &ret->image));
	return dac_open(ret->image, &options, &ret->dac);
}

static const struct dac_module *core_library(const struct dac_modules *all)
{
	vec_each(m, all)
		if (str_ends(m->path, CORE_LIBRARY))
			return m;
	return NULL;
}

/* All that stays for the life of the process shares one allocator. */
static bool is_collectible(const struct dac_modules *all, const struct dac_module *m)
{
	const struct dac_module *core = core_library(all);
	return core && m->loader_allocator && m->loader_allocator != core->loader_allocator;
}

/* The type of the object that keeps a collectible assembly alive is loaded with the first of them, and stays. */
static struct err *ever_collectible(struct dac *d, bool *ret)
{
	struct dac_facts facts;
	CLEANUP(dac_addresses_free) struct dac_addresses types = { 0 };
	TRY(dac_facts(d, &facts));
	TRY(dac_learn_types(d, &facts.object_type, 1));
	const struct dac_type *object = dac_type(d, facts.object_type);
	if (!object || !object->known)
		return err_new(ERR_NOT_FOUND, "its core library was not found");
	TRY(dac_module_types(d, object->module, &types));
	TRY(dac_learn_types(d, types.v, types.n));
	vec_each(address, &types) {
		const struct dac_type *t = dac_type(d, *address);
		*ret |= t && t->known && str_eq(t->name, LOADER_TYPE);
	}
	return NULL;
}

/* --- is there danger? --- */

static void on_assembly(void *user, const struct nettrace_event *event)
{
	struct clr_assembly a;
	bool *collectible = user;
	if (clr_event(event) == CLR_ASSEMBLY_LOAD && clr_decode_assembly(event, &a))
		*collectible |= (a.flags & CLR_ASSEMBLY_COLLECTIBLE) != 0;
}

static const char *danger_by_list(struct exam *exam)
{
	static const struct ipc_provider provider = { .name = CLR_PROVIDER, .keywords = CLR_LOADER, .level = 1 };
	bool collectible = false;
	struct events_stream s = {
		.name = "assemblies",
		.unkept = true,
		.providers = &provider,
		.n_providers = 1,
		.unordered = true,
		.rundown = CLR_LOADER,
		.event = on_assembly,
		.user = &collectible,
	};
	err_ignore(exam_rundown(exam, &s));
	if (!s.events)
		return "it did not list its assemblies";
	return collectible ? "it has assemblies that can be unloaded" : NULL;
}

static struct err *look_for_collectible(const struct exam *exam, bool *ret)
{
	CLEANUP(look_fini) struct code_look l = { 0 };
	TRY(look_open(&exam->patient->target, deadline_in_ms(LOOK_MS), &l));
	return ever_collectible(l.dac, ret);
}

/* NULL: nothing can be unloaded. What its memory says is better than a list of what is there now, and costs it nothing.
 * Before .NET 9 that list cannot be had alone: where memory cannot be read either, the danger cannot be known, and is
 * that of every other tool. */
static const char *danger(struct exam *exam, bool whole)
{
	bool ever = false;
	struct err *err = look_for_collectible(exam, &ever);
	for (unsigned again = 1; err && err_kind(err) == ERR_BAD_DATA && again < READ_ATTEMPTS; again++) {
		err_free(err);
		err = look_for_collectible(exam, &ever);
	}
	if (!err)
		return ever ? "it has loaded assemblies that can be unloaded" : NULL;
	exam_log(exam, "whether it can unload code: %s", err_text(err));
	err_free(err);
	return whole ? NULL : danger_by_list(exam);
}

uint64_t exam_safe_rundown(struct exam *exam, uint64_t keywords)
{
	bool whole = exam_runtime_major(exam) < WHOLE_LIST_BEFORE;
	uint64_t unsafe = whole ? keywords : keywords & UNSAFE_KEYWORDS;
	bool not_begun = exam->launched && !exam->start_ns; /* it waits before its first instruction */
	if (!unsafe || not_begun)
		return keywords;
	if (!exam->code_unasked)
		exam->code_unasked = danger(exam, whole);
	return exam->code_unasked ? keywords & ~unsafe : keywords;
}

void exam_code_guard(struct exam *exam, struct events_stream *s)
{
	uint64_t safe = exam_safe_rundown(exam, s->rundown);
	s->from_memory |= s->rundown & ~safe;
	s->rundown = safe;
}

/* --- events as the runtime would have sent them; the recording keeps the length and the payload of each --- */

enum code_events { CODE_METHODS, CODE_ASSEMBLIES, CODE_MODULES, CODE_EVENTS };

static const struct code_event {
	const char *suffix; /* of its part in the recording */
	uint32_t id;
} code_events[CODE_EVENTS] = {
	[CODE_METHODS] = { ".code", 144 },
	[CODE_ASSEMBLIES] = { ".assemblies", 156 },
	[CODE_MODULES] = { ".modules", 154 },
};

struct code_feed {
	struct events_stream *stream;
	struct recording_part *parts[CODE_EVENTS]; /* each may be NULL */
	struct nettrace_meta metas[CODE_EVENTS];
	struct buf payload, space, name;
};

static void feed_init(struct code_feed *f, struct events_stream *s)
{
	*f = (struct code_feed){ .stream = s };
	for (size_t i = 0; i < CODE_EVENTS; i++)
		f->metas[i] = (struct nettrace_meta){ .event_id = code_events[i].id,
						      .provider = CLR_RUNDOWN_PROVIDER,
						      .name = "" };
}

static struct err *feed_keep(struct code_feed *f, struct recording *recording)
{
	const struct events_stream *s = f->stream;
	for (size_t i = 0; recording && i < CODE_EVENTS; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("%s-%u%s", s->name, s->opened, code_events[i].suffix);
		TRY(recording_part_new(recording, name, "code", &f->parts[i]));
	}
	return NULL;
}

static void feed_fini(struct code_feed *f, bool whole)
{
	for (size_t i = 0; i < CODE_EVENTS; i++)
		if (f->parts[i])
			recording_part_close(f->parts[i], whole);
	buf_free(&f->payload);
	buf_free(&f->space);
	buf_free(&f->name);
}

static void give(struct code_feed *f, enum code_events kind, const void *payload, size_t len)
{
	struct nettrace_event event = {
		.meta = &f->metas[kind], .payload = payload, .payload_size = len, .pointer_size = 8
	};
	f->stream->events++;
	f->stream->event(f->stream->user, &event);
}

static void give_payload(struct code_feed *f, enum code_events kind)
{
	uint32_t len = (uint32_t)f->payload.len;
	if (f->parts[kind]) {
		recording_part_write(f->parts[kind], &len, sizeof(len));
		recording_part_write(f->parts[kind], f->payload.data, len);
	}
	give(f, kind, f->payload.data, len);
}

static void put_text(struct buf *out, const char *text)
{
	utf16_from_utf8(out, text);
	buf_add(out, "\0", 2);
}

static void give_method(struct code_feed *f, const struct dac_listed_code *c, const struct dac_method *m,
			uint32_t flags)
{
	struct buf *p = &f->payload;
	buf_clear(p);
	buf_u64(p, c->method);
	buf_u64(p, m->module);
	buf_u64(p, c->start);
	buf_u32(p, c->size);
	buf_u32(p, m->token);
	buf_u32(p, flags | (m->dynamic ? CLR_METHOD_DYNAMIC : 0u));
	put_text(p, buf_cstr(&f->space));
	put_text(p, buf_cstr(&f->name));
	put_text(p, "");
	give_payload(f, CODE_METHODS);
}

static void give_assembly(struct code_feed *f, const struct dac_module *m, bool collectible, const char *name)
{
	struct buf *p = &f->payload;
	buf_clear(p);
	buf_u64(p, m->assembly);
	buf_u64(p, 0); /* domain */
	buf_u64(p, 0); /* binding */
	buf_u32(p, (collectible ? CLR_ASSEMBLY_COLLECTIBLE : 0u) | (m->reflection ? CLR_ASSEMBLY_DYNAMIC : 0u));
	put_text(p, name);
	give_payload(f, CODE_ASSEMBLIES);
}

static void give_module(struct code_feed *f, const struct dac_module *m)
{
	struct buf *p = &f->payload;
	buf_clear(p);
	buf_u64(p, m->address);
	buf_u64(p, m->assembly);
	buf_u64(p, 0); /* flags */
	put_text(p, m->path);
	put_text(p, "");
	give_payload(f, CODE_MODULES);
}

/* As the runtime's events name a method: without the arguments of a generic one, and all that is made at run time in
 * one class. */
static void name_method(struct code_feed *f, const struct dac_method *m)
{
	buf_clear(&f->space);
	buf_clear(&f->name);
	dac_split_name(m->name, &f->space, &f->name);
	char *arguments = f->name.len ? strchr(f->name.data + 1, '[') : NULL;
	if (arguments) {
		*arguments = 0;
		f->name.len = strlen(buf_cstr(&f->name));
	}
	if (!m->dynamic && !str_eq(buf_cstr(&f->space), "ILStubClass"))
		return;
	const char *more = strchr(buf_cstr(&f->space), '.'); /* a name given at run time may have dots */
	if (more) {
		CLEANUP(mem_freep) char *name = mem_printf("%s.%s", more + 1, buf_cstr(&f->name));
		buf_clear(&f->name);
		buf_str(&f->name, name);
	}
	buf_clear(&f->space);
	buf_str(&f->space, "dynamicClass");
}

/* --- from memory --- */

struct code_found {
	struct dac_code_list compiled, precompiled;
	VEC(const char *) assemblies; /* their names, in the order of modules; valid as long as the dac */
	const struct dac_modules *modules;
};

static void found_fini(struct code_found *found)
{
	dac_code_list_free(&found->compiled);
	dac_code_list_free(&found->precompiled);
	vec_free(&found->assemblies);
}

static struct err *find_names(struct dac *d, const struct dac_code_list *list)
{
	VEC(uint64_t) methods = { 0 };
	vec_each(c, list)
		vec_push(&methods, c->method);
	struct err *err = dac_learn_methods(d, methods.v, methods.n);
	vec_free(&methods);
	return err;
}

static struct err *find_compiled(struct dac *d, struct code_found *found)
{
	TRY(dac_code_list(d, &found->compiled));
	return find_names(d, &found->compiled);
}

/* A list that was read while one was being taken out of it is cut short. */
static struct err *find_modules(struct dac *d, struct code_found *found)
{
	TRY(dac_modules(d, &found->modules));
	return core_library(found->modules) ? NULL : err_new(ERR_BAD_DATA, "its list of modules makes no sense");
}

static struct err *find_precompiled(struct dac *d, struct code_found *found)
{
	vec_each(m, found->modules)
		TRY(dac_precompiled_list(d, m, &found->precompiled));
	return find_names(d, &found->precompiled);
}

static struct err *find_assemblies(struct dac *d, struct code_found *found)
{
	vec_each(m, found->modules) {
		CLEANUP(dac_token_names_free) struct dac_token_names names = { 0 };
		TRY(dac_token_names(d, m->address, &(uint32_t){ DAC_ASSEMBLY_TOKEN }, 1, &names));
		vec_push(&found->assemblies, names.v[0].name);
	}
	return NULL;
}

static void give_code(struct code_feed *f, const struct dac *d, const struct dac_code_list *list, uint32_t flags)
{
	vec_each(c, list) {
		const struct dac_method *m = dac_method(d, c->method);
		if (!m || !m->module || str_empty(m->name))
			continue; /* gone by now */
		name_method(f, m);
		give_method(f, c, m, flags);
	}
}

static void give_assemblies(struct code_feed *f, const struct code_found *found)
{
	for (size_t i = 0; i < found->assemblies.n; i++) {
		const struct dac_module *m = &found->modules->v[i];
		if (str_empty(found->assemblies.v[i]))
			continue;
		give_module(f, m);
		give_assembly(f, m, is_collectible(found->modules, m), found->assemblies.v[i]);
	}
}

/* Each is found whole before the first of it is given: what fails is tried again. */
static struct err *read_compiled(struct dac *d, struct code_feed *f)
{
	CLEANUP(found_fini) struct code_found found = { 0 };
	TRY(find_compiled(d, &found));
	give_code(f, d, &found.compiled, CLR_METHOD_JITTED);
	return NULL;
}

static struct err *read_precompiled(struct dac *d, struct code_feed *f)
{
	CLEANUP(found_fini) struct code_found found = { 0 };
	TRY(find_modules(d, &found));
	TRY(find_precompiled(d, &found));
	give_code(f, d, &found.precompiled, 0);
	return NULL;
}

static struct err *read_assemblies(struct dac *d, struct code_feed *f)
{
	CLEANUP(found_fini) struct code_found found = { 0 };
	TRY(find_modules(d, &found));
	TRY(find_assemblies(d, &found));
	give_assemblies(f, &found);
	return NULL;
}

typedef struct err *code_reader(struct dac *d, struct code_feed *f);

static struct err *read_once(const struct exam *exam, struct deadline deadline, code_reader *read, struct code_feed *f)
{
	CLEANUP(look_fini) struct code_look l = { 0 };
	TRY(look_open(&exam->patient->target, deadline, &l));
	return read(l.dac, f);
}

static struct err *read_often(const struct exam *exam, code_reader *read, struct code_feed *f)
{
	struct deadline deadline = deadline_in_ms(LOOK_MS);
	struct err *err = read_once(exam, deadline, read, f);
	for (unsigned again = 1; err && again < READ_ATTEMPTS && !deadline_passed(deadline); again++) {
		err_free(err);
		err = read_once(exam, deadline, read, f);
	}
	return err;
}

/* What the rest of it lacks is less than the names of what was compiled. */
static struct err *read_code(struct exam *exam, struct code_feed *f)
{
	static const struct {
		uint64_t keywords;
		code_reader *read;
		const char *what;
	} rest[] = {
		{ CLR_NGEN, read_precompiled, "names of precompiled code" },
		{ CLR_LOADER, read_assemblies, "assemblies" },
	};
	uint64_t wanted = f->stream->from_memory;
	if (wanted & UNSAFE_KEYWORDS)
		TRY(read_often(exam, read_compiled, f));
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
		struct err *err = wanted & rest[i].keywords ? read_often(exam, rest[i].read, f) : NULL;
		if (err)
			exam_log(exam, "%s: %s", rest[i].what, err_text(err));
		err_free(err);
	}
	return NULL;
}

/* An earlier list succeeded: names are there, though a later one may have failed. */
static bool was_read(const struct exam *exam)
{
	const json_t *fact = exam->recording ? recording_fact(exam->recording, FACT) : NULL;
	return fact && !json_object_get(fact, "unread");
}

static void keep(const struct exam *exam)
{
	if (!exam->recording)
		return;
	json_t *fact = json_pack("{s:s}", "unasked", exam->code_unasked);
	if (exam->code_unread)
		json_object_set_new(fact, "unread", json_string(exam->code_unread));
	recording_set_fact(exam->recording, FACT, fact);
	json_decref(fact);
}

void exam_code_give(struct exam *exam, struct events_stream *s)
{
	if (!s->from_memory)
		return;
	struct code_feed f;
	feed_init(&f, s);
	struct err *err = feed_keep(&f, exam->recording);
	if (!err)
		err = read_code(exam, &f);
	feed_fini(&f, !err);
	if (err)
		exam_log(exam, "names of compiled code: %s", err_text(err));
	if (err && !exam->code_unread && !was_read(exam))
		exam->code_unread = mem_strdup(err_text(err));
	err_free(err);
	keep(exam);
}

static struct err *learn_places(struct dac *d, struct code_place *places, size_t n)
{
	uint64_t addresses[PLACES_PORTION] = { 0 };
	CLEANUP(dac_il_places_free) struct dac_il_places found = { 0 };
	for (size_t i = 0; i < n; i++)
		addresses[i] = places[i].address;
	TRY(dac_il_places(d, addresses, n, &found));
	for (size_t i = 0; i < n; i++) {
		if (found.v[i].address != places[i].address || found.v[i].il_offset < 0)
			continue;
		places[i].module = found.v[i].module;
		places[i].token = found.v[i].token;
		places[i].il = (uint32_t)found.v[i].il_offset;
	}
	return NULL;
}

void exam_code_places(struct exam *exam, struct code_place *places, size_t n)
{
	if (!exam->code_unasked || exam->code_unread || !n)
		return;
	CLEANUP(look_fini) struct code_look l = { 0 };
	struct err *err = look_open(&exam->patient->target, deadline_in_ms(LOOK_MS), &l);
	for (size_t i = 0; !err && i < MIN(n, (size_t)PLACES_MAX); i += PLACES_PORTION)
		err = learn_places(l.dac, places + i, MIN(n - i, (size_t)PLACES_PORTION));
	if (err)
		exam_log(exam, "lines of compiled code: %s", err_text(err));
	err_free(err);
}

/* --- from the recording --- */

static struct err *collect(void *user, const void *data, size_t len)
{
	struct buf *all = user;
	if (len > PART_MAX - all->len)
		return err_new(ERR_BAD_DATA, "it is larger than any list of code");
	buf_add(all, data, len);
	return NULL;
}

static struct err *replay_part(struct exam *exam, struct events_stream *s, const char *name, enum code_events kind)
{
	CLEANUP(buf_free) struct buf all = { 0 };
	struct code_feed f;
	TRY(recording_part_read(exam->recording, name, collect, &all));
	feed_init(&f, s);
	struct cursor c = cursor_make(all.data, all.len);
	while (cursor_left(&c)) {
		uint32_t len = cursor_u32(&c);
		const uint8_t *payload = cursor_take(&c, len);
		if (!payload)
			return err_new(ERR_BAD_DATA, "it is cut short");
		give(&f, kind, payload, len);
	}
	return NULL;
}

struct err *exam_code_replay(struct exam *exam, struct events_stream *s)
{
	size_t len = strlen(s->name);
	for (size_t i = 0; i < recording_n_parts(exam->recording); i++) {
		struct recording_part_info part = recording_part_info(exam->recording, i);
		if (strncmp(part.name, s->name, len) != 0 || part.name[len] != '-' || !part.kept)
			continue;
		for (unsigned kind = 0; kind < CODE_EVENTS; kind++)
			if (str_ends(part.name, code_events[kind].suffix))
				TRY(replay_part(exam, s, part.name, (enum code_events)kind));
	}
	return NULL;
}

/* --- words --- */

void exam_code_how(const struct exam *exam, struct report *report)
{
	const json_t *fact = exam->recording ? recording_fact(exam->recording, FACT) : NULL;
	const char *unasked = json_string_value(json_object_get(fact, "unasked")),
		   *unread = json_string_value(json_object_get(fact, "unread"));
	if (!unasked)
		return;
	CLEANUP(mem_freep)
	char *why = mem_printf("%s, and .NET %u may crash when it lists its code meanwhile%s%s", unasked,
			       exam_runtime_major(exam), unread ? "; its memory could not be read: " : "",
			       unread ? unread : "");
	report_how(report, "Names of compiled code",
		   V_TEXT(unread ? "only of what was compiled meanwhile" : "from its memory"), why);
}
