#pragma once
/* What events.c and events_replay.c share; private to src/exam. */

#include "eventpipe/session.h"
#include "exam/proof.h"

/* A stream while it runs. */
struct live {
	struct exam *exam;
	struct events_stream *stream;
	struct eventpipe_session *session; /* NULL between bursts */
	struct recording_part *part;
	uint64_t opened_at_ns, last_byte_ns;
	uint64_t stopped_at_ns;	 /* 0: not stopped */
	json_t *bursts;		 /* [opened, stopped] of each */
	uint64_t burst_seen;	 /* events in this burst */
	uint64_t burst_ns;	 /* how long it was open */
	uint64_t least_gap_ns;	 /* from one to the next */
	bool hot;		 /* the last burst was too fast: this one is short */
	uint64_t next_open_ns;	 /* when to open again; 0 = not planned */
	int64_t clock_offset_ns; /* ours minus the target's */
	bool closed_by_us;
	struct proof_beat beat; /* the stream's provider, with what is asked for beside */
	bool beating;		/* that one is to be used */
};

/* Their user is a struct live. */
extern const struct nettrace_callbacks events_callbacks;

/* All streams of a window that was recorded; one of them. */
struct err *events_replay(struct exam *exam, struct events_stream *streams, size_t n) MUST_USE;
struct err *events_replay_stream(struct exam *exam, struct events_stream *s) MUST_USE;
