#pragma once
/* Samples out of a perf.data file, ours or linux-perf's: code gets its names from files that are there now.
 *
 * Native code from the files that perf.data names, when their build id is the recorded one; managed code from
 * perf-PID.map beside the perf.data or in /tmp; the kernel's from /proc/kallsyms, when it was recorded here. Ours has
 * all names in its own symbol files. */

#include "sampling/samples.h"
#include "sampler/perf_file.h"

struct perf_samples_facts {
	struct perf_file_facts file;
	uint32_t pid; /* of the first sample */
	char process[32];
	bool own;   /* written by us, with all names */
	bool timed; /* weights are ns; else each sample weighs 1 */
	uint64_t frames, unnamed;
};

/* dir/perf.data. The caller frees the samples. */
struct err *perf_samples_read(const char *dir, struct samples **ret, struct perf_samples_facts *facts) MUST_USE;
