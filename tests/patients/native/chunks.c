/* chunks: a native patient that knows its heap. Threads allocate and free, and then stand still with all that they keep.
 *
 *   standard output   "size BYTES CHUNKS" of what it keeps itself (chunks with their headers), then what malloc_info says,
 *                     then "READY"
 *   standard input    it ends when that is closed */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define HEAD 8 /* that a chunk has beside what was asked for */

/* How many of each size a thread takes, and of how many it gives one back: to its cache, to others, to fast bins. The last
 * at the end, since what is larger empties the fast bins. */
static const struct {
	size_t bytes, n, every;
} work[] = { { 520, 3000, 3 }, { 2024, 20000, 4 }, { 40, 1000, 1000 }, { 9000, 300, 2 }, { 88, 400, 2 } };
#define SIZES (sizeof(work) / sizeof(*work))
#define LARGE ((size_t)400 << 10)
#define LARGE_N 20

static pthread_barrier_t done;
static void *kept[THREADS][32 << 10];

static void *take(void *number)
{
	void **mine = kept[(uintptr_t)number];
	size_t n = 0;
	for (size_t s = 0; s < SIZES; s++) {
		size_t first = n;
		for (size_t i = 0; i < work[s].n; i++)
			memset(mine[n++] = malloc(work[s].bytes), 0x5a, work[s].bytes);
		for (size_t i = 0; i < work[s].n; i += work[s].every)
			free(mine[first + i]);
	}
	pthread_barrier_wait(&done);
	pause();
	return NULL;
}

int main(void)
{
	static char buffer[1 << 20];
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, take, (void *)i))
			return 1;
	}
	for (size_t i = 0; i < LARGE_N; i++)
		memset(malloc(LARGE), 0x5a, LARGE);
	pthread_barrier_wait(&done);
	for (size_t s = 0; s < SIZES; s++) {
		size_t gone = (work[s].n + work[s].every - 1) / work[s].every;
		printf("size %zu %zu\n", work[s].bytes + HEAD, THREADS * (work[s].n - gone));
	}
	malloc_info(0, stdout);
	printf("READY\n");
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
