/* drdotnet trace convert and drdotnet trace report. */

#include "base/fd.h"
#include "base/fmt.h"
#include "base/partfile.h"
#include "base/str.h"
#include "cli/output.h"
#include "cli/trace.h"
#include "eventpipe/clr.h"
#include "export/formats.h"
#include "trace/jsonl.h"
#include "trace/samples.h"
#include "trace/summary.h"
#include "version.h"
#include <stdio.h>
#include <string.h>

struct conversion {
	const char *in, *out, *event;
	struct trace_ids ids;
	enum export_format format;
	bool jsonl, quiet;
};

static const char *const endings = ".speedscope.json, .chromium.json, .folded, .pb.gz or .jsonl";

static struct err *choose_format(const char *word, const char *path, struct conversion *c)
{
	c->jsonl = str_eq(word, "json");
	if (c->jsonl)
		return NULL;
	for (int f = 0; word && f < EXPORT_FORMATS; f++) {
		if (str_eq(word, export_format_name((enum export_format)f))) {
			c->format = (enum export_format)f;
			return NULL;
		}
	}
	if (!path || str_eq(path, "-"))
		return err_new(ERR_USAGE, "say the format with --to, or name a file that ends in %s", endings);
	c->jsonl = str_ends(path, ".jsonl") || str_ends(path, ".ndjson");
	if (c->jsonl || export_format_of(path, &c->format))
		return NULL;
	return err_new(ERR_USAGE, "the name '%s' does not tell the format: end it in %s, or add --to", path, endings);
}

/* shop.nettrace becomes shop.speedscope.json beside it. */
static char *default_path(const struct conversion *c)
{
	static const char *const ends[] = { ".folded", ".speedscope.json", ".chromium.json", ".pb.gz" };
	size_t len = strlen(c->in);
	if (str_eq(c->in, "-"))
		return mem_strdup("-");
	if (str_ends(c->in, ".nettrace"))
		len -= strlen(".nettrace");
	return mem_printf("%.*s%s", (int)len, c->in, c->jsonl ? ".jsonl" : ends[c->format]);
}

static struct err *write_jsonl(const struct conversion *c, const struct partfile *file)
{
	struct out out;
	struct trace_source source = { 0 };
	out_init(&out, file->fd, false);
	struct err *err = trace_jsonl(c->in, &c->ids, &out, &source), *end = out_finish(&out);
	if (!err)
		err = STEAL(end);
	err_free(end);
	out_fini(&out);
	if (!err)
		trace_say_source(&source, c->in);
	if (!err && !c->quiet)
		fprintf(stderr, "%s\n", fmt_plural(source.stats.events, "event", "events").s);
	trace_source_fini(&source);
	return err;
}

static struct err *no_stacks(const struct conversion *c, const struct trace_samples *s)
{
	if (c->event)
		return err_new(ERR_NOT_FOUND,
			       "'%s' holds no event '%s'; 'drdotnet trace report %s' lists what it holds", c->in,
			       c->event, c->in);
	return err_new(ERR_NOT_FOUND,
		       "'%s' holds no stack samples and no other event with a stack (%s in all); --to json writes them",
		       c->in, fmt_plural(s->source.stats.events, "event", "events").s);
}

static struct err *write_profile(const struct conversion *c, struct partfile *file, const struct trace_samples *s)
{
	struct out out;
	CLEANUP(mem_freep)
	char *name = s->source.header.pid ? mem_printf("Process %u", s->source.header.pid) : mem_strdup("Trace");
	struct export_info info = {
		.name = name,
		.program = "drdotnet " DRDOTNET_VERSION,
		.event = s->cpu	    ? "samples"
			 : c->event ? c->event
				    : "events",
		.pid = s->source.header.pid,
		.unix_ns = trace_unix_ns(&s->source.header, s->first_ticks),
		.interval_ns = s->interval_ns,
	};
	out_init(&out, file->fd, export_format_gzip(c->format));
	struct err *err = export_write(c->format, s->profile, &info, &out), *end = out_finish(&out);
	if (!err)
		err = STEAL(end);
	err_free(end);
	out_fini(&out);
	return err;
}

static void say_samples(const struct trace_samples *s)
{
	fprintf(stderr, "%s of %s%s, %s\n",
		s->cpu ? fmt_plural(profile_n_samples(s->profile), "stack sample", "stack samples").s
		       : fmt_plural(profile_n_samples(s->profile), "event", "events").s,
		s->cpu ? "all threads: " : "", fmt_plural(profile_n_threads(s->profile), "thread", "threads").s,
		fmt_plural(s->methods, "method is known", "methods are known").s);
	if (s->unnamed)
		fprintf(stderr, "drdotnet: %s without a name%s\n", fmt_plural(s->unnamed, "address", "addresses").s,
			s->methods ? "" : ": the trace has no rundown");
	if (profile_cut(s->profile))
		fprintf(stderr, "drdotnet: the stacks of %s did not fit into memory and are counted together\n",
			fmt_plural(profile_cut(s->profile), "sample", "samples").s);
}

static struct err *convert_stacks(const struct conversion *c, struct partfile *file)
{
	CLEANUP(mem_freep)
	char *folder = file->path && file->partial ? file_folder(file->path) : mem_strdup("/tmp");
	struct trace_samples_options options = { .ids = &c->ids, .event = c->event, .spool_dir = folder };
	struct trace_samples samples;
	TRY(trace_samples(c->in, &options, &samples));
	struct err *err =
		profile_n_samples(samples.profile) ? write_profile(c, file, &samples) : no_stacks(c, &samples);
	if (!err)
		trace_say_source(&samples.source, c->in);
	if (!err && !c->quiet)
		say_samples(&samples);
	trace_samples_fini(&samples);
	return err;
}

static struct err *convert(const struct conversion *c)
{
	struct partfile file;
	TRY(partfile_open(c->out, 0666, &file));
	struct err *err = c->jsonl ? write_jsonl(c, &file) : convert_stacks(c, &file);
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	if (err && (err_kind(err) == ERR_IO))
		return err_wrap(err, "'%s' was not written", c->out);
	if (!err && !c->quiet && !str_eq(c->out, "-"))
		fprintf(stderr, "Written to %s\n", c->out);
	return err;
}

struct err *trace_convert_run(const struct args *args, int *ret_exit)
{
	static const char *const allowed[] = { "--output",   "--to",	"--event", "--only-ids",
					       "--skip-ids", "--quiet", NULL };
	(void)ret_exit;
	TRY(trace_args_check(args, allowed));
	if (args->n_words != 2 || args->program)
		return err_new(ERR_USAGE, "'drdotnet trace convert' needs the nettrace file ('-' is standard input)");
	struct conversion c = { .in = args->words[1],
				.out = args_value(args, "--output"),
				.event = args_value(args, "--event"),
				.quiet = args_has(args, "--quiet") };
	TRY(choose_format(args_value(args, "--to"), c.out, &c));
	if (c.event && c.jsonl)
		return err_new(ERR_USAGE, "--event is for stacks; --only-ids chooses events for json");
	CLEANUP(mem_freep) char *path = c.out ? NULL : default_path(&c);
	c.out = c.out ? c.out : path;
	struct err *err = trace_args_ids(args, &c.ids);
	if (!err)
		err = convert(&c);
	trace_ids_fini(&c.ids);
	return err;
}

static void render(const struct report *report, const struct output *to, struct buf *out)
{
	struct report_text_style style = { .columns = output_columns(STDOUT_FILENO), .ascii = !output_is_utf8() };
	const char *term = getenv("TERM");
	style.colour = !to->path && isatty(STDOUT_FILENO) && str_empty(getenv("NO_COLOR")) && !str_eq(term, "dumb");
	switch (to->format) {
	case OUTPUT_JSON:
		report_render_json(report, out);
		break;
	case OUTPUT_HTML:
		report_render_html(report, out);
		break;
	case OUTPUT_MD:
		report_render_markdown(report, out);
		break;
	default:
		report_render_text(report, &style, out);
	}
}

struct err *trace_report_run(const struct args *args, int *ret_exit)
{
	static const char *const allowed[] = { "--output", "--json", "--only-ids", "--skip-ids", "--quiet", NULL };
	(void)ret_exit;
	TRY(trace_args_check(args, allowed));
	if (args->n_words != 2 || args->program)
		return err_new(ERR_USAGE, "'drdotnet trace report' needs the nettrace file ('-' is standard input)");
	struct output to;
	TRY(output_parse(args, &to));
	if (to.format == OUTPUT_ZIP)
		return err_new(ERR_USAGE, "a trace's report is one file: .txt, .md, .html or .json");
	TRY(output_check(&to));
	struct trace_ids ids = { 0 };
	CLEANUP(report_freep) struct report *report = NULL;
	struct err *err = trace_args_ids(args, &ids);
	if (!err)
		err = trace_summary(args->words[1], &ids, "/tmp", &report);
	trace_ids_fini(&ids);
	TRY(err);
	CLEANUP(buf_free) struct buf text = { 0 };
	render(report, &to, &text);
	struct partfile file;
	TRY(partfile_open(to.path ? to.path : "-", 0666, &file));
	err = fd_write_full(file.fd, buf_cstr(&text), text.len, DEADLINE_NEVER);
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	return err;
}
