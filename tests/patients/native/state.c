/* state: a native patient that knows every bit of its own state. Threads wait in system calls with live vector, float
 * and general registers and compare them when they come back; others compute with them without pause; signals, timers
 * and alternate stacks are counted and compared.
 *
 *   state [read] [poll] [futex] [none]   the waits to use; all without one
 *         [forbid-errno|forbid-kill|allow]  run under a seccomp filter that does this to clone without CLONE_THREAD
 *         [vfork]                           a thread stands in vfork
 *   standard input    "check" -> "OK {numbers}" or "BAD what differs"; "quit"
 *   standard output   "READY {pid}" at first */
#include <cpuid.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* ---- a system call with everything live across it ---- */

struct live {
	uint8_t ymm[16][32];		       /* 0 */
	uint8_t zmm_high[16][64];	       /* 512: zmm16 to zmm31 */
	uint64_t k[8];			       /* 1536 */
	uint8_t x87[8][16];		       /* 1600 */
	uint32_t mxcsr, cw;		       /* 1728, 1732 */
	uint64_t rbx, rbp, r12, r13, r14, r15; /* 1736 */
	uint64_t flags, result, rsp, unused;   /* 1784, 1792, 1800 */
};
struct call {
	uint64_t nr, args[6];
	uint64_t avx512;
};
_Static_assert(sizeof(struct live) == 1816, "as the code below knows it");

void live_call(const struct live *in, struct live *out, const struct call *call);
__asm__(".text\n"
	".globl live_call\n"
	".type live_call, @function\n"
	"live_call:\n"
	"push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"push %rsi\n push %rdx\n"
	".set i, 0\n"
	".rept 16\n"
	"  .altmacro\n"
	"  .macro load n\n vmovups 32*\\n(%rdi), %ymm\\n\n .endm\n"
	"  load %i\n"
	"  .purgem load\n"
	"  .noaltmacro\n"
	"  .set i, i+1\n"
	".endr\n"
	"cmpq $0, 56(%rdx)\n je 1f\n"
	".set i, 16\n"
	".rept 16\n"
	"  .altmacro\n"
	"  .macro load n\n vmovups 512+64*(\\n-16)(%rdi), %zmm\\n\n .endm\n"
	"  load %i\n"
	"  .purgem load\n"
	"  .noaltmacro\n"
	"  .set i, i+1\n"
	".endr\n"
	"kmovq 1536(%rdi), %k0\n kmovq 1544(%rdi), %k1\n kmovq 1552(%rdi), %k2\n kmovq 1560(%rdi), %k3\n"
	"kmovq 1568(%rdi), %k4\n kmovq 1576(%rdi), %k5\n kmovq 1584(%rdi), %k6\n kmovq 1592(%rdi), %k7\n"
	"1:\n"
	"fninit\n fldcw 1732(%rdi)\n"
	"fldt 1600(%rdi)\n fldt 1616(%rdi)\n fldt 1632(%rdi)\n fldt 1648(%rdi)\n"
	"fldt 1664(%rdi)\n fldt 1680(%rdi)\n fldt 1696(%rdi)\n fldt 1712(%rdi)\n"
	"ldmxcsr 1728(%rdi)\n"
	"mov 1736(%rdi), %rbx\n mov 1744(%rdi), %rbp\n mov 1752(%rdi), %r12\n mov 1760(%rdi), %r13\n"
	"mov 1768(%rdi), %r14\n mov 1776(%rdi), %r15\n"
	"mov (%rdx), %rax\n mov 8(%rdx), %rdi\n mov 16(%rdx), %rsi\n mov 32(%rdx), %r10\n mov 40(%rdx), %r8\n"
	"mov 48(%rdx), %r9\n mov 24(%rdx), %rdx\n"
	"std\n stc\n"
	"syscall\n"
	"pushfq\n cld\n"
	"mov 16(%rsp), %rcx\n" /* out */
	"pop %r11\n mov %r11, 1784(%rcx)\n"
	"mov %rax, 1792(%rcx)\n mov %rsp, 1800(%rcx)\n"
	".set i, 0\n"
	".rept 16\n"
	"  .altmacro\n"
	"  .macro save n\n vmovups %ymm\\n, 32*\\n(%rcx)\n .endm\n"
	"  save %i\n"
	"  .purgem save\n"
	"  .noaltmacro\n"
	"  .set i, i+1\n"
	".endr\n"
	"mov (%rsp), %rdx\n"
	"cmpq $0, 56(%rdx)\n je 1f\n"
	".set i, 16\n"
	".rept 16\n"
	"  .altmacro\n"
	"  .macro save n\n vmovups %zmm\\n, 512+64*(\\n-16)(%rcx)\n .endm\n"
	"  save %i\n"
	"  .purgem save\n"
	"  .noaltmacro\n"
	"  .set i, i+1\n"
	".endr\n"
	"kmovq %k0, 1536(%rcx)\n kmovq %k1, 1544(%rcx)\n kmovq %k2, 1552(%rcx)\n kmovq %k3, 1560(%rcx)\n"
	"kmovq %k4, 1568(%rcx)\n kmovq %k5, 1576(%rcx)\n kmovq %k6, 1584(%rcx)\n kmovq %k7, 1592(%rcx)\n"
	"1:\n"
	"fnstcw 1732(%rcx)\n"
	"fstpt 1712(%rcx)\n fstpt 1696(%rcx)\n fstpt 1680(%rcx)\n fstpt 1664(%rcx)\n"
	"fstpt 1648(%rcx)\n fstpt 1632(%rcx)\n fstpt 1616(%rcx)\n fstpt 1600(%rcx)\n"
	"stmxcsr 1728(%rcx)\n"
	"mov %rbx, 1736(%rcx)\n mov %rbp, 1744(%rcx)\n mov %r12, 1752(%rcx)\n mov %r13, 1760(%rcx)\n"
	"mov %r14, 1768(%rcx)\n mov %r15, 1776(%rcx)\n"
	"fninit\n vzeroupper\n"
	"pop %rdx\n pop %rsi\n"
	"pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"ret\n"
	".size live_call, .-live_call\n"
	".section .note.GNU-stack,\"\",@progbits\n"
	".text\n");

/* ---- what went wrong, once ---- */

static _Atomic bool bad;
static char bad_text[256];
static pthread_mutex_t bad_lock = PTHREAD_MUTEX_INITIALIZER;

static void differs(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void differs(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	pthread_mutex_lock(&bad_lock);
	if (!bad)
		vsnprintf(bad_text, sizeof(bad_text), fmt, ap);
	bad = true;
	pthread_mutex_unlock(&bad_lock);
	va_end(ap);
}

static bool has_avx512(void)
{
	unsigned a, b, c, d;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 16 & 1) && (b >> 30 & 1);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void fill(struct live *l, uint64_t *seed)
{
	static const uint32_t controls[] = { 0x37f, 0x77f, 0xb7f, 0x27f };
	for (size_t i = 0; i < sizeof(l->ymm); i++)
		((uint8_t *)l->ymm)[i] = (uint8_t)next_random(seed);
	for (size_t i = 0; i < sizeof(l->zmm_high); i++)
		((uint8_t *)l->zmm_high)[i] = (uint8_t)next_random(seed);
	for (size_t i = 0; i < 8; i++) {
		long double v = (long double)next_random(seed) / 3.0L;
		memset(l->x87[i], 0, sizeof(l->x87[i]));
		memcpy(l->x87[i], &v, 10);
		l->k[i] = next_random(seed);
	}
	l->mxcsr = 0x1f80 | (uint32_t)(next_random(seed) & 3) << 13;
	l->cw = controls[next_random(seed) & 3];
	l->rbx = next_random(seed);
	l->rbp = next_random(seed);
	l->r12 = next_random(seed);
	l->r13 = next_random(seed);
	l->r14 = next_random(seed);
	l->r15 = next_random(seed);
}

static void compare(const char *who, const struct live *in, const struct live *out, bool avx512)
{
	if (memcmp(in->ymm, out->ymm, sizeof(in->ymm)))
		differs("%s: ymm registers", who);
	if (avx512 &&
	    (memcmp(in->zmm_high, out->zmm_high, sizeof(in->zmm_high)) || memcmp(in->k, out->k, sizeof(in->k))))
		differs("%s: AVX-512 registers", who);
	for (size_t i = 0; i < 8; i++)
		if (memcmp(in->x87[i], out->x87[i], 10))
			differs("%s: x87 register %zu", who, i);
	if (in->mxcsr != (out->mxcsr & ~0x3fu) || (in->cw & 0xffff) != (out->cw & 0xffff))
		differs("%s: control words %x %x, now %x %x", who, in->mxcsr, in->cw, out->mxcsr, out->cw);
	if (memcmp(&in->rbx, &out->rbx, 6 * 8))
		differs("%s: general registers", who);
	if ((out->flags & 0x401) != 0x401)
		differs("%s: flags %llx", who, (unsigned long long)out->flags);
}

/* ---- threads that wait ---- */

enum kind { WAIT_READ, WAIT_POLL, WAIT_FUTEX };
struct waiter {
	const char *name;
	enum kind kind;
	bool off;
	int pipe[2];
	_Atomic uint32_t word;
	_Atomic uint64_t rounds;
	pthread_t thread;
};
static struct waiter waiters[] = {
	{ .name = ".NET Reader", .kind = WAIT_READ },
	{ .name = ".NET SynchPoll", .kind = WAIT_POLL },
	{ .name = ".NET Futex", .kind = WAIT_FUTEX },
};
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))
static _Atomic bool ending;

static void compare_signals(const char *who, const sigset_t *mask, const stack_t *alt)
{
	sigset_t now;
	stack_t alt_now;
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	sigaltstack(NULL, &alt_now);
	for (int i = 1; i < 64; i++)
		if (sigismember(mask, i) != sigismember(&now, i))
			differs("%s: signal %d is %sblocked", who, i, sigismember(&now, i) ? "" : "not ");
	if (alt->ss_sp != alt_now.ss_sp || alt->ss_size != alt_now.ss_size || alt->ss_flags != alt_now.ss_flags)
		differs("%s: alternate stack", who);
}

static struct call call_of(struct waiter *w, void *buffer, struct timespec *deadline)
{
	struct call c = { .avx512 = has_avx512() };
	if (w->kind == WAIT_READ) {
		c.nr = SYS_read;
		c.args[0] = (uint64_t)w->pipe[0];
		c.args[1] = (uint64_t)(uintptr_t)buffer;
		c.args[2] = 1;
	} else if (w->kind == WAIT_POLL) {
		c.nr = SYS_poll;
		c.args[0] = (uint64_t)(uintptr_t)buffer;
		c.args[1] = 1;
		c.args[2] = (uint64_t)-1;
	} else {
		c.nr = SYS_futex;
		c.args[0] = (uint64_t)(uintptr_t)&w->word;
		c.args[1] = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;
		c.args[2] = 0;
		c.args[3] = (uint64_t)(uintptr_t)deadline;
		c.args[5] = FUTEX_BITSET_MATCH_ANY;
	}
	return c;
}

static void finish_round(struct waiter *w, const struct live *out, struct pollfd *p)
{
	char byte;
	int64_t result = (int64_t)out->result;
	if (w->kind == WAIT_READ && result != 1)
		differs("%s: read gave %lld", w->name, (long long)result);
	if (w->kind == WAIT_POLL && (result != 1 || p->revents != POLLIN || read(w->pipe[0], &byte, 1) != 1))
		differs("%s: poll gave %lld", w->name, (long long)result);
	if (w->kind == WAIT_FUTEX && result != 0 && result != -EAGAIN)
		differs("%s: futex gave %lld", w->name, (long long)result);
	if (w->kind == WAIT_FUTEX)
		w->word = 0;
	w->rounds++;
}

static void *wait_in_call(void *arg)
{
	struct waiter *w = arg;
	uint64_t seed = 88172645463325252u + (uint64_t)w->kind;
	stack_t alt = { .ss_sp = malloc(65536), .ss_size = 65536 };
	sigset_t mask;
	prctl(PR_SET_NAME, w->name);
	sigaltstack(&alt, NULL);
	sigemptyset(&mask);
	for (int i = 0; i < 6; i++)
		sigaddset(&mask, SIGRTMIN + 2 + (int)(next_random(&seed) % 20));
	sigaddset(&mask, SIGRTMIN); /* those that count have a thread of their own */
	sigaddset(&mask, SIGALRM);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	while (!ending) {
		char byte;
		struct live in = { 0 }, out = { 0 };
		struct pollfd p = { .fd = w->pipe[0], .events = POLLIN };
		struct timespec deadline;
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_sec += 600;
		struct call c = call_of(w, w->kind == WAIT_POLL ? (void *)&p : &byte, &deadline);
		fill(&in, &seed);
		live_call(&in, &out, &c);
		compare(w->name, &in, &out, c.avx512 != 0);
		compare_signals(w->name, &mask, &alt);
		finish_round(w, &out, &p);
	}
	return NULL;
}

/* Wakes the waiters, one after the other, with a pause: they are found waiting nearly always. */
static void *wake(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	(void)arg;
	while (!ending) {
		for (size_t i = 0; i < WAITERS; i++) {
			struct waiter *w = &waiters[i];
			uint64_t before = w->rounds;
			if (w->off) {
				usleep(1000);
				continue;
			}
			if (w->kind == WAIT_FUTEX) {
				w->word = 1;
				syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1);
			} else if (write(w->pipe[1], "x", 1) != 1) {
				differs("pipe");
			}
			for (int tries = 0; w->rounds == before && !ending; tries++) {
				if (tries > 20000)
					differs("%s does not come back from its call", w->name);
				if (w->kind == WAIT_FUTEX)
					syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1);
				usleep(500);
			}
			usleep(3000);
		}
	}
	return NULL;
}

/* ---- a thread that computes ---- */

static _Atomic uint64_t computed;

static void *compute(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	(void)arg;
	while (!ending) {
		double v[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
		long double x = 1;
		for (int i = 1; i < 200000; i++) {
			for (int k = 0; k < 8; k++)
				v[k] = v[k] * 1.0000001 + k;
			x = x * 1.0000001L + 1;
		}
		static double first[8];
		static long double first_x;
		if (!computed) {
			memcpy(first, v, sizeof(v));
			first_x = x;
		} else if (memcmp(first, v, sizeof(v)) || first_x != x) {
			differs("a computation came out differently");
		}
		computed++;
	}
	return NULL;
}

/* ---- signals and timers ---- */

static _Atomic uint64_t queued, queued_sum, received, received_sum, ticks;

static void on_queued(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	received++;
	received_sum += (uint64_t)info->si_value.sival_int;
}

/* Queued signals are never merged: each one sent must arrive. */
static void *send_signals(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	(void)arg;
	for (int i = 1; !ending; i++) {
		union sigval v = { .sival_int = i };
		if (sigqueue(getpid(), SIGRTMIN, v) == 0) {
			queued++;
			queued_sum += (uint64_t)i;
		}
		usleep(400);
	}
	return NULL;
}

static void *take_signals(void *arg)
{
	(void)arg;
	while (!ending)
		pause();
	return NULL;
}

static void *tick(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	(void)arg;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct itimerspec every = { .it_interval.tv_nsec = 1000000, .it_value.tv_nsec = 1000000 };
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	timerfd_settime(fd, 0, &every, NULL);
	while (!ending) {
		uint64_t n;
		if (read(fd, &n, sizeof(n)) != sizeof(n)) {
			differs("timer");
			break;
		}
		ticks += n;
		clock_gettime(CLOCK_MONOTONIC, &now);
		int64_t ms = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
		if ((int64_t)ticks > ms + 2 || (int64_t)ticks < ms - 2000)
			differs("timer: %llu ticks in %lld ms", (unsigned long long)ticks, (long long)ms);
	}
	return NULL;
}

/* ---- hard cases ---- */

/* For all threads: what to answer to a clone that makes a process. */
static void filter_clone(uint32_t answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		abort();
}

static atomic_bool stands_in_vfork; /* the child has its parent's memory, too, and runs once that one stands still */

/* The child of a vfork runs on its parent's stack: it waits in a bare system call. */
static void *stand_in_vfork(void *arg)
{
	(void)arg;
	pid_t child = vfork();
	if (!child) {
		atomic_store(&stands_in_vfork, true);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct timespec t = { .tv_sec = 60 };
		syscall(SYS_nanosleep, &t, NULL);
		_exit(0);
	}
	return NULL;
}

/* ---- the protocol ---- */

static void check(void)
{
	uint64_t want = queued;
	for (int i = 0; i < 2000 && received < want; i++)
		usleep(1000);
	if (received < want)
		differs("%llu signals sent, %llu received", (unsigned long long)want, (unsigned long long)received);
	if (bad) {
		printf("BAD %s\n", bad_text);
	} else {
		printf("OK {\"reads\": %llu, \"polls\": %llu, \"futexes\": %llu, \"computed\": %llu, \"signals\": "
		       "%llu, "
		       "\"ticks\": %llu}\n",
		       (unsigned long long)waiters[0].rounds, (unsigned long long)waiters[1].rounds,
		       (unsigned long long)waiters[2].rounds, (unsigned long long)computed,
		       (unsigned long long)received, (unsigned long long)ticks);
	}
	fflush(stdout);
}

static void start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, fn, arg))
		abort();
	pthread_detach(thread);
}

static bool has(const char *word, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], word))
			return true;
	return false;
}

static bool wanted(const char *word, int argc, char **argv)
{
	bool any = has("read", argc, argv) || has("poll", argc, argv) || has("futex", argc, argv) ||
		   has("none", argc, argv);
	return has(word, argc, argv) || !any;
}

int main(int argc, char **argv)
{
	static const char *const words[] = { "read", "poll", "futex" };
	struct sigaction on = { .sa_sigaction = on_queued, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t counting;
	sigaction(SIGRTMIN, &on, NULL);
	start(take_signals, NULL); /* before the others: it alone has them open */
	sigemptyset(&counting);
	sigaddset(&counting, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &counting, NULL);
	for (size_t i = 0; i < WAITERS; i++) {
		if (pipe(waiters[i].pipe))
			return 1;
		waiters[i].off = !wanted(words[waiters[i].kind], argc, argv);
		if (!waiters[i].off)
			start(wait_in_call, &waiters[i]);
	}
	start(compute, NULL);
	start(wake, NULL);
	start(send_signals, NULL);
	start(tick, NULL);
	if (has("vfork", argc, argv))
		start(stand_in_vfork, NULL);
	while (has("vfork", argc, argv) && !atomic_load(&stands_in_vfork))
		sched_yield();
	if (has("allow", argc, argv))
		filter_clone(SECCOMP_RET_ALLOW);
	if (has("forbid-errno", argc, argv))
		filter_clone(SECCOMP_RET_ERRNO | EPERM);
	if (has("forbid-kill", argc, argv))
		filter_clone(SECCOMP_RET_KILL_PROCESS);
	printf("READY {\"pid\": %d, \"avx512\": %s}\n", getpid(), has_avx512() ? "true" : "false");
	fflush(stdout);
	char line[64];
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "check\n"))
			check();
		if (!strcmp(line, "quit\n"))
			break;
	}
	return bad ? 1 : 0;
}
