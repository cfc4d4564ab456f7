#include "cli/launched.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#define STARTED_TIMEOUT_MS 10000

struct err *signals_open(bool usr1, int *ret_fd)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (usr1)
		sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || (*ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_errno(errno, "listen for signals");
	return NULL;
}

int signals_take(int fd, bool *ret_typed)
{
	struct signalfd_siginfo info;
	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	*ret_typed = info.ssi_code == SI_KERNEL;
	return (int)info.ssi_signo;
}

static void pass_on(struct launch *l, int signal_fd)
{
	bool typed;
	int signal = signals_take(signal_fd, &typed);
	if (signal && !typed)
		launch_signal(l, signal);
}

static struct err *turn(struct launch *l, int signal_fd)
{
	struct pollfd fds[] = { { .fd = launch_fd(l), .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };
	if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
		return err_errno(errno, "poll");
	if (fds[1].revents)
		pass_on(l, signal_fd);
	return launch_turn(l);
}

struct err *launched_start(char *const *argv, int signal_fd, struct launch **ret, struct patient *ret_patient,
			   int *ret_exit)
{
	CLEANUP(launch_freep) struct launch *l = NULL;
	int code;
	TRY(launch_start(argv, &l));
	while (!launch_runtime(l)) {
		if (launch_ended(l, &code)) {
			*ret_exit = code;
			return err_new(
				ERR_UNSUPPORTED,
				"'%s' ended with code %d, and no .NET runtime of it called us (diagnostics may be "
				"off: DOTNET_EnableDiagnostics)",
				argv[0], code);
		}
		TRY(turn(l, signal_fd));
	}
	char id[16];
	snprintf(id, sizeof(id), "%d", (int)launch_runtime(l));
	TRY(patient_find(id, STARTED_TIMEOUT_MS, ret_patient));
	*ret = STEAL(l);
	return NULL;
}

struct err *launched_wait(struct launch *l, int signal_fd, int *ret_exit)
{
	while (!launch_ended(l, ret_exit))
		TRY(turn(l, signal_fd));
	return NULL;
}

struct err *launched_error(struct err *err, const int *exit_code)
{
	if (!*exit_code)
		return err;
	struct buf line = { 0 };
	str_add_visible(&line, err_text(err), strlen(err_text(err)), 0);
	fprintf(stderr, "drdotnet: %s\n", buf_cstr(&line));
	buf_free(&line);
	err_free(err);
	return NULL;
}
