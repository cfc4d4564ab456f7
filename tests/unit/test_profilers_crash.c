/* crash: each death by what a core told, and parts that do not mean well. */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "profilers/crash.h"
#include "profilers/registry.h"

#define FRAME(name, times) "{\"name\":\"" name "\",\"file\":\"/src/Shop.cs\",\"line\":7,\"times\":" times ",\"run\":1}"
#define THREAD(frames) "\"thread\":{\"id\":4,\"tid\":77,\"name\":\"auditor\",\"frames\":[" frames "],\"deep\":9}"
#define THROWN(type) "\"exceptions\":[{\"type\":\"" type "\",\"message\":\"no\",\"frames\":[" FRAME("Shop.A", "1") "]}]"
#define SIGNAL(n) "\"signal\":{\"number\":" n ",\"code\":1,\"address\":\"0x40\",\"tid\":77}"

/* The report of a recording whose part is this text. */
static struct err *examine(const char *json, struct report *report)
{
	struct fixture f;
	const struct profiler *crash;
	struct recording_part *part;
	uint32_t version = CRASH_VERSION;
	assert_ok(profiler_find("crash", &crash));
	fixture_begin(&f);
	fixture_window(f.recording, 0);
	assert_ok(recording_part_new(f.recording, "crash", "look", &part));
	recording_part_write(part, "DRLOOK\0", 8);
	recording_part_write(part, &version, 4);
	recording_part_write(part, json, strlen(json));
	recording_part_close(part, true);
	json_t *fact = json_pack("{s:b}", "core", 1);
	recording_set_fact(f.recording, "look-crash", fact);
	json_decref(fact);
	assert_ok(recording_seal(f.recording));
	recording_free(f.recording);
	assert_ok(recording_open(f.dir, &f.recording));
	f.params = params_new(crash);
	f.exam = (struct exam){ .profiler = crash,
				.params = f.params,
				.patient = &f.patient,
				.way = WAY_IMAGE,
				.recording = f.recording,
				.replay = true,
				.cancel_fd = -1 };
	struct err *err = exam_run(&f.exam);
	if (!err)
		err = exam_analyse(&f.exam, report);
	fixture_end(&f);
	return err;
}

static void test_deaths(void **state)
{
	(void)state;
	static const struct {
		const char *json, *finding, *words;
	} cases[] = {
		{ "{" SIGNAL("6") "," THREAD("") "," THROWN("Shop.Broke") "}", "unhandled-exception",
		  "on thread auditor: Shop.Broke: no, thrown in Shop.A (Shop.cs:7)" },
		{ "{" SIGNAL("6") "," THREAD(FRAME("Shop.R", "5000")) "," THROWN("System.StackOverflowException") "}",
		  "stack-overflow", "Shop.R (Shop.cs:7) calls itself, 5,000 times deep" },
		{ "{" SIGNAL("6") "," THREAD("") "," THROWN(
			  "System.OutOfMemoryException") ",\"heap\":{\"bytes\":2097152}}",
		  "out-of-memory", "the managed heap held 2 MB" },
		{ "{" SIGNAL("6") "," THREAD(FRAME("Shop.F", "1")) ",\"failfast\":\"why\"}", "fail-fast",
		  "in Shop.F (Shop.cs:7), saying: why" },
		{ "{" SIGNAL("11") "," THREAD(
			  FRAME("Shop.N", "1")) ",\"native\":{\"function\":\"memcpy\",\"module\":\"libc.so.6\"}}",
		  "native-crash",
		  "with SIGSEGV on thread auditor when it touched address 0x40, in memcpy of libc.so.6" },
		{ "{" SIGNAL("6") "," THREAD(FRAME("Shop.N", "1")) "}", "aborted",
		  "no managed exception was in flight" },
		{ "{\"signal\":null,\"threads\":3}", "alive", "It had not died" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(report_freep) struct report *report = report_new();
		CLEANUP(buf_free) struct buf words = { 0 };
		assert_ok(examine(cases[i].json, report));
		assert_string_equal(report_finding(report), cases[i].finding);
		rich_plain(report_verdict_text(report), &words);
		if (!strstr(buf_cstr(&words), cases[i].words))
			fail_msg("no '%s' in '%s'", cases[i].words, buf_cstr(&words));
	}
}

/* Of the wrong shape, with wrong types, or no JSON: refused or reported, never worse. */
static void test_hostile(void **state)
{
	(void)state;
	static const char *const refused[] = { "", "{", "[]", "7", "{\"a\":1,\"a\":2}" };
	static const char *const taken[] = {
		"{}",
		"{\"signal\":7,\"thread\":[],\"exceptions\":{},\"heap\":\"x\",\"others\":3,\"noLines\":{}}",
		"{\"signal\":{\"number\":\"six\"},\"exceptions\":[1,null,[]],\"noLines\":[1]}",
		"{" SIGNAL("9999999999999") ",\"thread\":{\"frames\":[1,{},{\"times\":-5}]},\"others\":[{}]}",
		"{" SIGNAL("-1") "," THREAD("null") "," THROWN("\\u001b[31m\\n") "}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		CLEANUP(report_freep) struct report *report = report_new();
		assert_err(examine(refused[i], report), ERR_BAD_DATA);
	}
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		CLEANUP(report_freep) struct report *report = report_new();
		CLEANUP(buf_free) struct buf text = { 0 };
		assert_ok(examine(taken[i], report));
		report_render_text(report, &(struct report_text_style){ 0 }, &text);
		assert_null(strchr(buf_cstr(&text), '\033'));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
