#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "diagnose/verdict.h"
#include <math.h>

#define JUDGED_MAX 64
#define MB (1024.0 * 1024)

/* A process that idles: every signal that a rule needs is there. */
static void begin(struct vitals *v)
{
	*v = (struct vitals){ .start_ns = NS_PER_S, .end_ns = 11 * NS_PER_S };
}

static void put(struct vitals *v, enum vital_id id, double first, double last)
{
	vitals_add(v, id, v->start_ns, first);
	vitals_add(v, id, v->end_ns, last);
}

static void healthy(struct vitals *v)
{
	begin(v);
	for (size_t i = 0; i < VITALS_N; i++)
		put(v, (enum vital_id)i, 0, 0);
	static const struct {
		enum vital_id id;
		double value;
	} usual[] = {
		{ VITALS_CPU, 0.2 },
		{ VITALS_CPU_USABLE, 2 },
		{ VITALS_CPU_RATIO, 0.1 },
		{ VITALS_CPU_THREAD, 0.1 },
		{ VITALS_RSS, 100 * MB },
		{ VITALS_RSS_ANON, 60 * MB },
		{ VITALS_THREADS, 20 },
		{ VITALS_FDS, 100 },
		{ VITALS_FDS_LIMIT, 1024 },
		{ VITALS_INOTIFY_LIMIT, 128 },
		{ VITALS_MEMORY_LIMIT, 512 * MB },
		{ VITALS_MEMORY_USED, 90 * MB },
		{ VITALS_PIDS_LIMIT, 1000 },
		{ VITALS_PIDS, 20 },
		{ VITALS_HEAP, 30 * MB },
		{ VITALS_HEAP_COMMITTED, 40 * MB },
		{ VITALS_POOL_THREADS, 4 },
		{ VITALS_POOL_DONE, 50 },
		{ VITALS_REQUESTS, 100 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
		vec_free(&v->of[usual[i].id].points);
		v->of[usual[i].id] = (struct vital){ 0 };
		put(v, usual[i].id, usual[i].value, usual[i].value);
	}
}

static void change(struct vitals *v, enum vital_id id, double first, double last)
{
	vec_free(&v->of[id].points);
	mem_free(v->of[id].why);
	v->of[id] = (struct vital){ 0 };
	put(v, id, first, last);
}

static size_t judge(const struct vitals *v, struct judgement *ret)
{
	assert_true(rules_count() <= JUDGED_MAX);
	for (size_t i = 0; i < rules_count(); i++)
		ret[i] = rule_judge(rule_at(i), v);
	return rules_count();
}

static struct judgement judged(const struct vitals *v, const char *rule)
{
	const struct rule *r = rule_find(rule);
	assert_non_null(r);
	return rule_judge(r, v);
}

static void rules_are_whole(void **state UNUSED)
{
	for (size_t i = 0; i < rules_count(); i++) {
		const struct rule *r = rule_at(i);
		assert_true(r->n_needs && r->measure && r->say && r->ruled_out && r->subject && r->next);
		assert_true(r->info > 0 && r->info < r->warning);
		assert_ptr_equal(rule_find(r->id), r);
		if (r->proof)
			assert_non_null(plan_examination(r->proof));
	}
}

static void the_score_rises_with_what_is_measured(void **state UNUSED)
{
	const struct rule *r = rule_find("gc-pressure");
	assert_int_equal(rule_score(r, 0), 0);
	assert_int_equal(rule_score(r, NAN), 0);
	assert_int_equal(rule_score(r, r->info), SCORE_INFO);
	assert_int_equal(rule_score(r, r->warning), SCORE_WARNING);
	unsigned last = 0;
	for (double x = 0; x < 1; x += 0.01) {
		assert_true(rule_score(r, x) >= last);
		last = rule_score(r, x);
	}
	assert_true(last > 95 && last <= SCORE_MOST);
	assert_int_equal(rule_score(rule_find("cpu-busy"), 100), SCORE_WARNING - 1);
}

static void a_healthy_process_arouses_no_suspicion(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	healthy(&v);
	size_t n = judge(&v, j);
	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_free) struct buf by = { 0 };
		if (j[i].state != RULE_OUT)
			fail_msg("%s: %g", j[i].rule->id, j[i].measured);
		j[i].rule->ruled_out(&v, j[i].measured, &by);
		assert_true(by.len > 0);
	}
	verdict_make(j, n, NULL, 0, &verdict);
	assert_int_equal(verdict.n, 0);
	vitals_fini(&v);
}

/* What a rule must see, and what it must not. */
static void each_sickness_arouses_its_suspicion(void **state UNUSED)
{
	static const struct {
		const char *rule;
		struct {
			enum vital_id id;
			double first, last;
		} changes[3];
		const char *says;
	} cases[] = {
		{ "cpu-throttled", { { VITALS_THROTTLED, 0.6, 0.6 }, { VITALS_THROTTLED_TIME, 0.5, 0.5 } }, "60 %" },
		{ "cpu-busy", { { VITALS_CPU_RATIO, 0.95, 0.95 } }, "95 % of the 2 cores" },
		{ "cpu-one-thread", { { VITALS_CPU_THREAD, 0, 1 }, { VITALS_CPU, 1, 1 } }, "computes without rest" },
		{ "cpu-per-request", { { VITALS_CPU, 0.6, 0.6 }, { VITALS_REQUESTS, 20, 20 } }, "takes 30 ms of CPU" },
		{ "jit-storm", { { VITALS_JITTED, 300, 500 } }, "400 methods are compiled in a second" },
		{ "gc-full",
		  { { VITALS_GCS_FULL, 0, 4 }, { VITALS_GCS, 0, 5 } },
		  "4 full garbage collections a second, of 5" },
		{ "allocating", { { VITALS_ALLOCATED, 400 * MB, 600 * MB } }, "500 MB/s" },
		{ "heap-holes",
		  { { VITALS_FRAGMENTED, 0.7, 0.8 }, { VITALS_HEAP_COMMITTED, 200 * MB, 200 * MB } },
		  "70 % of the managed heap are holes between what is alive, 140 MB" },
		{ "threads-new", { { VITALS_THREADS_NEW, 0, 80 } }, "80 of its 20 threads" },
		{ "inotify",
		  { { VITALS_FDS_INOTIFY, 10, 30 } },
		  "30 of the 128 inotify instances that its user may have, 20 more" },
		{ "http-out-unanswered",
		  { { VITALS_HTTP_OUT, 2, 2 }, { VITALS_HTTP_OUT_NOW, 4, 20 } },
		  "80 % of the HTTP requests" },
		{ "http-out-connections",
		  { { VITALS_HTTP_OUT, 40, 40 }, { VITALS_CONNECTED, 40, 40 } },
		  "40/s for 40/s requests" },
		{ "gc-pressure", { { VITALS_GC_PAUSED, 0, 0.3 } }, "30 % of the time" },
		{ "gc-long-pause", { { VITALS_GC_LONGEST, 0, 8e8 } }, "800 ms" },
		{ "gc-induced", { { VITALS_GCS_INDUCED, 0, 30 } }, "30 in the window" },
		{ "memory-growing",
		  { { VITALS_HEAP, 30 * MB, 80 * MB }, { VITALS_RSS_ANON, 60 * MB, 110 * MB } },
		  "5 MB/s" },
		{ "memory-limit",
		  { { VITALS_MEMORY_USED, 500 * MB, 500 * MB } },
		  "98 % of its memory limit of 512 MB" },
		{ "memory-pressure", { { VITALS_MEMORY_PRESSURE, 0.4, 0.4 } }, "40 %" },
		{ "pool-starved",
		  { { VITALS_POOL_QUEUE, 40, 400 }, { VITALS_POOL_STARVED, 0, 6 }, { VITALS_POOL_DONE, 2, 2 } },
		  "400 work items wait for one of 4 pool threads, and the pool grew 6 times" },
		{ "lock-contention",
		  { { VITALS_LOCK_WAITING, 0, 5 }, { VITALS_LOCK_LONGEST, 0, 2e9 } },
		  "5 threads wait" },
		{ "exceptions-many", { { VITALS_EXCEPTIONS, 900, 1100 } }, "1,000 exceptions a second" },
		{ "threads-many", { { VITALS_THREADS, 3000, 3000 } }, "3,000 threads" },
		{ "threads-growing", { { VITALS_THREADS, 20, 90 } }, "from 20 to 90" },
		{ "threads-on-disk", { { VITALS_THREADS_DISK, 6, 6 } }, "6 threads" },
		{ "descriptors", { { VITALS_FDS, 1000, 1000 } }, "1,000 of the 1,024 descriptors" },
		{ "group-threads", { { VITALS_PIDS, 990, 990 } }, "990 of the 1,000" },
		{ "inotify", { { VITALS_FDS_INOTIFY, 120, 120 } }, "120 of the 128" },
		{ "connections-not-closed", { { VITALS_SOCKETS_CLOSE_WAIT, 800, 900 } }, "800 connections" },
		{ "not-accepted", { { VITALS_SOCKETS_BACKLOG, 30, 40 } }, "30 connections" },
		{ "requests-slow", { { VITALS_REQUESTS_NOW, 40, 40 }, { VITALS_REQUESTS, 1, 1 } }, "takes about 40 s" },
		{ "http-out-failing", { { VITALS_HTTP_OUT, 10, 10 }, { VITALS_HTTP_OUT_FAILED, 9, 9 } }, "90 %" },
		{ "http-out-queue", { { VITALS_HTTP_OUT_QUEUE, 2e9, 2e9 } }, "2 s" },
		{ "dns-slow", { { VITALS_DNS, 0, 5e9 } }, "5 s" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct vitals v;
		CLEANUP(buf_free) struct buf text = { 0 };
		healthy(&v);
		for (size_t k = 0; k < ARRAY_SIZE(cases[i].changes) && cases[i].changes[k].last > 0; k++)
			change(&v, cases[i].changes[k].id, cases[i].changes[k].first, cases[i].changes[k].last);
		struct judgement j = judged(&v, cases[i].rule);
		if (j.state != RULE_SUSPECTED)
			fail_msg("%s is not suspected: %g", cases[i].rule, j.measured);
		j.rule->say(&v, j.measured, &text);
		if (!strstr(buf_cstr(&text), cases[i].says))
			fail_msg("%s says: %s", cases[i].rule, buf_cstr(&text));
		vitals_fini(&v);
	}
}

static void load_is_no_sickness(void **state UNUSED)
{
	struct vitals v;
	healthy(&v);
	/* A long queue that moves, a busy thread among busy threads, others' CPU use, a burst that hit its CPU limit. */
	change(&v, VITALS_POOL_QUEUE, 300, 300);
	change(&v, VITALS_POOL_DONE, 100000, 100000);
	assert_int_equal(judged(&v, "pool-starved").state, RULE_OUT);
	change(&v, VITALS_CPU, 8, 8);
	change(&v, VITALS_CPU_THREAD, 0, 0.99);
	assert_int_equal(judged(&v, "cpu-one-thread").state, RULE_OUT);
	change(&v, VITALS_THROTTLED, 0.5, 0.5);
	change(&v, VITALS_THROTTLED_TIME, 0.001, 0.001);
	assert_int_equal(judged(&v, "cpu-throttled").state, RULE_OUT);
	/* A heap that grows between collections, while the process does not. */
	change(&v, VITALS_HEAP, 10 * MB, 90 * MB);
	assert_int_equal(judged(&v, "memory-growing").state, RULE_OUT);
	/* Requests in flight that are answered. */
	change(&v, VITALS_REQUESTS, 5000, 5000);
	change(&v, VITALS_REQUESTS_NOW, 300, 300);
	assert_int_equal(judged(&v, "requests-slow").state, RULE_OUT);
	/* Much CPU for many requests; a program that starts, and what it compiles and loads in bursts. */
	change(&v, VITALS_CPU, 2, 2);
	assert_int_equal(judged(&v, "cpu-per-request").state, RULE_OUT);
	change(&v, VITALS_REQUESTS, 20, 20);
	change(&v, VITALS_JITTED, 2000, 5);
	assert_int_equal(judged(&v, "cpu-per-request").state, RULE_OUT);
	assert_int_equal(judged(&v, "jit-storm").state, RULE_OUT);
	change(&v, VITALS_ASSEMBLIES, 30, 90);
	assert_int_equal(judged(&v, "assemblies-growing").state, RULE_OUT);
	/* Long polls that stay as many as they were; connections that are used again; collections that code asks for; a
	 * small heap that is nearly empty; workers that the pool adds. */
	change(&v, VITALS_HTTP_OUT, 5, 5);
	change(&v, VITALS_HTTP_OUT_NOW, 100, 102);
	assert_int_equal(judged(&v, "http-out-unanswered").state, RULE_OUT);
	change(&v, VITALS_CONNECTED, 1, 1);
	assert_int_equal(judged(&v, "http-out-connections").state, RULE_OUT);
	change(&v, VITALS_GCS_FULL, 0, 5);
	change(&v, VITALS_GCS_INDUCED, 0, 50);
	assert_int_equal(judged(&v, "gc-full").state, RULE_OUT);
	change(&v, VITALS_FRAGMENTED, 0.9, 0.9);
	change(&v, VITALS_HEAP_COMMITTED, 8 * MB, 8 * MB);
	assert_int_equal(judged(&v, "heap-holes").state, RULE_OUT);
	change(&v, VITALS_THREADS_NEW, 0, 40);
	change(&v, VITALS_POOL_THREADS, 4, 44);
	assert_int_equal(judged(&v, "threads-new").state, RULE_OUT);
	vitals_fini(&v);
}

static void assemblies_that_never_end_are_told(void **state UNUSED)
{
	struct vitals v;
	healthy(&v);
	vec_free(&v.of[VITALS_ASSEMBLIES].points);
	v.of[VITALS_ASSEMBLIES] = (struct vital){ 0 };
	for (uint64_t i = 0; i <= 10; i++)
		vitals_add(&v, VITALS_ASSEMBLIES, (1 + i) * NS_PER_S, 40 + 3 * (double)i);
	CLEANUP(buf_free) struct buf text = { 0 };
	struct judgement j = judged(&v, "assemblies-growing");
	assert_true(j.state == RULE_SUSPECTED && j.score >= VERDICT_NOTABLE);
	j.rule->say(&v, j.measured, &text);
	assert_string_equal(buf_cstr(&text),
			    "more and more assemblies are loaded: 70, 30 more than when the look began");
	vitals_fini(&v);
}

static void what_is_missing_is_not_ruled_out(void **state UNUSED)
{
	struct vitals v;
	begin(&v);
	vitals_lack(&v, VITALS_FDS, "hidden");
	struct judgement j = judged(&v, "descriptors");
	assert_int_equal(j.state, RULE_UNKNOWN);
	assert_string_equal(j.why, "hidden");
	/* But a limit that is not set is. */
	vitals_absent(&v, VITALS_MEMORY_LIMIT, "no memory limit is set");
	j = judged(&v, "memory-limit");
	assert_int_equal(j.state, RULE_OUT);
	assert_string_equal(j.why, "no memory limit is set");
	vitals_fini(&v);
}

/* ---- the plan ---- */

static bool has(const struct plan *p, const char *profiler)
{
	for (size_t i = 0; i < p->n; i++)
		if (str_eq(p->steps[i].examination->profiler, profiler))
			return true;
	return false;
}

/* Looks come last, since they are shared; whatever is listened to, the cheapest first. */
static void assert_windows_before_looks(const struct plan *p)
{
	for (size_t i = 1; i < p->n; i++) {
		const struct examination *before = p->steps[i - 1].examination, *e = p->steps[i].examination;
		assert_true(before->stops <= e->stops);
		assert_true(e->stops || before->cost <= e->cost);
		assert_true(!e->stops || !before->stops || before->leads >= e->leads);
	}
}

static void a_crash_goes_before_what_was_not_begun(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	healthy(&v);
	struct plan p = plan_make(j, judge(&v, j), &(struct plan_options){ .deep = true });
	size_t n = p.n;
	plan_insert_crash(&p, 1);
	assert_int_equal(p.n, n + 1);
	assert_string_equal(p.steps[1].examination->profiler, "crash");
	assert_string_equal(p.steps[0].examination->profiler, "memory-leaks");
	plan_insert_crash(&p, p.n + 1); /* no such place */
	assert_int_equal(p.n, n + 1);
	while (p.n < PLAN_MAX)
		plan_insert_crash(&p, p.n);
	plan_insert_crash(&p, 0); /* no room */
	assert_string_equal(p.steps[0].examination->profiler, "memory-leaks");
	vitals_fini(&v);
}

static void the_plan_follows_the_suspicions(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	healthy(&v);
	size_t n = judge(&v, j);
	struct plan p = plan_make(j, n, &(struct plan_options){ 0 });
	assert_true(p.n == 3 && has(&p, "deadlocks") && has(&p, "stuck-tasks") && has(&p, "zombie-threads"));
	p = plan_make(j, n, &(struct plan_options){ .gentle = true });
	assert_int_equal(p.n, 0);
	p = plan_make(j, n, &(struct plan_options){ .deep = true });
	assert_true(has(&p, "memory-leaks"));

	change(&v, VITALS_EXCEPTIONS, 5000, 5000);
	change(&v, VITALS_LOCK_WAITING, 0, 3);
	change(&v, VITALS_GC_PAUSED, 0, 0.06);
	n = judge(&v, j);
	p = plan_make(j, n, &(struct plan_options){ 0 });
	assert_true(p.n == 5 && has(&p, "exceptions") && has(&p, "lock-contention") && !has(&p, "gc-stats"));
	assert_windows_before_looks(&p);
	assert_string_equal(p.steps[2].examination->profiler, "stuck-tasks");
	/* One place for the collector, however much is suspected of it. */
	struct vitals leaking;
	healthy(&leaking);
	change(&leaking, VITALS_GC_PAUSED, 0, 0.3);
	change(&leaking, VITALS_GC_LONGEST, 0, 8e8);
	change(&leaking, VITALS_HEAP, 30 * MB, 50 * MB);
	change(&leaking, VITALS_RSS_ANON, 60 * MB, 80 * MB);
	struct judgement more[JUDGED_MAX];
	p = plan_make(more, judge(&leaking, more), &(struct plan_options){ 0 });
	assert_true(has(&p, "gc-stats") && has(&p, "memory-leaks") && !has(&p, "runtime-pauses"));
	/* However strong other suspicions are, what shares the looks is not crowded out. */
	change(&leaking, VITALS_EXCEPTIONS, 5000, 5000);
	change(&leaking, VITALS_LOCK_WAITING, 0, 3);
	p = plan_make(more, judge(&leaking, more), &(struct plan_options){ 0 });
	assert_true(p.n == 6 && has(&p, "exceptions") && has(&p, "memory-leaks"));
	vitals_fini(&leaking);
	healthy(&leaking);
	change(&leaking, VITALS_GC_PAUSED, 0, 0.3);
	change(&leaking, VITALS_HEAP, 30 * MB, 50 * MB);
	change(&leaking, VITALS_RSS_ANON, 60 * MB, 80 * MB);
	p = plan_make(more, judge(&leaking, more), &(struct plan_options){ 0 });
	/* Growth takes the most looks: the others share them. */
	assert_windows_before_looks(&p);
	assert_string_equal(p.steps[1].examination->profiler, "memory-leaks");
	vitals_fini(&leaking);
	p = plan_make(j, n, &(struct plan_options){ .gentle = true });
	assert_true(p.n == 3 && has(&p, "gc-stats") && !has(&p, "deadlocks"));
	for (size_t i = 0; i < p.n; i++)
		assert_false(p.steps[i].examination->stops);
	vitals_fini(&v);
}

/* ---- the verdict ---- */

/* The thread that the runtime compiles on is none that never rests; the next one may be. */
static void the_compiler_is_no_restless_thread(void **state UNUSED)
{
	struct vitals v;
	healthy(&v);
	change(&v, VITALS_CPU, 0.9, 0.9);
	v.n_threads = 2;
	v.threads[0] = (struct vitals_thread){ .tid = 7, .name = ".NET Tiered Com", .cpu = 0.3, .wants = 0.98 };
	v.threads[1] = (struct vitals_thread){ .tid = 8, .name = "loop", .cpu = 0.3, .wants = 0.3 };
	assert_int_equal(judged(&v, "cpu-one-thread").state, RULE_OUT);
	v.threads[1].wants = 0.97; /* it waits for a CPU, and others of the process have more of it */
	assert_int_equal(judged(&v, "cpu-one-thread").state, RULE_OUT);
	v.threads[1].cpu = 0.6;
	CLEANUP(buf_free) struct buf text = { 0 };
	struct judgement j = judged(&v, "cpu-one-thread");
	assert_int_equal(j.state, RULE_SUSPECTED);
	j.rule->say(&v, j.measured, &text);
	assert_non_null(strstr(buf_cstr(&text), "one thread (8) computes"));
	vitals_fini(&v);
}

/* That others have the CPU is as serious as what it hides, which may be little. */
static void the_machine_is_no_cause(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	const struct outcome outcome = { .profiler = "cpu-hotpaths", .finding = "starved", .severity = 80 };
	healthy(&v);
	change(&v, VITALS_CPU, 0.8, 0.8);
	change(&v, VITALS_CPU_THREAD, 0, 0.71);
	verdict_make(j, judge(&v, j), &outcome, 1, &verdict);
	assert_true(verdict.n && verdict.findings[0].role == FINDING_ALSO &&
		    verdict.findings[0].severity < VERDICT_NOTABLE);
	change(&v, VITALS_CPU_THREAD, 0, 0.99);
	verdict_make(j, judge(&v, j), &outcome, 1, &verdict);
	assert_string_equal(verdict.findings[0].id, "cpu-hotpaths.starved");
	assert_int_equal(verdict.findings[0].role, FINDING_CAUSE);
	vitals_fini(&v);
}

/* First the one, then what it brings about, however serious each is. */
static void causes_of_the_field(void **state UNUSED)
{
	static const struct {
		struct outcome cause, effect;
	} cases[] = {
		{ { .profiler = "deadlocks", .finding = "finalizer-blocked", .severity = 80 },
		  { .profiler = "memory-leaks", .finding = "finalizers-behind", .severity = 95 } },
		{ { .profiler = "stuck-tasks", .finding = "stuck", .severity = 80 },
		  { .profiler = "memory-leaks", .finding = "leak", .severity = 95 } },
		{ { .profiler = "allocations", .finding = "large-objects", .severity = 80 },
		  { .profiler = "gc-stats", .finding = "frequent-full-collections", .severity = 95 } },
		{ { .profiler = "loader", .finding = "contexts-leak", .severity = 95 },
		  { .profiler = "memory-leaks", .finding = "grows-elsewhere", .severity = 80 } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct outcome outcomes[] = { cases[i].effect, cases[i].cause };
		struct verdict verdict;
		verdict_make(NULL, 0, outcomes, 2, &verdict);
		assert_int_equal(verdict.n, 2);
		assert_ptr_equal(verdict.findings[0].outcome, &outcomes[1]);
		assert_int_equal(verdict.findings[1].role, FINDING_EFFECT);
	}
}

/* While others have the CPU, pauses are as long as that lasts: a lock that is never given back is said before them. */
static void pauses_without_a_cpu_are_no_cause(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	const struct outcome outcomes[] = { { .profiler = "runtime-pauses", .finding = "long-pauses", .severity = 95 },
					    { .profiler = "deadlocks", .finding = "held-long", .severity = 80 } };
	healthy(&v);
	verdict_make(j, judge(&v, j), outcomes, 2, &verdict);
	assert_string_equal(verdict.findings[0].id, "runtime-pauses.long-pauses");
	change(&v, VITALS_CPU_WAITING, 4, 4);
	verdict_make(j, judge(&v, j), outcomes, 2, &verdict);
	assert_string_equal(verdict.findings[0].id, "deadlocks.held-long");
	vitals_fini(&v);
}

static void the_cause_comes_before_its_effects(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	healthy(&v);
	change(&v, VITALS_POOL_QUEUE, 40, 400);
	change(&v, VITALS_POOL_STARVED, 0, 6);
	change(&v, VITALS_POOL_DONE, 2, 2);
	change(&v, VITALS_REQUESTS_NOW, 40, 40);
	change(&v, VITALS_REQUESTS, 1, 1);
	change(&v, VITALS_FDS_INOTIFY, 80, 80);
	size_t n = judge(&v, j);
	const struct outcome outcomes[] = { { .profiler = "thread-pool", .finding = "starvation", .severity = 95 },
					    { .profiler = "deadlocks", .finding = "nothing-found", .severity = 0 } };
	verdict_make(j, n, outcomes, ARRAY_SIZE(outcomes), &verdict);
	assert_string_equal(verdict.findings[0].id, "thread-pool.starvation");
	assert_int_equal(verdict.findings[0].role, FINDING_CAUSE);
	assert_int_equal(verdict.findings[0].confidence, FINDING_CERTAIN);
	assert_string_equal(verdict.findings[1].id, "pool-starved");
	assert_int_equal(verdict.findings[1].role, FINDING_EFFECT);
	assert_string_equal(verdict.findings[2].id, "requests-slow");
	assert_int_equal(verdict.findings[2].role, FINDING_EFFECT);
	assert_string_equal(verdict.findings[3].id, "inotify");
	assert_int_equal(verdict.findings[3].role, FINDING_ALSO);
	assert_int_equal(verdict.n, 4);

	/* The same with the deadlock behind it. */
	const struct outcome deadlock[] = { { .profiler = "thread-pool", .finding = "starvation", .severity = 95 },
					    { .profiler = "deadlocks", .finding = "deadlock", .severity = 95 } };
	verdict_make(j, n, deadlock, ARRAY_SIZE(deadlock), &verdict);
	assert_string_equal(verdict.findings[0].id, "deadlocks.deadlock");
	assert_int_equal(verdict.findings[1].role, FINDING_EFFECT);
	vitals_fini(&v);
}

static void what_is_not_confirmed_is_not_named_first(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	healthy(&v);
	change(&v, VITALS_LOCK_WAITING, 0, 5);
	size_t n = judge(&v, j);
	verdict_make(j, n, NULL, 0, &verdict);
	assert_true(verdict.n == 1 && verdict.findings[0].role == FINDING_CAUSE);
	assert_int_equal(verdict.findings[0].confidence, FINDING_PROBABLE);
	const struct outcome calm = { .profiler = "lock-contention", .finding = "nothing-found" };
	verdict_make(j, n, &calm, 1, &verdict);
	assert_true(verdict.n == 1 && verdict.findings[0].role == FINDING_ALSO);
	assert_int_equal(verdict.findings[0].confidence, FINDING_DOUBTFUL);
	/* One that could not be examined stays as it was. */
	const struct outcome denied = { .profiler = "lock-contention", .why = "denied" };
	verdict_make(j, n, &denied, 1, &verdict);
	assert_int_equal(verdict.findings[0].role, FINDING_CAUSE);
	vitals_fini(&v);
}

static void a_suspicion_lends_its_weight(void **state UNUSED)
{
	struct vitals v;
	struct judgement j[JUDGED_MAX];
	struct verdict verdict;
	healthy(&v);
	const struct outcome path = { .profiler = "cpu-hotpaths", .finding = "hot-path", .severity = 40 };
	size_t n = judge(&v, j);
	verdict_make(j, n, &path, 1, &verdict);
	assert_int_equal(verdict.n, 0); /* nobody asked */
	change(&v, VITALS_CPU_RATIO, 0.97, 0.97);
	n = judge(&v, j);
	verdict_make(j, n, &path, 1, &verdict);
	assert_string_equal(verdict.findings[0].id, "cpu-hotpaths.hot-path");
	assert_int_equal(verdict.findings[0].role, FINDING_CAUSE);
	assert_int_equal(verdict.findings[0].severity, SCORE_WARNING - 1); /* to compute is no sickness */
	vitals_fini(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_are_whole),
		cmocka_unit_test(the_score_rises_with_what_is_measured),
		cmocka_unit_test(a_healthy_process_arouses_no_suspicion),
		cmocka_unit_test(each_sickness_arouses_its_suspicion),
		cmocka_unit_test(load_is_no_sickness),
		cmocka_unit_test(what_is_missing_is_not_ruled_out),
		cmocka_unit_test(the_plan_follows_the_suspicions),
		cmocka_unit_test(a_crash_goes_before_what_was_not_begun),
		cmocka_unit_test(assemblies_that_never_end_are_told),
		cmocka_unit_test(the_compiler_is_no_restless_thread),
		cmocka_unit_test(the_machine_is_no_cause),
		cmocka_unit_test(causes_of_the_field),
		cmocka_unit_test(pauses_without_a_cpu_are_no_cause),
		cmocka_unit_test(the_cause_comes_before_its_effects),
		cmocka_unit_test(what_is_not_confirmed_is_not_named_first),
		cmocka_unit_test(a_suspicion_lends_its_weight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
