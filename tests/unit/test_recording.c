#include "unit.h"

#include "base/fd.h"
#include "base/str.h"
#include "recording/recording.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>

static char root[64];

static char *fresh(void)
{
	static unsigned n;
	return mem_printf("%s/rec%u", root, n++);
}

static struct err *collect(void *user, const void *data, size_t len)
{
	buf_add(user, data, len);
	return NULL;
}

static struct err *refuse(void *user, const void *data UNUSED, size_t len UNUSED)
{
	++*(unsigned *)user;
	return err_new(ERR_CANCELLED, "enough");
}

/* A small recording with two facts and two parts. */
static void write_sample(const char *dir)
{
	struct recording *r;
	struct recording_part *a, *b;
	assert_ok(recording_create(dir, 0, &r));
	json_t *fact = json_pack("{s:s,s:i}", "name", "Shop.Api", "pid", 42);
	recording_set_fact(r, "target", fact);
	json_decref(fact);
	assert_ok(recording_part_new(r, "main.nettrace", "nettrace", &a));
	assert_ok(recording_part_new(r, "stacks.nettrace", "nettrace", &b));
	recording_part_write(a, "hello ", 6);
	recording_part_write(b, "12345", 5);
	recording_part_write(a, "world", 5);
	recording_part_close(a, true);
	recording_part_close(b, false);
	assert_ok(recording_seal(r));
	recording_free(r);
}

static void what_was_written_reads_back(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	write_sample(dir);
	struct recording *r;
	assert_ok(recording_open(dir, &r));
	assert_int_equal(recording_n_parts(r), 2);
	struct recording_part_info p = recording_part_info(r, 0), q = recording_part_info(r, 1);
	assert_string_equal(p.name, "main.nettrace");
	assert_string_equal(p.kind, "nettrace");
	assert_int_equal(p.bytes, 11);
	assert_true(p.whole && p.kept && !p.damaged);
	assert_true(!q.whole && q.kept && !q.damaged);
	assert_int_equal(json_get_int(recording_fact(r, "target"), "pid", 0), 42);
	assert_null(recording_fact(r, "absent"));
	assert_null(recording_drop_reason(r));
	assert_int_equal(recording_kept_bytes(r), 16);
	struct buf b = { 0 };
	assert_ok(recording_part_read(r, "main.nettrace", collect, &b));
	assert_string_equal(buf_cstr(&b), "hello world");
	buf_free(&b);
	unsigned calls = 0;
	assert_err(recording_part_read(r, "main.nettrace", refuse, &calls), ERR_CANCELLED);
	assert_int_equal(calls, 1);
	assert_err(recording_part_read(r, "other", collect, &b), ERR_NOT_FOUND);
	recording_free(r);
	struct stat st;
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_err(recording_create(dir, 0, &r), ERR_BUSY);
}

static void names_cannot_leave_the_folder(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	struct recording *r;
	struct recording_part *p;
	assert_ok(recording_create(dir, 0, &r));
	static const char *const bad[] = { "",
					   ".",
					   "..",
					   "../x",
					   "a/b",
					   "A",
					   "-x",
					   ".x",
					   "manifest.json",
					   "a b",
					   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_err(recording_part_new(r, bad[i], "raw", &p), ERR_USAGE);
	assert_ok(recording_part_new(r, "once", "raw", &p));
	assert_err(recording_part_new(r, "once", "raw", &p), ERR_USAGE);
	recording_free(r);
	/* Never sealed: unfinished. */
	assert_err(recording_open(dir, &r), ERR_NOT_FOUND);
}

static void a_part_that_passes_the_limit_is_dropped_alone(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	struct recording *r;
	struct recording_part *a, *b;
	assert_ok(recording_create(dir, 10, &r));
	assert_ok(recording_part_new(r, "a", "raw", &a));
	assert_ok(recording_part_new(r, "b", "raw", &b));
	recording_part_write(a, "123456", 6);
	recording_part_write(b, "12345", 5); /* 11 in all: b goes */
	recording_part_write(b, "1", 1);
	recording_part_write(a, "7890", 4);
	assert_non_null(strstr(recording_drop_reason(r), "10 bytes"));
	assert_ok(recording_seal(r));
	assert_int_equal(recording_kept_bytes(r), 10);
	recording_free(r);
	assert_ok(recording_open(dir, &r));
	assert_true(recording_part_info(r, 0).kept && !recording_part_info(r, 0).damaged);
	assert_false(recording_part_info(r, 1).kept);
	assert_int_equal(recording_part_info(r, 1).bytes, 6);
	assert_non_null(recording_drop_reason(r));
	unsigned calls = 0;
	assert_err(recording_part_read(r, "b", refuse, &calls), ERR_NOT_FOUND);
	recording_free(r);
}

static void too_many_parts_cost_only_themselves(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	struct recording *r;
	struct recording_part *p;
	assert_ok(recording_create(dir, 0, &r));
	for (int i = 0; i < 4100; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("part-%d", i);
		assert_ok(recording_part_new(r, name, "raw", &p));
		recording_part_write(p, "x", 1);
		recording_part_close(p, true);
	}
	assert_non_null(strstr(recording_drop_reason(r), "4096 parts"));
	assert_ok(recording_seal(r));
	recording_free(r);
	assert_ok(recording_open(dir, &r));
	assert_int_equal(recording_n_parts(r), 4096);
	assert_false(recording_part_info(r, 4095).damaged);
	recording_free(r);
}

static void a_full_disk_drops_the_part_and_says_so(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	struct recording *r;
	struct recording_part *p;
	assert_ok(recording_create(dir, 0, &r));
	assert_ok(recording_part_new(r, "a", "raw", &p));
	struct rlimit was, small;
	getrlimit(RLIMIT_FSIZE, &was);
	small = (struct rlimit){ .rlim_cur = 4096, .rlim_max = was.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	char block[3000] = { 0 };
	for (int i = 0; i < 4; i++)
		recording_part_write(p, block, sizeof(block));
	setrlimit(RLIMIT_FSIZE, &was);
	assert_non_null(recording_drop_reason(r));
	assert_ok(recording_seal(r));
	assert_false(recording_part_info(r, 0).kept);
	recording_free(r);
	CLEANUP(mem_freep) char *path = mem_printf("%s/a", dir);
	assert_int_not_equal(access(path, F_OK), 0);
}

static void put(const char *dir, const char *name, const void *data, size_t len)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	assert_ok(file_write_atomic(path, data, len, 0600));
}

static void damage_to_parts_is_seen(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	write_sample(dir);
	const char good[] = "hello world";
	for (size_t cut = 0; cut < 11; cut++) {
		struct recording *r;
		put(dir, "main.nettrace", good, cut);
		assert_ok(recording_open(dir, &r));
		assert_true(recording_part_info(r, 0).damaged && !recording_part_info(r, 1).damaged);
		struct buf b = { 0 };
		assert_ok(recording_part_read(r, "main.nettrace", collect, &b));
		assert_int_equal(b.len, cut);
		buf_free(&b);
		recording_free(r);
	}
	for (unsigned bit = 0; bit < 11 * 8; bit++) {
		char bad[12];
		struct recording *r;
		memcpy(bad, good, sizeof(bad));
		bad[bit / 8] = (char)(bad[bit / 8] ^ (1 << (bit % 8)));
		put(dir, "main.nettrace", bad, 11);
		assert_ok(recording_open(dir, &r));
		assert_true(recording_part_info(r, 0).damaged);
		recording_free(r);
	}
	put(dir, "main.nettrace", "hello world and more", 20);
	struct recording *r;
	assert_ok(recording_open(dir, &r));
	assert_true(recording_part_info(r, 0).damaged);
	struct buf b = { 0 };
	assert_ok(recording_part_read(r, "main.nettrace", collect, &b));
	assert_int_equal(b.len, 11);
	buf_free(&b);
	recording_free(r);
}

static void missing_linked_and_odd_parts_are_not_followed(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	write_sample(dir);
	CLEANUP(mem_freep) char *path = mem_printf("%s/main.nettrace", dir);
	for (int kind = 0; kind < 4; kind++) {
		struct recording *r;
		unlink(path);
		if (kind == 1)
			assert_int_equal(symlink("/etc/passwd", path), 0);
		if (kind == 2)
			assert_int_equal(mkfifo(path, 0600), 0);
		if (kind == 3)
			assert_int_equal(mkdir(path, 0700), 0);
		assert_ok(recording_open(dir, &r));
		assert_true(recording_part_info(r, 0).damaged);
		unsigned calls = 0;
		assert_err(recording_part_read(r, "main.nettrace", refuse, &calls), ERR_BAD_DATA);
		recording_free(r);
	}
}

static void any_damage_to_the_manifest_is_refused(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = fresh();
	write_sample(dir);
	CLEANUP(mem_freep) char *path = mem_printf("%s/manifest.json", dir);
	struct buf good = { 0 };
	assert_ok(file_read(path, 1 << 20, &good));
	for (size_t cut = 0; cut < good.len; cut++) {
		struct recording *r;
		put(dir, "manifest.json", good.data, cut);
		assert_err(recording_open(dir, &r), ERR_BAD_DATA);
	}
	for (size_t at = 0; at < good.len; at++) {
		struct recording *r;
		char was = good.data[at];
		good.data[at] = (char)(was ^ 1);
		put(dir, "manifest.json", good.data, good.len);
		good.data[at] = was;
		CLEANUP(err_freep) struct err *err = recording_open(dir, &r);
		assert_non_null(err);
	}
	buf_free(&good);
}

static void hostile_manifests_are_refused(void **state UNUSED)
{
	static const char *const bad[] = {
		"",
		"[]",
		"null",
		"{}",
		"{\"format\":1}",
		"{\"format\":1,\"crc32\":\"00000000\",\"facts\":{},\"parts\":[]}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CLEANUP(mem_freep) char *dir = fresh();
		struct recording *r;
		assert_ok(dir_make(dir, 0700));
		put(dir, "manifest.json", bad[i], strlen(bad[i]));
		assert_err(recording_open(dir, &r), ERR_BAD_DATA);
	}
	CLEANUP(mem_freep) char *dir = fresh();
	struct recording *r;
	assert_ok(dir_make(dir, 0700));
	put(dir, "manifest.json", "{\"format\":2}", 12);
	assert_err(recording_open(dir, &r), ERR_UNSUPPORTED);
	CLEANUP(mem_freep) char *big = mem_zalloc(5 << 20);
	put(dir, "manifest.json", big, 5 << 20);
	assert_err(recording_open(dir, &r), ERR_BAD_DATA);
	CLEANUP(mem_freep) char *path = mem_printf("%s/manifest.json", dir);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_err(recording_open(dir, &r), ERR_BAD_DATA);
	assert_err(recording_open("/nowhere/at/all", &r), ERR_NOT_FOUND);
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

static void begun_anew_without_its_parts(void **state)
{
	(void)state;
	CLEANUP(mem_freep) char *path = mem_printf("%s/anew", root);
	CLEANUP(recording_freep) struct recording *r = NULL;
	struct recording_part *p;
	assert_null(recording_create(path, 0, &r));
	assert_null(recording_part_new(r, "names", "look", &p));
	recording_part_write(p, "old", 3);
	recording_part_close(p, true);
	assert_null(recording_part_new(r, "open", "look", &p));
	recording_clear(r);
	assert_int_equal(recording_n_parts(r), 0);
	assert_int_equal(recording_kept_bytes(r), 0);
	assert_null(recording_part_new(r, "names", "look", &p));
	recording_part_write(p, "new!", 4);
	recording_part_close(p, true);
	assert_null(recording_seal(r));
	assert_int_equal(recording_n_parts(r), 1);
	assert_int_equal(recording_part_info(r, 0).bytes, 4);
}

static struct err *add_chunk(void *user, const void *data, size_t len)
{
	buf_add(user, data, len);
	return NULL;
}

static void put_part(struct recording *r, const char *name, const char *text)
{
	struct recording_part *p;
	assert_null(recording_part_new(r, name, "look", &p));
	recording_part_write(p, text, strlen(text));
	recording_part_close(p, true);
}

static void set_number(struct recording *r, const char *key, int n)
{
	json_t *value = json_integer(n);
	recording_set_fact(r, key, value);
	json_decref(value);
}

/* Two that are kept inside of a third do not meet: neither by names of parts nor by facts. */
static void one_inside_of_another(void **state UNUSED)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/inside", root);
	CLEANUP(recording_freep) struct recording *r = NULL;
	assert_null(recording_create(path, 0, &r));
	struct recording *a = recording_inside(r, "a"), *b = recording_inside(r, "b");
	put_part(r, "gc", "outer");
	put_part(a, "gc", "of a");
	put_part(b, "gc", "first try of b");
	recording_clear(b);
	put_part(b, "gc", "of b");
	set_number(r, "window", 1);
	set_number(a, "window", 2);
	set_number(b, "window", 3);
	assert_null(recording_seal(r));
	assert_true(recording_sealed(a));
	recording_free(a);
	recording_free(b);
	recording_free(STEAL(r));

	assert_null(recording_open(path, &r));
	static const struct {
		const char *name, *text;
		int window;
	} all[] = { { "a", "of a", 2 }, { "b", "of b", 3 } };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		CLEANUP(buf_free) struct buf text = { 0 };
		CLEANUP(recording_freep) struct recording *in = recording_inside(r, all[i].name);
		assert_int_equal(recording_n_parts(in), 1);
		assert_string_equal(recording_part_info(in, 0).name, "gc");
		assert_false(recording_part_info(in, 0).damaged);
		assert_null(recording_part_read(in, "gc", add_chunk, &text));
		assert_string_equal(buf_cstr(&text), all[i].text);
		assert_int_equal(json_integer_value(recording_fact(in, "window")), all[i].window);
	}
	assert_int_equal(json_integer_value(recording_fact(r, "window")), 1);
	/* One that was never made is empty. */
	CLEANUP(recording_freep) struct recording *none = recording_inside(r, "none");
	assert_true(recording_n_parts(none) == 0 && !recording_fact(none, "window"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_reads_back),
		cmocka_unit_test(names_cannot_leave_the_folder),
		cmocka_unit_test(a_part_that_passes_the_limit_is_dropped_alone),
		cmocka_unit_test(too_many_parts_cost_only_themselves),
		cmocka_unit_test(a_full_disk_drops_the_part_and_says_so),
		cmocka_unit_test(damage_to_parts_is_seen),
		cmocka_unit_test(missing_linked_and_odd_parts_are_not_followed),
		cmocka_unit_test(any_damage_to_the_manifest_is_refused),
		cmocka_unit_test(hostile_manifests_are_refused),
		cmocka_unit_test(begun_anew_without_its_parts),
		cmocka_unit_test(one_inside_of_another),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
