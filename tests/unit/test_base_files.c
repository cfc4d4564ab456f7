#include "unit.h"

#include "base/closer.h"
#include "base/fd.h"
#include "base/filemap.h"
#include "base/home.h"
#include "base/lazy.h"
#include "base/partfile.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* As root a rename over /dev/null would take it away from everybody. */
static void only_files_are_replaced(void **state UNUSED)
{
	char dir[] = "/tmp/drdotnet-test-XXXXXX";
	struct stat st;
	assert_non_null(mkdtemp(dir));
	CLEANUP(mem_freep) char *pipe = mem_printf("%s/pipe", dir);
	CLEANUP(mem_freep) char *link = mem_printf("%s/link", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(symlink(pipe, link), 0);
	assert_err(file_write_atomic(pipe, "one", 3, 0600), ERR_USAGE);
	assert_err(file_write_atomic(link, "one", 3, 0600), ERR_USAGE);
	assert_err(file_write_atomic(dir, "one", 3, 0600), ERR_USAGE);
	assert_true(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
	assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	assert_ok(dir_remove(dir));
}

static void files_are_whole_or_absent(void **state UNUSED)
{
	char dir[] = "/tmp/drdotnet-test-XXXXXX";
	assert_non_null(mkdtemp(dir));
	CLEANUP(mem_freep) char *deep = mem_printf("%s/a/b/c", dir);
	CLEANUP(mem_freep) char *file = mem_printf("%s/f", deep);
	assert_ok(dir_make(deep, 0700));
	assert_ok(file_write_atomic(file, "one", 3, 0600));
	assert_ok(file_write_atomic(file, "second", 6, 0600));
	struct buf b = { 0 };
	assert_ok(file_read(file, 100, &b));
	assert_string_equal(buf_cstr(&b), "second");
	buf_clear(&b);
	assert_err(file_read(file, 3, &b), ERR_BAD_DATA);
	buf_free(&b);
	assert_int_equal(dir_bytes(dir), 6);
	/* A link inside is removed, what it points to is not. */
	CLEANUP(mem_freep) char *keep = mem_printf("%s.keep", dir);
	CLEANUP(mem_freep) char *link = mem_printf("%s/a/link", dir);
	assert_ok(dir_make(keep, 0700));
	assert_int_equal(symlink(keep, link), 0);
	assert_ok(dir_remove(dir));
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(access(keep, F_OK), 0);
	assert_ok(dir_remove(keep));
	assert_ok(dir_remove(keep));
}

/* More than are synced at a time, at several depths, beside what is no file. */
static void a_folder_is_made_safe_at_once(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	for (int i = 0; i < 150; i++) {
		CLEANUP(mem_freep) char *folder = mem_printf("%s/%d", dir, i % 3);
		CLEANUP(mem_freep) char *path = mem_printf("%s/%d", folder, i);
		assert_ok(dir_make(folder, 0700));
		assert_ok(file_put(path, "first", 5, 0600));
		assert_ok(file_put(path, "x", 1, 0600));
	}
	CLEANUP(mem_freep) char *pipe = mem_printf("%s/pipe", dir);
	CLEANUP(mem_freep) char *link = mem_printf("%s/link", dir);
	CLEANUP(mem_freep) char *none = mem_printf("%s/none", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(symlink("/nowhere", link), 0);
	int before = dup(0);
	assert_ok(dir_sync(dir));
	int after = dup(0);
	assert_int_equal(before + 1, after); /* nothing is left open */
	close(before);
	close(after);
	assert_int_equal(dir_bytes(dir), 150);
	assert_err(dir_sync(none), ERR_NOT_FOUND);
	assert_ok(dir_remove(dir));
}

static void a_growing_file_gets_its_name_when_whole(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/a", dir);
	CLEANUP(mem_freep) char *partial = mem_printf("%s/a.partial", dir);
	struct partfile f;
	assert_ok(partfile_open(path, 0600, &f));
	assert_int_equal(access(partial, F_OK), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(write(f.fd, "x", 1), 1);
	assert_ok(partfile_commit(&f));
	partfile_fini(&f, false);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(access(partial, F_OK), -1);
	/* Given up: the old file stays, the new one goes, or stays half when it shall. */
	assert_ok(partfile_open(path, 0600, &f));
	partfile_fini(&f, false);
	assert_int_equal(access(partial, F_OK), -1);
	assert_ok(partfile_open(path, 0600, &f));
	partfile_fini(&f, true);
	assert_int_equal(access(partial, F_OK), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_err(partfile_check("/nowhere/at/all"), ERR_USAGE);
	assert_err(partfile_check("/tmp"), ERR_USAGE);
	assert_err(partfile_check(""), ERR_USAGE);
	assert_ok(partfile_check("/dev/null"));
	assert_ok(dir_remove(dir));
}

/* Whoever can write into the folder can guess the temporary names. */
static void what_was_laid_in_the_way_is_not_written_into(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/a", dir), *theirs = mem_printf("%s/theirs", dir);
	CLEANUP(mem_freep) char *growing = mem_printf("%s/a.partial", dir);
	CLEANUP(mem_freep) char *at_once = mem_printf("%s/a.%d.tmp", dir, (int)getpid());
	const char *const temps[] = { growing, at_once };
	for (int link_it = 0; link_it < 2; link_it++)
		for (int atomic = 0; atomic < 2; atomic++) {
			CLOSE_FD int held = open(theirs, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
			assert_true(held >= 0);
			assert_int_equal(link_it ? symlink(theirs, temps[atomic]) : link(theirs, temps[atomic]), 0);
			struct partfile f;
			if (atomic) {
				assert_ok(file_write_atomic(path, "secret", 6, 0600));
			} else {
				assert_ok(partfile_open(path, 0600, &f));
				assert_int_equal(write(f.fd, "secret", 6), 6);
				assert_ok(partfile_commit(&f));
				partfile_fini(&f, false);
			}
			struct stat st;
			assert_int_equal(fstat(held, &st), 0);
			assert_int_equal(st.st_size, 0);
			assert_int_equal(lstat(path, &st), 0);
			assert_true(S_ISREG(st.st_mode) && st.st_size == 6 && (st.st_mode & 0777) == 0600);
			assert_int_equal(access(temps[atomic], F_OK), -1);
		}
	assert_ok(dir_remove(dir));
}

static void two_writers_of_a_file_do_not_mix(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/a", dir);
	struct partfile first, second;
	assert_ok(partfile_open(path, 0600, &first));
	assert_ok(partfile_open(path, 0600, &second));
	assert_int_equal(write(second.fd, "half", 4), 4);
	assert_err(partfile_commit(&first), ERR_BUSY);
	partfile_fini(&first, false);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(write(second.fd, " and whole", 10), 10);
	assert_ok(partfile_commit(&second));
	partfile_fini(&second, false);
	assert_int_equal(dir_bytes(dir), 14);
	assert_ok(dir_remove(dir));
}

static void a_folder_in_a_strange_one_is_ours(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	CLOSE_FD int parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLOSE_FD int made = dir_make_own(parent, "ours", 0700);
	assert_true(made >= 0);
	assert_int_equal(dir_make_own(parent, "ours", 0700), -1);
	assert_int_equal(errno, EEXIST);
	CLOSE_FD int again = dir_open_own(parent, "ours");
	struct stat a, b;
	assert_int_equal(fstat(made, &a) + fstat(again, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	/* What somebody may put in its place. */
	assert_int_equal(symlinkat("ours", parent, "link"), 0);
	assert_int_equal(dir_open_own(parent, "link"), -1);
	CLOSE_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(dir_open_own(root, "proc"), -1);
	assert_int_equal(errno, EXDEV);
	if (geteuid() == 0) {
		assert_int_equal(fchown(made, 1, 1), 0);
		assert_int_equal(dir_open_own(parent, "ours"), -1);
		assert_int_equal(errno, EPERM);
	}
	assert_ok(dir_remove(dir));
}

static void files_below_a_root_stay_there(void **state UNUSED)
{
	char dir[64];
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *file = mem_printf("%s/file", dir);
	CLEANUP(mem_freep) char *out = mem_printf("%s/out", dir);
	CLEANUP(mem_freep) char *fifo = mem_printf("%s/fifo", dir);
	assert_ok(file_write_atomic(file, "hello", 5, 0600));
	assert_int_equal(symlink("/etc/passwd", out), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	CLOSE_FD int fd = file_open_below(dir, "/file", O_RDONLY);
	assert_true(fd >= 0);
	CLEANUP(buf_free) struct buf b = { 0 };
	assert_err(file_read_fd(fd, "file", 4, &b), ERR_BAD_DATA);
	buf_clear(&b);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_ok(file_read_fd(fd, "file", 5, &b));
	assert_string_equal(buf_cstr(&b), "hello");
	assert_int_equal(file_open_below(dir, "out", O_RDONLY), -1);
	assert_int_equal(file_open_below(dir, "../../etc/passwd", O_RDONLY), -1);
	/* To open a device may be an act of its own: what is no file is looked at and left alone. */
	CLOSE_FD int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(inotify_add_watch(watch, fifo, IN_OPEN) >= 0);
	assert_int_equal(file_open_below(dir, "fifo", O_RDONLY), -1);
	assert_int_equal(file_open_regular(fifo, O_RDONLY), -1);
	char event[256];
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	CLOSE_FD int same = file_open_regular(file, O_RDONLY);
	assert_int_equal(pread(same, event, sizeof(event), 0), 5);
	assert_ok(dir_remove(dir));
}

static void reads_end_at_their_deadline(void **state UNUSED)
{
	int p[2];
	assert_int_equal(pipe(p), 0);
	char byte;
	assert_err(fd_read_full(p[0], &byte, 1, deadline_in_ms(5)), ERR_TIMEOUT);
	assert_ok(fd_write_full(p[1], "x", 1, deadline_in_ms(1000)));
	assert_ok(fd_read_full(p[0], &byte, 1, deadline_in_ms(1000)));
	close(p[1]);
	assert_err(fd_read_full(p[0], &byte, 1, deadline_in_ms(1000)), ERR_IO);
	close(p[0]);
}

static void descriptors_are_handed_on(void **state)
{
	(void)state;
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	int kept;
	{
		CLOSE_FD int fd = pipe_fds[1];
		kept = fd_steal(&fd);
		assert_int_equal(fd, -1);
	}
	assert_int_equal(write(kept, "x", 1), 1);
	close(kept);
	close(pipe_fds[0]);
}

/* A library is opened once, and not at all when it lacks something. */
static void libraries_open_when_needed(void **state UNUSED)
{
	static const char *const good[] = { "cos", "sin" }, *const bad[] = { "cos", "no_such_function" };
	struct {
		double (*cos)(double), (*sin)(double);
	} table = { 0 };
	assert_err(lazy_load("libno-such-library.so.1", good, 2, &table), ERR_NOT_FOUND);
	assert_err(lazy_load("libm.so.6", bad, 2, &table), ERR_NOT_FOUND);
	assert_null(table.cos);
	assert_ok(lazy_load("libm.so.6", good, 2, &table));
	assert_true(table.cos(0) > 0.9 && table.sin(0) < 0.1);
	assert_ok(lazy_load("libno-such-library.so.1", good, 2, &table));
}

static void home_follows_the_environment(void **state UNUSED)
{
	char *home;
	setenv("DRDOTNET_HOME", "/x/y", 1);
	assert_ok(home_path(&home));
	assert_string_equal(home, "/x/y");
	mem_free(home);
	setenv("DRDOTNET_HOME", "relative", 1);
	assert_err(home_path(&home), ERR_USAGE);
	unsetenv("DRDOTNET_HOME");
	setenv("XDG_STATE_HOME", "/state", 1);
	assert_ok(home_path(&home));
	assert_string_equal(home, geteuid() == 0 ? "/var/lib/drdotnet" : "/state/drdotnet");
	mem_free(home);
}

static void a_part_of_a_file_is_read(void **state UNUSED)
{
	char got[8] = "........";
	CLOSE_FD int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "0123456789", 10), 10);
	assert_int_equal(fd_pread(fd, got, 3, 2), 3);
	assert_memory_equal(got, "234.....", 8);
	assert_int_equal(fd_pread(fd, got, 8, 7), 3);
	assert_memory_equal(got, "789.....", 8);
	assert_int_equal(fd_pread(fd, got, 8, 10), 0);
	assert_int_equal(fd_pread(fd, got, 8, UINT64_MAX - 2), 0);
	assert_int_equal(fd_pread(-1, got, 8, 0), 0);
}

enum { PAGE = 4096, FILE_PAGES = 8 };

/* A file without a name, every byte 'x'. */
static int file_of_x(void)
{
	char page[PAGE];
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	memset(page, 'x', sizeof(page));
	for (int i = 0; i < FILE_PAGES; i++)
		assert_int_equal(write(fd, page, PAGE), PAGE);
	return fd;
}

static size_t count_x(const struct filemap *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->len; i++)
		n += ((const volatile uint8_t *)m->bytes)[i] == 'x';
	return n;
}

static void a_mapped_file_may_be_cut_short(void **state UNUSED)
{
	struct filemap whole, cut[2], again;
	int kept = file_of_x(), fd = file_of_x();
	assert_ok(filemap_open(kept, PAGE * FILE_PAGES, &whole));
	assert_err(filemap_open(kept, PAGE * FILE_PAGES - 1, &again), ERR_BAD_DATA);
	for (int i = 0; i < 2; i++)
		assert_ok(filemap_open(fd, UINT64_MAX, &cut[i]));
	assert_int_equal(count_x(&cut[0]), PAGE * FILE_PAGES);
	assert_false(filemap_shrunk(&cut[0]));

	assert_int_equal(ftruncate(fd, PAGE * 3 / 2), 0);
	assert_false(filemap_shrunk(&cut[0]));
	assert_int_equal(count_x(&cut[0]), PAGE * 3 / 2);
	assert_true(filemap_shrunk(&cut[0]));
	assert_false(filemap_shrunk(&cut[1]));
	assert_int_equal(count_x(&whole), PAGE * FILE_PAGES);
	assert_false(filemap_shrunk(&whole));

	/* The next one that takes the place begins anew. */
	filemap_close(&cut[0]);
	filemap_close(&cut[0]);
	assert_ok(filemap_open(kept, UINT64_MAX, &again));
	assert_false(filemap_shrunk(&again));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(count_x(&cut[1]), 0);
	assert_true(filemap_shrunk(&cut[1]));
	assert_err(filemap_open(fd, UINT64_MAX, &cut[0]), ERR_BAD_DATA);
	filemap_close(&cut[1]);
	filemap_close(&again);
	filemap_close(&whole);
	close(fd);
	close(kept);
}

/* How a child ends that maps one file by us, and then meets SIGBUS elsewhere. */
static int end_of_child(bool sent)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct filemap m;
		int fd = file_of_x(), other = file_of_x();
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		signal(SIGBUS, SIG_DFL);
		err_ignore(filemap_open(fd, UINT64_MAX, &m));
		volatile char *bytes = mmap(NULL, PAGE * FILE_PAGES, PROT_READ, MAP_PRIVATE, other, 0);
		if (sent)
			raise(SIGBUS);
		else if (bytes != MAP_FAILED && !ftruncate(other, 0))
			(void)bytes[PAGE];
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_fault_elsewhere_stays_one(void **state UNUSED)
{
	assert_int_equal(end_of_child(false), SIGBUS);
	assert_int_equal(end_of_child(true), SIGBUS);
}

/* The other end of a pipe sees its end once nobody has it any more: not we, not the closer. */
static void descriptors_are_closed_elsewhere(void **state UNUSED)
{
	enum { MANY = 600 }; /* more than a message takes */
	int ends[2], fds[MANY];
	char byte;
	for (int with = 0; with < 2; with++) {
		struct closer *c = with ? closer_new() : NULL;
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		for (size_t i = 0; i < MANY; i++)
			assert_true((fds[i] = fcntl(ends[1], F_DUPFD_CLOEXEC, 3)) >= 0);
		close(ends[1]);
		closer_take(c, fds, MANY);
		assert_int_equal(fcntl(fds[0], F_GETFD), -1);
		closer_free(c);
		assert_int_equal(read(ends[0], &byte, 1), 0);
		close(ends[0]);
	}
}

/* As an old kernel does, or a container's filter. */
static void refuse_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(2);
}

/* One that cannot let go of what we had open ends, instead of keeping a reader of our pipes waiting for ever. */
static void a_closer_keeps_nothing_open(void **state UNUSED)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		refuse_close_range();
		_exit(closer_new() ? 0 : 3); /* we end without having ended it */
	}
	close(ends[1]);
	struct pollfd end = { .fd = ends[0] };
	assert_int_equal(poll(&end, 1, 10000), 1);
	assert_true(end.revents & POLLHUP);
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_whole_or_absent),
		cmocka_unit_test(only_files_are_replaced),
		cmocka_unit_test(files_below_a_root_stay_there),
		cmocka_unit_test(a_folder_is_made_safe_at_once),
		cmocka_unit_test(a_growing_file_gets_its_name_when_whole),
		cmocka_unit_test(what_was_laid_in_the_way_is_not_written_into),
		cmocka_unit_test(two_writers_of_a_file_do_not_mix),
		cmocka_unit_test(a_folder_in_a_strange_one_is_ours),
		cmocka_unit_test(reads_end_at_their_deadline),
		cmocka_unit_test(descriptors_are_handed_on),
		cmocka_unit_test(a_part_of_a_file_is_read),
		cmocka_unit_test(a_mapped_file_may_be_cut_short),
		cmocka_unit_test(a_fault_elsewhere_stays_one),
		cmocka_unit_test(libraries_open_when_needed),
		cmocka_unit_test(descriptors_are_closed_elsewhere),
		cmocka_unit_test(a_closer_keeps_nothing_open),
		cmocka_unit_test(home_follows_the_environment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
