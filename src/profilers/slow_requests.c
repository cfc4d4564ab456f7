/* Slow requests: which endpoints are slow, and where their time goes.
 *
 * One stream without stacks has the begin and end of requests, of the calls they make, of waits and of collections, each
 * with the id of what it belongs to; requests/spans.h joins them. A second one has the meter of requests, for the templates
 * of their routes. Where the kernel permits
 * it, the switches of its threads tell when they had a CPU. Before .NET 9 the runtime cannot leave stacks out, which makes an event ten times as expensive: then, and
 * wherever events are many, the stream is open for a fifth of the time, in seconds. */

#include "profilers/slow_requests.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "eventpipe/counters.h"
#include "exam/profiler.h"
#include "exam/proof.h"
#include "target/threads.h"
#include <string.h>

#define REQUESTS_MAX 100000
#define OPEN_MAX 2000
#define TEXTS_MAX 20000
#define CALLS_MAX 500
#define CALL_TIMES 2000
/* What an event costs the target, with and without a stack, and the share of its cores that all may cost. */
#define EVENT_OLD_NS 5000.0
#define EVENT_NS 350.0
#define COST_SHARE 0.02
#define LISTEN_SHARE 0.20
#define LISTEN_MS 1000

static const char METER_ARGS[] = "SessionId=SHARED;ClientId=drdotnet-requests;"
				 "Metrics=Microsoft.AspNetCore.Hosting\\http.server.request.duration";

/* Beyond so many different ones, those that only differ in ids are one. */
static uint32_t text_of(struct slow *s, const char *text)
{
	if (s->texts.n < TEXTS_MAX)
		return strtab_add_cstr(&s->texts, text);
	CLEANUP(buf_free) struct buf folded = { 0 };
	route_fold(text, &folded);
	uint32_t known = strtab_find(&s->texts, buf_cstr(&folded), folded.len);
	if (known != STRTAB_NONE)
		return known;
	return strtab_add_cstr(&s->texts, s->texts.n < 2 * TEXTS_MAX ? buf_cstr(&folded) : "(other paths)");
}

static void count_call(struct slow *s, const struct request_span *span)
{
	uint64_t *index = map_u64_get(&s->call_index, (uint64_t)span->part << 32 | span->label);
	if (!index) {
		if (s->calls.n >= CALLS_MAX)
			return;
		index = map_u64_put(&s->call_index, (uint64_t)span->part << 32 | span->label, NULL);
		*index = s->calls.n;
		vec_push(&s->calls, ((struct slow_call){ .label = span->label,
							 .part = (enum request_part)span->part,
							 .times = dist_new(CALL_TIMES) }));
	}
	struct slow_call *call = &s->calls.v[*index];
	call->failed += span->failed;
	call->open += span->open;
	if (!span->open)
		dist_add(call->times, span->to_ns - span->from_ns);
}

/* Of the spans of one part, what most of their time went to. */
static uint32_t main_label(const struct request_seen *seen, enum request_part part)
{
	struct map_u64 times = { 0 };
	uint32_t main = SPAN_NO_LABEL;
	uint64_t most = 0;
	for (size_t i = 0; i < seen->n_spans; i++) {
		const struct request_span *span = &seen->spans[i];
		if (span->part != part || span->label == SPAN_NO_LABEL)
			continue;
		uint64_t *ns = map_u64_put(&times, span->label, NULL);
		*ns += span->to_ns - span->from_ns;
		if (*ns > most) {
			most = *ns;
			main = span->label;
		}
	}
	map_u64_free(&times);
	return main;
}

static void keep_worst(struct slow *s, const struct slow_request *request, const struct request_seen *seen)
{
	uint64_t took = request->to_ns - request->from_ns;
	size_t at = s->n_worst;
	while (at > 0 && took > s->worst[at - 1].request.to_ns - s->worst[at - 1].request.from_ns)
		at--;
	if (at == SLOW_WORST)
		return;
	if (s->n_worst == SLOW_WORST) {
		s->n_worst--;
		vec_free(&s->worst[s->n_worst].spans);
	}
	memmove(&s->worst[at + 1], &s->worst[at], (s->n_worst - at) * sizeof(*s->worst));
	s->n_worst++;
	struct slow_worst *worst = &s->worst[at];
	*worst = (struct slow_worst){ .request = *request };
	for (size_t i = 0; i < seen->n_spans; i++)
		vec_push(&worst->spans, seen->spans[i]);
}

/* Each that ended is kept with the same probability. */
static void keep(struct slow *s, const struct slow_request *request)
{
	s->seen++;
	if (s->requests.n < REQUESTS_MAX) {
		vec_push(&s->requests, *request);
		return;
	}
	s->random = hash_u64(s->random + 1);
	uint64_t at = s->random % s->seen;
	if (at < REQUESTS_MAX)
		s->requests.v[at] = *request;
}

static void on_seen(void *user, const struct request_seen *seen)
{
	struct slow *s = user;
	struct slow_request request = { .from_ns = seen->from_ns,
					.to_ns = seen->to_ns,
					.method = text_of(s, seen->method),
					.path = text_of(s, seen->path),
					.http = main_label(seen, PART_HTTP),
					.sql = main_label(seen, PART_SQL),
					.failed = seen->failed,
					.open = seen->open,
					.truncated = seen->truncated };
	memcpy(request.parts_ns, seen->parts_ns, sizeof(request.parts_ns));
	for (size_t i = 0; i < seen->n_spans; i++) {
		const struct request_span *span = &seen->spans[i];
		if (span->part != PART_HTTP && span->part != PART_SQL)
			continue;
		count_call(s, span);
		*(span->part == PART_SQL ? &request.n_sql : &request.n_http) += 1;
		request.http_ns += span->part == PART_HTTP ? span->to_ns - span->from_ns : 0;
	}
	s->truncated += seen->truncated;
	if (seen->open) {
		s->open_seen++;
		if (s->open.n < OPEN_MAX)
			vec_push(&s->open, request);
		return;
	}
	keep(s, &request);
	keep_worst(s, &request, seen);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct slow *s = user;
	struct span_event e;
	if (s->burst != s->streams[SLOW_EVENTS].opened) {
		s->burst = s->streams[SLOW_EVENTS].opened;
		request_spans_pause(s->spans);
	}
	if (request_event(event, &s->event_texts, &e))
		request_spans_add(s->spans, &e);
}

static void on_meter(void *user, const struct nettrace_event *event)
{
	struct slow *s = user;
	struct counters_event c;
	if (!counters_decode(event, &c) || c.news != COUNTERS_VALUE || c.type != COUNTERS_HISTOGRAM ||
	    !str_eq(c.name, "http.server.request.duration") || !(c.count > 0 && c.count < 1e15))
		return;
	s->metered += (uint64_t)c.count;
	routes_add_tags(s->routes, c.tags, (uint64_t)c.count);
}

static void describe_streams(struct slow *s)
{
	static const struct ipc_provider meter = {
		.name = COUNTERS_METRICS_PROVIDER, .keywords = COUNTERS_TIME_SERIES, .level = 4, .args = METER_ARGS
	};
	double cores = s->budget.cores > 0 ? s->budget.cores : 1;
	s->streams[SLOW_EVENTS] = (struct events_stream){
		.name = "requests",
		.providers = s->providers,
		.n_providers = request_providers(exam_runtime_major(s->exam), s->providers),
		.burst_rate = cores * COST_SHARE * (double)NS_PER_S / (s->old ? EVENT_OLD_NS : EVENT_NS),
		.burst_share = LISTEN_SHARE,
		.burst_least_ms = LISTEN_MS,
		.scaled = true,
		.event = on_event,
		.user = s,
	};
	s->streams[SLOW_ROUTES] = (struct events_stream){ .name = "routes",
							  .providers = &meter,
							  .n_providers = 1,
							  .buffer_mb = 16,
							  .optional = true,
							  .event = on_meter,
							  .user = s };
}

static void slow_free(void *state)
{
	struct slow *s = state;
	request_spans_free(s->spans);
	request_texts_free(&s->event_texts);
	routes_free(s->routes);
	strtab_free(&s->texts);
	vec_free(&s->requests);
	vec_free(&s->open);
	for (size_t i = 0; i < s->n_worst; i++)
		vec_free(&s->worst[i].spans);
	vec_each(call, &s->calls)
		dist_free(call->times);
	vec_free(&s->calls);
	map_u64_free(&s->call_index);
	slow_cpu_fini(&s->cpu);
	mem_free(s);
}

/* Of all its threads: what they ran, and what they could have run had there been a CPU. */
static bool read_cpu(const struct exam *exam, uint64_t *ret_cpu_ns, uint64_t *ret_delay_ns)
{
	if (exam->replay || !target_cpu_ns(&exam->patient->target, ret_cpu_ns))
		return false;
	*ret_delay_ns = target_delay_ns(&exam->patient->target);
	return true;
}

/* Live it is kept; of a recording it is read. */
static void keep_cpu(struct slow *s)
{
	if (s->exam->replay) {
		const json_t *fact = recording_fact(s->exam->recording, "slow-requests");
		s->cpu_ns = (uint64_t)json_get_int(fact, "cpu_ns", 0);
		s->delay_ns = (uint64_t)json_get_int(fact, "delay_ns", 0);
	} else if (s->exam->recording) {
		json_t *fact =
			json_pack("{s:I, s:I}", "cpu_ns", (json_int_t)s->cpu_ns, "delay_ns", (json_int_t)s->delay_ns);
		recording_set_fact(s->exam->recording, "slow-requests", fact);
		json_decref(fact);
	}
}

static struct err *run(struct exam *exam)
{
	struct slow *s = exam->state = mem_zalloc(sizeof(*s));
	unsigned major = exam_runtime_major(exam);
	uint64_t cpu_before = 0, delay_before = 0, cpu = 0, delay = 0;
	s->exam = exam;
	s->old = major && major < 9;
	s->routes = routes_new();
	s->spans = request_spans_new(activity_form_of(major), on_seen, s);
	request_spans_tell(s->spans, slow_cpu_ran);
	cpu_budget_begin(exam, &s->budget);
	describe_streams(s);
	bool known = read_cpu(exam, &cpu_before, &delay_before);
	struct events_beside beside;
	bool switches = slow_cpu_begin(s, &beside);
	TRY(exam_events_beside(exam, s->streams, ARRAY_SIZE(s->streams), exam_duration_ms(exam),
			       switches ? &beside : NULL));
	if (known && read_cpu(exam, &cpu, &delay)) {
		s->cpu_ns = cpu - MIN(cpu_before, cpu);
		s->delay_ns = delay - MIN(delay_before, delay); /* threads may have ended */
	}
	keep_cpu(s);
	cpu_budget_end(exam, &s->budget);
	if (s->streams[SLOW_EVENTS].bursting)
		request_spans_pause(s->spans);
	request_spans_end(s->spans, exam->end_ns);
	slow_cpu_end(s);
	if (s->metered && !s->seen && !s->open_seen && !s->streams[SLOW_EVENTS].bursting)
		exam_unproven(exam, REPORT_INFO, "the process counted %s, and no event of one came",
			      fmt_plural(s->metered, "request", "requests").s);
	return NULL;
}

const struct profiler profiler_slow_requests = {
	.id = "slow-requests",
	.uuid = "4EC3BF48-91B6-4696-B4E8-49FE631E63A5",
	.name = "Slow requests",
	.chapter = CHAPTER_CPU,
	.label = "An endpoint is slow",
	.symptom = "requests are slow: which, and what do they spend their time on?",
	.description =
		"Follows every HTTP request that ASP.NET Core handles, by the ids that the runtime gives its events: per "
		"endpoint how long requests take, and how that time splits into calls over HTTP by host, SQL by statement "
		"(without its values), waits for locks, blocking waits, pauses of the GC, CPU, and lack of one. The "
		"parts add up to the time; what no event explains is shown as unexplained.",
	.cost = "no stop; some ten events a request, 0.3 µs of its CPU each (.NET 8: 5 µs); where that is more than 2 % of its "
		"cores it listens one second of five",
	.params = (const struct param[]){ PARAM_DURATION("10"),
					  { .key = "slow_ms",
					    .name = "Slow from",
					    .description =
						    "An endpoint is slow when its 95th percentile is at least this.",
					    .type = PARAM_INT,
					    .unit = "ms",
					    .default_value = "500",
					    .min = 1,
					    .max = 3600000 } },
	.n_params = 2,
	.ways = { WAY_EVENTS },
	.advice =
		(const struct advice[]){
			{ "slow-by-http",
			  "Look at the service that is called: the time is spent there, or on the way to it. "
			  "A limit of time for the call bounds it." },
			{ "slow-by-http-in-turn",
			  "The calls run one after the other: start those that do not need each other's answer "
			  "together, then await all." },
			{ "slow-by-connections",
			  "The calls wait for a connection: raise MaxConnectionsPerServer, use HTTP/2, or make fewer "
			  "calls at once." },
			{ "slow-by-sql",
			  "Look at that statement's plan in the database, and at what it waits for there." },
			{ "slow-by-many-queries",
			  "A request runs many statements: fetch the rows together (a join, Include, or one statement "
			  "for a list of keys)." },
			{ "slow-by-locks", "lock-contention names the lock, who waits and who holds it." },
			{ "slow-by-blocking",
			  "stuck-tasks and thread-pool name where threads block: await instead of .Result, "
			  ".Wait() and blocking calls." },
			{ "slow-by-gc", "gc-stats says why it collects, allocations what is allocated." },
			{ "slow-by-cpu", "cpu-hotpaths says what its threads compute." },
			{ "slow-on-thread", "off-cpu says what its threads block in, cpu-hotpaths what they compute." },
			{ "cpu-starved",
			  "Look at the machine and at the CPU limit: its threads could run and had no CPU." },
			{ "slow-unexplained",
			  "off-cpu and stuck-tasks show what is awaited: timers, semaphores, channels and clients "
			  "without events (Redis, queues) tell nothing here." },
		},
	.n_advice = 12,
	.runs = (const struct advice_run[]){ { "slow-by-locks", "lock-contention" },
					     { "slow-by-blocking", "stuck-tasks" },
					     { "slow-by-gc", "gc-stats" },
					     { "slow-by-cpu", "cpu-hotpaths" },
					     { "slow-on-thread", "off-cpu" },
					     { "slow-unexplained", "stuck-tasks" },
					     { 0 } },
	.run = run,
	.analyse = slow_analyse,
	.free_state = slow_free,
};
