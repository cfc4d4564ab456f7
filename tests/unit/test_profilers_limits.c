#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "exam_fixture.h"
#include "profilers/limits.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB ((uint64_t)1 << 20)

/* ---- trends ---- */

static double trend(const double *values, size_t n, uint64_t every_ns)
{
	uint64_t at_ns[16];
	for (size_t i = 0; i < n; i++)
		at_ns[i] = NS_PER_S + i * every_ns;
	return limits_trend(at_ns, values, n);
}

static void a_steady_growth_has_a_slope(void **state UNUSED)
{
	assert_float_equal(trend((const double[]){ 100, 200, 300, 400, 500 }, 5, 5 * NS_PER_S), 20, 1e-9);
	/* A little back is no end of it. */
	assert_float_equal(trend((const double[]){ 100, 210, 200, 400, 500 }, 5, 5 * NS_PER_S), 20, 1e-9);
}

static void what_is_no_trend_has_none(void **state UNUSED)
{
	/* two looks; too short; level; down; all at once; a saw */
	assert_true(isnan(trend((const double[]){ 100, 200 }, 2, 20 * NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 100, 200, 300 }, 3, NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 100, 100, 100, 100 }, 4, 5 * NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 400, 300, 200, 100 }, 4, 5 * NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 100, 100, 100, 500, 500 }, 5, 5 * NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 100, 500, 500, 500, 500 }, 5, 5 * NS_PER_S)));
	assert_true(isnan(trend((const double[]){ 100, 400, 150, 450, 200 }, 5, 5 * NS_PER_S)));
}

/* ---- reports ---- */

/* A look as a recording keeps it: a group with a limit of memory. */
static json_t *look_at(uint64_t at_ns, uint64_t used, uint64_t limit, uint64_t kills, uint64_t rss)
{
	json_t *of = json_pack("{s:I, s:I, s:I, s:I}", "memory-used", (json_int_t)used, "memory-limit",
			       (json_int_t)limit, "memory-idle", (json_int_t)0, "memory-kills", (json_int_t)kills);
	json_t *level = json_pack("{s:s, s:s, s:b, s:o}", "kind", "memory", "path", "/pod/app", "v2", 1, "of", of);
	return json_pack("{s:I, s:{s:I, s:I, s:I}, s:{s:b, s:[o]}}", "at_ns", (json_int_t)at_ns, "of", "fds",
			 (json_int_t)100, "fds-limit", (json_int_t)1000, "rss", (json_int_t)rss, "groups", "hidden", 0,
			 "levels", level);
}

struct course {
	uint64_t used[4], limit, kills[4], rss;
	uint64_t age_ns;
};

static void examine(struct fixture *f, const struct course *c)
{
	json_t *looks = json_array(), *age = json_integer((json_int_t)c->age_ns);
	fixture_begin(f);
	f->way = WAY_PROC;
	fixture_window(f->recording, 30000 * MS);
	for (size_t i = 0; i < 4; i++)
		json_array_append_new(
			looks, look_at(WINDOW_START + i * 10000 * MS, c->used[i], c->limit, c->kills[i], c->rss));
	recording_set_fact(f->recording, "limits", looks);
	if (c->age_ns)
		recording_set_fact(f->recording, "process_age_ns", age);
	json_decref(looks);
	json_decref(age);
	fixture_examine(f, "limits");
}

static void assert_found(const struct course *c, const char *finding, enum report_health health, const char *words)
{
	struct fixture f;
	examine(&f, c);
	fixture_expect(f.report, finding, health, words);
	fixture_end(&f);
}

static void what_is_far_away_is_no_finding(void **state UNUSED)
{
	assert_found(
		&(struct course){
			.used = { 200 * MB, 200 * MB, 201 * MB, 200 * MB }, .limit = 512 * MB, .rss = 190 * MB },
		"nothing-found", REPORT_OK, "the nearest limit is memory of its control group, 39 % of which is used");
}

static void what_is_nearly_used_up_is_named(void **state UNUSED)
{
	assert_found(&(struct course){ .used = { 470 * MB, 471 * MB, 470 * MB, 470 * MB },
				       .limit = 512 * MB,
				       .rss = 460 * MB },
		     "near-limit", REPORT_WARN, "470 MB of 512 MB, /pod/app");
	assert_found(&(struct course){ .used = { 510 * MB, 510 * MB, 510 * MB, 510 * MB },
				       .limit = 512 * MB,
				       .rss = 460 * MB },
		     "near-limit", REPORT_BAD, "memory of its control group");
	/* Others have used it. */
	assert_found(&(struct course){ .used = { 510 * MB, 510 * MB, 510 * MB, 510 * MB },
				       .limit = 512 * MB,
				       .rss = 40 * MB },
		     "near-limit", REPORT_INFO, "7.8 % of it is this process's");
}

static void a_growth_that_gets_there_says_when(void **state UNUSED)
{
	struct course c = { .used = { 300 * MB, 330 * MB, 360 * MB, 390 * MB }, .limit = 480 * MB, .rss = 380 * MB };
	assert_found(&c, "runs-out", REPORT_WARN, "used up in about 30 s if it goes on so");
	/* One that has just begun takes memory for the first time. */
	c.age_ns = 20 * NS_PER_S;
	assert_found(&c, "nothing-found", REPORT_OK, "No problem here");
}

static void who_was_killed_is_told(void **state UNUSED)
{
	struct course c = { .used = { 200 * MB, 200 * MB, 200 * MB, 200 * MB },
			    .limit = 512 * MB,
			    .kills = { 1, 1, 3, 3 } };
	assert_found(&c, "killed", REPORT_BAD, "2 processes were killed for lack of memory in 30 s");
	c.kills[0] = c.kills[1] = 3;
	assert_found(&c, "killed-before", REPORT_INFO,
		     "3 processes were killed for lack of memory since its control group");
}

static void damaged_looks_are_bounded(void **state UNUSED)
{
	static const char *const texts[] = {
		"[1, {\"at_ns\":-7, \"of\":{\"fds\":\"x\",\"fds-limit\":0}, \"groups\":{\"levels\":[3,{\"kind\":\"cpu\"},"
		"{\"kind\":\"memory\",\"of\":{\"memory-limit\":0,\"memory-used\":9}}]}, \"ports_to\":7}]",
		"[]",
	};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct fixture f;
		json_t *json;
		fixture_begin(&f);
		f.way = WAY_PROC;
		fixture_window(f.recording, 1000 * MS);
		assert_ok(json_parse(texts[i], strlen(texts[i]), 4096, &json));
		recording_set_fact(f.recording, "limits", json);
		json_decref(json);
		fixture_examine(&f, "limits");
		assert_non_null(report_finding(f.report));
		fixture_end(&f);
	}
}

/* ---- the kernel's files: a /proc of our own ---- */

static void put(const char *root, const char *name, const char *text)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const struct group_level *level(const struct limits_look *look, enum group_kind kind, const char *path)
{
	vec_each(g, &look->groups.levels) {
		if (g->kind == kind && str_eq(g->path, path))
			return g;
	}
	fail_msg("no level %s", path);
	return NULL;
}

/* As a pod of Kubernetes has them. */
static void every_level_of_version_2_is_read(void **state UNUSED)
{
	char root[] = "/tmp/drdotnet-limits-XXXXXX";
	assert_non_null(mkdtemp(root));
	struct target t = { .pid = getpid(), .uid = getuid() };
	struct limits_look look;
	CLEANUP(mem_freep) char *mounts = mem_printf("30 20 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
	CLEANUP(mem_freep) char *cgroup = mem_printf("%d/cgroup", (int)getpid());
	CLEANUP(mem_freep) char *limits = mem_printf("%d/limits", (int)getpid());
	put(root, cgroup, "0::/kube/pod/app\n");
	put(root, "self/mountinfo", mounts);
	put(root, limits, "Limit   Soft Limit  Hard Limit Units\nMax open files            1024        4096   files\n");
	put(root, "cg/kube/pod/app/memory.max", "536870912\n");
	put(root, "cg/kube/pod/app/memory.current", "300000000\n");
	put(root, "cg/kube/pod/app/memory.high", "max\n");
	put(root, "cg/kube/pod/app/memory.swap.max", "0\n");
	put(root, "cg/kube/pod/app/memory.stat",
	    "anon 200000000\nfile 90000000\nkernel 10000000\nshmem 5000\nfile_mapped 3\ninactive_file 60000000\n");
	put(root, "cg/kube/pod/app/memory.events", "low 0\nhigh 4\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n");
	put(root, "cg/kube/pod/app/memory.pressure",
	    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0 total=9\n");
	put(root, "cg/kube/pod/app/cpu.max", "150000 100000\n");
	put(root, "cg/kube/pod/app/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 30\nthrottled_usec 7\n");
	put(root, "cg/kube/pod/app/pids.max", "100\n");
	put(root, "cg/kube/pod/app/pids.current", "31\n");
	put(root, "cg/kube/pod/app/pids.events", "max 3\n");
	put(root, "cg/kube/pod/memory.max", "268435456\n");
	put(root, "cg/kube/pod/memory.current", "250000000\n");
	put(root, "cg/kube/memory.max", "max\n");
	put(root, "cg/kube/memory.current", "900000000\n");
	limits_look(root, &t, false, &look);
	const struct group_level *app = level(&look, GROUP_MEMORY, "/kube/pod/app");
	assert_true(app->v2 && app->of[GROUP_MEMORY_LIMIT] == 536870912 && app->of[GROUP_MEMORY_HIGH] == GROUP_NONE);
	assert_true(app->of[GROUP_MEMORY_SWAP_LIMIT] == 0 && app->of[GROUP_MEMORY_PEAK] == GROUP_NONE);
	assert_true(app->of[GROUP_MEMORY_ANON] == 200000000 && app->of[GROUP_MEMORY_FILE] == 90000000);
	assert_true(app->of[GROUP_MEMORY_SHMEM] == 5000 && app->of[GROUP_MEMORY_KERNEL] == 10000000);
	assert_true(app->of[GROUP_MEMORY_REACHED] == 17 && app->of[GROUP_MEMORY_SLOWED] == 4 &&
		    app->of[GROUP_MEMORY_KILLS] == 1 && app->of[GROUP_MEMORY_STALL_NS] == 1234000);
	assert_true(group_memory(app) == 240000000);
	assert_true(level(&look, GROUP_PIDS, "/kube/pod/app")->of[GROUP_PIDS_REFUSED] == 3);
	assert_float_equal(group_cpus(level(&look, GROUP_CPU, "/kube/pod/app")), 1.5, 1e-9);
	assert_int_equal(level(&look, GROUP_CPU, "/kube/pod/app")->of[GROUP_CPU_STOPPED_NS], 7000);
	/* The least of all levels is what counts; one without a limit is none. */
	assert_string_equal(groups_least(&look.groups, GROUP_MEMORY)->path, "/kube/pod");
	assert_int_equal(level(&look, GROUP_MEMORY, "/kube")->of[GROUP_MEMORY_LIMIT], GROUP_NONE);
	assert_int_equal(look.of[LIMITS_FDS_LIMIT], 1024);
	assert_int_equal(look.of[LIMITS_FDS], LIMITS_NONE);
	limits_look_fini(&look);
	assert_ok(dir_remove(root));
}

static void a_limit_of_version_1_that_is_none(void **state UNUSED)
{
	char root[] = "/tmp/drdotnet-limits-XXXXXX";
	assert_non_null(mkdtemp(root));
	struct target t = { .pid = getpid(), .uid = getuid() };
	struct limits_look look;
	CLEANUP(mem_freep) char *mounts = mem_printf("31 20 0:27 / %s/memory rw - cgroup cgroup rw,memory\n", root);
	CLEANUP(mem_freep) char *cgroup = mem_printf("%d/cgroup", (int)getpid());
	put(root, cgroup, "4:memory:/docker/abc\n");
	put(root, "self/mountinfo", mounts);
	put(root, "memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "memory/docker/abc/memory.usage_in_bytes", "300000\n");
	put(root, "memory/docker/memory.limit_in_bytes", "400000\n");
	put(root, "memory/docker/memory.usage_in_bytes", "350000\n");
	put(root, "memory/docker/memory.stat",
	    "cache 9\nrss 1\ntotal_cache 100000\ntotal_rss 200000\ntotal_inactive_file 50000\n");
	put(root, "memory/docker/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
	limits_look(root, &t, false, &look);
	assert_int_equal(level(&look, GROUP_MEMORY, "/docker/abc")->of[GROUP_MEMORY_LIMIT], GROUP_NONE);
	const struct group_level *docker = groups_least(&look.groups, GROUP_MEMORY);
	assert_string_equal(docker->path, "/docker");
	assert_true(docker->of[GROUP_MEMORY_KILLS] == 2 && docker->of[GROUP_MEMORY_ANON] == 200000);
	assert_true(group_memory(docker) == 300000 && !docker->v2);
	limits_look_fini(&look);
	assert_ok(dir_remove(root));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_steady_growth_has_a_slope),
		cmocka_unit_test(what_is_no_trend_has_none),
		cmocka_unit_test(what_is_far_away_is_no_finding),
		cmocka_unit_test(what_is_nearly_used_up_is_named),
		cmocka_unit_test(a_growth_that_gets_there_says_when),
		cmocka_unit_test(who_was_killed_is_told),
		cmocka_unit_test(damaged_looks_are_bounded),
		cmocka_unit_test(every_level_of_version_2_is_read),
		cmocka_unit_test(a_limit_of_version_1_that_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
