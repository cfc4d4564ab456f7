/* Where files for a target go, and as whom they are written. */

#include "unit.h"

#include "base/fd.h"
#include "target/core_place.h"
#include "target/files.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define UID 4711
#define GID 4712

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

/* A process of that user; it ends with us. */
static pid_t start(uid_t uid, struct target *ret)
{
	int ends[2];
	char c;
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (uid && (setresgid(GID, GID, GID) || setresuid(uid, uid, uid)))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ends[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &c, 1), 1);
	close(ends[0]);
	close(ends[1]);
	assert_ok(target_find_pid(pid, ret));
	return pid;
}

static void stop(pid_t pid, struct target *t)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	target_fini(t);
}

static void assert_refused(struct err *err, enum err_kind kind, const char *words)
{
	assert_non_null(err);
	if (err_kind(err) != kind || !strstr(err_text(err), words))
		fail_msg("%s", err_text(err));
	err_free(err);
}

static void the_user_of_a_process(void **state UNUSED)
{
	struct target t;
	struct fsuser user = { 0 };
	need_root();
	pid_t pid = start(UID, &t);
	assert_ok(target_fsuser(&t, &user));
	assert_int_equal(user.uid, UID);
	assert_int_equal(user.gid, GID);
	/* It was found as another's: a process can become another program of another user. */
	t.uid = 0;
	assert_refused(target_fsuser(&t, &user), ERR_DENIED, "is one of user 4711 now");
	t.uid = UID;
	t.start_ticks++;
	assert_refused(target_fsuser(&t, &user), ERR_NOT_FOUND, "is gone");
	stop(pid, &t);
}

static void the_user_of_a_socket(void **state UNUSED)
{
	char folder[64], path[108];
	struct fsuser user = { 0 };
	need_root();
	unit_temp_dir(folder, sizeof(folder));
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(path, sizeof(path), "%s/dotnet-diagnostic-1-1-socket", folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chown(path, UID, GID), 0);
	struct target t = { .socket = path, .uid = UID };
	assert_ok(target_fsuser(&t, &user));
	assert_int_equal(user.uid, UID);
	assert_int_equal(user.gid, GID);
	t.uid = 0;
	assert_refused(target_fsuser(&t, &user), ERR_DENIED, "something else");
	t.uid = UID;
	assert_int_equal(unlink(path), 0);
	assert_refused(target_fsuser(&t, &user), ERR_NOT_FOUND, "gone");
	/* A link to something of theirs is not their socket. */
	assert_int_equal(symlink("/dev/log", path), 0);
	assert_int_equal(lchown(path, UID, GID), 0);
	assert_refused(target_fsuser(&t, &user), ERR_DENIED, "something else");
	assert_ok(dir_remove(folder));
}

/* A link leads to where its user cannot get: neither can we on its behalf. */
static void folders_are_found_as_its_user(void **state UNUSED)
{
	char folder[64];
	struct target t;
	struct fsuser user = { UID, GID };
	int fd = -1;
	need_root();
	unit_temp_dir(folder, sizeof(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	CLEANUP(mem_freep) char *hidden = mem_printf("%s/hidden", folder), *inner = mem_printf("%s/hidden/all", folder);
	CLEANUP(mem_freep) char *tmp = mem_printf("%s/tmp", folder);
	assert_ok(dir_make(inner, 0700));
	assert_int_equal(chmod(inner, 01777), 0);
	assert_int_equal(symlink(inner, tmp), 0);
	pid_t pid = start(UID, &t);
	CLEANUP(mem_freep) char *seen = mem_printf("/proc/%d/root%s", pid, tmp);
	assert_refused(target_open_folder(&t, &user, seen, &fd), ERR_DENIED, "as user 4711");
	assert_refused(target_open_folder(&t, &user, tmp, &fd), ERR_DENIED, "as user 4711");
	assert_int_equal(fd, -1);
	assert_int_equal(chmod(hidden, 0755), 0);
	assert_ok(target_open_folder(&t, &user, seen, &fd));
	struct stat a, b;
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(stat(inner, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	close(fd);
	stop(pid, &t);
	assert_ok(dir_remove(folder));
}

static void whose_folder_it_is(void **state UNUSED)
{
	char folder[64];
	const struct target t = { 0 };
	const struct fsuser user = { UID, GID };
	need_root();
	unit_temp_dir(folder, sizeof(folder));
	CLOSE_FD int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	static const struct {
		uid_t owner;
		mode_t mode;
		const char *words;
	} cases[] = {
		{ 0, 01777, NULL },
		{ 0, 0777, "others may write" },
		{ 0, 0775, "others may write" },
		{ UID, 0700, NULL },
		{ UID, 0702, "others may write" },
		{ 1234, 01777, "belongs to user 1234" },
		{ 1234, 0755, "belongs to user 1234" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(chown(folder, cases[i].owner, 0), 0);
		assert_int_equal(chmod(folder, cases[i].mode), 0);
		struct err *err = target_check_folder(&t, &user, fd, "/tmp");
		if (cases[i].words)
			assert_refused(err, ERR_DENIED, cases[i].words);
		else
			assert_ok(err);
	}
	assert_ok(dir_remove(folder));
}

static void the_folder_of_a_socket(void **state UNUSED)
{
	static char top[] = "/dotnet-diagnostic-1-2-socket", deep[] = "/proc/7/root/tmp/dotnet-diagnostic-1-2-socket";
	CLEANUP(mem_freep) char *none = target_socket_folder(&(struct target){ 0 });
	CLEANUP(mem_freep) char *a = target_socket_folder(&(struct target){ .socket = top });
	CLEANUP(mem_freep) char *b = target_socket_folder(&(struct target){ .socket = deep });
	assert_null(none);
	assert_string_equal(a, "");
	assert_string_equal(b, "/proc/7/root/tmp");
}

static void the_name_of_a_core(void **state UNUSED)
{
	static const struct {
		const char *pattern, *name;
	} cases[] = {
		{ "core", "core" },
		{ "/cores/%e-%p", "/cores/shop-7" },
		{ "core.%P%%", "core.4711%" },
		{ "core.%d", "core.7" },
		{ "core.%t", NULL },
		{ "", NULL },
		{ "core.%", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(mem_freep) char *name = core_place_name(cases[i].pattern, 4711, 7, "shop");
		if (!cases[i].name)
			assert_null(name);
		else
			assert_string_equal(name, cases[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_user_of_a_process),	 cmocka_unit_test(the_user_of_a_socket),
		cmocka_unit_test(folders_are_found_as_its_user), cmocka_unit_test(whose_folder_it_is),
		cmocka_unit_test(the_folder_of_a_socket),	 cmocka_unit_test(the_name_of_a_core),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
