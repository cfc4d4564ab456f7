#include "target/pod.h"
#include "base/base.h"
#include "base/str.h"
#include <ctype.h>
#include <dirent.h>
#include <string.h>

#define FILES_MAX 65536
#define ID_DIGITS 64

/* As Kubernetes allows names: they hold no underscore, so that one parts them. */
static bool is_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && s[i] != '-' && s[i] != '.')
			return false;
	return len > 0 && len <= 253;
}

static char *pod_in_name(const char *file, const char *id)
{
	size_t len = strlen(file), tail = ID_DIGITS + strlen("-.log");
	if (len <= tail || !str_eq(file + len - 4, ".log") || file[len - tail] != '-' ||
	    !str_starts(file + len - tail + 1, id))
		return NULL;
	const char *space = strchr(file, '_'), *container = space ? strchr(space + 1, '_') : NULL;
	if (!container)
		return NULL;
	int pod = (int)(space - file), n_space = (int)(container - space) - 1;
	int n_container = (int)(file + len - tail - container) - 1;
	if (n_container <= 0 || !is_name(file, (size_t)pod) || !is_name(space + 1, (size_t)n_space) ||
	    !is_name(container + 1, (size_t)n_container))
		return NULL;
	return mem_printf("%.*s/%.*s/%.*s", n_space, space + 1, pod, file, n_container, container + 1);
}

char *pod_of_container(const char *folder, const char *id)
{
	DIR *dir = str_empty(id) ? NULL : opendir(folder);
	char *found = NULL;
	if (!dir)
		return NULL;
	for (size_t n = 0; n < FILES_MAX && !found; n++) {
		const struct dirent *e = readdir(dir);
		if (!e)
			break;
		found = pod_in_name(e->d_name, id);
	}
	closedir(dir);
	return found;
}
