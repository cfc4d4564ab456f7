/* A hostile manifest.json. Its sum is set right where it parses, so that what stands behind the sum is reached. */

#include "base/fd.h"
#include "recording/internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/fuzz_manifest.XXXXXX", path[sizeof(dir) + 20];

static void tidy(void)
{
	err_ignore(dir_remove(dir));
}

static struct err *ignore(void *user UNUSED, const void *data UNUSED, size_t len UNUSED)
{
	return NULL;
}

static void put(const void *data, size_t len)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
		abort();
}

static void look(void)
{
	CLEANUP(recording_freep) struct recording *r = NULL;
	CLEANUP(err_freep) struct err *err = recording_open(dir, &r);
	if (err)
		return;
	for (size_t i = 0; i < recording_n_parts(r); i++)
		err_ignore(recording_part_read(r, recording_part_info(r, i).name, ignore, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!path[0]) {
		if (!mkdtemp(dir))
			abort();
		snprintf(path, sizeof(path), "%s/manifest.json", dir);
		atexit(tidy);
	}
	put(data, size);
	look();
	json_t *j = NULL;
	CLEANUP(err_freep) struct err *err = json_parse((const char *)data, size, RECORDING_MANIFEST_MAX, &j);
	if (!err && json_is_object(j)) {
		char sum[9];
		json_object_del(j, "crc32");
		snprintf(sum, sizeof(sum), "%08x", recording_manifest_sum(j));
		json_object_set_new(j, "crc32", json_string(sum));
		char *text = json_dumps(j, JSON_COMPACT);
		put(text, strlen(text));
		free(text);
		look();
	}
	json_decref(j);
	return 0;
}
