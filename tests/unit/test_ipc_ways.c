#include "unit.h"

#include "ipc/rights.h"
#include <errno.h>
#include <linux/capability.h>

static void test_way_words(void **state)
{
	(void)state;
	for (int way = 0; way < WAY_COUNT; way++) {
		enum way back;
		assert_ok(way_parse(way_name(way), &back));
		assert_int_equal(back, way);
	}
	enum way way;
	assert_ok(way_parse("Events", &way));
	assert_err(way_parse("telepathy", &way), ERR_USAGE);
}

static struct patient a_patient(void)
{
	static char user[] = "shop";
	return (struct patient){ .target = { .id = 9, .pid = 9, .uid = 1000, .user = user } };
}

#define assert_closed(check, part_of_why, part_of_fix)                                                                 \
	do {                                                                                                           \
		assert_false((check).open);                                                                            \
		if (!strstr((check).why, part_of_why) || !strstr((check).fix, part_of_fix))                            \
			fail_msg("why: %s\nfix: %s", (check).why, (check).fix);                                        \
		way_check_fini(&(check));                                                                              \
	} while (0)
#define assert_open(check, part_of_how)                                                                                \
	do {                                                                                                           \
		assert_true((check).open);                                                                             \
		if (!strstr((check).how, part_of_how))                                                                 \
			fail_msg("how: %s", (check).how);                                                              \
		way_check_fini(&(check));                                                                              \
	} while (0)

static void test_judge_events(void **state)
{
	(void)state;
	struct patient p = a_patient();
	struct rights r = { .uid = 1001 };
	struct ipc_process_info info = { 0 };
	struct way_check c;
	rights_judge_events(&p, &r, NULL, &info, &c);
	assert_open(c, "answers");

	CLEANUP(err_freep) struct err *denied = err_new(ERR_DENIED, "no");
	rights_judge_events(&p, &r, denied, &info, &c);
	assert_closed(c, "its own user", "root or as user shop");
	r.uid = 0;
	rights_judge_events(&p, &r, denied, &info, &c);
	assert_closed(c, "file system", "--cap-add SYS_PTRACE");

	CLEANUP(err_freep) struct err *silent = err_new(ERR_TIMEOUT, "no");
	rights_judge_events(&p, &r, silent, &info, &c);
	assert_closed(c, "does not answer", "stuck");
	p.target.stopped = true;
	rights_judge_events(&p, &r, silent, &info, &c);
	assert_closed(c, "SIGSTOP", "kill -CONT 9");
	p.target.tracer = 12;
	rights_judge_events(&p, &r, silent, &info, &c);
	assert_closed(c, "debugger", "12");

	static const struct {
		enum target_socket socket;
		const char *why, *fix;
	} sockets[] = {
		{ TARGET_SOCKET_DISABLED, "switched off", "DOTNET_EnableDiagnostics=0" },
		{ TARGET_SOCKET_AOT, "NativeAOT", "EventSourceSupport" },
		{ TARGET_SOCKET_MISSING, "no longer", "restart" },
		{ TARGET_SOCKET_STARTING, "a moment ago", "try again" },
		{ TARGET_SOCKET_HIDDEN, "file system", "SYS_PTRACE" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		p.target.socket_state = sockets[i].socket;
		rights_judge_events(&p, &r, silent, &info, &c);
		assert_closed(c, sockets[i].why, sockets[i].fix);
	}
}

static void test_judge_samples(void **state)
{
	(void)state;
	struct patient p = a_patient();
	struct rights r = { .uid = 1000, .paranoid = 2 };
	struct way_check c;
	rights_judge_samples(&p, &r, true, &c);
	assert_open(c, "user and kernel frames");
	r.kptr_restrict = 1;
	rights_judge_samples(&p, &r, false, &c);
	assert_open(c, "managed frames without names");
	r.caps = (uint64_t)1 << CAP_SYSLOG;
	rights_judge_samples(&p, &r, true, &c);
	assert_open(c, "time off the CPU");
	r.perf_kernel_err = EACCES;
	rights_judge_samples(&p, &r, true, &c);
	assert_open(c, "user frames; kernel frames");

	r.perf_user_err = EACCES;
	r.uid = 1001;
	rights_judge_samples(&p, &r, true, &c);
	assert_closed(c, "another user (shop)", "root or as user shop");
	r.paranoid = 4;
	rights_judge_samples(&p, &r, true, &c);
	assert_closed(c, "perf_event_paranoid is 4", "sysctl kernel.perf_event_paranoid=2");
	r.seccomp = true;
	r.perf_user_err = EPERM;
	rights_judge_samples(&p, &r, true, &c);
	assert_closed(c, "seccomp", "--cap-add PERFMON");
	r.paranoid = -1;
	rights_judge_samples(&p, &r, true, &c);
	assert_closed(c, "no perf events", "CONFIG_PERF_EVENTS");
	p.target.pid = 0;
	rights_judge_samples(&p, &r, true, &c);
	assert_closed(c, "pid namespace", "shareProcessNamespace: true");
}

static void test_judge_image(void **state)
{
	(void)state;
	struct patient p = a_patient();
	char why[] = "its cgroup has only 3 MB left", fix[] = "give its cgroup more memory";
	struct rights r = { .uid = 1000, .ptrace_scope = -1, .ptrace_err = ESRCH, .copy_pause_ns = 9000000 };
	struct way_check c;
	rights_judge_image(&p, &r, &c);
	assert_open(c, "copy of its memory in a pause of about 9 ms");
	r.filter = IMAGE_FILTER_READABLE;
	rights_judge_image(&p, &r, &c);
	assert_open(c, "if its seccomp filter allows that: an examination reads it first");
	r.filter = IMAGE_FILTER_NONE;
	r.copy_why = why;
	r.copy_fix = fix;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "only 3 MB left", "more memory");
	r.copy_why = r.copy_fix = NULL;
	r.ptrace_err = EPERM;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "seccomp profile", "SYS_PTRACE");

	r.memory_err = EACCES;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "lack the right", "--cap-add SYS_PTRACE");
	r.ptrace_scope = 1;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "ptrace_scope is 1", "sysctl kernel.yama.ptrace_scope=0");
	r.ptrace_scope = 2;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "ptrace_scope is 2", "CAP_SYS_PTRACE");
	r.uid = 1001;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "another user", "root");
	r.caps = (uint64_t)1 << CAP_SYS_PTRACE;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "user namespace", "host");
	r.ptrace_scope = 3;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "until the next boot", "boot");
	p.target.tracer = 12;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "debugger", "detach process 12");
	p.target.socket_state = TARGET_SOCKET_AOT;
	rights_judge_image(&p, &r, &c);
	assert_closed(c, "NativeAOT", "PublishAot");
}

static void test_judge_agent(void **state)
{
	(void)state;
	static char tmp[] = "/tmp", clsid[] = "{846F5F1C}";
	struct rights r = { .folder = tmp };
	struct way_check c;
	rights_judge_agent(&r, true, &c);
	assert_open(c, "/tmp");
	r.profiler = clsid;
	rights_judge_agent(&r, true, &c);
	assert_open(c, "beside the profiler it was started with");
	r.profiler = NULL;
	r.filter = IMAGE_FILTER_READABLE;
	rights_judge_agent(&r, true, &c);
	assert_open(c, "if its seccomp filter allows that: an examination reads it first");
	r.filter = IMAGE_FILTER_HIDDEN;
	rights_judge_agent(&r, true, &c);
	assert_open(c, "cannot be read from here");
	r.filter = IMAGE_FILTER_NONE;
	r.folder = NULL;
	rights_judge_agent(&r, true, &c);
	assert_closed(c, "no folder", "shared volume");
	static char noexec[] = "mounted noexec";
	r.folder_noexec = true;
	r.folder_why = noexec;
	rights_judge_agent(&r, true, &c);
	assert_closed(c, "noexec", "noexec");
	r.attach_off = true;
	rights_judge_agent(&r, true, &c);
	assert_closed(c, "no profilers", "DOTNET_EnableDiagnostics_Profiler=0");
	rights_judge_agent(&r, false, &c);
	assert_closed(c, "diagnostics socket", "events");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_way_words),     cmocka_unit_test(test_judge_events),
		cmocka_unit_test(test_judge_samples), cmocka_unit_test(test_judge_image),
		cmocka_unit_test(test_judge_agent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
