#pragma once
/* Vital signs from the kernel's files: /proc and the control groups of one process. Only reads; stops nothing.
 *
 *	k = kernel_signs_new("/proc", &patient->target);
 *	kernel_signs_read(k, v);	at the beginning of the window
 *	kernel_signs_read(k, v);	every second: adds what happened since the last reading
 *	kernel_signs_end(k, v);		at its end: totals, descriptors and sockets again, the busiest threads
 *
 * Each descriptor and each socket costs a system call, so they are counted in the first and the last reading only. */

#include "target/target.h"
#include "vitals/vitals.h"

struct kernel_signs;
/* `proc` is "/proc", except in tests. Both arguments must outlive the result. */
struct kernel_signs *kernel_signs_new(const char *proc, const struct target *target);
void kernel_signs_free(struct kernel_signs *k);
DEFINE_CLEANUP(kernel_signs_free, struct kernel_signs *)

void kernel_signs_read(struct kernel_signs *k, struct vitals *v);
void kernel_signs_end(struct kernel_signs *k, struct vitals *v);
