/* What a program says of itself: its deps.json, the types of its assemblies, the files of a single-file program. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "build_program.h"
#include "symbols/bundle.h"
#include "symbols/deps.h"
#include "symbols/metadata.h"
#include "symbols/space.h"
#include "unit.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* --- deps.json --- */

static const char deps_text[] =
	"{\"targets\": {\".NETCoreApp,Version=v8.0\": {},"
	"  \".NETCoreApp,Version=v8.0/linux-x64\": {"
	"   \"shop/1.0.0\": {\"runtime\": {\"shop.dll\": {}}},"
	"   \"Zeta.Lib/2.1.0\": {\"runtime\": {\"lib/net8.0/zeta-lib.dll\": {}, \"lib/net8.0/de/x.so\": {}}},"
	"   \"Shop.Core.Reference/1.0.0\": {\"runtime\": {\"Shop.Core.dll\": {}}},"
	"   \"Shop.Core/1.0.0\": {\"dependencies\": {\"Zeta.Lib\": \"2.1.0\"}, \"runtime\": {\"Shop.Core.dll\": {}}},"
	"   \"Late/1\": {\"runtime\": {\"Shop.Core.dll\": {}}},"
	"   \"Strange/1\": {\"runtime\": {\"Strange.dll\": {}}},"
	"   \"runtimepack.X/8.0.1\": {\"runtime\": {\"System.Linq.dll\": {}}}}},"
	" \"libraries\": {\"shop/1.0.0\": {\"type\": \"project\"}, \"Zeta.Lib/2.1.0\": {\"type\": \"package\"},"
	"  \"Shop.Core.Reference/1.0.0\": {\"type\": \"reference\"}, \"Shop.Core/1.0.0\": {\"type\": \"project\"},"
	"  \"Late/1\": {\"type\": \"package\"}, \"Strange/1\": {\"type\": 7},"
	"  \"runtimepack.X/8.0.1\": {\"type\": \"runtimepack\"}}}";

static const struct deps_entry *entry(const struct deps *deps, const char *assembly)
{
	for (size_t i = 0; i < deps->n; i++)
		if (str_eq(deps->v[i].assembly, assembly))
			return &deps->v[i];
	fail_msg("no %s", assembly);
	return NULL;
}

static void deps_say_where_each_assembly_is_from(void **state UNUSED)
{
	struct deps deps = { 0 };
	assert_ok(deps_parse(deps_text, strlen(deps_text), &deps));
	assert_int_equal(deps.n, 5);
	assert_int_equal(entry(&deps, "shop")->origin, DEPS_PROJECT);
	assert_int_equal(entry(&deps, "zeta-lib")->origin, DEPS_PACKAGE);
	assert_string_equal(entry(&deps, "zeta-lib")->library, "Zeta.Lib");
	/* Claimed by three: the source is there. */
	assert_int_equal(entry(&deps, "Shop.Core")->origin, DEPS_PROJECT);
	assert_string_equal(entry(&deps, "Shop.Core")->library, "Shop.Core");
	assert_int_equal(entry(&deps, "Strange")->origin, DEPS_UNKNOWN);
	assert_int_equal(entry(&deps, "System.Linq")->origin, DEPS_PLATFORM);
	deps_free(&deps);
}

static void no_path_comes_from_deps(void **state UNUSED)
{
	static const char text[] =
		"{\"targets\": {\"t\": {\"a/1\": {\"runtime\": {\"../../etc/x.dll\": {}, \"..dll\": 1,"
		" \".dll\": {}, \"lib/\": {}, \"a.so\": {}}}, \"b\": 3}, \"u\": []}, \"libraries\": {}}";
	struct deps deps = { 0 };
	assert_ok(deps_parse(text, strlen(text), &deps));
	assert_int_equal(deps.n, 2);
	for (size_t i = 0; i < deps.n; i++)
		assert_null(strchr(deps.v[i].assembly, '/'));
	entry(&deps, "x");
	deps_free(&deps);
	assert_err(deps_parse("{}", 2, &deps), ERR_BAD_DATA);
	assert_err(deps_parse("[]", 2, &deps), ERR_BAD_DATA);
	assert_err(deps_parse("{\"targets\": 1, \"libraries\": {}}", 31, &deps), ERR_BAD_DATA);
}

static void deps_have_a_limit(void **state UNUSED)
{
	struct buf text = { 0 };
	struct deps deps = { 0 };
	buf_str(&text, "{\"libraries\": {}, \"targets\": {\"t\": {\"a/1\": {\"runtime\": {\"first.dll\": {}");
	for (int i = 0; i < 10000; i++)
		buf_printf(&text, ", \"a%d.dll\": {}", i);
	buf_str(&text, "}}}}}");
	assert_ok(deps_parse(buf_cstr(&text), text.len, &deps));
	assert_int_equal(deps.n, 8192);
	deps_free(&deps);
	buf_free(&text);
}

/* Whatever comes back must be whole; what fails must leave nothing. */
static void try_deps(const char *text, size_t len)
{
	struct deps deps = { 0 };
	struct err *err = deps_parse(text, len, &deps);
	for (size_t i = 0; i < deps.n; i++)
		assert_true(*deps.v[i].assembly && deps.v[i].library && !strchr(deps.v[i].assembly, '/'));
	assert_true(!err || !deps.n);
	deps_free(&deps);
	err_free(err);
}

static void deps_survive_damage(void **state UNUSED)
{
	size_t len = strlen(deps_text);
	for (size_t i = 0; i < len; i++) {
		struct deps deps = { 0 };
		assert_err(deps_parse(deps_text, i, &deps), ERR_BAD_DATA);
		CLEANUP(mem_freep) char *copy = mem_strndup(deps_text, len);
		for (int bit = 0; bit < 8; bit++) {
			copy[i] = (char)(deps_text[i] ^ 1 << bit);
			try_deps(copy, len);
		}
	}
}

/* --- types --- */

static const struct build_type shop_types[] = {
	{ "", "<Module>" }, { "Shop", "Orders" }, { "Shop.Data", "Table`1" }, { "", "+Nested" }, { "", "Program" },
};
#define SHOP(...) ((struct build_types){ .v = shop_types, .n = ARRAY_SIZE(shop_types), __VA_ARGS__ })

static void list_type(void *user, const char *space, const char *name)
{
	buf_printf(user, "%s|%s ", space, name);
}

static void assert_types(const struct build_types *types, const char *want)
{
	struct buf bytes = { 0 }, seen = { 0 };
	build_typed_assembly(types, &bytes);
	assert_ok(assembly_types_from_bytes((uint8_t *)bytes.data, bytes.len, list_type, &seen));
	assert_string_equal(buf_cstr(&seen), want);
	buf_free(&bytes);
	buf_free(&seen);
}

static void types_that_stand_on_their_own(void **state UNUSED)
{
	static const char want[] = "|<Module> Shop|Orders Shop.Data|Table`1 |Program ";
	assert_types(&SHOP(.wide = false), want);
	assert_types(&SHOP(.wide = true), want);
	assert_types(&SHOP(.n_refs = 20000), want);
	assert_types(&SHOP(.n_refs = 5, .n_methods = 70000), want);
	assert_types(&(struct build_types){ .v = shop_types }, "");
}

static void types_out_of_a_part_of_a_file(void **state UNUSED)
{
	char path[] = "/tmp/drdotnet-test-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	struct buf bytes = { 0 }, seen = { 0 };
	build_typed_assembly(&SHOP(.wide = false), &bytes);
	assert_int_equal(pwrite(fd, bytes.data, bytes.len, 4096), bytes.len);
	assert_ok(assembly_types(&(struct assembly_file){ fd, 4096, bytes.len }, list_type, &seen));
	assert_non_null(strstr(buf_cstr(&seen), "Shop|Orders"));
	struct assembly_file wrong[] = { { fd, 0, bytes.len },	{ fd, 4096, 0 },       { fd, UINT64_MAX - 10, 100 },
					 { fd, 0, UINT64_MAX }, { fd, 1 << 20, 4096 }, { -1, 0, 4096 } };
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_err(assembly_types(&wrong[i], list_type, &seen), ERR_BAD_DATA);
	unlink(path);
	buf_free(&bytes);
	buf_free(&seen);
}

static void count_type(void *user, const char *space, const char *name)
{
	*(size_t *)user += strlen(space) + strlen(name) < 4096;
}

static void types_survive_damage(void **state UNUSED)
{
	struct buf bytes = { 0 };
	size_t n = 0, failed = 0;
	build_typed_assembly(&SHOP(.n_refs = 3), &bytes);
	for (size_t i = 0; i < bytes.len; i++) {
		/* At its end there is nothing to read over. */
		CLEANUP(mem_freep) uint8_t *cut = mem_dup(bytes.data, i ? i : 1);
		assert_err(assembly_types_from_bytes(cut, i, count_type, &n), ERR_BAD_DATA);
		CLEANUP(mem_freep) uint8_t *copy = mem_dup(bytes.data, bytes.len);
		for (int bit = 0; bit < 8; bit++) {
			copy[i] = (uint8_t)((uint8_t)bytes.data[i] ^ 1 << bit);
			struct err *err = assembly_types_from_bytes(copy, bytes.len, count_type, &n);
			failed += err != NULL;
			err_free(err);
		}
	}
	assert_true(failed > 100);
	buf_free(&bytes);
}

/* --- single-file programs --- */

static void bundle_lists_its_files(void **state UNUSED)
{
	char path[] = "/tmp/drdotnet-test-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	struct buf assembly = { 0 }, deps = { 0 }, file = { 0 }, seen = { 0 };
	build_typed_assembly(&SHOP(.wide = false), &assembly);
	buf_str(&deps, deps_text);
	struct build_part parts[] = { { "shop.dll", &assembly, false },
				      { "shop.deps.json", &deps, false },
				      { "packed.dll", &assembly, true } };
	for (uint32_t major = 2; major <= 6; major += 4) {
		struct bundle b = { 0 };
		buf_clear(&file);
		buf_clear(&seen);
		build_bundle(parts, ARRAY_SIZE(parts), major, &file);
		assert_int_equal(pwrite(fd, file.data, file.len, 0), file.len);
		assert_int_equal(ftruncate(fd, (off_t)file.len), 0);
		assert_ok(bundle_open(fd, &b));
		assert_int_equal(b.n, 3);
		const struct bundle_file *f = bundle_find(&b, "shop.dll");
		assert_ok(assembly_types(&(struct assembly_file){ fd, f->offset, f->size }, list_type, &seen));
		assert_non_null(strstr(buf_cstr(&seen), "Shop|Orders"));
		assert_int_equal(bundle_find(&b, "packed.dll")->packed, major >= 6);
		assert_null(bundle_find(&b, "other.dll"));
		bundle_free(&b);
	}
	struct bundle none = { 0 };
	assert_int_equal(ftruncate(fd, 0x140), 0);
	assert_err(bundle_open(fd, &none), ERR_NOT_FOUND);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_err(bundle_open(fd, &none), ERR_NOT_FOUND);
	unlink(path);
	buf_free(&assembly);
	buf_free(&deps);
	buf_free(&file);
	buf_free(&seen);
}

static void bundle_survives_damage(void **state UNUSED)
{
	struct buf bytes = { 0 }, list = { 0 };
	size_t failed = 0;
	buf_str(&bytes, "0123456789");
	struct build_part parts[] = { { "shop.dll", &bytes, false }, { "de/shop.resources.dll", &bytes, true } };
	build_bundle_list(parts, 2, 6, 100, &list);
	for (size_t i = 0; i < list.len; i++) {
		struct bundle b = { 0 };
		CLEANUP(mem_freep) uint8_t *cut = mem_dup(list.data, i ? i : 1);
		assert_err(bundle_parse(cut, i, 1000, &b), ERR_BAD_DATA);
		CLEANUP(mem_freep) uint8_t *copy = mem_dup(list.data, list.len);
		for (int bit = 0; bit < 8; bit++) {
			copy[i] = (uint8_t)((uint8_t)list.data[i] ^ 1 << bit);
			struct err *err = bundle_parse(copy, list.len, 1000, &b);
			failed += err != NULL;
			vec_each(f, &b)
				assert_true(f->offset <= 1000 && (f->packed || f->size <= 1000 - f->offset));
			bundle_free(&b);
			err_free(err);
		}
	}
	assert_true(failed > 100);
	buf_free(&bytes);
	buf_free(&list);
}

/* --- a single-file program that runs --- */

/* What a host has in its data: with this, and files behind its end, a copy of this program is one. */
#define FREE 0xA5
static volatile uint8_t place[40] = { FREE, FREE, FREE, FREE, FREE, FREE, FREE, FREE, BUILD_BUNDLE_MARK };

/* Maps the assembly as the runtime does: from the page that it begins in. Says where, and waits to be killed. */
static int be_a_program(const char *offset)
{
	CLOSE_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	long at = atol(offset), page = at & ~4095l;
	char *p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, page);
	if (p == MAP_FAILED || !place[8])
		return 1;
	printf("%p\n", (void *)(p + (at - page)));
	fflush(stdout);
	pause();
	return 0;
}

static void write_all(int fd, const struct buf *b)
{
	assert_int_equal(write(fd, b->data, b->len), b->len);
}

/* Those who look for the mark have it too, but nothing free before it. */
static void set_place(struct buf *program, uint64_t list)
{
	static const uint8_t mark[] = { BUILD_BUNDLE_MARK };
	size_t found = 0;
	for (size_t i = 8; i + sizeof(mark) <= program->len; i++) {
		uint8_t *p = (uint8_t *)program->data + i;
		if (p[0] != mark[0] || p[-1] != FREE || p[-8] != FREE || memcmp(p, mark, sizeof(mark)) != 0)
			continue;
		memcpy(p - 8, &list, sizeof(list));
		found++;
	}
	assert_int_equal(found, 1);
}

/* A copy of this program, an assembly for x86-64 at an odd place behind it, and the list. Returns where that is. */
static uint64_t write_program(const char *path, size_t *ret_size)
{
	CLOSE_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	CLEANUP(buf_free) struct buf program = { 0 };
	CLEANUP(buf_free) struct buf assembly = { 0 };
	CLEANUP(buf_free) struct buf list = { 0 };
	assert_ok(file_read("/proc/self/exe", (size_t)256 << 20, &program));
	while (program.len % 4096 != 0xf00)
		buf_char(&program, 0);
	build_typed_assembly(&SHOP(.code = true, .n_refs = 2000), &assembly);
	struct build_part part = { "Shop.Core.dll", &assembly, false };
	build_bundle_list(&part, 1, 6, program.len, &list);
	uint64_t at = program.len + assembly.len;
	set_place(&program, at);
	write_all(fd, &program);
	write_all(fd, &assembly);
	write_all(fd, &list);
	*ret_size = assembly.len;
	return program.len;
}

static void an_assembly_inside_of_a_running_program(void **state UNUSED)
{
	/* What lies in /dev is no program to us. */
	char folder[] = "/tmp/drdotnet-test-XXXXXX", where[32], line[64] = "";
	size_t size;
	int out[2];
	assert_non_null(mkdtemp(folder));
	CLEANUP(mem_freep) char *path = mem_printf("%s/shop", folder);
	uint64_t offset = write_program(path, &size);
	snprintf(where, sizeof(where), "%llu", (unsigned long long)offset);
	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], STDOUT_FILENO);
		execl(path, path, where, NULL);
		_exit(127);
	}
	close(out[1]);
	CLOSE_FD int in = out[0];
	assert_ok(fd_wait(in, POLLIN, deadline_in_ms(60000)));
	assert_true(read(in, line, sizeof(line) - 1) > 2);
	uint64_t address = strtoull(line, NULL, 16);

	CLEANUP(space_freep) struct space *space = space_new(pid);
	const struct space_map *map = space_find(space, address + 0x210);
	assert_non_null(map);
	struct space_object *o = space_open(space, map);
	assert_string_equal(o->name, "Shop.Core.dll");
	assert_true(map->exec && o->pe && !o->elf && o->part_size == size);
	uint32_t rva;
	assert_true(pe_rva(o->pe, address + 0x210 - map->start + map->offset, &rva));
	assert_int_equal(rva, 0x2010);
	/* The program itself is none of its parts. */
	size_t native = 0;
	for (size_t i = 0; i < space_n_objects(space); i++)
		native += str_eq(space_object(space, i)->path, path) && !space_object(space, i)->part_size;
	assert_int_equal(native, 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_ok(dir_remove(folder));
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return be_a_program(argv[1]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deps_say_where_each_assembly_is_from),
		cmocka_unit_test(no_path_comes_from_deps),
		cmocka_unit_test(deps_have_a_limit),
		cmocka_unit_test(deps_survive_damage),
		cmocka_unit_test(types_that_stand_on_their_own),
		cmocka_unit_test(types_out_of_a_part_of_a_file),
		cmocka_unit_test(types_survive_damage),
		cmocka_unit_test(bundle_lists_its_files),
		cmocka_unit_test(bundle_survives_damage),
		cmocka_unit_test(an_assembly_inside_of_a_running_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
