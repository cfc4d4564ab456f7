#include "target/core_place.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "target/proc.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX ((size_t)1 << 20)
#define NAME_MAX_BYTES 4096

char *core_place_name(const char *pattern, pid_t pid, pid_t ns_pid, const char *comm)
{
	struct buf name = { .limit = NAME_MAX_BYTES };
	for (const char *p = pattern; *p; p++) {
		if (*p != '%') {
			buf_char(&name, *p);
			continue;
		}
		switch (*++p) {
		case 'p':
		case 'd':
			buf_printf(&name, "%d", (int)ns_pid);
			break;
		case 'P':
			buf_printf(&name, "%d", (int)pid);
			break;
		case 'e':
			buf_str(&name, comm);
			break;
		case '%':
			buf_char(&name, '%');
			break;
		default:
			buf_free(&name);
			return NULL;
		}
	}
	char *made = name.len && !name.overflow ? mem_strdup(buf_cstr(&name)) : NULL;
	buf_free(&name);
	return made;
}

static char *by_runtime(const struct target *t, pid_t ns_pid, const char *comm)
{
	CLEANUP(buf_free) struct buf env = { .limit = TEXT_MAX };
	if (!file_text(&env, "/proc/%d/environ", (int)t->pid))
		return NULL;
	const char *text = buf_cstr(&env), *on = proc_env_dotnet(text, env.len, "DbgEnableMiniDump");
	const char *name = proc_env_dotnet(text, env.len, "DbgMiniDumpName"), *tmp = proc_env(text, env.len, "TMPDIR");
	if (!str_eq(on, "1"))
		return NULL;
	CLEANUP(mem_freep) char *usual = mem_printf("%s/coredump.%%p", str_empty(tmp) ? "/tmp" : tmp);
	return core_place_name(str_empty(name) ? usual : name, t->pid, ns_pid, comm);
}

static char *by_kernel(const struct target *t, pid_t ns_pid, const char *comm)
{
	CLEANUP(buf_free) struct buf pattern = { .limit = NAME_MAX_BYTES }, with_pid = { .limit = NAME_MAX_BYTES };
	if (!file_text(&pattern, "/proc/sys/kernel/core_pattern") ||
	    !file_text(&with_pid, "/proc/sys/kernel/core_uses_pid"))
		return NULL;
	char *text = mem_strdup(buf_cstr(&pattern));
	text[strcspn(text, "\n")] = '\0';
	CLEANUP(mem_freep)
	char *whole =
		*buf_cstr(&with_pid) == '1' && !strstr(text, "%p") ? mem_printf("%s.%%p", text) : mem_strdup(text);
	bool piped = *text == '|';
	mem_free(text);
	return piped ? NULL : core_place_name(whole, t->pid, ns_pid, comm);
}

void core_place_note(const struct target *t, struct core_place *ret)
{
	char path[64];
	struct proc_status status = { 0 };
	struct proc_stat stat = { 0 };
	CLEANUP(buf_free) struct buf text = { .limit = TEXT_MAX }, line = { .limit = TEXT_MAX };
	*ret = (struct core_place){ .root = -1, .folder = -1 };
	if (!t->pid || !file_text(&text, "/proc/%d/status", (int)t->pid) ||
	    !proc_parse_status(buf_cstr(&text), text.len, &status) || !file_text(&line, "/proc/%d/stat", (int)t->pid) ||
	    !proc_parse_stat(buf_cstr(&line), line.len, &stat))
		return;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)t->pid);
	ret->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)t->pid);
	ret->folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret->uid = status.fs_uid;
	pid_t ns_pid = status.ns_pid ? status.ns_pid : t->pid;
	ret->names[0] = by_runtime(t, ns_pid, stat.comm);
	ret->names[1] = by_kernel(t, ns_pid, stat.comm);
}

static int open_one(const struct core_place *p, const char *name, int64_t since_unix_ns)
{
	int folder = *name == '/' ? p->root : p->folder;
	struct stat st;
	CLOSE_FD int fd = folder >= 0 ? file_open_below_fd(folder, name, O_RDONLY) : -1;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != p->uid ||
	    timespec_ns(st.st_mtim) < since_unix_ns)
		return -1;
	return fd_steal(&fd);
}

int core_place_open(const struct core_place *p, int64_t since_unix_ns)
{
	for (size_t i = 0; i < CORE_PLACES; i++) {
		int fd = p->names[i] ? open_one(p, p->names[i], since_unix_ns) : -1;
		if (fd >= 0)
			return fd;
	}
	return -1;
}

void core_place_fini(struct core_place *p)
{
	fd_closep(&p->root);
	fd_closep(&p->folder);
	for (size_t i = 0; i < CORE_PLACES; i++)
		mem_free(p->names[i]);
}
