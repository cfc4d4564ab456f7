#pragma once
/* The verbs of `drdotnet trace`; one file each. */

#include "cli/command.h"
#include "trace/source.h"

struct err *trace_collect_run(const struct args *args, int *ret_exit);
struct err *trace_convert_run(const struct args *args, int *ret_exit);
struct err *trace_report_run(const struct args *args, int *ret_exit);

/* --only-ids and --skip-ids. */
struct err *trace_args_ids(const struct args *args, struct trace_ids *ret) MUST_USE;
/* Only these options are this verb's; the list ends with NULL. */
struct err *trace_args_check(const struct args *args, const char *const *allowed) MUST_USE;
/* Prints what is wrong with a trace that could be read nevertheless, on standard error. */
void trace_say_source(const struct trace_source *source, const char *path);
