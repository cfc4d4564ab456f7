#include "build_elf.h"
#include "base/fd.h"
#include "symbols/cache.h"
#include "symbols/debug_file.h"
#include "symbols/demangle.h"
#include "symbols/space.h"
#include "unit.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct build_elf_symbol symbols[] = {
	{ "outer", 0x1000, 0x100, BUILD_FUNCTION },
	{ "inner", 0x1010, 0x10, BUILD_FUNCTION },
	{ "_ZN4Shop6Orders5PlaceEi", 0x1200, 0x40, BUILD_FUNCTION },
	{ "assembler", 0x1300, 0, BUILD_FUNCTION },
	{ "table", 0x1400, 0x40, BUILD_DATA },
};

static struct elf *open_built(const struct build_elf *b)
{
	struct buf out = { 0 };
	build_elf(b, &out);
	struct elf *e;
	size_t len = out.len;
	assert_ok(elf_from_bytes(buf_steal(&out), len, &e));
	return e;
}

static void functions_are_found_by_address(void **state)
{
	(void)state;
	for (int dynamic = 0; dynamic < 2; dynamic++) {
		struct elf *e = open_built(&(struct build_elf){
			.symbols = symbols, .n_symbols = ARRAY_SIZE(symbols), .dynamic = dynamic });
		assert_string_equal(elf_symbol(e, NULL, 0x1000), "outer");
		assert_string_equal(elf_symbol(e, NULL, 0x1015), "inner");
		assert_string_equal(elf_symbol(e, NULL, 0x1020), "outer");
		assert_string_equal(elf_symbol(e, NULL, 0x10ff), "outer");
		assert_null(elf_symbol(e, NULL, 0x1100));
		assert_null(elf_symbol(e, NULL, 0xfff));
		assert_null(elf_symbol(e, NULL, 0xe20)); /* stubs that call other libraries */
		assert_string_equal(elf_symbol(e, NULL, 0x1310), "assembler");
		assert_int_equal(elf_has_symtab(e), !dynamic);
		elf_free(e);
	}
}

/* Calls into other files go through stubs. What has no size ends with its section. */
static void stubs_have_the_names_of_what_they_call(void **state)
{
	(void)state;
	static const struct build_elf_symbol some[] = { { "memset", 0x1800, 0x10, BUILD_FUNCTION },
							{ "_ZN4Shop6Orders5PlaceEi", 0x1900, 0x10, BUILD_FUNCTION },
							{ "last", BUILD_ELF_STUBS + 48, 0, BUILD_STUB } };
	struct elf *e = open_built(
		&(struct build_elf){ .symbols = some, .n_symbols = ARRAY_SIZE(some), .dynamic = true, .n_stubs = 2 });
	assert_string_equal(elf_symbol(e, NULL, BUILD_ELF_STUBS + 63), "last");
	assert_null(elf_symbol(e, NULL, BUILD_ELF_STUBS + 64));
	assert_string_equal(elf_symbol(e, NULL, BUILD_ELF_STUBS + 16), "memset@plt");
	assert_string_equal(elf_symbol(e, NULL, BUILD_ELF_STUBS + 31), "memset@plt");
	const char *place = elf_symbol(e, NULL, BUILD_ELF_STUBS + 32);
	assert_string_equal(place, "_ZN4Shop6Orders5PlaceEi@plt");
	CLEANUP(buf_free) struct buf shown = { 0 };
	demangle_add(&shown, place);
	assert_string_equal(buf_cstr(&shown), "Shop::Orders::Place@plt");
	elf_free(e);
}

/* A file may be made so that reading it never ends: long names without an end, and many that share them. */
static void a_name_has_an_end(void **state)
{
	(void)state;
	enum { LONG = 1 << 20 };
	CLEANUP(mem_freep) char *endless = mem_alloc(LONG + 1);
	memset(endless, 'a', LONG);
	endless[LONG] = '\0';
	const struct build_elf_symbol both[] = { { endless, 0x1000, 0x10, BUILD_FUNCTION },
						 { "short", 0x1010, 0x10, BUILD_FUNCTION } };
	struct elf *e = open_built(&(struct build_elf){ .symbols = both, .n_symbols = 2 });
	assert_null(elf_symbol(e, NULL, 0x1000));
	assert_string_equal(elf_symbol(e, NULL, 0x1010), "short");
	elf_free(e);
}

static void a_debug_file_adds_its_names(void **state)
{
	(void)state;
	struct elf *stripped = open_built(&(struct build_elf){ 0 });
	struct elf *debug = open_built(&(struct build_elf){ .symbols = symbols, .n_symbols = 2 });
	assert_string_equal(elf_symbol(stripped, debug, 0x1000), "outer");
	elf_free(stripped);
	elf_free(debug);
}

static void build_id_and_debug_link(void **state)
{
	(void)state;
	struct elf *e = open_built(&(struct build_elf){
		.build_id = "\x01\xab\xff\x10", .build_id_len = 4, .debug_link = "libx.so.debug" });
	assert_string_equal(elf_build_id(e), "01abff10");
	assert_string_equal(elf_debug_link(e), "libx.so.debug");
	elf_free(e);
	e = open_built(&(struct build_elf){ .debug_link = "../../etc/passwd" });
	assert_null(elf_debug_link(e));
	assert_string_equal(elf_build_id(e), "");
	elf_free(e);
}

static void use_all(struct elf *e)
{
	uint64_t va;
	size_t len;
	elf_build_id(e);
	elf_debug_link(e);
	for (uint64_t a = 0; a < 0x4000; a += 0x7f) {
		elf_symbol(e, NULL, a);
		elf_va(e, a, &va);
		elf_at(e, a, &len);
	}
	elf_unwind_index(e, &va, &len);
}

static void damaged_files_are_refused_or_read_in_part(void **state)
{
	(void)state;
	struct buf out = { 0 };
	build_elf(&(struct build_elf){ .symbols = symbols,
				       .n_symbols = ARRAY_SIZE(symbols),
				       .build_id = "\x01\x02",
				       .build_id_len = 2,
				       .debug_link = "x" },
		  &out);
	size_t refused = 0, read = 0;
	for (size_t cut = 0; cut < out.len; cut += cut < 400 || cut > BUILD_ELF_EH ? 1 : 97) {
		struct elf *e = NULL;
		struct err *err = elf_from_bytes(mem_dup(out.data, cut ? cut : 1), cut, &e);
		refused += err != NULL;
		if (!err)
			use_all(e);
		err_free(err);
		elf_free(e);
	}
	for (size_t at = 0; at < out.len; at += at < 200 || at > BUILD_ELF_EH ? 1 : 97) {
		char *bytes = mem_dup(out.data, out.len);
		bytes[at] = (char)(bytes[at] ^ 0xff);
		struct elf *e = NULL;
		struct err *err = elf_from_bytes(bytes, out.len, &e);
		read += !err;
		if (!err)
			use_all(e);
		err_free(err);
		elf_free(e);
	}
	assert_true(refused >= 64 && read > 100);
	buf_free(&out);
}

static void not_an_elf_file(void **state)
{
	(void)state;
	struct elf *e;
	assert_err(elf_from_bytes(mem_strdup("MZ"), 2, &e), ERR_BAD_DATA);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_err(elf_open(fd, &e), ERR_BAD_DATA);
	close(fd);
}

static void names_are_demangled(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
		{ "_ZN4Shop6Orders5PlaceEi", "Shop::Orders::Place" },
		{ "_ZNK3gc04heap4markEPhb", "gc0::heap::mark" },
		{ "_Z", "_Z" },
		{ "main", "main" },
		{ "_Z3fooPFvvE", "foo" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		struct buf b = { 0 };
		demangle_add(&b, pairs[i][0]);
		assert_string_equal(buf_cstr(&b), pairs[i][1]);
		buf_free(&b);
	}
}

/* b<X, X> of b<X, X> of ...: each level is twice as long as the one before. */
static void a_name_that_unfolds_without_end_stays_as_it_is(void **state)
{
	(void)state;
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	for (unsigned levels = 4; levels <= 16; levels += 12) {
		CLEANUP(buf_free) struct buf name = { 0 }, out = { 0 };
		buf_str(&name, "_Z1f1aIiE");
		for (unsigned i = 0; i < levels; i++)
			buf_printf(&name, "1bIS%c_S%c_E", digits[2 * i], digits[2 * i]);
		demangle_add(&out, buf_cstr(&name));
		assert_string_equal(buf_cstr(&out), levels == 4 ? "f" : buf_cstr(&name));
	}
}

/* Something that our own process has: this function. */
static void our_own_space(void **state)
{
	(void)state;
	struct space *s = space_new(getpid());
	uint64_t here = (uint64_t)(uintptr_t)&our_own_space;
	const struct space_map *map = space_find(s, here);
	assert_non_null(map);
	assert_true(map->exec);
	assert_non_null(map->object);
	struct buf name = { 0 };
	assert_true(space_symbol(s, map, here, &name));
	assert_string_equal(buf_cstr(&name), "our_own_space");
	buf_free(&name);
	uint8_t bytes[4];
	assert_true(space_read(s, here, bytes, sizeof(bytes)));
	assert_memory_equal(bytes, (void *)(uintptr_t)here, sizeof(bytes));
	assert_false(space_read(s, 8, bytes, sizeof(bytes)));
	assert_null(space_find(s, 8));
	space_free(s);
}

static int built_file(void)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	build_elf(&(struct build_elf){ .symbols = symbols, .n_symbols = ARRAY_SIZE(symbols) }, &out);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, out.data, out.len), (ssize_t)out.len);
	return fd;
}

/* While we have it open, before and after its names were read. */
static void a_file_that_is_cut_short_loses_its_names(void **state)
{
	(void)state;
	for (int asked = 0; asked < 2; asked++) {
		CLOSE_FD int fd = built_file();
		CLEANUP(elf_freep) struct elf *e = NULL, *whole = open_built(&(struct build_elf){ 0 });
		size_t len;
		assert_ok(elf_open(fd, &e));
		if (asked)
			assert_string_equal(elf_symbol(e, NULL, 0x1000), "outer");
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_null(elf_symbol(e, NULL, 0x1000));
		assert_true(elf_shrunk(e));
		assert_null(elf_at(e, 0x1000, &len));
		/* And as the debug file of another. */
		assert_null(elf_symbol(whole, e, 0x1000));
		assert_false(elf_shrunk(whole));
	}
}

static void a_space_says_what_was_cut_short(void **state)
{
	(void)state;
	char path[] = "/tmp/drdotnet-unit-cut-XXXXXX";
	CLOSE_FD int fd = mkstemp(path);
	CLEANUP(buf_free) struct buf out = { 0 };
	build_elf(&(struct build_elf){ .symbols = symbols, .n_symbols = ARRAY_SIZE(symbols) }, &out);
	assert_int_equal(write(fd, out.data, out.len), (ssize_t)out.len);
	uint8_t *at = mmap(NULL, out.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	unlink(path);

	CLEANUP(space_freep) struct space *s = space_new(getpid());
	CLEANUP(buf_free) struct buf name = { 0 };
	const struct space_map *map = space_find(s, (uintptr_t)at);
	assert_true(space_symbol(s, map, (uintptr_t)at + 0x1000, &name));
	assert_string_equal(buf_cstr(&name), "outer");
	assert_false(map->object->shrunk);
	assert_int_equal(ftruncate(fd, 100), 0);
	buf_clear(&name);
	assert_false(space_symbol(s, map, (uintptr_t)at + 0x1000, &name));
	assert_int_equal(name.len, 0);
	assert_true(map->object->shrunk);
	munmap(at, out.len);
}

static void a_space_without_a_process(void **state)
{
	(void)state;
	struct space *s = space_new(0);
	uint8_t byte;
	assert_null(space_find(s, 0x1000));
	assert_false(space_read(s, 0x1000, &byte, 1));
	space_free(s);
}

/* --- PE --- */

static void put(struct buf *b, size_t at, uint64_t v, size_t n)
{
	while (b->len < at + n)
		buf_char(b, 0);
	memcpy(b->data + at, &v, n);
}

/* Section .text: rva 0x2000, file 0x400..0x600; functions at rva 0x2100. */
static void build_pe(struct buf *b)
{
	put(b, 0, 0x5a4d, 2);
	put(b, 60, 0x80, 4);
	put(b, 0x80, 0x4550, 4);
	put(b, 0x84, 0x8664 ^ 0x7b79, 2);
	put(b, 0x86, 1, 2);
	put(b, 0x94, 240, 2);
	put(b, 0x98, 0x20b, 2);
	put(b, 0x98 + 108, 16, 4);
	put(b, 0x98 + 112 + 24, 0x2100, 4);
	put(b, 0x98 + 112 + 28, 24, 4);
	size_t section = 0x98 + 240;
	put(b, section + 8, 0x200, 4);
	put(b, section + 12, 0x2000, 4);
	put(b, section + 16, 0x200, 4);
	put(b, section + 20, 0x400, 4);
	put(b, 0x400 + 0x100, 0x2000, 4);
	put(b, 0x400 + 0x104, 0x2040, 4);
	put(b, 0x400 + 0x108, 0x2180, 4);
	put(b, 0x400 + 0x10c, 0x2040, 4);
	put(b, 0x400 + 0x110, 0x2060, 4);
	put(b, 0x400 + 0x114, 0x2184, 4);
	put(b, 0x5ff, 0, 1);
}

static void functions_of_a_pe_file(void **state)
{
	(void)state;
	struct buf b = { 0 };
	build_pe(&b);
	struct pe pe;
	assert_true(pe_parse(b.data, b.len, &pe));
	uint32_t rva;
	assert_true(pe_rva(&pe, 0x410, &rva));
	assert_int_equal(rva, 0x2010);
	assert_false(pe_rva(&pe, 0x600, &rva));
	struct pe_function fn;
	assert_true(pe_function(&pe, 0x203f, &fn));
	assert_int_equal(fn.begin, 0x2000);
	assert_int_equal(fn.unwind, 0x2180);
	assert_true(pe_function(&pe, 0x2040, &fn));
	assert_int_equal(fn.unwind, 0x2184);
	assert_false(pe_function(&pe, 0x2060, &fn));
	assert_false(pe_function(&pe, 0x1fff, &fn));
	for (size_t i = 0; i < b.len; i++) {
		CLEANUP(mem_freep) char *bad = mem_dup(b.data, b.len);
		bad[i] = (char)(bad[i] ^ 0x81);
		if (pe_parse(bad, b.len, &pe))
			pe_function(&pe, 0x2010, &fn);
		CLEANUP(mem_freep) char *cut = mem_dup(b.data, i ? i : 1);
		if (pe_parse(cut, i, &pe))
			pe_function(&pe, 0x2010, &fn);
	}
	buf_free(&b);
}

/* --- the cache --- */

static void keys_are_those_of_the_protocol(void **state)
{
	(void)state;
	static const uint8_t guid[16] = { 0xf6, 0x72, 0x7b, 0x49, 0x0a, 0x39, 0xfc, 0x44,
					  0x87, 0x8e, 0x5a, 0x2d, 0x63, 0xb6, 0xcc, 0x4b };
	static const uint8_t id[4] = { 0x18, 0x0a, 0x37, 0x3d };
	static const char whole[] = "180a373d6afbabf0eb1f09be1bc45bd796a71085";
	struct symbol_file f[7];
	assert_true(symbol_of_elf(SYMBOL_LIBRARY, "/usr/lib/Foo.so", whole, &f[0]));
	assert_true(symbol_of_elf(SYMBOL_DEBUG, "foo.so", whole, &f[1]));
	assert_true(symbol_of_elf(SYMBOL_DAC, "libmscordaccore.so", whole, &f[2]));
	assert_true(symbol_of_build(SYMBOL_DEBUG, "bar.so", id, sizeof(id), &f[3]));
	assert_true(symbol_of_pdb("D:\\a\\b\\Foo.pdb", guid, &f[4]));
	assert_true(symbol_of_assembly("/app/Foo.exe", 0x542d5742, 0x32000, &f[5]));
	assert_true(symbol_of_assembly("Foo.dll", 0xd9f641e, 0x599000, &f[6]));
	static const char *const keys[] = {
		"foo.so/elf-buildid-180a373d6afbabf0eb1f09be1bc45bd796a71085/foo.so",
		"_.debug/elf-buildid-sym-180a373d6afbabf0eb1f09be1bc45bd796a71085/_.debug",
		"libmscordaccore.so/elf-buildid-coreclr-180a373d6afbabf0eb1f09be1bc45bd796a71085/libmscordaccore.so",
		"_.debug/elf-buildid-sym-180a373d00000000000000000000000000000000/_.debug",
		"foo.pdb/497b72f6390a44fc878e5a2d63b6cc4bFFFFFFFF/foo.pdb",
		"foo.exe/542D574232000/foo.exe",
		"foo.dll/0D9F641E599000/foo.dll",
	};
	for (size_t i = 0; i < ARRAY_SIZE(f); i++) {
		CLEANUP(buf_free) struct buf key = { 0 };
		symbol_key(&f[i], &key);
		assert_string_equal(buf_cstr(&key), keys[i]);
	}
	CLEANUP(buf_free) struct buf path = { 0 };
	assert_true(symbol_debuginfod_path(&f[3], &path));
	assert_string_equal(buf_cstr(&path), "buildid/180a373d/debuginfo");
	assert_false(symbol_debuginfod_path(&f[4], &path));
}

static void names_that_are_none_make_no_key(void **state)
{
	(void)state;
	static const uint8_t guid[16] = { 1 };
	static const char *const names[] = {
		"", "..", "a/..", ".hidden", "a/", "a b", "x?y", "x%2f", "x\ny", "\xc3\xa4"
	};
	struct symbol_file f;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_false(symbol_of_pdb(names[i], guid, &f));
	char longer[300];
	memset(longer, 'a', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_false(symbol_of_pdb(longer, guid, &f));
	static const char *const ids[] = { "", "12", "../../../x", "180A373D", "180a373d/" };
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_false(symbol_of_elf(SYMBOL_DEBUG, "a.so", ids[i], &f));
	assert_false(symbol_of_elf(SYMBOL_DEBUG, "a.so", longer, &f));
}

static struct err *put_in_cache(const struct symbol_file *f, const struct buf *bytes)
{
	CLEANUP(mem_freep) char *path = NULL;
	CLOSE_FD int fd = -1;
	TRY(symbol_cache_begin(&fd, &path));
	TRY(fd_write_full(fd, bytes->data, bytes->len, DEADLINE_NEVER));
	struct err *err = symbol_cache_keep(f, fd, path);
	assert_int_equal(access(path, F_OK), -1);
	return err;
}

static void what_is_kept_is_found_again(void **state)
{
	(void)state;
	char folder[64];
	unit_temp_dir(folder, sizeof(folder));
	setenv("DRDOTNET_HOME", folder, 1);
	struct build_elf build = {
		.symbols = symbols, .n_symbols = ARRAY_SIZE(symbols), .build_id = "\x01\xab\xff\x10", .build_id_len = 4
	};
	CLEANUP(buf_free) struct buf debug = { 0 }, stripped = { 0 }, other = { 0 };
	build_elf(&build, &debug);
	build.n_symbols = 0;
	build_elf(&build, &stripped);
	build.build_id = "\x01\xab\xff\x11";
	build.n_symbols = ARRAY_SIZE(symbols);
	build_elf(&build, &other);
	struct symbol_file f;
	assert_true(symbol_of_elf(SYMBOL_DEBUG, "libx.so", "01abff10", &f));
	assert_int_equal(symbol_cache_open(&f), -1);
	assert_err(put_in_cache(&f, &stripped), ERR_BAD_DATA);
	assert_err(put_in_cache(&f, &other), ERR_BAD_DATA);
	assert_int_equal(symbol_cache_open(&f), -1);
	assert_ok(put_in_cache(&f, &debug));
	CLOSE_FD int fd = symbol_cache_open(&f);
	assert_true(fd >= 0);

	struct elf *elf;
	size_t len = stripped.len;
	assert_ok(elf_from_bytes(buf_steal(&stripped), len, &elf));
	struct elf *found = debug_file_find("", "/nowhere/libx.so", elf);
	assert_non_null(found);
	assert_string_equal(elf_symbol(elf, found, 0x1000), "outer");
	elf_free(found);

	CLEANUP(buf_free) struct buf place = { 0 };
	buf_printf(&place, "%s/symbols/", folder);
	symbol_key(&f, &place);
	assert_ok(file_write_atomic(buf_cstr(&place), other.data, other.len, 0600));
	assert_int_equal(symbol_cache_open(&f), -1);
	assert_null(debug_file_find("", "/nowhere/libx.so", elf));
	elf_free(elf);
	assert_ok(dir_remove(folder));
	unsetenv("DRDOTNET_HOME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_found_by_address),
		cmocka_unit_test(stubs_have_the_names_of_what_they_call),
		cmocka_unit_test(a_name_has_an_end),
		cmocka_unit_test(a_debug_file_adds_its_names),
		cmocka_unit_test(build_id_and_debug_link),
		cmocka_unit_test(damaged_files_are_refused_or_read_in_part),
		cmocka_unit_test(not_an_elf_file),
		cmocka_unit_test(names_are_demangled),
		cmocka_unit_test(a_name_that_unfolds_without_end_stays_as_it_is),
		cmocka_unit_test(our_own_space),
		cmocka_unit_test(a_space_without_a_process),
		cmocka_unit_test(a_file_that_is_cut_short_loses_its_names),
		cmocka_unit_test(a_space_says_what_was_cut_short),
		cmocka_unit_test(functions_of_a_pe_file),
		cmocka_unit_test(keys_are_those_of_the_protocol),
		cmocka_unit_test(names_that_are_none_make_no_key),
		cmocka_unit_test(what_is_kept_is_found_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
