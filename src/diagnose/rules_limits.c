/* Suspicions about limits other than CPU and memory: descriptors, threads of the group, ports, watchers. */

#include "base/fmt.h"
#include "diagnose/rules.h"
#include <math.h>

static double fds(const struct vitals *v)
{
	return v->of[VITALS_FDS].last / MAX(v->of[VITALS_FDS_LIMIT].last, 1.0);
}

static void say_fds(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of the %s descriptors that it may open are open (%s sockets, %s files)",
		   fmt_count((uint64_t)v->of[VITALS_FDS].last).s, fmt_count((uint64_t)v->of[VITALS_FDS_LIMIT].last).s,
		   fmt_count((uint64_t)v->of[VITALS_FDS_SOCKETS].last).s,
		   fmt_count((uint64_t)v->of[VITALS_FDS_FILES].last).s);
}

static void fds_are(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of %s", fmt_count((uint64_t)v->of[VITALS_FDS].last).s,
		   fmt_count((uint64_t)v->of[VITALS_FDS_LIMIT].last).s);
}

static double pids(const struct vitals *v)
{
	return v->of[VITALS_PIDS].last / MAX(v->of[VITALS_PIDS_LIMIT].last, 1.0);
}

static void say_pids(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of the %s threads and processes that its group may have exist",
		   fmt_count((uint64_t)v->of[VITALS_PIDS].last).s,
		   fmt_count((uint64_t)v->of[VITALS_PIDS_LIMIT].last).s);
}

static void pids_are(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of %s", fmt_count((uint64_t)v->of[VITALS_PIDS].last).s,
		   fmt_count((uint64_t)v->of[VITALS_PIDS_LIMIT].last).s);
}

#define INOTIFY_MORE 5	  /* in the window */
#define INOTIFY_GROWS 0.9 /* as serious as that share of the limit */

static double inotify(const struct vitals *v)
{
	const struct vital *n = &v->of[VITALS_FDS_INOTIFY];
	/* Nobody needs more and more of them: it will use up the limit, and soon. */
	double grows = n->last - n->first >= INOTIFY_MORE ? INOTIFY_GROWS : 0;
	double limit = MAX(v->of[VITALS_INOTIFY_LIMIT].last, 1.0);
	return MAX(n->last / limit, grows);
}

static void say_inotify(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "it has %s of the %s inotify instances that its user may have",
		   fmt_count((uint64_t)v->of[VITALS_FDS_INOTIFY].last).s,
		   fmt_count((uint64_t)v->of[VITALS_INOTIFY_LIMIT].last).s);
	const struct vital *n = &v->of[VITALS_FDS_INOTIFY];
	if (n->last - n->first >= INOTIFY_MORE)
		buf_printf(out,
			   ", %s more than when the look began: settings that are loaded again and again with "
			   "reloadOnChange, or file watchers that nobody disposes",
			   fmt_count((uint64_t)(n->last - n->first)).s);
}

static void inotify_is(const struct vitals *v, double measured UNUSED, struct buf *out)
{
	buf_printf(out, "%s of %s", fmt_count((uint64_t)v->of[VITALS_FDS_INOTIFY].last).s,
		   fmt_count((uint64_t)v->of[VITALS_INOTIFY_LIMIT].last).s);
}

/* At both ends of the window: one that is about to be closed is no leak. */
static double close_wait(const struct vitals *v)
{
	return v->of[VITALS_SOCKETS_CLOSE_WAIT].min;
}

static void say_close_wait(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s were closed by the other side and never by this process",
		   fmt_plural((uint64_t)measured, "connection", "connections").s);
}

static double time_wait(const struct vitals *v)
{
	return v->of[VITALS_SOCKETS_TIME_WAIT].last;
}

static void say_time_wait(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s closed connections still hold a port (TIME_WAIT): are they made anew for every request?",
		   fmt_count((uint64_t)measured).s);
}

static void count(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s", fmt_count((uint64_t)measured).s);
}

static double backlog(const struct vitals *v)
{
	return v->of[VITALS_SOCKETS_BACKLOG].min;
}

static void say_backlog(const struct vitals *v UNUSED, double measured, struct buf *out)
{
	buf_printf(out, "%s wait to be accepted", fmt_plural((uint64_t)measured, "connection", "connections").s);
}

static const char *const open_findings[] = { "files-grow",	 "many-files",	  "connections-grow",
					     "many-connections", "watchers-grow", "not-closed",
					     "descriptors-grow", "near-limit",	  NULL };
static const char *const not_closed[] = { "not-closed", NULL };

const struct rule_table rules_limits = RULES(
	{ .id = "descriptors",
	  .subject = "descriptors",
	  .needs = { VITALS_FDS, VITALS_FDS_LIMIT },
	  .n_needs = 2,
	  .info = 0.7,
	  .warning = 0.9,
	  .measure = fds,
	  .say = say_fds,
	  .ruled_out = fds_are,
	  .proof = "open-files",
	  .proven = open_findings,
	  .next = "Find what is opened and not disposed; until then raise the limit (LimitNOFILE, ulimit -n)." },
	{ .id = "group-threads",
	  .subject = "threads of its group",
	  .needs = { VITALS_PIDS, VITALS_PIDS_LIMIT },
	  .n_needs = 2,
	  .info = 0.8,
	  .warning = 0.95,
	  .measure = pids,
	  .say = say_pids,
	  .ruled_out = pids_are,
	  .unplaced = "who makes threads",
	  .next = "Raise the limit (pids.max), or find who makes threads." },
	{ .id = "inotify",
	  .subject = "inotify instances",
	  .needs = { VITALS_FDS_INOTIFY, VITALS_INOTIFY_LIMIT },
	  .n_needs = 2,
	  .info = 0.5,
	  .warning = 0.9,
	  .measure = inotify,
	  .say = say_inotify,
	  .ruled_out = inotify_is,
	  .unplaced = "who watches files",
	  .next = "Load settings without reloadOnChange where nothing changes, or raise fs.inotify.max_user_instances." },
	{ .id = "connections-not-closed",
	  .subject = "connections that are not closed",
	  .needs = { VITALS_SOCKETS_CLOSE_WAIT },
	  .n_needs = 1,
	  .info = 50,
	  .warning = 500,
	  .measure = close_wait,
	  .say = say_close_wait,
	  .ruled_out = count,
	  .proof = "open-files",
	  .proven = not_closed,
	  .next = "Dispose responses and connections on every path, also after an exception." },
	{ .id = "ports-held",
	  .subject = "ports of closed connections",
	  .needs = { VITALS_SOCKETS_TIME_WAIT },
	  .n_needs = 1,
	  .info = 5000,
	  .warning = 20000,
	  .most = SCORE_ASIDE, /* of the whole network namespace */
	  .measure = time_wait,
	  .say = say_time_wait,
	  .ruled_out = count,
	  .next = "Share one HttpClient, or take it from IHttpClientFactory." },
	{ .id = "not-accepted",
	  .subject = "connections that wait to be accepted",
	  .needs = { VITALS_SOCKETS_BACKLOG },
	  .n_needs = 1,
	  .info = 1,
	  .warning = 20,
	  .measure = backlog,
	  .say = say_backlog,
	  .ruled_out = count,
	  .unplaced = "what keeps it from accepting connections",
	  .next = "Find what keeps the process from accepting: the pool, the CPU, or a full stop." });
