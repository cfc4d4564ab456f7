/* Any bytes as the names of a class and of a method: up to the first 0 byte the class, behind it the method. */

#include "eventpipe/methods.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
	size_t len = zero ? (size_t)(zero - data) : size, rest = zero ? size - len - 1 : 0;
	/* Each in memory of exactly its size: a read behind the end is seen. */
	char *space = mem_strndup((const char *)data, len);
	char *name = mem_strndup(zero ? (const char *)zero + 1 : "", rest);
	struct buf out = { 0 };
	method_show(space, name, &out);
	method_show(space, "MoveNext", &out);
	type_show(space, &out);
	type_show(name, &out);
	type_async_method(space, &out);
	(void)method_is_framework(NULL, space);
	(void)method_is_compiled(buf_cstr(&out));
	buf_free(&out);
	mem_free(space);
	mem_free(name);
	return 0;
}
