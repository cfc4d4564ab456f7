/* Lines and local variables out of portable PDBs, beside an assembly and inside of it. */

#include "base/fd.h"
#include "build_pdb.h"
#include "symbols/pdb.h"
#include "symbols/pe.h"
#include "unit.h"
#include <fcntl.h>

static const char *const documents[] = { "/src/Shop/Orders.cs", "/src/Shop/Generated.cs" };

/* Place: lines 10, 11 and, after a piece that nobody wrote, 300 and back to 12. */
static const struct build_pdb_point place_points[] = {
	{ .il = 0, .line = 0 },	 { .il = 2, .line = 10, .column = 9 },	  { .il = 9, .line = 11, .column = 13 },
	{ .il = 20, .line = 0 }, { .il = 300, .line = 300, .column = 5 }, { .il = 310, .line = 12, .column = 1 },
};
static const struct build_pdb_local place_locals[] = {
	{ .slot = 0, .name = "order", .il = 0, .len = 400 },
	{ .slot = 1, .name = "total", .il = 9, .len = 11 },
	{ .slot = 0, .name = "inner", .il = 300, .len = 5 },
};
/* Spread over two files. */
static const struct build_pdb_point spread_points[] = {
	{ .il = 0, .line = 70000, .column = 1, .document = 1 },
	{ .il = 4, .line = 3, .column = 200, .document = 2 },
	{ .il = 8, .line = 70001, .column = 1, .document = 1 },
};
static const struct build_pdb_point machine_points[] = {
	{ .il = 0, .line = 0 },
	{ .il = 7, .line = 40, .column = 9 },
	{ .il = 50, .line = 41, .column = 9 },
};
static const uint32_t awaits[] = { 20, 60 };
static const struct build_pdb_method methods[] = {
	{ place_points, ARRAY_SIZE(place_points), place_locals, ARRAY_SIZE(place_locals), .document = 1 },
	{ 0 },
	{ spread_points, ARRAY_SIZE(spread_points), .document = 0 },
	{ machine_points, ARRAY_SIZE(machine_points), .document = 1, .kickoff = 2, .awaits = awaits,
	  .n_awaits = ARRAY_SIZE(awaits) },
};
#define PLACE 0x06000001
#define NOTHING 0x06000002
#define SPREAD 0x06000003
#define MOVE_NEXT 0x06000004

static struct build_pdb make(void)
{
	struct build_pdb b = {
		.documents = documents, .n_documents = 2, .methods = methods, .n_methods = ARRAY_SIZE(methods)
	};
	for (size_t i = 0; i < sizeof(b.id); i++)
		b.id[i] = (uint8_t)(i + 1);
	return b;
}

static struct pdb *open_built(const struct build_pdb *b)
{
	struct buf bytes = { 0 };
	struct pdb *p = NULL;
	build_pdb(b, &bytes);
	size_t len = bytes.len;
	assert_ok(pdb_from_bytes(buf_steal(&bytes), len, b->id, &p));
	return p;
}

static void expect(struct pdb *p, uint32_t method, uint32_t il, const char *file, uint32_t line)
{
	struct pdb_line l;
	assert_true(pdb_line(p, method, il, &l));
	assert_string_equal(l.file, file);
	assert_int_equal(l.line, line);
}

static void check_all(struct pdb *p)
{
	struct pdb_line l;
	expect(p, PLACE, 2, documents[0], 10);
	expect(p, PLACE, 8, documents[0], 10);
	expect(p, PLACE, 9, documents[0], 11);
	expect(p, PLACE, 25, documents[0], 11);
	expect(p, PLACE, 309, documents[0], 300);
	expect(p, PLACE, 100000, documents[0], 12);
	expect(p, PLACE, 0, documents[0], 10);
	expect(p, SPREAD, 0, documents[0], 70000);
	expect(p, SPREAD, 7, documents[1], 3);
	expect(p, SPREAD, 8, documents[0], 70001);
	assert_true(pdb_line(p, SPREAD, 5, &l));
	assert_int_equal(l.column, 200);
	assert_int_equal(l.il_offset, 4);
	assert_false(pdb_line(p, NOTHING, 0, &l));
	assert_false(pdb_line(p, 0x06000005, 0, &l));
	assert_false(pdb_line(p, 0x06000000, 0, &l));
	assert_false(pdb_line(p, 0x02000001, 0, &l));

	assert_int_equal(pdb_kickoff(p, MOVE_NEXT), NOTHING);
	assert_int_equal(pdb_kickoff(p, PLACE), 0);
	assert_true(pdb_await(p, MOVE_NEXT, 0, &l));
	assert_int_equal(l.line, 40);
	assert_true(pdb_await(p, MOVE_NEXT, 1, &l));
	assert_int_equal(l.line, 41);
	assert_false(pdb_await(p, MOVE_NEXT, 2, &l));
	assert_false(pdb_await(p, PLACE, 0, &l));

	assert_string_equal(pdb_local(p, PLACE, 5, 0), "order");
	assert_string_equal(pdb_local(p, PLACE, 301, 0), "inner");
	assert_string_equal(pdb_local(p, PLACE, 10, 1), "total");
	assert_null(pdb_local(p, PLACE, 20, 1));
	assert_null(pdb_local(p, PLACE, 400, 0));
	assert_null(pdb_local(p, SPREAD, 0, 0));
}

static void lines_and_names(void **state)
{
	(void)state;
	struct build_pdb b = make();
	CLEANUP(pdb_freep) struct pdb *p = open_built(&b);
	check_all(p);
	assert_memory_equal(pdb_id(p), b.id, 20);
}

static void wide_indexes(void **state)
{
	(void)state;
	struct build_pdb b = make();
	b.wide = true;
	b.assembly_rows = 100000;
	CLEANUP(pdb_freep) struct pdb *p = open_built(&b);
	check_all(p);
}

static void another_id_is_refused(void **state)
{
	(void)state;
	struct build_pdb b = make();
	struct buf bytes = { 0 };
	struct pdb *p = NULL;
	build_pdb(&b, &bytes);
	b.id[19] ^= 1;
	size_t len = bytes.len;
	assert_err(pdb_from_bytes(buf_steal(&bytes), len, b.id, &p), ERR_NOT_FOUND);
}

static void ask_everything(struct pdb *p)
{
	struct pdb_line l;
	for (uint32_t m = PLACE; m <= MOVE_NEXT; m++) {
		pdb_kickoff(p, m);
		pdb_await(p, m, 1, &l);
		for (uint32_t il = 0; il < 400; il += 37) {
			pdb_line(p, m, il, &l);
			pdb_local(p, m, il, 0);
		}
	}
}

/* Every length and every flipped byte: refused, or read without a slip (the sanitizers look on). */
static void damaged(void **state)
{
	(void)state;
	struct build_pdb b = make();
	CLEANUP(buf_free) struct buf whole = { 0 };
	build_pdb(&b, &whole);
	size_t opened = 0;
	for (size_t i = 0; i < whole.len; i++) {
		struct pdb *p = NULL;
		struct err *err = pdb_from_bytes(mem_dup(whole.data, i ? i : 1), i, NULL, &p);
		assert_non_null(err); /* the last stream is at the end */
		err_free(err);
		for (unsigned bit = 0; bit < 8; bit += 3) {
			char *bad = mem_dup(whole.data, whole.len);
			bad[i] = (char)(bad[i] ^ 1 << bit);
			err = pdb_from_bytes(bad, whole.len, NULL, &p);
			if (!err) {
				opened++;
				ask_everything(p);
				pdb_free(p);
			}
			err_free(err);
		}
	}
	assert_true(opened > 0);
}

/* ---- files ---- */

static void write_file(const char *folder, const char *name, const struct buf *b)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	assert_ok(file_write_atomic(path, b->data, b->len, 0600));
}

static void found_beside_and_inside(void **state)
{
	(void)state;
	char folder[64];
	unit_temp_dir(folder, sizeof(folder));
	struct build_pdb b = make();
	struct buf pdb = { 0 }, other = { 0 }, dll = { 0 }, packed = { 0 }, bare = { 0 };
	build_pdb(&b, &pdb);
	build_assembly(b.id, NULL, &dll);
	build_assembly(b.id, &pdb, &packed);
	build_assembly(NULL, NULL, &bare);
	b.id[0] ^= 0xff;
	build_pdb(&b, &other);
	write_file(folder, "Shop.dll", &dll);
	write_file(folder, "Shop.pdb", &pdb);
	write_file(folder, "Packed.dll", &packed);
	write_file(folder, "Old.dll", &dll);
	write_file(folder, "Old.pdb", &other);
	write_file(folder, "Alone.dll", &dll);
	write_file(folder, "Bare.dll", &bare);
	write_file(folder, "Bare.pdb", &pdb);
	write_file(folder, "Text.dll", &pdb);

	CLEANUP(pdbs_freep) struct pdbs *all = pdbs_new(folder);
	const char *why = NULL;
	struct pdb *p = pdbs_get(all, "/Shop.dll", dll.data, 0x200, &why);
	assert_non_null(p);
	assert_null(why);
	check_all(p);
	assert_ptr_equal(pdbs_get(all, "/Shop.dll", NULL, 0, NULL), p);
	p = pdbs_get(all, "/Packed.dll", NULL, 0, &why);
	assert_non_null(p);
	check_all(p);
	static const struct {
		const char *file, *why;
	} none[] = {
		{ "/Old.dll", "another build" },    { "/Alone.dll", "Alone.pdb" },     { "/Bare.dll", "does not say" },
		{ "/Text.dll", "not an assembly" }, { "/Absent.dll", "No such file" }, { "", "in memory only" },
		{ NULL, "in memory only" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_null(pdbs_get(all, none[i].file, NULL, 0, &why));
		assert_non_null(strstr(why, none[i].why));
	}
	size_t i = 0, refused = 0;
	for (const char *text; (text = pdbs_refused(all, &i));)
		refused += strstr(text, "Old") || strstr(text, "Bare") || strstr(text, "Text");
	assert_int_equal(refused, 3);

	/* The process runs another build than what lies on the disk now. */
	CLEANUP(pdbs_freep) struct pdbs *later = pdbs_new(folder);
	dll.data[0x88] = (char)(dll.data[0x88] ^ 1);
	assert_null(pdbs_get(later, "/Shop.dll", dll.data, 0x200, &why));
	assert_non_null(strstr(why, "replaced"));

	assert_ok(dir_remove(folder));
	buf_free(&pdb);
	buf_free(&other);
	buf_free(&dll);
	buf_free(&packed);
	buf_free(&bare);
}

/* Flips in the assembly: the PDB inside is found, or it is said why not. */
static void damaged_assembly(void **state)
{
	(void)state;
	char folder[64];
	unit_temp_dir(folder, sizeof(folder));
	struct build_pdb b = make();
	CLEANUP(buf_free) struct buf pdb = { 0 }, packed = { 0 };
	build_pdb(&b, &pdb);
	build_assembly(b.id, &pdb, &packed);
	CLEANUP(mem_freep) char *path = mem_printf("%s/Shop.dll", folder);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	size_t opened = 0;
	for (size_t i = 0; i < packed.len; i++) {
		char flipped = (char)(packed.data[i] ^ 0x11);
		assert_int_equal(pwrite(fd, packed.data, packed.len, 0), packed.len);
		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)i), 1);
		struct pdb *p = NULL;
		struct err *err = pdb_open(&(struct pdb_assembly){ folder, "Shop.dll", NULL, 0, NULL }, &p);
		opened += !err;
		err_free(err);
		pdb_free(p);
	}
	assert_true(opened > 0 && opened < packed.len);
	close(fd);
	assert_ok(dir_remove(folder));
}

/* Inside of a single-file program the assembly is no file: the PDB that the runtime names may lie there all the same.
 */
static void of_an_assembly_that_is_no_file(void **state)
{
	(void)state;
	char folder[64];
	unit_temp_dir(folder, sizeof(folder));
	struct build_pdb b = make();
	CLEANUP(buf_free) struct buf pdb = { 0 };
	build_pdb(&b, &pdb);
	write_file(folder, "Shop.pdb", &pdb);
	CLEANUP(pdbs_freep)
	struct pdbs *nothing_told = pdbs_new(folder), *told = pdbs_new(folder), *of_another = pdbs_new(folder);
	assert_null(pdbs_get_told(nothing_told, "/Shop.dll", NULL));
	struct pdb *p = pdbs_get_told(told, "/Shop.dll", b.id);
	assert_non_null(p);
	check_all(p);
	b.id[3] ^= 1;
	assert_null(pdbs_get_told(of_another, "/Shop.dll", b.id));
	assert_null(pdbs_get_told(of_another, "/Gone.dll", b.id));
	assert_null(pdbs_get_told(of_another, "", b.id));
	assert_ok(dir_remove(folder));
}

/* Neither beside nor inside: the cache has it, by the id and name that the assembly says, on disk or in memory. */
static void found_in_the_cache(void **state)
{
	(void)state;
	char folder[64];
	unit_temp_dir(folder, sizeof(folder));
	setenv("DRDOTNET_HOME", folder, 1);
	struct build_pdb b = make();
	CLEANUP(buf_free) struct buf pdb = { 0 }, assembly = { 0 }, loaded = { 0 };
	build_pdb(&b, &pdb);
	build_assembly(b.id, NULL, &assembly);
	write_file(folder, "Shop.dll", &assembly);
	struct pdb_assembly a = { folder, "Shop.dll", NULL, 0, NULL };
	struct symbol_file want, same;
	assert_int_equal(pdb_state(&a, &want), PDB_MISSING);
	assert_string_equal(want.name, "shop.pdb");

	struct pe pe;
	assert_true(pe_parse_any(assembly.data, assembly.len, &pe));
	assert_true(pdb_of_assembly(&pe, &same));
	assert_string_equal(same.id, want.id);
	buf_add(&loaded, assembly.data, 0x200);
	while (loaded.len < 0x2000)
		buf_char(&loaded, 0);
	buf_add(&loaded, assembly.data + 0x200, assembly.len - 0x200);
	assert_true(pe_parse_loaded(loaded.data, loaded.len, &pe));
	same = (struct symbol_file){ 0 };
	assert_true(pdb_of_assembly(&pe, &same));
	assert_string_equal(same.id, want.id);

	CLEANUP(mem_freep) char *path = NULL;
	int fd = -1;
	assert_ok(symbol_cache_begin(&fd, &path));
	assert_ok(fd_write_full(fd, pdb.data, pdb.len, DEADLINE_NEVER));
	assert_ok(symbol_cache_keep(&want, fd, path));
	close(fd);
	assert_int_equal(pdb_state(&a, &same), PDB_HERE);
	struct pdb *p = NULL;
	assert_ok(pdb_open(&a, &p));
	check_all(p);
	pdb_free(p);

	/* Of a core from elsewhere the assembly itself comes from there too. */
	struct symbol_file itself;
	struct pdb_assembly gone = { folder, "/gone/Shop.dll", assembly.data, assembly.len, NULL };
	assert_int_equal(pdb_state(&gone, &same), PDB_UNKNOWN);
	assert_true(symbol_of_assembly("Shop.dll", 0xfeedc0de, 0x6000, &itself));
	mem_free(STEAL(path));
	assert_ok(symbol_cache_begin(&fd, &path));
	assert_ok(fd_write_full(fd, assembly.data, assembly.len, DEADLINE_NEVER));
	assert_ok(symbol_cache_keep(&itself, fd, path));
	close(fd);
	assert_int_equal(pdb_state(&gone, &same), PDB_HERE);
	assert_ok(dir_remove(folder));
	unsetenv("DRDOTNET_HOME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_an_assembly_that_is_no_file),
		cmocka_unit_test(lines_and_names),
		cmocka_unit_test(wide_indexes),
		cmocka_unit_test(another_id_is_refused),
		cmocka_unit_test(damaged),
		cmocka_unit_test(found_beside_and_inside),
		cmocka_unit_test(damaged_assembly),
		cmocka_unit_test(found_in_the_cache),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
