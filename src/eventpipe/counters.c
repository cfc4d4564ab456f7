#include "eventpipe/counters.h"
#include "base/clock.h"
#include "base/str.h"
#include "nettrace/fields.h"
#include <math.h>
#include <string.h>

#define QUANTILES_BYTES 256

/* What a payload said, by field name. */
struct fields {
	struct counters_event *to;
	char quantiles[QUANTILES_BYTES];
	char type[32]; /* CounterType of EventCounters */
	double mean, increment;
	int64_t start_ns, end_ns;
};

/* At most size-1 bytes, cut between characters. */
static void set_text(const struct nettrace_value *v, char *to, size_t size)
{
	struct nettrace_value cut = *v;
	CLEANUP(buf_free) struct buf text = { 0 };
	if (v->kind == NETTRACE_IS_UTF16)
		cut.utf16.n = MIN(v->utf16.n, size);
	else if (v->kind == NETTRACE_IS_UTF8)
		cut.size = MIN(v->size, size);
	if (!nettrace_value_text(&cut, &text))
		return;
	CLEANUP(buf_free) struct buf valid = { 0 };
	utf8_add_valid(&valid, buf_cstr(&text), strlen(buf_cstr(&text)));
	size_t n = MIN(valid.len, size - 1);
	while (n < valid.len && n > 0 && ((uint8_t)valid.data[n] & 0xc0) == 0x80)
		n--;
	memcpy(to, buf_cstr(&valid), n);
	to[n] = '\0';
}

static double number_of(const char *text)
{
	double x;
	return str_to_double(text, &x) ? x : NAN;
}

/* Meters write their numbers as text, EventCounters as numbers. */
static double get_number(const struct nettrace_value *v)
{
	char text[64] = "";
	double x;
	if (nettrace_value_number(v, &x))
		return isfinite(x) ? x : NAN;
	set_text(v, text, sizeof(text));
	return number_of(text);
}

static void take_text(struct fields *f, const struct nettrace_value *v)
{
	struct counters_event *e = f->to;
	const struct {
		const char *name;
		char *to;
		size_t size;
	} texts[] = {
		{ "sessionId", e->session, sizeof(e->session) },
		{ "runningSessionId", e->session, sizeof(e->session) },
		{ "clientId", e->client, sizeof(e->client) },
		{ "meterName", e->provider, sizeof(e->provider) },
		{ "instrumentName", e->name, sizeof(e->name) },
		{ "Name", e->name, sizeof(e->name) },
		{ "unit", e->unit, sizeof(e->unit) },
		{ "DisplayUnits", e->unit, sizeof(e->unit) },
		{ "DisplayName", e->display, sizeof(e->display) },
		{ "tags", e->tags, sizeof(e->tags) },
		{ "Metadata", e->tags, sizeof(e->tags) },
		{ "description", e->text, sizeof(e->text) },
		{ "errorMessage", e->text, sizeof(e->text) },
		{ "quantiles", f->quantiles, sizeof(f->quantiles) },
		{ "CounterType", f->type, sizeof(f->type) },
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (str_eq(v->name, texts[i].name))
			set_text(v, texts[i].to, texts[i].size);
}

static void take_number(struct fields *f, const struct nettrace_value *v)
{
	struct counters_event *e = f->to;
	const struct {
		const char *name;
		double *to;
	} numbers[] = {
		{ "value", &e->value },
		{ "lastValue", &e->value },
		{ "rate", &e->delta },
		{ "count", &e->count },
		{ "Count", &e->count },
		{ "sum", &e->sum },
		{ "Mean", &f->mean },
		{ "Increment", &f->increment },
		{ "IntervalSec", &e->interval_s },
		{ "expectedRefreshInterval", &e->interval_s },
	};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (str_eq(v->name, numbers[i].name))
			*numbers[i].to = get_number(v);
	if (v->kind == NETTRACE_IS_TIME && str_eq(v->name, "intervalStartTime"))
		f->start_ns = v->i;
	if (v->kind == NETTRACE_IS_TIME && str_eq(v->name, "intervalEndTime"))
		f->end_ns = v->i;
}

/* The fields of EventCounters are in an object, which may be in another one. */
static void take_all(struct fields *f, struct nettrace_walk walk, unsigned depth)
{
	struct nettrace_value v;
	while (nettrace_walk_next(&walk, &v)) {
		if (v.kind == NETTRACE_IS_OBJECT && depth < 3) {
			take_all(f, nettrace_walk_into(&walk, &v), depth + 1);
			continue;
		}
		take_text(f, &v);
		take_number(f, &v);
	}
}

/* "0.5=1.25;0.95=3;0.99=7" */
static void read_quantiles(char *text, double ret[3])
{
	static const double wanted[] = { 0.5, 0.95, 0.99 };
	char *rest = text, *word;
	while ((word = strsep(&rest, ";"))) {
		char *equals = strchr(word, '=');
		if (!equals)
			continue;
		*equals = '\0';
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (fabs(number_of(word) - wanted[i]) < 1e-6)
				ret[i] = number_of(equals + 1);
	}
}

static bool read_event_counter(const struct nettrace_event *event, struct fields *f)
{
	struct counters_event *e = f->to;
	str_copy(e->provider, sizeof(e->provider), event->meta->provider);
	e->news = COUNTERS_VALUE;
	if (str_eq(f->type, "Sum")) {
		e->type = COUNTERS_RATE;
		e->delta = f->increment;
		return *e->name && isfinite(e->delta);
	}
	e->type = COUNTERS_GAUGE;
	/* Nothing was written in this interval: its mean of 0 was not measured. */
	e->value = e->count == 0 ? NAN : f->mean;
	return *e->name && (str_eq(f->type, "Mean") || isfinite(f->mean));
}

static const struct {
	enum counters_news news;
	enum counters_type type;
} metrics_events[] = {
	[2] = { COUNTERS_COLLECTION_START, 0 },
	[3] = { COUNTERS_COLLECTION_STOP, 0 },
	[4] = { COUNTERS_VALUE, COUNTERS_RATE },
	[5] = { COUNTERS_VALUE, COUNTERS_GAUGE },
	[6] = { COUNTERS_VALUE, COUNTERS_HISTOGRAM },
	[7] = { COUNTERS_BEGIN, 0 },
	[8] = { COUNTERS_END, 0 },
	[9] = { COUNTERS_ERROR, 0 },
	[10] = { COUNTERS_ENUMERATED, 0 },
	[11] = { COUNTERS_PUBLISHED, 0 },
	[12] = { COUNTERS_SERIES_LIMIT, 0 },
	[13] = { COUNTERS_HISTOGRAM_LIMIT, 0 },
	[14] = { COUNTERS_CALLBACK_ERROR, 0 },
	[15] = { COUNTERS_NOT_SHARED, 0 },
	[16] = { COUNTERS_VALUE, COUNTERS_UP_DOWN },
	[17] = { COUNTERS_OTHER_SETTINGS, 0 },
};

static bool read_metrics(const struct nettrace_event *event, struct fields *f)
{
	struct counters_event *e = f->to;
	uint32_t id = event->meta->event_id;
	e->news = metrics_events[id].news;
	e->type = metrics_events[id].type;
	e->meter = true;
	if (f->end_ns > f->start_ns && f->start_ns > 0)
		e->interval_s = (double)(f->end_ns - f->start_ns) / NS_PER_S;
	if (e->type == COUNTERS_HISTOGRAM)
		read_quantiles(f->quantiles, e->quantiles);
	bool about_instrument = e->news == COUNTERS_VALUE || e->news == COUNTERS_PUBLISHED ||
				e->news == COUNTERS_BEGIN || e->news == COUNTERS_END;
	return !about_instrument || (*e->provider && *e->name);
}

bool counters_decode(const struct nettrace_event *event, struct counters_event *ret)
{
	const struct nettrace_meta *meta = event->meta;
	bool metrics = str_eq(meta->provider, COUNTERS_METRICS_PROVIDER);
	*ret = (struct counters_event){
		.value = NAN, .delta = NAN, .count = NAN, .sum = NAN, .interval_s = NAN, .quantiles = { NAN, NAN, NAN }
	};
	if (metrics ? meta->event_id >= ARRAY_SIZE(metrics_events) || !metrics_events[meta->event_id].news
		    : !str_eq(meta->name, "EventCounters"))
		return false;
	struct fields f = { .to = ret, .mean = NAN, .increment = NAN };
	take_all(&f, nettrace_walk_make(event), 0);
	if (metrics ? read_metrics(event, &f) : read_event_counter(event, &f))
		return true;
	ret->news = COUNTERS_NOTHING;
	return false;
}
