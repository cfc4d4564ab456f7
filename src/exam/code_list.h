#pragma once
/* Names of compiled code where it is dangerous to ask the runtime for them.
 *
 * At the end of a session the runtime lists all compiled code. When an assembly is unloaded while the runtime does so, the
 * descriptions of its methods are freed under it, and the process crashes (docs/internals/ipc.md). Only collectible
 * assemblies can be unloaded. Whether the process has ever had one is read from its memory while it runs, with the
 * runtime's own data-access library (dac/dac.h). Without the right to read its memory, a runtime from .NET 9 on is asked
 * for the list of assemblies alone, which is safe.
 *
 * A process that has such assemblies is not asked for the list of code. The list is read from its memory too, and given to
 * the stream as the events that the runtime would have sent. Where memory cannot be read, only code that is compiled during
 * the session has names, and the report says so. Before .NET 9 the danger cannot be known without reading memory; the
 * runtime is then asked for the list. */

#include "exam/exam.h"

struct events_stream;
struct report;
/* Those keywords of a rundown (the list at a session's end) that are safe now. May ask the runtime by a session of its own:
 * no other session of ours may be ending at that time. */
uint64_t exam_safe_rundown(struct exam *exam, uint64_t keywords);
/* Leaves only safe keywords in the rundown of a stream that is about to be opened. */
void exam_code_guard(struct exam *exam, struct events_stream *s);
/* Gives the stream and its recording the events that the guard has removed from the rundown, read from memory. To be called
 * before the stream is opened: a runtime that lists its code must not wait while we read. */
void exam_code_give(struct exam *exam, struct events_stream *s);
/* The same from the recording. */
struct err *exam_code_replay(struct exam *exam, struct events_stream *s) MUST_USE;
/* The IL of code that was read from memory, where a rundown would have brought its map. Nothing otherwise. */
struct code_place {
	uint64_t address, module;
	uint32_t token, il; /* token 0 = not known */
};
void exam_code_places(struct exam *exam, struct code_place *places, size_t n);
/* Adds to the report where names came from, when it was not the runtime's list. */
void exam_code_how(const struct exam *exam, struct report *report);
