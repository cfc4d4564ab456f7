#include "attach/place.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
#include "ipc/folder.h"
#include "wire/agent.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define LIBRARY_MAX ((size_t)16 << 20)

/* ---- the keeper: a child of ours that outlives us ---- */

static void remove_all(const struct place *p)
{
	if (p->folder >= 0) {
		unlinkat(p->folder, WIRE_AGENT_LIBRARY, 0);
		unlinkat(p->folder, WIRE_AGENT_SOCKET, 0);
	}
	unlinkat(p->parent, p->name, AT_REMOVEDIR);
}

static NORETURN void keep(struct place *p, int pipe_fd)
{
	sigset_t all;
	char word = 0;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_NAME, "drdotnet-keeper");
	while (read(pipe_fd, &word, 1) < 0 && errno == EINTR)
		;
	if (word != 'q') {
		p->folder = dir_open_own(p->parent, p->name);
		remove_all(p);
	}
	_exit(0);
}

static struct err *start_keeper(struct place *p)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(errno, "make a pipe");
	p->keeper = fork();
	if (p->keeper == 0) {
		/* In a session of its own, so that Ctrl-C and a closed terminal do not reach it; and without any
		 * descriptor whose end another process waits for. */
		setsid();
		int parent = dup2(p->parent, 3), word = dup2(ends[0], 4);
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int fd = 0; fd < 3 && null >= 0; fd++)
			dup2(null, fd);
		close_range(5, ~0u, 0);
		p->parent = parent;
		keep(p, word);
	}
	int errnum = errno;
	close(ends[0]);
	p->keeper_pipe = ends[1];
	return p->keeper < 0 ? err_errno(errnum, "start the keeper") : NULL;
}

static void end_keeper(struct place *p, bool done)
{
	if (p->keeper <= 0)
		return;
	if (!done)
		fd_closep(&p->keeper_pipe); /* as if we had been killed: the child removes everything */
	else if (write(p->keeper_pipe, "q", 1) < 0)
		kill(p->keeper, SIGKILL);
	while (waitpid(p->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	p->keeper = 0;
}

/* ---- where ---- */

static struct err *name_it(struct place *p)
{
	uint8_t random[16];
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(errno, "a random name");
	int n = snprintf(p->name, sizeof(p->name), "drdotnet-");
	for (size_t i = 0; i < sizeof(random); i++)
		n += snprintf(p->name + n, sizeof(p->name) - (size_t)n, "%02x", random[i]);
	return NULL;
}

/* ---- what ---- */

static struct err *put_library(const struct place *p, const struct buf *bytes)
{
	CLOSE_FD int fd =
		openat(p->folder, WIRE_AGENT_LIBRARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0)
		return err_errno(errno, "put a library into '%s'", p->path);
	TRY(fd_write_full(fd, bytes->data, bytes->len, DEADLINE_NEVER));
	/* Whatever our umask is. */
	return fchmod(fd, 0444) < 0 ? err_errno(errno, "put a library into '%s'", p->path) : NULL;
}

static struct err *open_socket(struct place *p, bool known)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* The path may be longer than an address can be. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" WIRE_AGENT_SOCKET, p->folder);
	p->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->listen_fd < 0 || bind(p->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(p->listen_fd, 4) < 0)
		return err_errno(errno, "make a socket in '%s'", p->path);
	/* Only the target may connect, where that can be enforced; else any process that knows the name and then the
	 * token. */
	bool its_own = known && fsuser_uid() == p->user.uid;
	if (fchmodat(p->folder, WIRE_AGENT_SOCKET, its_own ? 0600 : 0666, 0) < 0)
		return err_errno(errno, "open a socket in '%s' to its user", p->path);
	return NULL;
}

static struct err *find_parent(const struct patient *patient, struct place *p)
{
	CLEANUP(patient_folder_fini) struct patient_folder below = PATIENT_FOLDER_NONE;
	TRY(patient_folder_for_library(&patient->target, &below));
	TRY(patient_folder_name(&patient->target, &below));
	TRY(name_it(p));
	p->path = mem_printf("%s/%s", below.path, p->name);
	p->seen_as = mem_printf("%s/%s", below.seen_as, p->name);
	p->user = below.user;
	p->parent = fd_steal(&below.fd);
	return NULL;
}

static struct err *make_folder(struct place *p)
{
	p->folder = dir_make_own(p->parent, p->name, 0711);
	/* Whatever our umask is. */
	if (p->folder < 0 || fchmod(p->folder, 0711) < 0)
		return err_errno(errno, "make the folder '%s'", p->path);
	return NULL;
}

/* The keeper, forked here, keeps the rights with which all is made. */
static struct err *fill(struct place *p, const char *library, bool known)
{
	FSUSER_HELD held = { 0 };
	CLEANUP(buf_free) struct buf bytes = { 0 };
	TRY_WRAP(file_read(library, LIBRARY_MAX, &bytes), "the library for the process");
	TRY(fsuser_begin(&p->user, &held));
	TRY(start_keeper(p));
	fault_point("kept");
	TRY(make_folder(p));
	fault_point("folder");
	TRY(put_library(p, &bytes));
	fault_point("library");
	TRY(open_socket(p, known));
	fault_point("socket");
	return NULL;
}

struct err *place_make(const struct patient *patient, const char *library, struct place *ret)
{
	struct place p = PLACE_NONE;
	struct err *err = find_parent(patient, &p);
	if (!err)
		err = fill(&p, library, patient->target.pid != 0);
	*ret = p;
	if (err)
		place_remove(ret);
	return err;
}

void place_drop_library(struct place *place)
{
	FSUSER_HELD held = { 0 };
	struct err *err = fsuser_begin(&place->user, &held);
	if (!err)
		unlinkat(place->folder, WIRE_AGENT_LIBRARY, 0);
	err_free(err);
}

static bool remove_as_user(const struct place *place)
{
	FSUSER_HELD held = { 0 };
	struct err *err = fsuser_begin(&place->user, &held);
	bool begun = !err;
	if (begun)
		remove_all(place);
	err_free(err);
	return begun;
}

void place_remove(struct place *place)
{
	end_keeper(place, place->parent < 0 || remove_as_user(place));
	fd_closep(&place->listen_fd);
	fd_closep(&place->folder);
	fd_closep(&place->parent);
	fd_closep(&place->keeper_pipe);
	mem_free(place->path);
	mem_free(place->seen_as);
	place->path = place->seen_as = NULL;
}
