/* Failing on demand in the copy of a process: step N of the configuration kills it, 100 + N makes it hang. */
#include "agent/agent.h"
#include "agent/sys.h"

void agent_fault(const struct wire_agent_config *config, uint32_t step)
{
	long self = SYS(getpid);
	if (config->fault == step)
		SYS(kill, self, 9 /* SIGKILL */);
	while (config->fault == 100 + step)
		sys_poll(NULL, 0, 1000);
}
