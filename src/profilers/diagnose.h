#pragma once
/* What the collection and the report of a diagnosis share. */

#include "diagnose/verdict.h"
#include "exam/consult.h"
#include "exam/events.h"
#include "exam/profiler.h"
#include "target/core_place.h"
#include "vitals/kernel_signs.h"
#include "vitals/runtime_signs.h"

enum { SIGNS_COUNTERS, SIGNS_GC, SIGNS_LOCKS, SIGNS_STREAMS };
#define JUDGED_MAX 64

struct diagnosis {
	struct exam *exam;
	struct vitals vitals;
	struct kernel_signs *kernel;
	struct runtime_signs runtime;
	struct events_stream streams[SIGNS_STREAMS];
	uint64_t next_read_ns;
	bool impression_told;
	struct judgement judged[JUDGED_MAX]; /* none of a core */
	size_t n_judged;
	struct plan plan;
	struct consult consults[PLAN_MAX]; /* one for each step that was begun */
	size_t n_consults;
	struct core_place core;	    /* where it would leave its core file */
	struct shared_looks *looks; /* live, where memory is looked into */
};

struct err *diagnosis_report(struct exam *exam, struct report *report) MUST_USE;
