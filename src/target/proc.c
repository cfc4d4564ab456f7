#include "target/proc.h"
#include "target/target.h"
#include "base/str.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PF_KTHREAD 0x00200000

/* The name stands in parentheses and may itself hold blanks and parentheses: fields are counted from the last ')'. */
bool proc_parse_stat(const char *text, size_t len, struct proc_stat *ret)
{
	const char *open = memchr(text, '(', len), *close = memrchr(text, ')', len);
	if (!open || !close || close < open)
		return false;
	struct proc_stat s = { 0 };
	size_t name_len = MIN((size_t)(close - open - 1), sizeof(s.comm) - 1);
	memcpy(s.comm, open + 1, name_len);

	unsigned long flags, user, system;
	unsigned long long start, stack = 0;
	long threads;
	int n = sscanf(close + 1,
		       " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %ld %*d %llu %*u %*d %*u "
		       "%*u %*u %llu",
		       &s.state, &flags, &user, &system, &threads, &start, &stack);
	if (n < 6)
		return false;
	s.kernel_thread = flags & PF_KTHREAD;
	s.threads = threads;
	s.cpu_ticks = (uint64_t)user + system;
	s.start_ticks = start;
	s.stack_start = stack;
	*ret = s;
	return true;
}

/* The value of the line that starts with key, or NULL. */
static const char *line_value(const char *text, const char *key)
{
	size_t n = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n))
			return line + n;
	}
	return NULL;
}

static void parse_ns_pid(const char *p, struct proc_status *s)
{
	while (*p == '\t' || *p == ' ') {
		char *end;
		long v = strtol(p, &end, 10);
		if (end == p)
			return;
		s->ns_pid = (pid_t)v;
		s->ns_depth++;
		p = end;
	}
}

bool proc_parse_status(const char *text, size_t len, struct proc_status *ret)
{
	struct proc_status s = { 0 };
	unsigned uid, fs_uid, fs_gid;
	if (strlen(text) != len)
		return false;
	const char *v = line_value(text, "Uid:");
	if (!v || sscanf(v, " %*u %u %*u %u", &uid, &fs_uid) != 2)
		return false;
	v = line_value(text, "Gid:");
	if (!v || sscanf(v, " %*u %*u %*u %u", &fs_gid) != 1)
		return false;
	s.uid = uid;
	s.fs_uid = fs_uid;
	s.fs_gid = fs_gid;
	if ((v = line_value(text, "NSpid:")))
		parse_ns_pid(v, &s);
	if ((v = line_value(text, "TracerPid:")))
		s.tracer = (pid_t)strtol(v, NULL, 10);
	if ((v = line_value(text, "VmRSS:")))
		s.rss_bytes = strtoull(v, NULL, 10) * 1024;
	if ((v = line_value(text, "CapEff:")))
		s.cap_effective = strtoull(v, NULL, 16);
	if ((v = line_value(text, "Seccomp:")))
		s.seccomp = (int)strtol(v, NULL, 10);
	*ret = s;
	return true;
}

/* "Max open files            1024                 1048576              files" */
bool proc_parse_limit(const char *text, const char *name, uint64_t *ret_soft)
{
	const char *v = line_value(text, name);
	v = v ? v + strspn(v, " ") : NULL;
	if (!v || (!isdigit((unsigned char)*v) && !str_starts(v, "unlimited")))
		return false;
	*ret_soft = *v == 'u' ? UINT64_MAX : strtoull(v, NULL, 10);
	return true;
}

const char *proc_env(const char *environ_text, size_t len, const char *name)
{
	size_t n = strlen(name);
	const char *end = environ_text + len;
	for (const char *p = environ_text; p < end; p += strlen(p) + 1)
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

const char *proc_env_dotnet(const char *environ_text, size_t len, const char *name)
{
	char full[80];
	snprintf(full, sizeof(full), "DOTNET_%s", name);
	const char *v = proc_env(environ_text, len, full);
	if (v)
		return v;
	snprintf(full, sizeof(full), "COMPlus_%s", name);
	return proc_env(environ_text, len, full);
}

char *proc_command_line(const char *text, size_t len, size_t max)
{
	while (len && !text[len - 1])
		len--;
	len = MIN(len, max);
	char *s = mem_alloc(len + 1);
	for (size_t i = 0; i < len; i++)
		s[i] = text[i] ? text[i] : ' ';
	s[len] = '\0';
	return s;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* 64 lower-case hex digits that are a word of their own. */
static bool is_id(const char *start, const char *p)
{
	if (p > start && isalnum((unsigned char)p[-1]))
		return false;
	for (size_t i = 0; i < 64; i++)
		if (!is_hex(p[i]))
			return false;
	return !isalnum((unsigned char)p[64]);
}

static bool take_id(const char *p, char ret[PROC_CONTAINER_DIGITS + 1])
{
	memcpy(ret, p, PROC_CONTAINER_DIGITS);
	ret[PROC_CONTAINER_DIGITS] = '\0';
	return true;
}

/* Engines write the id as the last folder, bare or as "docker-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope",
 * "libpod-ID.scope/container". The last id of a line is the innermost container. */
bool proc_container_from_cgroup(const char *text, char ret[PROC_CONTAINER_DIGITS + 1])
{
	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n'), *last = NULL;
		for (const char *p = line; p + 64 <= end; p++)
			if (is_id(line, p))
				last = p;
		bool monitor = last && memmem(line, (size_t)(end - line), "conmon-", 7);
		if (last && !monitor)
			return take_id(last, ret);
		line = *end ? end + 1 : end;
	}
	return false;
}

bool proc_container_from_mountinfo(const char *text, char ret[PROC_CONTAINER_DIGITS + 1])
{
	static const char *const points[] = { " /etc/hostname ", " /etc/hosts ", " /etc/resolv.conf " };
	static const char *const folders[] = { "/containers/", "/overlay-containers/" };
	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n');
		size_t len = (size_t)(end - line);
		bool ours = false;
		for (size_t i = 0; i < ARRAY_SIZE(points); i++)
			ours |= memmem(line, len, points[i], strlen(points[i])) != NULL;
		for (size_t i = 0; ours && i < ARRAY_SIZE(folders); i++) {
			const char *p = memmem(line, len, folders[i], strlen(folders[i]));
			p = p ? p + strlen(folders[i]) : NULL;
			if (p && p + 64 <= end && is_id(line, p))
				return take_id(p, ret);
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

static bool take_number(const char **p, uint64_t *ret)
{
	if (!isdigit((unsigned char)**p))
		return false;
	char *end;
	*ret = strtoull(*p, &end, 10);
	bool fits = end - *p <= 19;
	*p = end;
	return fits;
}

bool proc_socket_name(const char *name, uint64_t *ret_pid, uint64_t *ret_start)
{
	static const char prefix[] = "dotnet-diagnostic-";
	if (!str_starts(name, prefix))
		return false;
	const char *p = name + sizeof(prefix) - 1;
	return take_number(&p, ret_pid) && *p++ == '-' && take_number(&p, ret_start) && str_eq(p, "-socket");
}

char *proc_mapped_file(const char *maps, const char *name)
{
	size_t name_len = strlen(name);
	for (const char *line = maps; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *path = memchr(line, '/', (size_t)(end - line)), *stop = end;
		if (end - line > 10 && !memcmp(end - 10, " (deleted)", 10))
			stop = end - 10;
		bool room = path && (size_t)(stop - path) > name_len && stop[-(ptrdiff_t)name_len - 1] == '/';
		if (room && !memcmp(stop - name_len, name, name_len))
			return mem_strndup(path, (size_t)(stop - path));
		line = *end ? end + 1 : end;
	}
	return NULL;
}
