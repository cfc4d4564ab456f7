/* session.json: what a finished session was, for people, programs and for making the index again. */

#include "store/store.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD_FORMAT 1
#define RECORD_NAME "session.json"
#define RECORD_BYTES_MAX ((size_t)1 << 20)

static void write_time(struct jsonw *w, const char *key, const char *key_ns, int64_t unix_ns)
{
	if (!unix_ns) {
		jsonw_null(w, key);
		return;
	}
	jsonw_str(w, key, fmt_time_iso(unix_ns).s);
	jsonw_i64(w, key_ns, unix_ns);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *e)
{
	return e->d_name[0] != '.' && strcmp(e->d_name, RECORD_NAME) != 0 && !str_ends(e->d_name, ".tmp");
}

static void write_files(struct jsonw *w, const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_shown, by_name);
	jsonw_array(w, "files");
	for (int i = 0; i < n; i++) {
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, names[i]->d_name);
		struct stat st;
		if (lstat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
			bool folder = S_ISDIR(st.st_mode);
			jsonw_object(w, NULL);
			jsonw_str(w, "name", names[i]->d_name);
			if (folder)
				jsonw_bool(w, "folder", true);
			jsonw_u64(w, "bytes", folder ? dir_bytes(path) : (uint64_t)st.st_size);
			jsonw_object_end(w);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	jsonw_array_end(w);
}

void store_row_json(struct jsonw *w, const struct store_row *row)
{
	jsonw_str(w, "version", row->version);
	jsonw_str(w, "guid", row->guid);
	jsonw_object(w, "profiler");
	jsonw_str(w, "id", row->profiler);
	jsonw_str(w, "uuid", row->profiler_uuid);
	jsonw_object_end(w);
	jsonw_object(w, "target");
	jsonw_i64(w, "id", row->target_id);
	jsonw_str(w, "process", row->process);
	jsonw_str(w, "runtime", row->runtime);
	jsonw_object_end(w);
	jsonw_str(w, "state", store_state_name(row->state));
	jsonw_num(w, "progress", row->progress);
	write_time(w, "created", "createdUnixNs", row->created_ns);
	write_time(w, "started", "startedUnixNs", row->started_ns);
	write_time(w, "finished", "finishedUnixNs", row->finished_ns);
	jsonw_str(w, "health", row->health);
	jsonw_str(w, "finding", row->finding);
	jsonw_str(w, "verdict", row->verdict);
	jsonw_str(w, "partial", row->partial);
	jsonw_str(w, "error", row->error);
	jsonw_raw(w, "parameters", row->parameters ? row->parameters : "{}");
}

struct err *store_record_write(const char *dir, const struct store_row *row)
{
	struct buf text = { 0 };
	struct jsonw w = jsonw_make(&text, true);
	jsonw_object(&w, NULL);
	jsonw_i64(&w, "format", RECORD_FORMAT);
	store_row_json(&w, row);
	write_files(&w, dir);
	jsonw_object_end(&w);
	buf_char(&text, '\n');
	CLEANUP(mem_freep) char *path = mem_printf("%s/" RECORD_NAME, dir);
	struct err *err = file_write_atomic(path, text.data, text.len, 0600);
	buf_free(&text);
	return err;
}

struct err *store_record_json(const char *dir, json_t **ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/" RECORD_NAME, dir);
	struct buf text = { 0 };
	struct err *err = file_read(path, RECORD_BYTES_MAX, &text);
	json_t *j = NULL;
	if (!err)
		err = json_parse(buf_cstr(&text), text.len, RECORD_BYTES_MAX, &j);
	buf_free(&text);
	if (!err && !json_is_object(j)) {
		json_decref(j);
		err = err_new(ERR_BAD_DATA, "'%s' is no object", path);
	}
	if (err)
		return err;
	*ret = j;
	return NULL;
}

static void read_row(const json_t *j, struct store_row *row)
{
	const json_t *profiler = json_object_get(j, "profiler"), *target = json_object_get(j, "target");
	store_set(&row->profiler, json_get_str(profiler, "id", NULL));
	store_set(&row->profiler_uuid, json_get_str(profiler, "uuid", NULL));
	row->target_id = json_get_int(target, "id", 0);
	store_set(&row->process, json_get_str(target, "process", NULL));
	store_set(&row->runtime, json_get_str(target, "runtime", NULL));
	row->progress = json_get_num(j, "progress", 1);
	row->created_ns = json_get_int(j, "createdUnixNs", 0);
	row->started_ns = json_get_int(j, "startedUnixNs", 0);
	row->finished_ns = json_get_int(j, "finishedUnixNs", 0);
	store_set(&row->health, json_get_str(j, "health", NULL));
	store_set(&row->finding, json_get_str(j, "finding", NULL));
	store_set(&row->verdict, json_get_str(j, "verdict", NULL));
	store_set(&row->partial, json_get_str(j, "partial", NULL));
	store_set(&row->error, json_get_str(j, "error", NULL));
	store_set(&row->version, json_get_str(j, "version", NULL));
	const json_t *parameters = json_object_get(j, "parameters");
	char *text = json_is_object(parameters) ? json_dumps(parameters, JSON_COMPACT) : NULL;
	store_set(&row->parameters, text);
	free(text);
}

struct err *store_record_read(const char *dir, const char *guid, struct store_row *ret)
{
	json_t *j;
	TRY(store_record_json(dir, &j));
	struct store_row row = { 0 };
	bool ok = store_guid_ok(guid) && str_eq(json_get_str(j, "guid", NULL), guid) &&
		  json_get_int(j, "format", 0) == RECORD_FORMAT &&
		  store_state_parse(json_get_str(j, "state", ""), &row.state) && store_state_finished(row.state);
	if (ok) {
		str_copy(row.guid, sizeof(row.guid), guid);
		read_row(j, &row);
		row.bytes = dir_bytes(dir);
		*ret = row;
	}
	json_decref(j);
	return ok ? NULL : err_new(ERR_BAD_DATA, "'%s/" RECORD_NAME "' is not the record of a finished session", dir);
}
