#pragma once
/* A trace as JSON lines: one object an event, in order of time, with its fields and, where it came with one, its stack
 * by name. */

#include "export/out.h"
#include "trace/source.h"

/* Reads the file twice (names stand at its end); standard input once, with addresses for names. */
struct err *trace_jsonl(const char *path, const struct trace_ids *ids, struct out *out, struct trace_source *ret)
	MUST_USE;
