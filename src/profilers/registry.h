#pragma once
/* All profilers, in the order of the list in profilers/meson.build: help, pages and docs show them like this. */

#include "exam/profiler.h"

const struct profiler *const *profiler_all(size_t *ret_n);
/* Members of an open object: all that a list tells of a profiler, without its parameters. */
void profiler_json(struct jsonw *w, const struct profiler *p);
/* By id or uuid (any case). ERR_USAGE names all that exist. */
struct err *profiler_find(const char *name, const struct profiler **ret) MUST_USE;
