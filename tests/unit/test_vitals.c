#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "build_counters.h"
#include "vitals/kernel_signs.h"
#include "vitals/runtime_signs.h"
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

static void a_signal_has_its_statistics(void **state UNUSED)
{
	struct vitals v = { 0 };
	assert_false(vitals_has(&v, VITALS_CPU));
	assert_true(isnan(vitals_mean(&v, VITALS_CPU)) && isnan(vitals_slope(&v, VITALS_CPU)));
	vitals_add(&v, VITALS_CPU, 1 * NS_PER_S, 2);
	vitals_add(&v, VITALS_CPU, 2 * NS_PER_S, NAN);
	vitals_add(&v, VITALS_CPU, 3 * NS_PER_S, 6);
	const struct vital *s = &v.of[VITALS_CPU];
	assert_true(s->n == 2 && s->min == 2 && s->max == 6 && s->first == 2 && s->last == 6);
	assert_true(vitals_mean(&v, VITALS_CPU) == 4 && vitals_slope(&v, VITALS_CPU) == 2);
	vitals_lack(&v, VITALS_SWAP, "first");
	vitals_lack(&v, VITALS_SWAP, "second");
	vitals_lack_source(&v, VITAL_OF_PROC, "third");
	assert_string_equal(v.of[VITALS_SWAP].why, "first");
	assert_string_equal(v.of[VITALS_RSS].why, "third");
	assert_null(v.of[VITALS_CPU].why);
	vitals_absent(&v, VITALS_PIDS, "no limit");
	assert_true(v.of[VITALS_PIDS].absent && !v.of[VITALS_SWAP].absent);
	vitals_fini(&v);
}

static void every_signal_has_an_id_of_its_own(void **state UNUSED)
{
	for (size_t i = 0; i < VITALS_N; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(vital_infos[i].id, vital_infos[k].id);
}

static void a_recording_gives_them_back(void **state UNUSED)
{
	struct vitals v = { .start_ns = 5, .end_ns = 9, .n_threads = 1 }, back = { 0 };
	v.threads[0] = (struct vitals_thread){ .tid = 7, .name = "w\xff", .cpu = 0.5 };
	vitals_add(&v, VITALS_RSS, 6, 100);
	vitals_add(&v, VITALS_RSS, 7, 300);
	vitals_add(&v, VITALS_HEAP, 7, 300); /* heard, not read: comes out of its stream again */
	vitals_absent(&v, VITALS_MEMORY_LIMIT, "no memory limit is set");
	json_t *json = vitals_json(&v);
	assert_null(vitals_from_json(json, &back));
	assert_true(back.start_ns == 5 && back.end_ns == 9 && back.of[VITALS_RSS].max == 300);
	assert_true(vitals_mean(&back, VITALS_RSS) == 200 && !vitals_has(&back, VITALS_HEAP));
	assert_true(back.of[VITALS_MEMORY_LIMIT].absent && back.n_threads == 1 && back.threads[0].tid == 7);
	vitals_fini(&back);
	json_decref(json);
	struct err *err = vitals_from_json(NULL, &back);
	assert_non_null(err);
	err_free(err);
	vitals_fini(&v);
}

static void damaged_ones_are_bounded(void **state UNUSED)
{
	static const char *const texts[] = {
		"{\"signals\":{\"rss\":{\"points\":[[1],[\"x\",2],3,null,[1,1e400]]}},\"threads\":[1,{\"tid\":-1}]}",
		"{\"signals\":{\"rss\":7,\"nonsense\":{}},\"threads\":{}}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct vitals v = { 0 };
		json_t *json = NULL;
		err_ignore(json_parse(texts[i], strlen(texts[i]), 4096, &json));
		err_ignore(vitals_from_json(json, &v));
		for (size_t k = 0; k < VITALS_N; k++)
			assert_true(v.of[k].n <= VITAL_POINTS_MAX);
		vitals_fini(&v);
		json_decref(json);
	}
}

/* ---- the kernel's, of this very process ---- */

static struct target own_target(void)
{
	struct target t;
	assert_null(target_find_pid(getpid(), &t));
	return t;
}

static void burn(uint64_t ns)
{
	uint64_t until = clock_mono_ns() + ns;
	while (clock_mono_ns() < until)
		;
}

static void what_a_process_does_is_seen(void **state UNUSED)
{
	struct target t = own_target();
	struct vitals v = { 0 };
	CLEANUP(kernel_signs_freep) struct kernel_signs *k = kernel_signs_new("/proc", &t);
	kernel_signs_read(k, &v);
	double fds = v.of[VITALS_FDS].last, inotify = v.of[VITALS_FDS_INOTIFY].last;
	int watcher = inotify_init1(IN_CLOEXEC), pipes[2];
	assert_true(watcher >= 0 && pipe(pipes) == 0);
	burn(300 * NS_PER_MS);
	kernel_signs_end(k, &v);
	assert_true(v.of[VITALS_FDS].last == fds + 3 && v.of[VITALS_FDS_INOTIFY].last == inotify + 1);
	assert_true(vitals_mean(&v, VITALS_CPU) > 0 && vitals_mean(&v, VITALS_CPU_USABLE) >= 0.01);
	assert_true(vitals_mean(&v, VITALS_RSS) >= vitals_mean(&v, VITALS_RSS_ANON));
	assert_true(v.of[VITALS_THREADS].last == 1 && v.n_threads == 1 && v.threads[0].tid == getpid());
	assert_true(v.threads[0].cpu > 0 && v.of[VITALS_FDS_LIMIT].last >= v.of[VITALS_FDS].last);
	assert_true(v.end_ns > v.start_ns);
	/* Of each signal there is a value or a reason. */
	for (size_t i = 0; i < VITALS_N; i++)
		if (vital_infos[i].source == VITAL_OF_PROC || vital_infos[i].source == VITAL_OF_CGROUP)
			assert_true(v.of[i].n || v.of[i].why);
	close(watcher);
	close(pipes[0]);
	close(pipes[1]);
	vitals_fini(&v);
	target_fini(&t);
}

static void what_is_not_visible_says_so(void **state UNUSED)
{
	struct target nobody = { 0 };
	struct vitals v = { 0 };
	CLEANUP(kernel_signs_freep) struct kernel_signs *k = kernel_signs_new("/proc", &nobody);
	kernel_signs_read(k, &v);
	kernel_signs_end(k, &v);
	assert_false(vitals_has(&v, VITALS_CPU));
	assert_string_equal(v.of[VITALS_CPU].why, "its process is not visible from here");
	assert_string_equal(v.of[VITALS_THROTTLED].why, "its process is not visible from here");
	vitals_fini(&v);
}

/* ---- the runtime's ---- */

static void feed(struct runtime_signs *r, struct nettrace_meta *meta, uint64_t time, struct buf *payload)
{
	struct nettrace_event event = { .meta = meta,
					.time = time,
					.payload = (const uint8_t *)buf_cstr(payload),
					.payload_size = payload->len,
					.pointer_size = 8 };
	runtime_signs_event(r, &event);
	buf_free(payload);
}

static struct nettrace_meta counter_meta(uint32_t id, const char *provider)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters_metas); i++)
		if (counters_metas[i].id == id) {
			struct nettrace_meta meta = counters_metas[i];
			meta.provider = provider;
			return meta;
		}
	fail();
	return counters_metas[0];
}

static void counters_become_signals(void **state UNUSED)
{
	struct vitals v = { .end_ns = 10 * NS_PER_S };
	struct runtime_signs r;
	struct buf p = { 0 };
	runtime_signs_init(&r, &v);
	struct nettrace_meta mean = counter_meta(1, "System.Runtime"), sum = counter_meta(2, "System.Runtime");
	build_mean(&p, "gc-heap-size", 12, 1, "MB");
	feed(&r, &mean, 1, &p);
	build_sum(&p, "exception-count", 50, 2.0f, "");
	feed(&r, &sum, 2, &p);
	struct nettrace_meta other = counter_meta(1, "Shop");
	build_mean(&p, "gc-heap-size", 99, 1, "MB");
	feed(&r, &other, 3, &p);
	runtime_signs_end(&r, 10 * NS_PER_S, 0);
	assert_true(vitals_mean(&v, VITALS_HEAP) == 12e6 && vitals_mean(&v, VITALS_EXCEPTIONS) == 25);
	/* Heard and quiet is a value; not heard is none. */
	assert_true(vitals_mean(&v, VITALS_GC_PAUSED) == 0 && !vitals_has(&v, VITALS_LOCK_WAITING));
	assert_non_null(v.of[VITALS_LOCK_WAITING].why);
	assert_true(v.of[VITALS_REQUESTS].absent && !v.of[VITALS_DB_BUSY].absent);
	runtime_signs_fini(&r);
	vitals_fini(&v);
}

/* A counter that adds up from the start of the process is a rate; what no process can have was not measured. */
static void totals_become_rates(void **state UNUSED)
{
	struct vitals v = { .end_ns = 10 * NS_PER_S };
	struct runtime_signs r;
	struct buf p = { 0 };
	runtime_signs_init(&r, &v);
	struct nettrace_meta mean = counter_meta(1, "System.Runtime");
	static const double compiled[] = { 2000, 2100, 2400 };
	for (size_t i = 0; i < ARRAY_SIZE(compiled); i++) {
		build_mean(&p, "methods-jitted-count", compiled[i], 1, "");
		feed(&r, &mean, (i + 1) * NS_PER_S, &p);
	}
	build_mean(&p, "gc-heap-size", -3, 1, "MB");
	feed(&r, &mean, 5 * NS_PER_S, &p);
	runtime_signs_end(&r, 0, 0);
	const struct vital *s = &v.of[VITALS_JITTED];
	assert_true(s->n == 2 && s->first == 100 && s->last == 300);
	assert_false(vitals_has(&v, VITALS_HEAP));
	assert_non_null(v.of[VITALS_HEAP].why);
	runtime_signs_fini(&r);
	vitals_fini(&v);
}

/* What was told in the middle of the window is a part of the whole, not a second value. */
static void the_window_has_one_total(void **state UNUSED)
{
	struct vitals v = { .end_ns = 3 * NS_PER_S };
	struct runtime_signs r;
	runtime_signs_init(&r, &v);
	r.starved = 1;
	runtime_signs_end(&r, 3 * NS_PER_S, 3 * NS_PER_S);
	assert_non_null(v.of[VITALS_HEAP_OLD].why);
	r.starved = 4;
	vitals_add(&v, VITALS_HEAP_OLD, 4 * NS_PER_S, 1e6);
	v.end_ns = 10 * NS_PER_S;
	runtime_signs_end(&r, 10 * NS_PER_S, 10 * NS_PER_S);
	assert_true(v.of[VITALS_POOL_STARVED].n == 1 && vitals_mean(&v, VITALS_POOL_STARVED) == 4);
	assert_true(v.of[VITALS_POOL_STARVED].points.n == 1 && v.of[VITALS_POOL_STARVED].min == 4);
	assert_null(v.of[VITALS_HEAP_OLD].why);
	runtime_signs_fini(&r);
	vitals_fini(&v);
}

static void without_any_counter_nothing_is_absent(void **state UNUSED)
{
	struct vitals v = { 0 };
	struct runtime_signs r;
	runtime_signs_init(&r, &v);
	runtime_signs_end(&r, 0, 0);
	assert_false(v.of[VITALS_REQUESTS].absent);
	assert_string_equal(v.of[VITALS_REQUESTS].why, "no counter of its runtime came");
	assert_false(vitals_has(&v, VITALS_GC_PAUSED));
	runtime_signs_fini(&r);
	vitals_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_has_its_statistics),
		cmocka_unit_test(every_signal_has_an_id_of_its_own),
		cmocka_unit_test(a_recording_gives_them_back),
		cmocka_unit_test(damaged_ones_are_bounded),
		cmocka_unit_test(what_a_process_does_is_seen),
		cmocka_unit_test(what_is_not_visible_says_so),
		cmocka_unit_test(counters_become_signals),
		cmocka_unit_test(totals_become_rates),
		cmocka_unit_test(without_any_counter_nothing_is_absent),
		cmocka_unit_test(the_window_has_one_total),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
