#pragma once
/* CPU hotpaths as they are collected; what its report is made from. Internal to the profiler. */

#include "exam/cpu_budget.h"
#include "report/report.h"
#include "sampling/sampling.h"

struct cpu_state {
	struct samples *samples;
	struct sampling_facts facts;
	struct sample_line_list lines;
	struct cpu_budget budget;
};

struct err *cpu_report(struct exam *exam, struct report *report) MUST_USE;
