#include "dachost/memory.h"
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define PAGES 1024

struct memory_page {
	uint64_t start;
	bool held;
	uint8_t bytes[PAGE];
};

/* ---- threads ---- */

static int compare_tids(const void *a, const void *b, void *user)
{
	const struct wire_dac_regs *threads = user;
	uint32_t x = threads[*(const uint32_t *)a].tid, y = threads[*(const uint32_t *)b].tid;
	return CMP(x, y);
}

static void sort_threads(struct memory *m)
{
	uint32_t n = m->setup->n_threads;
	m->by_tid = mem_array(n + 1, sizeof(*m->by_tid));
	for (uint32_t i = 0; i < n; i++)
		m->by_tid[i] = i;
	qsort_r(m->by_tid, n, sizeof(*m->by_tid), compare_tids, (void *)(uintptr_t)m->threads);
}

const struct wire_dac_regs *memory_thread(const struct memory *m, uint32_t tid)
{
	size_t low = 0, high = m->setup->n_threads;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (m->threads[m->by_tid[middle]].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	const struct wire_dac_regs *found = low < m->setup->n_threads ? &m->threads[m->by_tid[low]] : NULL;
	return found && found->tid == tid ? found : NULL;
}

/* ---- bytes ---- */

bool memory_open(struct memory *m, int setup_fd)
{
	struct stat st;
	if (fstat(setup_fd, &st) || st.st_size < (off_t)sizeof(*m->setup))
		return false;
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, setup_fd, 0);
	if (map == MAP_FAILED)
		return false;
	const struct wire_dac_setup *s = map;
	if (s->magic != WIRE_DAC_MAGIC || s->version != WIRE_DAC_VERSION || s->n_fds > WIRE_DAC_MAX_FDS ||
	    s->n_pieces > WIRE_DAC_MAX_PIECES || s->n_threads > WIRE_DAC_MAX_THREADS)
		return false;
	uint64_t want =
		sizeof(*s) + (uint64_t)s->n_pieces * sizeof(*m->pieces) + (uint64_t)s->n_threads * sizeof(*m->threads);
	if ((uint64_t)st.st_size != want)
		return false;
	m->setup = s;
	m->pieces = (const struct wire_dac_piece *)(s + 1);
	m->threads = (const struct wire_dac_regs *)(m->pieces + s->n_pieces);
	m->pages = mem_zalloc(PAGES * sizeof(*m->pages));
	sort_threads(m);
	return true;
}

/* The piece that holds the address, or NULL. */
static const struct wire_dac_piece *piece_at(const struct memory *m, uint64_t addr)
{
	size_t low = 0, high = m->setup->n_pieces;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (m->pieces[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->setup->n_pieces && m->pieces[low].start <= addr ? &m->pieces[low] : NULL;
}

static size_t read_piece(const struct memory *m, const struct wire_dac_piece *piece, uint64_t addr, void *buf,
			 size_t len)
{
	if (piece->fd == WIRE_DAC_ZERO_FD) {
		memset(buf, 0, len);
		return len;
	}
	if (piece->fd >= m->setup->n_fds)
		return 0;
	ssize_t n;
	do
		n = pread((int)(WIRE_DAC_FD_IMAGE + piece->fd), buf, len,
			  (off_t)(piece->offset + (addr - piece->start)));
	while (n < 0 && errno == EINTR);
	return n > 0 ? (size_t)n : 0;
}

void memory_forget(struct memory *m)
{
	for (size_t i = 0; i < PAGES; i++)
		m->pages[i].held = false;
}

/* A page that lies in one piece, kept; NULL when it does not, or cannot be read whole. */
static const uint8_t *page_of(const struct memory *m, uint64_t addr)
{
	uint64_t start = addr & ~(uint64_t)(PAGE - 1);
	struct memory_page *page = &m->pages[start / PAGE % PAGES];
	if (page->held && page->start == start)
		return page->bytes;
	const struct wire_dac_piece *piece = piece_at(m, start);
	if (!piece || piece->end - start < PAGE)
		return NULL;
	page->start = start;
	page->held = read_piece(m, piece, start, page->bytes, PAGE) == PAGE;
	return page->held ? page->bytes : NULL;
}

static size_t read_some(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	const uint8_t *page = len < PAGE ? page_of(m, addr) : NULL;
	size_t offset = addr % PAGE;
	if (page) {
		size_t n = MIN(len, PAGE - offset);
		memcpy(buf, page + offset, n);
		return n;
	}
	const struct wire_dac_piece *piece = piece_at(m, addr);
	return piece ? read_piece(m, piece, addr, buf, (size_t)MIN((uint64_t)len, piece->end - addr)) : 0;
}

size_t memory_read(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;
	while (done < len) {
		size_t got = read_some(m, addr + done, (char *)buf + done, len - done);
		if (!got)
			break;
		done += got;
	}
	return done;
}

uint64_t memory_u64(const struct memory *m, uint64_t addr)
{
	uint64_t value = 0;
	return memory_read(m, addr, &value, sizeof(value)) == sizeof(value) ? value : 0;
}
