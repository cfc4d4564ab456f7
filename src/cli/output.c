#include "cli/output.h"
#include "base/fd.h"
#include "base/partfile.h"
#include "base/str.h"
#include "session/session.h"
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define COLUMNS_MIN 60u
#define COLUMNS_MAX 100u

const char *const output_formats[] = { "text", "md", "html", "json", NULL };

static const struct {
	const char *word, *ext, *alias;
} formats[] = {
	[OUTPUT_TEXT] = { "text", "txt", "text" }, [OUTPUT_MD] = { "md", "md", "markdown" },
	[OUTPUT_HTML] = { "html", "html", "htm" }, [OUTPUT_JSON] = { "json", "json", "json" },
	[OUTPUT_ZIP] = { "zip", "zip", "zip" },
};

unsigned output_columns(int fd)
{
	struct winsize size = { 0 };
	uint64_t told;
	const char *remote = getenv("DRDOTNET_COLUMNS"); /* whose terminal is elsewhere */
	if (remote && str_to_u64(remote, &told))
		return told < COLUMNS_MIN ? COLUMNS_MIN : told > COLUMNS_MAX ? COLUMNS_MAX : (unsigned)told;
	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return COLUMNS_MAX;
	return MIN(MAX((unsigned)size.ws_col, COLUMNS_MIN), COLUMNS_MAX);
}

bool output_is_utf8(void)
{
	return str_eq_nocase(nl_langinfo(CODESET), "UTF-8");
}

bool output_is_unread(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };
	return poll(&fd, 1, 0) == 1 && fd.revents & POLLERR;
}

struct err *output_result(struct err *err)
{
	if (err && err_kind(err) == ERR_IO && output_is_unread())
		err_free(STEAL(err));
	return err;
}

static bool by_extension(const char *path, enum output_format *ret)
{
	/* Before the rest: ".speedscope.json" is not ".json". */
	if (session_profile_ending(path)) {
		*ret = OUTPUT_PROFILE;
		return true;
	}
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
	for (size_t i = 0; dot && i < ARRAY_SIZE(formats); i++)
		if (str_eq_nocase(dot + 1, formats[i].ext) || str_eq_nocase(dot + 1, formats[i].alias)) {
			*ret = (enum output_format)i;
			return true;
		}
	return false;
}

struct err *output_parse(const struct args *args, struct output *ret)
{
	const char *word = args_value(args, "--format"), *path = args_value(args, "--output");
	struct output out = { .format = OUTPUT_TEXT,
			      .path = str_eq(path, "-") ? NULL : path,
			      .mask = args_has(args, "--mask") };
	if (args_has(args, "--json")) {
		if (word && !str_eq(word, "json"))
			return err_new(ERR_USAGE, "--json and --format %s contradict each other", word);
		word = "json";
	}
	for (size_t i = 0; word && i < ARRAY_SIZE(formats); i++)
		if (str_eq(word, formats[i].word))
			out.format = (enum output_format)i;
	if (out.path && !*out.path)
		return err_new(ERR_USAGE, "--output needs the name of a file");
	if (out.path && !word && !by_extension(out.path, &out.format))
		return err_new(ERR_USAGE,
			       "the name '%s' does not tell the format: end it in .txt, .md, .html, .json or .zip (of "
			       "samples also "
			       ".svg, .folded, .pb.gz or .speedscope.json), or add --format",
			       out.path);
	*ret = out;
	return NULL;
}

struct err *output_check(const struct output *out)
{
	return out->path ? partfile_check(out->path) : NULL;
}

static void render(const struct output *out, const struct report *report, struct buf *text)
{
	struct report_text_style style = { .columns = output_columns(STDOUT_FILENO), .ascii = !output_is_utf8() };
	const char *term = getenv("TERM");
	style.colour = !out->path && !str_empty(getenv("DRDOTNET_COLOUR"));
	style.colour |= !out->path && isatty(STDOUT_FILENO) && str_empty(getenv("NO_COLOR")) && !str_eq(term, "dumb");
	switch (out->format) {
	case OUTPUT_JSON:
		report_render_json(report, text);
		break;
	case OUTPUT_HTML:
		report_render_html(report, text);
		break;
	case OUTPUT_MD:
		report_render_markdown(report, text);
		break;
	default:
		report_render_text(report, &style, text);
	}
}

/* What is to be written: a session's, or a report of its own. */
struct source {
	const struct store *store;
	const struct store_row *row;
	const struct report *report;
};

static struct err *read_session(const struct output *out, const struct source *from, struct buf *text)
{
	/* Other forms lie in its folder, as they were when it ended. */
	if (out->format != OUTPUT_TEXT && !out->mask)
		return session_report_text(from->store, from->row->guid, formats[out->format].ext, text);
	CLEANUP(report_freep) struct report *report = NULL;
	TRY(session_report(from->store, from->row->guid, &report));
	if (out->mask)
		report_mask(report);
	render(out, report, text);
	return NULL;
}

static struct err *fill(int fd, const struct output *out, const struct source *from)
{
	if (out->format == OUTPUT_ZIP)
		return session_zip(from->store, from->row, out->mask, fd);
	if (out->format == OUTPUT_PROFILE)
		return session_profile(from->store, from->row, out->path, fd);
	CLEANUP(buf_free) struct buf text = { 0 };
	if (from->report)
		render(out, from->report, &text);
	else
		TRY(read_session(out, from, &text));
	return fd_write_full(fd, buf_cstr(&text), text.len, DEADLINE_NEVER);
}

static struct err *write_whole(const struct output *out, const struct source *from)
{
	if (!out->path) {
		fflush(stdout);
		return output_result(fill(STDOUT_FILENO, out, from));
	}
	struct partfile file;
	TRY(partfile_open(out->path, 0666, &file));
	struct err *err = fill(file.fd, out, from);
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	return err;
}

struct err *output_write(const struct output *out, const struct store *store, const struct store_row *row)
{
	return write_whole(out, &(struct source){ .store = store, .row = row });
}

struct err *output_report(const struct output *out, const struct report *report)
{
	return write_whole(out, &(struct source){ .report = report });
}
