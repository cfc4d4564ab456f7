/* Rights over files that are put aside and come back. All of it needs root. */

#include "unit.h"

#include "base/fd.h"
#include "base/fsuser.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const struct fsuser other = { .uid = 4711, .gid = 4712 };

/* All that a thread may lose. */
struct self {
	int uid, gid, n_groups, death_signal, dumpable;
	gid_t groups[64];
	struct __user_cap_data_struct caps[2];
};

static struct self look(void)
{
	struct self s;
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	memset(&s, 0, sizeof(s));
	s.uid = setfsuid((uid_t)-1);
	s.gid = setfsgid((gid_t)-1);
	s.n_groups = getgroups(64, s.groups);
	s.dumpable = prctl(PR_GET_DUMPABLE);
	prctl(PR_GET_PDEATHSIG, &s.death_signal);
	syscall(SYS_capget, &head, s.caps);
	return s;
}

static void leave_out(int cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	syscall(SYS_capget, &head, caps);
	caps[CAP_TO_INDEX(cap)].effective &= ~CAP_TO_MASK(cap);
	caps[CAP_TO_INDEX(cap)].permitted &= ~CAP_TO_MASK(cap);
	assert_int_equal(syscall(SYS_capset, &head, caps), 0);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void it_ends_as_it_began(void **state UNUSED)
{
	need_root();
	const gid_t groups[] = { 7, 8, 9 };
	struct self at_first = look();
	assert_int_equal(syscall(SYS_setgroups, 3, groups), 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	struct self before = look();
	{
		FSUSER_HELD held = { 0 };
		assert_ok(fsuser_begin(&other, &held));
		struct self now = look();
		assert_int_equal(fsuser_uid(), other.uid);
		assert_int_equal(now.gid, other.gid);
		assert_int_equal(now.n_groups, 0);
		assert_false(now.caps[0].effective & (CAP_TO_MASK(CAP_DAC_OVERRIDE) | CAP_TO_MASK(CAP_CHOWN) |
						      CAP_TO_MASK(CAP_FOWNER) | CAP_TO_MASK(CAP_DAC_READ_SEARCH)));
		assert_int_equal(geteuid(), 0);
		errno = EXDEV;
	}
	assert_int_equal(errno, EXDEV);
	struct self after = look();
	assert_memory_equal(&after, &before, sizeof(after));
	prctl(PR_SET_PDEATHSIG, at_first.death_signal);
	assert_int_equal(syscall(SYS_setgroups, at_first.n_groups, at_first.groups), 0);
}

/* Where only root may write, nothing is written; where all may, what is written belongs to the other. */
static void the_kernel_judges_as_for_them(void **state UNUSED)
{
	char folder[64];
	struct stat st;
	need_root();
	unit_temp_dir(folder, sizeof(folder));
	CLOSE_FD int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int all = 0; all < 2; all++) {
		FSUSER_HELD held = { 0 };
		assert_int_equal(chmod(folder, all ? 01777 : 0755), 0);
		assert_ok(fsuser_begin(&other, &held));
		CLOSE_FD int made = dir_make_own(fd, "x", 0700);
		assert_int_equal(made >= 0, all);
		if (!all)
			assert_int_equal(errno, EACCES);
	}
	assert_int_equal(fstatat(fd, "x", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, other.uid);
	assert_int_equal(st.st_gid, other.gid);
	/* To us, it is somebody else's. */
	assert_int_equal(dir_open_own(fd, "x"), -1);
	assert_int_equal(errno, EPERM);
	assert_ok(dir_remove(folder));
}

/* Our own user, too, has no rights beyond what the folder gives them. */
static void ours_without_overruling(void **state UNUSED)
{
	char folder[64];
	need_root();
	unit_temp_dir(folder, sizeof(folder));
	assert_int_equal(chown(folder, other.uid, other.gid), 0);
	CLOSE_FD int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct self before = look();
	{
		FSUSER_HELD held = { 0 };
		assert_ok(fsuser_begin(&(struct fsuser){ 0, 0 }, &held));
		assert_int_equal(mkdirat(fd, "x", 0700), -1);
		assert_int_equal(errno, EACCES);
	}
	struct self after = look();
	assert_memory_equal(&after, &before, sizeof(after));
	assert_int_equal(mkdirat(fd, "x", 0700), 0);
	assert_ok(dir_remove(folder));
}

/* Runs in a child, whose rights may be spoiled. */
static void in_a_child(void (*act)(void))
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			_exit(__LINE__ % 255 + 1);                                                                     \
	} while (0)

static void refused(const struct fsuser *user)
{
	struct fsuser_held held = { 0 };
	struct self before = look();
	struct err *err = fsuser_begin(user, &held);
	struct self after = look();
	CHECK(err && err_kind(err) == ERR_DENIED);
	CHECK(!held.held && !memcmp(&before, &after, sizeof(after)));
	err_free(err);
	fsuser_end(&held);
	after = look();
	CHECK(!memcmp(&before, &after, sizeof(after)));
}

static void without_setuid(void)
{
	leave_out(CAP_SETUID);
	refused(&other);
}

static void without_setgid(void)
{
	leave_out(CAP_SETGID);
	refused(&other);
}

/* The kernel does not say no, it only does nothing. */
static void nobody_at_all(void)
{
	refused(&(struct fsuser){ (uid_t)-1, 5 });
	refused(&(struct fsuser){ 5, (gid_t)-1 });
}

static void root_that_cannot_change_writes_nothing(void **state UNUSED)
{
	need_root();
	in_a_child(without_setuid);
	in_a_child(without_setgid);
	in_a_child(nobody_at_all);
}

/* Not root, but with a right over files: that right is put aside, and comes back. */
static void user_with_a_right(void)
{
	struct fsuser_held held = { 0 };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { .effective = CAP_TO_MASK(CAP_DAC_OVERRIDE),
						    .permitted = CAP_TO_MASK(CAP_DAC_OVERRIDE) } };
	CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && !setgroups(0, NULL) && !setresgid(55, 55, 55) &&
	      !setresuid(55, 55, 55) && !syscall(SYS_capset, &head, caps));
	struct self before = look();
	struct err *err = fsuser_begin(&other, &held);
	CHECK(!err && fsuser_uid() == 55 && !look().caps[0].effective);
	fsuser_end(&held);
	struct self after = look();
	CHECK(!memcmp(&before, &after, sizeof(after)));
}

static void who_is_not_root_stays(void **state UNUSED)
{
	need_root();
	in_a_child(user_with_a_right);
}

static int ends[2];

static void *see_when_asked(void *user)
{
	char c;
	assert_int_equal(read(ends[0], &c, 1), 1);
	*(uid_t *)user = fsuser_uid();
	return NULL;
}

static void other_threads_are_left_alone(void **state UNUSED)
{
	pthread_t thread;
	uid_t old_one = 1;
	need_root();
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, see_when_asked, &old_one), 0);
	FSUSER_HELD held = { 0 };
	assert_ok(fsuser_begin(&other, &held));
	assert_int_equal(write(ends[1], "x", 1), 1);
	pthread_join(thread, NULL);
	assert_int_equal(old_one, 0);
	close(ends[0]);
	close(ends[1]);
}

/* Its parent ends while the kernel has forgotten to tell: it is told afterwards. */
static void parent_ends_meanwhile(void)
{
	int told[2], go[2];
	char c = 0;
	CHECK(pipe(told) == 0 && pipe(go) == 0);
	pid_t middle = fork();
	if (middle == 0) {
		if (fork() == 0) {
			struct fsuser_held held = { 0 };
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(told[0]);
			err_ignore(fsuser_begin(&other, &held));
			CHECK(write(told[1], "b", 1) == 1 && read(go[0], &c, 1) == 1);
			fsuser_end(&held);
			CHECK(write(told[1], "l", 1) == 1); /* it lives on */
			_exit(0);
		}
		close(told[1]);
		CHECK(read(told[0], &c, 1) == 1);
		_exit(0);
	}
	close(told[1]);
	CHECK(waitpid(middle, NULL, 0) == middle);
	CHECK(write(go[1], "g", 1) == 1);
	CHECK(read(told[0], &c, 1) == 0);
}

static void a_parent_that_ended_meanwhile(void **state UNUSED)
{
	need_root();
	in_a_child(parent_ends_meanwhile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends_as_it_began),
		cmocka_unit_test(the_kernel_judges_as_for_them),
		cmocka_unit_test(ours_without_overruling),
		cmocka_unit_test(root_that_cannot_change_writes_nothing),
		cmocka_unit_test(who_is_not_root_stays),
		cmocka_unit_test(other_threads_are_left_alone),
		cmocka_unit_test(a_parent_that_ended_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
