/* A data-access library that does not mean well. What it does is decided by a number in the image (ACT_OFFSET in the
 * file behind the first image descriptor), so that one file plays all the parts; acts.h lists them.
 *
 * Probes answer with PROBE | errno from CLRDataCreateInstance, or PROBE_OPEN when the forbidden thing worked. */

#include "fakes/acts.h"
#include "com/dac.h"
#include "wire/dac.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
PUBLIC com_hr CLRDataCreateInstance(const struct com_guid *iid, struct clr_data_target *target, void **ret);

static enum act act(void)
{
	uint32_t number = 0;
	return pread(WIRE_DAC_FD_IMAGE, &number, sizeof(number), ACT_OFFSET) == sizeof(number) ? number : ACT_NONE;
}

static com_hr closed(bool worked)
{
	return (com_hr)(worked ? PROBE_OPEN : PROBE | (unsigned)errno);
}

/* ---- probes ---- */

static com_hr probe_files(void)
{
	static const char *const paths[] = { "/etc/passwd", "/proc/self/maps", "/dev/null", "." };
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct open_how how = { .flags = O_RDONLY };
		if (open(paths[i], O_RDONLY) >= 0 || syscall(SYS_open, paths[i], O_RDONLY) >= 0 ||
		    syscall(SYS_openat2, AT_FDCWD, paths[i], &how, sizeof(how)) >= 0)
			return closed(true);
	}
	return closed(open("/tmp/drdotnet-was-here", O_CREAT | O_WRONLY, 0600) >= 0 ||
		      !unlink("/tmp/drdotnet-was-here") || !mkdir("/tmp/drdotnet-was-here", 0700));
}

static com_hr probe_descriptors(void)
{
	struct stat st;
	for (int fd = WIRE_DAC_FD_IMAGE + 1; fd < 4096; fd++)
		if (!fstat(fd, &st))
			return closed(true);
	return closed(false);
}

static com_hr probe_rights(void)
{
	errno = EPERM;
	return closed(geteuid() == 0 || getegid() == 0 || !setuid(0) || !setgid(0));
}

static com_hr probe_code(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return closed(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED ||
		      !mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

static com_hr probe_memory(void)
{
	size_t total = 0, step = (size_t)64 << 20;
	void *p;
	while (total < (size_t)64 << 30 && (p = malloc(step))) {
		memset(p, 1, 4096);
		total += step;
	}
	errno = ENOMEM;
	return closed(total >= (size_t)2 << 30);
}

static com_hr probe_signals(void)
{
	/* Its own handler instead of the sandbox's changes nothing. */
	signal(SIGSYS, SIG_IGN);
	return closed(open("/etc/passwd", O_RDONLY) >= 0);
}

/* ---- misdeeds ---- */

static void misdeed(enum act which)
{
	switch (which) {
	case ACT_FORK:
		syscall(SYS_fork);
		break;
	case ACT_CLONE:
		syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		break;
	case ACT_EXEC:
		syscall(SYS_execve, "/bin/true", NULL, NULL);
		break;
	case ACT_CONNECT:
		socket(AF_INET, SOCK_STREAM, 0);
		break;
	case ACT_KILL:
		kill(getppid(), SIGTERM);
		break;
	case ACT_PTRACE:
		ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
		break;
	case ACT_X32:
		syscall(0x40000000 | SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
		break;
	case ACT_CRASH:
		raise(SIGSEGV);
		break;
	case ACT_ABORT:
		abort();
	case ACT_SPIN:
		for (;;)
			__asm__ volatile("");
	default:
		break;
	}
}

static void read_for_ever(void)
{
	char bytes[4096];
	for (;;)
		(void)!pread(WIRE_DAC_FD_IMAGE, bytes, sizeof(bytes), 0);
}

static void send_garbage(void)
{
	char bytes[64];
	memset(bytes, 0xA5, sizeof(bytes));
	(void)!write(WIRE_DAC_FD_SOCKET, bytes, sizeof(bytes));
}

/* Replies that look right and never end; the client knows no more of the id than that it counts. */
static void send_for_ever(void)
{
	static char body[WIRE_DAC_MAX_REPLY];
	struct wire_dac_reply head = { .length = sizeof(body), .kind = WIRE_DAC_THREADS, .id = 1 };
	for (;;)
		if (write(WIRE_DAC_FD_SOCKET, &head, sizeof(head)) < 0 ||
		    write(WIRE_DAC_FD_SOCKET, body, sizeof(body)) < 0)
			_exit(0);
}

__attribute__((constructor)) static void on_load(void)
{
	if (act() == ACT_LOAD_FORK)
		misdeed(ACT_FORK);
	if (act() == ACT_LOAD_OPEN && open("/etc/passwd", O_RDONLY) < 0)
		raise(SIGUSR1); /* said by the way it ends: the file was not opened */
}

/* ---- the objects ---- */

static com_hr nothing(void)
{
	return COM_E_FAIL;
}

static com_hr thread_store(struct sos *self, struct dacp_thread_store *data)
{
	(void)self;
	memset(data, 0, sizeof(*data));
	switch (act()) {
	case ACT_READ:
		read_for_ever();
		break;
	case ACT_GARBAGE:
		send_garbage();
		break;
	case ACT_FLOOD:
		send_for_ever();
		break;
	default:
		misdeed(act());
	}
	return COM_OK;
}

static com_hr globals(struct sos *self, struct dacp_globals *data)
{
	(void)self;
	*data = (struct dacp_globals){ .string_type = FAKE_STRING_TYPE };
	return COM_OK;
}

static com_hr method_name(struct sos *self, uint64_t desc, uint32_t count, com_char *name, uint32_t *needed)
{
	(void)self;
	static const com_char shown[] = { 'F', '(', ')', 0 };
	if (act() == ACT_NAME_CRASH && desc == DEADLY_METHOD)
		misdeed(ACT_CRASH);
	*needed = 4;
	memcpy(name, shown, count < 4 ? 0 : sizeof(shown));
	return COM_OK;
}

static void *sos_slots[91], *process_slots[49];
static struct {
	void **vtbl;
} sos_object = { sos_slots }, process_object = { process_slots };

static com_hr query(void *self, const struct com_guid *iid, void **ret)
{
	(void)self;
	static const struct com_guid sos_iid = COM_IID_SOS;
	*ret = memcmp(iid, &sos_iid, sizeof(*iid)) ? NULL : (void *)&sos_object;
	return *ret ? COM_OK : COM_E_NOINTERFACE;
}

com_hr CLRDataCreateInstance(const struct com_guid *iid, struct clr_data_target *target, void **ret)
{
	(void)iid;
	(void)target;
	for (size_t i = 0; i < 91; i++)
		sos_slots[i] = (void *)nothing;
	for (size_t i = 0; i < 49; i++)
		process_slots[i] = (void *)nothing;
	process_slots[0] = (void *)query;
	sos_slots[3] = (void *)thread_store;
	sos_slots[22] = (void *)method_name;
	sos_slots[70] = (void *)globals;
	*ret = &process_object;
	switch (act()) {
	case ACT_PROBE_FILES:
		return probe_files();
	case ACT_PROBE_DESCRIPTORS:
		return probe_descriptors();
	case ACT_PROBE_RIGHTS:
		return probe_rights();
	case ACT_PROBE_CODE:
		return probe_code();
	case ACT_PROBE_MEMORY:
		return probe_memory();
	case ACT_PROBE_SIGNALS:
		return probe_signals();
	default:
		return COM_OK;
	}
}
