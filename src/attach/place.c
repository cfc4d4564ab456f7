#include "attach/place.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
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
#define ENV_MS 5000

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
		/* A session of its own, so that Ctrl-C and a closed terminal are not for it; and no descriptor whose
		 * end somebody waits for. */
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

static void end_keeper(struct place *p)
{
	if (p->keeper <= 0)
		return;
	if (write(p->keeper_pipe, "q", 1) < 0)
		kill(p->keeper, SIGKILL);
	while (waitpid(p->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	p->keeper = 0;
}

/* ---- where ---- */

/* What a folder of ours is to the target. */
static struct err *path_in_target(const struct target *t, const char *folder, char **ret)
{
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root/", (int)t->pid), *tmpdir = NULL;
	if (t->pid) {
		*ret = mem_strdup(str_starts(folder, root) ? folder + strlen(root) - 1 : folder);
		return NULL;
	}
	/* A shared volume: it is where the target's runtime has put its socket. */
	TRY_WRAP(ipc_process_env(t->socket, "TMPDIR", deadline_in_ms(ENV_MS), &tmpdir),
		 "where its temporary folder is");
	size_t len = str_empty(tmpdir) ? 0 : strlen(tmpdir);
	while (len > 1 && tmpdir[len - 1] == '/')
		tmpdir[--len] = '\0';
	*ret = len ? STEAL(tmpdir) : mem_strdup("/tmp");
	return NULL;
}

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

static struct err *no_folder(const struct patient *p, bool noexec)
{
	if (noexec)
		return err_new(ERR_UNSUPPORTED, "the only folder both can use is mounted noexec: nothing in it can be "
						"loaded");
	CLEANUP(mem_freep) char *why = patient_folder_why(&p->target);
	return err_new(ERR_DENIED, "%s", why ? why : "there is no folder that both can use");
}

/* ---- what ---- */

static struct err *put_library(const struct place *p, const char *library)
{
	CLEANUP(buf_free) struct buf bytes = { 0 };
	TRY_WRAP(file_read(library, LIBRARY_MAX, &bytes), "the library for the process");
	CLOSE_FD int fd =
		openat(p->folder, WIRE_AGENT_LIBRARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0)
		return err_errno(errno, "put a library into '%s'", p->path);
	TRY(fd_write_full(fd, bytes.data, bytes.len, DEADLINE_NEVER));
	/* Whatever our umask is. */
	return fchmod(fd, 0444) < 0 ? err_errno(errno, "put a library into '%s'", p->path) : NULL;
}

static struct err *open_socket(struct place *p, uid_t uid, bool known)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	/* The path may be longer than an address can be. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" WIRE_AGENT_SOCKET, p->folder);
	p->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->listen_fd < 0 || bind(p->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(p->listen_fd, 4) < 0)
		return err_errno(errno, "make a socket in '%s'", p->path);
	/* The target alone may call where that can be had; else whoever knows the name, and then the token. */
	bool given = known && fchownat(p->folder, WIRE_AGENT_SOCKET, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) == 0;
	if (fchmodat(p->folder, WIRE_AGENT_SOCKET, given ? 0600 : 0666, 0) < 0)
		return err_errno(errno, "open a socket in '%s' to its user", p->path);
	return NULL;
}

struct err *place_make(const struct patient *patient, const char *library, struct place *ret)
{
	bool noexec;
	CLEANUP(mem_freep) char *below = patient_folder(&patient->target, &noexec), *seen = NULL;
	struct place p = PLACE_NONE;
	if (!below)
		return no_folder(patient, noexec);
	TRY(name_it(&p));
	TRY(path_in_target(&patient->target, below, &seen));
	p.parent = open(below, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p.parent < 0)
		return err_errno(errno, "'%s'", below);
	p.path = mem_printf("%s/%s", below, p.name);
	p.seen_as = mem_printf("%s/%s", seen, p.name);
	struct err *err = start_keeper(&p);
	fault_point("kept");
	if (!err) {
		p.folder = dir_make_own(p.parent, p.name, 0711);
		/* Whatever our umask is. */
		if (p.folder < 0 || fchmod(p.folder, 0711) < 0)
			err = err_errno(errno, "make a folder in '%s'", below);
	}
	fault_point("folder");
	if (!err)
		err = put_library(&p, library);
	fault_point("library");
	if (!err)
		err = open_socket(&p, patient->target.uid, patient->target.pid != 0);
	fault_point("socket");
	*ret = p;
	if (err)
		place_remove(ret);
	return err;
}

void place_drop_library(struct place *place)
{
	unlinkat(place->folder, WIRE_AGENT_LIBRARY, 0);
}

void place_remove(struct place *place)
{
	if (place->parent >= 0)
		remove_all(place);
	end_keeper(place);
	fd_closep(&place->listen_fd);
	fd_closep(&place->folder);
	fd_closep(&place->parent);
	fd_closep(&place->keeper_pipe);
	mem_free(place->path);
	mem_free(place->seen_as);
	place->path = place->seen_as = NULL;
}
