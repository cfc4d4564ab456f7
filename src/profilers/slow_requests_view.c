/* Requests by endpoint: how long each takes, and what its time goes to. */

#include "base/str.h"
#include "exam/profiler.h"
#include "profilers/slow_requests.h"
#include "base/clock.h"
#include <stdlib.h>

#define LEAST_REQUESTS 5 /* of an endpoint before its percentiles say anything */

enum slow_group slow_group_of(enum request_part part)
{
	switch (part) {
	case PART_GC:
		return SLOW_GC;
	case PART_CPU:
		return SLOW_CPU;
	case PART_READY:
		return SLOW_READY;
	case PART_LOCK:
		return SLOW_LOCKS;
	case PART_WAIT:
		return SLOW_BLOCKED;
	case PART_SQL:
		return SLOW_SQL;
	case PART_DNS:
	case PART_CONNECT:
	case PART_TLS:
	case PART_HTTP_QUEUE:
	case PART_HTTP_BODY:
	case PART_HTTP:
		return SLOW_HTTP;
	case PART_THREAD:
		return SLOW_THREAD;
	case PART_UNEXPLAINED:
	case REQUEST_PARTS:
		break;
	}
	return SLOW_UNEXPLAINED;
}

void slow_groups(const uint64_t parts_ns[REQUEST_PARTS], uint64_t ret_ns[SLOW_GROUPS])
{
	for (unsigned g = 0; g < SLOW_GROUPS; g++)
		ret_ns[g] = 0;
	for (unsigned part = 0; part < REQUEST_PARTS; part++)
		ret_ns[slow_group_of((enum request_part)part)] += parts_ns[part];
}

/* ---- which endpoint ---- */

/* The different methods and paths, and what each is called. */
struct slow_names {
	struct map_u64 index; /* method and path -> its place below */
	VEC(uint64_t) keys;
	VEC(char *) paths; /* template, or as grouped by us */
};

static uint64_t key_of(const struct slow_request *r)
{
	return (uint64_t)r->method << 32 | r->path;
}

static void collect_names(struct slow_names *names, const struct slow_request *requests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool new = false;
		uint64_t *index = map_u64_put(&names->index, key_of(&requests[i]), &new);
		if (!new)
			continue;
		*index = names->keys.n;
		vec_push(&names->keys, key_of(&requests[i]));
	}
}

/* Those with a template get it; the others are folded, and merged with their like. */
static void find_paths(struct slow_names *names, const struct slow *s, struct slow_view *v)
{
	VEC(char *) ours = { 0 };
	VEC(size_t) where = { 0 };
	vec_each(key, &names->keys) {
		const char *method = strtab_get(&s->texts, (uint32_t)(*key >> 32));
		const char *path = strtab_get(&s->texts, (uint32_t)*key);
		size_t route = routes_match(s->routes, method, path);
		if (route != ROUTE_NONE) {
			const char *pattern = routes_facts(s->routes, route).pattern;
			vec_push(&names->paths, mem_printf("%s%s", pattern[0] == '/' ? "" : "/", pattern));
			v->by_route++;
			continue;
		}
		CLEANUP(buf_free) struct buf folded = { 0 };
		route_fold(path, &folded);
		vec_push(&where, names->paths.n);
		vec_push(&names->paths, NULL);
		vec_push(&ours, buf_steal(&folded));
		v->by_us++;
	}
	routes_merge(ours.v, ours.n);
	for (size_t i = 0; i < ours.n; i++)
		names->paths.v[where.v[i]] = ours.v[i];
	vec_free(&ours);
	vec_free(&where);
}

static void name_endpoints(struct slow_names *names, const struct slow *s, struct slow_view *v)
{
	for (size_t i = 0; i < names->keys.n; i++) {
		const char *method = strtab_get(&s->texts, (uint32_t)(names->keys.v[i] >> 32));
		CLEANUP(mem_freep) char *name = mem_printf("%s %s", method, names->paths.v[i]);
		uint32_t endpoint = strtab_add_cstr(&v->names, name);
		if (endpoint == v->endpoints.n)
			vec_push(&v->endpoints, ((struct slow_endpoint){ .name = strtab_get(&v->names, endpoint),
									 .http = SPAN_NO_LABEL,
									 .sql = SPAN_NO_LABEL }));
		*map_u64_put(&v->by_key, names->keys.v[i], NULL) = endpoint;
		mem_free(names->paths.v[i]);
	}
}

static void find_endpoints(struct slow_view *v, const struct slow *s)
{
	struct slow_names names = { 0 };
	collect_names(&names, s->requests.v, s->requests.n);
	collect_names(&names, s->open.v, s->open.n);
	for (size_t i = 0; i < s->n_worst; i++)
		collect_names(&names, &s->worst[i].request, 1);
	find_paths(&names, s, v);
	name_endpoints(&names, s, v);
	map_u64_free(&names.index);
	vec_free(&names.keys);
	vec_free(&names.paths);
}

static uint32_t endpoint_of(const struct slow_view *v, const struct slow_request *r)
{
	return (uint32_t)*map_u64_get(&v->by_key, key_of(r));
}

const char *slow_endpoint_name(const struct slow_view *v, const struct slow_request *r)
{
	return strtab_get(&v->names, endpoint_of(v, r));
}

/* ---- how long ---- */

static const struct slow *sorting; /* qsort has no user pointer; a worker has one thread */
static const struct slow_view *sorting_view;

static uint64_t took(const struct slow *s, uint32_t request)
{
	return s->requests.v[request].to_ns - s->requests.v[request].from_ns;
}

static int by_endpoint_and_length(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return CMP(endpoint_of(sorting_view, &sorting->requests.v[x]), endpoint_of(sorting_view, &sorting->requests.v[y])) ?:
	       CMP(took(sorting, x), took(sorting, y)) ?:
	       CMP(x, y);
}

static uint64_t quantile(const struct slow_view *v, const struct slow *s, const struct slow_endpoint *e, double q)
{
	size_t at = (size_t)(q * (double)e->n + 0.999999);
	return took(s, v->order.v[e->first + MIN(MAX(at, (size_t)1), e->n) - 1]);
}

/* The mean parts of its requests number from..to-1. */
static uint64_t mean_parts(const struct slow_view *v, const struct slow *s, const struct slow_endpoint *e, size_t from,
			   size_t to, uint64_t ret_ns[REQUEST_PARTS])
{
	uint64_t all = 0;
	for (unsigned part = 0; part < REQUEST_PARTS; part++) {
		uint64_t sum = 0;
		for (size_t i = from; i < to; i++)
			sum += s->requests.v[v->order.v[e->first + i]].parts_ns[part];
		ret_ns[part] = sum / (to - from);
		all += ret_ns[part];
	}
	return all;
}

/* The label that the most time of its requests went to. */
static uint32_t main_label(const struct slow_view *v, const struct slow *s, const struct slow_endpoint *e,
			   enum request_part part)
{
	struct map_u64 times = { 0 };
	uint32_t main = SPAN_NO_LABEL;
	uint64_t most = 0;
	for (size_t i = 0; i < e->n; i++) {
		const struct slow_request *r = &s->requests.v[v->order.v[e->first + i]];
		uint32_t label = part == PART_SQL ? r->sql : r->http;
		if (label == SPAN_NO_LABEL)
			continue;
		uint64_t *ns = map_u64_put(&times, label, NULL);
		*ns += r->parts_ns[part];
		if (*ns >= most) {
			most = *ns;
			main = label;
		}
	}
	map_u64_free(&times);
	return main;
}

static void count_calls(struct slow_endpoint *e, const struct slow_view *v, const struct slow *s)
{
	uint64_t http = 0, sql = 0, each_ns = 0, groups[SLOW_GROUPS], together_ns = 0;
	for (size_t i = 0; i < e->n; i++) {
		const struct slow_request *r = &s->requests.v[v->order.v[e->first + i]];
		http += r->n_http;
		sql += r->n_sql;
		each_ns += r->http_ns;
		e->failed += r->failed;
		slow_groups(r->parts_ns, groups);
		together_ns += groups[SLOW_HTTP];
	}
	e->n_http = ratio(http, e->n);
	e->n_sql = ratio(sql, e->n);
	e->in_turn = e->n_http >= 2 && (double)each_ns <= (double)together_ns * 1.05;
	e->http = main_label(v, s, e, PART_HTTP);
	e->sql = main_label(v, s, e, PART_SQL);
}

static void sum_up(struct slow_endpoint *e, const struct slow_view *v, const struct slow *s)
{
	for (size_t i = 0; i < e->n; i++)
		e->sum_ns += took(s, v->order.v[e->first + i]);
	if (!e->n)
		return;
	e->p50_ns = quantile(v, s, e, 0.50);
	e->p95_ns = quantile(v, s, e, 0.95);
	e->p99_ns = quantile(v, s, e, 0.99);
	e->max_ns = quantile(v, s, e, 1);
	e->mean_ns = mean_parts(v, s, e, 0, e->n, e->parts_ns);
	size_t tail = e->n - e->n / 10 - (e->n < 10), end = MAX(tail + 1, e->n - e->n / 100);
	e->tail_ns = mean_parts(v, s, e, MIN(tail, e->n - 1), MIN(end, e->n), e->tail_parts_ns);
	count_calls(e, v, s);
}

static int most_time_first(const void *a, const void *b)
{
	const struct slow_endpoint *x = a, *y = b;
	return CMP(y->sum_ns, x->sum_ns) ?: CMP(y->open, x->open) ?: CMP(x->first, y->first);
}

/* Of the slow ones that which took the most time; if none is slow, the slowest. */
static void find_slowest(struct slow_view *v, uint64_t slow_ns)
{
	vec_each(e, &v->endpoints) {
		bool slow = e->n >= LEAST_REQUESTS && e->p95_ns >= slow_ns;
		if (slow && !v->is_slow) {
			v->is_slow = true;
			v->slowest = e;
		}
		if (!v->is_slow && e->n >= LEAST_REQUESTS && (!v->slowest || e->p95_ns > v->slowest->p95_ns))
			v->slowest = e;
	}
}

/* Known for a part of the requests it is known for none: what is compared must be of one kind. */
static void fold_cpu(struct slow_request *r)
{
	r->parts_ns[PART_THREAD] += r->parts_ns[PART_CPU] + r->parts_ns[PART_READY];
	r->parts_ns[PART_CPU] = r->parts_ns[PART_READY] = 0;
}

void slow_view_init(struct slow_view *v, struct slow *s)
{
	if (s->cpu.why_not) {
		vec_each(r, &s->requests)
			fold_cpu(r);
		vec_each(r, &s->open)
			fold_cpu(r);
		for (size_t i = 0; i < s->n_worst; i++)
			fold_cpu(&s->worst[i].request);
	}
	*v = (struct slow_view){ .scale = s->requests.n ? ratio(s->seen, s->requests.n) : 1 };
	find_endpoints(v, s);
	for (uint32_t i = 0; i < s->requests.n; i++)
		vec_push(&v->order, i);
	sorting = s;
	sorting_view = v;
	vec_sort(&v->order, by_endpoint_and_length);
	for (size_t i = 0; i < v->order.n; i++) {
		struct slow_endpoint *e = &v->endpoints.v[endpoint_of(v, &s->requests.v[v->order.v[i]])];
		if (!e->n++)
			e->first = i;
	}
	for (size_t i = 0; i < s->open.n; i++) {
		struct slow_endpoint *e = &v->endpoints.v[endpoint_of(v, &s->open.v[i])];
		e->open++;
		e->oldest_ns = MAX(e->oldest_ns, s->open.v[i].to_ns - s->open.v[i].from_ns);
	}
	vec_each(e, &v->endpoints) {
		sum_up(e, v, s);
		v->all_ns += e->sum_ns;
	}
	vec_sort(&v->endpoints, most_time_first);
	find_slowest(v, (uint64_t)params_int(s->exam->params, "slow_ms") * NS_PER_MS);
}

void slow_view_fini(struct slow_view *v)
{
	vec_free(&v->endpoints);
	vec_free(&v->order);
	map_u64_free(&v->by_key);
	strtab_free(&v->names);
}
