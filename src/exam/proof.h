#pragma once
/* An all-clear needs proof that the instrument worked. Each instrument says what shows that it did, or that nothing does; a
 * report that found nothing without proof is replaced by one that says so, and shows no number.
 *
 * What proves that a stream of events works: an event. The runtime writes one at the end of every session, into that session
 * and all others, so that a stream without any event is a stream that carried nothing, however quiet the process.
 *
 * That shows that the session lives, not that the runtime's own events are turned on for it. They may be off: when the session of
 * somebody else ends just as ours begins, the runtime may turn off what it has just turned on (it tells its providers when it holds
 * no lock any more). So shortly before the window ends a session is opened and closed, for which the runtime makes a thread; streams
 * of its own events ask for the event of that beside what they want, and get it if they get anything.
 *
 * What proves that sampling works: samples, or a clock of the kernel's which agrees that there was nothing to sample. */

#include "exam/events.h"
#include "report/report.h"

#define FINDING_NOT_SEEN "not-seen"

/* The instrument worked; the words tell by what: "12 samples came". The last words stay. */
void exam_proven(struct exam *exam, const char *fmt, ...) PRINTF(2, 3);
/* Nothing shows that it worked. The exam is partial; the first reason stays. blind: verdicts up to this
 * health would be made of nothing; REPORT_OK where something else was seen. */
void exam_unproven(struct exam *exam, enum report_health blind, const char *fmt, ...) PRINTF(3, 4);
/* Is the runtime known to write such an event? */
bool proof_can_beat(const struct exam *exam);
/* A stream's provider with that event asked for, the same if it is anyway. Not to be moved. */
struct proof_beat {
	struct ipc_provider provider;
	uint32_t ids[8];
};
/* False when it is not one of the runtime's own. */
bool proof_ask_beat(const struct events_stream *s, struct proof_beat *ret);
enum proof_event { PROOF_OTHER, PROOF_BEAT, PROOF_OF_SESSION };
/* What it proves; others than PROOF_OTHER are not of the process's own doing. */
enum proof_event proof_event(const struct nettrace_event *event);
/* A session of a stream is over, and counts. stopped: the runtime was asked to end it, so that an end which did not come is
 * missing. */
void exam_count_heard(struct exam *exam, struct events_stream *s, const struct nettrace_reader *reader, bool stopped);
/* What proves streams whose window is over, or that were replayed. */
void exam_prove_streams(struct exam *exam, const struct events_stream *streams, size_t n);
/* After the analysis: adds the proof to a report that found nothing, or replaces that. */
void exam_prove_report(struct exam *exam, struct report *report);
