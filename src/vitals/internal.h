#pragma once
/* What the files of kernel signs share. */

#include "vitals/vitals.h"

/* descriptors.c: open descriptors by kind, their limit, and the states of its connections. */
void descriptor_signs(const char *proc, pid_t pid, uint64_t at_ns, struct vitals *v);
