/* The index in SQLite. sqlite3's only owner.
 *
 * WAL with synchronous=NORMAL: a power cut may take the last commits but never the file, and what is lost comes back
 * from the folders. Every statement waits at most BUSY_MS for another process. */

#include "store/store.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define SCHEMA_VERSION 1
#define APPLICATION_ID 0x64724e54 /* "drNT" */
#define BUSY_MS 5000
#define BUSY_RETRY_MS 5
#define PREFIX_MIN 4
#define CANDIDATES_MAX 10

struct store {
	sqlite3 *db;
	char *home, *path, *sessions;
	char *repaired;
};

static const char schema[] =
	"CREATE TABLE session ("
	" guid TEXT PRIMARY KEY, profiler TEXT, profiler_uuid TEXT, target_id INTEGER, process TEXT, runtime TEXT,"
	" created_ns INTEGER, started_ns INTEGER, finished_ns INTEGER, state INTEGER, progress REAL,"
	" health TEXT, finding TEXT, verdict TEXT, partial TEXT, error TEXT, version TEXT, parameters TEXT,"
	" bytes INTEGER, owner_pid INTEGER, owner_start INTEGER) WITHOUT ROWID;"
	"CREATE INDEX session_created ON session (created_ns DESC);"
	"PRAGMA user_version = 1;"
	"PRAGMA application_id = 1685212756;";
_Static_assert(APPLICATION_ID == 1685212756 && SCHEMA_VERSION == 1, "the schema text names them");

#define COLUMNS                                                                                                        \
	"guid, profiler, profiler_uuid, target_id, process, runtime, created_ns, started_ns, finished_ns, state,"      \
	" progress, health, finding, verdict, partial, error, version, parameters, bytes, owner_pid, owner_start"

static struct err *fail(const struct store *s, int rc, const char *what)
{
	int errnum = s->db ? sqlite3_system_errno(s->db) : 0;
	const char *why = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc);
	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_new(ERR_BAD_DATA, "%s '%s': %s", what, s->path, why);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_new(ERR_BUSY, "%s '%s': another process holds it", what, s->path);
	case SQLITE_FULL:
		return err_errno(ENOSPC, "%s '%s'", what, s->path);
	case SQLITE_READONLY:
		return err_new(ERR_DENIED, "%s '%s': it is read-only", what, s->path);
	case SQLITE_PERM:
		return err_errno(EACCES, "%s '%s'", what, s->path);
	default:
		return errnum ? err_errno(errnum, "%s '%s': %s", what, s->path, why)
			      : err_new(ERR_IO, "%s '%s': %s", what, s->path, why);
	}
}

static struct err *exec(struct store *s, const char *sql, const char *what)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? NULL : fail(s, rc, what);
}

static void finalizep(sqlite3_stmt **st)
{
	sqlite3_finalize(*st);
}

static struct err *prepare(struct store *s, const char *sql, sqlite3_stmt **ret)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, ret, NULL);
	return rc == SQLITE_OK ? NULL : fail(s, rc, "read the index");
}

/* True with a row, false at the end. */
static struct err *step(struct store *s, sqlite3_stmt *st, const char *what, bool *ret_row)
{
	int rc = sqlite3_step(st);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return fail(s, rc, what);
	*ret_row = rc == SQLITE_ROW;
	return NULL;
}

static struct err *get_int(struct store *s, const char *sql, int64_t *ret)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool row = false;
	TRY(prepare(s, sql, &st));
	TRY(step(s, st, "read the index", &row));
	*ret = row ? sqlite3_column_int64(st, 0) : 0;
	return NULL;
}

static struct err *check_whole(struct store *s)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool row = false;
	TRY(prepare(s, "PRAGMA quick_check(1)", &st));
	TRY(step(s, st, "check the index", &row));
	const char *word = row ? (const char *)sqlite3_column_text(st, 0) : NULL;
	return str_eq(word, "ok") ? NULL : err_new(ERR_BAD_DATA, "the index '%s' is damaged", s->path);
}

/* Inside a write transaction, so that two first users do not make it twice. */
static struct err *check_schema(struct store *s)
{
	int64_t version, id, tables;
	TRY(get_int(s, "PRAGMA user_version", &version));
	TRY(get_int(s, "PRAGMA application_id", &id));
	TRY(get_int(s, "SELECT count(*) FROM sqlite_master", &tables));
	if (tables == 0 && version == 0)
		return exec(s, schema, "make the index");
	if (id != APPLICATION_ID)
		return err_new(ERR_UNSUPPORTED, "'%s' is not an index of drdotnet; move it away or set DRDOTNET_HOME",
			       s->path);
	if (version > SCHEMA_VERSION)
		return err_new(ERR_UNSUPPORTED,
			       "'%s' was made by a newer drdotnet (version %lld of the index; this one knows %d): use "
			       "that one, or another DRDOTNET_HOME",
			       s->path, (long long)version, SCHEMA_VERSION);
	return NULL;
}

/* Verdicts name what is in other people's processes. SQLite gives its other files the rights of this one. */
static struct err *keep_to_ourselves(const struct store *s)
{
	CLOSE_FD int fd = open(s->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "open the index '%s'", s->path);
	if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) && fchmod(fd, 0600) < 0)
		return err_errno(errno, "open the index '%s'", s->path);
	return NULL;
}

static struct err *open_db(struct store *s)
{
	TRY(keep_to_ourselves(s));
	int rc = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW,
				 NULL);
	if (rc != SQLITE_OK)
		return fail(s, rc, "open the index");
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	TRY(exec(s,
		 "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA journal_mode = WAL;"
		 "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 1048576;",
		 "open the index"));
	TRY(check_whole(s));
	TRY(exec(s, "BEGIN IMMEDIATE", "open the index"));
	struct err *err = check_schema(s);
	if (!err)
		err = exec(s, "COMMIT", "make the index");
	if (err)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return err;
}

static void close_db(struct store *s)
{
	sqlite3_close(s->db);
	s->db = NULL;
}

/* SQLite waits for others by itself, except when two first users both change to WAL: the second gets an error at once,
 * and tries again. */
static struct err *open_patiently(struct store *s)
{
	struct deadline deadline = deadline_in_ms(BUSY_MS);
	for (;;) {
		struct err *err = open_db(s);
		if (!err || err_kind(err) != ERR_BUSY || deadline_passed(deadline))
			return err;
		err_free(err);
		close_db(s);
		sqlite3_sleep(BUSY_RETRY_MS);
	}
}

/* Moves the damaged file aside, unless another process has done so since we looked at it. */
static struct err *set_aside(struct store *s, const struct stat *seen)
{
	CLOSE_FD int lock = open(s->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0)
		return err_errno(errno, "'%s'", s->home);
	if (flock(lock, LOCK_EX | LOCK_NB) < 0)
		return err_new(ERR_BUSY, "another process is repairing the index '%s'; try again", s->path);
	struct stat now;
	if (stat(s->path, &now) < 0 || now.st_ino != seen->st_ino || now.st_dev != seen->st_dev)
		return NULL;
	static const char *const suffix[] = { "-wal", "-shm", "" };
	for (size_t i = 0; i < ARRAY_SIZE(suffix); i++) {
		CLEANUP(mem_freep) char *from = mem_printf("%s%s", s->path, suffix[i]);
		CLEANUP(mem_freep) char *to = mem_printf("%s.damaged%s", s->path, suffix[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			return err_errno(errno, "move the damaged index '%s' aside", from);
	}
	return NULL;
}

static struct err *open_or_repair(struct store *s)
{
	struct stat seen = { 0 };
	bool there = stat(s->path, &seen) == 0;
	struct err *err = open_patiently(s);
	if (!err || err_kind(err) != ERR_BAD_DATA || !there)
		return err;
	close_db(s);
	s->repaired =
		mem_printf("%s; it was moved to '%s.damaged' and made again from the sessions", err_text(err), s->path);
	err_free(err);
	TRY(set_aside(s, &seen));
	return open_patiently(s);
}

/* Whoever may change what is in the home decides what we show, and to whom. */
static struct err *check_home(const char *home)
{
	struct stat st;
	if (stat(home, &st) < 0)
		return err_errno(errno, "'%s'", home);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_new(ERR_DENIED,
			       "'%s' belongs to uid %u, who could change what is kept there: give it to uid %u", home,
			       (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 022)
		return err_new(ERR_DENIED, "others may write to '%s' (mode %04o): chmod go-w", home,
			       (unsigned)st.st_mode & 07777);
	return NULL;
}

struct err *store_open(const char *home, struct store **ret)
{
	CLEANUP(store_closep) struct store *s = mem_zalloc(sizeof(*s));
	s->home = mem_strdup(home);
	s->path = mem_printf("%s/index.db", home);
	s->sessions = mem_printf("%s/sessions", home);
	TRY_WRAP(dir_make(home, 0700), "no place for sessions (DRDOTNET_HOME chooses another)");
	TRY_WRAP(check_home(home), "no place for sessions (DRDOTNET_HOME chooses another)");
	TRY_WRAP(dir_make(s->sessions, 0700), "no place for sessions (DRDOTNET_HOME chooses another)");
	TRY_WRAP(open_or_repair(s), "sessions");
	*ret = STEAL(s);
	return NULL;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	close_db(s);
	mem_free(s->home);
	mem_free(s->path);
	mem_free(s->sessions);
	mem_free(s->repaired);
	mem_free(s);
}

const char *store_repaired(const struct store *s)
{
	return s->repaired;
}

const char *store_sessions_dir(const struct store *s)
{
	return s->sessions;
}

char *store_session_dir(const struct store *s, const char *guid)
{
	return mem_printf("%s/%s", s->sessions, guid);
}

static void bind_text(sqlite3_stmt *st, int i, const char *s)
{
	if (s)
		sqlite3_bind_text(st, i, s, -1, SQLITE_TRANSIENT);
}

static void bind_row(sqlite3_stmt *st, const struct store_row *r)
{
	int i = 1;
	bind_text(st, i++, r->guid);
	bind_text(st, i++, r->profiler);
	bind_text(st, i++, r->profiler_uuid);
	sqlite3_bind_int64(st, i++, r->target_id);
	bind_text(st, i++, r->process);
	bind_text(st, i++, r->runtime);
	sqlite3_bind_int64(st, i++, r->created_ns);
	sqlite3_bind_int64(st, i++, r->started_ns);
	sqlite3_bind_int64(st, i++, r->finished_ns);
	sqlite3_bind_int(st, i++, (int)r->state);
	sqlite3_bind_double(st, i++, r->progress);
	bind_text(st, i++, r->health);
	bind_text(st, i++, r->finding);
	bind_text(st, i++, r->verdict);
	bind_text(st, i++, r->partial);
	bind_text(st, i++, r->error);
	bind_text(st, i++, r->version);
	bind_text(st, i++, r->parameters);
	sqlite3_bind_int64(st, i++, (int64_t)r->bytes);
	sqlite3_bind_int64(st, i++, r->owner_pid);
	sqlite3_bind_int64(st, i++, (int64_t)r->owner_start);
}

static char *column_text(sqlite3_stmt *st, int i)
{
	const char *s = (const char *)sqlite3_column_text(st, i);
	return s ? mem_strdup(s) : NULL;
}

static void read_row(sqlite3_stmt *st, struct store_row *r)
{
	int i = 0;
	const char *guid = (const char *)sqlite3_column_text(st, i++);
	str_copy(r->guid, sizeof(r->guid), guid ? guid : "");
	r->profiler = column_text(st, i++);
	r->profiler_uuid = column_text(st, i++);
	r->target_id = sqlite3_column_int64(st, i++);
	r->process = column_text(st, i++);
	r->runtime = column_text(st, i++);
	r->created_ns = sqlite3_column_int64(st, i++);
	r->started_ns = sqlite3_column_int64(st, i++);
	r->finished_ns = sqlite3_column_int64(st, i++);
	int state = sqlite3_column_int(st, i++);
	r->state = state >= 0 && state < STORE_STATES ? (enum store_state)state : STORE_FAILED;
	r->progress = sqlite3_column_double(st, i++);
	r->health = column_text(st, i++);
	r->finding = column_text(st, i++);
	r->verdict = column_text(st, i++);
	r->partial = column_text(st, i++);
	r->error = column_text(st, i++);
	r->version = column_text(st, i++);
	r->parameters = column_text(st, i++);
	r->bytes = (uint64_t)sqlite3_column_int64(st, i++);
	r->owner_pid = sqlite3_column_int64(st, i++);
	r->owner_start = (uint64_t)sqlite3_column_int64(st, i++);
}

#define VALUES "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21)"

struct err *store_put(struct store *s, const struct store_row *row)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool unused;
	if (!store_guid_ok(row->guid))
		return err_new(ERR_USAGE, "'%s' is no guid", row->guid);
	TRY(prepare(s, "INSERT OR REPLACE INTO session (" COLUMNS ") VALUES " VALUES, &st));
	bind_row(st, row);
	return step(s, st, "write the index", &unused);
}

struct err *store_put_if_owned(struct store *s, const struct store_row *row, bool *ret_done)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool unused;
	TRY(prepare(s,
		    "UPDATE session SET (" COLUMNS ") = " VALUES
		    " WHERE guid = ?1 AND state < 3 AND owner_pid = ?20 AND owner_start = ?21",
		    &st));
	bind_row(st, row);
	TRY(step(s, st, "write the index", &unused));
	*ret_done = sqlite3_changes(s->db) > 0;
	return NULL;
}
_Static_assert(STORE_DONE == 3, "unfinished states stand before it in the statement above");

struct err *store_progress(struct store *s, const char *guid, double progress)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool unused;
	TRY(prepare(s, "UPDATE session SET progress = ?2 WHERE guid = ?1", &st));
	bind_text(st, 1, guid);
	sqlite3_bind_double(st, 2, progress);
	return step(s, st, "write the index", &unused);
}

static struct err *read_rows(struct store *s, sqlite3_stmt *st, struct store_rows *ret)
{
	struct store_rows rows = { 0 };
	struct err *err;
	bool row = false;
	while (!(err = step(s, st, "read the index", &row)) && row)
		read_row(st, vec_add(&rows));
	if (err) {
		store_rows_free(&rows);
		return err;
	}
	*ret = rows;
	return NULL;
}

struct err *store_list(struct store *s, const struct store_filter *f, struct store_rows *ret)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	static const struct store_filter all = { 0 };
	f = f ? f : &all;
	TRY(prepare(s,
		    "SELECT " COLUMNS
		    " FROM session WHERE (?1 IS NULL OR profiler = ?1) AND (?2 IS NULL OR process = ?2)"
		    " AND (?3 = 0 OR target_id = ?3) AND (?4 = 0 OR ((1 << state) & ?4) != 0)"
		    " ORDER BY created_ns DESC, guid LIMIT ?5",
		    &st));
	bind_text(st, 1, f->profiler);
	bind_text(st, 2, f->process);
	sqlite3_bind_int64(st, 3, f->target_id);
	sqlite3_bind_int64(st, 4, f->states);
	sqlite3_bind_int64(st, 5, f->limit ? (int64_t)MIN(f->limit, (size_t)INT32_MAX) : -1);
	return read_rows(s, st, ret);
}

static struct err *ambiguous(const char *prefix, const struct store_rows *rows)
{
	struct buf text = { 0 };
	for (size_t i = 0; i < rows->n && i < CANDIDATES_MAX; i++) {
		buf_printf(&text, "\n  %s  %s  ", rows->v[i].guid, rows->v[i].profiler ? rows->v[i].profiler : "-");
		const char *process = rows->v[i].process ? rows->v[i].process : "-";
		str_add_visible(&text, process, strlen(process), 60);
	}
	if (rows->n > CANDIDATES_MAX)
		buf_str(&text, "\n  ...");
	struct err *err = err_new(ERR_USAGE, "several sessions begin with '%s':%s", prefix, buf_cstr(&text));
	buf_free(&text);
	return err;
}

struct err *store_get(struct store *s, const char *guid_or_prefix, struct store_row *ret)
{
	char prefix[STORE_GUID_LEN + 1];
	size_t len = strlen(guid_or_prefix);
	if (len < PREFIX_MIN || len > STORE_GUID_LEN || strspn(guid_or_prefix, "0123456789abcdefABCDEF-") != len)
		return err_new(ERR_USAGE, "'%.80s' is no session: give its guid, or at least the first %d digits",
			       guid_or_prefix, PREFIX_MIN);
	for (size_t i = 0; i <= len; i++) {
		char c = guid_or_prefix[i];
		prefix[i] = (char)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
	}
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	TRY(prepare(s,
		    "SELECT " COLUMNS " FROM session WHERE substr(guid, 1, ?2) = ?1 ORDER BY created_ns DESC LIMIT 11",
		    &st));
	bind_text(st, 1, prefix);
	sqlite3_bind_int64(st, 2, (int64_t)len);
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	TRY(read_rows(s, st, &rows));
	if (rows.n == 0)
		return err_new(ERR_NOT_FOUND, "no session found with guid '%s'", prefix);
	if (rows.n > 1)
		return ambiguous(prefix, &rows);
	*ret = rows.v[0];
	rows.n = 0;
	return NULL;
}

struct err *store_delete(struct store *s, const char *guid)
{
	CLEANUP(finalizep) sqlite3_stmt *st = NULL;
	bool unused;
	TRY(prepare(s, "DELETE FROM session WHERE guid = ?1", &st));
	bind_text(st, 1, guid);
	return step(s, st, "write the index", &unused);
}
