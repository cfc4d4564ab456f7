#include "unit.h"

#include "base/str.h"
#include "build_activity.h"
#include "build_counters.h"
#include "exam_fixture.h"

enum { REQUEST_START = 1, REQUEST_STOP, COMMAND_START, COMMAND_STOP, CALL_START, CALL_STOP, IDLE, HISTOGRAM };

static void begin_stream(struct build_nettrace *b)
{
	static const struct nettrace_field request[] = { TEXT("method"), TEXT("path") }, command[] = { TEXT("sql") };
	static const struct nettrace_field call[] = { TEXT("scheme"), TEXT("host"), I32("port"), TEXT("pathAndQuery") };
	static const struct nettrace_field answer[] = { I32("statusCode") };
	const struct nettrace_meta metas[] = {
		{ .id = REQUEST_START,
		  .event_id = 3,
		  .provider = "Microsoft.AspNetCore.Hosting",
		  .name = "RequestStart",
		  .fields = request,
		  .n_fields = 2 },
		{ .id = REQUEST_STOP,
		  .event_id = 4,
		  .provider = "Microsoft.AspNetCore.Hosting",
		  .name = "RequestStop" },
		{ .id = COMMAND_START,
		  .event_id = 22,
		  .provider = "Npgsql.Sql",
		  .name = "CommandStart",
		  .fields = command,
		  .n_fields = 1 },
		{ .id = COMMAND_STOP, .event_id = 23, .provider = "Npgsql.Sql", .name = "CommandStop" },
		{ .id = CALL_START,
		  .event_id = 1,
		  .provider = "System.Net.Http",
		  .name = "RequestStart",
		  .fields = call,
		  .n_fields = 4 },
		{ .id = CALL_STOP,
		  .event_id = 2,
		  .provider = "System.Net.Http",
		  .name = "RequestStop",
		  .fields = answer,
		  .n_fields = 1 },
		{ .id = IDLE, .event_id = 57, .provider = "Microsoft-Windows-DotNETRuntime", .name = "" },
	};
	build_nettrace_begin(b, 4);
	for (size_t i = 0; i < ARRAY_SIZE(metas); i++)
		build_nettrace_meta(b, &metas[i]);
}

static void say(struct build_nettrace *b, uint32_t meta, uint64_t at_ns, uint64_t thread, const uint8_t *id,
		const uint8_t *related, struct buf *payload)
{
	build_nettrace_event(b, &(struct build_event){ .meta_id = meta,
						       .sequence = b->last.sequence + 1,
						       .capture_thread = thread,
						       .time = WINDOW_START + at_ns,
						       .activity_id = id,
						       .related_activity_id = related,
						       .payload = payload->data,
						       .payload_size = payload->len });
	buf_free(payload);
}

/* The writer compares an id with the one before it, which must still be there. */
static const uint8_t *id_of(const uint32_t *numbers, size_t n)
{
	static uint8_t ids[64][16];
	static size_t next;
	uint8_t *id = ids[next++ % ARRAY_SIZE(ids)];
	build_activity(id, ACTIVITY_FORM_NET10, numbers, n);
	return id;
}

/* A request of 600 ms on threads of its own: 50 ms before its commands, which take `sql` ms in all, a call of 100 ms. */
static void add_request(struct build_nettrace *b, uint32_t number, unsigned commands, unsigned sql, bool ends)
{
	uint64_t at = number * MS, thread = 100 + number * 2;
	struct buf p = { 0 }, none = { 0 };
	const uint8_t *id = id_of((uint32_t[]){ 1, number }, 2), *call;
	build_utf16z(&p, "GET");
	CLEANUP(mem_freep) char *path = mem_printf("/orders/%u", number);
	build_utf16z(&p, path);
	say(b, REQUEST_START, at, thread, id, NULL, &p);
	for (unsigned i = 0; i < commands; i++) {
		uint64_t begin = at + 50 * MS + i * sql * MS / commands;
		call = id_of((uint32_t[]){ 1, number, i + 1 }, 3);
		CLEANUP(mem_freep)
		char *text = mem_printf("select * from orders where id = %u and owner = 'mallory'", i);
		build_utf16z(&p, text);
		say(b, COMMAND_START, begin, thread, call, id, &p);
		say(b, COMMAND_STOP, begin + sql * MS / commands, thread, id, NULL, &none);
	}
	call = id_of((uint32_t[]){ 1, number, commands + 1 }, 3);
	build_utf16z(&p, "https");
	build_utf16z(&p, "stock.example");
	build_u32(&p, 443);
	build_utf16z(&p, "/stock?token=mallory");
	say(b, CALL_START, at + (50 + sql) * MS, thread, call, id, &p);
	say(b, IDLE, at + (50 + sql) * MS, thread, NULL, NULL, &none);
	build_u32(&p, number == 1 ? 503 : 200);
	say(b, CALL_STOP, at + (150 + sql) * MS, thread + 1, call, NULL, &p);
	say(b, IDLE, at + (150 + sql) * MS, thread + 1, NULL, NULL, &none);
	if (ends)
		say(b, REQUEST_STOP, at + 600 * MS, thread, id, NULL, &none);
}

static void add_meter(struct fixture *f, const char *tags, uint32_t count)
{
	struct build_nettrace b = { 0 };
	struct buf p = { 0 };
	build_nettrace_begin(&b, 4);
	build_nettrace_meta(&b, &(struct nettrace_meta){ .id = HISTOGRAM,
							 .event_id = 6,
							 .provider = COUNTERS_METRICS_PROVIDER,
							 .name = "HistogramValuePublished",
							 .fields = histogram_fields,
							 .n_fields = ARRAY_SIZE(histogram_fields) });
	const char *const texts[] = {
		"SHARED", "Microsoft.AspNetCore.Hosting", "", "http.server.request.duration", "s", tags, "0.5=1"
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		build_utf16z(&p, texts[i]);
	build_u32(&p, count);
	build_f64(&p, 1);
	build_u32(&p, 1);
	say(&b, HISTOGRAM, 10 * MS, 9, NULL, NULL, &p);
	build_nettrace_end(&b);
	fixture_part(f->recording, "routes-0.nettrace", &b);
}

struct case_of {
	uint32_t requests, open;
	unsigned commands, sql;
	const char *tags;
};

static void examine(struct fixture *f, const struct case_of *c)
{
	struct build_nettrace b = { 0 };
	fixture_begin(f);
	f->patient.info.runtime_version = mem_strdup("10.0.12");
	fixture_window(f->recording, 10000 * MS);
	begin_stream(&b);
	for (uint32_t i = 1; i <= c->requests + c->open; i++)
		add_request(&b, i, c->commands, c->sql, i <= c->requests);
	fixture_end_stream(&b);
	fixture_part(f->recording, "requests-0.nettrace", &b);
	if (c->tags)
		add_meter(f, c->tags, c->requests);
	fixture_examine(f, "slow-requests");
}

static double part_of(const json_t *report, const char *title, const char *name)
{
	const json_t *rows = fixture_rows(report, title), *row;
	size_t i;
	assert_non_null(rows);
	json_array_foreach(rows, i, row)
	{
		const json_t *cells = json_object_get(row, "cells");
		if (str_eq(json_string_value(json_array_get(cells, 0)), name))
			return json_number_value(json_array_get(cells, 1));
	}
	return -1;
}

#define TAGS "http.request.method=GET,http.response.status_code=200,http.route=/orders/{id:int},url.scheme=http"
#define WHERE "Where the time of GET /orders/{id:int} goes"

static void a_slow_endpoint_and_its_parts(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct case_of){ .requests = 20, .open = 2, .commands = 2, .sql = 400, .tags = TAGS });
	assert_string_equal(report_finding(f.report), "slow-by-sql");
	assert_true(fixture_says(
		f.report, "GET /orders/{id:int} takes 600 ms (p95 600 ms): 67 % is SQL (2 a request), 17 % "
			  "waits for HTTP to https://stock.example:443, 8.3 % is on a thread, 8.3 % is unexplained."));
	assert_true(fixture_says(f.report, "2 requests had not ended, the oldest: GET /orders/{id:int} after 10 s."));
	assert_false(fixture_says(f.report, "mallory"));
	assert_true(fixture_figure(f.report, "Requests") == 20);
	json_t *j = fixture_json(f.report);
	assert_true(part_of(j, WHERE, "SQL") == 400 * MS &&
		    part_of(j, WHERE, "HTTP: waits for the answer") == 100 * MS);
	assert_true(part_of(j, WHERE, "on a thread") == 50 * MS && part_of(j, WHERE, "unexplained") == 50 * MS);
	assert_true(part_of(j, "Began, and not ended", "GET /orders/{id:int}") == 2);
	const json_t *calls = fixture_rows(j, "Calls of requests");
	assert_int_equal(json_array_size(calls), 2);
	json_decref(j);
	fixture_end(&f);
}

/* Thread, time, and what: 0 = it got a CPU, 1 = it left it, 2 = it was taken from it. */
static void add_switch(struct buf *out, uint32_t thread, uint64_t at_ns, uint8_t what)
{
	buf_u32(out, thread);
	buf_u64(out, WINDOW_START + at_ns);
	buf_u8(out, what);
}

static void switches_tell_the_cpu(void **state UNUSED)
{
	struct fixture f;
	struct build_nettrace b = { 0 };
	struct buf switches = { 0 };
	struct recording_part *part;
	fixture_begin(&f);
	fixture_window(f.recording, 10000 * MS);
	begin_stream(&b);
	for (uint32_t i = 1; i <= 6; i++) {
		add_request(&b, i, 1, 400, true);
		/* From its begin to its call, which comes at 450. */
		uint32_t thread = 100 + i * 2;
		add_switch(&switches, thread, (i + 20) * MS, 2); /* it had one until then */
		add_switch(&switches, thread, (i + 30) * MS, 0);
		add_switch(&switches, thread, (i + 45) * MS, 1);
		add_switch(&switches, thread, (i + 440) * MS, 0);
	}
	add_switch(&switches, 1, 5, 77); /* hostile */
	buf_u8(&switches, 1);
	fixture_end_stream(&b);
	fixture_part(f.recording, "requests-0.nettrace", &b);
	assert_ok(recording_part_new(f.recording, "switches", "switches", &part));
	recording_part_write(part, switches.data, switches.len);
	recording_part_close(part, true);
	buf_free(&switches);
	fixture_examine(&f, "slow-requests");
	json_t *j = fixture_json(f.report);
	const char *where = "Where the time of GET /orders/{id} goes";
	assert_true(part_of(j, where, "on a CPU") == 45 * MS);
	assert_true(part_of(j, where, "wants a CPU") == 10 * MS);
	assert_true(part_of(j, where, "on a thread") == 5 * MS);
	assert_true(part_of(j, where, "SQL") == 390 * MS);
	json_decref(j);
	assert_true(fixture_says(f.report, "switches of threads"));
	fixture_end(&f);
}

static void many_statements_a_request(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct case_of){ .requests = 20, .commands = 40, .sql = 400, .tags = TAGS });
	assert_string_equal(report_finding(f.report), "slow-by-many-queries");
	assert_true(fixture_says(f.report, "67 % is SQL (40 a request)"));
	fixture_end(&f);
}

static void without_a_meter_paths_are_grouped(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct case_of){ .requests = 20, .commands = 1, .sql = 400 });
	assert_true(fixture_says(f.report, "GET /orders/{id} takes"));
	assert_true(fixture_says(f.report, "paths grouped by us"));
	fixture_end(&f);
}

/* What is not slow is described, and nothing is said to be wrong. */
static void nothing_is_slow(void **state UNUSED)
{
	struct fixture f = { .param_key = "slow_ms", .param_value = "601" };
	struct build_nettrace b = { 0 };
	fixture_begin(&f);
	f.param_key = "slow_ms";
	f.param_value = "601";
	fixture_window(f.recording, 10000 * MS);
	begin_stream(&b);
	for (uint32_t i = 1; i <= 6; i++)
		add_request(&b, i, 1, 400, true);
	fixture_end_stream(&b);
	fixture_part(f.recording, "requests-0.nettrace", &b);
	fixture_examine(&f, "slow-requests");
	assert_string_equal(report_finding(f.report), "not-slow");
	assert_true(report_health(f.report) == REPORT_INFO);
	fixture_end(&f);
}

/* Its meter counted requests, and no event of one came: that is not "no requests". */
static void events_that_did_not_come(void **state UNUSED)
{
	struct fixture f;
	examine(&f, &(struct case_of){ 0 });
	assert_string_equal(report_finding(f.report), "no-requests");
	fixture_end(&f);
	struct build_nettrace b = { 0 };
	fixture_begin(&f);
	fixture_window(f.recording, 1000 * MS);
	begin_stream(&b);
	fixture_end_stream(&b);
	fixture_part(f.recording, "requests-0.nettrace", &b);
	add_meter(&f, TAGS, 5);
	fixture_examine(&f, "slow-requests");
	assert_string_equal(report_finding(f.report), "not-seen");
	fixture_end(&f);
}

static void plain_request(struct build_nettrace *b, uint32_t number, uint64_t from_ns, uint64_t to_ns)
{
	const uint8_t *id = id_of((uint32_t[]){ 1, number }, 2);
	struct buf p = { 0 }, none = { 0 };
	build_utf16z(&p, "GET");
	build_utf16z(&p, "/orders");
	say(b, REQUEST_START, from_ns, number, id, NULL, &p);
	if (to_ns)
		say(b, REQUEST_STOP, to_ns, number, id, NULL, &none);
}

static void short_request(struct build_nettrace *b, uint64_t at_ns)
{
	plain_request(b, (uint32_t)(at_ns / MS) + 1, at_ns, at_ns + 3 * MS);
	if (at_ns == 155 * MS) /* its end falls between two bursts */
		plain_request(b, 5000, at_ns + 4 * MS, 0);
}

static void only_a_part_of_the_window_is_heard(void **state UNUSED)
{
	for (size_t i = 0; i < FIXTURE_BURSTS; i++) {
		const struct fixture_bursts *bursts = &fixture_bursts[i];
		struct fixture f;
		fixture_begin_bursts(&f, bursts, "requests", begin_stream, short_request);
		fixture_examine(&f, "slow-requests");
		assert_int_equal((int)fixture_figure(f.report, "Requests"), bursts->heard);
		assert_true(fixture_says(f.report, "takes 3 ms (p95 3 ms)"));
		assert_int_equal(fixture_says(f.report, "of the time, to stay cheap"), bursts->n > 0);
		assert_int_equal(fixture_says(f.report, "cut 1"), bursts->n > 0);
		assert_int_equal(fixture_says(f.report, "1 request had not ended"), bursts->n == 0);
		fixture_end(&f);
	}
}

/* Fifty thousand paths, and one that is as long as may be and has what a terminal must not get */
static void paths_that_are_hostile(void **state UNUSED)
{
	struct fixture f;
	struct build_nettrace b = { 0 };
	CLEANUP(mem_freep) char *longest = mem_alloc(65536);
	memset(longest, '\x1b', 65535);
	longest[0] = '/';
	longest[65535] = '\0';
	fixture_begin(&f);
	fixture_window(f.recording, 100000 * MS);
	begin_stream(&b);
	for (uint32_t i = 1; i <= 50001; i++) {
		const uint8_t *id = id_of((uint32_t[]){ 1, 300 + i }, 2);
		struct buf p = { 0 }, none = { 0 };
		CLEANUP(mem_freep) char *path = mem_printf("/%s/x%u-name", i % 2 ? "odd" : "even", i);
		build_utf16z(&p, "GET");
		build_utf16z(&p, i > 50000 ? longest : path);
		say(&b, REQUEST_START, i * MS, i % 8, id, NULL, &p);
		say(&b, REQUEST_STOP, i * MS + MS / 2, i % 8, id, NULL, &none);
	}
	fixture_end_stream(&b);
	fixture_part(f.recording, "requests-0.nettrace", &b);
	fixture_examine(&f, "slow-requests");
	json_t *j = fixture_json(f.report);
	const json_t *rows = fixture_rows(j, "Endpoints");
	assert_true(json_array_size(rows) <= 5);
	assert_true(fixture_figure(f.report, "Requests") == 50001);
	json_decref(j);
	struct buf text = { 0 };
	report_render_text(f.report, &(struct report_text_style){ .columns = 100 }, &text);
	assert_null(strchr(buf_cstr(&text), '\x1b'));
	assert_true(text.len < 20000);
	buf_free(&text);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_endpoint_and_its_parts),
		cmocka_unit_test(many_statements_a_request),
		cmocka_unit_test(switches_tell_the_cpu),
		cmocka_unit_test(without_a_meter_paths_are_grouped),
		cmocka_unit_test(nothing_is_slow),
		cmocka_unit_test(events_that_did_not_come),
		cmocka_unit_test(only_a_part_of_the_window_is_heard),
		cmocka_unit_test(paths_that_are_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
