#include "unit.h"

#include "base/str.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/verb.h"
#include "profilers/registry.h"

/* --- a profiler of this test --- */

static const struct param calls_params[] = {
	{ .key = "method", .name = "Method", .description = "Whose calls?", .type = PARAM_STRING, .default_value = "" },
	{ .key = "at_least",
	  .name = "Slowest",
	  .description = "Only slower ones.",
	  .type = PARAM_FLOAT,
	  .unit = "ms",
	  .default_value = "0.5",
	  .min = 0,
	  .max = 1000 },
	{ .key = "callers",
	  .name = "Callers",
	  .description = "With who calls.",
	  .type = PARAM_BOOL,
	  .default_value = "true" },
	PARAM_DURATION("10"),
};
static const struct profiler calls = { .id = "calls",
				       .name = "Calls",
				       .symptom = "who calls it?",
				       .description = "Counts.",
				       .params = calls_params,
				       .n_params = ARRAY_SIZE(calls_params),
				       .word = "method",
				       .ways = { WAY_IMAGE } };

/* --- options of parameters --- */

static size_t times(const struct option *list, const char *name, char short_name)
{
	size_t n = 0;
	for (const struct option *o = list; o->name; o++)
		n += str_eq(o->name, name) || (short_name && o->short_name == short_name);
	return n;
}

/* The first option that means two things; NULL = none. */
static const char *clash(const struct profiler *p)
{
	static const struct option help[] = { { .name = "--help", .short_name = 'h' }, { 0 } };
	static const char *found;
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	found = NULL;
	for (const struct option *o = verb->command.options; o->name && !found; o++)
		if (times(verb->command.options, o->name, o->short_name) +
			    times(remote_options, o->name, o->short_name) + times(help, o->name, o->short_name) !=
		    1)
			found = o->param ? o->param : "an option of run";
	return found;
}

static void no_parameter_has_the_name_of_another_option(void **state UNUSED)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n; i++) {
		if (clash(all[i]))
			fail_msg("%s: the parameter %s has the name of another option", all[i]->id, clash(all[i]));
		assert_null(command_find(all[i]->id));
	}
	assert_null(clash(&calls));
	static const char *const taken[] = { "output", "server", "help", "ca_file", "keep_recording", "param", "way" };
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		struct param param = {
			.key = taken[i], .name = "x", .description = "x", .type = PARAM_STRING, .default_value = ""
		};
		struct profiler p = { .id = "x", .params = &param, .n_params = 1 };
		assert_string_equal(clash(&p), taken[i]);
	}
}

static const struct option *option_of(const struct verb *v, const char *key)
{
	const struct option *o = v->command.options;
	while (o->name && (!str_eq(o->param, key) || o->hidden))
		o++;
	return o->name ? o : NULL;
}

static void every_parameter_is_an_option_in_help(void **state UNUSED)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(verb_freep) struct verb *verb = verb_new(all[i]);
		CLEANUP(buf_free) struct buf help = { 0 };
		help_profiler(all[i], &help);
		for (size_t k = 0; k < all[i]->n_params; k++) {
			const struct option *o = option_of(verb, all[i]->params[k].key);
			if (!o || !strstr(buf_cstr(&help), o->name))
				fail_msg("help of %s does not have %s", all[i]->id, all[i]->params[k].key);
		}
	}
}

/* --- words into values --- */

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* What came of it: "method=M at_least=0.5 ... target=T", or the error. */
static char *outcome(const struct profiler *p, const char *const *words)
{
	CLEANUP(verb_freep) struct verb *verb = verb_new(p);
	CLEANUP(params_freep) struct params *params = params_new(p);
	CLEANUP(buf_free) struct buf text = { 0 };
	char *argv[16] = { 0 };
	int argc = 0;
	struct args args;
	for (; words[argc]; argc++)
		argv[argc] = mem_strdup(words[argc]);
	struct err *err = verb_parse(verb, argc, argv, &args);
	err = err ? err : verb_params(&args, p, params);
	err = err ? err : params_complete(params);
	buf_str(&text, err ? err_text(err) : "");
	for (size_t i = 0; !err && i < p->n_params; i++)
		if (!params_is_default(params, p->params[i].key))
			buf_printf(&text, "%s=%s ", p->params[i].key, params_text(params, p->params[i].key));
	if (!err)
		buf_printf(&text, "target=%s", args.n_words > 1 ? args.words[1] : "");
	if (err)
		assert_int_equal(err_kind(err), ERR_USAGE);
	err_free(err);
	args_fini(&args);
	for (int i = 0; i < argc; i++)
		mem_free(argv[i]);
	return mem_strdup(buf_cstr(&text));
}

static void check(const char *profiler, const char *const *words, const char *want)
{
	const struct profiler *p = &calls;
	if (!str_eq(profiler, "calls"))
		assert_ok(profiler_find(profiler, &p));
	CLEANUP(mem_freep) char *got = outcome(p, words);
	/* Of errors a part is enough. */
	if (strstr(want, "target=") ? !str_eq(got, want) : !strstr(got, want))
		fail_msg("'%s %s ...' came to \"%s\", not \"%s\"", words[0], words[1], got, want);
}

static void options_set_parameters(void **state UNUSED)
{
	static const struct {
		const char *words[8], *want;
	} cases[] = {
		{ { "memory-leaks", "shop", "--looks", "6" }, "looks=6 target=shop" },
		{ { "memory-leaks", "--looks=6", "shop" }, "looks=6 target=shop" },
		{ { "memory-leaks", "shop", "-looks", "6" }, "looks=6 target=shop" },
		{ { "memory-leaks", "shop", "--param", "looks=6" }, "looks=6 target=shop" },
		{ { "memory-leaks", "shop", "--param", "looks=6", "--looks", "7" }, "looks=7 target=shop" },
		{ { "memory-leaks", "shop", "-d", "2m" }, "duration=120 target=shop" },
		{ { "memory-leaks", "shop", "-d5", "--looks", "2" }, "duration=5 looks=2 target=shop" },
		{ { "memory-leaks", "shop", "--duration", "7.0" }, "duration=7 target=shop" },
		{ { "cpu-hotpaths", "shop", "--duration", "7s" }, "duration_seconds=7 target=shop" },
		{ { "cpu-hotpaths", "shop", "--duration-seconds", "7" }, "duration_seconds=7 target=shop" },
		{ { "cpu-hotpaths", "--filter-suspended-threads=false", "1" },
		  "filter_suspended_threads=false target=1" },
		{ { "cpu-hotpaths", "--caller-to-callee", "1" }, "caller_to_callee=true target=1" },
		{ { "cpu-hotpaths", "--caller-to-callee=no", "1" }, "caller_to_callee=no target=1" },
		{ { "deadlocks", "shop", "--interval", "1m" }, "interval=60 target=shop" },
		{ { "deadlocks", "shop", "--max-pause-ms", "2s" }, "max_pause_ms=2000 target=shop" },
		{ { "deadlocks", "shop", "--max-pause-ms", "250" }, "max_pause_ms=250 target=shop" },
		{ { "gc-survivors", "shop", "--generation", "old", "--type", "-x" },
		  "generation=old type=-x target=shop" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].words[0], cases[i].words, cases[i].want);
}

static void wrong_values_are_refused_with_range_and_unit(void **state UNUSED)
{
	static const struct {
		const char *words[8], *want;
	} cases[] = {
		{ { "memory-leaks", "x", "--looks", "60" }, "--looks takes a whole number from 2 to 20, not '60'" },
		{ { "memory-leaks", "x", "--looks=" }, "--looks takes a whole number from 2 to 20, not ''" },
		{ { "memory-leaks", "x", "--looks", "-5" }, "not '-5'" },
		{ { "memory-leaks", "x", "--looks" }, "--looks needs a value: --looks N" },
		{ { "memory-leaks", "x", "--duration", "soon" }, "--duration takes a time from 1 to 86400 s" },
		{ { "memory-leaks", "x", "-d", "500ms" },
		  "--duration takes whole seconds, from 1 to 86400, not '500ms'" },
		{ { "deadlocks", "x", "--interval", "2h" },
		  "--interval takes a whole number from 1 to 3600 s, not '7200'" },
		{ { "deadlocks", "x", "--max-pause-ms", "2m" },
		  "--max-pause-ms takes a whole number from 0 to 60000 ms" },
		{ { "deadlocks", "x", "--duration", "5" },
		  "deadlocks takes no --duration: it looks twice, and --interval" },
		{ { "gc-survivors", "x", "--generation", "young" }, "--generation takes one of all, old, not 'young'" },
		{ { "gc-survivors", "x", "--retained-bytes-threshold", "1k" }, "to 1000000000000 bytes, not '1k'" },
		{ { "heap-stats", "--gcdump", "true", "x" }, "--gcdump takes its value behind '=': --gcdump=true" },
		{ { "heap-stats", "--gcdump=maybe", "x" }, "--gcdump takes true or false, not 'maybe'" },
		{ { "memory-leaks", "x", "--lokks", "6" }, "for 'drdotnet memory-leaks'; did you mean '--looks'?" },
		{ { "memory-leaks", "x", "--loo=6" }, "unknown option '--loo=6'" },
		{ { "memory-leaks", "x", "--loo=6" }, "did you mean '--looks'?" },
		{ { "memory-leaks", "x", "--max_pause_ms", "6" }, "did you mean '--max-pause-ms'?" },
		{ { "memory-leaks", "x", "--pause", "6" }, "did you mean '--max-pause-ms'?" },
		{ { "memory-leaks", "x", "--sever", "y" }, "did you mean '--server'?" },
		{ { "exceptions", "x", "--looks", "6" }, "it knows --duration, --param" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].words[0], cases[i].words, cases[i].want);
}

static void a_parameter_may_be_a_word_before_the_target(void **state UNUSED)
{
	static const struct {
		const char *words[8], *want;
	} cases[] = {
		{ { "calls", "Shop.Place", "shop" }, "method=Shop.Place target=shop" },
		{ { "calls", "shop", "--method", "Shop.Place" }, "method=Shop.Place target=shop" },
		{ { "calls", "--method=Shop.Place", "shop" }, "method=Shop.Place target=shop" },
		{ { "calls", "shop", "--param", "method=Shop.Place" }, "method=Shop.Place target=shop" },
		{ { "calls", "-d", "3", "Shop.Place", "--callers=false", "shop" },
		  "method=Shop.Place callers=false duration=3 target=shop" },
		{ { "calls", "Shop.Place", "--core", "core.1" }, "method=Shop.Place target=" },
		{ { "calls", "--core", "core.1", "--method", "Shop.Place" }, "method=Shop.Place target=" },
		{ { "calls", "Shop.Place", "--session", "7f3c" }, "method=Shop.Place target=" },
		{ { "calls", "Shop.Place", "--", "dotnet", "Shop.dll" }, "method=Shop.Place target=" },
		{ { "calls", "shop", "--at-least", "1.5" },
		  "'drdotnet calls' needs METHOD TARGET, and there is only 'shop'" },
		{ { "calls", "shop", "--method", "" }, "calls needs its parameter 'method'" },
		{ { "calls", "Shop.Place", "shop", "--method", "x" },
		  "METHOD is given twice: as the word 'Shop.Place'" },
		{ { "calls", "Shop.Place", "shop", "--param=method=x" }, "METHOD is given twice" },
		{ { "calls", "Shop.Place", "shop", "more" }, "too many words for 'drdotnet calls': 'more'" },
		{ { "calls", "A", "shop", "--at-least", "1500us" }, "--at-least takes a time from 0 to 1000 ms" },
		{ { "calls", "A", "shop", "--at-least", "2.5" }, "method=A at_least=2.5 target=shop" },
		{ { "exceptions", "Shop.Place", "shop" }, "too many words for 'drdotnet exceptions': 'shop'" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(cases[i].words[0], cases[i].words, cases[i].want);
	CLEANUP(buf_free) struct buf help = { 0 };
	help_profiler(&calls, &help);
	assert_non_null(strstr(buf_cstr(&help), "  drdotnet calls METHOD 4211\n"));
	assert_non_null(strstr(buf_cstr(&help), "  --method METHOD "));
	assert_non_null(strstr(buf_cstr(&help), "  --callers=BOOL "));
	assert_non_null(strstr(buf_cstr(&help), "  Slowest. Only slower ones. Default 0.5 ms, from 0 to "));
}

static void a_word_with_a_default_may_be_left_out(void **state UNUSED)
{
	struct param param = calls_params[0];
	struct profiler p = calls;
	param.default_value = "Main";
	p.params = &param;
	p.n_params = 1;
	CLEANUP(mem_freep)
	char *one = outcome(&p, WORDS("calls", "shop")), *two = outcome(&p, WORDS("calls", "M", "shop"));
	assert_string_equal(one, "target=shop");
	assert_string_equal(two, "method=M target=shop");
}

static void run_finds_its_profiler_among_options(void **state UNUSED)
{
	static const struct {
		const char *words[8], *id;
	} cases[] = {
		{ { "memory-leaks", "shop" }, "memory-leaks" },
		{ { "--looks", "6", "memory-leaks", "exceptions" }, "memory-leaks" },
		{ { "-o", "exceptions", "memory-leaks", "shop" }, "memory-leaks" },
		{ { "-oexceptions", "--format=exceptions", "memory-leaks" }, "memory-leaks" },
		{ { "nosuch", "--looks", "6" }, NULL },
		{ { "--", "exceptions" }, NULL },
		{ { "-o" }, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *argv[8] = { 0 };
		int argc = 0;
		for (; cases[i].words[argc]; argc++)
			argv[argc] = mem_strdup(cases[i].words[argc]);
		CLEANUP(verb_freep) struct verb *verb = verb_named(argc, argv);
		assert_true(str_eq(verb ? verb->command.name : NULL, cases[i].id));
		for (int k = 0; k < argc; k++)
			mem_free(argv[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_parameter_has_the_name_of_another_option),
		cmocka_unit_test(every_parameter_is_an_option_in_help),
		cmocka_unit_test(options_set_parameters),
		cmocka_unit_test(wrong_values_are_refused_with_range_and_unit),
		cmocka_unit_test(a_parameter_may_be_a_word_before_the_target),
		cmocka_unit_test(a_word_with_a_default_may_be_left_out),
		cmocka_unit_test(run_finds_its_profiler_among_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
