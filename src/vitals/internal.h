#pragma once
/* What kernel_signs.c and descriptors.c share. */

#include "vitals/vitals.h"

/* descriptors.c: adds the open descriptors by kind, their limit, and the states of the process's connections. */
void descriptor_signs(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v);
