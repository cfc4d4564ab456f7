#include "unit.h"

#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam_fixture.h"

enum { THREAD = 70, METHOD = 143, METHOD_GONE = 144, JITTING = 145, LOAD = 154, UNLOAD = 155, BOUND = 291, GC = 1 };
enum { STACK_PLUGIN = 5, STACK_REGEX, STACK_START };
enum { DYNAMIC = 1, MADE = 2, COLLECTIBLE = 8 };

static void assembly_flagged(struct build_nettrace *b, uint32_t event, uint64_t at_ns, uint64_t id, const char *name,
			     uint32_t flags)
{
	struct buf p = { 0 };
	build_u64(&p, id);
	build_u64(&p, 1);
	build_u64(&p, 0);
	build_u32(&p, flags);
	build_utf16z(&p, name);
	build_u16(&p, 0);
	fixture_event(b, event, at_ns, 7, event == LOAD ? STACK_PLUGIN : 0, &p);
	buf_free(&p);
}

static void assembly(struct build_nettrace *b, uint32_t event, uint64_t at_ns, uint64_t id, const char *name)
{
	assembly_flagged(b, event, at_ns, id, name, COLLECTIBLE);
}

static void bound(struct build_nettrace *b, uint64_t at_ns, const char *name, const char *context)
{
	struct buf p = { 0 };
	build_u16(&p, 0);
	build_utf16z(&p, name);
	build_utf16z(&p, "");
	build_utf16z(&p, "Shop.Api");
	build_utf16z(&p, context);
	build_utf16z(&p, "Default");
	build_u32(&p, 1);
	build_utf16z(&p, name);
	build_utf16z(&p, "/app/plugin.dll");
	build_u32(&p, 0);
	fixture_event(b, BOUND, at_ns, 7, 0, &p);
	buf_free(&p);
}

static void jitting(struct build_nettrace *b, uint64_t at_ns, uint64_t id, const char *name)
{
	struct buf p = { 0 };
	build_u64(&p, id);
	build_u64(&p, 1);
	build_u32(&p, 0);
	build_u32(&p, 9);
	build_utf16z(&p, "dynamicClass");
	build_utf16z(&p, name);
	build_utf16z(&p, "");
	build_u16(&p, 0);
	fixture_event(b, JITTING, at_ns, 7, STACK_REGEX, &p);
	buf_free(&p);
}

static void method(struct build_nettrace *b, uint32_t event, uint64_t at_ns, uint64_t id, const char *name,
		   uint32_t flags)
{
	struct buf p = { 0 };
	build_u64(&p, id);
	build_u64(&p, 1);
	build_u64(&p, 0x7f000 + id * 0x100);
	build_u32(&p, 100);
	build_u32(&p, 0);
	build_u32(&p, flags);
	build_utf16z(&p, "dynamicClass");
	build_utf16z(&p, name);
	build_utf16z(&p, "");
	build_u16(&p, 0);
	fixture_event(b, event, at_ns, 7, 0, &p);
	buf_free(&p);
}

static void begin_loader(struct build_nettrace *b)
{
	fixture_stream(b, (uint32_t[]){ THREAD, METHOD, METHOD_GONE, JITTING, LOAD, UNLOAD, BOUND }, 7);
	build_nettrace_stack(b, STACK_PLUGIN, (uint64_t[]){ 0x1010, 0x2011 }, 2);
	build_nettrace_stack(b, STACK_REGEX, (uint64_t[]){ 0x5010, 0x3011, 0x4011 }, 3);
	build_nettrace_stack(b, STACK_START, (uint64_t[]){ 0x6010, 0x4011 }, 2);
}

static void examine(struct fixture *f, struct build_nettrace *loader, const uint64_t *gc_ms, size_t n_gcs)
{
	static const struct fixture_method methods[] = {
		{ 0x1000, "System.Runtime.Loader.AssemblyLoadContext", "LoadFromStream" },
		{ 0x2000, "Shop.Plugins", "Load" },
		{ 0x3000, "System.Text.RegularExpressions.Regex", "IsMatch" },
		{ 0x4000, "Shop.Search", "Matches" },
		{ 0x5000, "dynamicClass", "Regex1_Scan" },
		{ 0x6000, "System.Threading.Thread", "StartCore" },
	};
	struct build_nettrace gcs = { 0 }, names = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 20000 * MS);
	fixture_end_stream(loader);
	fixture_part(f->recording, "loader-0.nettrace", loader);
	fixture_stream(&gcs, (uint32_t[]){ GC }, 1);
	for (uint32_t i = 0; i < n_gcs; i++) {
		struct buf p = { 0 };
		build_u32(&p, i);
		build_u32(&p, 2);
		build_u32(&p, 0);
		build_u32(&p, 0);
		build_u16(&p, 0);
		fixture_event(&gcs, GC, gc_ms[i] * MS, 7, 0, &p);
		buf_free(&p);
	}
	fixture_end_stream(&gcs);
	fixture_part(f->recording, "gc-0.nettrace", &gcs);
	fixture_names(&names, methods, ARRAY_SIZE(methods));
	fixture_part(f->recording, "names-0.nettrace", &names);
	fixture_examine(f, "loader");
}

#define PLUGIN "Plugin, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null"

/* `n` contexts, one every 100 ms; the first `gone` of them are unloaded at 15 s. */
static void add_contexts(struct build_nettrace *b, uint32_t n, uint32_t gone)
{
	begin_loader(b);
	for (uint32_t i = 0; i < n; i++) {
		CLEANUP(mem_freep) char *context = mem_printf("\"plugin-%u\" Shop.Context #%u", i, i);
		assembly(b, LOAD, i * 100 * MS, 100 + i, PLUGIN);
		bound(b, i * 100 * MS + 1, PLUGIN, context);
		bound(b, i * 100 * MS + 2, "System.Runtime", context); /* came from elsewhere */
	}
	for (uint32_t i = 0; i < gone; i++)
		assembly(b, UNLOAD, 15000 * MS + i, 100 + i, PLUGIN);
}

static void contexts_that_outlive_a_full_collection_leak(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	add_contexts(&b, 50, 0);
	examine(&f, &b, (uint64_t[]){ 14000 }, 1);
	assert_string_equal(report_finding(f.report), "contexts-leak");
	assert_int_equal(report_health(f.report), REPORT_BAD);
	assert_int_equal((int)fixture_figure(f.report, "Assemblies loaded"), 50);
	assert_int_equal((int)fixture_figure(f.report, "Load contexts"), 50);
	assert_true(fixture_says(f.report, "asked for in Shop.Plugins.Load"));
	assert_true(fixture_says(f.report, "50 of the 50 that were there before the last full collection stayed"));
	fixture_end(&f);
}

static void without_a_collection_nobody_can_tell(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	add_contexts(&b, 50, 0);
	examine(&f, &b, (uint64_t[]){ 19900 }, 1); /* too late: finalizers had no time */
	assert_string_equal(report_finding(f.report), "contexts-pile-up");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	fixture_end(&f);
}

/* Proxies, serializers and the like: each has a name of its own, and none can go. */
static void made_assemblies_that_cannot_go(void **state UNUSED)
{
	for (int collectible = 0; collectible < 2; collectible++) {
		struct build_nettrace b = { 0 };
		struct fixture f;
		begin_loader(&b);
		for (uint32_t i = 0; i < 40; i++) {
			CLEANUP(mem_freep)
			char *name =
				mem_printf("proxy%u, Version=0.0.0.0, Culture=neutral, PublicKeyToken=null", i * 7919);
			assembly_flagged(&b, LOAD, i * 100 * MS, 100 + i, name, MADE | (collectible ? COLLECTIBLE : 0));
		}
		examine(&f, &b, NULL, 0);
		assert_string_equal(report_finding(f.report), collectible ? "contexts-pile-up" : "assemblies-stay");
		assert_int_equal(report_health(f.report), collectible ? REPORT_WARN : REPORT_BAD);
		assert_true(fixture_says(f.report, "40 assemblies made at run time were loaded"));
		assert_true(fixture_says(f.report, "proxy#, asked for in Shop.Plugins.Load"));
		assert_int_equal(fixture_says(f.report, "They can never be unloaded"), !collectible);
		fixture_end(&f);
	}
}

static void contexts_that_go_are_no_leak(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	add_contexts(&b, 50, 48);
	examine(&f, &b, (uint64_t[]){ 14000 }, 1);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "50 assemblies were loaded, 48 unloaded"));
	fixture_end(&f);
}

static void dynamic_code_is_counted_by_kind_and_place(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	begin_loader(&b);
	for (uint32_t i = 0; i < 40; i++) {
		CLEANUP(mem_freep) char *name = mem_printf("Regex%u_Scan", i);
		jitting(&b, i * 500 * MS, 10 + i, name);
		method(&b, METHOD, i * 500 * MS + 1, 10 + i, name, DYNAMIC | 8);
		method(&b, METHOD, i * 500 * MS + 2, 1000 + i, "Ordinary", 8);
	}
	for (uint32_t i = 0; i < 5; i++)
		method(&b, METHOD_GONE, 19990 * MS + i, 10 + i, "Regex1_Scan", DYNAMIC | 8);
	examine(&f, &b, NULL, 0);
	assert_string_equal(report_finding(f.report), "dynamic-code-grows");
	assert_int_equal((int)fixture_figure(f.report, "Dynamic methods"), 40);
	assert_true(fixture_says(f.report, "40 dynamic methods were compiled in 20 s, 5 went again"));
	assert_true(fixture_says(f.report, "compiled regular expression, asked for in Shop.Search.Matches"));
	assert_true(fixture_says(f.report, "5 gone; of 80 compiled"));
	fixture_end(&f);
}

/* A burst at one moment is start-up, not growth. */
static void what_comes_once_does_not_grow(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	begin_loader(&b);
	for (uint32_t i = 0; i < 40; i++)
		method(&b, METHOD, 100 * MS + i, 10 + i, "lambda_method", DYNAMIC | 8);
	examine(&f, &b, NULL, 0);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
}

static void threads_and_many_assemblies(void **state UNUSED)
{
	struct build_nettrace b = { 0 };
	struct fixture f;
	begin_loader(&b);
	struct buf p = { 0 };
	build_u64(&p, 1);
	build_u16(&p, 0);
	for (uint32_t i = 0; i < 400; i++)
		fixture_event(&b, THREAD, i * 50 * MS, 7, STACK_START, &p);
	buf_free(&p);
	examine(&f, &b, NULL, 0);
	assert_string_equal(report_finding(f.report), "threads-come-and-go");
	assert_true(fixture_says(f.report, "400 threads were started in 20 s (20/s), 100 % in Shop.Search.Matches"));
	fixture_end(&f);
	begin_loader(&b);
	for (uint32_t i = 0; i < 60; i++) {
		CLEANUP(mem_freep)
		char *name = mem_printf("Part%c%c, Version=1.0.0.0", 'A' + (int)i / 26, 'A' + (int)i % 26);
		assembly(&b, LOAD, i * MS, i, name);
	}
	examine(&f, &b, NULL, 0);
	assert_string_equal(report_finding(f.report), "many-assemblies");
	fixture_end(&f);
}

static void hostile_payloads_are_survived(void **state UNUSED)
{
	static const uint32_t events[] = { METHOD, METHOD_GONE, JITTING, LOAD, UNLOAD, BOUND };
	struct build_nettrace b = { 0 };
	struct fixture f;
	begin_loader(&b);
	struct buf cut = { 0 };
	for (size_t n = 0; n < 80; n++) {
		for (size_t i = 0; i < ARRAY_SIZE(events); i++)
			fixture_event(&b, events[i], n * MS, 7, 0, &cut);
		build_u8(&cut, n % 3 ? 0x41 : 0);
	}
	buf_free(&cut);
	assembly(&b, UNLOAD, 100 * MS, 1, "never, loaded");
	bound(&b, 101 * MS, "", "");
	examine(&f, &b, NULL, 0);
	assert_non_null(report_finding(f.report));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts_that_outlive_a_full_collection_leak),
		cmocka_unit_test(without_a_collection_nobody_can_tell),
		cmocka_unit_test(made_assemblies_that_cannot_go),
		cmocka_unit_test(contexts_that_go_are_no_leak),
		cmocka_unit_test(dynamic_code_is_counted_by_kind_and_place),
		cmocka_unit_test(what_comes_once_does_not_grow),
		cmocka_unit_test(threads_and_many_assemblies),
		cmocka_unit_test(hostile_payloads_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
