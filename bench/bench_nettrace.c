/* bench_nettrace FILE [ROUNDS]: reads a nettrace file in both modes and prints what it cost, as JSON.
 *
 * One pass streams the file in chunks as a socket gives them (64 KB), for the memory it takes; the others feed it from
 * memory, in such chunks and as a whole, for the speed of the reader alone. */

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "nettrace/nettrace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#define CHUNK ((size_t)64 << 10)

struct tally {
	uint64_t events, payload_bytes, frames, disorder, last;
};

static void on_event(void *user, const struct nettrace_event *event)
{
	struct tally *t = user;
	t->events++;
	t->payload_bytes += event->payload_size;
	t->frames += event->n_frames;
	t->disorder += event->time < t->last;
	t->last = event->time;
}

static double cpu_seconds(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct err *run(const struct buf *file, bool unordered, size_t chunk, uint64_t rounds, struct jsonw *w)
{
	struct tally tally = { 0 };
	struct nettrace_stats stats = { 0 };
	double start = cpu_seconds();
	for (uint64_t round = 0; round < rounds; round++) {
		tally = (struct tally){ 0 };
		CLEANUP(nettrace_reader_freep)
		struct nettrace_reader *reader =
			nettrace_reader_new(&(struct nettrace_options){ .unordered = unordered },
					    &(struct nettrace_callbacks){ .event = on_event }, &tally);
		for (size_t at = 0; at < file->len; at += chunk)
			TRY(nettrace_reader_feed(reader, file->data + at, MIN(chunk, file->len - at)));
		TRY(nettrace_reader_finish(reader));
		stats = *nettrace_reader_stats(reader);
	}
	double cpu = (cpu_seconds() - start) / (double)rounds;
	jsonw_object(w, NULL);
	jsonw_str(w, "mode", unordered ? "unordered" : "ordered");
	jsonw_u64(w, "chunk", chunk);
	jsonw_num(w, "cpu_s", cpu);
	jsonw_num(w, "mb_per_s", (double)file->len / 1e6 / cpu);
	jsonw_num(w, "events_per_s", (double)tally.events / cpu);
	jsonw_u64(w, "events", tally.events);
	jsonw_u64(w, "frames", tally.frames);
	jsonw_u64(w, "lost", stats.lost);
	jsonw_u64(w, "early", stats.early);
	jsonw_u64(w, "orphans", stats.orphans);
	jsonw_u64(w, "disorder", tally.disorder);
	jsonw_object_end(w);
	return NULL;
}

static uint64_t max_rss_kb(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss;
}

static struct err *stream(const char *path, struct jsonw *w)
{
	struct tally tally = { 0 };
	static uint8_t chunk[CHUNK];
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(errno, "'%s'", path);
	CLEANUP(nettrace_reader_freep)
	struct nettrace_reader *reader =
		nettrace_reader_new(NULL, &(struct nettrace_callbacks){ .event = on_event }, &tally);
	double start = cpu_seconds();
	ssize_t n;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		TRY(nettrace_reader_feed(reader, chunk, (size_t)n));
	TRY(nettrace_reader_finish(reader));
	jsonw_object(w, "streamed");
	jsonw_num(w, "cpu_s", cpu_seconds() - start);
	jsonw_u64(w, "max_rss_kb", max_rss_kb());
	jsonw_object_end(w);
	return NULL;
}

static struct err *bench(const char *path, uint64_t rounds, struct jsonw *w)
{
	struct buf file = { .limit = (size_t)8 << 30 };
	TRY(stream(path, w));
	TRY(file_read(path, (size_t)4 << 30, &file));
	jsonw_u64(w, "bytes", file.len);
	jsonw_array(w, "runs");
	static const size_t chunks[] = { CHUNK, SIZE_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		TRY(run(&file, true, MIN(chunks[i], file.len), rounds, w));
		TRY(run(&file, false, MIN(chunks[i], file.len), rounds, w));
	}
	jsonw_array_end(w);
	buf_free(&file);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t rounds = 5;
	if (argc < 2 || (argc > 2 && (!str_to_u64(argv[2], &rounds) || !rounds))) {
		fprintf(stderr, "usage: bench_nettrace FILE [ROUNDS]\n");
		return 2;
	}
	struct buf out = { 0 };
	struct jsonw w = jsonw_make(&out, true);
	jsonw_object(&w, NULL);
	CLEANUP(err_freep) struct err *err = bench(argv[1], rounds, &w);
	jsonw_object_end(&w);
	if (err)
		fprintf(stderr, "bench_nettrace: %s\n", err_text(err));
	else
		printf("%s\n", buf_cstr(&out));
	buf_free(&out);
	return err ? 1 : 0;
}
