/* Runs a fuzz target over every file of its corpus folder, in TAP. A crash or a sanitizer report is the failure. */

#include "base/fd.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_file(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **names;
	int n = argc == 2 ? scandir(argv[1], &names, is_file, alphasort) : -1;
	if (n <= 0) {
		printf("1..1\nnot ok 1 - no corpus in %s\n", argc == 2 ? argv[1] : "(no folder given)");
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s", argv[1], names[i]->d_name);
		struct buf b = { 0 };
		CLEANUP(err_freep) struct err *err = file_read(path, 64 << 20, &b);
		if (!err)
			LLVMFuzzerTestOneInput((const uint8_t *)buf_cstr(&b), b.len);
		printf("%s %d - %s\n", err ? "not ok" : "ok", i + 1, names[i]->d_name);
		fflush(stdout);
		buf_free(&b);
		free(names[i]);
	}
	free(names);
	return 0;
}
