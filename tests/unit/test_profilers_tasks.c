/* Async operations and ended threads: kept, read back, judged. */

#include "unit.h"

#include "base/str.h"
#include "exam_fixture.h"
#include "threads/async_chains.h"
#include "threads/kept_threads.h"

/* Two methods; `count` operations of PlaceAsync that await ConfirmAsync, which awaits something. */
static struct async_chains *orders(enum awaits awaits, const char *what, uint32_t count, uint64_t first_mark)
{
	struct async_chains *c = async_chains_new();
	c->boxes = 2ull * count;
	c->objects = 1000;
	vec_push(&c->methods, ((struct async_chain_method){ "Shop.PlaceAsync", false, count }));
	vec_push(&c->methods, ((struct async_chain_method){ "Shop.ConfirmAsync", false, count }));
	vec_push(&c->methods, ((struct async_chain_method){ "System.Net.LoopAsync", true, 1 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 0, .await = 0, .times = 1 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 1, .await = 2, .times = 3 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 2, .await = 0, .times = 1 }));
	vec_push(&c->v, ((struct async_chain){ .n = 2,
					       .awaits = awaits,
					       .what = what,
					       .longest_ms = 60000,
					       .due_ms = ASYNC_CHAIN_UNKNOWN,
					       .count = count }));
	vec_push(&c->v, ((struct async_chain){ .first = 2, .n = 1, .awaits = AWAITS_SOCKET, .what = "", .count = 1 }));
	for (uint32_t i = 0; i < count; i++)
		vec_push(&c->marks, first_mark + i);
	c->v.v[0].marks_n = c->v.v[1].marks_first = count;
	return c;
}

static void test_kept(void **state)
{
	(void)state;
	CLEANUP(async_chains_freep) struct async_chains *c = orders(AWAITS_TIMER, "", 5, 100), *back = NULL;
	CLEANUP(buf_free) struct buf bytes = { 0 }, again = { 0 }, words = { 0 };
	async_chains_write(c, &bytes);
	struct cursor in = cursor_make(bytes.data, bytes.len);
	assert_ok(async_chains_take(&back, &in));
	async_chains_write(back, &again);
	assert_int_equal(again.len, bytes.len);
	assert_memory_equal(again.data, bytes.data, bytes.len);
	async_chain_awaits_words(&back->v.v[0], &words);
	assert_string_equal(buf_cstr(&words), "a timer of up to 1 min");
	assert_true(async_chain_is_own(back, &back->v.v[0]));
	assert_false(async_chain_is_own(back, &back->v.v[1]));
}

static void test_hostile(void **state)
{
	(void)state;
	CLEANUP(async_chains_freep) struct async_chains *c = orders(AWAITS_SOURCE, "", 5, 100);
	CLEANUP(buf_free) struct buf bytes = { 0 };
	async_chains_write(c, &bytes);
	for (size_t cut = 0; cut < bytes.len; cut++) {
		CLEANUP(async_chains_freep) struct async_chains *back = NULL;
		struct cursor in = cursor_make(bytes.data, cut);
		assert_err(async_chains_take(&back, &in), ERR_BAD_DATA);
		assert_null(back);
	}
	size_t whole = 0;
	for (size_t bit = 0; bit < bytes.len * 8; bit++) {
		CLEANUP(async_chains_freep) struct async_chains *back = NULL;
		CLEANUP(buf_free) struct buf out = { 0 };
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		struct cursor in = cursor_make(bytes.data, bytes.len);
		err_ignore(async_chains_take(&back, &in));
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (!back)
			continue;
		whole++;
		vec_each(chain, &back->v) {
			async_chain_awaits_words(chain, &out);
			async_chain_is_own(back, chain);
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

static void add_part(struct fixture *f, const struct async_chains *c, const char *name, uint64_t at_ns)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	CLEANUP(mem_freep) char *key = mem_printf("look-%s", name);
	struct recording_part *part;
	uint32_t version = ASYNC_CHAINS_VERSION;
	buf_add(&bytes, "DRLOOK\0", 8);
	buf_add(&bytes, &version, 4);
	async_chains_write(c, &bytes);
	assert_ok(recording_part_new(f->recording, name, "look", &part));
	recording_part_write(part, bytes.data, bytes.len);
	recording_part_close(part, true);
	json_t *fact = json_pack("{s:I}", "at_ns", (json_int_t)at_ns);
	recording_set_fact(f->recording, key, fact);
	json_decref(fact);
}

static void examine(struct fixture *f, const struct async_chains *first, const struct async_chains *second)
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
	CLEANUP(async_chains_freep)
	struct async_chains *c = orders(AWAITS_SOURCE, "", 12, 100), *later = orders(AWAITS_SOURCE, "", 14, 102);
	examine(&f, c, later);
	assert_string_equal(report_finding(f.report), "stuck");
	assert_true(fixture_says(f.report,
				 "10 async operations did not move for 2 s: Shop.PlaceAsync waits for "
				 "Shop.ConfirmAsync, which awaits a TaskCompletionSource. In all 14 async operations"));
	assert_true(fixture_says(f.report, "3 of them together; at its await no. 3"));
	assert_int_equal((int)fixture_figure(f.report, "Unmoved"), 10);
	fixture_end(&f);
}

/* Few that are old stand before many that are young. */
static void test_oldest_first(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(async_chains_freep) struct async_chains *c = orders(AWAITS_SOURCE, "", 12, 100);
	CLEANUP(buf_free) struct buf text = { 0 };
	vec_push(&c->methods, ((struct async_chain_method){ "Shop.OldAsync", false, 1 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 3, .await = 0, .times = 1 }));
	vec_push(&c->v, ((struct async_chain){
				.first = 3, .n = 1, .awaits = AWAITS_CHANNEL, .what = "", .count = 1, .age = 3 }));
	vec_push(&c->marks, 7);
	c->v.v[2].marks_first = (uint32_t)c->marks.n - 1;
	c->v.v[2].marks_n = 1;
	c->v.v[0].age = 1;
	examine(&f, c, c);
	report_render_text(f.report, &(struct report_text_style){ 0 }, &text);
	const char *old = strstr(buf_cstr(&text), "Shop.OldAsync"), *table = strstr(buf_cstr(&text), "Gen");
	assert_non_null(table);
	assert_non_null(old);
	assert_true(old < strstr(table, "Shop.ConfirmAsync"));
	fixture_end(&f);
}

/* A request: the server's loop calls the user's code, which calls a library. */
static void test_user_code_is_named(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(async_chains_freep) struct async_chains *c = orders(AWAITS_SOCKET, "", 12, 100);
	c->steps.n = c->v.v[1].first;
	c->v.n = 1;
	vec_push(&c->methods, ((struct async_chain_method){ "Npgsql.Pool.RentAsync", true, 12 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 3, .await = 0, .times = 1 }));
	c->steps.v[0].method = 2;
	c->v.v[0].n = 3;
	examine(&f, c, c);
	assert_true(fixture_says(f.report, "did not move for 2 s: Shop.ConfirmAsync in the end awaits a socket in "
					   "Npgsql.Pool.RentAsync."));
	assert_false(fixture_says(f.report, "LoopAsync"));
	fixture_end(&f);
}

static void test_not_stuck(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(async_chains_freep)
	struct async_chains *c = orders(AWAITS_SOURCE, "", 12, 100), *moved = orders(AWAITS_SOURCE, "", 12, 500);
	examine(&f, c, moved);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "12 async operations are under way, and all moved between the looks. 12 of "
					   "them are in Shop.ConfirmAsync, awaiting a TaskCompletionSource."));
	fixture_end(&f);
	/* A program that waits for its end; twelve that do are something else. */
	CLEANUP(async_chains_freep) struct async_chains *main = orders(AWAITS_TIMER, "", 1, 100);
	main->v.v[0].longest_ms = ASYNC_CHAIN_ENDLESS;
	examine(&f, main, main);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report, "Nothing is stuck: 1 async operation waits until it is cancelled."));
	fixture_end(&f);
	/* The same by a host, which completes a source when it is told to stop. */
	CLEANUP(async_chains_freep) struct async_chains *host = orders(AWAITS_SOURCE, "", 1, 100);
	host->methods.v[1].name = "Program.Main";
	examine(&f, host, host);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	CLEANUP(async_chains_freep) struct async_chains *twelve = orders(AWAITS_TIMER, "", 12, 100);
	twelve->v.v[0].longest_ms = ASYNC_CHAIN_ENDLESS;
	examine(&f, twelve, twelve);
	assert_string_equal(report_finding(f.report), "waiting");
	fixture_end(&f);
	/* The clock and the network are not ours to blame. */
	CLEANUP(async_chains_freep) struct async_chains *timers = orders(AWAITS_TIMER, "", 12, 100);
	timers->v.v[0].longest_ms = 3600000;
	examine(&f, timers, timers);
	assert_string_equal(report_finding(f.report), "waiting");
	assert_int_equal(report_health(f.report), REPORT_INFO);
	fixture_end(&f);
	timers->v.v[0].longest_ms = 1000;
	examine(&f, timers, timers);
	assert_string_equal(report_finding(f.report), "nothing-found");
	assert_true(fixture_says(f.report,
				 "Nothing is stuck: 12 async operations run or wait for a timer, a message or work, as "
				 "services do."));
	fixture_end(&f);
	/* Services that wait for work, beside one that waits for its end. */
	static const enum awaits at_rest[] = { AWAITS_TIMER, AWAITS_CHANNEL, AWAITS_SOCKET, AWAITS_OTHER };
	for (size_t i = 0; i < ARRAY_SIZE(at_rest); i++) {
		CLEANUP(async_chains_freep) struct async_chains *few = orders(at_rest[i], "", 3, 100);
		few->v.v[0].longest_ms = at_rest[i] == AWAITS_TIMER ? 8 * 3600000 : 0;
		examine(&f, few, few);
		assert_string_equal(report_finding(f.report), "nothing-found");
		assert_int_equal(report_health(f.report), REPORT_OK);
		fixture_end(&f);
	}
	/* Of one instant nobody can say what moves. */
	examine(&f, c, NULL);
	assert_true(fixture_says(f.report, "12 async operations wait alike"));
	fixture_end(&f);
}

/* Operations whose arguments differ, each in a place of its own. */
static struct async_chains *known(uint64_t first_mark, uint64_t first_place, bool old)
{
	struct async_chains *c = orders(AWAITS_SOURCE, "", 12, first_mark);
	for (uint64_t i = 0; i < 12; i++)
		vec_push(&c->same, ((struct async_identity){ 7000 + i, first_place + i, old }));
	return c;
}

/* A collection moves objects; arguments and locals stay. */
static void test_moved_by_a_collection(void **state)
{
	(void)state;
	struct fixture f;
	static const struct {
		uint64_t place;
		bool old;
		const char *finding;
	} cases[] = {
		{ 2000, true, "stuck" },
		{ 2000, false, "nothing-found" }, /* what it awaits is new: it went on */
		{ 1000, true, "nothing-found" },  /* nothing was moved: another turn of a loop */
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(async_chains_freep)
		struct async_chains *before = known(100, 1000, false), *now = known(500, cases[i].place, cases[i].old);
		examine(&f, before, now);
		assert_string_equal(report_finding(f.report), cases[i].finding);
		fixture_end(&f);
	}
	/* Others have other arguments. */
	CLEANUP(async_chains_freep) struct async_chains *before = known(100, 1000, true), *now = known(500, 2000, true);
	vec_each(same, &now->same)
		same->content += 1000;
	examine(&f, before, now);
	assert_string_equal(report_finding(f.report), "nothing-found");
	fixture_end(&f);
	/* As it is kept: all, or cut off between its parts as older recordings are. */
	CLEANUP(buf_free) struct buf bytes = { 0 };
	async_chains_write(now, &bytes);
	for (size_t cut = bytes.len - 12 * 17; cut <= bytes.len; cut++) {
		CLEANUP(async_chains_freep) struct async_chains *back = NULL;
		struct cursor in = cursor_make(bytes.data, cut);
		struct err *err = async_chains_take(&back, &in);
		bool whole = cut == bytes.len, older = cut == bytes.len - 12 * 17;
		assert_int_equal(!err, whole || older);
		assert_true(!back || back->same.n == (whole ? 12 : 0));
		err_free(err);
	}
}

static struct async_chains *one_chain(enum awaits awaits, const char *what, int32_t await, bool gone)
{
	struct async_chains *c = orders(awaits, what, 1, 100);
	c->steps.v[1].await = await;
	c->steps.v[1].line = "Shop.cs:12";
	c->v.v[0].gone = gone;
	c->v.v[0].taken = awaits == AWAITS_SEMAPHORE;
	return c;
}

/* One that nobody can end any more is enough. */
static void test_gone(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(async_chains_freep) struct async_chains *c = one_chain(AWAITS_SOURCE, "", 2, true);
	examine(&f, c, c);
	assert_string_equal(report_finding(f.report), "source-gone");
	assert_int_equal(report_health(f.report), REPORT_WARN);
	assert_true(fixture_says(f.report,
				 "Shop.ConfirmAsync (Shop.cs:12), which awaits a TaskCompletionSource that is "
				 "gone: nobody can complete it any more."));
	fixture_end(&f);
	examine(&f, c, NULL);
	assert_string_equal(report_finding(f.report), "waiting");
	fixture_end(&f);
}

/* Another chain, of a method of its own. */
static void add_second(struct async_chains *c, const char *what, int32_t await)
{
	uint32_t first = (uint32_t)c->steps.n, mark = (uint32_t)c->marks.n;
	vec_push(&c->methods, ((struct async_chain_method){ "Shop.RefundAsync", false, 1 }));
	vec_push(&c->steps, ((struct async_chain_step){ .method = 3, .await = await, .times = 1 }));
	vec_push(&c->marks, 900);
	vec_push(&c->v, ((struct async_chain){ .first = first,
					       .n = 1,
					       .awaits = AWAITS_SEMAPHORE,
					       .what = what,
					       .taken = true,
					       .due_ms = ASYNC_CHAIN_UNKNOWN,
					       .count = 1,
					       .marks_first = mark,
					       .marks_n = 1 }));
}

static void test_semaphores(void **state)
{
	(void)state;
	struct fixture f;
	CLEANUP(async_chains_freep) struct async_chains *c = one_chain(AWAITS_SEMAPHORE, "Shop.Left", 1, false);
	add_second(c, "Shop.Right", 1);
	examine(&f, c, c);
	assert_string_equal(report_finding(f.report), "deadlock-likely");
	assert_true(fixture_says(f.report, "Shop.ConfirmAsync waits for Shop.Left (Shop.cs:12), Shop.RefundAsync waits "
					   "for Shop.Right"));
	fixture_end(&f);
	/* One of the same method is further on and waits for the clock: it has the semaphore, and will give it back. */
	vec_push(&c->steps, ((struct async_chain_step){ .method = 3, .await = 2, .times = 1 }));
	vec_push(&c->v, ((struct async_chain){ .first = (uint32_t)c->steps.n - 1,
					       .n = 1,
					       .awaits = AWAITS_TIMER,
					       .what = "",
					       .due_ms = ASYNC_CHAIN_UNKNOWN,
					       .count = 1 }));
	examine(&f, c, c);
	assert_string_equal(report_finding(f.report), "waiting");
	fixture_end(&f);
	/* Whoever waits for its first one has none; two for the same one are a queue. */
	CLEANUP(async_chains_freep) struct async_chains *first = one_chain(AWAITS_SEMAPHORE, "Shop.Left", 1, false);
	add_second(first, "Shop.Right", 0);
	examine(&f, first, first);
	assert_string_equal(report_finding(f.report), "waiting");
	fixture_end(&f);
	CLEANUP(async_chains_freep) struct async_chains *queue = one_chain(AWAITS_SEMAPHORE, "Shop.Left", 1, false);
	add_second(queue, "Shop.Left", 1);
	examine(&f, queue, queue);
	assert_string_equal(report_finding(f.report), "waiting");
	fixture_end(&f);
}

static void test_other_ends(void **state)
{
	(void)state;
	struct fixture f;
	static const struct {
		enum awaits awaits;
		const char *finding;
		enum report_health health;
	} cases[] = { { AWAITS_ROOM, "channel-full", REPORT_WARN },
		      { AWAITS_CONNECTION, "no-connection", REPORT_WARN },
		      { AWAITS_SOCKET, "no-answer", REPORT_INFO },
		      { AWAITS_CHANNEL, "waiting", REPORT_INFO } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(async_chains_freep) struct async_chains *c = orders(cases[i].awaits, "Shop.Feed.News", 12, 100);
		examine(&f, c, c);
		assert_string_equal(report_finding(f.report), cases[i].finding);
		assert_int_equal(report_health(f.report), cases[i].health);
		assert_true(fixture_says(f.report, "Shop.Feed.News"));
		assert_int_equal(fixture_says(f.report, "Give such calls a time limit"),
				 cases[i].awaits == AWAITS_SOCKET);
		assert_int_equal(fixture_says(f.report, "Does anybody still read"), cases[i].awaits == AWAITS_ROOM);
		fixture_end(&f);
	}
}

static void test_words(void **state)
{
	(void)state;
	static const struct {
		struct async_chain chain;
		const char *words;
	} cases[] = {
		{ { .awaits = AWAITS_TIMER, .what = "", .longest_ms = 5000, .due_ms = 0 },
		  "a timer of up to 5 s, due now" },
		{ { .awaits = AWAITS_TIMER, .what = "", .longest_ms = 5000, .due_ms = 2000 },
		  "a timer of up to 5 s, due in 2 s" },
		{ { .awaits = AWAITS_TIMER,
		    .what = "",
		    .longest_ms = ASYNC_CHAIN_ENDLESS,
		    .due_ms = ASYNC_CHAIN_UNKNOWN },
		  "a delay that only its CancellationToken ends" },
		{ { .awaits = AWAITS_SOURCE, .what = "Shop.Hub._waiting" },
		  "a TaskCompletionSource kept by Hub._waiting" },
		{ { .awaits = AWAITS_OTHER, .what = "Shop.Net.Link" }, "a Net.Link" },
		{ { .awaits = AWAITS_CONNECTION, .what = "" }, "a connection of HttpClient that has room for it" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf words = { 0 };
		async_chain_awaits_brief(&cases[i].chain, &words);
		assert_string_equal(buf_cstr(&words), cases[i].words);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_kept_threads),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_oldest_first),
		cmocka_unit_test(test_user_code_is_named),
		cmocka_unit_test(test_not_stuck),
		cmocka_unit_test(test_moved_by_a_collection),
		cmocka_unit_test(test_gone),
		cmocka_unit_test(test_semaphores),
		cmocka_unit_test(test_other_ends),
		cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
