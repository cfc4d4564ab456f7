#include "unit.h"

#include "base/buf.h"
#include "base/str.h"
#include "config/config.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct config *parse(const char *text)
{
	struct config *c = NULL;
	assert_ok(config_parse(text, strlen(text), "f.yaml", &c));
	return c;
}

/* What is wrong with it. */
static void refused(const char *text, const char *why)
{
	struct config *c = NULL;
	struct err *err = config_parse(text, strlen(text), "f.yaml", &c);
	assert_non_null(err);
	assert_int_equal(err_kind(err), ERR_USAGE);
	if (!strstr(err_text(err), why))
		fail_msg("'%s' does not say '%s'", err_text(err), why);
	err_free(err);
}

static const char *value(const struct config *c, enum setting_id id)
{
	const char *text;
	size_t line;
	config_origin(c, id, &text, &line);
	return text;
}

static void no_variables(void)
{
	for (size_t i = 0; i < SETTING_COUNT; i++)
		unsetenv(settings[i].variable);
}

static void a_file_is_read(void **state UNUSED)
{
	no_variables();
	struct config *c = parse("# comment\nlisten: 0.0.0.0:80\nkeep:\n  age: 2w\n  count: 7\nlog.format: json\n"
				 "allowed_hosts: [a.example, b.example]\nweb_ui: no\n");
	assert_string_equal(value(c, SETTING_LISTEN), "0.0.0.0:80");
	assert_string_equal(value(c, SETTING_KEEP_AGE), "2w");
	assert_string_equal(value(c, SETTING_KEEP_COUNT), "7");
	assert_string_equal(value(c, SETTING_LOG_FORMAT), "json");
	assert_string_equal(value(c, SETTING_ALLOWED_HOSTS), "a.example,b.example");
	assert_string_equal(value(c, SETTING_KEEP_BYTES), "2G");
	assert_null(value(c, SETTING_TOKEN));
	config_free(c);
	c = parse("");
	assert_string_equal(value(c, SETTING_LISTEN), "127.0.0.1:9292");
	config_free(c);
	config_free(parse("---\n# nothing\n"));
}

static void what_is_wrong_is_said_with_its_line(void **state UNUSED)
{
	refused("listen: x\nlisten: y\n", "f.yaml, line 2: 'listen' stands in line 1 already");
	refused("lisen: x\n", "f.yaml, line 1: there is no setting 'lisen'; did you mean 'listen'?");
	refused("\nkeep:\n  aeg: 30d\n", "f.yaml, line 3: there is no setting 'keep.aeg'; did you mean 'keep.age'?");
	refused("a_thing: 1\n", "'drdotnet config show' lists all");
	refused("keep.age: 30\n", "f.yaml, line 1: keep.age takes a time such as 30d or 12h, not '30'");
	refused("max_sessions: 101\n", "takes a number from 1 to 100, not '101'");
	refused("web_ui: perhaps\n", "web_ui takes true or false, not 'perhaps'");
	refused("auth: nobody\n", "auth takes token or none, not 'nobody'");
	refused("home: var\n", "home takes an absolute path");
	refused("listen: [a, b]\n", "'listen' takes one value");
	refused("listen:\n", "'listen' has no value");
	refused("listen: {a: b}\n", "'listen' takes one value");
	refused("allowed_hosts: [[a]]\n", "a list holds plain words only");
	refused("- listen\n", "here must be settings");
	refused("listen\n", "here must be settings");
	refused("listen: 'x\n", "this is not YAML");
	refused("? [a]\n: b\n", "a key must be a plain word");
	refused("listen: &a x\nwebhook: *a\n", "'webhook' takes one value");
	refused("keep: {age: {age: {age: {age: {age: 1d}}}}}\n", "'keep.age' takes one value");
}

static void variables_come_before_the_file(void **state UNUSED)
{
	const char *text;
	size_t line;
	uint64_t n = 0;
	bool on = true;
	no_variables();
	setenv("DRDOTNET_KEEP_COUNT", "5", 1);
	struct config *c = parse("keep:\n  count: 7\n  bytes: 1K\nrest_api: false\n");
	assert_int_equal(config_origin(c, SETTING_KEEP_COUNT, &text, &line), CONFIG_VARIABLE);
	assert_int_equal(config_origin(c, SETTING_KEEP_BYTES, &text, &line), CONFIG_FILE);
	assert_int_equal(line, 3);
	assert_int_equal(config_origin(c, SETTING_KEEP_AGE, &text, &line), CONFIG_OTHERWISE);
	config_apply(c);
	assert_ok(setting_get_u64(SETTING_KEEP_COUNT, &n));
	assert_int_equal(n, 5);
	assert_ok(setting_get_u64(SETTING_KEEP_BYTES, &n));
	assert_int_equal(n, 1024);
	assert_ok(setting_get_u64(SETTING_KEEP_AGE, &n));
	assert_int_equal(n, 30ull * 24 * 3600 * 1000000000);
	assert_ok(setting_get_bool(SETTING_REST_API, &on));
	assert_false(on);
	setenv("DRDOTNET_KEEP_COUNT", "five", 1);
	assert_err(setting_get_u64(SETTING_KEEP_COUNT, &n), ERR_USAGE);
	config_free(c);
	no_variables();
}

static void a_file_of_others_is_not_used(void **state UNUSED)
{
	char path[] = "/tmp/drdotnet-config-XXXXXX";
	static const char text[] = "token: a-secret-of-ours\n";
	struct config *c = NULL;
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
	close(fd);
	assert_ok(config_read(path, &c));
	assert_string_equal(config_file(c), path);
	config_free(c);
	chmod(path, 0644);
	assert_err(config_read(path, &c), ERR_DENIED);
	chmod(path, 0620);
	assert_err(config_read(path, &c), ERR_DENIED);
	if (geteuid() == 0) {
		chmod(path, 0600);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_err(config_read(path, &c), ERR_DENIED);
	}
	unlink(path);
	assert_err(config_read(path, &c), ERR_NOT_FOUND);
	assert_err(config_read("/", &c), ERR_USAGE);
}

/* The table itself: no name twice, what holds otherwise is possible, and help says it. */
static void the_table_is_right(void **state UNUSED)
{
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *s = &settings[i];
		assert_true(s->key && s->option && s->variable && s->help);
		assert_true(!s->value == !!s->by_option);
		if (s->otherwise)
			assert_ok(setting_check(s, s->key, s->otherwise));
		if (s->by_option)
			assert_ok(setting_check(s, s->key, s->by_option));
		CLEANUP(mem_freep) char *shown = mem_printf("(%s)", s->otherwise ? s->otherwise : "");
		if (s->otherwise && s->value && !strstr(s->help, shown))
			fail_msg("the help of %s does not say %s", s->option, shown);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(s->key, settings[k].key);
			assert_string_not_equal(s->option, settings[k].option);
			assert_string_not_equal(s->variable, settings[k].variable);
		}
	}
	assert_null(setting_of_option("--from"));
	assert_ptr_equal(setting_of_option("--listen"), &settings[SETTING_LISTEN]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read),
		cmocka_unit_test(what_is_wrong_is_said_with_its_line),
		cmocka_unit_test(variables_come_before_the_file),
		cmocka_unit_test(a_file_of_others_is_not_used),
		cmocka_unit_test(the_table_is_right),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
