/* The order that a worker gets, and the target's facts, as JSON and back. */

#include "session/internal.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

static void cookie_text(const uint8_t cookie[16], char ret[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", cookie[i]);
}

json_t *spec_parameters(const struct profiler *profiler, const struct params *params)
{
	json_t *o = json_object();
	for (size_t i = 0; i < profiler->n_params; i++) {
		const char *key = profiler->params[i].key;
		json_object_set_new(o, key, json_string(params_text(params, key)));
	}
	return o;
}

struct err *spec_set_parameters(const struct profiler *profiler, struct params *params, const json_t *object)
{
	/* jansson's iterator takes no const. */
	void *it = json_object_iter((json_t *)(uintptr_t)object);
	for (; it; it = json_object_iter_next((json_t *)(uintptr_t)object, it)) {
		/* A session of an older program may name a parameter that is gone since. */
		if (!profiler_param(profiler, json_object_iter_key(it)))
			continue;
		const char *value = json_string_value(json_object_iter_value(it));
		if (!value)
			return err_new(ERR_BAD_DATA, "parameter '%s' has no text", json_object_iter_key(it));
		TRY(params_set(params, json_object_iter_key(it), value));
	}
	return NULL;
}

static void write_json(struct jsonw *w, const char *key, json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT);
	jsonw_raw(w, key, text);
	free(text);
	json_decref(value);
}

void spec_write(const struct session_spec *spec, const char *home, struct buf *out)
{
	struct jsonw w = jsonw_make(out, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "home", home);
	jsonw_str(&w, "profiler", spec->profiler->id);
	jsonw_str(&w, "way", way_name(spec->way));
	jsonw_bool(&w, "launched", spec->launched);
	jsonw_bool(&w, "keepRecording", spec->keep_recording);
	jsonw_str(&w, "recording", spec->recording);
	jsonw_str(&w, "before", spec->before);
	jsonw_str(&w, "core", spec->core);
	write_json(&w, "parameters", spec_parameters(spec->profiler, spec->params));
	if (spec->core)
		write_json(&w, "patient", spec_patient_json(spec->patient));
	if (spec->patient) {
		const struct target *t = &spec->patient->target;
		char cookie[33];
		cookie_text(spec->patient->info.cookie, cookie);
		jsonw_object(&w, "target");
		jsonw_i64(&w, "id", t->id);
		jsonw_i64(&w, "pid", t->pid);
		jsonw_u64(&w, "startTicks", t->start_ticks);
		jsonw_str(&w, "cookie", spec->patient->answered ? cookie : "");
		jsonw_object_end(&w);
	}
	jsonw_object_end(&w);
}

struct err *spec_read(const char *text, size_t len, struct worker_spec *ret)
{
	struct worker_spec s = { 0 };
	TRY(json_parse(text, len, SPEC_BYTES_MAX, &s.json));
	const json_t *target = json_object_get(s.json, "target");
	s.home = json_get_str(s.json, "home", NULL);
	s.profiler = json_get_str(s.json, "profiler", NULL);
	s.recording = json_get_str(s.json, "recording", NULL);
	s.before = json_get_str(s.json, "before", NULL);
	s.core = json_get_str(s.json, "core", NULL);
	s.keep_recording = json_get_bool(s.json, "keepRecording", false);
	s.launched = json_get_bool(s.json, "launched", false);
	s.target_id = (int)json_get_int(target, "id", 0);
	s.pid = (pid_t)json_get_int(target, "pid", 0);
	s.start_ticks = (uint64_t)json_get_int(target, "startTicks", 0);
	str_copy(s.cookie, sizeof(s.cookie), json_get_str(target, "cookie", ""));
	struct err *err = way_parse(json_get_str(s.json, "way", "auto"), &s.way);
	if (!err && (!s.home || !s.profiler || (!target && !s.recording)))
		err = err_new(ERR_BAD_DATA, "an incomplete order");
	if (err) {
		worker_spec_fini(&s);
		return err;
	}
	*ret = s;
	return NULL;
}

void worker_spec_fini(struct worker_spec *spec)
{
	json_decref(spec->json);
	*spec = (struct worker_spec){ 0 };
}

struct err *spec_check_patient(const struct worker_spec *spec, const struct patient *patient)
{
	char cookie[33];
	cookie_text(patient->info.cookie, cookie);
	bool same = patient->target.pid == spec->pid;
	if (same && spec->pid)
		same = patient->target.start_ticks == spec->start_ticks;
	if (same && spec->cookie[0] && patient->answered)
		same = str_eq(cookie, spec->cookie);
	return same ? NULL
		    : err_new(ERR_NOT_FOUND, "target %d is not the process any more that was chosen", spec->target_id);
}

static void set_text(json_t *o, const char *key, const char *s)
{
	struct buf valid = { 0 };
	if (!s)
		return;
	utf8_add_valid(&valid, s, strlen(s));
	json_object_set_new(o, key, json_string(buf_cstr(&valid)));
	buf_free(&valid);
}

/* No command line and no environment: recordings are passed on to others. */
json_t *spec_patient_json(const struct patient *p)
{
	json_t *o = json_object();
	json_object_set_new(o, "id", json_integer(p->target.id));
	json_object_set_new(o, "pid", json_integer(p->target.pid));
	set_text(o, "name", p->target.name);
	set_text(o, "container", p->target.container);
	set_text(o, "pod", p->target.pod);
	set_text(o, "entryAssembly", p->info.entry_assembly);
	set_text(o, "runtime", p->info.runtime_version);
	set_text(o, "os", p->info.os);
	set_text(o, "arch", p->info.arch);
	set_text(o, "rid", p->info.rid);
	return o;
}

static char *get_text(const json_t *o, const char *key)
{
	const char *s = json_get_str(o, key, NULL);
	return s ? mem_strndup(s, 1024) : NULL;
}

struct err *spec_read_patient(const json_t *o, struct patient *ret)
{
	if (!json_is_object(o))
		return err_new(ERR_BAD_DATA, "the recording does not say who was examined");
	*ret = (struct patient){ .answered = true };
	ret->target.id = (int)json_get_int(o, "id", 0);
	ret->target.cpu_ratio = -1;
	ret->target.name = get_text(o, "name");
	ret->target.container = get_text(o, "container");
	ret->target.pod = get_text(o, "pod");
	ret->info.entry_assembly = get_text(o, "entryAssembly");
	ret->info.runtime_version = get_text(o, "runtime");
	ret->info.os = get_text(o, "os");
	ret->info.arch = get_text(o, "arch");
	ret->info.rid = get_text(o, "rid");
	return NULL;
}

struct err *session_recorded_patient(const struct recording *r, struct patient *ret)
{
	return spec_read_patient(recording_fact(r, "patient"), ret);
}

struct err *session_recorded_params(const char *recording, const struct profiler *profiler, struct params *params)
{
	CLEANUP(recording_freep) struct recording *r = NULL;
	TRY(recording_open(recording, &r));
	if (!str_eq(json_string_value(recording_fact(r, "profiler")), profiler->id))
		return NULL;
	TRY_WRAP(spec_set_parameters(profiler, params, recording_fact(r, "parameters")), "recording '%s'", recording);
	return NULL;
}
