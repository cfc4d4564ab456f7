/* Dying on demand: DRDOTNET_FAULT=ROLE:N ends the process of that role by SIGKILL at its N-th place; with ROLE+owner
 * the tracer takes its owner along. The place is named on standard error first. */
#include "image/fault.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *role_now = "";
static unsigned places;

void fault_role(const char *role)
{
	role_now = role;
	places = 0;
}

void fault_point(const char *what)
{
	const char *wish = getenv("DRDOTNET_FAULT");
	const char *colon = wish ? strchr(wish, ':') : NULL;
	places++;
	if (!colon || strncmp(wish, role_now, strlen(role_now)) || places != (unsigned)atoi(colon + 1))
		return;
	char line[80];
	int n = snprintf(line, sizeof(line), "dies: %s\n", what);
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		abort();
	if (strstr(wish, "+owner"))
		kill(getppid(), SIGKILL);
	kill(getpid(), SIGKILL);
}
