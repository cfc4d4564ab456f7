#include "counters/source.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "eventpipe/counters.h"
#include "eventpipe/session.h"
#include "eventpipe/settle.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_MB 16
#define MAX_NAMES 4000 /* names remembered to tell what there is */
#define MAX_NOTES 32
#define LIST_MAX 24		   /* names in one sentence */
#define QUIET_NS (150 * NS_PER_MS) /* the counters of a provider come in one go */
#define LEVEL_COUNTERS 1	   /* EventCounters are written always; nothing else of that provider is asked for */
#define KEYWORD_COUNTERS ((uint64_t)1 << 43)
#define LEVEL_METERS 4
#define STOP_MS 4000
#define SHARED "SHARED"

const char *const counters_usual[COUNTERS_USUAL_MAX] = {
	"System.Runtime",
	"Microsoft.AspNetCore.Hosting",
	"Microsoft-AspNetCore-Server-Kestrel",
	"Microsoft.AspNetCore.Http.Connections",
	"Microsoft.AspNetCore.RateLimiting",
	"System.Net.Http",
	"System.Net.NameResolution",
	"System.Net.Security",
	"System.Net.Sockets",
	"Microsoft.EntityFrameworkCore",
	"Microsoft.Data.SqlClient.EventSource",
	"Npgsql",
	"Grpc.AspNetCore.Server",
	"Grpc.Net.Client",
};

struct counters {
	const struct counters_want *want;
	char *socket;
	struct series_set *set;
	struct eventpipe_session *counters, *meters;
	bool counters_ended, meters_ended;
	char client[40];
	uint64_t opened_ns, interval_ns;
	/* Of the meters. */
	bool enumerated, collecting, refused;
	uint64_t collections, collected_ns;
	double collection_s;
	int64_t collection_when_ns;
	/* Of the EventCounters. */
	bool dirty;
	uint64_t heard_ns, batches, heard_before; /* heard_before: how many names by the end of the last batch */
	bool settled;				  /* a batch brought no new name: the one before was not cut short */
	bool fallen_back, stopping;
	uint64_t ticks, ticked_ns;
	int64_t ticked_real_ns;
	struct strtab published; /* "meter\0instrument" */
	struct strtab heard;	 /* EventCounters that came: "provider\0name" */
	struct strtab notes;
};

static void note(struct counters *c, const char *fmt, ...) PRINTF(2, 3);
static void note(struct counters *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	if (c->notes.n < MAX_NOTES)
		strtab_add_cstr(&c->notes, text);
}

/* ---- what is wanted ---- */

static bool group_has(const struct counters_group *g, const char *name)
{
	for (size_t i = 0; i < g->n_items; i++)
		if (str_eq_nocase(g->items[i], name))
			return true;
	return g->n_items == 0;
}

static bool groups_have(const struct counters_group *groups, size_t n, const char *provider, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq_nocase(groups[i].name, provider) && group_has(&groups[i], name))
			return true;
	return false;
}

static bool wanted(const struct counters *c, const struct counters_event *e)
{
	const struct counters_want *w = c->want;
	if (e->meter)
		return w->all_meters || groups_have(w->meters, w->n_meters, e->provider, e->name);
	return groups_have(w->counters, w->n_counters, e->provider, e->name) ||
	       (c->fallen_back && groups_have(w->instead, 1, e->provider, e->name));
}

static void remember(struct strtab *names, const char *provider, const char *name)
{
	CLEANUP(buf_free) struct buf joined = { 0 };
	buf_add(&joined, provider, strlen(provider) + 1);
	buf_str(&joined, name);
	if (names->n < MAX_NAMES)
		strtab_add(names, joined.data, joined.len);
}

/* ---- events in ---- */

/* Two of the runtime's own instruments are declared as counters that only grow, and do not. */
static bool is_misnamed(const struct counters_event *e)
{
	return e->meter && e->type == COUNTERS_RATE && str_eq(e->provider, "System.Runtime") &&
	       (str_eq(e->name, "dotnet.thread_pool.thread.count") ||
		str_eq(e->name, "dotnet.thread_pool.queue.length"));
}

static void keep(struct counters *c, const struct counters_event *e)
{
	static const enum series_kind kinds[] = {
		[COUNTERS_GAUGE] = SERIES_GAUGE,
		[COUNTERS_RATE] = SERIES_RATE,
		[COUNTERS_UP_DOWN] = SERIES_GAUGE,
		[COUNTERS_HISTOGRAM] = SERIES_HISTOGRAM,
	};
	struct series_info info = { .display = e->display, .unit = e->unit, .kind = kinds[e->type], .meter = e->meter };
	struct series *s = series_put(
		c->set, (struct series_key){ .provider = e->provider, .name = e->name, .tags = e->tags }, &info);
	if (!s && series_refused(c->set))
		note(c, "more counters come than are kept: further ones are missing (choose with --counter or --meter "
			"'NAME[a,b]')");
	if (!s)
		return;
	double seconds = e->meter ? c->collection_s : e->interval_s;
	if (!(seconds > 0))
		seconds = (double)c->interval_ns / NS_PER_S;
	double v[SERIES_COLUMNS_MAX] = { NAN, NAN, NAN, NAN, NAN };
	if (e->type == COUNTERS_RATE) {
		v[SERIES_PER_SECOND] = e->delta / seconds;
		/* EventCounters have no total: this is the one since we began. */
		double before = isfinite(s->last[SERIES_TOTAL]) ? s->last[SERIES_TOTAL] : 0;
		v[SERIES_TOTAL] = isfinite(e->value) ? e->value : isfinite(e->delta) ? before + e->delta : NAN;
	} else if (e->type == COUNTERS_HISTOGRAM) {
		memcpy(v, e->quantiles, sizeof(e->quantiles));
		v[SERIES_COUNT_PER_SECOND] = e->count / seconds;
		v[SERIES_MEAN] = e->count > 0 ? e->sum / e->count : NAN;
	} else {
		v[SERIES_VALUE] = e->value;
	}
	series_add(c->set, s, e->meter ? c->collection_when_ns : clock_real_ns(), v);
}

static void on_value(struct counters *c, const struct counters_event *e)
{
	if (!e->meter) {
		remember(&c->heard, e->provider, e->name);
		c->dirty = true;
		c->heard_ns = clock_mono_ns();
	}
	if (wanted(c, e))
		keep(c, e);
}

static void tick(struct counters *c)
{
	c->ticks++;
	c->ticked_ns = clock_mono_ns();
	c->ticked_real_ns = clock_real_ns();
}

static void begin_collection(struct counters *c, const struct counters_event *e)
{
	c->collecting = true;
	c->collection_s = e->interval_s;
	c->collection_when_ns = clock_real_ns();
	/* The first session of a process decides the interval. */
	if (e->interval_s >= 0.05 && e->interval_s < 86400)
		c->interval_ns = (uint64_t)(e->interval_s * NS_PER_S);
}

static void end_collection(struct counters *c)
{
	c->collecting = false;
	c->collections++;
	c->collected_ns = clock_mono_ns();
	tick(c);
}

static void refuse(struct counters *c, const struct counters_event *e)
{
	if (e->news == COUNTERS_NOT_SHARED && !str_eq(e->session, SHARED)) {
		c->refused = true;
		note(c, "another tool listens to the meters of this process and does not share them: only what it "
			"asked for "
			"can be seen, at its pace");
	} else if (e->news == COUNTERS_OTHER_SETTINGS && str_eq(e->client, c->client)) {
		c->refused = true;
		note(c,
		     "another tool listens to the meters of this process every %s s, and the runtime allows one pace: "
		     "only "
		     "what it asked for can be seen; leave out --interval to join it",
		     fmin(e->interval_s, 1e6) > 0 ? fmt_number(e->interval_s).s : "few");
	}
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct counters *c = user;
	struct counters_event e;
	if (!counters_decode(event, &e))
		return;
	switch (e.news) {
	case COUNTERS_VALUE:
		if (is_misnamed(&e))
			e.type = COUNTERS_GAUGE;
		on_value(c, &e);
		break;
	case COUNTERS_PUBLISHED:
	case COUNTERS_BEGIN:
		remember(&c->published, e.provider, e.name);
		break;
	case COUNTERS_COLLECTION_START:
		begin_collection(c, &e);
		break;
	case COUNTERS_COLLECTION_STOP:
		end_collection(c);
		break;
	case COUNTERS_ENUMERATED:
		c->enumerated = true;
		break;
	case COUNTERS_SERIES_LIMIT:
		note(c, "the runtime's limit of 1,000 meter series is reached: further ones are missing (choose with "
			"--meter 'NAME[instrument]')");
		break;
	case COUNTERS_HISTOGRAM_LIMIT:
		note(c, "the runtime's limit of histograms is reached: further ones are missing (choose with --meter "
			"'NAME[instrument]')");
		break;
	case COUNTERS_CALLBACK_ERROR:
		note(c, "the app's own code failed to give a value: %.200s", e.text);
		break;
	case COUNTERS_ERROR:
		note(c, "the runtime failed to give the meters: %.200s", e.text);
		break;
	case COUNTERS_NOT_SHARED:
	case COUNTERS_OTHER_SETTINGS:
		refuse(c, &e);
		break;
	case COUNTERS_NOTHING:
	case COUNTERS_END:
		break;
	}
}

/* ---- sessions ---- */

static struct err *open_session(struct counters *c, const struct ipc_provider *providers, size_t n,
				struct deadline deadline, struct eventpipe_session **ret)
{
	const struct ipc_trace_config config = { .buffer_mb = BUFFER_MB, .providers = providers, .n_providers = n };
	/* All events come from one thread in order, so there is no need to wait for other threads' events. */
	const struct nettrace_options options = { .unordered = true, .max_meta_bytes = 4 << 20 };
	const struct eventpipe_sink sink = { .callbacks = { .event = on_event }, .user = c };
	return eventpipe_open(c->socket, &config, &options, &sink, deadline, ret);
}

static struct err *open_counters(struct counters *c, const struct counters_group *groups, size_t n,
				 struct deadline deadline)
{
	CLEANUP(mem_freep)
	char *args = mem_printf("EventCounterIntervalSec=%g", (double)c->want->interval_ms / 1e3);
	VEC(struct ipc_provider) providers = { 0 };
	for (size_t i = 0; i < n; i++)
		vec_push(&providers, ((struct ipc_provider){ .name = groups[i].name,
							     .keywords = KEYWORD_COUNTERS,
							     .level = LEVEL_COUNTERS,
							     .args = args }));
	struct err *err = open_session(c, providers.v, providers.n, deadline, &c->counters);
	vec_free(&providers);
	return err;
}

static void add_metrics(const struct counters_want *want, struct buf *out)
{
	buf_str(out, "Metrics=");
	if (want->all_meters && want->wildcard)
		buf_str(out, "*");
	for (size_t i = 0; i < want->n_meters && !want->all_meters; i++) {
		const struct counters_group *g = &want->meters[i];
		for (size_t k = 0; k < g->n_items; k++)
			buf_printf(out, "%s\\%s,", g->name, g->items[k]);
		if (!g->n_items)
			buf_printf(out, "%s,", g->name);
	}
}

static void add_published(const struct counters *c, struct buf *out)
{
	struct strtab meters = { 0 };
	for (size_t i = 0; i < c->published.n; i++)
		strtab_add_cstr(&meters, strtab_get(&c->published, (uint32_t)i)); /* ends at the first NUL */
	for (size_t i = 0; i < meters.n; i++) {
		const char *name = strtab_get(&meters, (uint32_t)i);
		if (!strpbrk(name, ",;\\=\"\r\n"))
			buf_printf(out, "%s,", name);
	}
	strtab_free(&meters);
}

/* Limits are not given, and the interval only when it is an unusual one: what is not said cannot contradict a listener
 * that is there already. */
static struct err *open_meters(struct counters *c, bool discover, struct deadline deadline)
{
	CLEANUP(buf_free) struct buf args = { 0 };
	buf_printf(&args, "SessionId=" SHARED ";ClientId=%s%s;", c->client, discover ? "-names" : "");
	if (c->want->interval_ms != COUNTERS_INTERVAL_MS && !discover)
		buf_printf(&args, "RefreshInterval=%g;", (double)c->want->interval_ms / 1e3);
	add_metrics(c->want, &args);
	if (c->want->all_meters && !c->want->wildcard && !discover)
		add_published(c, &args);
	const struct ipc_provider provider = { .name = COUNTERS_METRICS_PROVIDER,
					       .keywords = COUNTERS_TIME_SERIES | COUNTERS_PUBLISHING,
					       .level = LEVEL_METERS,
					       .args = buf_cstr(&args) };
	return open_session(c, &provider, 1, deadline, &c->meters);
}

void counters_free(struct counters *c)
{
	if (!c)
		return;
	eventpipe_free(c->counters);
	eventpipe_free(c->meters);
	series_set_free(c->set);
	strtab_free(&c->published);
	strtab_free(&c->heard);
	strtab_free(&c->notes);
	mem_free(c->socket);
	mem_free(c);
}

size_t counters_fds(const struct counters *c, struct pollfd ret[COUNTERS_MAX_FDS])
{
	size_t n = 0;
	if (c->meters && !c->meters_ended)
		ret[n++] = (struct pollfd){ .fd = eventpipe_fd(c->meters), .events = POLLIN };
	if (c->counters && !c->counters_ended)
		ret[n++] = (struct pollfd){ .fd = eventpipe_fd(c->counters), .events = POLLIN };
	return n;
}

/* Do collections of the meters mark the intervals? */
static bool meters_lead(const struct counters *c)
{
	return c->meters && !c->meters_ended && !c->refused;
}

/* When an interval counts as over although no event says so. */
static uint64_t silent_at(const struct counters *c)
{
	return c->ticked_ns + c->interval_ns * 3 / 2 + 500 * NS_PER_MS;
}

static uint64_t quiet_at(const struct counters *c)
{
	return MAX(c->heard_ns + QUIET_NS, c->ticked_ns + c->interval_ns / 2);
}

struct deadline counters_due(const struct counters *c)
{
	uint64_t at = silent_at(c);
	if (c->dirty)
		at = MIN(at, quiet_at(c));
	return (struct deadline){ at };
}

static void look_at_clock(struct counters *c)
{
	uint64_t now = clock_mono_ns();
	if (c->dirty && now >= quiet_at(c)) {
		c->dirty = false;
		c->settled |= c->batches++ && c->heard.n == c->heard_before;
		c->heard_before = c->heard.n;
		if (!meters_lead(c))
			tick(c);
	}
	if (now >= silent_at(c))
		tick(c);
}

static struct err *pump_one(struct eventpipe_session *s, bool *ended)
{
	if (!s || *ended)
		return NULL;
	return eventpipe_pump(s, ended);
}

/* The meters are another's: its EventCounters say the same about the runtime. */
static struct err *fall_back(struct counters *c)
{
	if (!c->refused || c->fallen_back || !c->want->instead || c->counters || c->stopping)
		return NULL;
	c->fallen_back = true;
	note(c, "the EventCounters of %s are shown instead of its meter", c->want->instead->name);
	return open_counters(c, c->want->instead, 1, deadline_in_ms(3000));
}

struct err *counters_pump(struct counters *c, bool *ret_ended)
{
	TRY_WRAP(pump_one(c->meters, &c->meters_ended), "the stream of meters is damaged");
	TRY_WRAP(pump_one(c->counters, &c->counters_ended), "the stream of counters is damaged");
	look_at_clock(c);
	*ret_ended = (!c->meters || c->meters_ended) && (!c->counters || c->counters_ended);
	return *ret_ended ? NULL : fall_back(c);
}

/* Between two collections, with time to spare. */
static bool may_stop(const struct counters *c)
{
	if (!c->meters || c->meters_ended || c->refused)
		return true;
	uint64_t since = clock_mono_ns() - c->collected_ns, second = NS_PER_S;
	uint64_t room = MAX(c->interval_ns / 2, c->interval_ns > second ? c->interval_ns - second : 0);
	return c->enumerated && c->collections > 0 && !c->collecting && since < room;
}

static struct err *pump_until(struct counters *c, struct deadline deadline, int hurry_fd,
			      bool (*done)(const struct counters *), bool *ret_ended)
{
	*ret_ended = false;
	while (!*ret_ended && !done(c) && !deadline_passed(deadline)) {
		struct pollfd fds[COUNTERS_MAX_FDS + 1];
		size_t n = counters_fds(c, fds);
		fds[n] = (struct pollfd){ .fd = hurry_fd, .events = POLLIN };
		if (poll(fds, n + 1, deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			return err_errno(errno, "poll");
		if (fds[n].revents)
			return NULL;
		TRY(counters_pump(c, ret_ended));
	}
	return NULL;
}

static bool never(const struct counters *c UNUSED)
{
	return false;
}

struct err *counters_stop(struct counters *c, struct deadline deadline, int hurry_fd)
{
	bool ended;
	c->stopping = true;
	TRY(pump_until(c, deadline, hurry_fd, may_stop, &ended));
	struct deadline end = deadline_in_ms(STOP_MS);
	if (c->counters && !c->counters_ended)
		TRY(eventpipe_stop(c->counters, end));
	if (c->meters && !c->meters_ended)
		TRY(eventpipe_stop(c->meters, end));
	TRY(pump_until(c, end, -1, never, &ended));
	return ended ? NULL : err_new(ERR_TIMEOUT, "the runtime did not confirm the end of the session");
}

static bool discovered(const struct counters *c)
{
	return c->refused || (c->enumerated && c->collections > 0);
}

/* An older runtime must be given every meter by name: a first session lists them. */
static struct err *discover(struct counters *c, struct deadline deadline)
{
	bool ended;
	TRY(open_meters(c, true, deadline));
	TRY(pump_until(c, deadline, -1, discovered, &ended));
	TRY(counters_stop(c, deadline, -1));
	eventpipe_free(STEAL(c->meters));
	c->meters_ended = c->stopping = c->refused = c->enumerated = false;
	c->collections = c->ticks = 0;
	c->opened_ns = c->ticked_ns = clock_mono_ns();
	return NULL;
}

bool counters_unasked_bearable(const char *socket)
{
	return settle_age_ms(socket) >= SETTLE_UNASKED_MS;
}

struct err *counters_open(const char *socket, const struct counters_want *want, struct deadline deadline,
			  struct counters **ret)
{
	CLEANUP(counters_freep) struct counters *c = mem_zalloc(sizeof(*c));
	c->want = want;
	c->socket = mem_strdup(socket);
	c->set = series_set_new(NULL);
	c->opened_ns = c->ticked_ns = clock_mono_ns();
	c->interval_ns = want->interval_ms * NS_PER_MS;
	c->collection_s = NAN;
	snprintf(c->client, sizeof(c->client), "drdotnet-%d-%llx", (int)getpid(), (unsigned long long)c->opened_ns);
	if (want->all_meters && !want->wildcard)
		TRY(discover(c, deadline));
	if (want->n_meters || want->all_meters)
		TRY(open_meters(c, false, deadline));
	if (want->n_counters)
		TRY(open_counters(c, want->counters, want->n_counters, deadline));
	*ret = STEAL(c);
	return NULL;
}

/* ---- what there is ---- */

struct series_set *counters_series(struct counters *c)
{
	return c->set;
}

uint64_t counters_ticks(const struct counters *c)
{
	return c->ticks;
}

static bool all_optional(const struct counters_want *w)
{
	for (size_t i = 0; i < w->n_counters; i++)
		if (!w->counters[i].optional)
			return false;
	return w->all_meters; /* whose collections take long enough for those that are there */
}

bool counters_complete(const struct counters *c)
{
	bool waited = clock_mono_ns() > c->opened_ns + 3 * c->interval_ns + 2 * NS_PER_S;
	bool meters = !c->meters || c->refused || c->collections >= 2;
	/* Where the machine is busy a batch may come in pieces. */
	bool counters = !c->counters || c->settled || all_optional(c->want);
	return c->ticks && (waited || (meters && counters));
}

uint64_t counters_interval_ms(const struct counters *c)
{
	return (c->interval_ns + NS_PER_MS / 2) / NS_PER_MS;
}

bool counters_fresh(const struct counters *c, const struct series *s)
{
	return s->n && s->last_ns + (int64_t)(c->interval_ns * 2) > c->ticked_real_ns;
}

uint64_t counters_lost(const struct counters *c)
{
	uint64_t lost = 0;
	if (c->meters)
		lost += nettrace_reader_stats(eventpipe_reader(c->meters))->lost;
	if (c->counters)
		lost += nettrace_reader_stats(eventpipe_reader(c->counters))->lost;
	return lost;
}

const char *counters_note(const struct counters *c, size_t i)
{
	return i < c->notes.n ? strtab_get(&c->notes, (uint32_t)i) : NULL;
}

/* The second parts of all names whose first part is `provider`, or all first parts when it is NULL. */
static size_t list_names(const struct strtab *names, const char *provider, struct buf *out)
{
	struct strtab listed = { 0 };
	for (size_t i = 0; i < names->n; i++) {
		const char *first = strtab_get(names, (uint32_t)i), *second = first + strlen(first) + 1;
		if (!provider)
			strtab_add_cstr(&listed, first);
		else if (str_eq_nocase(first, provider))
			strtab_add_cstr(&listed, second);
	}
	for (size_t i = 0; i < MIN(listed.n, (size_t)LIST_MAX); i++)
		buf_printf(out, "%s%s", i ? ", " : "", strtab_get(&listed, (uint32_t)i));
	size_t n = listed.n;
	if (n > LIST_MAX)
		buf_printf(out, " and %zu more", n - LIST_MAX);
	strtab_free(&listed);
	return n;
}

static bool is_known(const struct strtab *names, const char *provider, const char *item)
{
	for (size_t i = 0; i < names->n; i++) {
		const char *first = strtab_get(names, (uint32_t)i), *second = first + strlen(first) + 1;
		if (str_eq_nocase(first, provider) && (!item || str_eq_nocase(second, item)))
			return true;
	}
	return false;
}

static void missing_items(const struct strtab *names, const struct counters_group *g, const char *what, struct buf *out)
{
	for (size_t i = 0; i < g->n_items; i++) {
		if (is_known(names, g->name, g->items[i]))
			continue;
		buf_printf(out, "%s has no %s called '%s'; it has: ", g->name, what, g->items[i]);
		list_names(names, g->name, out);
		buf_char(out, '\n');
	}
}

void counters_missing(const struct counters *c, struct buf *out)
{
	const struct counters_want *w = c->want;
	for (size_t i = 0; i < w->n_meters && c->enumerated; i++) {
		const struct counters_group *g = &w->meters[i];
		if (is_known(&c->published, g->name, NULL)) {
			missing_items(&c->published, g, "instrument", out);
			continue;
		}
		buf_printf(out, "no meter called '%s' in this process; it has: ", g->name);
		if (!list_names(&c->published, NULL, out))
			buf_str(out, "none");
		buf_char(out, '\n');
	}
	for (size_t i = 0; i < w->n_counters && c->counters; i++) {
		const struct counters_group *g = &w->counters[i];
		if (is_known(&c->heard, g->name, NULL))
			missing_items(&c->heard, g, "counter", out);
		else if (!g->optional)
			buf_printf(out,
				   "nothing was heard from '%s': this process has no event source of that name, or one "
				   "without "
				   "counters\n",
				   g->name);
	}
}
