/* Whose code it is, as the program itself says: this test is the program. */

#include "base/fd.h"
#include "build_program.h"
#include "eventpipe/whose.h"
#include "exam/own_code.h"
#include "unit.h"
#include <fcntl.h>
#include <sys/mman.h>

static char folder[64];
static void *mapped = MAP_FAILED;

static const struct build_type host[] = { { "", "<Module>" }, { "", "Program" }, { "Contoso.Host", "Startup" } };
/* Its own, under a name of the platform's; and one in a namespace that it shares with a package. */
static const struct build_type core[] = { { "Microsoft.Contoso", "Prices`1" }, { "Both", "Mine" } };
static const struct build_type zeta[] = { { "Ganz.Anders", "Kernel" }, { "Both", "Theirs" }, { "", "Loose" } };
static const struct build_type house[] = { { "Haus.Werk", "Tool" } };
static const struct {
	const char *name;
	const struct build_type *v;
	size_t n;
} assemblies[] = { { "contoso", host, 3 }, { "Contoso.Core", core, 2 }, { "zeta-lib", zeta, 3 }, { "haus", house, 1 } };

static const char deps[] =
	"{\"targets\": {\"net\": {\"contoso/1\": {\"runtime\": {\"contoso.dll\": {}}},"
	" \"Contoso.Core/1\": {\"runtime\": {\"Contoso.Core.dll\": {}}},"
	" \"Zeta/1\": {\"runtime\": {\"lib/net8.0/zeta-lib.dll\": {}}},"
	" \"Contoso.Haus/1\": {\"runtime\": {\"lib/net8.0/haus.dll\": {}}},"
	" \"Gone/1\": {\"runtime\": {\"lib/net8.0/Gone.Away.dll\": {}}},"
	" \"Npgsql/9\": {\"runtime\": {\"lib/net8.0/Npgsql.dll\": {}}}}},"
	"\"libraries\": {\"contoso/1\": {\"type\": \"project\"}, \"Contoso.Core/1\": {\"type\": \"project\"},"
	" \"Zeta/1\": {\"type\": \"package\"}, \"Contoso.Haus/1\": {\"type\": \"package\"},"
	" \"Gone/1\": {\"type\": \"package\"}, \"Npgsql/9\": {\"type\": \"package\"}}}";

static void write_file(const char *name, const void *data, size_t len)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	assert_ok(file_write_atomic(path, data, len, 0644));
}

static int make_program(void **state UNUSED)
{
	unit_temp_dir(folder, sizeof(folder));
	for (size_t i = 0; i < ARRAY_SIZE(assemblies); i++) {
		struct buf bytes = { 0 };
		CLEANUP(mem_freep) char *name = mem_printf("%s.dll", assemblies[i].name);
		build_typed_assembly(&(struct build_types){ .v = assemblies[i].v, .n = assemblies[i].n }, &bytes);
		write_file(name, bytes.data, bytes.len);
		buf_free(&bytes);
	}
	write_file("contoso.deps.json", deps, strlen(deps));
	CLEANUP(mem_freep) char *path = mem_printf("%s/contoso.dll", folder);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	return mapped == MAP_FAILED;
}

static int remove_program(void **state UNUSED)
{
	munmap(mapped, 4096);
	assert_ok(dir_remove(folder));
	return 0;
}

static char entry[] = "contoso";
static struct patient self(void)
{
	return (struct patient){ .target.pid = getpid(), .info.entry_assembly = entry };
}

static void assert_learnt(const struct whose_names *names)
{
	assert_int_equal(whose_code(names, "Program"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Contoso.Host.Startup+<>c"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Microsoft.Contoso.Prices`1[System.Int32]"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Microsoft.Contoso.Others"), WHOSE_PLATFORM);
	assert_int_equal(whose_code(names, "Both.Mine"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Both.Theirs.Call"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(names, "Ganz.Anders.Kernel"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(names, "lambda 2 in Ganz.Anders.Kernel.Burn"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(names, "Ganz.Allein.Kernel"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Loose"), WHOSE_PACKAGE);
	/* The package of their own house; one that is not there; one that everybody knows. */
	assert_int_equal(whose_code(names, "Haus.Werk.Tool"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Gone.Away.Far"), WHOSE_PACKAGE);
	assert_int_equal(whose_code(names, "Npgsql.NpgsqlConnection"), WHOSE_LIBRARY);
	assert_int_equal(whose_code(names, "System.String"), WHOSE_PLATFORM);
	assert_true(method_is_framework(names, "Ganz.Anders.Kernel") && method_is_library(names, "Ganz.Anders.Kernel"));
	assert_false(method_is_framework(names, "Microsoft.Contoso.Prices`1"));
}

static void assert_by_list(const struct whose_names *names)
{
	assert_int_equal(whose_code(names, "Ganz.Anders.Kernel"), WHOSE_YOURS);
	assert_int_equal(whose_code(names, "Microsoft.Contoso.Prices`1"), WHOSE_PLATFORM);
	assert_int_equal(whose_code(names, "lambda in Npgsql.NpgsqlConnection.Open"), WHOSE_LIBRARY);
}

/* What a living program says, checked and freed. */
static void check_process(const struct patient *p, void (*check)(const struct whose_names *names))
{
	CLEANUP(whose_names_freep) struct whose_names *names = own_code_of_process(p);
	check(names);
}

static void check_core(const char *assembly, void (*check)(const struct whose_names *names))
{
	CLEANUP(whose_names_freep) struct whose_names *names = own_code_of_core(assembly);
	check(names);
}

static void check_exam(struct exam exam, void (*check)(const struct whose_names *names))
{
	own_code_learn(&exam);
	check(exam.whose);
	exam_fini(&exam);
}

static void a_living_program(void **state UNUSED)
{
	struct patient p = self();
	check_process(&p, assert_learnt);
	/* The next one says nothing. */
	p.info.entry_assembly = NULL;
	check_process(&p, assert_by_list);
}

static void without_deps_the_list_decides(void **state UNUSED)
{
	static char others[] = "other", up[] = "../contoso";
	struct patient p = self();
	write_file("contoso.deps.json", "{", 1);
	check_process(&p, assert_by_list);
	write_file("contoso.deps.json", deps, strlen(deps));
	p.info.entry_assembly = others;
	check_process(&p, assert_by_list);
	p.info.entry_assembly = up;
	check_process(&p, assert_by_list);
	p = self();
	p.target.pid = 0;
	check_process(&p, assert_by_list);
}

static void a_recording_remembers(void **state UNUSED)
{
	CLEANUP(mem_freep) char *dir = mem_printf("%s/recording", folder);
	struct patient p = self(), gone = { 0 };
	CLEANUP(recording_freep) struct recording *r = NULL;
	assert_ok(recording_create(dir, 0, &r));
	check_exam((struct exam){ .patient = &p, .recording = r }, assert_learnt);
	assert_ok(recording_seal(r));
	recording_free(STEAL(r));
	check_exam((struct exam){ .patient = &gone }, assert_by_list);
	assert_ok(recording_open(dir, &r));
	check_exam((struct exam){ .patient = &gone, .recording = r, .replay = true }, assert_learnt);
}

static void a_core_of_it(void **state UNUSED)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/contoso.dll", folder);
	check_core(path, assert_learnt);
	/* Of another machine, or of one that was a single file. */
	check_core("/nowhere/contoso.dll", assert_by_list);
	check_core("contoso", assert_by_list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_living_program),
		cmocka_unit_test(without_deps_the_list_decides),
		cmocka_unit_test(a_recording_remembers),
		cmocka_unit_test(a_core_of_it),
	};
	return cmocka_run_group_tests(tests, make_program, remove_program);
}
