#include "dachost/memory.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

size_t memory_read(const struct memory *m, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;
	while (done < len) {
		const struct wire_dac_piece *piece = piece_at(m, addr + done);
		if (!piece)
			break;
		uint64_t room = piece->end - (addr + done);
		size_t want = room < len - done ? (size_t)room : len - done;
		size_t got = read_piece(m, piece, addr + done, (char *)buf + done, want);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

uint64_t memory_u64(const struct memory *m, uint64_t addr)
{
	uint64_t value = 0;
	return memory_read(m, addr, &value, sizeof(value)) == sizeof(value) ? value : 0;
}

const struct wire_dac_regs *memory_thread(const struct memory *m, uint32_t tid)
{
	for (size_t i = 0; i < m->setup->n_threads; i++)
		if (m->threads[i].tid == tid)
			return &m->threads[i];
	return NULL;
}
