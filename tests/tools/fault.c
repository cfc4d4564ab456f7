/* Dying on demand: DRDOTNET_FAULT=ROLE:PLACE:N ends the process of that role by SIGKILL when it passes that place for
 * the N-th time; as ROLE+owner the tracer takes its owner along. DRDOTNET_FAULT=list names every place that is passed.
 * Both write to standard error. */
#include "image/fault.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char role_now[16];
static unsigned passed;

void fault_role(const char *role)
{
	snprintf(role_now, sizeof(role_now), "%s", role);
	passed = 0;
}

static void write_line(const char *verb, const char *what)
{
	char line[120];
	int n = snprintf(line, sizeof(line), "%s %s: %s\n", role_now, verb, what);
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		abort();
}

/* Is this the wished place, in "ROLE[+owner]:PLACE:N"? */
static int is_wished(const char *wish, const char *what)
{
	size_t role_len = strlen(role_now), what_len = strlen(what);
	const char *place = strchr(wish, ':');
	if (!place || strncmp(wish, role_now, role_len) || (wish[role_len] != ':' && wish[role_len] != '+'))
		return 0;
	place++;
	if (strncmp(place, what, what_len) || place[what_len] != ':')
		return 0;
	return ++passed == (unsigned)atoi(place + what_len + 1);
}

void fault_point(const char *what)
{
	const char *wish = getenv("DRDOTNET_FAULT");
	if (!wish)
		return;
	if (!strcmp(wish, "list"))
		write_line("passes", what);
	if (!is_wished(wish, what))
		return;
	write_line("dies", what);
	if (strstr(wish, "+owner"))
		kill(getppid(), SIGKILL);
	kill(getpid(), SIGKILL);
}
