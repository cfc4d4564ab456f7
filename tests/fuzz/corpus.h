#pragma once
/* For the programs that write corpora. */

#include "base/buf.h"
#include "base/fd.h"
#include <stdio.h>

/* Frees the bytes. */
static inline void write_file(const char *folder, const char *name, struct buf *b)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	struct err *err = file_write_atomic(path, b->data, b->len, 0644);
	if (err)
		fprintf(stderr, "%s\n", err_text(err));
	err_free(err);
	buf_free(b);
}
