#pragma once
/* The events of EventCounters and meters as the runtimes describe them, and payloads for them. */

#include "build_nettrace.h"
#include "eventpipe/counters.h"

#define TEXT(n)                                                                                                        \
	{                                                                                                              \
		.name = n, .type = NETTRACE_UTF16Z                                                                     \
	}
#define F64(n)                                                                                                         \
	{                                                                                                              \
		.name = n, .type = NETTRACE_F64                                                                        \
	}
#define I32(n)                                                                                                         \
	{                                                                                                              \
		.name = n, .type = NETTRACE_I32                                                                        \
	}
#define TIME(n)                                                                                                        \
	{                                                                                                              \
		.name = n, .type = NETTRACE_DATETIME                                                                   \
	}
#define INSTRUMENT TEXT("sessionId"), TEXT("meterName"), TEXT("meterVersion"), TEXT("instrumentName")

static const struct nettrace_field mean_fields[] = {
	TEXT("Name"),	TEXT("DisplayName"), F64("Mean"),      F64("StandardDeviation"),
	I32("Count"),	F64("Min"),	     F64("Max"),       { .name = "IntervalSec", .type = NETTRACE_F32 },
	TEXT("Series"), TEXT("CounterType"), TEXT("Metadata"), TEXT("DisplayUnits"),
};
static const struct nettrace_field sum_fields[] = {
	TEXT("Name"),
	TEXT("DisplayName"),
	TEXT("DisplayRateTimeScale"),
	F64("Increment"),
	{ .name = "IntervalSec", .type = NETTRACE_F32 },
	TEXT("Metadata"),
	TEXT("Series"),
	TEXT("CounterType"),
	TEXT("DisplayUnits"),
};
static const struct nettrace_field mean_payload[] = {
	{ .name = "Payload", .type = NETTRACE_OBJECT, .children = mean_fields, .n_children = 12 },
};
static const struct nettrace_field sum_payload[] = {
	{ .name = "Payload", .type = NETTRACE_OBJECT, .children = sum_fields, .n_children = 9 },
};
static const struct nettrace_field counter_fields[] = { INSTRUMENT,   TEXT("unit"),  TEXT("tags"),
							TEXT("rate"), TEXT("value"), I32("instrumentId") };
static const struct nettrace_field gauge_fields[] = { INSTRUMENT, TEXT("unit"), TEXT("tags"), TEXT("lastValue"),
						      I32("instrumentId") };
static const struct nettrace_field histogram_fields[] = { INSTRUMENT,	      TEXT("unit"), TEXT("tags"),
							  TEXT("quantiles"),  I32("count"), F64("sum"),
							  I32("instrumentId") };
static const struct nettrace_field published_fields[] = { INSTRUMENT, TEXT("instrumentType"), TEXT("unit"),
							  TEXT("description") };
static const struct nettrace_field collection_fields[] = { TEXT("sessionId"), TIME("intervalStartTime"),
							   TIME("intervalEndTime") };
static const struct nettrace_field session_fields[] = { TEXT("sessionId") };
static const struct nettrace_field error_fields[] = { TEXT("sessionId"), TEXT("errorMessage") };
static const struct nettrace_field running_fields[] = { TEXT("runningSessionId") };
static const struct nettrace_field settings_fields[] = {
	TEXT("clientId"),
	TEXT("expectedMaxHistograms"),
	TEXT("actualMaxHistograms"),
	TEXT("expectedMaxTimeSeries"),
	TEXT("actualMaxTimeSeries"),
	TEXT("expectedRefreshInterval"),
	TEXT("actualRefreshInterval"),
};

#define METRICS(n, fields_)                                                                                            \
	{                                                                                                              \
		.id = 100 + (n), .event_id = n, .provider = COUNTERS_METRICS_PROVIDER, .name = "M", .format = 4,       \
		.fields = fields_, .n_fields = ARRAY_SIZE(fields_)                                                     \
	}
static const struct nettrace_meta counters_metas[] = {
	{ .id = 1, .provider = "Shop", .name = "EventCounters", .format = 4, .fields = mean_payload, .n_fields = 1 },
	{ .id = 2, .provider = "Shop", .name = "EventCounters", .format = 4, .fields = sum_payload, .n_fields = 1 },
	METRICS(2, collection_fields),
	METRICS(3, collection_fields),
	METRICS(4, counter_fields),
	METRICS(5, gauge_fields),
	METRICS(6, histogram_fields),
	METRICS(7, published_fields),
	METRICS(9, error_fields),
	METRICS(10, session_fields),
	METRICS(11, published_fields),
	METRICS(12, session_fields),
	METRICS(13, session_fields),
	METRICS(14, error_fields),
	METRICS(15, running_fields),
	METRICS(16, counter_fields),
	METRICS(17, settings_fields),
};

static inline void build_f32(struct buf *out, float v)
{
	buf_add(out, &v, sizeof(v));
}

static inline void build_mean(struct buf *out, const char *name, double mean, uint32_t count, const char *unit)
{
	build_utf16z(out, name);
	build_utf16z(out, "A name to show");
	build_f64(out, mean);
	build_f64(out, 0);
	build_u32(out, count);
	build_f64(out, mean);
	build_f64(out, mean);
	build_f32(out, 1.0f);
	build_utf16z(out, "Interval=1000");
	build_utf16z(out, "Mean");
	build_utf16z(out, "");
	build_utf16z(out, unit);
}

static inline void build_sum(struct buf *out, const char *name, double increment, float interval, const char *unit)
{
	build_utf16z(out, name);
	build_utf16z(out, "");
	build_utf16z(out, "00:00:01");
	build_f64(out, increment);
	build_f32(out, interval);
	build_utf16z(out, "");
	build_utf16z(out, "Interval=1000");
	build_utf16z(out, "Sum");
	build_utf16z(out, unit);
}

static inline void build_texts(struct buf *out, const char *const *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		build_utf16z(out, texts[i]);
}
#define BUILD_TEXTS(out, ...)                                                                                          \
	build_texts(out, (const char *const[]){ __VA_ARGS__ },                                                         \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static inline void build_counter(struct buf *out, const char *name, const char *tags, const char *rate,
				 const char *value)
{
	BUILD_TEXTS(out, "SHARED", "Shop.Meters", "1.0", name, "{order}", tags, rate, value);
	build_u32(out, 7);
}

static inline void build_gauge(struct buf *out, const char *name, const char *value)
{
	BUILD_TEXTS(out, "SHARED", "Shop.Meters", "", name, "By", "", value);
	build_u32(out, 8);
}

static inline void build_histogram(struct buf *out, const char *name, const char *quantiles, uint32_t count, double sum)
{
	BUILD_TEXTS(out, "SHARED", "Shop.Meters", "", name, "s", "route=/a", quantiles);
	build_u32(out, count);
	build_f64(out, sum);
	build_u32(out, 9);
}

/* A second of 2026, as a file time. */
static inline void build_collection(struct buf *out, double seconds)
{
	const uint64_t start = 134000000000000000;
	build_utf16z(out, "SHARED");
	build_u64(out, start);
	build_u64(out, start + (uint64_t)(seconds * 1e7));
}
