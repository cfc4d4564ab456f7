#include "vitals/vitals.h"
#include "base/clock.h"
#include "base/str.h"
#include <math.h>
#include <string.h>

const struct vital_info vital_infos[VITALS_N] = {
#define VITAL_INFO(name, id_, label_, unit_, source_)                                                                  \
	[VITALS_##name] = { .id = (id_), .label = (label_), .unit = VITAL_##unit_, .source = VITAL_OF_##source_ },
	VITALS(VITAL_INFO)
#undef VITAL_INFO
};

const char *vital_source_name(enum vital_source source)
{
	static const char *const names[] = { "/proc", "cgroup", "counters", "events" };
	return names[source];
}

void vitals_fini(struct vitals *v)
{
	for (size_t i = 0; i < VITALS_N; i++) {
		mem_free(v->of[i].why);
		vec_free(&v->of[i].points);
	}
	*v = (struct vitals){ 0 };
}

void vitals_add(struct vitals *v, enum vital_id id, uint64_t at_ns, double value)
{
	struct vital *s = &v->of[id];
	if (!isfinite(value))
		return;
	if (!s->n) {
		s->first = s->min = s->max = value;
		mem_free(STEAL(s->why)); /* there was none until now */
		s->absent = false;
	}
	s->min = MIN(s->min, value);
	s->max = MAX(s->max, value);
	s->sum += value;
	s->last = value;
	s->n++;
	if (s->points.n < VITAL_POINTS_MAX)
		vec_push(&s->points, ((struct vital_point){ at_ns, value }));
}

void vitals_total(struct vitals *v, enum vital_id id, uint64_t at_ns, double value)
{
	struct vital *s = &v->of[id];
	s->sum = 0;
	s->n = 0;
	s->points.n = 0;
	vitals_add(v, id, at_ns, value);
}

void vitals_lack(struct vitals *v, enum vital_id id, const char *why)
{
	if (!v->of[id].why)
		v->of[id].why = mem_strdup(why);
}

void vitals_absent(struct vitals *v, enum vital_id id, const char *why)
{
	if (v->of[id].n || v->of[id].why)
		return;
	vitals_lack(v, id, why);
	v->of[id].absent = true;
}

void vitals_lack_source(struct vitals *v, enum vital_source source, const char *why)
{
	for (size_t i = 0; i < VITALS_N; i++)
		if (vital_infos[i].source == source && !v->of[i].n)
			vitals_lack(v, (enum vital_id)i, why);
}

bool vitals_has(const struct vitals *v, enum vital_id id)
{
	return v->of[id].n > 0;
}

double vitals_mean(const struct vitals *v, enum vital_id id)
{
	return v->of[id].n ? v->of[id].sum / v->of[id].n : NAN;
}

double vitals_slope(const struct vitals *v, enum vital_id id)
{
	const struct vital *s = &v->of[id];
	if (s->points.n < 2 || vec_last(&s->points).at_ns <= s->points.v[0].at_ns)
		return NAN;
	double seconds = (double)(vec_last(&s->points).at_ns - s->points.v[0].at_ns) / NS_PER_S;
	return (vec_last(&s->points).value - s->points.v[0].value) / seconds;
}

/* ---- in a recording ---- */

static bool is_kernels(size_t id)
{
	return vital_infos[id].source == VITAL_OF_PROC || vital_infos[id].source == VITAL_OF_CGROUP;
}

static json_t *signal_json(const struct vital *s)
{
	json_t *points = json_array(), *o = json_object();
	vec_each(p, &s->points)
		json_array_append_new(points, json_pack("[I, f]", (json_int_t)p->at_ns, p->value));
	json_object_set_new(o, "points", points);
	if (s->why)
		json_object_set_new(o, "why", json_string(s->why));
	if (s->absent)
		json_object_set_new(o, "absent", json_true());
	return o;
}

json_t *vitals_json(const struct vitals *v)
{
	json_t *signals = json_object(), *threads = json_array();
	for (size_t i = 0; i < VITALS_N; i++)
		if (is_kernels(i) && (v->of[i].n || v->of[i].why))
			json_object_set_new(signals, vital_infos[i].id, signal_json(&v->of[i]));
	for (size_t i = 0; i < v->n_threads; i++) {
		const struct vitals_thread *t = &v->threads[i];
		CLEANUP(buf_free) struct buf name = { 0 };
		utf8_add_valid(&name, t->name, strlen(t->name));
		json_array_append_new(threads,
				      json_pack("{s:i, s:s, s:f, s:f, s:f}", "tid", t->tid, "name", buf_cstr(&name),
						"cpu", t->cpu, "waiting", t->waiting, "wants", t->wants));
	}
	return json_pack("{s:I, s:I, s:o, s:o}", "start_ns", (json_int_t)v->start_ns, "end_ns", (json_int_t)v->end_ns,
			 "signals", signals, "threads", threads);
}

static void read_signal(const json_t *o, struct vitals *v, enum vital_id id)
{
	const json_t *points = json_object_get(o, "points");
	const char *why = json_get_str(o, "why", NULL);
	for (size_t i = 0; i < MIN(json_array_size(points), (size_t)VITAL_POINTS_MAX); i++) {
		const json_t *p = json_array_get(points, i);
		vitals_add(v, id, (uint64_t)json_integer_value(json_array_get(p, 0)),
			   json_number_value(json_array_get(p, 1)));
	}
	if (why)
		vitals_lack(v, id, why);
	v->of[id].absent = why && json_get_bool(o, "absent", false);
}

static void read_thread(const json_t *o, struct vitals_thread *ret)
{
	*ret = (struct vitals_thread){ .tid = (int)json_get_int(o, "tid", 0),
				       .cpu = json_get_num(o, "cpu", 0),
				       .waiting = json_get_num(o, "waiting", 0),
				       .wants = json_get_num(o, "wants", 0) };
	str_copy(ret->name, sizeof(ret->name), json_get_str(o, "name", ""));
}

struct err *vitals_from_json(const json_t *json, struct vitals *ret)
{
	const json_t *signals = json_object_get(json, "signals"), *threads = json_object_get(json, "threads");
	if (!json_is_object(signals))
		return err_new(ERR_BAD_DATA, "the recording has no vital signs");
	ret->start_ns = (uint64_t)json_get_int(json, "start_ns", 0);
	ret->end_ns = (uint64_t)json_get_int(json, "end_ns", 0);
	for (size_t i = 0; i < VITALS_N; i++)
		if (is_kernels(i))
			read_signal(json_object_get(signals, vital_infos[i].id), ret, (enum vital_id)i);
	ret->n_threads = MIN(json_array_size(threads), (size_t)VITALS_THREADS_MAX);
	for (size_t i = 0; i < ret->n_threads; i++)
		read_thread(json_array_get(threads, i), &ret->threads[i]);
	return NULL;
}
