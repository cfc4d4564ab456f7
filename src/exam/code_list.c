#include "exam/code_list.h"
#include "base/cursor.h"
#include "base/json.h"
#include "base/str.h"
#include "dac/dac.h"
#include "eventpipe/clr.h"
#include "exam/events.h"
#include "report/report.h"
#include <string.h>

/* .NET; no later one is known to be safe. .NET 8 is not either, but cannot be asked for a part of the list only. */
#define UNSAFE_FROM 9u
#define UNSAFE_KEYWORDS ((uint64_t)(CLR_JIT | CLR_IL_MAP))
#define ANSWER_MS 5000
#define READ_ATTEMPTS 3u /* what changes meanwhile may make no sense */
#define PLACES_PORTION 4096u
#define PLACES_MAX 65536u
#define PART_MAX ((size_t)256 << 20)
#define FACT "code_list"
enum { LISTED_METHOD = 144 };

/* --- is there danger? --- */

static void on_assembly(void *user, const struct nettrace_event *event)
{
	struct clr_assembly a;
	bool *collectible = user;
	if (clr_event(event) == CLR_ASSEMBLY_LOAD && clr_decode_assembly(event, &a))
		*collectible |= (a.flags & CLR_ASSEMBLY_COLLECTIBLE) != 0;
}

/* NULL: nothing can be unloaded. */
static const char *danger(struct exam *exam)
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

uint64_t exam_safe_rundown(struct exam *exam, uint64_t keywords)
{
	bool not_begun = exam->launched && !exam->start_ns; /* it waits before its first instruction */
	if (!(keywords & UNSAFE_KEYWORDS) || exam_runtime_major(exam) < UNSAFE_FROM || not_begun)
		return keywords;
	if (!exam->code_unasked)
		exam->code_unasked = danger(exam);
	return exam->code_unasked ? keywords & ~UNSAFE_KEYWORDS : keywords;
}

void exam_code_guard(struct exam *exam, struct events_stream *s)
{
	uint64_t safe = exam_safe_rundown(exam, s->rundown);
	s->from_memory |= s->rundown & ~safe;
	s->rundown = safe;
}

/* --- events as the runtime would have sent them; the recording keeps the length and the payload of each --- */

struct code_feed {
	struct events_stream *stream;
	struct recording_part *part; /* may be NULL */
	struct nettrace_meta method;
	struct buf payload, space, name;
};

static void feed_init(struct code_feed *f, struct events_stream *s)
{
	*f = (struct code_feed){ .stream = s };
	f->method = (struct nettrace_meta){ .event_id = LISTED_METHOD, .provider = CLR_RUNDOWN_PROVIDER, .name = "" };
}

static void feed_fini(struct code_feed *f)
{
	buf_free(&f->payload);
	buf_free(&f->space);
	buf_free(&f->name);
}

static void give(struct code_feed *f, const void *payload, size_t len)
{
	struct nettrace_event event = {
		.meta = &f->method, .payload = payload, .payload_size = len, .pointer_size = 8
	};
	f->stream->events++;
	f->stream->event(f->stream->user, &event);
}

static void put_text(struct buf *out, const char *text)
{
	utf16_from_utf8(out, text);
	buf_add(out, "\0", 2);
}

static void give_method(struct code_feed *f, const struct dac_listed_code *c, const struct dac_method *m)
{
	struct buf *p = &f->payload;
	buf_clear(p);
	buf_u64(p, c->method);
	buf_u64(p, m->module);
	buf_u64(p, c->start);
	buf_u32(p, c->size);
	buf_u32(p, m->token);
	buf_u32(p, CLR_METHOD_JITTED | (m->dynamic ? CLR_METHOD_DYNAMIC : 0u));
	put_text(p, buf_cstr(&f->space));
	put_text(p, buf_cstr(&f->name));
	put_text(p, "");
	uint32_t len = (uint32_t)p->len;
	if (f->part) {
		recording_part_write(f->part, &len, sizeof(len));
		recording_part_write(f->part, p->data, p->len);
	}
	give(f, p->data, p->len);
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
	buf_clear(&f->space);
	buf_str(&f->space, "dynamicClass");
}

static void give_all(struct code_feed *f, const struct dac *d, const struct dac_code_list *list)
{
	vec_each(c, list) {
		const struct dac_method *m = dac_method(d, c->method);
		if (!m || !m->module || str_empty(m->name))
			continue; /* gone by now */
		name_method(f, m);
		give_method(f, c, m);
	}
}

/* --- from memory --- */

static struct err *learn_names(struct dac *d, const struct dac_code_list *list)
{
	VEC(uint64_t) methods = { 0 };
	vec_each(c, list)
		vec_push(&methods, c->method);
	struct err *err = dac_learn_methods(d, methods.v, methods.n);
	vec_free(&methods);
	return err;
}

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
static struct err *look_open(const struct target *target, struct code_look *ret)
{
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)target->pid);
	struct dac_options options = { .root = root, .answer_ms = ANSWER_MS };
	if (!target->pid)
		return err_new(ERR_UNSUPPORTED, "its process is not visible from here");
	TRY(image_peek(target, &ret->image));
	return dac_open(ret->image, &options, &ret->dac);
}

static struct err *read_code(const struct exam *exam, struct code_feed *f)
{
	CLEANUP(look_fini) struct code_look l = { 0 };
	CLEANUP(dac_code_list_free) struct dac_code_list list = { 0 };
	TRY(look_open(&exam->patient->target, &l));
	TRY(dac_code_list(l.dac, &list));
	TRY(learn_names(l.dac, &list));
	give_all(f, l.dac, &list);
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
	CLEANUP(mem_freep) char *name = mem_printf("%s-%u.code", s->name, s->opened);
	struct err *err = exam->recording ? recording_part_new(exam->recording, name, "code", &f.part) : NULL;
	if (!err)
		err = read_code(exam, &f);
	for (unsigned again = 1; err && again < READ_ATTEMPTS; again++) {
		err_free(err);
		err = read_code(exam, &f);
	}
	if (f.part)
		recording_part_close(f.part, !err);
	feed_fini(&f);
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
	struct err *err = look_open(&exam->patient->target, &l);
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

static struct err *replay_part(struct exam *exam, struct events_stream *s, const char *name)
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
		give(&f, payload, len);
	}
	return NULL;
}

struct err *exam_code_replay(struct exam *exam, struct events_stream *s)
{
	size_t len = strlen(s->name);
	for (size_t i = 0; i < recording_n_parts(exam->recording); i++) {
		struct recording_part_info part = recording_part_info(exam->recording, i);
		if (!strncmp(part.name, s->name, len) && part.name[len] == '-' && str_ends(part.name, ".code") &&
		    part.kept)
			TRY(replay_part(exam, s, part.name));
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
