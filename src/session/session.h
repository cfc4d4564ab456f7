#pragma once
/* A session's life: one profiler on one patient, in a worker process of its own.
 *
 *   queued -> running -> analysing -> done | failed | cancelled
 *
 * The process that starts a session only waits; the worker (our own program again, as `_worker GUID`) collects,
 * analyses and writes the folder. A worker that crashes costs its session and nothing else. When the starter is killed,
 * the worker gets SIGTERM and ends the session as cancelled. Whichever process is killed, the next one that opens the
 * store ends its sessions and removes what it left. For one thread at a time. */

#include "base/err.h"
#include "base/json.h"
#include "ipc/patient.h"
#include "profilers/registry.h"
#include "store/store.h"

/* The store of this user's home, swept: sessions whose worker is gone are failed, folders without a row are indexed,
 * leftovers removed. */
struct err *session_open_store(struct store **ret) MUST_USE;
struct err *session_sweep(struct store *store) MUST_USE;

struct session_spec {
	const struct profiler *profiler;
	const struct params *params;
	const struct patient *patient; /* NULL when a recording is analysed again */
	enum way way;
	bool launched;	       /* the patient waits at its start until the session listens */
	bool keep_recording;   /* even when it is large */
	const char *recording; /* its folder, instead of a patient */
	const char *before;    /* folder of an earlier recording to compare that with; or NULL */
	const char *core;      /* absolute path of a core file; then the patient is the process that it is of */
	const char *guid;      /* of a session that session_enqueue() made; NULL = a new one */
};

struct session;
struct session_events { /* any may be NULL */
	void (*on_state)(void *user, enum store_state state);
	void (*on_progress)(void *user, double ratio, const char *what); /* negative = not known */
	void (*on_log)(void *user, const char *line);
	void (*on_news)(void *user, const char *line);
	void (*on_listening)(void *user); /* see struct exam; told once */
	void *user;
};

/* Only the row, `queued` and owned by this process, so that waiting sessions are visible to everybody. Started later
 * with spec.guid, or ended with session_unqueue(). If we are killed, the next process that opens the store marks it as
 * failed. */
struct err *session_enqueue(struct store *store, const struct session_spec *spec, char ret_guid[STORE_GUID_LEN + 1])
	MUST_USE;
/* Ends it as failed or cancelled before it has begun. */
struct err *session_unqueue(struct store *store, const char *guid, enum store_state state, const char *reason) MUST_USE;

/* ERR_IO or ERR_DENIED, before the patient is contacted, when the home cannot take the session. One that was queued
 * stays queued then. */
struct err *session_start(struct store *store, const struct session_spec *spec, struct session **ret) MUST_USE;
/* Readable when session_pump has something to do. */
int session_fd(const struct session *s);
/* Reports what has come, without waiting. After *ret_ended the row is final and nothing runs any more. */
struct err *session_pump(struct session *s, const struct session_events *events, bool *ret_ended) MUST_USE;
/* Asks it to stop and keep what it has. */
void session_cancel(struct session *s);
/* Kills it at once. */
void session_kill(struct session *s);
/* Asks a session that another process started to stop. ERR_BUSY when it is over already or no process works on it. */
struct err *session_ask_to_stop(struct store *store, const char *guid) MUST_USE;
const struct store_row *session_row(const struct session *s);
/* Why it failed, as an error of the right kind; NULL when it did not. The caller owns it. */
struct err *session_error(const struct session *s);
/* What went wrong in the worker after the session was completely saved, or NULL: a bug of ours, worth reporting. */
const char *session_aftermath(const struct session *s);
/* Kills what still runs. */
void session_free(struct session *s);
DEFINE_CLEANUP(session_free, struct session *)

/* The other side: all that the command `_worker GUID` does; returns its exit code. find is profiler_find, or a test's
 * own. */
int session_worker(const char *guid, struct err *(*find)(const char *name, const struct profiler **ret));

/* The examined patient, from a recording's facts; patient_fini frees it. ERR_BAD_DATA when the facts are not of ours.
 */
struct err *session_recorded_patient(const struct recording *r, struct patient *ret) MUST_USE;

/* Starts from the parameters it was recorded with, when the same profiler made it. */
struct err *session_recorded_params(const char *recording, const struct profiler *profiler, struct params *params)
	MUST_USE;

/* Files of a finished session. */
struct err *session_report(const struct store *store, const char *guid, struct report **ret) MUST_USE;
/* ERR_BUSY while it still runs. */
struct err *session_report_of(const struct store *store, const struct store_row *row, struct report **ret) MUST_USE;
/* report.md and so on; ext without the dot. */
struct err *session_report_text(const struct store *store, const char *guid, const char *ext, struct buf *out) MUST_USE;
/* The zip of the contract: flat, every report file, neither session.json, log nor recording. */
struct err *session_zip(const struct store *store, const struct store_row *row, bool masked, int fd) MUST_USE;
/* For whoever is not the owner: values out of the target's memory as their shape (report_mask). The file of that name, when
 * it is the report in one of its forms; else out stays empty, and it may be shown as it is. */
struct err *session_masked_file(const struct store *store, const struct store_row *row, const char *name,
				struct buf *out) MUST_USE;
/* The same of what the row says: verdict and parameters. */
void session_mask(const struct store *store, struct store_row *row);
/* Its samples for other programs, when the name of a file ends in one of theirs: .svg, .folded, .pb.gz,
 * .speedscope.json, .chromium.json. */
bool session_profile_ending(const char *path);
/* ERR_USAGE when the profiler takes no samples; ERR_NOT_FOUND when the recording was too large to keep. The temporary
 * file lies in the session's folder. */
struct err *session_profile(const struct store *store, const struct store_row *row, const char *path, int fd) MUST_USE;
/* ERR_BUSY while it runs. */
struct err *session_delete(struct store *store, const struct store_row *row) MUST_USE;

struct session_retention {
	uint64_t max_age_ns; /* since its end */
	uint64_t max_count, max_bytes;
};
/* 30 days, 200 sessions, 2 GB; DRDOTNET_KEEP_AGE, DRDOTNET_KEEP_COUNT and DRDOTNET_KEEP_BYTES say otherwise. */
struct err *session_retention_default(struct session_retention *ret) MUST_USE;
/* Deletes sessions beyond the limits, those that ended first before the others; never one that runs, nor the newest of all.
 * The newest session of each program is deleted only for its age, however many or large the others are. Deleted rows are given to ret (NULL = not wanted); with
 * dry_run they are only found. */
struct err *session_prune(struct store *store, const struct session_retention *limits, bool dry_run,
			  struct store_rows *ret) MUST_USE;
