#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/store.h"
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char root[64];

static char *fresh(void)
{
	static unsigned n;
	return mem_printf("%s/home%u", root, n++);
}

static struct store_row sample(const char *guid, int64_t created_ns)
{
	struct store_row r = { .target_id = 42,
			       .created_ns = created_ns,
			       .started_ns = created_ns + 1,
			       .finished_ns = created_ns + 2,
			       .state = STORE_DONE,
			       .progress = 1,
			       .bytes = 1000,
			       .owner_pid = 7,
			       .owner_start = 77 };
	str_copy(r.guid, sizeof(r.guid), guid);
	store_set(&r.profiler, "runtime-pauses");
	store_set(&r.process, "Shop.Api");
	store_set(&r.verdict, "14 pauses, p99 3.1 ms");
	return r;
}

#define G1 "11111111-0000-4000-8000-000000000001"
#define G2 "11112222-0000-4000-8000-000000000002"
#define G3 "33333333-0000-4000-8000-000000000003"

static void put(struct store *s, const char *guid, int64_t created_ns)
{
	struct store_row r = sample(guid, created_ns);
	assert_ok(store_put(s, &r));
	store_row_fini(&r);
}

static void guids_are_random_and_checked(void **state UNUSED)
{
	char a[STORE_GUID_LEN + 1], b[STORE_GUID_LEN + 1];
	store_guid_new(a);
	store_guid_new(b);
	assert_true(store_guid_ok(a) && store_guid_ok(b));
	assert_string_not_equal(a, b);
	assert_int_equal(a[14], '4');
	assert_false(store_guid_ok("../../etc/passwd"));
	assert_false(store_guid_ok("11111111-0000-4000-8000-00000000000/"));
	assert_false(store_guid_ok("11111111-0000-4000-8000-00000000000A"));
	assert_false(store_guid_ok(NULL));
}

static void rows_come_back_newest_first(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	assert_ok(store_open(home, &s));
	put(s, G1, 100);
	put(s, G3, 300);
	put(s, G2, 200);
	struct store_rows rows;
	assert_ok(store_list(s, NULL, &rows));
	assert_int_equal(rows.n, 3);
	assert_string_equal(rows.v[0].guid, G3);
	assert_string_equal(rows.v[2].guid, G1);
	assert_string_equal(rows.v[0].verdict, "14 pauses, p99 3.1 ms");
	assert_null(rows.v[0].error);
	assert_int_equal(rows.v[0].owner_start, 77);
	store_rows_free(&rows);

	assert_ok(store_list(s, &(struct store_filter){ .limit = 1, .profiler = "runtime-pauses" }, &rows));
	assert_int_equal(rows.n, 1);
	store_rows_free(&rows);
	assert_ok(store_list(s, &(struct store_filter){ .states = 1u << STORE_FAILED }, &rows));
	assert_int_equal(rows.n, 0);
	assert_ok(store_list(s, &(struct store_filter){ .target_id = 43 }, &rows));
	assert_int_equal(rows.n, 0);
	assert_ok(store_delete(s, G3));
	assert_ok(store_list(s, &(struct store_filter){ .process = "Shop.Api", .states = 1u << STORE_DONE }, &rows));
	assert_int_equal(rows.n, 2);
	store_rows_free(&rows);
	store_close(s);

	struct stat st;
	assert_int_equal(stat(home, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

static mode_t mode_of(const char *home, const char *name)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", home, name);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 0777;
}

static void nobody_else_reads_the_index(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	CLEANUP(mem_freep) char *index = mem_printf("%s/index.db", home);
	static const char *const files[] = { "index.db", "index.db-wal", "index.db-shm" };
	struct store *s;
	mode_t mask = umask(0);
	for (int again = 0; again < 2; again++) {
		assert_ok(store_open(home, &s));
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			assert_int_equal(mode_of(home, files[i]), 0600);
		store_close(s);
		assert_int_equal(chmod(index, 0644), 0); /* as it was made once */
	}
	umask(mask);
}

static void a_home_of_others_is_refused(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	assert_ok(store_open(home, &s));
	store_close(s);
	static const mode_t open_to_others[] = { 0777, 0770, 0702, 01777 };
	for (size_t i = 0; i < ARRAY_SIZE(open_to_others); i++) {
		assert_int_equal(chmod(home, open_to_others[i]), 0);
		assert_err(store_open(home, &s), ERR_DENIED);
	}
	assert_int_equal(chmod(home, 0755), 0);
	assert_ok(store_open(home, &s));
	store_close(s);
	if (geteuid() == 0) {
		assert_int_equal(chown(home, 65534, 65534), 0);
		assert_err(store_open(home, &s), ERR_DENIED);
		assert_int_equal(chown(home, 0, 0), 0);
	}
}

static void prefixes_must_name_one(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	struct store_row r;
	assert_ok(store_open(home, &s));
	put(s, G1, 100);
	put(s, G2, 200);
	assert_ok(store_get(s, "11112", &r));
	assert_string_equal(r.guid, G2);
	store_row_fini(&r);
	assert_ok(store_get(s, G1, &r));
	store_row_fini(&r);
	struct err *err = store_get(s, "1111", &r);
	assert_int_equal(err_kind(err), ERR_USAGE);
	assert_non_null(strstr(err_text(err), G1));
	assert_non_null(strstr(err_text(err), G2));
	err_free(err);
	assert_err(store_get(s, "111", &r), ERR_USAGE);
	assert_err(store_get(s, "11%%", &r), ERR_USAGE);
	assert_err(store_get(s, "../../x", &r), ERR_USAGE);
	assert_err(store_get(s, "ABCD", &r), ERR_NOT_FOUND);
	store_close(s);
}

static void only_the_owner_may_finish_a_row(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	bool done;
	assert_ok(store_open(home, &s));
	struct store_row r = sample(G1, 100);
	r.state = STORE_RUNNING;
	assert_ok(store_put(s, &r));
	assert_ok(store_progress(s, G1, 0.5));
	r.state = STORE_FAILED;
	r.owner_start = 78; /* another process with the same pid */
	assert_ok(store_put_if_owned(s, &r, &done));
	assert_false(done);
	r.owner_start = 77;
	assert_ok(store_put_if_owned(s, &r, &done));
	assert_true(done);
	assert_ok(store_put_if_owned(s, &r, &done)); /* finished now */
	assert_false(done);
	store_row_fini(&r);
	store_close(s);
}

static void run_sql(const char *home, const char *sql)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/index.db", home);
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void newer_and_foreign_indexes_are_refused(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	assert_ok(store_open(home, &s));
	store_close(s);
	run_sql(home, "PRAGMA user_version = 2");
	struct err *err = store_open(home, &s);
	assert_int_equal(err_kind(err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err_text(err), "newer drdotnet"));
	err_free(err);

	CLEANUP(mem_freep) char *other = fresh();
	assert_ok(dir_make(other, 0700));
	run_sql(other, "CREATE TABLE theirs (x)");
	assert_err(store_open(other, &s), ERR_UNSUPPORTED);
}

static void a_damaged_index_is_set_aside(void **state UNUSED)
{
	for (int kind = 0; kind < 3; kind++) {
		CLEANUP(mem_freep) char *home = fresh();
		CLEANUP(mem_freep) char *path = mem_printf("%s/index.db", home);
		CLEANUP(mem_freep) char *aside = mem_printf("%s/index.db.damaged", home);
		struct store *s;
		struct buf b = { 0 };
		assert_ok(store_open(home, &s));
		for (int i = 0; i < 100; i++) {
			char guid[STORE_GUID_LEN + 1];
			store_guid_new(guid);
			put(s, guid, i);
		}
		assert_null(store_repaired(s));
		store_close(s);
		assert_ok(file_read(path, 1 << 24, &b));
		if (kind == 0)
			memset(b.data, 'x', b.len);
		else if (kind == 1)
			memset(b.data + 4096, 0xff, 4096);
		else
			b.len /= 2;
		assert_ok(file_write_atomic(path, b.data, b.len, 0600));
		buf_free(&b);
		assert_ok(store_open(home, &s));
		assert_non_null(store_repaired(s));
		assert_int_equal(access(aside, F_OK), 0);
		put(s, G1, 1);
		store_close(s);
		assert_ok(store_open(home, &s));
		assert_null(store_repaired(s));
		store_close(s);
	}
}

/* A writer that is killed at any instant leaves an index that opens, with whole rows only. */
static void a_killed_writer_leaves_it_whole(void **state UNUSED)
{
	CLEANUP(mem_freep) char *home = fresh();
	struct store *s;
	assert_ok(store_open(home, &s));
	store_close(s);
	for (int round = 0; round < 10; round++) {
		int p[2];
		assert_int_equal(pipe(p), 0);
		pid_t pid = fork();
		if (pid == 0) {
			if (store_open(home, &s))
				_exit(1);
			for (int i = 0;; i++) {
				char guid[STORE_GUID_LEN + 1];
				store_guid_new(guid);
				struct store_row r = sample(guid, i);
				if (store_put(s, &r) || (i % 20 == 0 && write(p[1], "x", 1) != 1))
					_exit(1);
			}
		}
		char c;
		assert_ok(fd_read_full(p[0], &c, 1, deadline_in_ms(10000)));
		for (int i = 0; i < round; i++)
			sched_yield();
		kill(pid, SIGKILL);
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		close(p[0]);
		close(p[1]);
		struct store_rows rows;
		assert_ok(store_open(home, &s));
		assert_null(store_repaired(s));
		assert_ok(store_list(s, NULL, &rows));
		assert_true(rows.n > 0);
		vec_each(r, &rows)
			assert_true(store_guid_ok(r->guid) && r->verdict && r->owner_start == 77);
		store_rows_free(&rows);
		store_close(s);
	}
}

/* 0 = it could be opened, written and closed. */
static int use_once(const char *home, int gate)
{
	char c, guid[STORE_GUID_LEN + 1];
	struct store *s;
	if (read(gate, &c, 1) != 0)
		return 2;
	struct err *err = store_open(home, &s);
	if (err) {
		fprintf(stderr, "%s\n", err_text(err));
		return 1;
	}
	store_guid_new(guid);
	struct store_row row = sample(guid, 1);
	err = store_put(s, &row);
	store_close(s);
	return err != NULL;
}

static void first_users_do_not_turn_each_other_away(void **state UNUSED)
{
	enum { USERS = 4, ROUNDS = 100 };
	for (int round = 0; round < ROUNDS; round++) {
		CLEANUP(mem_freep) char *home = fresh();
		pid_t users[USERS];
		int gate[2], status;
		assert_int_equal(pipe(gate), 0);
		for (size_t i = 0; i < USERS; i++) {
			users[i] = fork();
			assert_true(users[i] >= 0);
			if (!users[i]) {
				close(gate[1]);
				_exit(use_once(home, gate[0]));
			}
		}
		close(gate[1]); /* now, all at once */
		close(gate[0]);
		for (size_t i = 0; i < USERS; i++) {
			assert_int_equal(waitpid(users[i], &status, 0), users[i]);
			assert_int_equal(status, 0);
		}
	}
}

static void a_home_that_cannot_be_is_said(void **state UNUSED)
{
	struct store *s;
	CLEANUP(mem_freep) char *file = mem_printf("%s/file", root);
	assert_ok(file_write_atomic(file, "x", 1, 0600));
	CLEANUP(mem_freep) char *below = mem_printf("%s/home", file);
	struct err *err = store_open(below, &s);
	assert_non_null(err);
	assert_non_null(strstr(err_text(err), "DRDOTNET_HOME"));
	err_free(err);
}

static void records_round_trip_and_survive_damage(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	assert_ok(dir_make(dir, 0700));
	CLEANUP(mem_freep) char *report = mem_printf("%s/report.md", dir);
	assert_ok(file_write_atomic(report, "12345", 5, 0600));
	struct store_row r = sample(G1, 1700000000123456789), back;
	store_set(&r.process, "Evil\x1b[31m <b>\xff");
	store_set(&r.parameters, "{\"duration\":\"10\"}");
	assert_ok(store_record_write(dir, &r));
	assert_ok(store_record_read(dir, G1, &back));
	assert_int_equal(back.created_ns, 1700000000123456789);
	assert_int_equal(back.state, STORE_DONE);
	assert_string_equal(back.verdict, r.verdict);
	assert_string_equal(back.parameters, r.parameters);
	assert_string_equal(back.process, "Evil\x1b[31m <b>\xef\xbf\xbd");
	store_row_fini(&back);
	assert_err(store_record_read(dir, G2, &back), ERR_BAD_DATA);

	json_t *j;
	assert_ok(store_record_json(dir, &j));
	json_t *files = json_object_get(j, "files");
	assert_int_equal(json_array_size(files), 1);
	assert_string_equal(json_get_str(json_array_get(files, 0), "name", ""), "report.md");
	assert_int_equal(json_get_int(json_array_get(files, 0), "bytes", 0), 5);
	assert_string_equal(json_get_str(json_object_get(j, "parameters"), "duration", ""), "10");
	json_decref(j);

	CLEANUP(mem_freep) char *path = mem_printf("%s/session.json", dir);
	struct buf b = { 0 };
	assert_ok(file_read(path, 1 << 20, &b));
	for (size_t cut = 0; cut < b.len - 1; cut++) {
		assert_ok(file_write_atomic(path, b.data, cut, 0600));
		assert_err(store_record_read(dir, G1, &back), ERR_BAD_DATA);
	}
	for (size_t at = 0; at < b.len; at++) {
		b.data[at] ^= 1;
		assert_ok(file_write_atomic(path, b.data, b.len, 0600));
		b.data[at] ^= 1;
		struct err *err = store_record_read(dir, G1, &back);
		if (err)
			err_free(err);
		else
			store_row_fini(&back);
	}
	unlink(path);
	assert_err(store_record_read(dir, G1, &back), ERR_NOT_FOUND);
	buf_free(&b);
	store_row_fini(&r);
}

static int setup(void **state UNUSED)
{
	unit_temp_dir(root, sizeof(root));
	return 0;
}

static int teardown(void **state UNUSED)
{
	err_ignore(dir_remove(root));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guids_are_random_and_checked),
		cmocka_unit_test(rows_come_back_newest_first),
		cmocka_unit_test(nobody_else_reads_the_index),
		cmocka_unit_test(a_home_of_others_is_refused),
		cmocka_unit_test(prefixes_must_name_one),
		cmocka_unit_test(only_the_owner_may_finish_a_row),
		cmocka_unit_test(newer_and_foreign_indexes_are_refused),
		cmocka_unit_test(a_damaged_index_is_set_aside),
		cmocka_unit_test(a_killed_writer_leaves_it_whole),
		cmocka_unit_test(first_users_do_not_turn_each_other_away),
		cmocka_unit_test(a_home_that_cannot_be_is_said),
		cmocka_unit_test(records_round_trip_and_survive_damage),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
