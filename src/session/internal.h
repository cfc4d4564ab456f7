#pragma once
/* What the files of this module share: those of the process that starts a session, and those of its worker. */

#include "session/session.h"

/* File descriptors that a worker starts with. */
enum { WORKER_SPEC_FD = 3, WORKER_EVENTS_FD = 4, WORKER_LOCK_FD = 5, WORKER_FD_END = 6 };

/* Exit codes of a worker that could not write why it failed. */
enum { WORKER_NO_MEMORY = 12, WORKER_NOT_STARTED = 127 };

#define SPEC_BYTES_MAX ((size_t)256 << 10)
#define EVENT_LINE_MAX ((size_t)64 << 10)
#define RECORDING_KEEP_BYTES ((uint64_t)16 << 20)

/* spec.c: the orders of a worker as they are written to its pipe, and the patient as recordings keep it. */
struct worker_spec {
	json_t *json;
	const char *home, *profiler, *recording, *before, *core; /* into json */
	enum way way;
	bool keep_recording;
	bool launched;
	int target_id;
	pid_t pid;
	uint64_t start_ticks;
	char cookie[33];
};
void spec_write(const struct session_spec *spec, const char *home, struct buf *out);
struct err *spec_read(const char *text, size_t len, struct worker_spec *ret) MUST_USE;
void worker_spec_fini(struct worker_spec *spec);
json_t *spec_parameters(const struct profiler *profiler, const struct params *params);
/* Sets every parameter in `object` that the profiler has. */
struct err *spec_set_parameters(const struct profiler *profiler, struct params *params, const json_t *object) MUST_USE;
/* Is it still the process that we were told to examine? */
struct err *spec_check_patient(const struct worker_spec *spec, const struct patient *patient) MUST_USE;
json_t *spec_patient_json(const struct patient *patient);
struct err *spec_read_patient(const json_t *json, struct patient *ret) MUST_USE;

/* owner.c: which process works on a session. */
uint64_t owner_start_ticks(pid_t pid); /* 0 when it is gone */
bool owner_alive(int64_t pid, uint64_t start);
/* Locks a session's folder for as long as this process works on it. Processes in other pid namespaces see the lock too. */
struct err *owner_lock(const char *dir, int *ret_fd) MUST_USE;
bool owner_locked(const char *dir);

/* sweep.c: ends an unfinished session whose worker is gone: takes its session.json if it got that far, else keeps only
 * log and recording. row is updated. */
struct err *session_conclude(struct store *store, struct store_row *row, enum store_state state, const char *reason)
	MUST_USE;

/* files.c */
struct err *files_save_report(const char *dir, const struct profiler *profiler, const struct report *report) MUST_USE;
void files_drop_reports(const char *dir);
