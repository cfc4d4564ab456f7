#include "base/chroot.h"
#include "base/base.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *chroot_of(pid_t pid)
{
	char name[32], path[PATH_MAX];
	snprintf(name, sizeof(name), "/proc/%d/root", (int)pid);
	ssize_t len = readlink(name, path, sizeof(path));
	return len > 1 && (size_t)len < sizeof(path) ? mem_strndup(path, (size_t)len) : mem_strdup("");
}

const char *chroot_cut(const char *chroot, const char *path)
{
	size_t len = strlen(chroot);
	return len && !strncmp(path, chroot, len) && path[len] == '/' ? path + len : path;
}
