#pragma once
/* A program that a command starts ("-- PROGRAM ...") and the signals it shares with us. */

#include "ipc/launch.h"
#include "ipc/patient.h"

/* SIGINT, SIGTERM and SIGHUP, and SIGUSR1 where asked for, as a descriptor. */
struct err *signals_open(bool usr1, int *ret_fd) MUST_USE;
/* The next one, or 0. *ret_typed: the terminal sent it to the whole process group, so the program has got it too. */
int signals_take(int fd, bool *ret_typed);

/* Starts it and waits until its runtime waits. ERR_UNSUPPORTED when it ended without one; then *ret_exit is its code
 * where that says more than ours. Signals go to the program. */
struct err *launched_start(char *const *argv, int signal_fd, struct launch **ret, struct patient *ret_patient,
			   int *ret_exit) MUST_USE;
/* Waits for its end and passes signals on; its exit code. */
struct err *launched_wait(struct launch *l, int signal_fd, int *ret_exit) MUST_USE;
/* An error of ours beside the program's own exit code: that code is returned, when there is one, and the error is only
 * printed. */
struct err *launched_error(struct err *err, const int *exit_code) MUST_USE;
