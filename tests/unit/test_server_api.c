/* What requests to the REST API say: orders of sessions, guids, bodies, names of files. */

#include "unit.h"
#include "base/str.h"
#include "server/api.h"
#include "server/schema.h"

static struct err *read_order(const char *text, struct scheduler_order **ret)
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *order = mem_zalloc(sizeof(*order));
	CLEANUP(json_decrefp) json_t *body = NULL;
	int pid = 0;
	assert_ok(json_parse(text, strlen(text), 65536, &body));
	TRY(api_order_read(body, order, &pid));
	assert_int_equal(pid, 7);
	*ret = STEAL(order);
	return NULL;
}

#define EXCEPTIONS "805A308B-061C-47F3-9B30-F785C3186E82"

static void good_orders_are_taken(void **state UNUSED)
{
	static const struct {
		const char *body, *duration;
	} cases[] = {
		{ "{\"profilerGuid\":\"" EXCEPTIONS "\",\"processId\":7}", "10" },
		{ "{\"ProfilerGuid\":\"805a308b-061c-47f3-9b30-f785c3186e82\",\"PROCESSID\":7,\"Parameters\":null}",
		  "10" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"3\"}]}",
		  "3" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\","
		  "\"valueInt32\":4}]}",
		  "4" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"Key\":\"duration\",\"value\":5}]"
		  "}",
		  "5" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"name\":"
		  "\"Duration\","
		  "\"type\":2,\"value\":\"6\",\"valueInt32\":1,\"valueFloat32\":1,\"valueBoolean\":false}]}",
		  "6" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scheduler_order *order = NULL;
		assert_ok(read_order(cases[i].body, &order));
		assert_string_equal(order->profiler->id, "exceptions");
		assert_string_equal(params_text(order->params, "duration"), cases[i].duration);
		scheduler_order_free(order);
	}
}

static void bad_orders_are_refused_before_anything_is_touched(void **state UNUSED)
{
	static const struct {
		const char *body;
		enum err_kind kind;
	} cases[] = {
		{ "{}", ERR_USAGE },
		{ "{\"profilerGuid\":1,\"processId\":7}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":\"7\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":-1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":99999999999}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7.5}", ERR_USAGE },
		{ "{\"profilerGuid\":\"nothing\",\"processId\":7}", ERR_NOT_FOUND },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"more\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"way\":\"magic\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"way\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"keepRecording\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":{}}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[1]}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"value\":\"1\"}]}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"x\",\"value\":\"1\"}]}",
		  ERR_NOT_FOUND },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"ten\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"0\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":[]}"
		  "]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"vlaue\":"
		  "\"1\"}]}",
		  ERR_USAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scheduler_order *order = NULL;
		assert_err(read_order(cases[i].body, &order), cases[i].kind);
	}
}

static void guids_come_in_several_spellings(void **state UNUSED)
{
	char guid[STORE_GUID_LEN + 1];
	assert_ok(api_guid("805A308B-061C-47F3-9B30-F785C3186E82", guid));
	assert_string_equal(guid, "805a308b-061c-47f3-9b30-f785c3186e82");
	assert_ok(api_guid("805a308b061c47f39b30f785c3186e82", guid));
	assert_string_equal(guid, "805a308b-061c-47f3-9b30-f785c3186e82");
	static const char *const bad[] = { "",
					   "x",
					   "..",
					   "805A308B-061C-47F3-9B30-F785C3186E8",
					   "805A308B-061C-47F3-9B30-F785C3186E822",
					   "-805A308B061C47F39B30F785C3186E82",
					   "805A308B--061C-47F3-9B30-F785C3186E8g" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_err(api_guid(bad[i], guid), ERR_USAGE);
}

static void check_body(const char *schema, const char *text, const char *words)
{
	json_t *body = NULL;
	assert_ok(json_parse(text, strlen(text), 1000, &body));
	struct err *err = schema_check(schema, body);
	if (words) {
		assert_non_null(err);
		assert_int_equal(err_kind(err), ERR_USAGE);
		assert_non_null(strstr(err_text(err), words));
	} else {
		assert_null(err);
	}
	err_free(err);
	json_decref(body);
}

static void bodies_are_checked_by_their_schema(void **state UNUSED)
{
	check_body("TakeCore", "{\"processId\": 1, \"type\": \"mini\", \"maxPauseMs\": 5}", NULL);
	check_body("TakeCore", "{\"processId\": 1, \"type\": null}", NULL);
	check_body("TakeCore", "{}", NULL);
	check_body("TakeCore", "{\"processId\": \"1\"}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"processId\": 1.5}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"processId\": null}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"type\": 1}", "'type' must be a text");
	check_body("TakeCore", "{\"surprise\": 1}", "no field 'surprise'");
	check_body("RunCommand", "{\"arguments\": [\"ps\"], \"utf8\": true}", NULL);
	check_body("RunCommand", "{\"arguments\": [\"ps\", 1]}", "'arguments' must be an array of texts");
	check_body("RunCommand", "{\"arguments\": \"ps\"}", "'arguments' must be an array of texts");
	check_body("RunCommand", "{\"utf8\": 1}", "'utf8' must be true or false");
	check_body("no such schema", "{\"x\": 1}", NULL);
}

static void names_of_core_files_lead_nowhere_else(void **state UNUSED)
{
	static const char *const bad[] = { "", ".", "..", ".x", "a/b", "a\\b", "a b", "a%2f", "\xc3\xa4", "a\n" };
	char long_name[200];
	assert_true(api_core_name("Shop.Api-4211-20261115-031500.core"));
	assert_true(api_core_name("x"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(api_core_name(bad[i]));
	memset(long_name, 'a', sizeof(long_name));
	long_name[121] = '\0';
	assert_false(api_core_name(long_name));
	long_name[120] = '\0';
	assert_true(api_core_name(long_name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_orders_are_taken),
		cmocka_unit_test(bad_orders_are_refused_before_anything_is_touched),
		cmocka_unit_test(guids_come_in_several_spellings),
		cmocka_unit_test(bodies_are_checked_by_their_schema),
		cmocka_unit_test(names_of_core_files_lead_nowhere_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
