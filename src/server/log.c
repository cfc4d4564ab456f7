/* The server's log: standard error, a file, and the newest lines for the pages. */

#include "server/internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fmt.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEPT 500
#define FILE_BYTES_MAX ((uint64_t)4 << 20)
#define LINE_CHARS_MAX 1000

struct log_entry {
	int64_t when_ns;
	enum log_level level;
	char *text;
};

struct log {
	pthread_mutex_t lock;
	bool to_stderr, json;
	char *path;
	int fd; /* of the file, -1 = none */
	uint64_t file_bytes;
	uint64_t said; /* lines ever; the last KEPT are kept */
	struct log_entry kept[KEPT];
};

struct log *log_new(bool to_stderr, bool json)
{
	struct log *log = mem_zalloc(sizeof(*log));
	pthread_mutex_init(&log->lock, NULL);
	log->to_stderr = to_stderr;
	log->json = json;
	log->fd = -1;
	return log;
}

void log_free(struct log *log)
{
	if (!log)
		return;
	for (size_t i = 0; i < KEPT; i++)
		mem_free(log->kept[i].text);
	fd_closep(&log->fd);
	mem_free(log->path);
	pthread_mutex_destroy(&log->lock);
	mem_free(log);
}

static const char *level_name(enum log_level level)
{
	static const char *const names[] = { "info", "warn", "error" };
	return names[level];
}

struct err *log_open_file(struct log *log, const char *path)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", path);
	log->fd = fd;
	log->file_bytes = (uint64_t)st.st_size;
	log->path = mem_strdup(path);
	return NULL;
}

/* The old one stays as PATH.1. A full disk costs lines, not the server. */
static void write_file(struct log *log, const struct buf *line)
{
	if (log->file_bytes > FILE_BYTES_MAX) {
		CLEANUP(mem_freep) char *old = mem_printf("%s.1", log->path);
		int fd = rename(log->path, old) == 0
				 ? open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600)
				 : -1;
		if (fd >= 0) {
			close(log->fd);
			log->fd = fd;
			log->file_bytes = 0;
		}
	}
	if (write(log->fd, line->data, line->len) > 0)
		log->file_bytes += line->len;
}

static void entry_line(const struct log *log, const struct log_entry *e, struct buf *out)
{
	if (log->json) {
		struct jsonw w = jsonw_make(out, false);
		jsonw_object(&w, NULL);
		jsonw_str(&w, "time", fmt_time_iso(e->when_ns).s);
		jsonw_str(&w, "level", level_name(e->level));
		jsonw_str(&w, "message", e->text);
		jsonw_object_end(&w);
		buf_char(out, '\n');
		return;
	}
	static const char *const words[] = { "", "warning: ", "error: " };
	buf_printf(out, "%s %s%s\n", fmt_time_iso(e->when_ns).s, words[e->level], e->text);
}

void log_line(struct log *log, enum log_level level, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *raw = mem_vprintf(fmt, ap);
	va_end(ap);
	struct buf text = { 0 };
	str_add_visible(&text, raw, strlen(raw), LINE_CHARS_MAX);
	pthread_mutex_lock(&log->lock);
	struct log_entry *e = &log->kept[log->said++ % KEPT];
	mem_free(e->text);
	*e = (struct log_entry){ clock_real_ns(), level, buf_steal(&text) };
	CLEANUP(buf_free) struct buf line = { 0 };
	entry_line(log, e, &line);
	if (log->to_stderr)
		fwrite(line.data, 1, line.len, stderr);
	if (log->fd >= 0)
		write_file(log, &line);
	pthread_mutex_unlock(&log->lock);
}

void log_json(struct log *log, uint64_t since, struct jsonw *w)
{
	pthread_mutex_lock(&log->lock);
	uint64_t first = log->said > KEPT ? log->said - KEPT : 0;
	for (uint64_t i = MAX(first, since); i < log->said; i++) {
		const struct log_entry *e = &log->kept[i % KEPT];
		jsonw_object(w, NULL);
		jsonw_u64(w, "number", i + 1);
		jsonw_str(w, "time", fmt_time_iso(e->when_ns).s);
		jsonw_str(w, "level", level_name(e->level));
		jsonw_str(w, "text", e->text);
		jsonw_object_end(w);
	}
	pthread_mutex_unlock(&log->lock);
}
