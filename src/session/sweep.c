/* Brings index and folders into agreement after processes of ours were killed; docs/internals/sessions.md has the
 * table. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GONE_PREFIX ".gone-"

static bool is_dir(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What an unfinished session may keep: its log, and a recording that is sealed and so can be analysed again. */
static struct err *keep_useful(const char *dir)
{
	CLEANUP(mem_freep) char *recording = mem_printf("%s/recording", dir);
	CLEANUP(mem_freep) char *manifest = mem_printf("%s/manifest.json", recording);
	TRY(dir_make(dir, 0700));
	files_drop_reports(dir);
	return access(manifest, F_OK) == 0 ? NULL : dir_remove(recording);
}

struct err *session_conclude(struct store *store, struct store_row *row, enum store_state state, const char *reason)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
	struct store_row record;
	struct err *err = store_record_read(dir, row->guid, &record);
	if (!err) {
		/* It had finished; only the index was not updated. */
		store_row_fini(row);
		*row = record;
		return store_put(store, row);
	}
	err_free(err);
	row->state = state;
	row->progress = 1;
	row->finished_ns = clock_real_ns();
	store_set(&row->error, reason);
	err = keep_useful(dir);
	if (!err)
		err = store_record_write(dir, row);
	if (err) {
		/* No room even for that: then rather no folder than half of one. */
		err_free(err);
		err_ignore(dir_remove(dir));
	}
	row->bytes = dir_bytes(dir);
	bool done;
	return store_put_if_owned(store, row, &done);
}

static struct err *sweep_row(struct store *store, struct store_row *row)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
	if (store_state_finished(row->state))
		return is_dir(dir) ? NULL : store_delete(store, row->guid);
	if (owner_alive(row->owner_pid, row->owner_start) || owner_locked(dir))
		return NULL;
	CLEANUP(mem_freep)
	char *reason = mem_printf("its worker was gone while the session was %s (killed, or the machine went down)",
				  store_state_name(row->state));
	return session_conclude(store, row, STORE_FAILED, reason);
}

/* A folder that the index does not know. */
static struct err *sweep_folder(struct store *store, const char *guid)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, guid);
	struct store_row row;
	struct err *err = store_record_read(dir, guid, &row);
	if (!err) {
		err = store_put(store, &row);
		store_row_fini(&row);
		return err;
	}
	bool unfinished = err_kind(err) == ERR_NOT_FOUND;
	err_free(err);
	/* A damaged or newer record may be valuable: not removed. */
	return unfinished && !owner_locked(dir) ? dir_remove(dir) : NULL;
}

static int is_ours(const struct dirent *e)
{
	return store_guid_ok(e->d_name) ||
	       (str_starts(e->d_name, GONE_PREFIX) && store_guid_ok(e->d_name + strlen(GONE_PREFIX)));
}

/* Continues after a failure; the first one is returned. */
static void remember(struct err **first, struct err *err)
{
	if (*first)
		err_ignore(err);
	else
		*first = err;
}

struct err *session_sweep(struct store *store)
{
	/* Folders first: a row is made before its folder, so a folder without a row is not a session that is just being
	 * made. */
	struct dirent **names;
	int n = scandir(store_sessions_dir(store), &names, is_ours, alphasort);
	if (n < 0)
		return err_errno(errno, "'%s'", store_sessions_dir(store));
	CLEANUP(store_rows_free) struct store_rows rows = { 0 };
	struct strtab known = { 0 };
	struct err *err = store_list(store, NULL, &rows);
	bool listed = !err;
	vec_each(row, &rows) {
		strtab_add_cstr(&known, row->guid);
		remember(&err, sweep_row(store, row));
	}
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		CLEANUP(mem_freep) char *path = store_session_dir(store, name);
		if (name[0] == '.')
			remember(&err, dir_remove(path));
		else if (listed && strtab_find(&known, name, strlen(name)) == STRTAB_NONE)
			remember(&err, sweep_folder(store, name));
		free(names[i]);
	}
	free(names);
	strtab_free(&known);
	return err;
}

struct err *session_open_store(struct store **ret)
{
	CLEANUP(mem_freep) char *home = NULL;
	CLEANUP(store_closep) struct store *store = NULL;
	TRY(home_path(&home));
	TRY(store_open(home, &store));
	/* What cannot be tidied now is tried again next time; it must not prevent the rest. */
	err_ignore(session_sweep(store));
	*ret = STEAL(store);
	return NULL;
}

struct err *session_delete(struct store *store, const struct store_row *row)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
	CLEANUP(mem_freep) char *gone = mem_printf("%s/" GONE_PREFIX "%s", store_sessions_dir(store), row->guid);
	if (!store_state_finished(row->state))
		return err_new(ERR_BUSY, "session %s is still %s", row->guid, store_state_name(row->state));
	/* Renamed first: after a crash from here on, nothing is left that looks like a session. */
	if (rename(dir, gone) < 0 && errno != ENOENT)
		return err_errno(errno, "remove '%s'", dir);
	TRY(store_delete(store, row->guid));
	return dir_remove(gone);
}
