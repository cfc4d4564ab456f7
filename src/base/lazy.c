#include "base/lazy.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static struct err *fill(const char *soname, const char *const *names, size_t n, void **table)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_new(ERR_NOT_FOUND, "%s cannot be loaded: %s", soname, dlerror());
	for (size_t i = 0; i < n; i++) {
		table[i] = dlsym(library, names[i]);
		if (table[i])
			continue;
		memset(table, 0, n * sizeof(*table));
		dlclose(library);
		return err_new(ERR_NOT_FOUND, "%s has no function %s", soname, names[i]);
	}
	return NULL;
}

struct err *lazy_load(const char *soname, const char *const *names, size_t n, void *table)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	struct err *err = *(void **)table ? NULL : fill(soname, names, n, table);
	pthread_mutex_unlock(&lock);
	return err;
}
