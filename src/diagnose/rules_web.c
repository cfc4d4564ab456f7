/* Suspicions about requests, in and out, and names. */

#include "base/clock.h"
#include "base/fmt.h"
#include "diagnose/rules.h"
#include <math.h>

/* In flight in every second, and few are answered: by Little's law so many seconds each. */
static double slow(const struct vitals *v)
{
	double now = v->of[VITALS_REQUESTS_NOW].min, rate = vitals_mean(v, VITALS_REQUESTS);
	return now < 4 ? 0 : now / MAX(rate, 0.5);
}

static void say_slow(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s requests are in flight and %s are answered, so one takes about %s",
		   fmt_count((uint64_t)v->of[VITALS_REQUESTS_NOW].last).s, fmt_rate(vitals_mean(v, VITALS_REQUESTS)).s,
		   fmt_duration_ns((uint64_t)(MIN(measured, 3600.0) * NS_PER_S)).s);
}

static void requests(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s, %s in flight", fmt_rate(vitals_mean(v, VITALS_REQUESTS)).s,
		   fmt_count((uint64_t)v->of[VITALS_REQUESTS_NOW].last).s);
}

/* Of the window: the counter is of all time. */
static double failed(const struct vitals *v)
{
	const struct vital *f = &v->of[VITALS_REQUESTS_FAILED];
	double all = vitals_mean(v, VITALS_REQUESTS) * (double)f->n, now = f->last - f->first;
	return now < 5 || all <= 0 ? 0 : MIN(now / all, 1.0);
}

static void say_failed(const struct vitals *v, double measured, struct buf *out)
{
	const struct vital *f = &v->of[VITALS_REQUESTS_FAILED];
	buf_printf(out, "%s failed, about %s", fmt_plural((uint64_t)(f->last - f->first), "request", "requests").s,
		   fmt_percent(measured).s);
}

static void share(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_str(out, measured > 0 ? fmt_percent(measured).s : "none");
}

static double queued(const struct vitals *v)
{
	return v->of[VITALS_KESTREL_QUEUE].min;
}

static void say_queued(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s wait in the web server's queue",
		   fmt_plural((uint64_t)measured, "connection", "connections").s);
}

static void count(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)measured).s);
}

static double http_failed(const struct vitals *v)
{
	double sent = vitals_mean(v, VITALS_HTTP_OUT), bad = vitals_mean(v, VITALS_HTTP_OUT_FAILED);
	return bad < 0.2 ? 0 : bad / MAX(sent, bad);
}

static void say_http_failed(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of the HTTP requests that it sends fail (%s)", fmt_percent(measured).s,
		   fmt_rate(vitals_mean(v, VITALS_HTTP_OUT_FAILED)).s);
}

/* Of those sent in the window, how many have no answer at its end: more and more wait. */
static double unanswered(const struct vitals *v)
{
	const struct vital *now = &v->of[VITALS_HTTP_OUT_NOW];
	double seconds = (double)(v->end_ns - v->start_ns) / 1e9, sent = vitals_mean(v, VITALS_HTTP_OUT) * seconds;
	double more = now->last - now->first;
	return more < 5 || sent <= 0 ? 0 : MIN(more / sent, 1.0);
}

static void say_unanswered(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "%s of the HTTP requests that it sent meanwhile have no answer, and %s wait now",
		   fmt_percent(measured).s, fmt_count((uint64_t)v->of[VITALS_HTTP_OUT_NOW].last).s);
}

static double http_queue(const struct vitals *v)
{
	return vitals_mean(v, VITALS_HTTP_OUT_QUEUE) / 1e6;
}

static void say_http_queue(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "HTTP requests that it sends wait %s for a free connection",
		   fmt_duration_ns((uint64_t)vitals_mean(v, VITALS_HTTP_OUT_QUEUE)).s);
}

static void ms(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_str(out, fmt_duration_ns((uint64_t)(MAX(measured, 0.0) * 1e6)).s);
}

/* Connections for each request; servers that close each of them make the same. */
static double connecting(const struct vitals *v)
{
	double sent = vitals_mean(v, VITALS_HTTP_OUT), opened = vitals_mean(v, VITALS_CONNECTED);
	return sent <= 0 || opened < 0.5 * sent ? 0 : opened;
}

static void say_connecting(const struct vitals *v, double measured, struct buf *out)
{
	buf_printf(out, "nearly each HTTP request that it sends opens a new connection: %s for %s requests",
		   fmt_rate(measured).s, fmt_rate(vitals_mean(v, VITALS_HTTP_OUT)).s);
}

static void connected(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_str(out, fmt_rate(vitals_mean(v, VITALS_CONNECTED)).s);
}

static double dns(const struct vitals *v)
{
	return v->of[VITALS_DNS].max / 1e6;
}

static void say_dns(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "looking up a name takes up to %s", fmt_duration_ns((uint64_t)v->of[VITALS_DNS].max).s);
}

static const char *const no_answers[] = { "no-answer", "stuck", "no-connection", NULL };

static const char *const connections_made[] = { "connections-made-anew", "connections-grow", "many-connections", NULL };

const struct rule_table rules_web = RULES(
	{ .id = "requests-slow",
	  .subject = "requests in flight",
	  .needs = { VITALS_REQUESTS, VITALS_REQUESTS_NOW },
	  .n_needs = 2,
	  .info = 2, /* seconds */
	  .warning = 10,
	  .most = SCORE_ASIDE, /* long polls and streams are slow by design */
	  .measure = slow,
	  .say = say_slow,
	  .ruled_out = requests,
	  .proof = "stuck-tasks",
	  .next = "Run stuck-tasks: it names what they wait for." },
	{ .id = "requests-failing",
	  .subject = "failed requests",
	  .needs = { VITALS_REQUESTS, VITALS_REQUESTS_FAILED },
	  .n_needs = 2,
	  .info = 0.05,
	  .warning = 0.3,
	  .measure = failed,
	  .say = say_failed,
	  .ruled_out = share,
	  .proof = "exceptions",
	  .next = "Run exceptions: it names what fails." },
	{ .id = "web-queue",
	  .subject = "the web server's queue",
	  .needs = { VITALS_KESTREL_QUEUE },
	  .n_needs = 1,
	  .info = 1,
	  .warning = 20,
	  .measure = queued,
	  .say = say_queued,
	  .ruled_out = count,
	  .proof = "thread-pool",
	  .next = "Run thread-pool." },
	{ .id = "http-out-failing",
	  .subject = "HTTP requests sent",
	  .needs = { VITALS_HTTP_OUT, VITALS_HTTP_OUT_FAILED },
	  .n_needs = 2,
	  .info = 0.05,
	  .warning = 0.3,
	  .measure = http_failed,
	  .say = say_http_failed,
	  .ruled_out = share,
	  .proof = "exceptions",
	  .next = "Look at what it calls; run exceptions for the messages." },
	{ .id = "http-out-unanswered",
	  .subject = "answers to HTTP requests sent",
	  .needs = { VITALS_HTTP_OUT, VITALS_HTTP_OUT_NOW },
	  .n_needs = 2,
	  .info = 0.2,
	  .warning = 0.8,
	  .most = SCORE_WARNING,
	  .measure = unanswered,
	  .say = say_unanswered,
	  .ruled_out = share,
	  .proof = "stuck-tasks",
	  .proven = no_answers,
	  .next = "Run stuck-tasks: it names who waits for which answer; give those requests a timeout." },
	{ .id = "http-out-connections",
	  .subject = "connections for HTTP requests sent",
	  .needs = { VITALS_HTTP_OUT, VITALS_CONNECTED },
	  .n_needs = 2,
	  .info = 2,
	  .warning = 20,
	  .most = SCORE_WARNING - 1, /* the other side may be to blame */
	  .measure = connecting,
	  .say = say_connecting,
	  .ruled_out = connected,
	  .proof = "open-files",
	  .proven = connections_made,
	  .next = "Share one HttpClient, or take it from IHttpClientFactory; if one is shared, the server closes its "
		  "connections after each answer." },
	{ .id = "http-out-queue",
	  .subject = "waiting for an HTTP connection",
	  .needs = { VITALS_HTTP_OUT_QUEUE },
	  .n_needs = 1,
	  .info = 50, /* ms */
	  .warning = 500,
	  .measure = http_queue,
	  .say = say_http_queue,
	  .ruled_out = ms,
	  .unplaced = "who sends the requests that wait",
	  .next = "Raise MaxConnectionsPerServer, or send fewer at once." },
	{ .id = "dns-slow",
	  .subject = "name lookups",
	  .needs = { VITALS_DNS },
	  .n_needs = 1,
	  .info = 500, /* ms */
	  .warning = 3000,
	  .measure = dns,
	  .say = say_dns,
	  .ruled_out = ms,
	  .unplaced = "who looks names up",
	  .next = "Look at the resolver (ndots and search of resolv.conf), and keep connections open." });
