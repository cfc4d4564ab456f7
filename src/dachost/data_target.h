#pragma once
/* The image as the data-access library asks for it: ICLRDataTarget and ICLRRuntimeLocator over memory.h. */

#include "dachost/memory.h"

/* One object a process; lives until its end. */
void *data_target(const struct memory *m);
/* The last address that could not be read since it was asked for; 0 = none. */
uint64_t data_target_hole(void);
