#pragma once
/* What a trace holds, as a report: events by provider and number, what was lost, where the stack samples were taken,
 * garbage collections and exceptions where the trace has them. One pass over the file. */

#include "report/report.h"
#include "trace/source.h"

struct err *trace_summary(const char *path, const struct trace_ids *ids, const char *spool_dir, struct report **ret)
	MUST_USE;
