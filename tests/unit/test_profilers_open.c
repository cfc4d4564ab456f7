#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "exam_fixture.h"
#include "profilers/open_files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reports ---- */

struct course {
	uint64_t files[3], made[3], unclosed[3], waiting[3], watchers[3], age_ns;
};

static json_t *row(const char *name, uint64_t n, bool incoming, enum connection_state state, uint64_t unread)
{
	return json_pack("[s, I, b, b, i, I]", name, (json_int_t)n, 0, incoming, (int)state, (json_int_t)unread);
}

static json_t *look_at(const struct course *c, size_t i)
{
	uint64_t of[DESCRIPTOR_KINDS] = { [DESCRIPTOR_FILE] = c->files[i],
					  [DESCRIPTOR_PROGRAM] = 40,
					  [DESCRIPTOR_SOCKET] = c->made[i] + c->unclosed[i] + 1,
					  [DESCRIPTOR_INOTIFY] = c->watchers[i] };
	uint64_t sum = 0;
	json_t *kinds = json_array(), *peers = json_array();
	for (size_t k = 0; k < DESCRIPTOR_KINDS; k++) {
		sum += of[k];
		json_array_append_new(kinds, json_integer((json_int_t)of[k]));
	}
	json_array_append_new(peers, row("10.0.0.7:443", c->made[i], false, CONNECTION_ESTABLISHED, 0));
	json_array_append_new(peers, row("10.0.0.8:5432", c->unclosed[i], false, CONNECTION_CLOSE_WAIT, 0));
	json_array_append_new(peers, row("0.0.0.0:80", 1, true, CONNECTION_LISTEN, c->waiting[i]));
	return json_pack("{s:I, s:I, s:o, s:o, s:[o]}", "at_ns", (json_int_t)(WINDOW_START + i * 5000 * MS), "n",
			 (json_int_t)sum, "of", kinds, "peers", peers, "files",
			 row("/var/shop/*", c->files[i], false, 0, 0));
}

static void examine(struct fixture *f, const struct course *c)
{
	json_t *looks = json_array(), *limits = json_array(), *age = json_integer((json_int_t)c->age_ns);
	fixture_begin(f);
	f->way = WAY_PROC;
	fixture_window(f->recording, 10000 * MS);
	for (size_t i = 0; i < 3; i++)
		json_array_append_new(looks, look_at(c, i));
	recording_set_fact(f->recording, "open-files", looks);
	recording_set_fact(f->recording, "limits", limits);
	if (c->age_ns)
		recording_set_fact(f->recording, "process_age_ns", age);
	json_decref(looks);
	json_decref(limits);
	json_decref(age);
	fixture_examine(f, "open-files");
}

static void assert_found(const struct course *c, const char *finding, enum report_health health, const char *words)
{
	struct fixture f;
	examine(&f, c);
	fixture_expect(f.report, finding, health, words);
	fixture_end(&f);
}

static void what_grows_is_named(void **state UNUSED)
{
	struct course files = { .files = { 10, 40, 70 } };
	assert_found(&files, "files-grow", REPORT_WARN,
		     "60 more files are open than 10 s before, all of them at /var/shop/*");
	/* Opened at once, or by a process that has just begun, they are no leak. */
	assert_found(&(struct course){ .files = { 10, 70, 70 } }, "nothing-found", REPORT_OK, "no kind of them grows");
	files.age_ns = 20000 * MS;
	assert_found(&files, "nothing-found", REPORT_OK, "no connection was left unclosed");
	assert_found(&(struct course){ .made = { 100, 130, 160 } }, "connections-grow", REPORT_WARN,
		     "60 more connections that it made itself than 10 s before, all of them to 10.0.0.7:443");
	assert_found(&(struct course){ .watchers = { 3, 6, 9 } }, "watchers-grow", REPORT_WARN,
		     "6 more watchers of files");
}

static void what_stays_open_is_named(void **state UNUSED)
{
	assert_found(&(struct course){ .unclosed = { 60, 55, 80 } }, "not-closed", REPORT_WARN,
		     "55 connections were closed by the other side and not by this process");
	/* Closed in between: others are there now. */
	assert_found(&(struct course){ .unclosed = { 300, 0, 300 } }, "nothing-found", REPORT_OK, "No problem here");
	assert_found(&(struct course){ .waiting = { 30, 40, 25 } }, "not-accepted", REPORT_WARN,
		     "25 connections wait to be accepted");
	assert_found(&(struct course){ .files = { 400, 400, 400 } }, "many-files", REPORT_INFO,
		     "and their number does not grow: /var/shop/*");
}

static void damaged_looks_are_bounded(void **state UNUSED)
{
	static const char *const texts[] = {
		"[{}, {\"n\":-1,\"of\":[9,\"x\"],\"peers\":[1,[],[\"a\",1,true,false,99,0],[\"a\",-5,0,0,2,3]],\"files\":{}}]",
		"[]",
		"[{\"hidden\":true}]",
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct fixture f;
		json_t *json, *limits = json_array();
		fixture_begin(&f);
		f.way = WAY_PROC;
		fixture_window(f.recording, 1000 * MS);
		assert_ok(json_parse(texts[i], strlen(texts[i]), 4096, &json));
		recording_set_fact(f.recording, "open-files", json);
		recording_set_fact(f.recording, "limits", limits);
		json_decref(json);
		json_decref(limits);
		fixture_examine(&f, "open-files");
		assert_non_null(report_finding(f.report));
		fixture_end(&f);
	}
}

/* ---- the kernel's files: a /proc of our own ---- */

#define MANY_FDS 50000u
#define MANY_SOCKETS 20000u
#define FIRST_INODE 1000u

/* So many files are made faster where they need no disk. */
static void choose_root(char root[64])
{
	snprintf(root, 64, "%s/drdotnet-open-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static char *made_proc(char *root)
{
	assert_non_null(mkdtemp(root));
	char *folder = mem_printf("%s/7", root);
	CLEANUP(mem_freep) char *fd = mem_printf("%s/fd", folder);
	CLEANUP(mem_freep) char *net = mem_printf("%s/net", folder);
	assert_ok(dir_make(fd, 0700));
	assert_ok(dir_make(net, 0700));
	return folder;
}

static void descriptor(const char *folder, unsigned n, const char *to)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/fd/%u", folder, n);
	assert_int_equal(symlink(to, path), 0);
}

static void lines(const char *folder, const char *name, const struct buf *text)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/net/%s", folder, name);
	assert_ok(file_create(path, text->data, text->len, 0600, false));
}

/* Bounded in memory, whatever there is; each is counted once. */
static void very_many_are_counted(void **state UNUSED)
{
	char root[64], to[64];
	choose_root(root);
	CLEANUP(mem_freep) char *folder = made_proc(root);
	CLEANUP(buf_free) struct buf tcp = { 0 };
	struct open_look look;
	buf_str(&tcp,
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n");
	for (unsigned i = 0; i < MANY_SOCKETS; i++) {
		snprintf(to, sizeof(to), "socket:[%u]", FIRST_INODE + i);
		descriptor(folder, i, to);
		/* To as many addresses as there are connections. */
		buf_printf(&tcp, "%4u: 0100007F:%04X %08X:01BB 01 00000000:00000000 00:00000000 00000000  0  0 %u 1\n",
			   i, i % 60000, i, FIRST_INODE + i);
	}
	for (unsigned i = MANY_SOCKETS; i < MANY_FDS; i++) {
		snprintf(to, sizeof(to), "/var/%u/f-%u", i % 6000, i);
		descriptor(folder, i, to);
	}
	lines(folder, "tcp", &tcp);
	assert_true(open_look(root, 7, &look));
	assert_int_equal(look.n, MANY_FDS);
	assert_int_equal(look.of[DESCRIPTOR_SOCKET], MANY_SOCKETS);
	assert_int_equal(look.sockets[OPEN_TCP], MANY_SOCKETS);
	assert_int_equal(look.states[CONNECTION_ESTABLISHED], MANY_SOCKETS);
	assert_true(look.files.n == OPEN_ROWS_MAX && look.peers.n == OPEN_ROWS_MAX);
	uint64_t files = look.more_files, peers = look.more_peers;
	vec_each(r, &look.files)
		files += r->n;
	vec_each(r, &look.peers)
		peers += r->n;
	assert_int_equal(files, MANY_FDS - MANY_SOCKETS);
	assert_int_equal(peers, MANY_SOCKETS);
	open_look_fini(&look);
	assert_ok(dir_remove(root));
}

static void hostile_names_are_names(void **state UNUSED)
{
	char root[64];
	choose_root(root);
	CLEANUP(mem_freep) char *folder = made_proc(root);
	CLEANUP(buf_free) struct buf tcp = { 0 }, tcp6 = { 0 }, unix_ = { 0 };
	static const char *const links[] = { "/a\nb/c\n",
					     "/x/socket:[1",
					     "socket:[99999999999999999999999]",
					     "socket:[",
					     "socket:[50]",
					     "socket:[51]",
					     "pipe:[1]",
					     "anon_inode:inotify",
					     "anon_inode:[eventfd:7]",
					     "\xff\xfe",
					     "/memfd:doublemapper (deleted)",
					     "/app/Shop.dll",
					     "/" };
	struct open_look look;
	for (unsigned i = 0; i < ARRAY_SIZE(links); i++)
		descriptor(folder, i, links[i]);
	CLEANUP(mem_freep) char *no_link = mem_printf("%s/fd/99", folder); /* gone when it is read */
	assert_ok(file_create(no_link, "", 0, 0600, false));
	buf_str(&tcp, "x\n1: : : : :\n 2: 0100007F:1F90 0200007F:0050 FF 0:0 0:0 0 0 0 50\n"
		      " 3: 0100007F:1F90 0200007F:0050 08 00000000:00000005 00:00000000 00000000 0 0 50 1\n"
		      " 4: zz:zz 0200007F:0050 08 0:0 0:0 0 0 0 50\n 5: 0100007F:1F90 0200007F:0050 08");
	buf_str(&tcp6, " 0: 0000000000000000FFFF00000100007F:1F90 B80D0120000000000000000001000000:01BB 01 "
		       "00000000:00000007 00:00000000 00000000 0 0 51 1\n");
	buf_str(&unix_, "Num RefCount Protocol Flags Type St Inode Path\n0000: 00000002 0 0 0001 01 51 /a\nb\n");
	lines(folder, "tcp", &tcp);
	lines(folder, "tcp6", &tcp6);
	assert_true(open_look(root, 7, &look));
	assert_int_equal(look.n, ARRAY_SIZE(links));
	assert_true(look.of[DESCRIPTOR_FILE] == 3 && look.of[DESCRIPTOR_SOCKET] == 4 &&
		    look.of[DESCRIPTOR_PROGRAM] == 2);
	assert_true(look.of[DESCRIPTOR_PIPE] == 1 && look.of[DESCRIPTOR_INOTIFY] == 1 &&
		    look.of[DESCRIPTOR_EVENT] == 1);
	assert_true(look.sockets[OPEN_TCP] == 2 && look.states[CONNECTION_CLOSE_WAIT] == 1);
	struct open_row like = { .name = mem_strdup("127.0.0.2:80"), .state = CONNECTION_CLOSE_WAIT };
	const struct open_row *r = open_row_like(&look.peers, &like);
	assert_true(r && r->n == 1 && r->unread == 4 && !r->incoming); /* the last byte is the goodbye */
	mem_free(like.name);
	like = (struct open_row){ .name = mem_strdup("[2001:db8::1]:443"), .state = CONNECTION_ESTABLISHED };
	r = open_row_like(&look.peers, &like);
	assert_true(r && r->n == 1 && r->unread == 7);
	mem_free(like.name);
	json_t *json = open_look_json(&look);
	struct open_look back;
	assert_ok(open_look_from_json(json, &back));
	assert_true(back.n == look.n && back.peers.n == look.peers.n && back.files.n == look.files.n);
	json_decref(json);
	open_look_fini(&back);
	open_look_fini(&look);
	assert_false(open_look(root, 8, &look));
	assert_true(look.hidden);
	open_look_fini(&look);
	assert_ok(dir_remove(root));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_grows_is_named),	     cmocka_unit_test(what_stays_open_is_named),
		cmocka_unit_test(damaged_looks_are_bounded), cmocka_unit_test(very_many_are_counted),
		cmocka_unit_test(hostile_names_are_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
