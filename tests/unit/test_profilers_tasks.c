/* Async operations and ended threads: kept, read back, judged. */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "profilers/chains.h"
#include "profilers/kept_threads.h"

/* Two methods; `count` operations of PlaceAsync that await ConfirmAsync, which awaits something. */
static struct chains *orders(enum awaits awaits, const char *what, uint32_t count, uint64_t first_mark)
{
	struct chains *c = chains_new();
	c->boxes = 2ull * count;
	c->objects = 1000;
	vec_push(&c->methods, ((struct chain_method){ "Shop.PlaceAsync", false, count }));
	vec_push(&c->methods, ((struct chain_method){ "Shop.ConfirmAsync", false, count }));
	vec_push(&c->methods, ((struct chain_method){ "System.Net.LoopAsync", true, 1 }));
	vec_push(&c->steps, ((struct chain_step){ 0, 0, 1 }));
	vec_push(&c->steps, ((struct chain_step){ 1, 2, 3 }));
	vec_push(&c->steps, ((struct chain_step){ 2, 0, 1 }));
	vec_push(&c->v,
		 ((struct chain){ .n = 2, .awaits = awaits, .what = what, .longest_ms = 60000, .count = count }));
	vec_push(&c->v, ((struct chain){ .first = 2, .n = 1, .awaits = AWAITS_SOCKET, .what = "", .count = 1 }));
	for (uint32_t i = 0; i < count; i++)
		vec_push(&c->marks, first_mark + i);
	c->v.v[0].marks_n = c->v.v[1].marks_first = count;
	return c;
}

static void test_kept(void **state)
{
	(void)state;
	CLEANUP(chains_freep) struct chains *c = orders(AWAITS_TIMER, "", 5, 100), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 }, again = { 0 }, words = { 0 };
	chains_write(c, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(chains_take(&back, &in));
	chains_write(back, &again);
	assert_int_equal(again.len, bytes.len);
	assert_memory_equal(again.data, bytes.data, bytes.len);
	chain_awaits_words(&back->v.v[0], &words);
	assert_string_equal(buf_cstr(&words), "a timer of up to 1 min");
	assert_true(chain_is_own(back, &back->v.v[0]));
	assert_false(chain_is_own(back, &back->v.v[1]));
}

static void test_hostile(void **state)
{
	(void)state;
	CLEANUP(chains_freep) struct chains *c = orders(AWAITS_SOURCE, "", 5, 100);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	chains_write(c, &bytes);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		CLEANUP(chains_freep) struct chains *back = NULL;
		struct cursor in = cursor_make(bytes.data, cut);
		assert_err(chains_take(&back, &in), ERR_BAD_DATA);
		assert_null(back);
	}
	size_t whole = 0;
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		CLEANUP(chains_freep) struct chains *back = NULL;
		CLEANUP(buf_free) struct buf out = { 0 };
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		struct cursor in = cursor_make(bytes.data, bytes.len);
		err_ignore(chains_take(&back, &in));
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (!back)
			continue;
		whole++;
		vec_each(chain, &back->v) {
			chain_awaits_words(chain, &out);
			chain_is_own(back, chain);
		}
	}
	assert_true(whole > 0);
}

static void test_hostile_kept_threads(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf bytes = { 0 };
	const uint32_t numbers[] = { 1000, 1, 4 };
	buf_add(&bytes, &numbers[0], 4);
	buf_char(&bytes, 0);
	buf_add(&bytes, &numbers[1], 8);
	buf_str(&bytes, "Kept");
	buf_add(&bytes, &numbers[0], 4);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		struct kept_threads kept = { 0 };
		struct cursor in = cursor_make(bytes.data, cut);
		assert_err(kept_threads_take(&kept, &in), ERR_BAD_DATA);
	}
	CLEANUP(kept_threads_free) struct kept_threads kept = { 0 };
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(kept_threads_take(&kept, &in));
	assert_int_equal(kept.dead, 1000);
	assert_string_equal(kept.holders.v[0].name, "Kept");
	assert_int_equal(kept.holders.v[0].n, 1000);
}

static void add_part(struct fixture *f, const struct chains *c, const char *name, uint64_t at_ns)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	CLEANUP(mem_freep) char *key = mem_printf("look-%s", name);
	struct recording_part *part;
	uint32_t version = CHAINS_VERSION;
	buf_add(&bytes, "DRLOOK\0", 8);
	buf_add(&bytes, &version, 4);
	chains_write(c, &bytes);
	assert_ok(recording_part_new(f->recording, name, "look", &part));
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, true);
	json_t *fact = json_pack("{s:I}", "at_ns", (json_int_t)at_ns);
	recording_set_fact(f->recording, key, fact);
	json_decref(fact);
}

static void examine(struct fixture *f, const struct chains *first, const struct chains *second)
{
	fixture_begin(f);
	fixture_window(f->recording, 2000 * MS);
	add_part(f, first, "tasks", 1000 * MS);
	if (second)
		add_part(f, second, "tasks-2", 3000 * MS);
	f->way = WAY_IMAGE;
	fixture_examine(f, "stuck-tasks");
}

static void test_stuck(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(chains_freep)
	struct chains *c = orders(AWAITS_SOURCE, "", 12, 100), *later = orders(AWAITS_SOURCE, "", 14, 102);
	examine(&f, c, later);
	assert_string_equal(report_finding(f.report), "stuck");
	assert_true(fixture_says(f.report,
				 "10 async operations did not move for 2 s: Shop.PlaceAsync waits for "
				 "Shop.ConfirmAsync, which awaits a TaskCompletionSource. In all 14 async operations"));
	assert_true(fixture_says(f.report, "3 of them together; at its await no. 3"));
	assert_int_equal((int)fixture_figure(f.report, "Unmoved"), 10);
	fixture_end(&f);
}

static void test_not_stuck(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(chains_freep)
	struct chains *c = orders(AWAITS_SOURCE, "", 12, 100), *moved = orders(AWAITS_SOURCE, "", 12, 500);
	examine(&f, c, moved);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* The clock and the network are not ours to blame. */
	CLEANUP(chains_freep) struct chains *timers = orders(AWAITS_TIMER, "", 12, 100);
	examine(&f, timers, timers);
	assert_string_equal(report_finding(f.report), "waiting");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	fixture_end(&f);
	/* Of one instant nobody can say what moves. */
	examine(&f, c, NULL);
	assert_true(fixture_says(f.report, "12 async operations wait alike"));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_kept_threads),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_not_stuck),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
