#include "exam/events_parts.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "eventpipe/stream_wake.h"
#include "eventpipe/session.h"
#include "eventpipe/settle.h"
#include "exam/code_list.h"
#include "exam/profiler.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_TIMEOUT_MS 30000 /* provider callbacks run in the target before it answers */
#define BEAT_TIMEOUT_MS 2000
#define ABANDON_MS 2000		 /* for streams to end that are no longer needed */
#define SILENCE_TIMEOUT_MS 15000 /* after the stop nothing came for so long: the stream is closed */
#define EXIT_SEEN_MS 3000	 /* from the end of a stream to the end of its process */
#define EXIT_LATE_MS 10000	 /* the same, when it is certain to end */
#define DEFAULT_BUFFER_MB 64
#define MAX_STREAMS 6
#define BURST_LEAST 500.0 /* events, or those of a second, before a rate is taken for what it seems */
/* The first burst lasts until its bytes come, a tenth of a second or so; the next ones need not wait for that. Many
 * short ones see more of what happens when. */
#define BURST_MS 20
#define BURSTS_MAX 200 /* in one window: each is a part of the recording */
/* A target in another time namespace has another monotonic clock; ordinary skew is far below this. */
#define CLOCK_SKEW_NS (30 * NS_PER_S)

static void on_header(void *user, const struct nettrace_header *header)
{
	struct live *l = user;
	int64_t offset = (int64_t)(l->opened_at_ns - header->sync_time);
	if (header->ticks_per_second == NS_PER_S && l->opened_at_ns && llabs(offset) > CLOCK_SKEW_NS)
		l->clock_offset_ns = offset;
}

/* Another clock than ours is known only as well as the stream's beginning. */
static void count_beat(struct live *l, uint64_t at_ns)
{
	uint64_t slack_ns = l->clock_offset_ns ? NS_PER_S : 0;
	l->stream->beats += l->stream->beat_ns && at_ns + slack_ns >= l->stream->beat_ns;
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct live *l = user;
	const struct exam *exam = l->exam;
	struct nettrace_event ours = *event;
	ours.time += (uint64_t)l->clock_offset_ns;
	enum proof_event proof = proof_event(event);
	if (proof == PROOF_BEAT)
		count_beat(l, ours.time);
	if (proof == PROOF_OF_SESSION ||
	    (proof == PROOF_BEAT && l->beating && l->beat.providers->keywords != l->stream->providers->keywords))
		return; /* for us, not for the profiler */
	l->burst_seen++;
	/* Streams are opened one after the other and end one after the other; the window is what all of them saw. */
	bool outside = ours.time < exam->start_ns || (exam->end_ns && ours.time > exam->end_ns);
	/* The runtime begins a burst before it answers and ends it after it was asked to, on a busy machine by more
	 * than the length of the burst: only events in the time that counts as open are taken. */
	if (l->stream->scaled && l->stream->bursting)
		outside |= ours.time < l->opened_at_ns || (l->stopped_at_ns && ours.time > l->stopped_at_ns);
	if (outside && !l->stream->rundown && !l->stream->anytime)
		return;
	l->stream->events++;
	l->stream->event(l->stream->user, &ours);
}

static void on_bytes(void *user, const void *data, size_t len)
{
	struct live *l = user;
	l->last_byte_ns = clock_mono_ns();
	l->stream->bytes += len;
	if (l->part)
		recording_part_write(l->part, data, len);
}

const struct nettrace_callbacks events_callbacks = { .header = on_header, .event = on_event };

static struct ipc_trace_config live_config(const struct live *l)
{
	const struct events_stream *s = l->stream;
	return (struct ipc_trace_config){
		.buffer_mb = s->buffer_mb ? s->buffer_mb : DEFAULT_BUFFER_MB,
		.stacks = s->stacks,
		.rundown = s->rundown,
		.providers = l->beating ? l->beat.providers : s->providers,
		.n_providers = s->n_providers,
		.at_start = l->exam->launched && !l->exam->start_ns,
	};
}

/* glance: it is stopped at once, too. */
static struct err *live_open(struct live *l, bool glance)
{
	struct events_stream *s = l->stream;
	exam_code_guard(l->exam, s);
	exam_code_give(l->exam, s);
	struct ipc_trace_config config = live_config(l);
	struct nettrace_options options = { .unordered = s->unordered };
	struct eventpipe_sink sink = { .callbacks = events_callbacks, .bytes = on_bytes, .user = l };
	if (l->exam->recording && !s->unkept) {
		CLEANUP(mem_freep) char *name = mem_printf("%s-%u.nettrace", s->name, s->opened);
		TRY(recording_part_new(l->exam->recording, name, "nettrace", &l->part));
	}
	l->opened_at_ns = l->last_byte_ns = clock_mono_ns();
	l->burst_seen = l->next_open_ns = l->stopped_at_ns = 0;
	TRY((glance ? eventpipe_glance : eventpipe_open)(l->exam->patient->target.socket, &config, &options, &sink,
							 deadline_in_ms(OPEN_TIMEOUT_MS), &l->session));
	l->closed_by_us = glance;
	l->opened_at_ns = clock_mono_ns();
	s->opened++;
	s->stacks_refused |= eventpipe_trace(l->session)->stacks_refused;
	return NULL;
}

static void live_close(struct live *l)
{
	if (l->part)
		recording_part_close(l->part, l->session && eventpipe_whole(l->session));
	l->part = NULL;
	if (l->session)
		exam_count_heard(l->exam, l->stream, eventpipe_reader(l->session), l->closed_by_us);
	eventpipe_free(l->session);
	l->session = NULL;
}

/* It listened from when it was opened until then, as far as that lies in the window: events before it, while other
 * streams were still being opened, are not counted either. */
static void count_open(struct live *l, uint64_t until_ns)
{
	uint64_t from = MAX(l->opened_at_ns, l->exam->start_ns);
	uint64_t to = l->exam->end_ns ? MIN(until_ns, l->exam->end_ns) : until_ns;
	l->stream->open_ns += to - MIN(from, to);
}

/* Asks for the end of the stream; time from here on does not count as open. */
static struct err *live_stop(struct live *l)
{
	if (!l->session || eventpipe_stopping(l->session))
		return NULL;
	l->closed_by_us = true;
	l->stopped_at_ns = clock_mono_ns();
	count_open(l, l->stopped_at_ns);
	if (l->bursts)
		json_array_append_new(l->bursts,
				      json_pack("[I, I]", (json_int_t)l->opened_at_ns, (json_int_t)l->stopped_at_ns));
	return eventpipe_stop(l->session, deadline_in_ms(OPEN_TIMEOUT_MS));
}

/* Not open over the window: opened and stopped at once. */
static bool only_looks(const struct events_stream *s)
{
	return s->after || s->when;
}

static bool too_fast(const struct live *l, double least, uint64_t listened_ns)
{
	double seen = (double)l->burst_seen;
	return seen >= least && seen * NS_PER_S >= (double)listened_ns * l->stream->burst_rate;
}

static uint64_t burst_least_ns(const struct events_stream *s)
{
	return MAX((uint64_t)s->burst_least_ms, (uint64_t)BURST_MS) * NS_PER_MS;
}

/* Stops a burst that is long enough; the next one comes when this one has become its share of the time. */
static struct err *burst_end(struct live *l)
{
	const struct events_stream *s = l->stream;
	if (!l->session || s->burst_share <= 0 || eventpipe_stopping(l->session))
		return NULL;
	uint64_t listened = clock_mono_ns() - l->opened_at_ns;
	uint64_t least_ns = burst_least_ns(s);
	if (listened < (l->hot ? least_ns : s->burst_least_ms * NS_PER_MS))
		return NULL;
	if (!l->hot && !too_fast(l, MIN(BURST_LEAST, s->burst_rate), listened))
		return NULL;
	TRY(live_stop(l));
	l->burst_ns = listened;
	/* The very first burst was long because the rate was not known; the others shall not be delayed by it. */
	uint64_t counts = s->bursting ? listened : MIN(listened, least_ns);
	uint64_t gap = (uint64_t)((double)counts * (1 / s->burst_share - 1));
	l->hot = l->stream->bursting = true;
	l->next_open_ns = clock_mono_ns() + MAX(gap, l->least_gap_ns);
	return NULL;
}

/* All of a burst is here: when it was slow after all, there is no reason to wait for the next. */
static void burst_judge(struct live *l)
{
	if (!l->hot || !l->next_open_ns || too_fast(l, 0, l->burst_ns))
		return;
	l->hot = false;
	l->next_open_ns = clock_mono_ns();
}

/* Pumps one stream that has something to say. */
static struct err *live_pump(struct live *l)
{
	bool ended = false;
	struct err *err = eventpipe_pump(l->session, &ended);
	if (err) {
		exam_log(l->exam, "%s: %s", l->stream->name, err_text(err));
		exam_cut(l->exam, "the event stream was damaged after %s",
			 fmt_duration_ns(clock_mono_ns() - l->exam->start_ns).s);
		l->stream->damaged = true;
		err_free(err);
	}
	if (ended) {
		if (!l->closed_by_us)
			count_open(l, clock_mono_ns());
		live_close(l);
		burst_judge(l);
		return NULL;
	}
	return burst_end(l);
}

struct loop {
	struct exam *exam;
	struct live live[MAX_STREAMS];
	size_t n;
	int pidfd;
	uint64_t window_end_ns;
	size_t ended;		      /* streams that ended by themselves; it will be seen what that means */
	uint64_t ended_ns;	      /* the last of them, or 0 */
	uint64_t program, program_ns; /* which it was at the start, and when that was last looked at */
	bool stopping;
	const struct events_beside *beside; /* may be NULL */
	struct stream_wake *knock;	    /* may be NULL */
	bool beat;			    /* streams are still to be made to speak, see proof.h */
};

#define BESIDE_TURN_NS (50 * NS_PER_MS)
#define PROGRAM_LOOK_NS (100 * NS_PER_MS)

static void beside_stop(const struct loop *loop)
{
	if (loop->beside)
		loop->beside->stop(loop->beside->user);
}

/* The window is over, for whatever reason: its end is now, and every stream is asked to finish. */
static struct err *loop_stop(struct loop *loop)
{
	if (loop->stopping)
		return NULL;
	loop->stopping = true;
	loop->exam->end_ns = clock_mono_ns();
	beside_stop(loop);
	for (size_t i = 0; i < loop->n; i++) {
		loop->live[i].next_open_ns = 0;
		struct err *err = live_stop(&loop->live[i]);
		if (err) {
			exam_log(loop->exam, "stopping %s: %s", loop->live[i].stream->name, err_text(err));
			err_free(err);
			live_close(&loop->live[i]);
		}
	}
	if (loop->beside && loop->beside->stopped)
		loop->beside->stopped(loop->beside->user);
	return NULL;
}

/* Does the runtime still owe us the end of a stream? It serves one command at a time, and finishes a stop only as we
 * drain: to wait for an answer now would be to wait for ourselves. */
static bool loop_draining(const struct loop *loop)
{
	for (size_t i = 0; i < loop->n; i++) {
		if (loop->live[i].session && eventpipe_stopping(loop->live[i].session))
			return true;
	}
	return false;
}

/* When loop_knock() is due; UINT64_MAX: not at all, or not before a stop is finished, until when the runtime would not answer. */
static uint64_t loop_knock_ns(const struct loop *loop)
{
	bool beat = loop->beat && !loop_draining(loop), due = loop->knock && !stream_wake_given(loop->knock);
	if ((!beat && !due) || loop->stopping || loop->ended_ns)
		return UINT64_MAX;
	return loop->window_end_ns - MIN(loop->window_end_ns, (uint64_t)STREAM_WAKE_BEFORE_NS);
}

/* Closes streams of which nothing is missing, though their end may be far. */
static void loop_let_go(struct loop *loop)
{
	for (size_t i = 0; i < loop->n && loop->stopping; i++) {
		struct live *l = &loop->live[i];
		if (!l->session || !l->stream->brief || !eventpipe_stopping(l->session))
			continue;
		uint64_t certain = nettrace_reader_certain(eventpipe_reader(l->session));
		if (certain && certain + (uint64_t)l->clock_offset_ns >= loop->exam->end_ns)
			live_close(l);
	}
}

static bool loop_done(const struct loop *loop)
{
	for (size_t i = 0; i < loop->n; i++) {
		if (loop->live[i].session || loop->live[i].next_open_ns)
			return false;
	}
	return loop->stopping;
}

static uint64_t loop_wake_ns(const struct loop *loop)
{
	uint64_t now = clock_mono_ns(), wake = now + 100 * NS_PER_MS; /* progress ten times a second */
	if (!loop->stopping && !loop->ended_ns)
		wake = MIN(wake, loop->window_end_ns);
	wake = MIN(wake, loop_knock_ns(loop));
	if (loop->beside)
		wake = MIN(wake, now + BESIDE_TURN_NS);
	for (size_t i = 0; i < loop->n; i++) {
		const struct live *l = &loop->live[i];
		if (l->next_open_ns && !l->session)
			wake = MIN(wake, l->next_open_ns);
		else if (l->session && l->hot && !eventpipe_stopping(l->session))
			wake = MIN(wake, l->opened_at_ns + burst_least_ns(l->stream));
	}
	return wake;
}

static void loop_target_gone(struct loop *loop)
{
	if (loop->stopping)
		return;
	exam_cut(loop->exam, "the process ended after %s", fmt_duration_ns(clock_mono_ns() - loop->exam->start_ns).s);
	loop->stopping = true; /* the streams end by themselves */
	loop->exam->end_ns = clock_mono_ns();
	beside_stop(loop);
	for (size_t i = 0; i < loop->n; i++)
		loop->live[i].next_open_ns = 0;
}

/* Waits for bytes, for the target's end or for a cancel, and deals with what came. */
static struct err *loop_turn(struct loop *loop)
{
	struct pollfd fds[MAX_STREAMS + 3];
	nfds_t n = 0;
	const struct events_beside *beside = loop->stopping ? NULL : loop->beside;
	for (size_t i = 0; i < loop->n; i++)
		fds[n++] = (struct pollfd){ .fd = loop->live[i].session ? eventpipe_fd(loop->live[i].session) : -1,
					    .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = beside ? beside->fd(beside->user) : -1, .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = loop->stopping ? -1 : loop->exam->cancel_fd, .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = loop->stopping ? -1 : loop->pidfd, .events = POLLIN };
	if (poll(fds, n, deadline_poll_ms((struct deadline){ loop_wake_ns(loop) })) < 0 && errno != EINTR)
		return err_errno(errno, "poll");
	if (fds[n - 2].revents & POLLIN) {
		loop->exam->cancelled = true;
		exam_cut(loop->exam, "cancelled after %s", fmt_duration_ns(clock_mono_ns() - loop->exam->start_ns).s);
		TRY(loop_stop(loop));
	}
	if (fds[n - 1].revents & POLLIN)
		loop_target_gone(loop);
	for (size_t i = 0; i < loop->n; i++) {
		if (fds[i].revents && loop->live[i].session)
			TRY(live_pump(&loop->live[i]));
		if (!loop->stopping)
			TRY(burst_end(&loop->live[i]));
	}
	if (beside && !loop->stopping)
		beside->turn(beside->user);
	return NULL;
}

/* The same process is another program now: what it was has ended. */
static struct err *loop_check_program(struct loop *loop)
{
	uint64_t now = clock_mono_ns();
	if (loop->stopping || !loop->program || now - loop->program_ns < PROGRAM_LOOK_NS)
		return NULL;
	loop->program_ns = now;
	uint64_t program = target_program(&loop->exam->patient->target);
	if (!program || program == loop->program)
		return NULL;
	loop->exam->other_program = true;
	exam_cut(loop->exam, "it became another program after %s", fmt_duration_ns(now - loop->exam->start_ns).s);
	return loop_stop(loop);
}

static bool ended_by_itself(const struct live *l)
{
	const struct events_stream *s = l->stream;
	bool expected = l->closed_by_us || only_looks(s) || (s->beside && !s->opened);
	return !l->session && !l->next_open_ns && !expected;
}

/* A stream that ended without being asked to: the target is ending, or its runtime has closed it. A process closes its
 * streams one after the other, before its end can be seen, and each only as we drain it: so the window continues
 * meanwhile. A process whose runtime has removed its socket is certain to end, however long that takes on a busy
 * machine. */
static void loop_check_ends(struct loop *loop)
{
	size_t ended = 0, left = 0;
	for (size_t i = 0; i < loop->n; i++) {
		ended += ended_by_itself(&loop->live[i]);
		left += loop->live[i].session != NULL;
	}
	if (!ended || loop->stopping)
		return;
	uint64_t now = clock_mono_ns();
	if (ended != loop->ended) {
		loop->ended = ended;
		loop->ended_ns = now;
	}
	loop->program_ns = 0;
	err_ignore(loop_check_program(loop));
	const char *socket = loop->exam->patient->target.socket;
	bool going = left || access(socket, F_OK);
	uint64_t wait_ms = loop->pidfd < 0 ? 0 : going ? EXIT_LATE_MS : EXIT_SEEN_MS;
	if (loop->stopping || now - loop->ended_ns < wait_ms * NS_PER_MS)
		return;
	exam_cut(loop->exam, "the runtime closed the event stream after %s",
		 fmt_duration_ns(loop->ended_ns - loop->exam->start_ns).s);
	err_ignore(loop_stop(loop));
}

static bool due(const struct live *l)
{
	if (l->session)
		return false;
	if (l->stream->after)
		return !l->stream->opened && l->stream->after->events;
	if (l->stream->when)
		return l->stream->when(l->stream->user, clock_mono_ns());
	if (l->stream->beside)
		return !l->stream->opened && l->stream->beside->bursting;
	return l->next_open_ns && clock_mono_ns() >= l->next_open_ns;
}

/* Opens what is due: the next burst, or the names. What fails here costs detail, not the result. */
static void loop_reopen(struct loop *loop)
{
	for (size_t i = 0; i < loop->n && !loop->stopping && !loop->ended_ns && !loop_draining(loop); i++) {
		struct live *l = &loop->live[i];
		if (!due(l))
			continue;
		struct ipc_trace_config config = live_config(l);
		uint64_t left_ms = settle_left_ms(loop->exam->patient->target.socket, &config);
		l->next_open_ns = left_ms ? clock_mono_ns() + left_ms * NS_PER_MS : 0;
		if (left_ms)
			continue;
		l->closed_by_us = false;
		struct err *err = live_open(l, l->stream->after);
		/* A look at threads needs the time that a stop takes. */
		if (!err && only_looks(l->stream))
			err = live_stop(l);
		if (err) {
			exam_log(loop->exam, "%s: %s", l->stream->name, err_text(err));
			err_free(err);
			l->closed_by_us = true;
			l->stream->opened++; /* not again */
			live_close(l);
		}
	}
}

/* Streams from which nothing comes after the stop are closed: the runtime's side ends with our socket. */
static void loop_drop_silent(struct loop *loop)
{
	uint64_t now = clock_mono_ns();
	for (size_t i = 0; i < loop->n; i++) {
		struct live *l = &loop->live[i];
		uint64_t since = MAX(l->last_byte_ns, loop->exam->end_ns);
		if (!l->session || !loop->stopping || now < since + SILENCE_TIMEOUT_MS * NS_PER_MS)
			continue;
		exam_log(loop->exam, "%s: the runtime did not finish its stream; let go", l->stream->name);
		exam_cut(loop->exam, "the runtime did not finish its event stream");
		live_close(l);
	}
}

static void loop_knock(struct loop *loop)
{
	uint64_t now = clock_mono_ns();
	if (loop->beat) {
		loop->beat = false;
		loop->knock = stream_wake_new(loop->exam->patient->target.socket, deadline_in_ms(BEAT_TIMEOUT_MS));
		for (size_t i = 0; loop->knock && i < loop->n; i++)
			loop->live[i].stream->beat_ns = loop->live[i].beating && loop->live[i].session ? now : 0;
	}
	stream_wake_give(loop->knock);
}

/* Before the first stream is opened, since it would not be read meanwhile. */
static struct err *loop_settle(struct loop *loop)
{
	const struct exam *exam = loop->exam;
	for (size_t i = 0; i < loop->n; i++) {
		struct ipc_trace_config config = live_config(&loop->live[i]);
		TRY(settle_wait(exam->patient->target.socket, &config, exam->cancel_fd));
	}
	return NULL;
}

static struct err *loop_run(struct loop *loop, uint64_t window_ms)
{
	struct exam *exam = loop->exam;
	TRY(loop_settle(loop));
	bool silent = false; /* a runtime that did not answer once is not asked again for what we can do without */
	for (size_t i = 0; i < loop->n; i++) {
		struct live *l = &loop->live[i];
		l->least_gap_ns = window_ms * NS_PER_MS / BURSTS_MAX;
		bool later = only_looks(l->stream) || l->stream->beside || (l->stream->optional && silent);
		struct err *err = later ? NULL : live_open(l, false);
		if (err && !l->stream->optional)
			return err;
		l->closed_by_us = err || (l->stream->optional && silent);
		silent |= err && err_kind(err) == ERR_TIMEOUT;
		if (err)
			exam_log(exam, "%s: %s", l->stream->name, err_text(err));
		err_free(err);
	}
	if (loop->beside && loop->beside->prompt && loop->n && !silent)
		loop->knock = stream_wake_new(exam->patient->target.socket, deadline_in_ms(OPEN_TIMEOUT_MS));
	if (loop->beside)
		TRY(loop->beside->start(loop->beside->user));
	exam->start_unix_ns = clock_real_ns();
	exam->start_ns = clock_mono_ns();
	loop->window_end_ns = exam->start_ns + window_ms * NS_PER_MS;
	if (exam->on_listening)
		exam->on_listening(exam->user);
	while (!loop_done(loop)) {
		TRY(loop_turn(loop));
		loop_check_ends(loop);
		TRY(loop_check_program(loop));
		uint64_t now = clock_mono_ns();
		if (!loop->stopping && !loop->ended_ns && now >= loop->window_end_ns)
			TRY(loop_stop(loop));
		if (now >= loop_knock_ns(loop))
			loop_knock(loop);
		loop_let_go(loop);
		loop_reopen(loop);
		loop_drop_silent(loop);
		if (!loop->stopping)
			exam_progress(exam, (double)(now - exam->start_ns) / (double)(window_ms * NS_PER_MS), "%s",
				      loop->beside ? loop->beside->doing : "listening");
	}
	if (!exam->end_ns)
		exam->end_ns = clock_mono_ns();
	return NULL;
}

/* The window could not begin: its streams are ended as others are. One that is only closed is ended by a thread of the runtime's,
 * some time later; if a session is being opened just then, that thread may turn off again what the session has turned on, and the
 * stream stays silent (the runtime calls providers when it holds no lock any more, dotnet/runtime 129457). */
static void loop_abandon(struct loop *loop)
{
	struct deadline deadline = deadline_in_ms(ABANDON_MS);
	for (size_t i = 0; i < loop->n; i++)
		err_ignore(live_stop(&loop->live[i]));
	while (loop_draining(loop) && !deadline_passed(deadline)) {
		struct pollfd fds[MAX_STREAMS];
		for (size_t i = 0; i < loop->n; i++)
			fds[i] =
				(struct pollfd){ .fd = loop->live[i].session ? eventpipe_fd(loop->live[i].session) : -1,
						 .events = POLLIN };
		if (poll(fds, loop->n, deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			return;
		for (size_t i = 0; i < loop->n; i++)
			if (fds[i].revents)
				err_ignore(live_pump(&loop->live[i]));
	}
}

static void save_stream(struct exam *exam, const struct live *l)
{
	const struct events_stream *s = l->stream;
	if (!exam->recording)
		return;
	CLEANUP(mem_freep) char *key = mem_printf("stream-%s", s->name);
	json_t *fact = json_pack("{s:I, s:I, s:b}", "open_ns", (json_int_t)s->open_ns, "opened", (json_int_t)s->opened,
				 "stacks_refused", s->stacks_refused);
	if (s->bursting)
		json_object_set(fact, "bursts", l->bursts);
	if (l->beating)
		json_object_set_new(fact, "beat_ns", json_integer((json_int_t)s->beat_ns));
	recording_set_fact(exam->recording, key, fact);
	json_decref(fact);
}

static struct err *events_live(struct exam *exam, struct events_stream *streams, size_t n, uint64_t window_ms,
			       const struct events_beside *beside)
{
	struct loop loop = { .exam = exam, .n = n, .pidfd = -1, .beside = beside };
	bool can_beat = !(beside && beside->prompt) && proof_can_beat(exam);
	const char *rate = getenv("DRDOTNET_BURST_RATE"); /* of tests: one that a machine of any speed reaches */
	for (size_t i = 0; i < n; i++) {
		loop.live[i] = (struct live){ .exam = exam, .stream = &streams[i] };
		loop.live[i].beating = can_beat && proof_ask_beat(&streams[i], &loop.live[i].beat);
		loop.beat |= loop.live[i].beating;
		if (streams[i].burst_share > 0)
			loop.live[i].bursts = json_array();
		if (rate)
			streams[i].burst_rate = strtod(rate, NULL);
	}
	if (exam->patient->target.pid) {
		TRY(target_pidfd(&exam->patient->target, &loop.pidfd));
		loop.program = target_program(&exam->patient->target);
	}
	bool cut = exam->partial;
	struct err *err = loop_run(&loop, window_ms);
	if (err)
		loop_abandon(&loop);
	for (size_t i = 0; i < n; i++)
		live_close(&loop.live[i]);
	if (err && !cut) /* what was not begun was not cut either: it may be tried another way */
		mem_free(STEAL(exam->partial));
	stream_wake_free(loop.knock);
	fd_closep(&loop.pidfd);
	if (!err) {
		exam_prove_streams(exam, streams, n);
		exam_keep_window(exam);
	}
	for (size_t i = 0; i < n; i++) {
		if (!err)
			save_stream(exam, &loop.live[i]);
		json_decref(loop.live[i].bursts);
	}
	return err;
}

struct err *exam_events_beside(struct exam *exam, struct events_stream *streams, size_t n, uint64_t window_ms,
			       const struct events_beside *beside)
{
	if (n > MAX_STREAMS)
		return err_new(ERR_UNSUPPORTED, "more than %d event streams at once", MAX_STREAMS);
	return exam->replay ? events_replay(exam, streams, n) : events_live(exam, streams, n, window_ms, beside);
}

/* --- one look --- */

static struct err *rundown_live(struct exam *exam, struct events_stream *s)
{
	struct live l = { .exam = exam, .stream = s };
	TRY(live_open(&l, true));
	struct err *err = NULL;
	while (!err && l.session) {
		err = fd_wait(eventpipe_fd(l.session), POLLIN, deadline_in_ms(SILENCE_TIMEOUT_MS));
		if (!err)
			err = live_pump(&l);
	}
	live_close(&l);
	return err;
}

struct err *exam_rundown(struct exam *exam, struct events_stream *s)
{
	if (exam->replay)
		return events_replay_stream(exam, s);
	if (exam->other_program)
		return NULL;
	/* Useful, but the report is possible without it. */
	struct err *err = rundown_live(exam, s);
	if (err) {
		exam_log(exam, "%s: %s", s->name, err_text(err));
		err_free(err);
	}
	return NULL;
}
