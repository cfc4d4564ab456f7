#include "base/home.h"
#include "base/str.h"
#include <stdlib.h>
#include <unistd.h>

static const char *env_path(const char *name)
{
	const char *v = getenv(name);
	return v && v[0] == '/' ? v : NULL;
}

struct err *home_path(char **ret)
{
	const char *own = getenv("DRDOTNET_HOME"), *path;
	if (!str_empty(own)) {
		if (own[0] != '/')
			return err_new(ERR_USAGE, "DRDOTNET_HOME must be an absolute path, not '%s'", own);
		*ret = mem_strdup(own);
	} else if (geteuid() == 0) {
		*ret = mem_strdup("/var/lib/drdotnet");
	} else if ((path = env_path("XDG_STATE_HOME"))) {
		*ret = mem_printf("%s/drdotnet", path);
	} else if ((path = env_path("HOME"))) {
		*ret = mem_printf("%s/.local/state/drdotnet", path);
	} else {
		return err_new(ERR_USAGE,
			       "no place to keep anything: neither DRDOTNET_HOME, XDG_STATE_HOME nor HOME is set");
	}
	return NULL;
}
