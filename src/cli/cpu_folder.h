#pragma once
/* A folder of CPU samples for other programs: perf.data with its symbols, perf_script.out, folded_stacks.out,
 * flamegraph.svg, and all of it as prof.tar.gz. */

#include "sampling/samples.h"

struct cpu_folder {
	const char *dir;
	uint32_t pid;
	const char *process, *event;
	uint64_t period_ns; /* between samples; 0 = not known */
	bool timed;	    /* weights are ns */
	bool keep_data;	    /* perf.data was recorded by another program */
};

struct err *cpu_folder_write(const struct cpu_folder *folder, const struct samples *samples) MUST_USE;
