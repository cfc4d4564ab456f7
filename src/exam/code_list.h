#pragma once
/* Names of compiled code from a runtime that cannot list it without danger.
 *
 * The runtime goes through all compiled code when it lists it at the end of a session. What is unloaded meanwhile takes
 * the descriptions of its methods with it, and the process crashes (ipc.md). Only collectible assemblies can be unloaded.
 * Whether there ever was one is read from the process's memory while it runs, with the runtime's own data-access library
 * (dac/dac.h); without the right to read it, a runtime from .NET 9 on is asked for the list of assemblies alone, which is
 * safe. A process that has such assemblies is not asked for what may kill it; that is read from its memory too, and given
 * to the stream as the events that would have come. Where it cannot be read, code has no names but those of the events of
 * new code, and the report says so; before .NET 9 the danger cannot be known then, and the list is asked for. */

#include "exam/exam.h"

struct events_stream;
struct report;
/* Of the keywords of a rundown those that do no harm now. May ask the runtime: no other session may be ending meanwhile.
 */
uint64_t exam_safe_rundown(struct exam *exam, uint64_t keywords);
/* The same for a stream that is about to be opened. */
void exam_code_guard(struct exam *exam, struct events_stream *s);
/* What the guard took away from its rundown, to the stream and to its recording. Before it is opened: a runtime that is
 * listing must not wait for us to read. */
void exam_code_give(struct exam *exam, struct events_stream *s);
/* The same from the recording. */
struct err *exam_code_replay(struct exam *exam, struct events_stream *s) MUST_USE;
/* The IL of code that was read from memory, where a rundown would have brought its map. Nothing otherwise. */
struct code_place {
	uint64_t address, module;
	uint32_t token, il; /* token 0 = not known */
};
void exam_code_places(struct exam *exam, struct code_place *places, size_t n);
/* Where names come from, if not from where they usually do. */
void exam_code_how(const struct exam *exam, struct report *report);
