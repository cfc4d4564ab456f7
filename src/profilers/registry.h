#pragma once
/* All profilers: one list, in the order in which help, pages and docs show them. */

#include "exam/profiler.h"

const struct profiler *const *profiler_all(size_t *ret_n);
/* What it is about, as the heading of a long list: "Memory". */
const char *profiler_chapter(const struct profiler *p);
/* Members of an open object: all that a list tells of a profiler, without its parameters. */
void profiler_json(struct jsonw *w, const struct profiler *p);
/* By id or uuid (any case). ERR_USAGE names all that exist. */
struct err *profiler_find(const char *name, const struct profiler **ret) MUST_USE;
