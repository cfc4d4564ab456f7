#pragma once
/* The image as the data-access library asks for it: ICLRDataTarget and ICLRRuntimeLocator over memory.h. */

#include "dachost/memory.h"

/* One object a process; lives until its end. */
void *data_target(const struct memory *m);
/* The last address that could not be read since it was asked for; 0 = none. */
uint64_t data_target_hole(void);
/* What was read since the start, in order, neighbours joined; more than a million pieces are forgotten. */
struct data_target_read {
	uint64_t start, end;
};
const struct data_target_read *data_target_reads(size_t *ret_n);
