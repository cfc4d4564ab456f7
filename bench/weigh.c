/* weigh COMMAND...: runs it and prints what it cost on standard error's last line, as JSON: wall and CPU seconds, and
 * the largest resident size of any process in it.
 *
 * The kernel counts a process's size from before its exec, so whoever forks should be small: a Python that forks gives
 * every child its own size as the least. Hence this. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	double start = now();
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	int status;
	struct rusage usage;
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0)
		return 126;
	fprintf(stderr, "\n{\"wall\": %.6f, \"cpu\": %.6f, \"rss\": %ld}\n", now() - start,
		seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss * 1024);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
