#pragma once
/* Events of EventCounters and of System.Diagnostics.Metrics as one struct: a value of some counter, or a state of the
 * session.
 *
 * Keeps nothing between events and knows no history. All text is hostile: it is cut to fixed lengths and made valid
 * UTF-8, but may hold control characters. Numbers that are absent or not finite are NAN. */

#include "nettrace/nettrace.h"

#define COUNTERS_METRICS_PROVIDER "System.Diagnostics.Metrics"
#define COUNTERS_NAME_BYTES 256
#define COUNTERS_TEXT_BYTES 1024

/* Keywords of COUNTERS_METRICS_PROVIDER. */
enum { COUNTERS_MESSAGES = 1, COUNTERS_TIME_SERIES = 2, COUNTERS_PUBLISHING = 4 };

enum counters_news {
	COUNTERS_NOTHING, /* not ours, or damaged */
	COUNTERS_VALUE,
	COUNTERS_PUBLISHED,	   /* an instrument exists: provider, name, unit, text */
	COUNTERS_BEGIN,		   /* ... and will be reported */
	COUNTERS_END,		   /* ... and will not any more */
	COUNTERS_COLLECTION_START, /* values of one interval follow; interval_s */
	COUNTERS_COLLECTION_STOP,
	COUNTERS_ENUMERATED,   /* all instruments that existed at the start have been reported */
	COUNTERS_SERIES_LIMIT, /* the runtime's own limits: some values will be missing */
	COUNTERS_HISTOGRAM_LIMIT,
	COUNTERS_CALLBACK_ERROR, /* the app's own code failed to give a value: text */
	COUNTERS_ERROR,		 /* text */
	COUNTERS_NOT_SHARED,	 /* refused: another tool has a session that it does not share; session is its id */
	COUNTERS_OTHER_SETTINGS, /* client was refused: the shared session has other settings; interval_s is its */
};

enum counters_type {
	COUNTERS_GAUGE,	    /* value */
	COUNTERS_RATE,	    /* delta in the interval; value = total, NAN for EventCounters */
	COUNTERS_UP_DOWN,   /* value, delta */
	COUNTERS_HISTOGRAM, /* quantiles, count and sum of the interval */
};

struct counters_event {
	enum counters_news news;
	enum counters_type type;
	bool meter; /* from a meter; else an EventCounter */
	double value, delta, count, sum;
	double interval_s;   /* of EventCounters and collections; NAN elsewhere */
	double quantiles[3]; /* 0.5, 0.95, 0.99 */
	char provider[COUNTERS_NAME_BYTES], name[COUNTERS_NAME_BYTES], unit[64];
	char display[COUNTERS_NAME_BYTES]; /* of EventCounters; "" when it says nothing */
	char session[64], client[64];
	char tags[COUNTERS_TEXT_BYTES]; /* "key=value,key=value" */
	char text[COUNTERS_TEXT_BYTES]; /* description or error */
};

/* False when it is no event of counters or says nothing usable. */
bool counters_decode(const struct nettrace_event *event, struct counters_event *ret);
