#pragma once
/* Shared mappings, saved while the process stands still: a copy shares them with the running process, and the runtime
 * keeps its own tables in such. Used by the tracer process only. Private to image. */

#include "image/tracer.h"

/* A line of /proc/PID/maps. */
struct maps_line {
	uint64_t start, end, offset;
	dev_t dev;
	ino_t ino;
	char prot[4]; /* r w x and p or s, or - */
	const char *path;
	size_t path_len;
};
/* The next line of the text, which ends at end; false when there is none or it is no such line. */
bool maps_next(const char **text, const char *end, struct maps_line *ret);
/* Must it be saved, if its bytes are to be those of the instant? */
bool maps_shared(const struct maps_line *line);
/* Could reading it do something else than read memory (a device)? */
bool maps_device(const struct maps_line *line);

/* What there would be to save, of the files that are known. */
uint64_t save_estimate(const char *maps, size_t len, const struct tracer_file *files, size_t n_files);
/* Reads job->maps and fills the result's list. Stops where the room or the time ends; the rest is counted as left. */
void save_shared(struct tracer_job *job, struct deadline deadline);
