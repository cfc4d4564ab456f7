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
/* From now on each read as it comes is written there, up to max of them; NULL ends it. Returns how many there were. */
size_t data_target_trace(struct data_target_read *into, size_t max);
/* From now on the 32-bit word there reads as this value; address 0 ends it. What the library has cached it keeps until
 * it is flushed. */
void data_target_pretend(uint64_t address, uint32_t value);
