#include "image/hurry.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u
#define HEAP_BYTES ((size_t)512 << 10)
#define STACK_BYTES ((size_t)128 << 10)
/* Of data that begin as zeros: large tables come last, and are touched by those who use them. */
#define ZEROS_MAX ((size_t)512 << 10)
/* Where the kernel lends nothing, a wait ends after so long. */
#define LOOK_NS NS_PER_MS

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* ---- memory ---- */

static void touch(uintptr_t from, uintptr_t end, bool write)
{
	from &= ~(uintptr_t)(PAGE - 1);
	end = (end + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	void *p = (void *)from;
	/* Locked as far as the limit goes; touched on all kernels since 5.14. */
	if (madvise(p, end - from, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) < 0 && errno != EINVAL)
		return;
	mlock(p, end - from);
}

void hurry_touch(void *p, size_t len)
{
	if (len)
		touch((uintptr_t)p, (uintptr_t)p + len, true);
}

/* What of an object is mapped read-only once it is linked ends on a page, and what is written begins there. */
static uintptr_t end_of_relro(const struct dl_phdr_info *o)
{
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_GNU_RELRO)
			return (o->dlpi_addr + o->dlpi_phdr[i].p_vaddr + o->dlpi_phdr[i].p_memsz) &
			       ~(uintptr_t)(PAGE - 1);
	return 0;
}

static int touch_object(struct dl_phdr_info *o, size_t size, void *is_program)
{
	(void)size;
	bool *program = is_program;
	bool wanted = *program || strstr(o->dlpi_name, "/libc.so") || strstr(o->dlpi_name, "/ld-");
	*program = false;
	for (int i = 0; wanted && i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &o->dlpi_phdr[i];
		uintptr_t at = o->dlpi_addr + h->p_vaddr, end = at + MIN(h->p_memsz, h->p_filesz + ZEROS_MAX);
		bool write = h->p_flags & PF_W;
		if (write)
			at = MAX(at, end_of_relro(o));
		if (h->p_type == PT_LOAD && at < end)
			touch(at, end, write);
	}
	return 0;
}

/* What the C library allocates by itself, for sorting, comes out of memory that stays. */
static void touch_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, (int)HEAP_BYTES * 2);
	mallopt(M_TRIM_THRESHOLD, (int)HEAP_BYTES * 2);
	void *room = mem_alloc(HEAP_BYTES);
	hurry_touch(room, HEAP_BYTES);
	mem_free(room);
}

static __attribute__((noinline)) void touch_stack(void)
{
	volatile uint8_t room[STACK_BYTES];
	for (size_t i = 0; i < sizeof(room); i += PAGE / 2)
		room[i] = 0;
	touch((uintptr_t)room, (uintptr_t)room + sizeof(room), true);
}

/* ---- our own turn ---- */

static struct {
	enum hurry_kind kind;
	bool was_realtime;
	int policy, niceness;
	struct sched_param param;
} own;

static pid_t aim;
static atomic_uint *owner; /* the futex: the thread that is waited for; 0 = do not wait */

static void reported(int number)
{
	(void)number;
	atomic_store(owner, 0);
}

/* Nanoseconds that we ran, and that we could have run but waited. */
struct turns {
	unsigned long long ran, waited;
};
static struct turns at_first;

static struct turns turns_now(void)
{
	struct turns t = { 0 };
	char text[128];
	CLOSE_FD int fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[MAX(n, (ssize_t)0)] = '\0';
	return sscanf(text, "%llu %llu", &t.ran, &t.waited) == 2 ? t : (struct turns){ 0 };
}

double hurry_delay(void)
{
	struct turns now = turns_now();
	double ran = (double)(now.ran - at_first.ran), waited = (double)(now.waited - at_first.waited);
	return now.ran > at_first.ran ? (ran + waited) / ran : 1;
}

void hurry_prepare(void)
{
	at_first = turns_now();
	const struct sigaction action = { .sa_handler = reported };
	bool first = true; /* of the list is the program itself */
	static atomic_uint alone;
	/* Who holds a lock in memory that is not shared must be a thread of ours: then we lend nothing. */
	void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	owner = shared == MAP_FAILED ? &alone : shared;
	sigaction(SIGCHLD, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	dl_iterate_phdr(touch_object, &first);
	touch_stack();
	touch_heap();
}

/* As low as the limit allows. */
static bool be_less_nice(void)
{
	struct rlimit limit;
	errno = 0;
	own.niceness = getpriority(PRIO_PROCESS, 0);
	if (errno)
		return false;
	if (!setpriority(PRIO_PROCESS, 0, -20))
		return true;
	if (getrlimit(RLIMIT_NICE, &limit) < 0 || 20 - (int)MIN(limit.rlim_cur, (rlim_t)40) >= own.niceness)
		return false;
	return !setpriority(PRIO_PROCESS, 0, 20 - (int)MIN(limit.rlim_cur, (rlim_t)40));
}

enum hurry_kind hurry_begin(void)
{
	const struct sched_param first = { .sched_priority = 1 };
	if (own.kind != HURRY_NOT)
		return own.kind;
	own.policy = sched_getscheduler(0);
	int policy = own.policy & ~SCHED_RESET_ON_FORK;
	own.was_realtime = policy == SCHED_RR || policy == SCHED_FIFO;
	if (own.was_realtime)
		own.kind = HURRY_REALTIME;
	else if (own.policy >= 0 && !sched_getparam(0, &own.param) &&
		 !sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &first))
		own.kind = HURRY_REALTIME;
	else if (be_less_nice())
		own.kind = HURRY_NICE;
	return own.kind;
}

void hurry_end(void)
{
	if (own.kind == HURRY_NICE)
		setpriority(PRIO_PROCESS, 0, own.niceness);
	/* Who has no CAP_SYS_NICE may raise itself within a limit, but not take the mark for children back. */
	else if (own.kind == HURRY_REALTIME && !own.was_realtime && sched_setscheduler(0, own.policy, &own.param) < 0)
		sched_setscheduler(0, own.policy | SCHED_RESET_ON_FORK, &own.param);
	own.kind = HURRY_NOT;
}

/* ---- that of a thread that is waited for ---- */

static void wait_for_child(struct deadline deadline)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	uint64_t now = clock_mono_ns(), left = deadline.at_ns > now ? deadline.at_ns - now : 0;
	struct timespec t = { .tv_sec = (time_t)(left / NS_PER_S), .tv_nsec = (long)(left % NS_PER_S) };
	sigtimedwait(&set, NULL, &t);
}

/* FUTEX_LOCK_PI takes a time of the clock that may be set: a jump is a longer wait, ended by the watchdog. */
static bool lend(struct deadline deadline)
{
	uint64_t now = clock_mono_ns();
	uint64_t at =
		(uint64_t)clock_real_ns() + (deadline.at_ns > now ? MIN(deadline.at_ns - now, (uint64_t)NS_PER_S) : 0);
	struct timespec t = { .tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S) };
	return !syscall(SYS_futex, owner, FUTEX_LOCK_PI, 0, &t, NULL, 0) || errno == ETIMEDOUT;
}

void hurry_aim(pid_t tid)
{
	aim = tid;
	atomic_store(owner, (unsigned)tid);
}

bool hurry_lends(void)
{
	return own.kind == HURRY_REALTIME;
}

/* The futex says that the thread holds a lock of ours, of which it knows nothing: the kernel looks only for who it is. The report
 * of a child is a signal; its handler says that the lock is free, which the wait then finds when the kernel begins it anew. So
 * no report is missed that comes between the look and the wait. */
void hurry_wait(struct deadline deadline)
{
	sigset_t child, before;
	if (!hurry_lends() || !aim) {
		wait_for_child(deadline);
		return;
	}
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &child, &before);
	bool lent = lend(deadline);
	sigprocmask(SIG_SETMASK, &before, NULL);
	atomic_store(owner, 0);
	/* The thread has ended, or the kernel has no such locks. */
	if (!lent)
		wait_for_child((struct deadline){ MIN(deadline.at_ns, clock_mono_ns() + LOOK_NS) });
}
