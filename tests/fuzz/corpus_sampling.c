/* corpus_sampling FOLDER: writes the beginnings of the corpora of fuzz_elf, fuzz_eh_frame, fuzz_perf_record and
 * fuzz_samples. Run by hand when a format learns something new. */

#include "base/fd.h"
#include "build_elf.h"
#include "sampling/samples.h"
#include "sampler/records.h"
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

static const char *folder;

static void save(const char *target, const char *name, const void *data, size_t len)
{
	CLEANUP(mem_freep) char *dir = mem_printf("%s/%s", folder, target);
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", dir, name);
	err_ignore(dir_make(dir, 0755));
	err_ignore(file_write_atomic(path, data, len, 0644));
}

static void put(struct buf *b, uint64_t v, size_t n)
{
	buf_add(b, &v, n);
}

static const uint8_t initial[] = { 0x0c, 7, 8, 0x90, 1 };
static const uint8_t program[] = { 6,	 0x0c, 7,    8,	   0x90, 1,    0x41, 0x0e, 16, 0x86, 2,	   0x43, 0x0d,
				   6,	 0x0a, 0x07, 3,	   0x09, 12,   13,   0x14, 14, 2,    0x11, 15,	 0x7d,
				   0x10, 8,    2,    0x77, 16,	 0x0f, 3,    0x77, 8,  0x06, 2,	   16,	 0x0b };

static void elf_files(void)
{
	static const struct build_elf_symbol symbols[] = { { "main", 0x1000, 0x40, BUILD_FUNCTION },
							   { "_ZN4Shop5PlaceEi", 0x1100, 0x40, BUILD_FUNCTION } };
	struct buf eh = { 0 }, out = { 0 };
	size_t cie = build_cie(&eh, "zR", initial, sizeof(initial));
	size_t fde = build_fde(&eh, BUILD_ELF_EH, cie, 0x1000, 0x100, program + 6, sizeof(program) - 6);
	build_elf(&(struct build_elf){ .symbols = symbols,
				       .n_symbols = 2,
				       .build_id = "\x01\x02\x03\x04",
				       .build_id_len = 4,
				       .debug_link = "x.debug",
				       .eh_frame = eh.data,
				       .eh_frame_len = eh.len,
				       .index = &(struct build_elf_fde){ 0x1000, fde },
				       .n_index = 1 },
		  &out);
	save("elf", "small.so", out.data, out.len);
	save("eh_frame", "rules", program, sizeof(program));
	save("eh_frame", "framed", "\x01\x0b\x04\x25\x0b\x03\x06\x32\x02\x30\x01\x50", 12);
	save("eh_frame", "epilogue", "\x48\x83\xc4\x08\x5b\x41\x5f\x5d\xc3", 9);
	buf_free(&eh);
	buf_free(&out);
}

static void records(void)
{
	struct buf b = { 0 };
	put(&b, PERF_RECORD_SAMPLE, 4);
	put(&b, 0, 4);
	put(&b, 100, 4);
	put(&b, 101, 4);
	put(&b, 1000, 8);
	put(&b, 1, 8);
	put(&b, 10000000, 8);
	put(&b, 1, 8);
	put(&b, 0xffffffff81000000, 8);
	put(&b, 2, 8);
	for (uint64_t i = 0; i < RECORD_REGS_N; i++)
		put(&b, 0x7000 + i, 8);
	put(&b, 16, 8);
	put(&b, 1, 8);
	put(&b, 2, 8);
	put(&b, 16, 8);
	uint16_t size = (uint16_t)b.len;
	memcpy(b.data + 6, &size, 2);
	save("perf_record", "sample", b.data, b.len);
	buf_clear(&b);
	put(&b, PERF_RECORD_SWITCH, 4);
	put(&b, 32ull << 16 | PERF_RECORD_MISC_SWITCH_OUT, 4);
	put(&b, 101ull << 32 | 100, 8);
	put(&b, 77, 8);
	put(&b, 1, 8);
	save("perf_record", "switch", b.data, b.len);
	buf_free(&b);
}

static void samples(void)
{
	struct samples *s = samples_new();
	bool new;
	uint32_t frames[] = { samples_frame(s, "do_syscall_64", "kernel", FRAME_KERNEL),
			      samples_frame(s, "Shop.Orders.Place", NULL, FRAME_CODE),
			      samples_frame(s, "Shop.Orders.Place", NULL, FRAME_CODE) };
	uint32_t stack = samples_stack(s, frames, 3, UNWIND_ROOT, false), thread = samples_thread(s, 7, &new);
	samples_thread_name(s, thread, "main", 4);
	samples_add(s, 5, thread, stack, 10000000, 0);
	samples_add(s, 9, thread, stack, 300, 3);
	struct buf out = { 0 };
	samples_write(s, &out);
	save("samples", "small", out.data, out.len);
	buf_free(&out);
	samples_free(s);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	folder = argv[1];
	elf_files();
	records();
	samples();
	return 0;
}
