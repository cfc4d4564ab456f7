/* Going first: our own priority, and what a thread of another process inherits of it. Without the right to either, that nothing is
 * changed. */
#include "unit.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/hurry.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 60000

/* As the kernel would schedule it now: 20 and its niceness; below 0 in real time. */
static int priority_of(pid_t pid)
{
	char path[64];
	int priority = 0;
	CLEANUP(buf_free) struct buf text = { 0 };
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	assert_ok(file_read(path, 4096, &text));
	const char *end = strrchr(buf_cstr(&text), ')');
	assert_non_null(end);
	assert_int_equal(sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %d", &priority),
			 1);
	return priority;
}

static bool becomes(pid_t pid, bool realtime)
{
	for (struct deadline d = deadline_in_ms(LONG_MS); !deadline_passed(d); usleep(1000))
		if ((priority_of(pid) < 0) == realtime)
			return true;
	return false;
}

static pid_t sleeper(void)
{
	pid_t pid = fork();
	if (!pid)
		for (;;)
			pause();
	return pid;
}

static void block_reports(void)
{
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	hurry_prepare();
}

/* Waits for it in vain, after it has told how. */
static pid_t waiter(pid_t of, enum hurry_kind *ret)
{
	int line[2];
	assert_int_equal(pipe(line), 0);
	pid_t pid = fork();
	if (!pid) {
		block_reports();
		enum hurry_kind kind = hurry_begin();
		if (write(line[1], &kind, sizeof(kind)) != sizeof(kind))
			_exit(1);
		for (;;) {
			hurry_aim(of);
			hurry_wait(DEADLINE_NEVER);
		}
	}
	assert_int_equal(read(line[0], ret, sizeof(*ret)), sizeof(*ret));
	close(line[0]);
	close(line[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_our_death_takes_it_back(void **state)
{
	(void)state;
	enum hurry_kind kind;
	pid_t thread = sleeper(), us = waiter(thread, &kind);
	if (kind == HURRY_REALTIME)
		assert_true(becomes(thread, true));
	end(us);
	assert_true(becomes(thread, false));
	end(thread);
}

static void test_of_two_waits_the_last_one_counts(void **state)
{
	(void)state;
	enum hurry_kind kind;
	pid_t thread = sleeper(), first = waiter(thread, &kind), second = waiter(thread, &kind);
	end(first);
	if (kind == HURRY_REALTIME)
		assert_true(becomes(thread, true));
	end(second);
	assert_true(becomes(thread, false));
	end(thread);
}

/* A report ends the wait, also one that came before it; so does the end of the thread. */
static void wait_for_its_end(bool before)
{
	block_reports();
	pid_t thread = fork();
	if (!thread) {
		if (!before)
			usleep(20000);
		_exit(0);
	}
	siginfo_t info;
	if (before)
		assert_int_equal(waitid(P_PID, (id_t)thread, &info, WEXITED | WNOWAIT), 0);
	hurry_begin();
	struct deadline d = deadline_in_ms(LONG_MS);
	for (pid_t got = 0; !got && !deadline_passed(d);) {
		hurry_aim(thread);
		got = waitpid(thread, NULL, WNOHANG);
		if (!got)
			hurry_wait(d);
	}
	hurry_end();
	assert_false(deadline_passed(d));
}

static void test_a_report_ends_the_wait(void **state)
{
	(void)state;
	wait_for_its_end(false);
	wait_for_its_end(true);
}

static void test_the_deadline_ends_the_wait(void **state)
{
	(void)state;
	pid_t thread = sleeper();
	block_reports();
	hurry_begin();
	struct deadline d = deadline_in_ms(20);
	while (!deadline_passed(d)) {
		hurry_aim(thread);
		hurry_wait(d);
	}
	hurry_end();
	end(thread);
}

/* Each in a process of its own, since a test that fails would leave the others first. */
static void test_it_ends_as_it_began(void **state)
{
	(void)state;
	static const int policies[] = { SCHED_OTHER, SCHED_BATCH, SCHED_IDLE };
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		pid_t pid = fork();
		if (!pid) {
			const struct sched_param none = { 0 };
			bool ok = !setpriority(PRIO_PROCESS, 0, 7) && !sched_setscheduler(0, policies[i], &none);
			enum hurry_kind kind = hurry_begin();
			ok &= kind == hurry_begin() && hurry_lends() == (kind == HURRY_REALTIME);
			ok &= (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) ==
			      (kind == HURRY_REALTIME ? SCHED_RR : policies[i]);
			hurry_end();
			hurry_end();
			ok &= (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) == policies[i];
			_exit(ok && getpriority(PRIO_PROCESS, 0) == 7 && !hurry_lends() ? 0 : 1);
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_our_death_takes_it_back), cmocka_unit_test(test_of_two_waits_the_last_one_counts),
		cmocka_unit_test(test_a_report_ends_the_wait),	cmocka_unit_test(test_the_deadline_ends_the_wait),
		cmocka_unit_test(test_it_ends_as_it_began),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
