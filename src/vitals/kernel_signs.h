#pragma once
/* Vital signs out of the kernel's files: /proc and the control groups of one process. Reads only; nothing is stopped.
 *
 *	k = kernel_signs_new("/proc", &patient->target);
 *	kernel_signs_read(k, v);	the beginning of the window
 *	kernel_signs_read(k, v);	every second: what happened since the last time
 *	kernel_signs_end(k, v);		its end: totals, descriptors and sockets again, busiest threads
 *
 * Descriptors and sockets cost a system call each, so they are looked at in the first and the last reading only. */

#include "target/target.h"
#include "vitals/vitals.h"

struct kernel_signs;
/* `proc` is "/proc" but for tests; both must outlive the result. */
struct kernel_signs *kernel_signs_new(const char *proc, const struct target *target);
void kernel_signs_free(struct kernel_signs *k);
DEFINE_CLEANUP(kernel_signs_free, struct kernel_signs *)

void kernel_signs_read(struct kernel_signs *k, struct vitals *v);
void kernel_signs_end(struct kernel_signs *k, struct vitals *v);
