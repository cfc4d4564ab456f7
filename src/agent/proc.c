/* What the agent reads from /proc/self: threads, descriptors, times, seccomp filters. No libc: system calls only. */

#include "agent/agent.h"
#include "agent/sys.h"

#define STATUS_BYTES 4096

static int number(const char *s)
{
	int n = 0;
	if (*s < '0' || *s > '9')
		return -1;
	for (; *s >= '0' && *s <= '9'; s++)
		n = n * 10 + (*s - '0');
	return n;
}

struct proc_entry { /* of getdents64 */
	uint64_t inode;
	int64_t offset;
	uint16_t len;
	uint8_t type;
	char name[];
};

static bool each(const char *folder, bool descriptors, void (*on)(void *user, int n), void *user)
{
	_Alignas(8) char text[2048];
	long n;
	int fd = sys_open(folder, 0200000 /* O_DIRECTORY */);
	if (fd < 0)
		return false;
	while ((n = SYS(getdents64, fd, text, sizeof(text))) > 0)
		for (long at = 0; at < n;) {
			const struct proc_entry *e = (const struct proc_entry *)(const void *)(text + at);
			int is = number(e->name);
			if (is >= 0 && !(descriptors && is == fd))
				on(user, is);
			at += e->len;
		}
	SYS(close, fd);
	return n == 0;
}

bool proc_each_number(const char *folder, void (*on)(void *user, int n), void *user)
{
	return each(folder, false, on, user);
}

bool proc_each_descriptor(void (*on)(void *user, int n), void *user)
{
	return each("/proc/self/fd", true, on, user);
}

const char *proc_after(const char *text, const char *end, const char *word)
{
	size_t n = 0;
	while (word[n])
		n++;
	for (; text + n <= end; text++)
		if (!memcmp(text, word, n))
			return text + n;
	return NULL;
}

static size_t put(char *to, const char *text)
{
	size_t n = 0;
	for (; text[n]; n++)
		to[n] = text[n];
	to[n] = '\0';
	return n;
}

static size_t put_number(char *to, int64_t n)
{
	char digits[20];
	size_t d = 0, len = 0;
	do
		digits[d++] = (char)('0' + n % 10);
	while (n /= 10);
	while (d)
		to[len++] = digits[--d];
	to[len] = '\0';
	return len;
}

void proc_task_path(char path[static 64], int64_t pid, int32_t tid, const char *file)
{
	size_t n = put(path, "/proc/");
	n += put_number(path + n, pid);
	n += put(path + n, "/task");
	if (tid) {
		n += put(path + n, "/");
		n += put_number(path + n, tid);
	}
	put(path + n, file);
}

size_t proc_descriptor_path(char path[static 64], int fd)
{
	size_t n = put(path, "/proc/self/fd/");
	return n + put_number(path + n, fd);
}

void proc_task_name(int32_t pid, int32_t tid, char name[static 16])
{
	char path[64];
	proc_task_path(path, pid, tid, "/comm");
	long got = sys_read_file(path, name, 15);
	name[got > 0 ? got : 0] = '\0';
	while (got > 0 && name[got - 1] == '\n')
		name[--got] = '\0';
}

/* "pid (name) S parent ...": a name may hold anything. */
bool proc_stat(int32_t pid, struct agent_proc_stat *ret)
{
	char path[64], text[512];
	size_t at = put(path, "/proc/");
	at += pid ? put_number(path + at, pid) : put(path + at, "self");
	put(path + at, "/stat");
	long n = sys_read_file(path, text, sizeof(text) - 1), i = n - 1;
	while (i >= 0 && text[i] != ')')
		i--;
	if (i < 0 || i + 4 >= n)
		return false;
	text[n] = '\0';
	*ret = (struct agent_proc_stat){ .pid = number(text), .parent = number(text + i + 4), .state = text[i + 2] };
	return true;
}

static void look_for_filter(void *user, int tid)
{
	char path[64], text[STATUS_BYTES];
	bool *found = user;
	proc_task_path(path, SYS(getpid), tid, "/status");
	long n = *found ? 0 : sys_read_file(path, text, sizeof(text));
	const char *mode = n > 0 ? proc_after(text, text + n, "\nSeccomp:\t") : NULL;
	/* One that has ended since has no file; a kernel without seccomp no line. */
	if (mode && mode < text + n && *mode != '0')
		*found = true;
}

bool proc_filtered(void)
{
	bool found = false;
	return !proc_each_number(PROC_TASKS, look_for_filter, &found) || found;
}
