/* Fails one allocation of one of our processes: a library to be loaded before the C library, never shipped.
 *
 *   TORTURE_ROLE=worker|starter   which of our processes: `_worker`, or the command that was given
 *   TORTURE_COUNT=FILE            writes each place that allocates, at the end: "PLACE calls=N largest=BYTES at=WHERE,..."
 *   TORTURE_FAIL=PLACE:N          the N-th allocation of that place fails; FILE.failed of TORTURE_COUNT is then made
 *
 * A place is a number made of the return addresses of our own code (torture_site.h), so it means the same in every run when
 * addresses are not random (setarch -R). Allocations before main are left out: they are the loader's. */
#include "torture_site.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES (1u << 16)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
/* What this library exports instead of the C library. */
#pragma GCC visibility push(default)
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **ret, size_t alignment, size_t size);
#pragma GCC visibility pop

static struct place {
	_Atomic uint64_t hash;
	_Atomic uint64_t calls, largest;
	struct site site;
} places[PLACES];

static struct site_code code;
static bool counts;
static uint64_t wish;
static unsigned long wish_nth;
static char file[4096];
static _Atomic unsigned long passed;
static _Thread_local bool inside;

static struct place *place_of(uint64_t hash)
{
	for (uint32_t i = (uint32_t)hash & (PLACES - 1), tries = 0; tries < PLACES;
	     tries++, i = (i + 1) & (PLACES - 1)) {
		uint64_t none = 0;
		if (places[i].hash == hash || atomic_compare_exchange_strong(&places[i].hash, &none, hash) ||
		    none == hash)
			return &places[i];
	}
	return NULL;
}

static void note_failure(size_t size)
{
	char name[sizeof(file) + 8], line[64];
	snprintf(name, sizeof(name), "%s.failed", file);
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int n = snprintf(line, sizeof(line), "%zu bytes\n", size);
	if (fd < 0 || write(fd, line, (size_t)n) < 0)
		return;
	close(fd);
}

/* Shall this one fail? */
static bool fails(size_t size, const void *frame)
{
	if (!code.text || inside)
		return false;
	inside = true;
	struct site site = site_of(&code, 0, frame, SITE_WORDS);
	bool fail = wish && site.hash == wish && atomic_fetch_add(&passed, 1) + 1 == wish_nth;
	if (fail)
		note_failure(size);
	struct place *place = counts ? place_of(site.hash) : NULL;
	if (place) {
		if (!place->calls++)
			place->site = site;
		if (place->largest < size)
			place->largest = size;
	}
	inside = false;
	if (fail)
		errno = ENOMEM;
	return fail;
}

#define FAILS(size) fails(size, __builtin_frame_address(0))

void *malloc(size_t size)
{
	return FAILS(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return FAILS(n * size) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return FAILS(size) ? NULL : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return FAILS(size) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
	void *p = FAILS(size) ? NULL : __libc_memalign(alignment, size);
	if (p)
		*ret = p;
	return p ? 0 : ENOMEM;
}

static int find_code(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size, (void)user;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			code.low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			code.high = code.low + info->dlpi_phdr[i].p_memsz;
			code.text = (const uint8_t *)code.low;
			code.offset = info->dlpi_phdr[i].p_vaddr;
		}
	return 1; /* the first one is the program */
}

static bool is_role(const char *role, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	bool worker = argv[1] && !strcmp(argv[1], "_worker");
	return !strcmp(slash ? slash + 1 : argv[0], "drdotnet") && worker == !strcmp(role, "worker");
}

static __attribute__((constructor)) void begin(int argc, char **argv)
{
	const char *role = getenv("TORTURE_ROLE"), *to = getenv("TORTURE_COUNT"), *fail = getenv("TORTURE_FAIL");
	if (argc < 1 || !role || !to || !is_role(role, argv))
		return;
	snprintf(file, sizeof(file), "%s", to);
	counts = !fail;
	char *nth = NULL;
	wish = fail ? strtoull(fail, &nth, 16) : 0;
	wish_nth = nth && *nth == ':' ? strtoul(nth + 1, NULL, 10) : 1;
	inside = true;
	dl_iterate_phdr(find_code, NULL);
	inside = false;
}

static void write_place(FILE *f, const struct place *p)
{
	fprintf(f, "%016llx calls=%llu largest=%llu at=", (unsigned long long)p->hash, (unsigned long long)p->calls,
		(unsigned long long)p->largest);
	for (uint32_t i = 0; i < p->site.n; i++)
		fprintf(f, "%c%x", i ? ',' : ' ', p->site.at[i]);
	fputc('\n', f);
}

static __attribute__((destructor)) void end(void)
{
	if (!counts || !code.text)
		return;
	inside = true;
	FILE *f = fopen(file, "we");
	for (uint32_t i = 0; f && i < PLACES; i++)
		if (places[i].hash)
			write_place(f, &places[i]);
	if (f)
		fclose(f);
	code.text = NULL;
}
