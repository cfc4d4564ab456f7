#pragma once
/* Collections and suspensions, assembled from the runtime's GC events (keyword GC, level 4 and above).
 *
 * The runtime reports each suspension by four events on one thread: SuspendBegin (asked), SuspendEnd (all stopped),
 * RestartBegin, RestartEnd. Between them a GC reports its number, generation and reason; a background GC begins in one
 * suspension and ends outside of any, so suspensions refer to their GC by number. The state of each heap (one event a
 * heap) comes just before the end of its GC, the sum over all heaps just after it.
 *
 * Bounded: beyond the limits below collections and pauses are only counted. */

#include "base/map.h"
#include "base/vec.h"
#include "eventpipe/clr.h"

#define GC_LOG_PAUSES_MAX 1000000
#define GC_LOG_GCS_MAX 500000

enum { SUSPEND_OTHER = 0, SUSPEND_GC = 1, SUSPEND_GC_PREP = 6 };
enum { GC_BLOCKING = 0, GC_BACKGROUND = 1 };

struct gc {
	uint32_t number;
	uint8_t generation, reason, type;
	bool has_history, has_stats;
	uint64_t start_ns, end_ns; /* end 0: not seen */
	uint64_t pause_ns;	   /* all suspensions for it */
	/* From the heaps' histories. */
	uint64_t before, survived_from; /* bytes on the whole heap, and in the generations that were collected */
	uint64_t young_before, young_after, large_before, large_after; /* in use: gen 0; large and pinned objects */
	uint64_t free[CLR_GENERATIONS];				       /* inside each generation, when it ended */
	/* From the sum. */
	uint64_t size[CLR_GENERATIONS], promoted[CLR_GENERATIONS];
	uint32_t pinned, handles;
};
/* Bytes on the heap when it ended; 0 = not reported. */
uint64_t gc_after(const struct gc *gc);

struct gc_pause {
	uint64_t begin_ns, stopped_ns, end_ns;
	uint32_t reason;
	int32_t gc; /* index, or -1 */
};
uint64_t gc_pause_ns(const struct gc_pause *p);

struct gc_log {
	VEC(struct gc_pause) pauses;
	VEC(struct gc) gcs;	     /* in the order they started */
	struct map_u64 gc_by_number; /* -> index */
	uint64_t n_gcs;		     /* also those that are not kept */
	uint64_t unpaired;	     /* suspensions of which one end was not seen */
	/* Called for every complete pause; may be NULL. */
	void (*on_pause)(void *user, const struct gc_pause *pause);
	void *user;

	struct gc_pause open; /* being suspended now */
	bool is_open;
	struct gc pending;  /* histories of the GC that is about to end */
	int32_t last_ended; /* GC whose sum comes next, or -1 */
};

void gc_log_init(struct gc_log *log);
void gc_log_fini(struct gc_log *log);
/* Ignores all events but those of the GC. */
void gc_log_event(struct gc_log *log, const struct nettrace_event *event);
/* "gen 2 blocking GC, induced by GC.Collect", "runtime work other than GC". */
void gc_log_describe(const struct gc_log *log, const struct gc_pause *pause, struct buf *out);
void gc_describe(const struct gc *gc, struct buf *out);
