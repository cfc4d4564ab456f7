#include "dachost/sandbox.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Far above the ids that login.defs, containers and systemd assign, and one for each process: helpers of two
 * examinations have no access to each other. */
#define UNUSED_UID 1900000000u
#define NOBODY 65534u
/* The name under which the loader asks for the library; there is no such file. */
#define LIBRARY_NAME "/libmscordaccore.so"

/* ---- system calls ---- */

/* Memory, time, signals of our own, reading what is open. */
static const int allowed[] = {
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_pread64,
	SYS_close,
	SYS_dup,
	SYS_pipe2, /* the library makes itself one */
	SYS_fstat,
	SYS_lseek,
	SYS_poll,
	SYS_munmap,
	SYS_mremap,
	SYS_brk,
	SYS_madvise,
	SYS_mincore,
	SYS_futex,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sigaltstack,
	SYS_getpid,
	SYS_gettid,
	SYS_getppid,
	SYS_getsid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_nanosleep,
	SYS_gettimeofday,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_getcpu,
	SYS_getrandom,
	SYS_uname,
	SYS_sysinfo,
	SYS_getrlimit,
	SYS_getrusage,
	SYS_set_robust_list,
	SYS_rseq,
	SYS_membarrier,
	SYS_restart_syscall,
	SYS_seccomp, /* can only take more away */
	SYS_exit,
	SYS_exit_group,
};

/* No library asks for these by mistake: the end. Whatever is in neither list fails with EPERM and has no effect. */
static const int deadly[] = {
	SYS_execve,
	SYS_execveat,
	SYS_fork,
	SYS_vfork,
	SYS_clone,
	SYS_clone3,
	SYS_socket,
	SYS_connect,
	SYS_bind,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kill,
	SYS_tkill,
	SYS_pidfd_open,
	SYS_pidfd_getfd,
	SYS_open_by_handle_at,
	SYS_bpf,
	SYS_io_uring_setup,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_unshare,
	SYS_setns,
	SYS_mount,
	SYS_chroot,
	SYS_keyctl,
};

#define MAX_CODE 256
struct bpf_program {
	struct sock_filter code[MAX_CODE];
	unsigned short n;
};

static void add(struct bpf_program *p, struct sock_filter op)
{
	if (p->n < MAX_CODE)
		p->code[p->n] = op;
	p->n++;
}

static void add_return(struct bpf_program *p, uint32_t action)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void add_load(struct bpf_program *p, size_t offset)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* If the number in the accumulator is nr: action. */
static void add_call(struct bpf_program *p, int nr, uint32_t action)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1));
	add_return(p, action);
}

static size_t argument(unsigned i)
{
	return offsetof(struct seccomp_data, args) + i * sizeof(uint64_t);
}

/* nr: allowed when the low word of an argument is (or, with want_mask, has none of the bits) value, else EPERM. */
static void add_call_if(struct bpf_program *p, int nr, unsigned arg, uint32_t value, bool is_mask)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 4));
	add_load(p, argument(arg));
	if (is_mask)
		add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, value, 1, 0));
	else
		add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
	add_return(p, SECCOMP_RET_ALLOW);
	add_return(p, SECCOMP_RET_ERRNO | EPERM);
}

static void add_prologue(struct bpf_program *p)
{
	add_load(p, offsetof(struct seccomp_data, arch));
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	add_return(p, SECCOMP_RET_KILL_PROCESS);
	add_load(p, offsetof(struct seccomp_data, nr));
	/* The x32 numbers of the same calls. */
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
	add_return(p, SECCOMP_RET_KILL_PROCESS);
}

static bool install(const struct bpf_program *p)
{
	struct sock_fprog prog = { .len = p->n, .filter = (struct sock_filter *)(uintptr_t)p->code };
	return p->n <= MAX_CODE && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

static bool filter_enter(void)
{
	struct bpf_program p = { 0 };
	add_prologue(&p);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		add_call(&p, allowed[i], SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		add_call(&p, deadly[i], SECCOMP_RET_KILL_PROCESS);
	add_call(&p, SYS_mmap, SECCOMP_RET_ALLOW);
	add_call(&p, SYS_mprotect, SECCOMP_RET_ALLOW);
	add_call(&p, SYS_openat, SECCOMP_RET_TRAP);
	add_call_if(&p, SYS_newfstatat, 3, AT_EMPTY_PATH, false);
	add_call_if(&p, SYS_prlimit64, 0, 0, false);
	add_call_if(&p, SYS_tgkill, 0, (uint32_t)getpid(), false); /* abort() */
	add_return(&p, SECCOMP_RET_ERRNO | EPERM);
	return install(&p);
}

const char *sandbox_seal(void)
{
	struct bpf_program p = { 0 };
	add_prologue(&p);
	add_call_if(&p, SYS_mmap, 2, PROT_EXEC, true);
	add_call_if(&p, SYS_mprotect, 2, PROT_EXEC, true);
	add_return(&p, SECCOMP_RET_ALLOW);
	return install(&p) ? NULL : "the second filter of system calls could not be set";
}

/* ---- the one file ---- */

static volatile sig_atomic_t loading_fd = -1;

/* Every openat ends here; the kernel has not carried it out. */
static void on_openat(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	int saved = errno;
	long result = -EACCES;
	if (info->si_syscall == SYS_openat && loading_fd >= 0) {
		/* The loader looks for what the library needs by other names: those are not there. */
		result = -ENOENT;
		if (!strcmp((const char *)regs[REG_RSI], LIBRARY_NAME)) {
			result = dup(loading_fd);
			loading_fd = -1;
		}
	}
	regs[REG_RAX] = result;
	errno = saved;
}

void *sandbox_load(int library_fd)
{
	lseek(library_fd, 0, SEEK_SET);
	loading_fd = library_fd;
	void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
	loading_fd = -1;
	return library;
}

/* ---- rights ---- */

static bool limit(int what, uint64_t value)
{
	struct rlimit now;
	if (getrlimit(what, &now))
		return false;
	if (value > now.rlim_max)
		value = now.rlim_max;
	return setrlimit(what, &(struct rlimit){ value, value }) == 0;
}

static bool drop_user(void)
{
	if (geteuid() != 0)
		return true;
	uid_t candidates[] = { UNUSED_UID + (uid_t)getpid(), NOBODY };
	for (size_t i = 0; i < 2; i++) {
		uid_t id = candidates[i];
		/* An id that is not mapped in our user namespace is refused before anything has changed. */
		if (setresgid(id, id, id))
			continue;
		return setresuid(id, id, id) == 0;
	}
	return false;
}

static bool drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	return syscall(SYS_capset, &head, none) == 0;
}

static void close_others(unsigned first)
{
	if (!syscall(SYS_close_range, first, ~0u, 0))
		return;
	struct rlimit open_max;
	if (getrlimit(RLIMIT_NOFILE, &open_max))
		return;
	for (unsigned fd = first; fd < open_max.rlim_cur && fd < 1u << 20; fd++)
		close((int)fd);
}

const char *sandbox_enter(const struct sandbox_limits *limits)
{
	close_others(limits->n_fds);
	if (geteuid() == 0 && setgroups(0, NULL))
		return "its groups could not be left";
	if (!drop_user())
		return "its user could not be changed";
	if (!drop_capabilities())
		return "its capabilities could not be dropped";
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return "new privileges could not be ruled out";
	/* A few descriptors more: the loader's copy of the library's, the library's own pipe. */
	if (!limit(RLIMIT_NOFILE, limits->n_fds + 4) || !limit(RLIMIT_AS, limits->memory_bytes) ||
	    !limit(RLIMIT_CPU, limits->cpu_seconds) || !limit(RLIMIT_NPROC, 0) || !limit(RLIMIT_FSIZE, 0) ||
	    !limit(RLIMIT_CORE, 0))
		return "its limits could not be set";
	struct sigaction trap = { .sa_sigaction = on_openat, .sa_flags = SA_SIGINFO | SA_NODEFER };
	if (sigaction(SIGSYS, &trap, NULL) || !filter_enter())
		return "the filter of system calls could not be set";
	return NULL;
}
