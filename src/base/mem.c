/* The allocator of base.h: it ends the process when memory is used up. */

#include "base/base.h"
#include "base/exhausted.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int exhausted_exit = 1;

void mem_set_exhausted_exit(int code)
{
	exhausted_exit = code;
}

NORETURN static void oom(void)
{
	static const char text[] = "drdotnet: out of memory\n";
	ssize_t ignored UNUSED = write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(exhausted_exit);
}

void *mem_alloc(size_t size)
{
	void *p = malloc(size ? size : 1);
	if (!p)
		oom();
	return p;
}

void *mem_zalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);
	if (!p)
		oom();
	return p;
}

void *mem_realloc(void *p, size_t size)
{
	void *q = realloc(p, size ? size : 1);
	if (!q)
		oom();
	return q;
}

void *mem_realloc_array(void *p, size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		oom();
	return mem_realloc(p, bytes);
}

void *mem_array(size_t n, size_t size)
{
	return mem_realloc_array(NULL, n, size);
}

void *mem_dup(const void *p, size_t size)
{
	void *q = mem_alloc(size);
	if (size)
		memcpy(q, p, size);
	return q;
}

char *mem_strdup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

char *mem_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = mem_alloc(len + 1);
	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *mem_vprintf(const char *fmt, va_list ap)
{
	char *s = NULL;
	if (vasprintf(&s, fmt, ap) < 0)
		oom();
	return s;
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = mem_vprintf(fmt, ap);
	va_end(ap);
	return s;
}

void mem_free(void *p)
{
	free(p);
}
