/* The report of the slow-requests profiler: verdict, endpoints, where the time of the slowest goes, its worst requests, calls. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "exam/profiler.h"
#include "profilers/slow_requests.h"
#include <stdlib.h>

#define SHARE_SAID 0.05 /* of an endpoint's time, to be in the first sentence */
#define SHARES_MAX 4
#define MANY_QUERIES 10
#define QUEUE_MUCH 0.25 /* of the time of calls that is spent in the queue for a connection */
#define STARVED 0.5	/* of the time in which its threads could run they had no CPU */
#define ENDPOINTS_SHOWN 30
#define COLUMN_LEAST 0.002 /* of all time, to have a column */
#define CALLS_SHOWN 20
#define OPEN_SHOWN 10
#define SPANS_SHOWN 20
#define SPAN_LEAST 0.005 /* of its request, to be shown */

static const char *const group_names[] = {
	[SLOW_CPU] = "CPU",   [SLOW_READY] = "Wants CPU", [SLOW_THREAD] = "Thread",
	[SLOW_GC] = "GC",     [SLOW_LOCKS] = "Locks",	  [SLOW_BLOCKED] = "Blocks",
	[SLOW_HTTP] = "HTTP", [SLOW_SQL] = "SQL",	  [SLOW_UNEXPLAINED] = "Unexplained",
};
static const char *const part_names[] = {
	[PART_GC] = "GC pauses",
	[PART_CPU] = "on a CPU",
	[PART_READY] = "wants a CPU",
	[PART_LOCK] = "waits for a lock",
	[PART_WAIT] = "blocks in a wait",
	[PART_SQL] = "SQL",
	[PART_DNS] = "DNS",
	[PART_CONNECT] = "connects",
	[PART_TLS] = "TLS handshake",
	[PART_HTTP_QUEUE] = "waits for a connection",
	[PART_HTTP_BODY] = "reads the answer",
	[PART_HTTP] = "waits for the answer",
	[PART_THREAD] = "on a thread",
	[PART_UNEXPLAINED] = "unexplained",
};

struct share {
	enum slow_group group;
	double share;
};

static int largest_first(const void *a, const void *b)
{
	const struct share *x = a, *y = b;
	return CMP(y->share, x->share) ?: CMP(x->group, y->group);
}

static void shares_of(const struct slow_endpoint *e, struct share ret[SLOW_GROUPS])
{
	uint64_t groups[SLOW_GROUPS];
	slow_groups(e->parts_ns, groups);
	for (unsigned g = 0; g < SLOW_GROUPS; g++)
		ret[g] = (struct share){ (enum slow_group)g, ratio(groups[g], e->mean_ns) };
	qsort(ret, SLOW_GROUPS, sizeof(*ret), largest_first);
}

/* ---- the verdict ---- */

static double starved(const struct slow *s)
{
	return ratio(s->delay_ns, s->cpu_ns + s->delay_ns);
}

static const char *finding_of(const struct slow *s, const struct slow_endpoint *e)
{
	struct share shares[SLOW_GROUPS];
	shares_of(e, shares);
	bool runs =
		shares[0].group == SLOW_THREAD || shares[0].group == SLOW_UNEXPLAINED || shares[0].group == SLOW_CPU;
	if (runs && starved(s) >= STARVED)
		return "cpu-starved";
	switch (shares[0].group) {
	case SLOW_HTTP:
		if ((double)e->parts_ns[PART_HTTP_QUEUE] >= shares[0].share * (double)e->mean_ns * QUEUE_MUCH)
			return "slow-by-connections";
		return e->in_turn ? "slow-by-http-in-turn" : "slow-by-http";
	case SLOW_SQL:
		return e->n_sql >= MANY_QUERIES ? "slow-by-many-queries" : "slow-by-sql";
	case SLOW_LOCKS:
		return "slow-by-locks";
	case SLOW_BLOCKED:
		return "slow-by-blocking";
	case SLOW_GC:
		return "slow-by-gc";
	case SLOW_CPU:
		return "slow-by-cpu";
	case SLOW_READY:
		return "cpu-starved";
	case SLOW_THREAD:
		return "slow-on-thread";
	case SLOW_UNEXPLAINED:
	case SLOW_GROUPS:
		break;
	}
	return "slow-unexplained";
}

static void add_calls_of_share(struct rich *text, const struct slow *s, const struct slow_endpoint *e, bool http)
{
	double calls = http ? e->n_http : e->n_sql;
	if (http && e->http != SPAN_NO_LABEL) {
		rich_text(text, " to ");
		rich_code(text, request_spans_label(s->spans, e->http));
	}
	if (calls >= 1.5)
		rich_text(text, " (%s a request%s)", fmt_number(calls).s,
			  http && e->in_turn ? ", one after the other" : "");
}

static void add_share(struct rich *text, const struct slow *s, const struct slow_endpoint *e, const struct share *share)
{
	static const char *const words[] = {
		[SLOW_CPU] = "is CPU",
		[SLOW_READY] = "waits for a CPU",
		[SLOW_THREAD] = "is on a thread",
		[SLOW_GC] = "is pauses of the GC",
		[SLOW_LOCKS] = "waits for locks",
		[SLOW_BLOCKED] = "blocks in waits",
		[SLOW_HTTP] = "waits for HTTP",
		[SLOW_SQL] = "is SQL",
		[SLOW_UNEXPLAINED] = "is unexplained",
	};
	rich_strong(text, "%s", fmt_percent(share->share).s);
	rich_text(text, " %s", words[share->group]);
	if (share->group == SLOW_HTTP || share->group == SLOW_SQL)
		add_calls_of_share(text, s, e, share->group == SLOW_HTTP);
}

static void add_shares(struct rich *text, const struct slow *s, const struct slow_endpoint *e)
{
	struct share shares[SLOW_GROUPS];
	shares_of(e, shares);
	for (size_t i = 0; i < SHARES_MAX && (!i || shares[i].share >= SHARE_SAID); i++) {
		rich_text(text, i ? ", " : "");
		add_share(text, s, e, &shares[i]);
	}
	rich_text(text, ".");
}

static const struct slow_endpoint *oldest_open(const struct slow_view *v)
{
	const struct slow_endpoint *oldest = NULL;
	vec_each(e, &v->endpoints)
		if (e->open && (!oldest || e->oldest_ns > oldest->oldest_ns))
			oldest = e;
	return oldest;
}

static void add_open(struct rich *text, const struct slow *s, const struct slow_view *v)
{
	const struct slow_endpoint *oldest = oldest_open(v);
	if (!oldest)
		return;
	rich_text(text, " %s had not ended%s ", fmt_plural(s->open_seen, "request", "requests").s,
		  s->open_seen == 1 ? ":" : ", the oldest:");
	rich_code(text, oldest->name);
	rich_text(text, " after %s.", fmt_duration_ns(oldest->oldest_ns).s);
}

static void verdict_none(struct exam *exam, const struct slow *s, struct report *report)
{
	struct rich *text = report_verdict(report, s->open_seen ? REPORT_INFO : REPORT_OK, "no-requests");
	if (s->open_seen)
		rich_text(text, "No HTTP request ended in %s; %s began and had not ended.",
			  fmt_duration_ns(exam->end_ns - exam->start_ns).s,
			  fmt_plural(s->open_seen, "one", "requests").s);
	else
		rich_text(text, "No HTTP request came in %s. Requests that began earlier are not seen.",
			  fmt_duration_ns(exam->end_ns - exam->start_ns).s);
}

static void verdict(struct exam *exam, const struct slow *s, const struct slow_view *v, struct report *report)
{
	const struct slow_endpoint *e = v->slowest;
	if (!s->seen) {
		verdict_none(exam, s, report);
		return;
	}
	const char *finding = v->is_slow ? finding_of(s, e) : "not-slow";
	struct rich *text = report_verdict(report, v->is_slow ? REPORT_WARN : REPORT_INFO, finding);
	uint64_t slow_ns = (uint64_t)params_int(exam->params, "slow_ms") * NS_PER_MS;
	const struct slow_endpoint *oldest = oldest_open(v);
	if (!v->is_slow)
		rich_text(text, "No endpoint is slow%s (%s or more at the 95th percentile).",
			  oldest && oldest->oldest_ns >= slow_ns ? " by the requests that ended" : "",
			  fmt_duration_ns(slow_ns).s);
	if (e && !v->is_slow)
		rich_text(text, " The slowest, ");
	if (!e) {
		rich_text(text, " None had more than %s.", fmt_plural(v->endpoints.v[0].n, "request", "requests").s);
	} else {
		rich_code(text, e->name);
		rich_text(text, v->is_slow ? " takes " : ", takes ");
		rich_strong(text, "%s", fmt_duration_ns(e->mean_ns).s);
		rich_text(text, " (p95 %s): ", fmt_duration_ns(e->p95_ns).s);
		add_shares(text, s, e);
	}
	if (starved(s) >= STARVED) {
		rich_text(text, " The threads of the process had no CPU for ");
		rich_strong(text, "%s", fmt_percent(starved(s)).s);
		rich_text(text, " of the time in which they could run.");
	}
	add_open(text, s, v);
	if (v->is_slow)
		report_advice(report, exam->profiler, finding);
}

/* ---- tables ---- */

static void figures(const struct exam *exam, const struct slow *s, const struct slow_view *v, struct report *report)
{
	uint64_t failed = 0, unexplained = 0, heard = s->streams[SLOW_EVENTS].open_ns;
	double seconds = (double)(s->streams[SLOW_EVENTS].bursting ? heard : exam->end_ns - exam->start_ns) / NS_PER_S;
	vec_each(r, &s->requests) {
		failed += r->failed;
		unexplained += r->parts_ns[PART_UNEXPLAINED];
	}
	char rate[96];
	snprintf(rate, sizeof(rate), "%s, %s", fmt_rate(seconds > 0 ? (double)s->seen / seconds : 0).s,
		 fmt_plural(v->endpoints.n, "endpoint", "endpoints").s);
	report_figure(report, "Requests", V_COUNT(s->seen), rate);
	if (!s->seen)
		return;
	if (v->slowest)
		report_figure(report, "Slowest p95", V_NS(v->slowest->p95_ns), "of endpoints with 5 or more requests");
	report_figure(report, "Failed", V_RATIO(ratio(failed, s->requests.n)), "an exception left the handler");
	report_figure(report, "Unexplained", V_RATIO(ratio(unexplained, v->all_ns)), "of the time of all requests");
}

/* What all requests spend their time on, most first: a narrow page leaves out the last columns. Returns how many are used. */
static size_t groups_of_all(const struct slow_view *v, struct share ret[SLOW_GROUPS])
{
	uint64_t groups[SLOW_GROUPS];
	size_t n = 0;
	for (unsigned g = 0; g < SLOW_GROUPS; g++)
		ret[g] = (struct share){ .group = (enum slow_group)g };
	vec_each(e, &v->endpoints) {
		slow_groups(e->parts_ns, groups);
		for (unsigned g = 0; g < SLOW_GROUPS; g++)
			ret[g].share += (double)groups[g] * (double)e->n;
	}
	qsort(ret, SLOW_GROUPS, sizeof(*ret), largest_first);
	while (n < SLOW_GROUPS && ret[n].share > (double)v->all_ns * COLUMN_LEAST)
		n++;
	return n;
}

static void endpoint_line(const struct slow_endpoint *e, struct report_row *row)
{
	CLEANUP(buf_free) struct buf line = { 0 };
	buf_printf(&line, "p50 %s, p99 %s, worst %s", fmt_duration_ns(e->p50_ns).s, fmt_duration_ns(e->p99_ns).s,
		   fmt_duration_ns(e->max_ns).s);
	if (e->failed)
		buf_printf(&line, "; an exception left %s of %s", fmt_count(e->failed).s, fmt_count(e->n).s);
	report_row_line(row, VALUE_TEXT, buf_cstr(&line), NULL);
}

static void endpoints_table(const struct slow_view *v, struct report *report)
{
	struct share used[SLOW_GROUPS];
	uint64_t groups[SLOW_GROUPS];
	size_t n_used = groups_of_all(v, used), shown = 0;
	struct report_table *t = report_table(report, "Endpoints");
	report_column(t, "Endpoint", VALUE_CODE, 0);
	report_column(t, "Requests", VALUE_COUNT, 0);
	report_column(t, "Mean", VALUE_NS, 0);
	report_column(t, "p95", VALUE_NS, 0);
	report_column(t, "Of all", VALUE_RATIO, COLUMN_MAIN | COLUMN_BAR);
	for (size_t i = 0; i < n_used; i++)
		report_column(t, group_names[used[i].group], VALUE_RATIO, 0);
	vec_each(e, &v->endpoints) {
		if (!e->n || shown++ >= ENDPOINTS_SHOWN)
			continue;
		struct value cells[5 + SLOW_GROUPS] = { V_CODE(e->name),
							V_COUNT((uint64_t)((double)e->n * v->scale + 0.5)),
							V_NS(e->mean_ns), V_NS(e->p95_ns),
							V_RATIO(ratio(e->sum_ns, v->all_ns)) };
		slow_groups(e->parts_ns, groups);
		for (size_t i = 0; i < n_used; i++)
			cells[5 + i] = V_RATIO(ratio(groups[used[i].group], e->mean_ns));
		endpoint_line(e, report_row(t, cells));
	}
}

/* Of the endpoint of the verdict: a mean request, and those that are slower than most. */
static void parts_table(const struct slow *s, const struct slow_view *v, struct report *report)
{
	const struct slow_endpoint *e = v->slowest;
	if (!e)
		return;
	CLEANUP(mem_freep) char *title = mem_printf("Where the time of %s goes", e->name);
	struct report_table *t = report_table(report, title);
	report_column(t, "Part", VALUE_TEXT, 0);
	report_column(t, "Mean request", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Share", VALUE_RATIO, COLUMN_BAR);
	report_column(t, "Slow request", VALUE_NS, 0);
	report_column(t, "Its share", VALUE_RATIO, 0);
	for (unsigned left = (1u << REQUEST_PARTS) - 1; left;) {
		unsigned most = REQUEST_PARTS;
		for (unsigned p = 0; p < REQUEST_PARTS; p++)
			if (left & 1u << p && (most == REQUEST_PARTS || e->parts_ns[p] > e->parts_ns[most]))
				most = p;
		left &= ~(1u << most);
		if (!e->parts_ns[most] && !e->tail_parts_ns[most])
			continue;
		bool http = slow_group_of((enum request_part)most) == SLOW_HTTP;
		CLEANUP(mem_freep) char *name = mem_printf("%s%s", http ? "HTTP: " : "", part_names[most]);
		struct report_row *row =
			report_row(t, (const struct value[]){ V_TEXT(name), V_NS(e->parts_ns[most]),
							      V_RATIO(ratio(e->parts_ns[most], e->mean_ns)),
							      V_NS(e->tail_parts_ns[most]),
							      V_RATIO(ratio(e->tail_parts_ns[most], e->tail_ns)) });
		uint32_t label = most == PART_HTTP ? e->http : most == PART_SQL ? e->sql : SPAN_NO_LABEL;
		if (label != SPAN_NO_LABEL)
			report_row_line(row, VALUE_CODE, request_spans_label(s->spans, label), "most of it");
	}
}

static int span_by_time(const void *a, const void *b)
{
	const struct request_span *x = a, *y = b;
	return CMP(x->from_ns, y->from_ns) ?: CMP(y->to_ns, x->to_ns);
}

/* Too short to matter, or a part of a time on a thread. */
static bool is_detail(const struct slow_worst *w, const struct request_span *span)
{
	uint64_t took = w->request.to_ns - w->request.from_ns;
	return span->part == PART_CPU || span->part == PART_READY ||
	       (double)(span->to_ns - span->from_ns) < (double)took * SPAN_LEAST;
}

/* What happened in it, in the order of time. */
static void waterfall(const struct slow *s, struct slow_worst *w, struct report_row *row)
{
	size_t shown = 0;
	vec_sort(&w->spans, span_by_time);
	vec_each(span, &w->spans) {
		if (is_detail(w, span) || shown++ >= SPANS_SHOWN)
			continue;
		CLEANUP(buf_free) struct buf line = { 0 };
		buf_printf(&line, "+%s  %s for %s",
			   fmt_duration_ns(span->from_ns - MIN(w->request.from_ns, span->from_ns)).s,
			   part_names[span->part], fmt_duration_ns(span->to_ns - span->from_ns).s);
		if (span->label != SPAN_NO_LABEL)
			buf_printf(&line, ": %s", request_spans_label(s->spans, span->label));
		buf_str(&line, span->failed ? " (failed)" : "");
		report_row_line(row, VALUE_CODE, buf_cstr(&line), NULL);
	}
	if (shown > SPANS_SHOWN)
		report_row_line(row, VALUE_TEXT, "further ones are not shown", NULL);
}

static void worst_table(const struct exam *exam, struct slow *s, const struct slow_view *v, struct report *report)
{
	struct report_table *t = report_table(report, "Slowest requests");
	report_column(t, "Request", VALUE_CODE, 0);
	report_column(t, "Began", VALUE_NS, 0);
	report_column(t, "Took", VALUE_NS, COLUMN_MAIN);
	report_column(t, "Mostly", VALUE_TEXT, 0);
	for (size_t i = 0; i < s->n_worst; i++) {
		struct slow_worst *w = &s->worst[i];
		uint64_t took = w->request.to_ns - w->request.from_ns;
		unsigned most = 0;
		for (unsigned p = 0; p < REQUEST_PARTS; p++)
			most = w->request.parts_ns[p] > w->request.parts_ns[most] ? p : most;
		CLEANUP(mem_freep)
		char *mostly =
			mem_printf("%s, %s", part_names[most], fmt_percent(ratio(w->request.parts_ns[most], took)).s);
		struct report_row *row = report_row(
			t, (const struct value[]){ V_CODE(slow_endpoint_name(v, &w->request)),
						   V_NS(w->request.from_ns - MIN(exam->start_ns, w->request.from_ns)),
						   V_NS(took), V_TEXT(mostly) });
		waterfall(s, w, row);
	}
}

static int call_most_first(const void *a, const void *b)
{
	const struct slow_call *x = a, *y = b;
	return CMP(dist_sum(y->times), dist_sum(x->times)) ?: CMP(x->label, y->label);
}

static void calls_table(struct slow *s, struct report *report)
{
	if (!s->calls.n)
		return;
	vec_sort(&s->calls, call_most_first);
	struct report_table *t = report_table(report, "Calls of requests");
	report_column(t, "To", VALUE_CODE, 0);
	report_column(t, "By", VALUE_TEXT, 0);
	report_column(t, "Calls", VALUE_COUNT, 0);
	report_column(t, "Failed", VALUE_COUNT, 0);
	report_column(t, "p50", VALUE_NS, 0);
	report_column(t, "p95", VALUE_NS, 0);
	report_column(t, "In all", VALUE_NS, COLUMN_MAIN);
	for (size_t i = 0; i < s->calls.n && i < CALLS_SHOWN; i++) {
		const struct slow_call *c = &s->calls.v[i];
		bool sql = c->part == PART_SQL, any = dist_count(c->times);
		report_row(t,
			   (const struct value[]){
				   V_CODE(c->label == SPAN_NO_LABEL ? "(not known)"
								    : request_spans_label(s->spans, c->label)),
				   V_TEXT(sql ? "SQL" : "HTTP"), V_COUNT(dist_count(c->times) + c->open),
				   sql ? V_NONE : V_COUNT(c->failed), any ? V_NS(dist_quantile(c->times, 0.5)) : V_NONE,
				   any ? V_NS(dist_quantile(c->times, 0.95)) : V_NONE, V_NS(dist_sum(c->times)) });
	}
}

static void open_table(const struct slow_view *v, struct report *report)
{
	struct report_table *t = NULL;
	size_t shown = 0;
	vec_each(e, &v->endpoints) {
		if (!e->open || shown++ >= OPEN_SHOWN)
			continue;
		if (!t) {
			t = report_table(report, "Began, and not ended");
			report_column(t, "Endpoint", VALUE_CODE, 0);
			report_column(t, "Requests", VALUE_COUNT, COLUMN_MAIN);
			report_column(t, "Oldest", VALUE_NS, 0);
		}
		report_row(t, (const struct value[]){ V_CODE(e->name), V_COUNT(e->open), V_NS(e->oldest_ns) });
	}
}

/* ---- how it was measured ---- */

/* Are the templates that paths were given those that the process counted? */
static void how_routes(const struct slow *s, const struct slow_view *v, struct report *report)
{
	if (!v->by_route) {
		report_how(report, "Endpoints", V_TEXT("paths grouped by us"),
			   s->streams[SLOW_ROUTES].events ? "the process told no route of theirs"
							  : "the meter of requests could not be read");
		return;
	}
	uint64_t counted = 0, other = 0;
	bool all = !s->streams[SLOW_EVENTS].bursting && s->requests.n == s->seen;
	for (size_t i = 0; i < routes_count(s->routes); i++) {
		struct route_facts route = routes_facts(s->routes, i);
		CLEANUP(mem_freep)
		char *name = mem_printf("%s %s%s", route.method, route.pattern[0] == '/' ? "" : "/", route.pattern);
		uint64_t ours = 0;
		vec_each(e, &v->endpoints)
			ours += str_eq(e->name, name) ? e->n : 0;
		counted += route.requests;
		/* The meter hears a part of the window only. */
		other += ours < route.requests ? route.requests - ours : 0;
	}
	bool differ = all && counted && (double)other > (double)counted * 0.02 + 2;
	report_how(report, "Endpoints", V_TEXT("route templates, matched to paths"),
		   differ     ? "the process counts some of them differently"
		   : v->by_us ? "paths without one are grouped by us"
			      : NULL);
}

static void how_cpu(const struct slow *s, struct report *report)
{
	if (s->cpu.why_not)
		report_how(report, "CPU", V_TEXT("not told apart"), s->cpu.why_not);
	else
		report_how(report, "CPU", V_TEXT("switches of threads"), "wants a CPU: it was taken from the thread");
}

/* What the parts are, where it is not plain. */
static void how_parts(const struct slow *s, struct report *report)
{
	how_cpu(s, report);
	report_how(
		report, "On a thread", V_TEXT("from one event of a request to the next"),
		s->cpu.why_not
			? "computing, blocking, or waiting for a CPU; what runs behind an await without an event is unexplained"
			: "off the CPU there; what runs behind an await without an event is unexplained");
	report_how(report, "SQL and HTTP", V_TEXT("from the call to its continuation"), "also waiting for a worker");
	if (s->old)
		report_how(report, "Blocking waits", V_TEXT("not seen"), "before .NET 9 they count as on a thread");
}

static void how(struct exam *exam, const struct slow *s, const struct slow_view *v, struct report *report)
{
	const struct events_stream *e = &s->streams[SLOW_EVENTS];
	const struct request_spans_counts *c = request_spans_counts(s->spans);
	report_how(report, "Way", V_TEXT("events"),
		   e->stacks_refused ? "of requests and calls; this runtime adds a stack to each"
				     : "of requests and calls, without stacks; no stop");
	if (e->bursting)
		report_how(report, "Listened", V_RATIO(ratio(e->open_ns, exam->end_ns - exam->start_ns)),
			   "of the time, to stay cheap; requests that take longer than a second are seen less often");
	report_how(report, "Lost", V_COUNT(e->lost), "events");
	if (s->seen) {
		how_routes(s, v, report);
		how_parts(s, report);
	}
	report_how(report, "Earlier requests", V_TEXT("not seen"), "those that began before the window");
	if (c->cut)
		report_how(report, "Cut", V_COUNT(c->cut),
			   "requests that were not over when it stopped listening for a while");
	if (s->requests.n < s->seen)
		report_how(report, "Kept", V_COUNT(s->requests.n), "requests, a uniform sample");
	if (c->not_kept + s->truncated)
		report_how(
			report, "Not kept", V_COUNT(c->not_kept + s->truncated),
			"more was open at once, or happened in one request, than is kept: part of it is unexplained");
	if (c->left_behind)
		report_how(report, "Left behind", V_COUNT(c->left_behind),
			   "calls of work that its request did not wait for");
	if (c->outside)
		report_how(report, "Outside", V_COUNT(c->outside), "calls of no request that was seen");
	if (c->unpaired)
		report_how(report, "Unpaired", V_COUNT(c->unpaired), "calls whose begin was not seen");
}

struct err *slow_analyse(struct exam *exam, struct report *report)
{
	struct slow *s = exam->state;
	struct slow_view v;
	slow_view_init(&v, s);
	verdict(exam, s, &v, report);
	figures(exam, s, &v, report);
	if (s->seen) {
		endpoints_table(&v, report);
		parts_table(s, &v, report);
		worst_table(exam, s, &v, report);
		calls_table(s, report);
	}
	open_table(&v, report);
	how(exam, s, &v, report);
	slow_view_fini(&v);
	return NULL;
}
