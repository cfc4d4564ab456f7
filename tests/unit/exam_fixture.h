#pragma once
/* Examines recordings that a test has built:
 *
 *	struct fixture f;
 *	fixture_begin(&f);
 *	fixture_window(f.recording, 10000 * MS);
 *	fixture_part(f.recording, "gc-0.nettrace", &built);
 *	fixture_examine(&f, "runtime-pauses");
 *	... f.report ...
 *	fixture_end(&f); */

#include "base/json.h"
#include "build_nettrace.h"
#include "exam/profiler.h"

#define MS 1000000ull
#define WINDOW_START 1000000000ull /* of the target's clock */

struct fixture {
	char dir[64];
	struct recording *recording;
	struct patient patient;
	enum way way;			     /* it was made by; events unless said */
	const char *param_key, *param_value; /* one that is not the default; NULL = none */
	struct exam exam;
	struct params *params;
	struct report *report;
};

/* A new recording in a folder of its own. */
void fixture_begin(struct fixture *f);
void fixture_window(struct recording *r, uint64_t length_ns);
/* Takes what was built. */
void fixture_part(struct recording *r, const char *name, struct build_nettrace *b);
/* How a stream listened that is stopped where its events are many, and what it heard of an event every 10 ms of a window
 * of a second. */
struct fixture_bursts {
	uint64_t ms[2][2]; /* from, to */
	size_t n;	   /* 0: it was not stopped, but ended by itself after ms[0][1] */
	unsigned heard, stand_for;
};
#define FIXTURE_BURSTS 3
extern const struct fixture_bursts fixture_bursts[FIXTURE_BURSTS];
/* A recording of such a stream of .NET 8. Each burst is a part, which also has events from just before and after it, as
 * the runtime sends them. begin() begins a part, event() adds what happens within 5 ms. */
void fixture_begin_bursts(struct fixture *f, const struct fixture_bursts *bursts, const char *stream,
			  void (*begin)(struct build_nettrace *b),
			  void (*event)(struct build_nettrace *b, uint64_t at_ns));
/* Seals, opens again and examines it. */
void fixture_examine(struct fixture *f, const char *profiler);
void fixture_end(struct fixture *f);

json_t *fixture_json(const struct report *r);
/* The value of a key figure by its label; fails when there is none. */
double fixture_figure(const struct report *r, const char *label);
/* The rows of a table by its title, or NULL; part of the report's JSON. */
const json_t *fixture_rows(const json_t *report, const char *title);
/* Is it in the text form, wherever its lines break? */
bool fixture_says(const struct report *r, const char *words);
/* Fails unless the report has this finding, this health and these words. */
void fixture_expect(const struct report *r, const char *finding, enum report_health health, const char *words);

/* A stream of methods as a rundown lists them, each 0x100 long. */
struct fixture_method {
	uint64_t start;
	const char *space, *name;
};
void fixture_names(struct build_nettrace *b, const struct fixture_method *methods, size_t n);
/* Begins a stream with events of the runtime: meta id and event id are the same. */
void fixture_stream(struct build_nettrace *b, const uint32_t *event_ids, size_t n);
/* Ends it as the runtime does, with an event of its own: without any a stream proves nothing. */
void fixture_end_stream(struct build_nettrace *b);
/* The next event of a thread; at_ns into the window. */
void fixture_event(struct build_nettrace *b, uint32_t event_id, uint64_t at_ns, uint64_t thread, uint32_t stack,
		   const struct buf *payload);
