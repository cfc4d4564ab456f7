#include "server/internal.h"
#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

#define KEPT 500
#define LINE_CHARS_MAX 1000

struct entry {
	int64_t when_ns;
	enum log_level level;
	char *text;
};

struct log {
	pthread_mutex_t lock;
	bool to_stderr;
	uint64_t said; /* lines ever; the last KEPT are kept */
	struct entry kept[KEPT];
};

struct log *log_new(bool to_stderr)
{
	struct log *log = mem_zalloc(sizeof(*log));
	pthread_mutex_init(&log->lock, NULL);
	log->to_stderr = to_stderr;
	return log;
}

void log_free(struct log *log)
{
	if (!log)
		return;
	for (size_t i = 0; i < KEPT; i++)
		mem_free(log->kept[i].text);
	pthread_mutex_destroy(&log->lock);
	mem_free(log);
}

static const char *level_name(enum log_level level)
{
	static const char *const names[] = { "info", "warn", "error" };
	return names[level];
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
	struct entry *e = &log->kept[log->said++ % KEPT];
	mem_free(e->text);
	*e = (struct entry){ clock_real_ns(), level, buf_steal(&text) };
	if (log->to_stderr)
		fprintf(stderr, "%s %s%s\n", fmt_time_iso(e->when_ns).s,
			level == LOG_INFO   ? ""
			: level == LOG_WARN ? "warning: "
					    : "error: ",
			e->text);
	pthread_mutex_unlock(&log->lock);
}

void log_json(struct log *log, uint64_t since, struct jsonw *w)
{
	pthread_mutex_lock(&log->lock);
	uint64_t first = log->said > KEPT ? log->said - KEPT : 0;
	for (uint64_t i = MAX(first, since); i < log->said; i++) {
		const struct entry *e = &log->kept[i % KEPT];
		jsonw_object(w, NULL);
		jsonw_u64(w, "number", i + 1);
		jsonw_str(w, "time", fmt_time_iso(e->when_ns).s);
		jsonw_str(w, "level", level_name(e->level));
		jsonw_str(w, "text", e->text);
		jsonw_object_end(w);
	}
	pthread_mutex_unlock(&log->lock);
}
