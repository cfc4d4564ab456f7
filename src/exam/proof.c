#include "exam/proof.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/profiler.h"
#include <stdarg.h>
#include <string.h>

void exam_proven(struct exam *exam, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	mem_free(exam->proof);
	exam->proof = mem_vprintf(fmt, ap);
	va_end(ap);
}

void exam_unproven(struct exam *exam, enum report_health blind, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *why = mem_vprintf(fmt, ap);
	va_end(ap);
	exam->blind = MAX(exam->blind, (int)blind);
	exam_cut(exam, "%s", why);
	if (!exam->unproven)
		exam->unproven = STEAL(why);
}

/* --- an event that is sure to come --- */

#define BEAT_KEYWORD 0x800u /* threads that begin */
#define BEAT_ALSO 0x10000u  /* and they belong to these */
#define BEAT_LEVEL 4
#define BEAT_EVENT 85
#define SESSION_PROVIDER "Microsoft-DotNETCore-EventPipe"
#define SESSION_EVENT 1

/* Tried with these. A program that was compiled ahead of time has another runtime. */
bool proof_can_beat(const struct exam *exam)
{
	unsigned major = exam_runtime_major(exam);
	CLEANUP(mem_freep) char *path = NULL;
	if (major < 8 || major > 10 || !exam->patient->target.pid)
		return false;
	struct err *err = target_runtime_path(&exam->patient->target, &path);
	bool found = !err;
	err_free(err);
	return found;
}

bool proof_ask_beat(const struct events_stream *s, struct proof_beat *ret)
{
	const struct ipc_provider *p = s->providers;
	size_t n = p->n_only_ids;
	bool asked = p->keywords & (BEAT_KEYWORD | BEAT_ALSO);
	if (!s->n_providers || s->n_providers > (asked ? (size_t)PROOF_PROVIDERS_MAX : 1) ||
	    !str_eq(p->name, CLR_PROVIDER) || p->level < BEAT_LEVEL || n >= ARRAY_SIZE(ret->ids))
		return false;
	memcpy(ret->providers, p, s->n_providers * sizeof(*p));
	if (!asked)
		ret->providers->keywords |= BEAT_KEYWORD;
	if (n && !p->skip_ids) {
		memcpy(ret->ids, p->only_ids, n * sizeof(*ret->ids));
		ret->ids[n] = BEAT_EVENT;
		ret->providers->only_ids = ret->ids;
		ret->providers->n_only_ids = n + 1;
	}
	return true;
}

enum proof_event proof_event(const struct nettrace_event *event)
{
	const struct nettrace_meta *m = event->meta;
	if (m->event_id == BEAT_EVENT && str_eq(m->provider, CLR_PROVIDER))
		return PROOF_BEAT;
	return m->event_id == SESSION_EVENT && str_eq(m->provider, SESSION_PROVIDER) ? PROOF_OF_SESSION : PROOF_OTHER;
}

/* --- streams of events --- */

/* Others are opened only at times, or help without being needed. */
static bool is_needed(const struct events_stream *s)
{
	return !s->after && !s->when && !s->beside && !s->optional;
}

/* A recording of an older version may lack a whole stream. */
static bool must_speak(const struct exam *exam, const struct events_stream *s)
{
	return is_needed(s) && (!exam->replay || s->opened);
}

void exam_count_heard(struct exam *exam, struct events_stream *s, const struct nettrace_reader *reader, bool stopped)
{
	const struct nettrace_stats *stats = nettrace_reader_stats(reader);
	s->lost += stats->lost;
	s->heard += stats->events;
	if (stopped && !stats->ended && !s->brief && !s->rundown && must_speak(exam, s))
		exam_cut(exam, "the end of the event stream did not come");
}

static bool speaks(const struct events_stream *s)
{
	if (s->certain || s->beat_ns)
		return s->events || s->beats;
	return s->heard;
}

static const char *why_not(const struct exam *exam, const struct events_stream *s)
{
	if (s->heard && s->certain)
		return "the runtime's own sampler, which is never silent, sent nothing";
	if (s->heard)
		return "the runtime has not turned its events on for us: it did not even report a thread that it made";
	if (s->damaged && s->bytes)
		return exam->replay ? "what was recorded is no stream of events"
				    : "what the runtime sent is no stream of events";
	if (exam->replay)
		return s->bytes ? "the recorded stream has no event, not even the one that ends every stream"
				: "the recorded stream is empty";
	return s->bytes ? "the runtime's stream of events had none, not even the one that ends every stream"
			: "the runtime sent nothing at all";
}

void exam_prove_streams(struct exam *exam, const struct events_stream *streams, size_t n)
{
	const struct events_stream *mute = NULL;
	size_t asked = 0, needed = 0;
	uint64_t events = 0, heard = 0;
	for (size_t i = 0; i < n; i++) {
		needed += is_needed(&streams[i]);
		if (!must_speak(exam, &streams[i]))
			continue;
		asked++;
		events += streams[i].events;
		heard += streams[i].heard;
		if (!speaks(&streams[i]) && (!mute || streams[i].certain))
			mute = &streams[i];
	}
	if (mute)
		exam_unproven(exam,
			      mute->certain ? REPORT_WARN
			      : events	    ? REPORT_OK
					    : REPORT_INFO,
			      "%s", why_not(exam, mute));
	else if (asked)
		exam_proven(exam, "%s came", fmt_plural(heard, "event", "events").s);
	else if (needed && exam->replay)
		exam_unproven(exam, REPORT_INFO, "the recording has no stream of events");
}

/* --- the report --- */

/* The first way that it could have gone instead, or WAY_AUTO. */
static enum way other_way(const struct exam *exam)
{
	for (const enum way *w = exam->profiler->ways; *w; w++) {
		if (*w != exam->way)
			return *w;
	}
	return WAY_AUTO;
}

static void add_next(const struct exam *exam, struct report *report)
{
	struct rich *next = report_next(report);
	enum way other = exam->core ? WAY_AUTO : other_way(exam);
	if (exam->replay) {
		rich_text(next, "Examine the process again: this recording tells nothing.");
		return;
	}
	rich_text(next, "Run it again.");
	if (other == WAY_AUTO)
		return;
	rich_text(next, " If it stays so, look another way: ");
	CLEANUP(mem_freep) char *option = mem_printf("--way %s", way_name(other));
	rich_code(next, option);
	rich_text(next, ".");
}

void exam_prove_report(struct exam *exam, struct report *report)
{
	enum report_health health = report_health(report);
	if (!exam->unproven) {
		if (exam->proof && health == REPORT_OK)
			report_how(report, "Proof", V_TEXT(exam->proof), "so the instrument worked");
		return;
	}
	if ((int)health > exam->blind)
		return;
	report_clear(report);
	struct rich *verdict = report_verdict(report, REPORT_WARN, FINDING_NOT_SEEN);
	rich_strong(verdict, "Could not be seen");
	bool cut = exam->partial && !str_eq(exam->partial, exam->unproven); /* for another reason */
	rich_text(verdict, ": %s%s%s. Whether something is wrong is not known.", cut ? exam->partial : "",
		  cut ? ", and " : "", exam->unproven);
	add_next(exam, report);
	report_how(report, "Way", V_TEXT(way_name(exam->way)), NULL);
}
