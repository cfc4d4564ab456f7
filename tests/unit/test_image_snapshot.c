/* The parts of a snapshot that touch no process: the frame that heals, filters, room, the lock. Snapshots themselves:
 * tests/e2e. */
#include "unit.h"

#include "base/fd.h"
#include "image/frame.h"
#include "image/image.h"
#include "image/limits.h"
#include "image/lock.h"
#include "image/maps.h"
#include "image/save.h"
#include "image/seccomp.h"
#include "target/target.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the frame ---- */

static struct frame_state waiting_thread(void)
{
	struct frame_state s = { .call = SYS_read, .mask = 0x1234, .syscall_at = 0x5000, .sigreturn_at = 0x6000 };
	s.regs = (struct image_regs){ .rip = 0x402,
				      .rsp = 0x7ffffff0,
				      .rax = (uint64_t)-512,
				      .orig_rax = SYS_read,
				      .cs = 0x33,
				      .ss = 0x2b,
				      .rdi = 3,
				      .eflags = 0x246 };
	uint64_t features = 3;
	s.xstate_len = 832;
	memcpy(s.xstate + 464, &features, 8);
	memcpy(s.xstate + 512, &features, 8);
	return s;
}

static uint64_t word_at(const struct frame *f, uint64_t addr)
{
	uint64_t v;
	assert_true(addr >= f->at && addr + 8 <= f->at + f->len);
	memcpy(&v, f->bytes + (addr - f->at), 8);
	return v;
}

static void test_frame_leads_back(void **state)
{
	(void)state;
	struct frame_state s = waiting_thread();
	static struct frame f;
	assert_true(frame_build(&s, &f));
	/* Below the red zone, and for XRSTOR. */
	assert_true(f.at + f.len <= s.regs.rsp - 128);
	assert_int_equal(f.at % 64, 0);
	const uint64_t args[4] = { 1, 2, 3, 4 };
	struct image_regs call = frame_call(&f, &s, SYS_clone, args);
	assert_int_equal(call.rip, 0x5000);
	assert_int_equal(call.orig_rax, UINT64_MAX);
	/* Where `ret` goes, and what the return from a signal finds there: offsets of the kernel's rt_sigframe. */
	assert_int_equal(word_at(&f, call.rsp), 0x6000);
	assert_int_equal(f.heal.rip, 0x6000);
	assert_int_equal(f.heal.rsp, call.rsp + 8);
	uint64_t uc = call.rsp + 8;
	assert_int_equal(word_at(&f, uc), 7);
	assert_int_equal(word_at(&f, uc + 40 + 13 * 8), SYS_read);
	assert_int_equal(word_at(&f, uc + 40 + 15 * 8), s.regs.rsp);
	assert_int_equal(word_at(&f, uc + 40 + 16 * 8), s.regs.rip - 2);
	assert_int_equal(word_at(&f, uc + 296), 0x1234);
	uint64_t fp = word_at(&f, uc + 40 + 23 * 8);
	assert_int_equal(fp % 64, 0);
	assert_int_equal((uint32_t)word_at(&f, fp + 464), 0x46505853);
	/* A copy can only end. */
	uint64_t other = frame_exit_stack(&f);
	assert_int_equal(word_at(&f, other), 0x6000);
	assert_int_equal(word_at(&f, other + 8 + 40 + 13 * 8), SYS_exit_group);
	assert_int_equal(word_at(&f, other + 8 + 40 + 16 * 8), 0x5000);
	/* A thread that uses tiles cannot carry it. */
	uint64_t tiles = 3 | (uint64_t)1 << 18;
	memcpy(s.xstate + 512, &tiles, 8);
	assert_false(frame_build(&s, &f));
}

static void test_which_threads_can_carry(void **state)
{
	(void)state;
	static const uint8_t poll_code[7] = { 0xb8, 7, 0, 0, 0, 0x0f, 5 },
			     futex_code[7] = { 0xb8, 202, 0, 0, 0, 0x0f, 5 };
	static const uint8_t other_code[7] = { 1, 2, 3, 4, 5, 0x0f, 5 }, no_call[7] = { 0 };
	const struct {
		int64_t result, call;
		uint64_t rsi, rdx, cs;
		const uint8_t *code;
		enum carrier_kind want;
		uint64_t want_call;
	} cases[] = {
		{ -512, SYS_read, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_read },
		{ -513, SYS_openat, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_openat },
		{ -514, SYS_pause, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_pause },
		{ -512, SYS_read, 0, 0, 0x23, other_code, CARRIER_NO, 0 },
		{ -512, SYS_read, 0, 0, 0x33, no_call, CARRIER_NO, 0 },
		{ -512, SYS_read, 0, 0, 0x33, NULL, CARRIER_NO, 0 },
		{ -512, -1, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -512, SYS_restart_syscall, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -4, SYS_epoll_wait, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ 0, SYS_read, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -516, SYS_poll, 0, (uint32_t)-1, 0x33, poll_code, CARRIER_TIMED, SYS_poll },
		{ -516, SYS_poll, 0, 1000, 0x33, poll_code, CARRIER_NO, 0 },
		{ -516, SYS_restart_syscall, 0, (uint32_t)-1, 0x33, poll_code, CARRIER_TIMED, SYS_poll },
		{ -516, SYS_restart_syscall, 0, (uint32_t)-1, 0x33, other_code, CARRIER_NO, 0 },
		{ -516, SYS_futex, 0x89, 0, 0x33, futex_code, CARRIER_TIMED, SYS_futex },
		{ -516, SYS_futex, 0x80, 0, 0x33, futex_code, CARRIER_NO, 0 },
		{ -516, SYS_nanosleep, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image_regs r = { .rax = (uint64_t)cases[i].result,
					.orig_rax = (uint64_t)cases[i].call,
					.rsi = cases[i].rsi,
					.rdx = cases[i].rdx,
					.cs = cases[i].cs };
		uint64_t call = 0;
		if (carrier_kind(&r, cases[i].code, &call) != cases[i].want)
			fail_msg("case %zu", i);
		if (cases[i].want != CARRIER_NO)
			assert_int_equal(call, cases[i].want_call);
	}
	assert_true(carrier_rank(CARRIER_PLAIN, ".NET DebugPipe") < carrier_rank(CARRIER_TIMED, ".NET SynchManag"));
	assert_true(carrier_rank(CARRIER_TIMED, ".NET SynchManag") < carrier_rank(CARRIER_TIMED, ".NET Finalizer"));
	assert_true(carrier_rank(CARRIER_TIMED, ".NET Finalizer") < carrier_rank(CARRIER_PLAIN, "shop"));
}

/* ---- seccomp ---- */

static void test_filters_are_run(void **state)
{
	(void)state;
	const struct sock_filter docker_like[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7e020000),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	};
	struct seccomp_call clone_files = { .nr = SYS_clone, .args = { 0x400 } };
	struct seccomp_call clone_ns = { .nr = SYS_clone, .args = { 0x20000 } };
	struct seccomp_call other = { .nr = SYS_ptrace };
	size_t n = ARRAY_SIZE(docker_like);
	assert_int_equal(seccomp_run(docker_like, n, &clone_files), SECCOMP_ALLOWS);
	assert_int_equal(seccomp_run(docker_like, n, &clone_ns), SECCOMP_REFUSES);
	assert_int_equal(seccomp_run(docker_like, n, &other), SECCOMP_ALLOWS);
	/* Flags that are not known may be any. */
	struct seccomp_call clone_any = { .nr = SYS_clone, .unknown = 1 };
	assert_int_equal(seccomp_run(docker_like, n, &clone_any), SECCOMP_REFUSES);
	/* Index register, scratch memory, computed answers. */
	const struct sock_filter computed[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),	BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 3), BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, SYS_clone),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	assert_int_equal(seccomp_run(computed, ARRAY_SIZE(computed), &clone_files), SECCOMP_ALLOWS);
	/* What is not understood forbids. */
	const struct sock_filter odd[] = { BPF_STMT(0xff, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64),
					       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_filter endless[] = { BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff) };
	assert_int_equal(seccomp_run(odd, 2, &other), SECCOMP_KILLS);
	assert_int_equal(seccomp_run(outside, 2, &other), SECCOMP_KILLS);
	assert_int_equal(seccomp_run(endless, 1, &other), SECCOMP_KILLS);
	assert_int_equal(seccomp_run(NULL, 0, &other), SECCOMP_KILLS);
}

static enum seccomp_answer answer(uint32_t action)
{
	const struct sock_filter one[] = { BPF_STMT(BPF_RET | BPF_K, action) };
	return seccomp_run(one, 1, &(struct seccomp_call){ .nr = SYS_read });
}

static void test_actions_of_filters(void **state)
{
	(void)state;
	assert_int_equal(answer(SECCOMP_RET_ALLOW), SECCOMP_ALLOWS);
	assert_int_equal(answer(SECCOMP_RET_LOG), SECCOMP_ALLOWS);
	assert_int_equal(answer(SECCOMP_RET_ERRNO | 38), SECCOMP_REFUSES);
	assert_int_equal(answer(SECCOMP_RET_TRAP), SECCOMP_KILLS);
	assert_int_equal(answer(SECCOMP_RET_TRACE), SECCOMP_KILLS);
	assert_int_equal(answer(SECCOMP_RET_USER_NOTIF), SECCOMP_KILLS);
	assert_int_equal(answer(SECCOMP_RET_KILL_THREAD), SECCOMP_KILLS);
	assert_int_equal(answer(SECCOMP_RET_KILL_PROCESS), SECCOMP_KILLS);
	assert_int_equal(answer(0x12340000), SECCOMP_KILLS);
}

/* Every way through a filter counts that what is not known could take; what is known takes one. */
static void test_unknown_arguments(void **state)
{
	(void)state;
	/* write to descriptor 7 kills; the address of the call, too, when its upper half is 9. */
	const struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 9, 4, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct seccomp_call known = { .nr = SYS_write, .args = { 3 } };
	struct seccomp_call any = { .nr = SYS_write, .args = { 3 }, .unknown = 1 };
	struct seccomp_call second = { .nr = SYS_write, .args = { 3 }, .unknown = 2 };
	struct seccomp_call anywhere = { .nr = SYS_read, .unknown = SECCOMP_ANY_IP };
	assert_int_equal(seccomp_run(f, ARRAY_SIZE(f), &known), SECCOMP_ALLOWS);
	assert_int_equal(seccomp_run(f, ARRAY_SIZE(f), &second), SECCOMP_ALLOWS);
	assert_int_equal(seccomp_run(f, ARRAY_SIZE(f), &any), SECCOMP_KILLS);
	assert_int_equal(seccomp_run(f, ARRAY_SIZE(f), &anywhere), SECCOMP_KILLS);
	known.args[0] = 7;
	assert_int_equal(seccomp_run(f, ARRAY_SIZE(f), &known), SECCOMP_KILLS);
	/* So many branches that nobody follows them all: not understood. */
	struct sock_filter many[4000];
	for (size_t i = 0; i < ARRAY_SIZE(many); i += 2) {
		many[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16);
		many[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)i, 0, 2);
	}
	many[ARRAY_SIZE(many) - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	assert_int_equal(seccomp_run(many, ARRAY_SIZE(many), &any), SECCOMP_KILLS);
}

/* ---- limits: a /proc and cgroups of our own ---- */

static char *fresh_folder(void)
{
	static char path[64];
	unit_temp_dir(path, sizeof(path));
	return path;
}

static void put(const char *root, const char *name, const char *text)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void put_machine(const char *root, const char *cgroup, const char *mountinfo)
{
	put(root, "meminfo", "MemTotal:       1000000 kB\nMemFree: 5 kB\nMemAvailable:    900000 kB\n");
	put(root, "7/cgroup", cgroup);
	put(root, "self/mountinfo", mountinfo);
}

/* Memory of this process that it shares, once with a descriptor of the file and once without. */
static void test_shared_memory_is_saved_whole_or_not_at_all(void **state UNUSED)
{
	static const char text[] = "shared";
	enum { LEN = 3 * 4096, MAPS_MAX = 1 << 20, SAVED_MAX = 1 << 20 };
	CLOSE_FD int fd = memfd_create("drdotnet-test", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, text, sizeof(text), 4096), sizeof(text));
	assert_int_equal(ftruncate(fd, LEN), 0);
	char *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(shared != MAP_FAILED && shared[4096] == 's');
	CLEANUP(mem_freep) char *maps = mem_alloc(MAPS_MAX);
	CLEANUP(mem_freep) uint8_t *saved = mem_alloc(SAVED_MAX);
	CLEANUP(mem_freep) struct tracer_result *result = mem_zalloc(sizeof(*result));
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	struct tracer_file file = { .fd = fd, .dev = st.st_dev, .ino = st.st_ino, .memory = true };
	snprintf(maps, MAPS_MAX, "%lx-%lx rw-s 00000000 %02x:%02x %lu /memfd:drdotnet-test (deleted)\n",
		 (unsigned long)shared, (unsigned long)shared + LEN, major(st.st_dev), minor(st.st_dev),
		 (unsigned long)st.st_ino);
	result->maps_len = strlen(maps);
	struct tracer_job job = {
		.maps = maps, .saved = saved, .saved_max = SAVED_MAX, .result = result, .files = &file
	};
	CLOSE_FD int mem_fd = job.mem_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	CLOSE_FD int pagemap_fd = job.pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	for (job.n_files = 0; job.n_files <= 1; job.n_files++) {
		assert_true(save_shared(&job, deadline_in_ms(60000)));
		assert_int_equal(result->left_bytes, 0);
		assert_in_range(result->n_saved, 1, 3);
		assert_non_null(memmem(saved, result->saved_bytes, text, sizeof(text)));
		assert_false(save_shared(&job, (struct deadline){ 0 }));
	}
	munmap(shared, LEN);
	(void)mem_fd, (void)pagemap_fd;
}

static void test_a_large_process_may_pause_longer(void **state UNUSED)
{
	const uint64_t gb = 1ull << 30;
	assert_int_equal(image_default_pause_ms(0), 100);
	assert_int_equal(image_default_pause_ms(gb), 100);
	assert_int_equal(image_default_pause_ms(5 * gb), 200);
	assert_int_equal(image_default_pause_ms(100 * gb), 500);
	assert_int_equal(image_default_pause_ms(UINT64_MAX), 500);
	/* What is foreseen of 5 GB with 500 threads is within it. */
	const struct limits_process large = { .threads = 500, .anon = 5 * gb };
	assert_true(limits_pause_ns(&large) < image_default_pause_ms(large.anon) * NS_PER_MS);
}

static void test_room_in_cgroups_v2(void **state)
{
	(void)state;
	char *root = fresh_folder(), mounts[200];
	snprintf(mounts, sizeof(mounts), "30 20 0:26 / %s/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", root);
	put_machine(root, "0::/pod/app\n", mounts);
	put(root, "cg/pod/app/memory.max", "max\n");
	put(root, "cg/pod/app/memory.current", "1000000\n");
	put(root, "cg/pod/app/cgroup.events", "populated 1\nfrozen 0\n");
	put(root, "cg/pod/memory.max", "300000000\n");
	put(root, "cg/pod/memory.current", "250000000\n");
	put(root, "cg/pod/memory.stat", "anon 1\ninactive_file 20000000\nactive_file 7\n");
	struct limits_watch w;
	limits_watch_init(&w, root, 7);
	assert_false(w.hidden);
	struct limits_room room = limits_watch_room(&w);
	assert_int_equal(room.bytes, 70000000);
	assert_int_equal(room.limit, 300000000);
	assert_false(room.machine);
	assert_false(room.oom_group);
	assert_false(limits_frozen(&w));
	put(root, "cg/pod/memory.high", "260000000\n");
	put(root, "cg/pod/memory.oom.group", "1\n");
	put(root, "cg/pod/app/cgroup.events", "populated 1\nfrozen 1\n");
	room = limits_watch_room(&w);
	assert_int_equal(room.bytes, 30000000);
	assert_true(room.oom_group);
	assert_true(limits_frozen(&w));
	/* On a level without a limit of its own: that of the level above may be reached by it. */
	put(root, "cg/pod/memory.oom.group", "0\n");
	assert_false(limits_watch_room(&w).oom_group);
	put(root, "cg/pod/app/memory.oom.group", "1\n");
	assert_true(limits_watch_room(&w).oom_group);
	limits_watch_fini(&w);
	assert_ok(dir_remove(root));
}

static void test_room_in_cgroups_v1_and_machine(void **state)
{
	(void)state;
	char *root = fresh_folder(), mounts[400];
	snprintf(mounts, sizeof(mounts),
		 "31 20 0:27 /docker/abc %s/mem rw - cgroup cgroup rw,memory\n"
		 "32 20 0:28 / %s/fr rw - cgroup cgroup rw,freezer\n",
		 root, root);
	put_machine(root, "5:freezer:/f\n4:cpu,memory:/docker/abc/x\n0::/\n", mounts);
	put(root, "mem/x/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "mem/memory.limit_in_bytes", "200000000\n");
	put(root, "mem/memory.usage_in_bytes", "150000000\n");
	put(root, "fr/f/freezer.state", "FROZEN\n");
	struct limits_watch w;
	limits_watch_init(&w, root, 7);
	assert_int_equal(limits_watch_room(&w).bytes, 50000000);
	assert_true(limits_frozen(&w));
	put(root, "fr/f/freezer.state", "THAWED\n");
	assert_false(limits_frozen(&w));
	put(root, "mem/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(limits_watch_room(&w).bytes, 900000 * 1024);
	assert_true(limits_watch_room(&w).machine);
	limits_watch_fini(&w);
	/* One that lies outside of what we see. */
	put(root, "7/cgroup", "0::/../other\n");
	snprintf(mounts, sizeof(mounts), "30 20 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
	put(root, "self/mountinfo", mounts);
	limits_watch_init(&w, root, 7);
	assert_true(w.hidden);
	limits_watch_fini(&w);
	/* ... but shows its own inside. */
	put(root, "7/root/sys/fs/cgroup/memory.max", "64000000\n");
	put(root, "7/root/sys/fs/cgroup/memory.current", "60000000\n");
	limits_watch_init(&w, root, 7);
	assert_false(w.hidden);
	assert_int_equal(limits_watch_room(&w).bytes, 4000000);
	limits_watch_fini(&w);
	assert_ok(dir_remove(root));
}

static void test_what_a_copy_needs(void **state)
{
	(void)state;
	const uint64_t mb = 1 << 20;
	struct limits_process small = { .anon = 40 * mb }, large = { .anon = 1000 * mb, .page_tables = 2 * mb };
	assert_int_equal(limits_need(&small), 40 * mb);
	assert_int_equal(limits_need(&large), (250 + 64 + 2) * mb);
	assert_true(limits_pause_ns(&large) > limits_pause_ns(&small));
	struct limits_process self;
	assert_ok(limits_read_process("/proc", getpid(), &self));
	assert_true(self.rss > 0 && self.anon > 0 && self.threads >= 1 && self.start_ticks > 0);
	assert_err(limits_read_process("/proc", 0x7ffffffe, &self), ERR_NOT_FOUND);
}

/* ---- the lock ---- */

static void test_one_at_a_time(void **state)
{
	(void)state;
	struct target t = { .pid = getpid(), .start_ticks = 99 }, other = { .pid = getpid(), .start_ticks = 98 };
	uint8_t cookie[16] = { 1, 2, 3, (uint8_t)getpid() };
	int first = -1, second = -1;
	assert_ok(lock_take(&t, NULL, &first));
	assert_err(lock_take(&t, NULL, &second), ERR_BUSY);
	assert_err(lock_probe(&t, NULL), ERR_BUSY);
	assert_ok(lock_probe(&other, NULL));
	assert_ok(lock_take(&t, cookie, &second));
	assert_err(lock_probe(&other, cookie), ERR_BUSY);
	/* However many have knocked and were not let in. */
	for (int i = 0; i < 100; i++)
		assert_err(lock_probe(&t, NULL), ERR_BUSY);
	close(first);
	assert_ok(lock_probe(&t, NULL));
	close(second);
}

static void note_holder(void *user, pid_t holder)
{
	*(pid_t *)user = holder;
}

static void test_a_turn_is_waited_for(void **state)
{
	(void)state;
	struct target t = { .pid = getpid(), .start_ticks = 97 };
	pid_t seen = 0;
	bool waited = true;
	int held = -1, cancel[2], ready[2];
	struct image_turn turn = { .deadline = deadline_in_ms(0), .waiting = note_holder, .user = &seen };
	assert_ok(image_wait_turn(&t, &turn, &waited));
	assert_false(waited);
	assert_ok(lock_take(&t, NULL, &held));
	assert_err(image_wait_turn(&t, &turn, &waited), ERR_BUSY);
	assert_int_equal(seen, 0);
	assert_int_equal(pipe(cancel), 0);
	assert_int_equal(write(cancel[1], "x", 1), 1);
	turn.deadline = DEADLINE_NEVER;
	turn.cancel_fd = cancel[0];
	assert_err(image_wait_turn(&t, &turn, &waited), ERR_CANCELLED);
	assert_int_equal(seen, getpid());
	close(held);
	turn.cancel_fd = -1;

	/* One that ends, however it ends; with so many at its door that the last cannot even knock. */
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (!child) {
		int own;
		err_ignore(lock_take(&t, NULL, &own));
		bool told = write(ready[1], "x", 1) == 1;
		_exit(told && pause() < 0 ? 0 : 1);
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	for (int crowded = 0; crowded < 2; crowded++) {
		for (int i = 0; crowded && i < 100; i++)
			assert_err(lock_probe(&t, NULL), ERR_BUSY);
		seen = 0;
		turn.deadline = deadline_in_ms(1);
		assert_err(image_wait_turn(&t, &turn, &waited), ERR_BUSY);
		assert_int_equal(seen, crowded ? -1 : child);
	}
	turn.deadline = deadline_in_ms(60000);
	kill(child, SIGKILL);
	assert_ok(image_wait_turn(&t, &turn, &waited));
	assert_int_equal(waitpid(child, NULL, 0), child);
	for (int i = 0; i < 2; i++) {
		close(cancel[i]);
		close(ready[i]);
	}
}

/* A copy that nobody holds is no other examination: it is on its way out. */
static void test_a_late_copy_is_waited_for(void **state)
{
	(void)state;
	struct target t = { .pid = getpid() };
	struct limits_process self;
	struct image_forecast f;
	struct lock_children children;
	int gate[2];
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	assert_ok(limits_read_process("/proc", t.pid, &self));
	t.start_ticks = self.start_ticks;
	pid_t copy = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	if (!copy) {
		struct pollfd p = { .fd = gate[0], .events = POLLIN };
		poll(&p, 1, 300);
		_exit(0);
	}
	assert_true(copy > 0);
	lock_find_children("/proc", t.pid, &children);
	assert_int_equal(children.alive, copy);
	struct err *err = image_forecast(&t, NULL, &f);
	assert_true(!err || !strstr(err_text(err), "exists already"));
	err_free(err);
	lock_find_children("/proc", t.pid, &children);
	assert_int_equal(children.alive, 0);
	assert_int_equal(waitpid(copy, NULL, __WALL), copy);
	close(gate[0]);
	close(gate[1]);
}

static void test_maps_lines(void **state)
{
	(void)state;
	static const char text[] = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a file\n"
				   "7f1-7f2 rw-s 0 00:01 5 /memfd:doublemapper (deleted)\n"
				   "7f3000-7f4000 rw-s 0 00:06 5 /dev/dri/card0\n"
				   "7f5000-7f6000 r--s 0 fe:01 9 /usr/share/icu.dat\n"
				   "ff-100 ---p 0 00:00 0 \n"
				   "broken\n";
	const char *p = text, *end = text + sizeof(text) - 1;
	struct maps_line l;
	assert_true(maps_next(&p, end, &l));
	assert_int_equal(l.start, 0x400000);
	assert_int_equal(l.end, 0x452000);
	assert_int_equal(l.offset, 0x1000);
	assert_int_equal(l.ino, 173521);
	assert_memory_equal(l.path, "/usr/bin/a file", l.path_len);
	assert_false(maps_shared(&l));
	assert_true(maps_next(&p, end, &l));
	assert_true(maps_shared(&l) && !maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_true(!maps_shared(&l) && maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_false(maps_shared(&l) || maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_int_equal(l.path_len, 0);
	assert_false(maps_next(&p, end, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_memory_is_saved_whole_or_not_at_all),
		cmocka_unit_test(test_a_large_process_may_pause_longer),
		cmocka_unit_test(test_frame_leads_back),
		cmocka_unit_test(test_which_threads_can_carry),
		cmocka_unit_test(test_filters_are_run),
		cmocka_unit_test(test_actions_of_filters),
		cmocka_unit_test(test_unknown_arguments),
		cmocka_unit_test(test_room_in_cgroups_v2),
		cmocka_unit_test(test_room_in_cgroups_v1_and_machine),
		cmocka_unit_test(test_what_a_copy_needs),
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_a_turn_is_waited_for),
		cmocka_unit_test(test_a_late_copy_is_waited_for),
		cmocka_unit_test(test_maps_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
