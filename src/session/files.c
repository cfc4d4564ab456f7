/* The files of a finished session: reports in every format, and the archive for download. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "export/zip.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define REPORT_BYTES_MAX ((size_t)256 << 20)

static struct err *save(const char *dir, const char *name, const struct buf *text)
{
	if (text->overflow)
		return err_new(ERR_IO, "'%s' is too large to write", name);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	return file_put(path, buf_cstr(text), text->len, 0600);
}

static void render_text(const struct report *report, struct buf *out)
{
	report_render_text(report, &(struct report_text_style){ 0 }, out);
}

static const struct {
	const char *ext;
	void (*render)(const struct report *report, struct buf *out);
} formats[] = {
	{ "json", report_render_json },
	{ "md", report_render_markdown },
	{ "html", report_render_html },
	{ "txt", render_text },
};

static struct err *save_format(const char *dir, const struct profiler *profiler, const char *ext,
			       const struct buf *text)
{
	char name[16];
	snprintf(name, sizeof(name), "report.%s", ext);
	TRY(save(dir, name, text));
	for (const char *const *c = profiler->contract_files; c && *c; c++)
		if (str_eq(strrchr(*c, '.') + 1, ext))
			TRY(save(dir, *c, text));
	return NULL;
}

struct err *files_save_report(const char *dir, const struct profiler *profiler, const struct report *report)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		struct buf text = { 0 };
		formats[i].render(report, &text);
		struct err *err = save_format(dir, profiler, formats[i].ext, &text);
		buf_free(&text);
		TRY(err);
	}
	return NULL;
}

void files_drop_reports(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_type != DT_DIR && strcmp(e->d_name, "log.txt") != 0)
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

struct err *session_report_text(const struct store *store, const char *guid, const char *ext, struct buf *out)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, guid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/report.%s", dir, ext);
	struct err *err = file_read(path, REPORT_BYTES_MAX, out);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = err_new(ERR_NOT_FOUND, "session %s has no report", guid);
	}
	return err;
}

struct err *session_report(const struct store *store, const char *guid, struct report **ret)
{
	struct buf text = { 0 };
	struct err *err = session_report_text(store, guid, "json", &text);
	if (!err)
		err = report_from_json(buf_cstr(&text), text.len, ret);
	buf_free(&text);
	return err;
}

struct err *session_report_of(const struct store *store, const struct store_row *row, struct report **ret)
{
	if (!store_state_finished(row->state))
		return err_new(ERR_BUSY, "session %s is still %s", row->guid, store_state_name(row->state));
	return session_report(store, row->guid, ret);
}

static int is_report_file(const struct dirent *e)
{
	return e->d_name[0] != '.' && strcmp(e->d_name, "session.json") != 0 && strcmp(e->d_name, "log.txt") != 0 &&
	       !str_ends(e->d_name, ".tmp");
}

static struct err *zip_file(struct zip *zip, const char *dir, const char *name)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	CLOSE_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "'%s'", path);
	return S_ISREG(st.st_mode) ? zip_add_fd(zip, name, fd) : NULL;
}

struct err *session_zip(const struct store *store, const struct store_row *row, int fd)
{
	CLEANUP(mem_freep) char *dir = store_session_dir(store, row->guid);
	struct dirent **names;
	int n = scandir(dir, &names, is_report_file, alphasort);
	if (n < 0)
		return err_errno(errno, "'%s'", dir);
	CLEANUP(zip_freep) struct zip *zip = zip_new(fd, row->finished_ns / NS_PER_S);
	struct err *err = n ? NULL : err_new(ERR_NOT_FOUND, "session %s has no files", row->guid);
	for (int i = 0; i < n; i++) {
		if (!err)
			err = zip_file(zip, dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return err ? err : zip_finish(zip);
}
