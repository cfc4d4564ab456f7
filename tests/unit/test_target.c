#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/cpus.h"
#include "target/pod.h"
#include "target/proc.h"
#include "target/program.h"
#include "target/target.h"
#include "target/threads.h"
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define WAIT_MS 20000

/* ---- texts ---- */

static bool parse_stat(const char *text, struct proc_stat *ret)
{
	return proc_parse_stat(text, strlen(text), ret);
}

#define STAT_TAIL                                                                                                      \
	" S 1 2 3 4 -1 4194560 5 6 7 8 120 30 11 12 20 0 17 0 121590 1000 200 18446744073709551615 1 1 140722 0 0 0 "  \
	"0 0"

static void test_stat(void **state)
{
	(void)state;
	struct proc_stat s;
	assert_true(parse_stat("12321 (Shop.Api)" STAT_TAIL, &s));
	assert_string_equal(s.comm, "Shop.Api");
	assert_int_equal(s.state, 'S');
	assert_false(s.kernel_thread);
	assert_int_equal(s.threads, 17);
	assert_int_equal(s.cpu_ticks, 150);
	assert_int_equal(s.start_ticks, 121590);
	assert_int_equal(s.stack_start, 140722);
	/* a name that looks like the rest of the line */
	assert_true(parse_stat("5 (a) Z 0 (b)) (c)" STAT_TAIL, &s));
	assert_string_equal(s.comm, "a) Z 0 (b)) (c");
	assert_int_equal(s.state, 'S');
	assert_true(parse_stat("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0", &s));
	assert_true(s.kernel_thread);
	assert_int_equal(s.stack_start, 0);
}

/* A child that becomes another program keeps its pid and its start time. */
static void test_program(void **state)
{
	(void)state;
	int go[2];
	struct target t = { 0 };
	assert_int_equal(pipe(go), 0);
	pid_t child = fork();
	if (!child) {
		char byte;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		if (read(go[0], &byte, 1) == 0)
			execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	close(go[0]);
	assert_ok(target_find_pid(child, &t));
	uint64_t before = target_program(&t), after = before;
	assert_true(before != 0);
	assert_int_equal(target_program(&t), before);
	close(go[1]);
	uint64_t until = clock_mono_ns() + WAIT_MS * 1000000ull;
	while (after == before && clock_mono_ns() < until) {
		uint64_t now = target_program(&t);
		after = now ? now : before;
		sched_yield();
	}
	assert_true(after != before);
	assert_true(target_alive(&t));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(target_program(&t), 0);
	target_fini(&t);
}

static void test_stat_cut_and_bent(void **state)
{
	(void)state;
	static const char text[] = "12321 (Shop.Api)" STAT_TAIL;
	struct proc_stat s;
	size_t start_ends = (size_t)(strstr(text, "121590") - text);
	for (size_t len = 0; len <= start_ends; len++) {
		char *cut = mem_strndup(text, len);
		assert_false(proc_parse_stat(cut, len, &s));
		mem_free(cut);
	}
	for (size_t i = 0; i < strlen(text) * 8; i++) {
		char *bent = mem_strdup(text);
		bent[i / 8] = (char)(bent[i / 8] ^ (1 << i % 8));
		if (proc_parse_stat(bent, strlen(text), &s))
			assert_non_null(memchr(s.comm, 0, sizeof(s.comm)));
		mem_free(bent);
	}
}

static void test_status(void **state)
{
	(void)state;
	static const char text[] =
		"Name:\tx\nUid:\t1000\t1001\t1000\t1002\nGid:\t5\t6\t7\t8\nNSpid:\t812\t41\t1\nTracerPid:\t77\n"
		"VmRSS:\t   2048 kB\nCapEff:\t0000000000080000\nSeccomp:\t2\n";
	struct proc_status s;
	assert_true(proc_parse_status(text, strlen(text), &s));
	assert_int_equal(s.uid, 1001);
	assert_int_equal(s.fs_uid, 1002);
	assert_int_equal(s.fs_gid, 8);
	assert_int_equal(s.ns_pid, 1);
	assert_int_equal(s.ns_depth, 3);
	assert_int_equal(s.tracer, 77);
	assert_int_equal(s.rss_bytes, 2 << 20);
	assert_int_equal(s.cap_effective, 0x80000);
	assert_int_equal(s.seccomp, 2);
	assert_false(proc_parse_status("Name:\tUid:\n", 11, &s));
	assert_false(proc_parse_status("Uid:\t1\t2\t3\t4\n", 13, &s));
	assert_false(proc_parse_status("", 0, &s));
	for (size_t len = 0; len < strlen(text); len++) {
		char *cut = mem_strndup(text, len);
		proc_parse_status(cut, len, &s);
		mem_free(cut);
	}
}

static void test_environ(void **state)
{
	(void)state;
	static const char text[] = "A=1\0TMPDIR=/x\0COMPlus_EnableDiagnostics=0\0NOVALUE\0XTMPDIR=/y";
	assert_string_equal(proc_env(text, sizeof(text) - 1, "TMPDIR"), "/x");
	assert_string_equal(proc_env_dotnet(text, sizeof(text) - 1, "EnableDiagnostics"), "0");
	assert_null(proc_env(text, sizeof(text) - 1, "NOVALUE"));
	assert_null(proc_env(text, sizeof(text) - 1, "TMP"));
	assert_null(proc_env("", 0, "TMPDIR"));
}

static void test_command_line(void **state)
{
	(void)state;
	char *s = proc_command_line("dotnet\0Shop.dll\0--x\0", 20, 4096);
	assert_string_equal(s, "dotnet Shop.dll --x");
	mem_free(s);
	s = proc_command_line("dotnet\0Shop.dll\0--x\0", 20, 8);
	assert_string_equal(s, "dotnet S");
	mem_free(s);
	s = proc_command_line("", 0, 8);
	assert_string_equal(s, "");
	mem_free(s);
}

static void test_containers(void **state)
{
	(void)state;
	static const char *const found[] = {
		"12:cpu:/docker/" ID64 "\n11:memory:/docker/" ID64 "\n",
		"0::/system.slice/docker-" ID64 ".scope\n",
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" ID64
		".scope\n",
		"1:name=systemd:/kubepods/besteffort/pod9b1e0d1c-2a4b-11ee/" ID64 "\n",
		"0::/kubepods.slice/kubepods-pod1.slice/crio-" ID64 ".scope\n",
		"0::/machine.slice/libpod-" ID64 ".scope/container\n",
		"0::/../../cri-containerd-" ID64 ".scope\n",
	};
	char id[PROC_CONTAINER_DIGITS + 1];
	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		assert_true(proc_container_from_cgroup(found[i], id));
		assert_string_equal(id, "0123456789ab");
	}
	static const char *const none[] = {
		"",
		"0::/\n",
		"0::/user.slice/user-0.slice/session-1.scope\n",
		"0::/x" ID64 "\n",
		"0::/" ID64 "0\n",
		"0::/machine.slice/libpod-conmon-" ID64 ".scope\n",
	};
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_false(proc_container_from_cgroup(none[i], id));
	/* a container in a container: the inner one */
	assert_true(proc_container_from_cgroup("0::/docker/" ID64 "/docker/f"
					       "123456789abcdef0123456789abcdef0123456789abcde"
					       "f0123456789abcdef\n",
					       id));
	assert_string_equal(id, "f123456789ab");
}

/* By the names of log files alone; who made them stranger than Kubernetes allows is not shown. */
static void test_pods(void **state)
{
	(void)state;
	char folder[] = "/tmp/unit-pods-XXXXXX", path[512];
	assert_non_null(mkdtemp(folder));
	static const char *const names[] = {
		"api-7c9f-x2_shop_api-" ID64 ".log",
		"api-7c9f-x2_shop_side_car-f" ID64 ".log",
		"_shop_api-a" ID64 ".log",
		"a\nb_shop_api-b" ID64 ".log",
		"api_shop-c" ID64 ".log",
		ID64 ".log",
		"web_default_app-fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210.log",
	};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	char *pod = pod_of_container(folder, "0123456789ab");
	assert_string_equal(pod, "shop/api-7c9f-x2/api");
	mem_free(pod);
	pod = pod_of_container(folder, "fedcba987654");
	assert_string_equal(pod, "default/web/app");
	mem_free(pod);
	static const char *const none[] = {
		"", "f0123456789a", "a01234567890", "b01234567890", "c01234567890", "999999999999"
	};
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		assert_null(pod_of_container(folder, none[i]));
	assert_null(pod_of_container("/nonexistent", "0123456789ab"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(folder), 0);
}

static void test_containers_by_mounts(void **state)
{
	(void)state;
	char id[PROC_CONTAINER_DIGITS + 1];
	assert_true(proc_container_from_mountinfo("1 2 0:1 / / rw - overlay overlay rw\n"
						  "3 1 8:1 /var/lib/docker/containers/" ID64
						  "/hostname /etc/hostname rw - ext4 /dev/sda rw\n",
						  id));
	assert_string_equal(id, "0123456789ab");
	assert_true(proc_container_from_mountinfo("3 1 8:1 /containers/storage/overlay-containers/" ID64
						  "/userdata/hosts /etc/hosts rw - ext4 x rw\n",
						  id));
	assert_false(proc_container_from_mountinfo(
		"3 1 8:1 /io.containerd.grpc.v1.cri/sandboxes/" ID64 "/hostname /etc/hostname rw - ext4 x rw\n", id));
	assert_false(proc_container_from_mountinfo(
		"3 1 8:1 /var/lib/docker/containers/" ID64 "/x /data rw - ext4 x rw\n", id));
	assert_false(proc_container_from_mountinfo("", id));
}

static void test_socket_names(void **state)
{
	(void)state;
	uint64_t pid, start;
	assert_true(proc_socket_name("dotnet-diagnostic-12-345-socket", &pid, &start));
	assert_int_equal(pid, 12);
	assert_int_equal(start, 345);
	static const char *const bad[] = {
		"",
		"dotnet-diagnostic-12-345-socket2",
		"dotnet-diagnostic-12-345",
		"dotnet-diagnostic--1-345-socket",
		"dotnet-diagnostic-12--socket",
		"xdotnet-diagnostic-12-345-socket",
		"dotnet-diagnostic- 12-345-socket",
		"dotnet-diagnostic-99999999999999999999999-345-socket",
		"dotnet-diagnostic-dsrouter-1-2-socket",
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(proc_socket_name(bad[i], &pid, &start));
}

static void test_mapped_files(void **state)
{
	(void)state;
	static const char maps[] = "7f0 r-xp 0 08:01 12   /usr/lib/libc.so.6\n"
				   "7f1 r-xp 0 08:01 13   /opt/my app/xlibcoreclr.so\n"
				   "7f1 r-xp 0 08:01 13   /opt/my app/libcoreclr.so\n"
				   "7f2 r-xp 0 08:01 14   /opt/old.so (deleted)\n7f3 rw-p 0 0 0 \n";
	char *path = proc_mapped_file(maps, "libcoreclr.so");
	assert_string_equal(path, "/opt/my app/libcoreclr.so");
	mem_free(path);
	path = proc_mapped_file(maps, "old.so");
	assert_string_equal(path, "/opt/old.so");
	mem_free(path);
	assert_null(proc_mapped_file(maps, "libmono.so"));
	assert_null(proc_mapped_file("", "x"));
}

/* ---- programs ---- */

/* An ELF file whose dynamic symbols have these names; its memory begins at 0x400000. */
static void make_program(struct buf *b, const char *names, size_t names_len)
{
	enum { SEGMENTS = 2, ENTRIES = 3 };
	size_t dynamic_at = sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr);
	size_t names_at = dynamic_at + ENTRIES * sizeof(Elf64_Dyn);
	Elf64_Ehdr head = {
		.e_ident = ELFMAG "\x02\x01\x01",
		.e_phoff = sizeof(head),
		.e_phnum = SEGMENTS,
		.e_phentsize = sizeof(Elf64_Phdr),
	};
	Elf64_Phdr segments[SEGMENTS] = {
		{ .p_type = PT_LOAD, .p_vaddr = 0x400000, .p_filesz = names_at + names_len },
		{ .p_type = PT_DYNAMIC, .p_offset = dynamic_at, .p_filesz = ENTRIES * sizeof(Elf64_Dyn) },
	};
	Elf64_Dyn dynamic[ENTRIES] = {
		{ .d_tag = DT_STRTAB, .d_un.d_ptr = 0x400000 + names_at },
		{ .d_tag = DT_STRSZ, .d_un.d_val = names_len },
		{ .d_tag = DT_NULL },
	};
	buf_add(b, &head, sizeof(head));
	buf_add(b, segments, sizeof(segments));
	buf_add(b, dynamic, sizeof(dynamic));
	buf_add(b, names, names_len);
}

static enum program_runtime runtime_of(const void *data, size_t len)
{
	CLOSE_FD int fd = memfd_create("program", MFD_CLOEXEC);
	assert_int_equal(write(fd, data, len), len);
	return program_runtime(fd);
}

static void test_programs(void **state)
{
	(void)state;
	static const struct {
		const char names[64];
		enum program_runtime runtime;
	} cases[] = {
		{ "\0main\0DotNetRuntimeInfo\0x", PROGRAM_RUNTIME_CORECLR },
		{ "\0main\0DotNetRuntimeDebugHeader\0x", PROGRAM_RUNTIME_AOT },
		{ "\0main\0MyDotNetRuntimeInfo\0DotNetRuntimeInfo2\0x", PROGRAM_RUNTIME_NONE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = { 0 };
		make_program(&b, cases[i].names, sizeof(cases[i].names));
		assert_int_equal(runtime_of(b.data, b.len), cases[i].runtime);
		for (size_t len = 0; len < b.len; len++)
			assert_int_equal(runtime_of(b.data, len), PROGRAM_RUNTIME_NONE);
		for (size_t k = 0; k < b.len * 8; k++) {
			b.data[k / 8] = (char)(b.data[k / 8] ^ (1 << k % 8));
			runtime_of(b.data, b.len);
			b.data[k / 8] = (char)(b.data[k / 8] ^ (1 << k % 8));
		}
		buf_free(&b);
	}
}

/* ---- processes ---- */

struct second_thread {
	char name[16];
	int ready;
};

static void *second_thread(void *arg)
{
	struct second_thread *t = arg;
	prctl(PR_SET_NAME, t->name);
	(void)!write(t->ready, "", 1);
	for (;;)
		pause();
	return NULL;
}

/* A child with a second thread of that name; it is waiting when this returns. */
static pid_t start_child(const char *thread_name)
{
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		static struct second_thread t;
		pthread_t thread;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "pretender");
		str_copy(t.name, sizeof(t.name), thread_name);
		t.ready = ready[1];
		pthread_create(&thread, NULL, second_thread, &t);
		for (;;)
			pause();
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_self(void **state)
{
	(void)state;
	struct target t;
	assert_ok(target_find_pid(getpid(), &t));
	assert_int_equal(t.id, getpid());
	assert_int_equal(t.socket_state, TARGET_SOCKET_NONE);
	assert_int_equal(t.uid, geteuid());
	assert_non_null(strstr(t.name, "test_target"));
	assert_true(t.rss_bytes > 0 && t.cpu_ns > 0 && t.uptime_ns > 0);
	assert_false(t.no_access);
	assert_true(target_alive(&t));
	t.start_ticks++;
	assert_false(target_alive(&t));
	int fd;
	assert_err(target_pidfd(&t, &fd), ERR_NOT_FOUND);
	target_fini(&t);
}

static void test_nobody(void **state)
{
	(void)state;
	struct target t;
	assert_err(target_find_pid(4194305, &t), ERR_NOT_FOUND);
	assert_err(target_find_pid(0, &t), ERR_NOT_FOUND);
	assert_err(target_find_pid(-1, &t), ERR_NOT_FOUND);
}

static void test_end_is_signalled(void **state)
{
	(void)state;
	pid_t pid = start_child("x");
	struct target t;
	assert_ok(target_find_pid(pid, &t));
	CLOSE_FD int fd = -1;
	assert_ok(target_pidfd(&t, &fd));
	assert_err(fd_wait(fd, POLLIN, deadline_in_ms(0)), ERR_TIMEOUT);
	kill(pid, SIGKILL);
	assert_ok(fd_wait(fd, POLLIN, deadline_in_ms(WAIT_MS)));
	struct target dead;
	assert_ok(target_find_pid(pid, &dead));
	assert_true(dead.zombie);
	assert_false(target_alive(&t));
	waitpid(pid, NULL, 0);
	assert_false(target_alive(&t));
	target_fini(&t);
	target_fini(&dead);
}

static void test_stopped(void **state)
{
	(void)state;
	pid_t pid = start_child("x");
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	struct target t;
	assert_ok(target_find_pid(pid, &t));
	assert_true(t.stopped);
	target_fini(&t);
	end_child(pid);
}

static void test_cpu_is_measured(void **state)
{
	(void)state;
	struct target t;
	assert_ok(target_find_pid(getpid(), &t));
	uint64_t until = t.cpu_ns + 20000000, spent = 0;
	struct timespec now;
	while (spent < until) {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
		spent = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	}
	assert_int_equal(t.cpu_window_ns, 0);
	target_measure_cpu(&t);
	assert_true(t.cpu_window_ns >= 20000000);
	assert_true(t.cpu_ratio > 0 && t.cpu_ratio <= 1.05);
	target_fini(&t);
}

/* The pid that the list shows for a socket; -1 when it is not in it. */
static pid_t pid_of(const struct target_list *list, const char *socket)
{
	for (size_t i = 0; i < list->n; i++)
		if (str_eq(list->v[i].socket, socket))
			return list->v[i].pid;
	return -1;
}

static int bind_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	str_copy(address.sun_path, sizeof(address.sun_path), path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* The folder that a child of ours is known to use. */
static const char *temp(void)
{
	const char *dir = getenv("TMPDIR");
	return str_empty(dir) ? "/tmp" : dir;
}

static bool is_other(void *user, const char *socket)
{
	return !str_eq(user, socket);
}

static void test_socket_of_a_process(void **state)
{
	(void)state;
	pid_t pid = start_child("x");
	struct target t;
	assert_ok(target_find_pid(pid, &t));
	assert_int_equal(t.socket_state, TARGET_SOCKET_NONE);
	CLEANUP(mem_freep)
	char *path = mem_printf("%s/dotnet-diagnostic-%d-%llu-socket", temp(), pid, (unsigned long long)t.start_ticks);
	CLEANUP(mem_freep)
	char *stale =
		mem_printf("%s/dotnet-diagnostic-%d-%llu-socket", temp(), pid, (unsigned long long)t.start_ticks - 1);
	target_fini(&t);

	/* an earlier process had the same pid */
	CLOSE_FD UNUSED int old = bind_socket(stale);
	assert_ok(target_find_pid(pid, &t));
	assert_int_equal(t.socket_state, TARGET_SOCKET_NONE);
	target_fini(&t);

	CLOSE_FD UNUSED int fd = bind_socket(path);
	assert_ok(target_find_pid(pid, &t));
	assert_int_equal(t.socket_state, TARGET_SOCKET_PRESENT);
	assert_string_equal(t.socket, path);
	assert_string_equal(t.name, "pretender");
	target_fini(&t);

	struct target_list list = { 0 };
	assert_ok(target_find_all(NULL, &list));
	assert_int_equal(pid_of(&list, path), pid);
	assert_int_equal(pid_of(&list, stale), 0);
	target_list_free(&list);

	/* who is asked about nobody's sockets may leave them out */
	struct target_probe probe = { is_other, stale };
	assert_ok(target_find_all(&probe, &list));
	assert_int_equal(pid_of(&list, path), pid);
	assert_int_equal(pid_of(&list, stale), -1);
	target_list_free(&list);
	unlink(path);
	unlink(stale);
	end_child(pid);
}

/* The names of threads alone prove nothing where we can look closer. */
static void test_pretender_is_no_patient(void **state)
{
	(void)state;
	pid_t pid = start_child(".NET EventPipe");
	struct target t;
	assert_ok(target_find_pid(pid, &t));
	assert_int_equal(t.socket_state, TARGET_SOCKET_NONE);
	char *path;
	assert_err(target_runtime_path(&t, &path), ERR_NOT_FOUND);
	target_fini(&t);
	end_child(pid);
}

/* ---- threads ---- */

static void *named_thread(void *arg)
{
	int *fds = arg;
	char byte;
	pthread_setname_np(pthread_self(), "checkout");
	assert_int_equal(write(fds[1], "x", 1), 1);
	return read(fds[2], &byte, 1) >= 0 ? NULL : arg;
}

static void test_threads_and_their_names(void **state)
{
	(void)state;
	int up[2], down[2];
	char byte;
	pthread_t thread;
	struct target self = { 0 };
	struct target_threads threads = { 0 };
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	assert_int_equal(pthread_create(&thread, NULL, named_thread, (int[]){ up[0], up[1], down[0] }), 0);
	assert_int_equal(read(up[0], &byte, 1), 1);
	assert_ok(target_find_pid(getpid(), &self));
	assert_ok(target_threads(&self, &threads));
	size_t named = 0, first = 0;
	vec_each(t, &threads) {
		named += str_eq(t->name, "checkout");
		first += t->tid == self.ns_pid;
		assert_true(t->cpu_ns > 0 && t->cpu_ns < UINT64_MAX);
		assert_true(t->turns > 0 && t->turns < UINT64_MAX);
	}
	assert_int_equal(named, 1);
	assert_int_equal(first, 1);
	vec_free(&threads);
	self.other_pid_ns = true; /* then each thread is asked for its own number */
	assert_ok(target_threads(&self, &threads));
	assert_true(threads.n >= 2);
	vec_free(&threads);
	assert_int_equal(write(down[1], "x", 1), 1);
	pthread_join(thread, NULL);
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
	target_fini(&self);
}

static void test_cpu_of_a_process(void **state)
{
	(void)state;
	struct target self = { 0 }, gone = { 0 };
	uint64_t cpu = 0;
	struct target_threads threads;
	assert_ok(target_find_pid(getpid(), &self));
	assert_true(target_cpu_ns(&self, &cpu));
	self.start_ticks++; /* another process with the same pid */
	assert_false(target_cpu_ns(&self, &cpu));
	assert_false(target_cpu_ns(&gone, &cpu));
	assert_err(target_threads(&gone, &threads), ERR_NOT_FOUND);
	target_fini(&self);
}

/* ---- CPU limits: a /proc and cgroups of our own ---- */

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

static void put_groups(const char *root, const char *groups, const char *mounts)
{
	CLEANUP(mem_freep) char *name = mem_printf("%d/cgroup", (int)getpid());
	put(root, name, groups);
	put(root, "self/mountinfo", mounts);
}

static void test_cpu_limit_v2(void **state)
{
	(void)state;
	char root[] = "/tmp/drdotnet-cpus-XXXXXX";
	assert_non_null(mkdtemp(root));
	CLEANUP(mem_freep) char *mounts = mem_printf("30 20 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
	put_groups(root, "0::/pod/app\n", mounts);
	put(root, "cg/pod/app/cpu.max", "max 100000\n");
	struct target_cpus none = target_cpus(root, getpid());
	assert_true(none.machine >= 1 && none.usable >= 1 && none.usable <= none.machine);
	assert_false(none.limited);
	/* The least of all levels counts, with its own numbers. */
	put(root, "cg/pod/app/cpu.max", "50000 100000\n");
	put(root, "cg/pod/cpu.max", "25000 100000\n");
	put(root, "cg/pod/cpu.stat", "usage_usec 7\nnr_periods 40\nnr_throttled 30\nthrottled_usec 9\n");
	struct target_cpus c = target_cpus(root, getpid());
	assert_true(c.limited);
	assert_float_equal(c.usable, 0.25, 1e-6);
	assert_int_equal(c.periods, 40);
	assert_int_equal(c.stopped, 30);
	/* More than there are is no limit, nor is what cannot be meant. */
	const char *const odd[] = {
		"6000000000 100000\n",	      "50000 0\n", "0 100000\n", "-1\n", "", "50000", "x y\n",
		"99999999999999999999999 1\n"
	};
	put(root, "cg/pod/cpu.max", "max 100000\n");
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		put(root, "cg/pod/app/cpu.max", odd[i]);
		assert_false(target_cpus(root, getpid()).limited);
	}
	assert_ok(dir_remove(root));
}

static void test_cpu_limit_v1_and_from_inside(void **state)
{
	(void)state;
	char root[] = "/tmp/drdotnet-cpus-XXXXXX";
	assert_non_null(mkdtemp(root));
	CLEANUP(mem_freep)
	char *mounts = mem_printf("31 20 0:27 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n", root);
	put_groups(root, "4:cpu,cpuacct:/docker/abc\n", mounts);
	put(root, "cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
	put(root, "cpu/docker/abc/cpu.cfs_period_us", "100000\n");
	assert_false(target_cpus(root, getpid()).limited);
	put(root, "cpu/docker/abc/cpu.cfs_quota_us", "20000\n");
	put(root, "cpu/docker/abc/cpu.stat", "nr_periods 5\nnr_throttled 5\nthrottled_time 1\n");
	struct target_cpus c = target_cpus(root, getpid());
	assert_true(c.limited);
	assert_float_equal(c.usable, 0.2, 1e-6);
	assert_int_equal(c.stopped, 5);
	/* A group that lies outside of what we see shows itself in its own mount. */
	put_groups(root, "0::/../other\n", mounts);
	CLEANUP(mem_freep) char *inside = mem_printf("%d/root/sys/fs/cgroup/cpu.max", (int)getpid());
	put(root, inside, "10000 100000\n");
	assert_float_equal(target_cpus(root, getpid()).usable, 0.1, 1e-6);
	assert_int_equal(target_cpus(root, 0).usable, target_cpus(root, 0).machine);
	assert_ok(dir_remove(root));
}

/* Without a free descriptor nobody has ended, and nobody is missing: it is not known. */
static void test_no_descriptor_left(void **state)
{
	(void)state;
	struct target t, found;
	struct target_list list = { 0 };
	struct rlimit before, few;
	int taken[64];
	size_t n = 0;
	assert_ok(target_find_pid(getppid(), &t));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ 48, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (n < ARRAY_SIZE(taken) && (taken[n] = dup(0)) >= 0)
		n++;
	assert_true(n > 0 && n < ARRAY_SIZE(taken));
	for (int free = 0; free < 2; free++) { /* with one, the folder can be opened, but no file in it */
		assert_err(target_check(&t), ERR_IO);
		assert_true(target_alive(&t));
		assert_err(target_find_pid(t.pid, &found), ERR_IO);
		assert_err(target_find_all(NULL, &list), ERR_IO);
		close(taken[--n]);
	}
	while (n)
		close(taken[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_ok(target_check(&t));
	assert_err(target_check(&(struct target){ .pid = t.pid, .start_ticks = t.start_ticks + 1 }), ERR_NOT_FOUND);
	assert_err(target_check(&(struct target){ .pid = 0 }), ERR_NOT_FOUND);
	target_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_stat_cut_and_bent),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_environ),
		cmocka_unit_test(test_command_line),
		cmocka_unit_test(test_containers),
		cmocka_unit_test(test_containers_by_mounts),
		cmocka_unit_test(test_pods),
		cmocka_unit_test(test_socket_names),
		cmocka_unit_test(test_mapped_files),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_end_is_signalled),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_cpu_is_measured),
		cmocka_unit_test(test_socket_of_a_process),
		cmocka_unit_test(test_pretender_is_no_patient),
		cmocka_unit_test(test_threads_and_their_names),
		cmocka_unit_test(test_cpu_of_a_process),
		cmocka_unit_test(test_cpu_limit_v2),
		cmocka_unit_test(test_cpu_limit_v1_and_from_inside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
