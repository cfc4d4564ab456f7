#pragma once
/* 'drdotnet diagnose' without a target: the only patient, or with several a table of all of them with a first impression
 * of each, out of the kernel's vital signs of two seconds. Nobody is contacted but to ask who he is. */

#include "base/err.h"

/* *ret_target: the only patient's number, which the caller frees; NULL when a table was printed. ERR_NOT_FOUND: there is none. */
struct err *impressions(char **ret_target) MUST_USE;
