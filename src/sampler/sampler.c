#include "sampler/sampler.h"
#include "base/closer.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define RINGS_BYTES_MAX ((size_t)32 << 20) /* all together */
#define RING_BYTES_MAX ((size_t)4 << 20)
#define RING_BYTES_MIN ((size_t)128 << 10)
#define FDS_MAX 16384
#define FDS_KEPT 64 /* for everything else */
#define PASSES_MAX 16
#define RECORD_BYTES_MAX 65536

struct sampler_ring {
	int fd, cpu; /* a disabled event of our own that owns the memory */
	struct perf_event_mmap_page *page;
	uint8_t *data;
	size_t size; /* a power of two */
	uint64_t head;
	uint8_t *whole; /* room for a record that wraps */
};

struct sampler {
	struct sampler_config config;
	struct sampler_facts facts;
	bool exclude_kernel;
	VEC(struct sampler_ring) rings;
	VEC(int) events;
	struct map_u64 threads;
	int epoll;
	struct closer *closer;
	bool running, resting;
};

static int perf_open(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void common_attr(struct perf_event_attr *a)
{
	*a = (struct perf_event_attr){ .type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(*a),
				       .sample_type = RECORD_SAMPLE_TYPE,
				       .sample_regs_user = RECORD_REGS,
				       .disabled = 1,
				       .sample_id_all = 1,
				       .use_clockid = 1,
				       .clockid = CLOCK_MONOTONIC,
				       .exclude_hv = 1,
				       .exclude_guest = 1,
				       .exclude_callchain_user = 1 };
}

static struct perf_event_attr event_attr(const struct sampler *s)
{
	struct perf_event_attr a;
	common_attr(&a);
	bool switches = s->config.kind == SAMPLER_SWITCHES;
	a.config = switches ? PERF_COUNT_SW_CONTEXT_SWITCHES : PERF_COUNT_SW_CPU_CLOCK;
	a.sample_period = s->config.period;
	if (switches)
		a.sample_type = RECORD_SAMPLE_TYPE_COUNTED;
	a.sample_stack_user = s->config.stack_bytes;
	a.context_switch = switches;
	a.inherit = !s->facts.per_cpu;
	a.comm = a.comm_exec = 1;
	a.exclude_kernel = a.exclude_callchain_kernel = s->exclude_kernel;
	return a;
}

/* --- rings --- */

static struct err *ring_map(struct sampler_ring *r, size_t want)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t size = want; size >= RING_BYTES_MIN; size /= 2) {
		void *at = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
		if (at == MAP_FAILED)
			continue;
		r->page = at;
		r->data = (uint8_t *)at + page;
		r->size = size;
		return NULL;
	}
	return err_errno(errno, "memory for samples (kernel.perf_event_mlock_kb limits it)");
}

static void ring_close(struct sampler *s, struct sampler_ring *r)
{
	munmap(r->page, r->size + (size_t)sysconf(_SC_PAGESIZE));
	closer_take(s->closer, &r->fd, 1);
	mem_free(r->whole);
}

/* The owner of a ring is an event of our own: one of the target's threads could end, and its descriptor would then be
 * readable for ever. */
static struct err *ring_open(struct sampler *s, int cpu, size_t want)
{
	struct perf_event_attr a;
	common_attr(&a);
	a.config = PERF_COUNT_SW_DUMMY;
	a.sample_stack_user = 8;
	a.exclude_kernel = a.exclude_callchain_kernel = 1;
	a.watermark = 1;
	a.wakeup_watermark = (uint32_t)(want / 2);
	struct sampler_ring r = { .fd = perf_open(&a, 0, cpu), .cpu = cpu };
	if (r.fd < 0 && errno == ENODEV) /* offline */
		return NULL;
	if (r.fd < 0)
		return err_errno(errno, "open a perf event on cpu %d", cpu);
	struct err *err = ring_map(&r, want);
	if (!err && r.size != want) {
		/* The wakeup is set for half of the size we asked for; open it again with the size that there is. */
		ring_close(s, &r);
		return ring_open(s, cpu, r.size);
	}
	if (err) {
		closer_take(s->closer, &r.fd, 1);
		return err;
	}
	struct epoll_event e = { .events = EPOLLIN };
	epoll_ctl(s->epoll, EPOLL_CTL_ADD, r.fd, &e);
	vec_push(&s->rings, r);
	s->facts.ring_bytes = r.size;
	return NULL;
}

static struct err *rings_open(struct sampler *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t want = RING_BYTES_MAX;
	while (want > RING_BYTES_MIN && want * (size_t)cpus > RINGS_BYTES_MAX)
		want /= 2;
	for (int cpu = 0; cpu < cpus; cpu++)
		TRY(ring_open(s, cpu, want));
	s->facts.cpus = s->rings.n;
	return s->rings.n ? NULL : err_new(ERR_UNSUPPORTED, "no cpu can be sampled");
}

/* --- events --- */

static struct err *refused(const struct sampler *s, int errnum)
{
	if (errnum == EACCES || errnum == EPERM)
		return err_new(
			ERR_DENIED,
			"the kernel refuses to sample process %d: drdotnet needs CAP_PERFMON (root has it), or "
			"the process's own user with kernel.perf_event_paranoid at most 2 and no seccomp filter on "
			"perf_event_open",
			(int)s->config.pid);
	return err_errno(errnum, "open perf events for process %d", (int)s->config.pid);
}

/* One thread (or, with -1, everything) on all cpus. A thread that is gone is none of our errors: *ret_errno is 0. */
static bool open_on_cpus(struct sampler *s, const struct perf_event_attr *a, pid_t tid, int *ret_errno)
{
	*ret_errno = 0;
	vec_each(r, &s->rings) {
		int fd = perf_open(a, tid, r->cpu);
		if (fd < 0) {
			*ret_errno = errno == ESRCH ? 0 : errno;
			return false;
		}
		vec_push(&s->events, fd);
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fd) < 0) {
			*ret_errno = errno;
			return false;
		}
		if (s->running)
			ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	return true;
}

static void close_events(struct sampler *s)
{
	closer_take(s->closer, s->events.v, s->events.n);
	vec_clear(&s->events);
	map_u64_clear(&s->threads);
}

static DIR *open_tasks(const struct sampler *s)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->config.pid);
	return opendir(path);
}

/* Threads made by a thread that has its events inherit them; those made by one we had not reached yet are found by
 * listing again, until nothing is new. */
static struct err *open_threads_pass(struct sampler *s, bool *ret_new)
{
	struct perf_event_attr a = event_attr(s);
	DIR *dir = open_tasks(s);
	if (!dir)
		return err_new(ERR_NOT_FOUND, "process %d has ended", (int)s->config.pid);
	*ret_new = false;
	int errnum = 0;
	for (struct dirent *e; !errnum && (e = readdir(dir));) {
		pid_t tid = atoi(e->d_name);
		bool new = false;
		if (tid <= 0)
			continue;
		map_u64_put(&s->threads, (uint64_t)tid, &new);
		if (new)
			*ret_new |= open_on_cpus(s, &a, tid, &errnum);
	}
	closedir(dir);
	return errnum ? refused(s, errnum) : NULL;
}

static struct err *open_threads(struct sampler *s)
{
	bool new = true;
	for (size_t pass = 0; new &&pass < PASSES_MAX; pass++)
		TRY(open_threads_pass(s, &new));
	s->facts.threads = s->threads.n;
	return s->events.n ? NULL : err_new(ERR_NOT_FOUND, "process %d has no threads left", (int)s->config.pid);
}

static struct err *open_cpus(struct sampler *s)
{
	struct perf_event_attr a = event_attr(s);
	int errnum;
	return open_on_cpus(s, &a, -1, &errnum) ? NULL : refused(s, errnum);
}

static size_t count_tasks(const struct sampler *s)
{
	size_t n = 0;
	DIR *dir = open_tasks(s);
	for (struct dirent *e; dir && (e = readdir(dir));)
		n += *e->d_name != '.';
	if (dir)
		closedir(dir);
	return n;
}

/* As many descriptors as are permitted; returns how many we may use for events. */
static size_t raise_fd_limit(const struct sampler *s)
{
	struct rlimit limit;
	if (s->config.max_fds)
		return s->config.max_fds;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 512;
	limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)FDS_MAX + FDS_KEPT);
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > FDS_KEPT ? (size_t)limit.rlim_cur - FDS_KEPT : 16;
}

static struct err *open_events(struct sampler *s)
{
	/* Threads come and go while we open: half of the room is theirs. */
	size_t fds = raise_fd_limit(s);
	bool too_many = count_tasks(s) * s->rings.n > fds / 2;
	s->facts.per_cpu = too_many || s->config.whole_cpus;
	struct err *err = s->facts.per_cpu ? open_cpus(s) : open_threads(s);
	if (err && err_kind(err) == ERR_DENIED && !too_many && s->config.whole_cpus) {
		err_free(err);
		close_events(s);
		s->facts.per_cpu = s->config.whole_cpus = false;
		err = open_threads(s);
	}
	s->facts.fds = s->events.n + s->rings.n;
	if (err)
		close_events(s);
	return err;
}

struct err *sampler_open(const struct sampler_config *config, struct sampler **ret)
{
	CLEANUP(sampler_freep) struct sampler *s = mem_zalloc(sizeof(*s));
	s->config = *config;
	s->config.stack_bytes = MIN(config->stack_bytes & ~7u, (uint32_t)SAMPLER_STACK_MAX);
	s->exclude_kernel = config->user_only;
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0)
		return err_errno(errno, "epoll");
	s->closer = closer_new();
	TRY(rings_open(s));
	struct err *err = open_events(s);
	/* Without CAP_PERFMON the process's own user may sample user space. Switches cannot be sampled that way. */
	if (err && err_kind(err) == ERR_DENIED && !s->exclude_kernel && config->kind == SAMPLER_CPU) {
		err_free(err);
		s->exclude_kernel = true;
		err = open_events(s);
	}
	TRY(err);
	s->facts.kernel = !s->exclude_kernel;
	s->facts.stack_bytes = s->config.stack_bytes;
	s->facts.period = s->config.period;
	*ret = STEAL(s);
	return NULL;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	close_events(s);
	vec_free(&s->events);
	map_u64_free(&s->threads);
	vec_each(r, &s->rings)
		ring_close(s, r);
	vec_free(&s->rings);
	fd_closep(&s->epoll);
	closer_free(s->closer);
	mem_free(s);
}

static void for_events(struct sampler *s, unsigned long request)
{
	vec_each(fd, &s->events)
		ioctl(*fd, request, 0);
}

void sampler_start(struct sampler *s)
{
	s->running = true;
	for_events(s, PERF_EVENT_IOC_ENABLE);
}

void sampler_stop(struct sampler *s)
{
	s->running = false;
	for_events(s, PERF_EVENT_IOC_DISABLE);
}

struct err *sampler_change(struct sampler *s, uint32_t stack_bytes, uint64_t period)
{
	s->facts.stack_bytes = s->config.stack_bytes = MIN(stack_bytes & ~7u, (uint32_t)SAMPLER_STACK_MAX);
	s->facts.period = s->config.period = period;
	if (s->resting)
		return NULL;
	close_events(s);
	return open_events(s);
}

void sampler_rest(struct sampler *s)
{
	sampler_stop(s);
	close_events(s);
	s->resting = true;
}

/* Opened one after the other, but enabled at one moment. */
struct err *sampler_go_on(struct sampler *s)
{
	s->resting = false;
	TRY(open_events(s));
	sampler_start(s);
	return NULL;
}

int sampler_fd(const struct sampler *s)
{
	return s->epoll;
}

const struct sampler_facts *sampler_facts(const struct sampler *s)
{
	return &s->facts;
}

/* --- draining --- */

/* The next record in one piece, or NULL. */
static const uint8_t *ring_peek(struct sampler_ring *r, size_t *ret_len)
{
	uint64_t tail = r->page->data_tail;
	if (r->head - tail < sizeof(struct perf_event_header))
		return NULL;
	size_t at = tail & (r->size - 1), left = r->size - at;
	struct perf_event_header h;
	/* Records are multiples of 8 bytes, so that a header never wraps. */
	memcpy(&h, r->data + at, sizeof(h));
	if (h.size < sizeof(h) || h.size > r->head - tail)
		return NULL;
	*ret_len = h.size;
	if (h.size <= left)
		return r->data + at;
	if (!r->whole)
		r->whole = mem_alloc(RECORD_BYTES_MAX);
	memcpy(r->whole, r->data + at, left);
	memcpy(r->whole + left, r->data, h.size - left);
	return r->whole;
}

static void ring_advance(struct sampler_ring *r, size_t len)
{
	__atomic_store_n(&r->page->data_tail, r->page->data_tail + len, __ATOMIC_RELEASE);
}

/* The oldest record of all rings. */
static struct sampler_ring *next_ring(struct sampler *s, struct record *ret, size_t *ret_len)
{
	struct sampler_ring *first = NULL;
	bool (*parse)(const uint8_t *, size_t, struct record *) =
		s->config.kind == SAMPLER_SWITCHES ? record_parse_counted : record_parse;
	vec_each(r, &s->rings) {
		struct record record;
		size_t len = 0;
		const uint8_t *bytes;
		while ((bytes = ring_peek(r, &len)) && !parse(bytes, len, &record)) {
			s->facts.damaged++;
			ring_advance(r, len);
		}
		if (!bytes || (first && ret->time <= record.time))
			continue;
		first = r;
		*ret = record;
		*ret_len = len;
	}
	return first;
}

static bool filling(const struct sampler_ring *r)
{
	return r->head - r->page->data_tail > r->size / 2;
}

static void count(struct sampler *s, const struct record *r)
{
	s->facts.lost += r->kind == RECORD_LOST ? r->lost : 0;
	s->facts.throttled += r->kind == RECORD_THROTTLE;
}

void sampler_drain(struct sampler *s, uint64_t until_ns, void (*record)(void *user, const struct record *r), void *user)
{
	bool full = false;
	vec_each(r, &s->rings) {
		r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		full |= filling(r);
	}
	struct record next;
	size_t len;
	for (struct sampler_ring *r; (r = next_ring(s, &next, &len));) {
		if (next.time > until_ns && !full)
			break;
		count(s, &next);
		if (!s->facts.per_cpu || next.pid == (uint32_t)s->config.pid)
			record(user, &next);
		ring_advance(r, len);
		if (next.time > until_ns) {
			full = false;
			vec_each(other, &s->rings)
				full |= filling(other);
		}
	}
}
