/* libjemalloc.so: bears the name of an allocator, and hands everything on to glibc's. */
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void __libc_free(void *p);

__attribute__((visibility("default"))) void *malloc(size_t size);
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size);
__attribute__((visibility("default"))) void *realloc(void *p, size_t size);
__attribute__((visibility("default"))) void free(void *p);

void *malloc(size_t size)
{
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return __libc_realloc(p, size);
}

void free(void *p)
{
	__libc_free(p);
}
