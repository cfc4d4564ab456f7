#pragma once
/* The patients with a first impression of each, out of the kernel's vital signs of two seconds: for 'drdotnet diagnose'
 * without a target, and for 'drdotnet' alone. A process is asked who it is, and nothing else. */

#include "base/err.h"
#include "base/vec.h"
#include <stdio.h>

VEC_TYPE(impression_ids, int);
/* The number of each patient, the worst first; of several a table is printed to `out`. ERR_NOT_FOUND: there is none. */
struct err *impressions(FILE *out, struct impression_ids *ret) MUST_USE;
/* All of them with their CPU, memory and threads, and what to type next. ERR_NOT_FOUND as above. */
struct err *impressions_start(FILE *out) MUST_USE;
