#pragma once
/* The folders of sessions on disk, and the index over them.
 *
 *   <home>/sessions/<guid>/   one folder a session: the truth. Its session.json, written last, marks it finished.
 *   <home>/index.db           SQLite, one row a session: may be lost at any time and is made again from the folders.
 *
 * Knows no profiler, report or process: rows are plain facts. Several processes use one home at once. A store is not
 * for threads. */

#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

enum store_state {
	STORE_QUEUED,
	STORE_RUNNING,
	STORE_ANALYSING,
	STORE_DONE,
	STORE_FAILED,
	STORE_CANCELLED,
	STORE_STATES
};
const char *store_state_name(enum store_state state);
bool store_state_parse(const char *word, enum store_state *ret);
bool store_state_finished(enum store_state state);

#define STORE_GUID_LEN 36
/* Lower case, 8-4-4-4-12. */
bool store_guid_ok(const char *guid);
void store_guid_new(char ret[STORE_GUID_LEN + 1]);

/* Strings are owned by the row and NULL when not known. */
struct store_row {
	char guid[STORE_GUID_LEN + 1];
	char *profiler, *profiler_uuid;
	int64_t target_id;
	char *process, *runtime;
	int64_t created_ns, started_ns, finished_ns; /* unix time; 0 = not yet */
	enum store_state state;
	double progress;		  /* 0..1 */
	char *health, *finding, *verdict; /* words of the report */
	char *partial;			  /* why the window was cut short */
	char *error;			  /* why it failed */
	char *version;			  /* of the drdotnet that ran it */
	char *parameters;		  /* JSON object of texts */
	uint64_t bytes;			  /* of the folder */
	int64_t owner_pid;		  /* the process that works on it; with the start time, since pids are reused */
	uint64_t owner_start;
};
void store_row_fini(struct store_row *row);
/* Frees what was there, copies s. */
void store_set(char **field, const char *s);
VEC_TYPE(store_rows, struct store_row);
void store_rows_free(struct store_rows *rows);

struct store;
/* Makes the home when it is not there. A damaged index is moved aside (index.db.damaged) and made again; one of a
 * newer program is ERR_UNSUPPORTED. */
struct err *store_open(const char *home, struct store **ret) MUST_USE;
void store_close(struct store *s);
DEFINE_CLEANUP(store_close, struct store *)
/* What was done to a damaged index on opening, in words, or NULL. */
const char *store_repaired(const struct store *s);
const char *store_sessions_dir(const struct store *s);
char *store_session_dir(const struct store *s, const char *guid); /* mem_free */

/* Inserts or replaces. */
struct err *store_put(struct store *s, const struct store_row *row) MUST_USE;
/* Only while the row is unfinished and belongs to the same owner as `row` says; *ret_done tells whether it was. */
struct err *store_put_if_owned(struct store *s, const struct store_row *row, bool *ret_done) MUST_USE;
struct err *store_progress(struct store *s, const char *guid, double progress) MUST_USE;
/* By guid or by a prefix of at least 4 digits. Several: ERR_USAGE and a text that lists them. */
struct err *store_get(struct store *s, const char *guid_or_prefix, struct store_row *ret) MUST_USE;
struct store_filter {
	const char *profiler, *process; /* exact; NULL = any */
	int64_t target_id;		/* 0 = any */
	unsigned states;		/* bits 1 << state; 0 = any */
	size_t limit;			/* 0 = no limit */
};
/* Newest first. */
struct err *store_list(struct store *s, const struct store_filter *filter, struct store_rows *ret) MUST_USE;
struct err *store_delete(struct store *s, const char *guid) MUST_USE;

/* The row as members of the object that is open. */
void store_row_json(struct jsonw *w, const struct store_row *row);

/* session.json, written atomically: the row and the files that are there. */
struct err *store_record_write(const char *dir, const struct store_row *row) MUST_USE;
/* ERR_NOT_FOUND when the session is not finished. The file may be damaged or hostile; its guid must be `guid`. */
struct err *store_record_read(const char *dir, const char *guid, struct store_row *ret) MUST_USE;
/* The whole of it, for showing. */
struct err *store_record_json(const char *dir, json_t **ret) MUST_USE;
