/* The files of a finished session: reports in every format, and the archive for download. */

#include "session/internal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "export/zip.h"
#include "profilers/registry.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define REPORT_BYTES_MAX ((size_t)256 << 20)
#define PARAMETERS_BYTES_MAX 65536

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

/* ---- without the values of the target ---- */

/* The ending of a file that is the report, whatever it is called; NULL = another file. */
static const char *report_ending(const struct profiler *profiler, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (str_starts(name, "report.") && str_eq(name + strlen("report."), formats[i].ext))
			return formats[i].ext;
	for (const char *const *c = profiler ? profiler->contract_files : NULL; c && *c; c++)
		if (str_eq(*c, name))
			return strrchr(name, '.') + 1;
	return NULL;
}

static const struct profiler *profiler_of(const struct store_row *row)
{
	const struct profiler *profiler = NULL;
	if (row->profiler)
		err_ignore(profiler_find(row->profiler, &profiler));
	return profiler;
}

struct err *session_masked_file(const struct store *store, const struct store_row *row, const char *name,
				struct buf *out)
{
	CLEANUP(report_freep) struct report *report = NULL;
	const char *ext = report_ending(profiler_of(row), name);
	if (!ext)
		return NULL;
	TRY(session_report(store, row->guid, &report));
	report_mask(report);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (str_eq(formats[i].ext, ext))
			formats[i].render(report, out);
	return NULL;
}

static void mask_parameters(struct store_row *row, const struct profiler *profiler)
{
	json_t *values = NULL;
	if (row->parameters)
		err_ignore(json_parse(row->parameters, strlen(row->parameters), PARAMETERS_BYTES_MAX, &values));
	for (size_t i = 0; profiler && i < profiler->n_params; i++) {
		const struct param *p = &profiler->params[i];
		CLEANUP(buf_free) struct buf shape = { 0 };
		if (!p->data || !json_object_get(values, p->key))
			continue;
		report_mask_text(json_get_str(values, p->key, ""), &shape);
		json_object_set_new(values, p->key, json_string(buf_cstr(&shape)));
	}
	char *text = values ? json_dumps(values, JSON_COMPACT) : NULL;
	store_set(&row->parameters, text);
	free(text);
	json_decref(values);
}

void session_mask(const struct store *store, struct store_row *row)
{
	CLEANUP(report_freep) struct report *report = NULL;
	CLEANUP(buf_free) struct buf verdict = { 0 };
	mask_parameters(row, profiler_of(row));
	if (!row->verdict)
		return;
	/* Without a report that can be read, rather no verdict than one with values. */
	err_ignore(session_report(store, row->guid, &report));
	if (report && report_verdict_text(report)) {
		report_mask(report);
		rich_plain(report_verdict_text(report), &verdict);
	}
	store_set(&row->verdict, verdict.len ? buf_cstr(&verdict) : NULL);
}

/* ---- the archive ---- */

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

/* As it lies there, or without the values of the target. */
static struct err *zip_one(struct zip *zip, const struct store *store, const struct store_row *row, const char *dir,
			   const char *name, bool masked)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (masked)
		TRY(session_masked_file(store, row, name, &text));
	return text.len ? zip_add(zip, name, buf_cstr(&text), text.len) : zip_file(zip, dir, name);
}

struct err *session_zip(const struct store *store, const struct store_row *row, bool masked, int fd)
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
			err = zip_one(zip, store, row, dir, names[i]->d_name, masked);
		free(names[i]);
	}
	free(names);
	return err ? err : zip_finish(zip);
}
