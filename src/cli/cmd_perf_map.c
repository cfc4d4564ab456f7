/* drdotnet perf-map: names of a living runtime's code for perf and bpftrace, without a restart. */

#include "base/fd.h"
#include "base/fmt.h"
#include "base/partfile.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/launched.h"
#include "eventpipe/methods.h"
#include "exam/events.h"
#include "profilers/registry.h"
#include "target/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct perf_map_lines {
	struct buf text;
	struct buf name;
	size_t n;
};

static void add_line(void *user, const struct method *m)
{
	struct perf_map_lines *l = user;
	buf_clear(&l->name);
	method_show(m->space, m->name, &l->name);
	buf_printf(&l->text, "%llx %x ", (unsigned long long)m->start, m->size);
	str_add_visible(&l->text, buf_cstr(&l->name), l->name.len, 0);
	buf_char(&l->text, '\n');
	l->n++;
}

/* The folder may belong to the target: the new file replaces what has that name, which is not followed. */
static struct err *put_file(int folder, const char *name, const struct buf *text, const char *path)
{
	CLEANUP(mem_freep) char *temp = mem_printf(".%s.%d", name, (int)getpid());
	CLOSE_FD int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_errno(errno, "cannot write '%s'", path);
	struct err *err = fd_write_full(fd, buf_cstr(text), text->len, DEADLINE_NEVER);
	if (!err && renameat(folder, temp, folder, name) < 0)
		err = err_errno(errno, "cannot write '%s'", path);
	if (err)
		unlinkat(folder, temp, 0);
	return err;
}

/* Does the runtime write that file already? */
static struct err *check_own(const struct patient *p, int folder, const char *name, const char *path)
{
	CLEANUP(mem_freep) char *enabled = target_env(&p->target, "DOTNET_PerfMapEnabled");
	if (!str_empty(enabled) && !str_eq(enabled, "0") && !str_eq(enabled, "2") &&
	    faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_new(ERR_USAGE,
			       "its runtime writes '%s' itself (DOTNET_PerfMapEnabled=%s); -o FILE writes another",
			       path, enabled);
	return NULL;
}

/* Where perf and bpftrace look: /tmp of the process, by its own number. */
static struct err *put_in_tmp(const struct patient *p, const struct buf *text, char **ret_path)
{
	FSUSER_HELD held = { 0 };
	struct fsuser user;
	CLOSE_FD int folder = -1;
	bool same_view = !p->target.other_root && !p->target.other_mount;
	CLEANUP(mem_freep) char *name = mem_printf("perf-%d.map", (int)p->target.ns_pid);
	CLEANUP(mem_freep)
	char *tmp = same_view ? mem_strdup("/tmp") : mem_printf("/proc/%d/root/tmp", (int)p->target.pid);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", tmp, name);
	TRY(target_fsuser(&p->target, &user));
	TRY(target_open_folder(&p->target, &user, tmp, &folder));
	TRY(fsuser_begin(&user, &held));
	TRY(check_own(p, folder, name, path));
	TRY_WRAP(put_file(folder, name, text, path), "with the rights of its user (-o FILE writes elsewhere)");
	*ret_path = STEAL(path);
	return NULL;
}

static struct err *ask(const struct patient *patient, int signal_fd, struct methods *methods)
{
	const struct profiler *profiler;
	TRY(profiler_find("cpu-hotpaths", &profiler));
	struct exam exam = { .profiler = profiler, .patient = patient, .way = WAY_EVENTS, .cancel_fd = signal_fd };
	struct err *err = exam_methods_now(&exam, methods, "names");
	bool cancelled = exam.cancelled;
	exam_fini(&exam);
	TRY(err);
	if (cancelled)
		return err_new(ERR_CANCELLED, "cancelled");
	return methods_count(methods) ? NULL : err_new(ERR_UNSUPPORTED, "the runtime did not list its methods");
}

static struct err *put_in(const char *output, const struct buf *text)
{
	struct partfile file;
	TRY(partfile_open(output, 0644, &file));
	struct err *err = fd_write_full(file.fd, buf_cstr(text), text->len, DEADLINE_NEVER);
	if (str_eq(output, "-"))
		err = output_result(err);
	if (!err)
		err = partfile_commit(&file);
	partfile_fini(&file, false);
	return err;
}

static struct err *write_map(const struct patient *patient, const char *output, int signal_fd, bool quiet)
{
	CLEANUP(methods_freep) struct methods *methods = methods_new();
	if (output)
		TRY(partfile_check(output));
	TRY(ask(patient, signal_fd, methods));
	struct perf_map_lines lines = { 0 };
	CLEANUP(mem_freep) char *path = NULL;
	methods_each(methods, add_line, &lines);
	struct err *err = output ? put_in(output, &lines.text) : put_in_tmp(patient, &lines.text, &path);
	if (!err && !quiet)
		fprintf(stderr, "%s\n", fmt_plural(lines.n, "range of code", "ranges of code").s);
	if (!err && path)
		puts(path);
	buf_free(&lines.text);
	buf_free(&lines.name);
	return err;
}

static struct err *run(const struct args *args, int *ret_exit UNUSED)
{
	struct patient patient = { 0 };
	CLOSE_FD int signal_fd = -1;
	TRY(signals_open(false, &signal_fd));
	TRY(patient_find(args->words[0], FIND_TIMEOUT_MS, &patient));
	struct err *err = patient.target.pid ? write_map(&patient, args_value(args, "--output"), signal_fd,
							 args_has(args, "--quiet"))
					     : err_new(ERR_UNSUPPORTED, "its process is not visible from here");
	patient_fini(&patient);
	return err;
}

const struct command cmd_perf_map = {
	.name = "perf-map",
	.words = "TARGET",
	.summary = "Write /tmp/perf-PID.map, so that perf and bpftrace show managed names.",
	.example = "drdotnet perf-map 1234 && perf record -g -p 1234 sleep 10\n"
		   "drdotnet perf-map Shop.Api -o -                     to standard output",
	.details = "The map lists all code that the runtime has compiled or loaded by now; write it again for what is "
		   "compiled later. It lies in /tmp as the process sees it, where perf and bpftrace look, and stays "
		   "there until you remove it. It is written with the rights of the process's user and belongs to that "
		   "user: perf that runs as another takes it only with -f.\n\n"
		   "perf takes names from a map only for memory without a file; .NET 7 and later maps its code from a "
		   "file without a name unless it was started with DOTNET_EnableWriteXorExecute=0. 'drdotnet cpu "
		   "postprocess' names both. Frames without a frame pointer are missing in the stacks of perf -g; "
		   "'drdotnet cpu collect' has "
		   "them.",
	.options =
		(const struct option[]){
			{ .name = "--output",
			  .short_name = 'o',
			  .value = "FILE",
			  .help = "Write it there instead; '-' is standard output" },
			{ .name = "--quiet", .short_name = 'q', .help = "Nothing but the path" },
			{ 0 },
		},
	.min_words = 1,
	.max_words = 1,
	.remote = true,
	.run = run,
};
