#include "target/threads.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/proc.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define THREADS_MAX 100000 /* more than the kernel allows a process by default */
#define TEXT_MAX 65536

/* The thread's own number in its innermost pid namespace; 0 when it is gone. */
static pid_t inner_tid(int tasks, const char *task, struct buf *text)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/status", task);
	struct proc_status status;
	buf_clear(text);
	struct err *err = file_read_at(tasks, path, TEXT_MAX, text);
	if (err) {
		err_free(err);
		return 0;
	}
	return proc_parse_status(buf_cstr(text), text->len, &status) ? status.ns_pid : 0;
}

static bool thread_name(int tasks, const char *task, struct buf *text, char ret[16])
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/comm", task);
	buf_clear(text);
	struct err *err = file_read_at(tasks, path, TEXT_MAX, text);
	if (err) {
		err_free(err);
		return false;
	}
	str_copy(ret, 16, buf_cstr(text));
	ret[strcspn(ret, "\n")] = 0;
	return true;
}

/* schedstat: ns on a cpu, ns able to run without one, times it was put on one. */
static void thread_times(int tasks, const char *task, struct buf *text, struct target_thread *ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/schedstat", task);
	unsigned long long run, delay, turns;
	buf_clear(text);
	struct err *err = file_read_at(tasks, path, TEXT_MAX, text);
	bool ok = !err && sscanf(buf_cstr(text), "%llu %llu %llu", &run, &delay, &turns) == 3;
	err_free(err);
	ret->cpu_ns = ok ? run : UINT64_MAX;
	ret->delay_ns = ok ? delay : UINT64_MAX;
	ret->turns = ok ? turns : UINT64_MAX;
}

struct err *target_threads(const struct target *t, struct target_threads *ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/task", (int)t->pid);
	DIR *dir = t->pid ? opendir(path) : NULL;
	if (!dir)
		return err_new(ERR_NOT_FOUND, "the threads of process %d cannot be seen", (int)t->pid);
	struct buf text = { 0 };
	*ret = (struct target_threads){ 0 };
	for (const struct dirent *e; (e = readdir(dir)) && ret->n < THREADS_MAX;) {
		struct target_thread thread = { 0 };
		uint64_t tid;
		if (!str_to_u64(e->d_name, &tid) || !thread_name(dirfd(dir), e->d_name, &text, thread.name))
			continue;
		thread_times(dirfd(dir), e->d_name, &text, &thread);
		thread.tid = t->other_pid_ns ? inner_tid(dirfd(dir), e->d_name, &text) : (pid_t)tid;
		if (thread.tid)
			vec_push(ret, thread);
	}
	closedir(dir);
	buf_free(&text);
	return NULL;
}

bool target_thread_states(const struct target *t, unsigned ret[128])
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/task", (int)t->pid);
	DIR *dir = t->pid ? opendir(path) : NULL;
	memset(ret, 0, 128 * sizeof(*ret));
	if (!dir)
		return false;
	unsigned n = 0;
	for (const struct dirent *e; (e = readdir(dir)) && n < THREADS_MAX;) {
		CLEANUP(mem_freep) char *file = mem_printf("%s/stat", e->d_name);
		CLEANUP(buf_free) struct buf text = { 0 };
		struct proc_stat stat;
		CLEANUP(err_freep) struct err *err = file_read_at(dirfd(dir), file, TEXT_MAX, &text);
		if (err || !proc_parse_stat(buf_cstr(&text), text.len, &stat))
			continue;
		ret[stat.state & 127]++;
		n++;
	}
	closedir(dir);
	return n > 0;
}

uint64_t target_delay_ns(const struct target *t)
{
	struct target_threads threads = { 0 };
	uint64_t delay = 0;
	err_ignore(target_threads(t, &threads));
	vec_each(thread, &threads)
		delay += thread->delay_ns == UINT64_MAX ? 0 : thread->delay_ns;
	vec_free(&threads);
	return delay;
}

bool target_cpu_ns(const struct target *t, uint64_t *ret)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/%d/stat", (int)t->pid);
	struct buf text = { 0 };
	struct proc_stat stat = { 0 };
	struct err *err = t->pid ? file_read(path, TEXT_MAX, &text) : err_new(ERR_NOT_FOUND, "not visible");
	bool ok = !err && proc_parse_stat(buf_cstr(&text), text.len, &stat) && stat.start_ticks == t->start_ticks;
	err_free(err);
	buf_free(&text);
	if (ok)
		*ret = stat.cpu_ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return ok;
}
