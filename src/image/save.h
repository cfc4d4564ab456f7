#pragma once
/* Shared mappings, saved while the process is stopped: a copy shares them with the running process, and the runtime
 * keeps its own tables in such mappings. Used by the tracer process only. Private to image. */

#include "image/maps.h"
#include "image/tracer.h"

/* Before the process is stopped: the memory for so many mappings is touched. */
void save_prepare(size_t n);
/* What there would be to save, of the files that are known. */
uint64_t save_estimate(const char *maps, size_t len, const struct tracer_file *files, size_t n_files);
/* Reads job->maps and fills the result's list. What there is no room for is counted as left. False when the time was over
 * first: an image that lacks what is left then would be read as if the process had no such memory. */
bool save_shared(struct tracer_job *job, struct deadline deadline);
