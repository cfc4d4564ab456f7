#pragma once
/* CPU hotpaths as they are collected; what its report is made from. Internal to the profiler. */

#include "exam/cpu_budget.h"
#include "knowledge/knowledge.h"
#include "report/report.h"
#include "sampling/sampling.h"

struct cpu_state {
	struct samples *samples;
	struct sampling_facts facts;
	struct sample_line_list lines;
	struct cpu_budget budget;
	struct knowledge known; /* which requests the threads handle */
};

/* Below this many cores there is nothing to explain. */
#define CPU_IDLE_CORES 0.05

struct err *cpu_report(struct exam *exam, struct report *report) MUST_USE;
