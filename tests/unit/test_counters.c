#include "unit.h"
#include "counters_stage.h"
#include <math.h>

/* ---- one event ---- */

static const struct nettrace_meta *meta_of(uint32_t id)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters_metas); i++)
		if (counters_metas[i].id == id)
			return &counters_metas[i];
	fail_msg("no event %u", id);
	return &counters_metas[0];
}

static bool decode(uint32_t id, const struct buf *payload, size_t len, struct counters_event *ret)
{
	struct nettrace_meta meta = *meta_of(id);
	/* A copy of just that size, so that a step too far is seen. */
	uint8_t *exact = mem_dup(payload->data ? payload->data : "", len);
	struct nettrace_event event = { .meta = &meta, .payload = exact, .payload_size = len, .pointer_size = 8 };
	bool ok = counters_decode(&event, ret);
	mem_free(exact);
	return ok;
}

static struct counters_event decoded(uint32_t id, struct buf *payload)
{
	struct counters_event e;
	if (!decode(id, payload, payload->len, &e))
		fail_msg("event %u is not understood", id);
	buf_free(payload);
	return e;
}

static void event_counters(void **state UNUSED)
{
	struct buf p = { 0 };
	build_mean(&p, "temperature", 21.5, 1, "Cel");
	struct counters_event e = decoded(1, &p);
	assert_int_equal(e.news, COUNTERS_VALUE);
	assert_int_equal(e.type, COUNTERS_GAUGE);
	assert_false(e.meter);
	assert_string_equal(e.provider, "Shop");
	assert_string_equal(e.name, "temperature");
	assert_string_equal(e.display, "A name to show");
	assert_string_equal(e.unit, "Cel");
	assert_true(e.value == 21.5 && e.interval_s == 1);

	build_mean(&p, "silent", 0, 0, "");
	e = decoded(1, &p);
	assert_true(isnan(e.value)); /* nothing was written: 0 was not measured */

	build_sum(&p, "orders", 200, 2.0f, "orders");
	e = decoded(2, &p);
	assert_int_equal(e.type, COUNTERS_RATE);
	assert_true(e.delta == 200 && e.interval_s == 2 && isnan(e.value));

	build_mean(&p, "wild", NAN, 1, "");
	assert_true(isnan(decoded(1, &p).value));
	struct counters_event none;
	build_mean(&p, "", 1, 1, "");
	assert_false(decode(1, &p, p.len, &none));
	buf_free(&p);
}

static void meters(void **state UNUSED)
{
	struct buf p = { 0 };
	build_counter(&p, "shop.orders", "kind=web", "12.5", "1E3");
	struct counters_event e = decoded(104, &p);
	assert_true(e.meter && e.news == COUNTERS_VALUE && e.type == COUNTERS_RATE);
	assert_string_equal(e.provider, "Shop.Meters");
	assert_string_equal(e.name, "shop.orders");
	assert_string_equal(e.tags, "kind=web");
	assert_string_equal(e.session, "SHARED");
	assert_true(e.delta == 12.5 && e.value == 1000);

	build_counter(&p, "shop.orders", "", "", "5"); /* no rate in the first interval */
	e = decoded(104, &p);
	assert_true(isnan(e.delta) && e.value == 5);
	build_counter(&p, "shop.carts", "", "-3", "4");
	e = decoded(116, &p);
	assert_int_equal(e.type, COUNTERS_UP_DOWN);
	assert_true(e.delta == -3 && e.value == 4);
	build_gauge(&p, "shop.free", "1048576");
	assert_true(decoded(105, &p).value == 1048576);
	build_gauge(&p, "shop.free", "NaN");
	assert_true(isnan(decoded(105, &p).value));
	build_gauge(&p, "shop.free", "1,5"); /* not the invariant culture: not a number */
	assert_true(isnan(decoded(105, &p).value));

	build_histogram(&p, "shop.duration", "0.5=0.01;0.95=0.2;0.99=1E-05", 7, 1.4);
	e = decoded(106, &p);
	assert_int_equal(e.type, COUNTERS_HISTOGRAM);
	assert_true(e.quantiles[0] == 0.01 && e.quantiles[1] == 0.2 && e.quantiles[2] == 1e-5);
	assert_true(e.count == 7 && e.sum == 1.4);
	build_histogram(&p, "shop.duration", "0.5=;;=;0.99=x=y;0.95", 0, 0);
	e = decoded(106, &p);
	assert_true(isnan(e.quantiles[0]) && isnan(e.quantiles[1]) && isnan(e.quantiles[2]));
}

static void news_about_the_listening(void **state UNUSED)
{
	struct buf p = { 0 };
	build_collection(&p, 2.5);
	struct counters_event e = decoded(102, &p);
	assert_int_equal(e.news, COUNTERS_COLLECTION_START);
	assert_true(fabs(e.interval_s - 2.5) < 1e-6);
	BUILD_TEXTS(&p, "theirs");
	e = decoded(115, &p);
	assert_int_equal(e.news, COUNTERS_NOT_SHARED);
	assert_string_equal(e.session, "theirs");
	BUILD_TEXTS(&p, "me", "20", "10", "1000", "1000", "5", "1");
	e = decoded(117, &p);
	assert_int_equal(e.news, COUNTERS_OTHER_SETTINGS);
	assert_string_equal(e.client, "me");
	assert_true(e.interval_s == 5);
	BUILD_TEXTS(&p, "SHARED", "it broke");
	e = decoded(114, &p);
	assert_int_equal(e.news, COUNTERS_CALLBACK_ERROR);
	assert_string_equal(e.text, "it broke");

	struct nettrace_meta other = { .provider = COUNTERS_METRICS_PROVIDER, .event_id = 4000000000u, .name = "" };
	struct nettrace_event event = { .meta = &other, .payload = (const uint8_t *)"" };
	assert_false(counters_decode(&event, &e));
	other.event_id = 1;
	assert_false(counters_decode(&event, &e));
	other.provider = "Shop";
	assert_false(counters_decode(&event, &e));
}

static void long_text_is_cut_between_characters(void **state UNUSED)
{
	struct buf p = { 0 }, name = { 0 };
	for (size_t shift = 0; shift < 4; shift++) {
		buf_repeat(&name, "x", shift);
		buf_repeat(&name, "日", 5000);
		build_counter(&p, buf_cstr(&name), buf_cstr(&name), "1", "1");
		struct counters_event e = decoded(104, &p);
		assert_in_range(strlen(e.name), COUNTERS_NAME_BYTES - 4, COUNTERS_NAME_BYTES - 1);
		assert_in_range(strlen(e.tags), COUNTERS_TEXT_BYTES - 4, COUNTERS_TEXT_BYTES - 1);
		assert_int_equal((strlen(e.name) - shift) % 3, 0);
		assert_memory_equal(e.name, name.data, strlen(e.name));
		buf_clear(&name);
	}
	buf_free(&name);
}

static void damage_does_no_harm(void **state UNUSED)
{
	struct buf payloads[4] = { 0 };
	const uint32_t ids[] = { 1, 104, 106, 117 };
	struct counters_event e;
	build_mean(&payloads[0], "temperature", 21.5, 1, "Cel");
	build_counter(&payloads[1], "shop.orders", "kind=web", "12.5", "1000");
	build_histogram(&payloads[2], "shop.duration", "0.5=0.01;0.95=0.2;0.99=1", 7, 1.4);
	BUILD_TEXTS(&payloads[3], "me", "20", "10", "1000", "1000", "5", "1");
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct buf *p = &payloads[i];
		for (size_t len = 0; len <= p->len; len++)
			decode(ids[i], p, len, &e);
		for (size_t at = 0; at < p->len; at++)
			for (unsigned bit = 0; bit < 8; bit++) {
				p->data[at] = (char)(p->data[at] ^ (1 << bit));
				if (decode(ids[i], p, p->len, &e))
					assert_true(memchr(e.name, '\0', sizeof(e.name)) &&
						    memchr(e.tags, '\0', sizeof(e.tags)));
				p->data[at] = (char)(p->data[at] ^ (1 << bit));
			}
		buf_free(p);
	}
}

/* ---- a whole process ---- */

static const struct series *shop(struct stage *s, const char *name, const char *tags)
{
	return series_find(counters_series(s->c),
			   (struct series_key){ .provider = "Shop.Meters", .name = name, .tags = tags });
}

static void a_process_is_listened_to(void **state UNUSED)
{
	struct stage s;
	const struct counters_group meter = { .name = "Shop.Meters" };
	const struct counters_want want = { .meters = &meter, .n_meters = 1, .interval_ms = 1000 };
	stage_begin(&s);
	stage_session(&s, 110);
	stage_collection(&s, 2, "", "10");
	stage_collection(&s, 2, "8", "18");
	stage_open(&s, &want);
	assert_true(counters_complete(s.c));
	assert_true(counters_ticks(s.c) >= 2);
	assert_int_equal(counters_interval_ms(s.c), 2000); /* another's pace */
	const struct series *orders = shop(&s, "shop.orders", "kind=web"), *free_space = shop(&s, "shop.free", "");
	const struct series *duration = shop(&s, "shop.duration", "route=/a");
	assert_non_null(orders);
	assert_true(orders->last[SERIES_PER_SECOND] == 4 && orders->last[SERIES_TOTAL] == 18);
	assert_int_equal(orders->n, 2);
	double first[SERIES_COLUMNS_MAX];
	series_point(orders, 0, first);
	assert_true(isnan(first[SERIES_PER_SECOND]) && first[SERIES_TOTAL] == 10);
	assert_true(free_space && free_space->last[SERIES_VALUE] == 100);
	assert_true(duration && duration->last[SERIES_P95] == 2 && duration->last[SERIES_COUNT_PER_SECOND] == 4 &&
		    duration->last[SERIES_MEAN] == 2);
	assert_null(counters_note(s.c, 0));
	struct buf asked = fake_runtime_requests(s.fake), words = { 0 };
	build_utf16z(&words, "Metrics=Shop.Meters,");
	assert_non_null(memmem(asked.data, asked.len, words.data, words.len));
	buf_clear(&words);
	build_utf16z(&words, "RefreshInterval"); /* what is not said cannot contradict */
	assert_null(memmem(asked.data, asked.len, words.data, words.len - 2));
	buf_free(&asked);
	buf_free(&words);
	stage_end(&s);
}

static void only_what_was_asked_for_is_kept(void **state UNUSED)
{
	struct stage s;
	const char *items[] = { "shop.free", "shop.typo" };
	const struct counters_group meters_[] = { { .name = "shop.meters", .items = items, .n_items = 2 },
						  { .name = "Nobody" } };
	const struct counters_want want = { .meters = meters_, .n_meters = 2, .interval_ms = 1000 };
	struct buf p = { 0 }, missing = { 0 };
	stage_begin(&s);
	BUILD_TEXTS(&p, "SHARED", "Shop.Meters", "", "shop.free", "Gauge", "By", "");
	stage_event(&s, 111, &p);
	BUILD_TEXTS(&p, "SHARED", "Other", "", "x", "Gauge", "By", "");
	stage_event(&s, 111, &p);
	stage_session(&s, 110);
	stage_collection(&s, 1, "1", "1");
	stage_open(&s, &want);
	assert_int_equal(series_count(counters_series(s.c)), 1);
	assert_non_null(shop(&s, "shop.free", ""));
	counters_missing(s.c, &missing);
	assert_string_equal(buf_cstr(&missing),
			    "shop.meters has no instrument called 'shop.typo'; it has: shop.free\n"
			    "no meter called 'Nobody' in this process; it has: Shop.Meters, Other\n");
	buf_free(&missing);
	stage_end(&s);
}

static void event_counters_make_intervals_by_falling_silent(void **state UNUSED)
{
	struct stage s;
	const struct counters_group groups[] = { { .name = "Shop" }, { .name = "Nobody" } };
	const struct counters_want want = { .counters = groups, .n_counters = 2, .interval_ms = 500 };
	struct buf p = { 0 }, missing = { 0 };
	stage_begin(&s);
	for (int i = 0; i < 3; i++) {
		build_sum(&p, "orders", 100, 0.5f, "");
		stage_event(&s, 2, &p);
	}
	stage_open(&s, &want);
	const struct series *orders = series_find(
		counters_series(s.c), (struct series_key){ .provider = "Shop", .name = "orders", .tags = "" });
	assert_non_null(orders);
	assert_true(orders->last[SERIES_PER_SECOND] == 200 && orders->last[SERIES_TOTAL] == 300);
	counters_missing(s.c, &missing);
	assert_non_null(strstr(buf_cstr(&missing), "nothing was heard from 'Nobody'"));
	assert_null(strstr(buf_cstr(&missing), "'Shop'"));
	buf_free(&missing);
	stage_end(&s);
}

static void what_finds_no_room_is_said(void **state UNUSED)
{
	struct stage s;
	const struct counters_group group = { .name = "Shop" };
	const struct counters_want want = { .counters = &group, .n_counters = 1, .interval_ms = 1000 };
	struct buf p = { 0 };
	stage_begin(&s);
	for (int i = 0; i < 4002; i++) {
		char name[16];
		snprintf(name, sizeof(name), "c%d", i);
		build_sum(&p, name, 1, 1, "");
		stage_event(&s, 2, &p);
	}
	stage_open(&s, &want);
	assert_int_equal(series_count(counters_series(s.c)), 4000);
	assert_non_null(strstr(counters_note(s.c, 0), "further ones are missing"));
	assert_null(counters_note(s.c, 1));
	stage_end(&s);
}

static void a_refusal_is_said(void **state UNUSED)
{
	struct stage s;
	const struct counters_group meter = { .name = "Shop.Meters" };
	const struct counters_want want = { .meters = &meter, .n_meters = 1, .interval_ms = 1000 };
	struct buf p = { 0 };
	stage_begin(&s);
	BUILD_TEXTS(&p, "SHARED"); /* somebody else was refused, not we */
	stage_event(&s, 115, &p);
	BUILD_TEXTS(&p, "somebody", "20", "10", "1000", "1000", "5", "1");
	stage_event(&s, 117, &p);
	BUILD_TEXTS(&p, "theirs");
	stage_event(&s, 115, &p);
	stage_event(&s, 112, &p);
	stage_event(&s, 112, &p); /* said once */
	stage_open(&s, &want);
	assert_non_null(strstr(counters_note(s.c, 0), "does not share"));
	assert_non_null(strstr(counters_note(s.c, 1), "limit"));
	assert_null(counters_note(s.c, 2));
	stage_end(&s);
}

static void the_runtimes_own_mistakes_are_mended(void **state UNUSED)
{
	struct stage s;
	const struct counters_want want = { .all_meters = true, .wildcard = true, .interval_ms = 1000 };
	struct buf p = { 0 };
	stage_begin(&s);
	BUILD_TEXTS(&p, "SHARED", "System.Runtime", "", "dotnet.thread_pool.thread.count", "{thread}", "", "", "12");
	build_u32(&p, 1);
	stage_event(&s, 104, &p);
	stage_open(&s, &want);
	const struct series *threads = series_at(counters_series(s.c), 0);
	assert_int_equal(threads->kind, SERIES_GAUGE);
	assert_true(threads->last[SERIES_VALUE] == 12);
	stage_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_counters),
		cmocka_unit_test(meters),
		cmocka_unit_test(news_about_the_listening),
		cmocka_unit_test(long_text_is_cut_between_characters),
		cmocka_unit_test(damage_does_no_harm),
		cmocka_unit_test(a_process_is_listened_to),
		cmocka_unit_test(only_what_was_asked_for_is_kept),
		cmocka_unit_test(event_counters_make_intervals_by_falling_silent),
		cmocka_unit_test(a_refusal_is_said),
		cmocka_unit_test(what_finds_no_room_is_said),
		cmocka_unit_test(the_runtimes_own_mistakes_are_mended),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
