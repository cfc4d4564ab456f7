#include "trace/source.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define GROWING_NS (3 * NS_PER_S) /* a file without an end that was written to so recently is not finished */

struct source_reading {
	const char *path;
	int fd;
	uint64_t size_before;
	struct nettrace_reader *reader;
	uint8_t *chunk;
};

static struct err *pour(struct source_reading *r)
{
	for (;;) {
		ssize_t n = read(r->fd, r->chunk, CHUNK_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(errno, "read '%s'", r->path);
		if (n == 0)
			return NULL;
		TRY(nettrace_reader_feed(r->reader, r->chunk, (size_t)n));
	}
}

static bool is_growing(const struct source_reading *r)
{
	struct stat st;
	if (fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	int64_t written_ns = timespec_ns(st.st_mtim);
	return (uint64_t)st.st_size != r->size_before || clock_real_ns() - written_ns < GROWING_NS;
}

/* A wrong file is more frequent than a broken one, so the message says what it is. */
static struct err *no_trace(const struct source_reading *r, struct err *why)
{
	uint8_t head[8] = { 0 };
	ssize_t n = pread(r->fd, head, sizeof(head), 0);
	const char *is = NULL;
	if (n == 0)
		is = "it is empty";
	else if (n > 1 && head[0] == 0x1f && head[1] == 0x8b)
		is = "it is compressed with gzip; unpack it first";
	else if (n > 1 && head[0] == 'P' && head[1] == 'K')
		is = "it is a zip archive; unpack it first";
	else if (n > 3 && !memcmp(head, "\177ELF", 4))
		is = "it is a program or a core file";
	else if (n > 0 && (head[0] == '{' || head[0] == '['))
		is = "it is JSON; perhaps a trace that was converted already";
	if (!is)
		return err_wrap(why, "'%s' is no nettrace file", r->path);
	err_free(why);
	return err_new(ERR_BAD_DATA, "'%s' is no nettrace file: %s", r->path, is);
}

static struct err *settle(const struct source_reading *r, struct err *err, struct trace_source *s)
{
	struct stat st;
	const struct nettrace_header *header = nettrace_reader_header(r->reader);
	s->stats = *nettrace_reader_stats(r->reader);
	if (header)
		s->header = *header;
	if (!err)
		return NULL;
	enum err_kind kind = err_kind(err);
	if (!header && kind == ERR_BAD_DATA)
		return no_trace(r, err);
	if (kind != ERR_BAD_DATA)
		return err_wrap(err, "'%s'", r->path);
	bool shorter = fstat(r->fd, &st) == 0 && (uint64_t)st.st_size < r->size_before;
	s->growing = !s->stats.ended && !shorter && is_growing(r);
	s->damage = shorter	 ? mem_strdup("it became shorter while it was read")
		    : s->growing ? mem_printf("it is still being written; this is what it held after %s",
					      fmt_bytes(s->stats.bytes).s)
				 : mem_strdup(err_text(err));
	err_free(err);
	return NULL;
}

struct err *trace_read(const char *path, const struct nettrace_options *options,
		       const struct nettrace_callbacks *callbacks, void *user, struct trace_source *ret)
{
	bool in = str_eq(path, "-");
	struct stat st;
	*ret = (struct trace_source){ 0 };
	CLOSE_FD int own_fd = in ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct source_reading r = { .path = in ? "standard input" : path, .fd = in ? STDIN_FILENO : own_fd };
	if (r.fd < 0 || fstat(r.fd, &st) < 0)
		return err_errno(errno, "cannot open '%s'", r.path);
	if (S_ISDIR(st.st_mode))
		return err_new(ERR_USAGE, "'%s' is a folder, not a nettrace file", r.path);
	r.size_before = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	ret->file_bytes = r.size_before;
	CLEANUP(nettrace_reader_freep) struct nettrace_reader *reader = nettrace_reader_new(options, callbacks, user);
	CLEANUP(mem_freep) uint8_t *chunk = mem_alloc(CHUNK_BYTES);
	r.reader = reader;
	r.chunk = chunk;
	struct err *err = pour(&r), *end = nettrace_reader_finish(reader);
	if (!err)
		err = STEAL(end);
	err_free(end);
	return settle(&r, err, ret);
}

void trace_source_fini(struct trace_source *s)
{
	mem_free(s->damage);
	*s = (struct trace_source){ 0 };
}

uint64_t trace_ns(const struct nettrace_header *header, uint64_t ticks)
{
	if (header->ticks_per_second == NS_PER_S || !header->ticks_per_second)
		return ticks;
	return (uint64_t)((unsigned __int128)ticks * NS_PER_S / header->ticks_per_second);
}

int64_t trace_unix_ns(const struct nettrace_header *header, uint64_t ticks)
{
	return (int64_t)((uint64_t)header->utc_ns + trace_ns(header, ticks) - trace_ns(header, header->sync_time));
}

static struct err *parse_id(const char *option, const char *word, struct trace_ids *ret)
{
	const char *slash = strrchr(word, '/');
	uint64_t id;
	if (!str_to_u64(slash ? slash + 1 : word, &id) || id > UINT32_MAX || slash == word)
		return err_new(ERR_USAGE, "%s takes event numbers such as 80,250 or My.Provider/3, not '%s'", option,
			       word);
	vec_push(ret, ((struct trace_id){ slash ? mem_strndup(word, (size_t)(slash - word)) : NULL, (uint32_t)id }));
	return NULL;
}

struct err *trace_ids_parse(const char *option, const char *text, bool skip, struct trace_ids *ret)
{
	if (ret->n && ret->skip != skip)
		return err_new(ERR_USAGE, "--only-ids and --skip-ids exclude each other");
	ret->skip = skip;
	for (const char *end; text; text = *end ? end + 1 : NULL) {
		end = text + strcspn(text, ",");
		CLEANUP(mem_freep) char *word = mem_strndup(text, (size_t)(end - text));
		TRY(parse_id(option, word, ret));
	}
	return NULL;
}

void trace_ids_fini(struct trace_ids *ids)
{
	vec_each(i, ids)
		mem_free(i->provider);
	vec_free(ids);
}

bool trace_ids_take(const struct trace_ids *ids, const char *provider, uint32_t id)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (ids->v[i].id == id && (!ids->v[i].provider || str_eq_nocase(ids->v[i].provider, provider)))
			return !ids->skip;
	}
	return !ids->n || ids->skip;
}
