#pragma once
/* A report may say "no problem" only with proof that its instrument worked. Each instrument says what shows that it worked,
 * or that nothing does. A report that found nothing and has no proof is replaced by one that says so and shows no number.
 *
 * A stream of events is proven by an event. The runtime writes one at the end of every session, into that session and all
 * others. So a stream without any event did not work, however quiet the process was.
 *
 * Such an event shows that the session works, not that the runtime's own events are turned on for it. They may be off: when
 * another tool's session ends just as ours begins, the runtime may turn off what it has just turned on, since it tells its
 * providers after it has released its lock. So shortly before the window ends we open and close one more session. The runtime
 * makes a thread for it, and writes an event for that thread. Streams of the runtime's own events ask for that event beside
 * those that they want, and get it if they get any.
 *
 * Sampling is proven by samples, or by the kernel's CPU clock when that says that there was nothing to sample. */

#include "exam/events.h"
#include "report/report.h"

#define FINDING_NOT_SEEN "not-seen"

/* The instrument worked; the text says what shows that: "12 samples came". The last text stays. */
void exam_proven(struct exam *exam, const char *fmt, ...) PRINTF(2, 3);
/* Nothing shows that the instrument worked: the exam is partial. The first reason stays. blind: verdicts up to this health
 * would rest on nothing; REPORT_OK where another instrument saw something. */
void exam_unproven(struct exam *exam, enum report_health blind, const char *fmt, ...) PRINTF(3, 4);
/* Is it known that this runtime writes an event for the thread of a session? */
bool proof_can_beat(const struct exam *exam);
/* A stream's providers, with that event added to the first where the stream does not ask for it anyway. It points into
 * itself: do not copy it. */
#define PROOF_PROVIDERS_MAX 10
struct proof_beat {
	struct ipc_provider providers[PROOF_PROVIDERS_MAX];
	uint32_t ids[8];
};
/* False when the first is not the runtime's own provider, or when there are several and the first asks for no threads. */
bool proof_ask_beat(const struct events_stream *s, struct proof_beat *ret);
enum proof_event { PROOF_OTHER, PROOF_BEAT, PROOF_OF_SESSION };
/* What the event proves. Events other than PROOF_OTHER are caused by us, not by the process. */
enum proof_event proof_event(const struct nettrace_event *event);
/* Adds the counts of a stream's session that is over. stopped: the runtime was asked to end it, so that the event of its
 * end must have come. */
void exam_count_heard(struct exam *exam, struct events_stream *s, const struct nettrace_reader *reader, bool stopped);
/* Says what proves these streams, after their window or their replay: exam_proven() or exam_unproven(). */
void exam_prove_streams(struct exam *exam, const struct events_stream *streams, size_t n);
/* After the analysis: adds the proof to a report that found nothing, or replaces that report where there is no proof. */
void exam_prove_report(struct exam *exam, struct report *report);
