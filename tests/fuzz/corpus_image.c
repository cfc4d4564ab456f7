/* Writes the corpora of fuzz_core and fuzz_stream: corpus_image FOLDER (which holds core/ and stream/). */
#include "build_core.h"
#include "wire/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep(const char *folder, const char *name, struct buf *b)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	if (!f || fwrite(b->data, 1, b->len, f) != b->len || fclose(f))
		abort();
	buf_clear(b);
}

int main(int argc, char **argv)
{
	static uint8_t library[BUILD_ELF_LEN], page[512];
	const uint8_t id[20] = { 1, 2, 3 };
	if (argc != 2)
		return 2;
	build_elf(library, id, sizeof(id));
	const struct core_segment segments[] = { { 0x7f0000000000, 400, library, PF_R },
						 { 0x10000, sizeof(page), page, PF_R | PF_W },
						 { 0x10100, sizeof(page), page, PF_R } };
	const struct core_file files[] = { { 0x7f0000000000, 0x7f0000001000, 0, "/lib/a.so" },
					   { 0x7f0000001000, 0x7f0000002000, 1, "/lib/a.so" } };
	const struct core_thread threads[] = { { 7, 1, 2 }, { 8, 3, 4 } };
	struct core_spec spec = { .segments = segments,
				  .n_segments = 3,
				  .files = files,
				  .n_files = 2,
				  .threads = threads,
				  .n_threads = 2,
				  .pid = 7,
				  .command = "shop" };
	struct buf b = { 0 };
	build_core(&b, &spec);
	keep(argv[1], "core/plain", &b);
	spec.n_threads = spec.n_files = 0;
	spec.n_segments = 1;
	build_core(&b, &spec);
	keep(argv[1], "core/bare", &b);
	build_core(&b, &spec);
	b.len -= 300;
	keep(argv[1], "core/cut", &b);
	static const char maps[] = "10000-11000 rw-p 0 00:00 0 \n7f00-7f01 r--s 1 fe:01 3 /a b\n";
	struct wire_image_thread t = { .tid = 3, .flags = 3, .name = "x" };
	build_stream_head(&b, 3);
	build_stream_record(&b, WIRE_IMAGE_MAPS, 0, maps, sizeof(maps) - 1);
	build_stream_record(&b, WIRE_IMAGE_THREAD, 0, &t, sizeof(t));
	build_stream_record(&b, WIRE_IMAGE_MEMORY, 0x10000, page, sizeof(page));
	build_stream_record(&b, WIRE_IMAGE_ZERO, 0x10100, NULL, 4096);
	build_stream_record(&b, WIRE_IMAGE_END, 4, NULL, 0);
	keep(argv[1], "stream/plain", &b);
	build_stream_head(&b, 3);
	build_stream_record(&b, WIRE_IMAGE_AUXV, 0, "0123456789abcdef", 16);
	build_stream_record(&b, WIRE_IMAGE_COMMAND, 0, "shop", 4);
	build_stream_record(&b, WIRE_IMAGE_FILE, 0, "\x0a\0\0\0\0\0\0\0/app/a.libits bytes", 27);
	build_stream_record(&b, WIRE_IMAGE_END, 3, NULL, 0);
	keep(argv[1], "stream/words", &b);
	build_stream_head(&b, 3);
	build_stream_record(&b, WIRE_IMAGE_MEMORY, UINT64_MAX - 5, page, 8);
	keep(argv[1], "stream/beyond", &b);
	buf_free(&b);
	return 0;
}
