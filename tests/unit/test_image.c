/* Core files and streams. The parts of a snapshot that touch no process: test_image_snapshot.c. */
#include "unit.h"

#include "base/fd.h"
#include "build_core.h"
#include "image/internal.h"
#include "wire/image.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static const uint8_t id_a[20] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };

/* A process with a library, a heap and two threads. */
static struct buf small_core(uint8_t heap[2 * PAGE])
{
	static uint8_t library[BUILD_ELF_LEN];
	build_elf(library, id_a, sizeof(id_a));
	for (size_t i = 0; i < 2 * PAGE; i++)
		heap[i] = (uint8_t)(i * 7);
	const struct core_segment segments[] = {
		{ 0x7f0000000000, PAGE, library, PF_R },
		{ 0x7f0000001000, PAGE, NULL, PF_R | PF_X },
		{ 0x10000, 2 * PAGE, heap, PF_R | PF_W },
	};
	const struct core_file files[] = {
		{ 0x7f0000000000, 0x7f0000001000, 0, "/lib/libshop.so" },
		{ 0x7f0000001000, 0x7f0000002000, 1, "/lib/libshop.so" },
	};
	const struct core_thread threads[] = { { 77, 0x7f0000001010, 0x10100 }, { 78, 0x1234, 0x10200 } };
	const struct core_spec spec = { segments, 3, files, 2, threads, 2, 77, 0, "shop --fast", 0, 0 };
	struct buf core = { 0 };
	build_core(&core, &spec);
	return core;
}

static struct err *open_bytes(const struct buf *b, struct image_core_facts *facts, struct image **ret)
{
	return image_open_core_fd(build_file(b->data, b->len), "test", NULL, facts, ret);
}

static void test_core_is_read(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE], got[2 * PAGE];
	struct buf core = small_core(heap);
	struct image *img;
	struct image_core_facts facts;
	assert_ok(open_bytes(&core, &facts, &img));
	assert_false(facts.truncated);
	assert_int_equal(image_pid(img), 77);
	assert_int_equal(image_source(img), IMAGE_CORE);
	size_t n;
	const struct image_thread *t = image_threads(img, &n);
	assert_int_equal(n, 2);
	assert_int_equal(t[0].tid, 77);
	assert_int_equal(t[0].regs.rip, 0x7f0000001010);
	assert_int_equal(t[1].regs.rsp, 0x10200);
	assert_true(t[1].has_fp);
	assert_int_equal(t[1].fp[511], 0x41);
	assert_true(image_read_all(img, 0x10000, got, sizeof(got)));
	assert_memory_equal(got, heap, sizeof(got));
	assert_true(image_read_all(img, 0x10ff8, got, 16));
	assert_memory_equal(got, heap + 0xff8, 16);
	image_read(img, 0x11ff0, got, 100, &n);
	assert_int_equal(n, 16);
	image_read(img, 0x7f0000001000, got, 8, &n);
	assert_int_equal(n, 0);
	const struct image_module *m = image_module_named(img, "libshop.so");
	assert_non_null(m);
	assert_int_equal(m->base, 0x7f0000000000);
	assert_int_equal(m->end, 0x7f0000002000);
	assert_int_equal(m->build_id_len, 20);
	assert_memory_equal(m->build_id, id_a, 20);
	const struct image_mapping *map = image_mapping_at(img, 0x7f0000001800);
	assert_non_null(map);
	assert_int_equal(map->prot, IMAGE_READ | IMAGE_EXEC);
	assert_string_equal(map->path, "/lib/libshop.so");
	assert_null(image_mapping_at(img, 0x9000));
	image_auxv(img, &n);
	assert_int_equal(n, 32);
	image_close(img);
	buf_free(&core);
}

static void test_core_that_is_cut_short_later(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE], got[2 * PAGE];
	CLEANUP(buf_free) struct buf core = small_core(heap);
	CLEANUP(image_closep) struct image *img = NULL;
	const char *reason = NULL;
	int fd = build_file(core.data, core.len);
	assert_ok(image_open_core_fd(fd, "test", NULL, NULL, &img));
	assert_true(image_whole(img, &reason));
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_false(image_read_all(img, 0x10000, got, sizeof(got)));
	assert_false(image_whole(img, &reason));
	assert_string_equal(reason, "the core file became shorter while it was read");
}

/* Whatever a core is cut to, what is still there is read, and nothing else happens. */
static void use_image(struct image *img)
{
	uint8_t got[64];
	size_t n, m;
	const struct image_mapping *maps = image_mappings(img, &n);
	for (size_t i = 0; i < n; i++) {
		assert_true(maps[i].start < maps[i].end);
		assert_true(i == 0 || maps[i - 1].end <= maps[i].start);
		image_read(img, maps[i].start, got, sizeof(got), &m);
	}
	const struct image_piece *p = image_pieces(img, &n);
	for (size_t i = 0; i < n; i++) {
		assert_true(p[i].start < p[i].end);
		assert_true(i == 0 || p[i - 1].end <= p[i].start);
	}
	image_read(img, UINT64_MAX - 4, got, sizeof(got), &m);
}

static void test_core_truncated_anywhere(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE];
	struct buf core = small_core(heap);
	size_t opened = 0;
	for (size_t len = 0; len < core.len; len += len < 4096 ? 1 : 61) {
		struct buf cut = { .data = core.data, .len = len };
		struct image *img = NULL;
		struct image_core_facts facts;
		struct err *err = open_bytes(&cut, &facts, &img);
		if (err) {
			assert_int_equal(err_kind(err), ERR_BAD_DATA);
			err_free(err);
			continue;
		}
		opened++;
		assert_true(facts.truncated);
		use_image(img);
		image_close(img);
	}
	assert_true(opened > 100);
	buf_free(&core);
}

static void test_core_with_any_byte_flipped(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE];
	struct buf core = small_core(heap);
	size_t head = core.len - 3 * PAGE; /* all but memory */
	for (size_t i = 0; i < head + 256; i++) {
		char was = core.data[i];
		core.data[i] = (char)~was;
		struct image *img = NULL;
		struct err *err = open_bytes(&core, NULL, &img);
		if (!err)
			use_image(img);
		err_free(err);
		image_close(img);
		core.data[i] = was;
	}
	buf_free(&core);
}

static void test_not_a_core(void **state)
{
	(void)state;
	struct image *img;
	struct buf b = { 0 };
	buf_repeat(&b, "no core file at all ", 100);
	assert_err(open_bytes(&b, NULL, &img), ERR_BAD_DATA);
	buf_clear(&b);
	assert_err(open_bytes(&b, NULL, &img), ERR_BAD_DATA);
	const struct core_spec arm = { .machine = EM_AARCH64 };
	build_core(&b, &arm);
	assert_err(open_bytes(&b, NULL, &img), ERR_UNSUPPORTED);
	buf_clear(&b);
	const struct core_spec empty = { 0 };
	build_core(&b, &empty);
	assert_err(open_bytes(&b, NULL, &img), ERR_BAD_DATA);
	assert_err(image_open_core("/nonexistent/core", NULL, NULL, &img), ERR_NOT_FOUND);
	assert_err(image_open_core("/dev/null", NULL, NULL, &img), ERR_BAD_DATA);
	assert_err(image_open_core("/", NULL, NULL, &img), ERR_BAD_DATA);
	buf_free(&b);
}

static void test_core_with_many_segments(void **state)
{
	(void)state;
	uint8_t page[PAGE];
	memset(page, 9, sizeof(page));
	const struct core_segment segments[] = { { 0x10000, PAGE, page, PF_R } };
	const struct core_spec spec = { .segments = segments, .n_segments = 1, .pid = 5, .extra_segments = 70000 };
	struct buf core = { 0 };
	struct image *img;
	build_core(&core, &spec);
	assert_ok(open_bytes(&core, NULL, &img));
	uint8_t byte = 0;
	assert_true(image_read_all(img, 0x10fff, &byte, 1));
	assert_int_equal(byte, 9);
	image_close(img);
	/* A count that the file cannot hold. */
	uint32_t huge = 0xfffffff0;
	memcpy(core.data + sizeof(Elf64_Ehdr) + offsetof(Elf64_Shdr, sh_info), &huge, 4);
	assert_err(open_bytes(&core, NULL, &img), ERR_BAD_DATA);
	buf_free(&core);
}

static void test_segments_that_overlap(void **state)
{
	(void)state;
	static uint8_t ones[4 * PAGE], twos[4 * PAGE];
	memset(ones, 1, sizeof(ones));
	memset(twos, 2, sizeof(twos));
	const struct core_segment segments[] = {
		{ 0x12000, 2 * PAGE, ones, PF_R },
		{ 0x10000, 4 * PAGE, twos, PF_R },
		{ 0x13000, 4 * PAGE, twos, PF_R },
	};
	const struct core_spec spec = { .segments = segments, .n_segments = 3, .pid = 5 };
	struct buf core = { 0 };
	struct image *img;
	struct image_core_facts facts;
	build_core(&core, &spec);
	assert_ok(open_bytes(&core, &facts, &img));
	assert_int_equal(facts.overlap_bytes, 3 * PAGE);
	uint8_t got[7 * PAGE];
	assert_true(image_read_all(img, 0x10000, got, sizeof(got)));
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], i >= 2 * PAGE && i < 4 * PAGE ? 1 : 2);
	use_image(img);
	image_close(img);
	buf_free(&core);
}

/* A fan of n ranges that all overlap costs n log n, not n squared. */
static void test_a_fan_of_overlaps(void **state)
{
	(void)state;
	struct image *img = image_new(IMAGE_CORE);
	image_add_fd(img, build_file("", 0));
	for (uint64_t i = 0; i < 200000; i++)
		image_add_piece(img, (struct image_piece){ 0x1000 + i, 0x100000000 - i, 0, i });
	assert_true(image_seal_pieces(img) > 0);
	size_t n;
	const struct image_piece *p = image_pieces(img, &n);
	assert_int_equal(n, 1);
	assert_int_equal(p[0].start, 0x1000);
	assert_int_equal(p[0].end, 0x100000000);
	image_close(img);
}

static void test_hostile_notes(void **state)
{
	(void)state;
	/* Counts, sizes and names in NT_FILE that are not there. */
	static const uint64_t bodies[][8] = {
		{ UINT64_MAX, 4096 },
		{ 1000, 4096, 1, 2, 3 },
		{ 1, UINT64_MAX, 0x1000, 0x2000, 2 },
		{ 1, 4096, 0x2000, 0x1000, 0 },
		{ 2, 4096, 0x1000, 0x2000, 0, 0x1800, 0x2800, UINT64_MAX },
	};
	uint8_t heap[2 * PAGE];
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		struct buf core = small_core(heap), notes = { 0 };
		build_note(&notes, NT_FILE, bodies[i], sizeof(bodies[i]));
		build_note(&notes, NT_PRSTATUS, bodies[i], 8);
		build_note(&notes, NT_FPREGSET, bodies[i], 8);
		/* In place of the good notes. */
		Elf64_Ehdr *h = (Elf64_Ehdr *)core.data;
		Elf64_Phdr *p = (Elf64_Phdr *)(core.data + h->e_phoff);
		memset(core.data + p->p_offset, 0, p->p_filesz);
		memcpy(core.data + p->p_offset, notes.data, notes.len);
		struct image *img;
		assert_ok(open_bytes(&core, NULL, &img));
		use_image(img);
		size_t n;
		image_threads(img, &n);
		assert_int_equal(n, 0);
		image_close(img);
		buf_free(&core);
		buf_free(&notes);
	}
}

/* ---- pages from disk ---- */

static char *temp_folder(void)
{
	static char path[64];
	snprintf(path, sizeof(path), "/tmp/test_image.XXXXXX");
	assert_non_null(mkdtemp(path));
	return path;
}

static void write_file_at(const char *folder, const char *name, const void *data, size_t len)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static void test_left_out_pages_come_from_the_same_file_only(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE], file[2 * PAGE], got[PAGE];
	struct buf core = small_core(heap);
	char *root = temp_folder(), lib[80];
	snprintf(lib, sizeof(lib), "%s/lib", root);
	assert_int_equal(mkdir(lib, 0700), 0);
	build_elf(file, id_a, sizeof(id_a));
	memset(file + PAGE, 0xcc, PAGE);
	write_file_at(lib, "libshop.so", file, sizeof(file));
	const struct image_core_options options = { .files_root = root };
	struct image_core_facts facts;
	struct image *img;
	assert_ok(image_open_core_fd(build_file(core.data, core.len), "test", &options, &facts, &img));
	assert_int_equal(facts.file_bytes, PAGE);
	assert_true(image_read_all(img, 0x7f0000001000, got, PAGE));
	assert_int_equal(got[0], 0xcc);
	assert_int_equal(got[PAGE - 1], 0xcc);
	image_close(img);
	/* Another build of it. */
	uint8_t other[20] = { 9 };
	build_elf(file, other, sizeof(other));
	write_file_at(lib, "libshop.so", file, sizeof(file));
	assert_ok(image_open_core_fd(build_file(core.data, core.len), "test", &options, &facts, &img));
	assert_int_equal(facts.file_bytes, 0);
	assert_false(image_read_all(img, 0x7f0000001000, got, 1));
	image_close(img);
	assert_ok(dir_remove(root));
	buf_free(&core);
}

/* A damaged core may say that a file was mapped over half of all addresses. */
static void test_a_mapping_without_end(void **state)
{
	(void)state;
	char *root = temp_folder(), path[80];
	uint8_t page[PAGE] = "MZ";
	snprintf(path, sizeof(path), "%s/shop.dll", root);
	assert_ok(file_write_atomic(path, page, sizeof(page), 0600));
	const struct core_segment segments[] = { { 0x10000, PAGE, page, PF_R } };
	const struct core_file files[] = { { 0x100000000000, 0x7ffffffff000, 0, "/shop.dll" } };
	const struct core_thread threads[] = { { 77, 0x1234, 0x10100 } };
	const struct core_spec spec = { segments, 1, files, 1, threads, 1, 77, 0, "shop", 0, 0 };
	struct buf core = { 0 };
	build_core(&core, &spec);
	const struct image_core_options options = { .files_root = root, .assemblies = true };
	struct image_core_facts facts;
	struct image *img;
	assert_ok(image_open_core_fd(build_file(core.data, core.len), "test", &options, &facts, &img));
	assert_int_equal(facts.unproven_bytes, PAGE);
	image_close(img);
	assert_ok(dir_remove(root));
	buf_free(&core);
}

/* ---- writing ---- */

static bool stop_at_once(void *user, uint64_t done, uint64_t whole)
{
	(void)user;
	(void)done;
	(void)whole;
	return false;
}

static void test_core_is_written_and_read_again(void **state)
{
	(void)state;
	uint8_t heap[2 * PAGE], got[2 * PAGE];
	struct buf core = small_core(heap);
	char *root = temp_folder(), path[80];
	struct image *img, *again;
	struct image_core_written written;
	snprintf(path, sizeof(path), "%s/core", root);
	assert_ok(open_bytes(&core, NULL, &img));
	assert_ok(image_write_core(img, path, NULL, &written));
	assert_int_equal(written.bytes, 3 * PAGE);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_ok(image_open_core(path, NULL, NULL, &again));
	size_t n, m;
	const struct image_thread *t = image_threads(img, &n), *u = image_threads(again, &m);
	assert_int_equal(n, m);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(t[i].tid, u[i].tid);
		assert_memory_equal(&t[i].regs, &u[i].regs, sizeof(t[i].regs));
		assert_memory_equal(t[i].fp, u[i].fp, sizeof(t[i].fp));
	}
	assert_int_equal(image_pid(again), 77);
	assert_true(image_read_all(again, 0x10000, got, sizeof(got)));
	assert_memory_equal(got, heap, sizeof(got));
	assert_non_null(image_module_named(again, "libshop.so"));
	image_close(again);
	/* Where it cannot be written nothing is left. */
	assert_err(image_write_core(img, "/nonexistent/core", NULL, &written), ERR_USAGE);
	assert_err(image_write_core(img, "/dev/null", NULL, &written), ERR_USAGE);
	image_close(img);
	assert_ok(dir_remove(root));
	buf_free(&core);
}

static void test_a_cancelled_core_leaves_nothing(void **state)
{
	(void)state;
	char *root = temp_folder(), path[80], partial[100];
	struct image *img = image_new(IMAGE_CORE);
	struct image_mapping m = { 0x10000, 0x10000 + (64 << 20), 0, IMAGE_READ, false, "" };
	vec_push(&img->mappings, m);
	image_add_piece(img, (struct image_piece){ m.start, m.end, IMAGE_FD_ZERO, 0 });
	snprintf(path, sizeof(path), "%s/core", root);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	const struct image_progress progress = { stop_at_once, NULL };
	assert_err(image_write_core(img, path, &progress, NULL), ERR_CANCELLED);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_not_equal(access(partial, F_OK), 0);
	image_close(img);
	assert_ok(dir_remove(root));
}

/* Stacks and the ranges asked for, page by page; what was left out is missing, not zero. */
static void test_a_mini_core_holds_what_was_asked_for(void **state)
{
	(void)state;
	char *root = temp_folder(), path[80];
	struct image *img = image_new(IMAGE_CORE), *again;
	struct image_mapping heap = { 0x100000, 0x200000, 0, IMAGE_READ | IMAGE_WRITE, false, "" };
	struct image_mapping stack = { 0x700000, 0x800000, 0, IMAGE_READ | IMAGE_WRITE, false, "[stack]" };
	struct image_thread thread = { .tid = 5, .has_regs = true, .regs = { .rsp = 0x7fe110, .rip = 0x150008 } };
	vec_push(&img->mappings, heap);
	vec_push(&img->mappings, stack);
	vec_push(&img->threads, thread);
	image_add_piece(img, (struct image_piece){ heap.start, heap.end, IMAGE_FD_ZERO, 0 });
	image_add_piece(img, (struct image_piece){ stack.start, stack.end, IMAGE_FD_ZERO, 0 });
	static const struct image_range ranges[] = {
		{ 0x120ff8, 16 }, { 0x120000, 0x3000 },		  { 0x121000, 8 }, { 0x1fff00, 0x10000 }, { 0x10, 8 },
		{ 0xfff000, 64 }, { UINT64_MAX - 8, UINT64_MAX }, { 0x100000, 0 },
	};
	struct image_core_content content = { IMAGE_CORE_MINI, ranges, ARRAY_SIZE(ranges) };
	snprintf(path, sizeof(path), "%s/core", root);
	assert_ok(image_write_core_of(img, path, &content, NULL, NULL));
	assert_ok(image_open_core(path, NULL, NULL, &again));
	static const struct {
		uint64_t at;
		bool there;
	} pages[] = {
		{ 0x100000, false }, { 0x11f000, false }, { 0x120000, true }, { 0x121000, true },  { 0x122000, true },
		{ 0x123000, false }, { 0x150000, true },  { 0x1ff000, true }, { 0x200000, false }, { 0x700000, false },
		{ 0x7fd000, false }, { 0x7fe000, true },  { 0x7ff000, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		char page[PAGE];
		assert_int_equal(image_read_all(again, pages[i].at, page, sizeof(page)), pages[i].there);
	}
	image_close(again);
	image_close(img);
	assert_ok(dir_remove(root));
}

static void test_reads_are_watched(void **state)
{
	(void)state;
	struct image *img = image_new(IMAGE_CORE);
	struct image_ranges seen = { 0 };
	char byte[8];
	image_add_piece(img, (struct image_piece){ 0x1000, 0x1004, IMAGE_FD_ZERO, 0 });
	image_watch_reads(img, &seen);
	assert_false(image_read_all(img, 0x1000, byte, 8));
	assert_false(image_read_all(img, 0x2000, byte, 8));
	image_watch_reads(img, NULL);
	assert_true(image_read_all(img, 0x1002, byte, 2));
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.v[0].start, 0x1000);
	assert_int_equal(seen.v[0].size, 4);
	vec_free(&seen);
	image_close(img);
}

static void test_the_signal_it_died_of(void **state)
{
	(void)state;
	static const uint8_t page[PAGE];
	const struct core_segment segments[] = { { 0x1000, PAGE, page, PF_R } };
	for (int number = 0; number < 90; number += 11) {
		const struct core_thread threads[] = { { 5, 1, 2 }, { 6, 1, 2 }, { 7, 1, 2 } };
		const struct core_spec spec = { .segments = segments,
						.n_segments = 1,
						.threads = threads,
						.n_threads = 3,
						.pid = 5,
						.signal = number };
		struct buf core = { 0 };
		struct image *img;
		struct image_signal s;
		build_core(&core, &spec);
		assert_ok(open_bytes(&core, NULL, &img));
		assert_int_equal(image_signal(img, &s), number > 0 && number <= 64);
		if (number > 0 && number <= 64) {
			assert_int_equal(s.number, number);
			assert_int_equal(s.code, 1);
			assert_int_equal(s.address, 0x40);
			assert_int_equal(s.tid, 6);
		}
		image_close(img);
		buf_free(&core);
	}
}

/* ---- streams ---- */

static struct buf small_stream(void)
{
	struct buf s = { 0 };
	static uint8_t memory[3 * PAGE];
	struct wire_image_thread t = { .tid = 9, .flags = WIRE_IMAGE_HAS_REGS, .name = "worker" };
	static const char maps[] = "10000-13000 rw-p 00000000 00:00 0 \n"
				   "7f0000000000-7f0000001000 r--s 00002000 fe:01 12 /a file\n";
	memset(memory, 5, sizeof(memory));
	t.regs[16] = 0x1111;
	build_stream_head(&s, 9);
	build_stream_record(&s, WIRE_IMAGE_MAPS, 0, maps, sizeof(maps) - 1);
	build_stream_record(&s, WIRE_IMAGE_THREAD, 0, &t, sizeof(t));
	build_stream_record(&s, WIRE_IMAGE_MEMORY, 0x10000, memory, PAGE);
	build_stream_record(&s, WIRE_IMAGE_ZERO, 0x11000, NULL, PAGE);
	build_stream_record(&s, WIRE_IMAGE_MEMORY, 0x12000, memory, PAGE);
	build_stream_record(&s, WIRE_IMAGE_AUXV, 0, "0123456789abcdef", 16);
	build_stream_record(&s, WIRE_IMAGE_COMMAND, 0, "shop", 4);
	build_stream_record(&s, WIRE_IMAGE_FILE, 0, "\x0a\0\0\0\0\0\0\0/app/a.libits bytes", 27);
	build_stream_record(&s, WIRE_IMAGE_END, 8, NULL, 0);
	return s;
}

static void check_stream(struct image *img)
{
	char sent[16] = { 0 };
	int file = image_file_named(img, "a.lib");
	assert_true(file >= 0);
	assert_int_equal(image_file_named(img, "b.lib"), -1);
	assert_int_equal(pread(file, sent, sizeof(sent), 0), 9);
	assert_string_equal(sent, "its bytes");
	uint8_t got[3 * PAGE];
	size_t n;
	assert_int_equal(image_pid(img), 9);
	const struct image_thread *t = image_threads(img, &n);
	assert_int_equal(n, 1);
	assert_string_equal(t->name, "worker");
	assert_true(t->has_regs);
	assert_false(t->has_fp);
	assert_int_equal(t->regs.rip, 0x1111);
	assert_true(image_read_all(img, 0x10000, got, sizeof(got)));
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], i / PAGE == 1 ? 0 : 5);
	const struct image_mapping *m = image_mapping_at(img, 0x7f0000000000);
	assert_string_equal(m->path, "/a file");
	assert_true(m->shared);
	assert_int_equal(m->offset, 0x2000);
}

static void test_stream_from_a_file_and_a_pipe(void **state)
{
	(void)state;
	struct buf s = small_stream();
	struct image *img;
	assert_ok(image_open_stream(build_file(s.data, s.len), NULL, &img));
	check_stream(img);
	image_close(img);
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(write(pipe_fds[1], s.data, s.len), s.len);
	const struct image_stream_limits limits = { .spool = "/tmp", .timeout_ms = 50 };
	assert_ok(image_open_stream(pipe_fds[0], &limits, &img));
	close(pipe_fds[1]);
	check_stream(img);
	image_close(img);
	/* A sender that falls silent. */
	assert_int_equal(pipe(pipe_fds), 0);
	int silent = pipe_fds[1];
	assert_int_equal(write(silent, s.data, s.len - 30), s.len - 30);
	assert_err(image_open_stream(pipe_fds[0], &limits, &img), ERR_TIMEOUT);
	close(silent);
	const struct image_stream_limits small = { .max_bytes = PAGE };
	assert_err(image_open_stream(build_file(s.data, s.len), &small, &img), ERR_BAD_DATA);
	buf_free(&s);
}

static void test_hostile_streams(void **state)
{
	(void)state;
	struct buf s = small_stream();
	struct image *img;
	for (size_t len = 0; len < s.len; len += len < 2048 || len > s.len - 256 ? 1 : 13)
		assert_err(image_open_stream(build_file(s.data, len), NULL, &img), ERR_BAD_DATA);
	for (size_t i = 0; i < s.len; i += i < 2048 || i > s.len - 256 ? 1 : 13) {
		char was = s.data[i];
		s.data[i] = (char)~was;
		img = NULL;
		struct err *err = image_open_stream(build_file(s.data, s.len), NULL, &img);
		if (!err)
			use_image(img);
		err_free(err);
		image_close(img);
		s.data[i] = was;
	}
	buf_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_core_is_read),
		cmocka_unit_test(test_core_that_is_cut_short_later),
		cmocka_unit_test(test_core_truncated_anywhere),
		cmocka_unit_test(test_core_with_any_byte_flipped),
		cmocka_unit_test(test_not_a_core),
		cmocka_unit_test(test_core_with_many_segments),
		cmocka_unit_test(test_segments_that_overlap),
		cmocka_unit_test(test_a_fan_of_overlaps),
		cmocka_unit_test(test_hostile_notes),
		cmocka_unit_test(test_left_out_pages_come_from_the_same_file_only),
		cmocka_unit_test(test_a_mapping_without_end),
		cmocka_unit_test(test_core_is_written_and_read_again),
		cmocka_unit_test(test_a_cancelled_core_leaves_nothing),
		cmocka_unit_test(test_a_mini_core_holds_what_was_asked_for),
		cmocka_unit_test(test_reads_are_watched),
		cmocka_unit_test(test_the_signal_it_died_of),
		cmocka_unit_test(test_stream_from_a_file_and_a_pipe),
		cmocka_unit_test(test_hostile_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
