/* A hostile session.json. */

#include "base/fd.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>

static char dir[] = "/tmp/fuzz_record.XXXXXX", path[sizeof(dir) + 20];

static void tidy(void)
{
	err_ignore(dir_remove(dir));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!path[0]) {
		if (!mkdtemp(dir))
			abort();
		snprintf(path, sizeof(path), "%s/session.json", dir);
		atexit(tidy);
	}
	FILE *f = fopen(path, "w");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
		abort();
	struct store_row row;
	struct err *err = store_record_read(dir, "11111111-0000-4000-8000-000000000001", &row);
	if (!err)
		store_row_fini(&row);
	err_free(err);
	return 0;
}
