#include "base/filemap.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The handler may run between any two instructions: guards are never freed, only used again, and their list only
 * grows. start is written last and cleared first. */
struct filemap_guard {
	_Atomic uintptr_t start, end;
	atomic_bool shrunk;
	struct filemap_guard *next;
};

static _Atomic(struct filemap_guard *) guards;
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

static struct filemap_guard *guard_at(uintptr_t address)
{
	for (struct filemap_guard *g = atomic_load(&guards); g; g = g->next) {
		uintptr_t start = atomic_load(&g->start);
		if (start && address >= start && address < atomic_load(&g->end))
			return g;
	}
	return NULL;
}

static void on_bus(int signal_number, siginfo_t *info, void *context UNUSED)
{
	int errnum = errno;
	bool sent = info->si_code <= 0; /* sent by kill: there is no address */
	uintptr_t address = (uintptr_t)info->si_addr;
	struct filemap_guard *g = sent ? NULL : guard_at(address);
	uintptr_t page = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	if (g)
		atomic_store(&g->shrunk, true);
	if (!g || mmap((void *)page, atomic_load(&g->end) - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0) == MAP_FAILED) {
		/* The instruction runs again, and its fault then goes to the other handler. */
		sigaction(SIGBUS, &before, NULL);
		if (sent)
			raise(signal_number);
	}
	errno = errnum;
}

/* At each mapping, because another handler may have been installed since. */
static void set_handler(void)
{
	struct sigaction ours = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART }, now;
	if (sigaction(SIGBUS, NULL, &now) || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus))
		return;
	before = now;
	sigaction(SIGBUS, &ours, NULL);
}

static struct filemap_guard *guard_new(uintptr_t start, size_t len)
{
	pthread_mutex_lock(&guards_lock);
	set_handler();
	struct filemap_guard *g = atomic_load(&guards);
	while (g && atomic_load(&g->start))
		g = g->next;
	if (!g) {
		g = mem_zalloc(sizeof(*g));
		g->next = atomic_load(&guards);
		atomic_store(&guards, g);
	}
	atomic_store(&g->shrunk, false);
	atomic_store(&g->end, start + len);
	atomic_store(&g->start, start);
	pthread_mutex_unlock(&guards_lock);
	return g;
}

struct err *filemap_open(int fd, uint64_t max, struct filemap *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_errno(errno, "look at a file");
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > max)
		return err_new(ERR_BAD_DATA, "not a file of ordinary size");
	size_t len = (size_t)st.st_size;
	void *bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return err_errno(errno, "map a file");
	*ret = (struct filemap){ bytes, len, guard_new((uintptr_t)bytes, len) };
	return NULL;
}

bool filemap_shrunk(const struct filemap *m)
{
	return m->guard && atomic_load(&m->guard->shrunk);
}

void filemap_close(struct filemap *m)
{
	if (!m->guard)
		return;
	atomic_store(&m->guard->start, 0);
	munmap((void *)(uintptr_t)m->bytes, m->len);
	*m = (struct filemap){ 0 };
}
