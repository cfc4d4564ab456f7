/* Core files, streams and the parts of a snapshot that touch no process. Snapshots themselves: tests/e2e. */
#include "unit.h"

#include "base/fd.h"
#include "build_core.h"
#include "image/frame.h"
#include "image/internal.h"
#include "image/limits.h"
#include "image/lock.h"
#include "image/maps.h"
#include "image/seccomp.h"
#include "target/target.h"
#include "wire/image.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
	assert_err(image_write_core(img, "/nonexistent/core", NULL, &written), ERR_NOT_FOUND);
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

/* ---- the frame ---- */

static struct frame_state waiting_thread(void)
{
	struct frame_state s = { .call = SYS_read, .mask = 0x1234, .syscall_at = 0x5000, .sigreturn_at = 0x6000 };
	s.regs = (struct image_regs){ .rip = 0x402,
				      .rsp = 0x7ffffff0,
				      .rax = (uint64_t)-512,
				      .orig_rax = SYS_read,
				      .cs = 0x33,
				      .ss = 0x2b,
				      .rdi = 3,
				      .eflags = 0x246 };
	uint64_t features = 3;
	s.xstate_len = 832;
	memcpy(s.xstate + 464, &features, 8);
	memcpy(s.xstate + 512, &features, 8);
	return s;
}

static uint64_t word_at(const struct frame *f, uint64_t addr)
{
	uint64_t v;
	assert_true(addr >= f->at && addr + 8 <= f->at + f->len);
	memcpy(&v, f->bytes + (addr - f->at), 8);
	return v;
}

static void test_frame_leads_back(void **state)
{
	(void)state;
	struct frame_state s = waiting_thread();
	static struct frame f;
	assert_true(frame_build(&s, &f));
	/* Below the red zone, and for XRSTOR. */
	assert_true(f.at + f.len <= s.regs.rsp - 128);
	assert_int_equal(f.at % 64, 0);
	const uint64_t args[4] = { 1, 2, 3, 4 };
	struct image_regs call = frame_call(&f, &s, SYS_clone, args);
	assert_int_equal(call.rip, 0x5000);
	assert_int_equal(call.orig_rax, UINT64_MAX);
	/* Where `ret` goes, and what the return from a signal finds there: offsets of the kernel's rt_sigframe. */
	assert_int_equal(word_at(&f, call.rsp), 0x6000);
	assert_int_equal(f.heal.rip, 0x6000);
	assert_int_equal(f.heal.rsp, call.rsp + 8);
	uint64_t uc = call.rsp + 8;
	assert_int_equal(word_at(&f, uc), 7);
	assert_int_equal(word_at(&f, uc + 40 + 13 * 8), SYS_read);
	assert_int_equal(word_at(&f, uc + 40 + 15 * 8), s.regs.rsp);
	assert_int_equal(word_at(&f, uc + 40 + 16 * 8), s.regs.rip - 2);
	assert_int_equal(word_at(&f, uc + 296), 0x1234);
	uint64_t fp = word_at(&f, uc + 40 + 23 * 8);
	assert_int_equal(fp % 64, 0);
	assert_int_equal((uint32_t)word_at(&f, fp + 464), 0x46505853);
	/* A copy can only end. */
	uint64_t other = frame_exit_stack(&f);
	assert_int_equal(word_at(&f, other), 0x6000);
	assert_int_equal(word_at(&f, other + 8 + 40 + 13 * 8), SYS_exit_group);
	assert_int_equal(word_at(&f, other + 8 + 40 + 16 * 8), 0x5000);
	/* A thread that uses tiles cannot carry it. */
	uint64_t tiles = 3 | (uint64_t)1 << 18;
	memcpy(s.xstate + 512, &tiles, 8);
	assert_false(frame_build(&s, &f));
}

static void test_which_threads_can_carry(void **state)
{
	(void)state;
	static const uint8_t poll_code[7] = { 0xb8, 7, 0, 0, 0, 0x0f, 5 },
			     futex_code[7] = { 0xb8, 202, 0, 0, 0, 0x0f, 5 };
	static const uint8_t other_code[7] = { 1, 2, 3, 4, 5, 0x0f, 5 }, no_call[7] = { 0 };
	const struct {
		int64_t result, call;
		uint64_t rsi, rdx, cs;
		const uint8_t *code;
		enum carrier_kind want;
		uint64_t want_call;
	} cases[] = {
		{ -512, SYS_read, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_read },
		{ -513, SYS_openat, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_openat },
		{ -514, SYS_pause, 0, 0, 0x33, other_code, CARRIER_PLAIN, SYS_pause },
		{ -512, SYS_read, 0, 0, 0x23, other_code, CARRIER_NO, 0 },
		{ -512, SYS_read, 0, 0, 0x33, no_call, CARRIER_NO, 0 },
		{ -512, SYS_read, 0, 0, 0x33, NULL, CARRIER_NO, 0 },
		{ -512, -1, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -512, SYS_restart_syscall, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -4, SYS_epoll_wait, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ 0, SYS_read, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
		{ -516, SYS_poll, 0, (uint32_t)-1, 0x33, poll_code, CARRIER_TIMED, SYS_poll },
		{ -516, SYS_poll, 0, 1000, 0x33, poll_code, CARRIER_NO, 0 },
		{ -516, SYS_restart_syscall, 0, (uint32_t)-1, 0x33, poll_code, CARRIER_TIMED, SYS_poll },
		{ -516, SYS_restart_syscall, 0, (uint32_t)-1, 0x33, other_code, CARRIER_NO, 0 },
		{ -516, SYS_futex, 0x89, 0, 0x33, futex_code, CARRIER_TIMED, SYS_futex },
		{ -516, SYS_futex, 0x80, 0, 0x33, futex_code, CARRIER_NO, 0 },
		{ -516, SYS_nanosleep, 0, 0, 0x33, other_code, CARRIER_NO, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image_regs r = { .rax = (uint64_t)cases[i].result,
					.orig_rax = (uint64_t)cases[i].call,
					.rsi = cases[i].rsi,
					.rdx = cases[i].rdx,
					.cs = cases[i].cs };
		uint64_t call = 0;
		if (carrier_kind(&r, cases[i].code, &call) != cases[i].want)
			fail_msg("case %zu", i);
		if (cases[i].want != CARRIER_NO)
			assert_int_equal(call, cases[i].want_call);
	}
	assert_true(carrier_rank(CARRIER_PLAIN, ".NET DebugPipe") < carrier_rank(CARRIER_TIMED, ".NET SynchManag"));
	assert_true(carrier_rank(CARRIER_TIMED, ".NET SynchManag") < carrier_rank(CARRIER_TIMED, ".NET Finalizer"));
	assert_true(carrier_rank(CARRIER_TIMED, ".NET Finalizer") < carrier_rank(CARRIER_PLAIN, "shop"));
}

/* ---- seccomp ---- */

static void test_filters_are_run(void **state)
{
	(void)state;
	const struct sock_filter docker_like[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7e020000),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	};
	struct seccomp_call clone_files = { .nr = SYS_clone, .args = { 0x400 } };
	struct seccomp_call clone_ns = { .nr = SYS_clone, .args = { 0x20000 } };
	struct seccomp_call other = { .nr = SYS_ptrace };
	size_t n = ARRAY_SIZE(docker_like);
	assert_true(seccomp_allows(seccomp_run(docker_like, n, &clone_files)));
	assert_int_equal(seccomp_run(docker_like, n, &clone_ns), SECCOMP_RET_ERRNO | 1);
	assert_true(seccomp_allows(seccomp_run(docker_like, n, &other)));
	assert_false(seccomp_allows(SECCOMP_RET_TRACE));
	assert_false(seccomp_allows(SECCOMP_RET_USER_NOTIF));
	assert_false(seccomp_allows(SECCOMP_RET_TRAP));
	assert_true(seccomp_allows(SECCOMP_RET_LOG));
	/* Index register, scratch memory, computed answers. */
	const struct sock_filter computed[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),	BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 3), BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, SYS_clone),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	assert_int_equal(seccomp_run(computed, ARRAY_SIZE(computed), &clone_files), SECCOMP_RET_ALLOW);
	/* What is not understood forbids. */
	const struct sock_filter odd[] = { BPF_STMT(0xff, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64),
					       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_filter endless[] = { BPF_STMT(BPF_JMP | BPF_JA, 0xffffffff) };
	assert_false(seccomp_allows(seccomp_run(odd, 2, &other)));
	assert_false(seccomp_allows(seccomp_run(outside, 2, &other)));
	assert_false(seccomp_allows(seccomp_run(endless, 1, &other)));
	assert_false(seccomp_allows(seccomp_run(NULL, 0, &other)));
}

/* ---- limits: a /proc and cgroups of our own ---- */

static void put(const char *root, const char *name, const char *text)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	write_file_at(root, name, text, strlen(text));
}

static void put_machine(const char *root, const char *cgroup, const char *mountinfo)
{
	put(root, "meminfo", "MemTotal:       1000000 kB\nMemFree: 5 kB\nMemAvailable:    900000 kB\n");
	put(root, "7/cgroup", cgroup);
	put(root, "self/mountinfo", mountinfo);
}

static void test_room_in_cgroups_v2(void **state)
{
	(void)state;
	char *root = temp_folder(), mounts[200];
	snprintf(mounts, sizeof(mounts), "30 20 0:26 / %s/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n", root);
	put_machine(root, "0::/pod/app\n", mounts);
	put(root, "cg/pod/app/memory.max", "max\n");
	put(root, "cg/pod/app/memory.current", "1000000\n");
	put(root, "cg/pod/app/cgroup.events", "populated 1\nfrozen 0\n");
	put(root, "cg/pod/memory.max", "300000000\n");
	put(root, "cg/pod/memory.current", "250000000\n");
	put(root, "cg/pod/memory.stat", "anon 1\ninactive_file 20000000\nactive_file 7\n");
	struct limits_watch w;
	limits_watch_init(&w, root, 7);
	assert_false(w.hidden);
	struct limits_room room = limits_watch_room(&w);
	assert_int_equal(room.bytes, 70000000);
	assert_int_equal(room.limit, 300000000);
	assert_false(room.machine);
	assert_false(room.oom_group);
	assert_false(limits_frozen(&w));
	put(root, "cg/pod/memory.high", "260000000\n");
	put(root, "cg/pod/memory.oom.group", "1\n");
	put(root, "cg/pod/app/cgroup.events", "populated 1\nfrozen 1\n");
	room = limits_watch_room(&w);
	assert_int_equal(room.bytes, 30000000);
	assert_true(room.oom_group);
	assert_true(limits_frozen(&w));
	limits_watch_fini(&w);
	assert_ok(dir_remove(root));
}

static void test_room_in_cgroups_v1_and_machine(void **state)
{
	(void)state;
	char *root = temp_folder(), mounts[400];
	snprintf(mounts, sizeof(mounts),
		 "31 20 0:27 /docker/abc %s/mem rw - cgroup cgroup rw,memory\n"
		 "32 20 0:28 / %s/fr rw - cgroup cgroup rw,freezer\n",
		 root, root);
	put_machine(root, "5:freezer:/f\n4:cpu,memory:/docker/abc/x\n0::/\n", mounts);
	put(root, "mem/x/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "mem/memory.limit_in_bytes", "200000000\n");
	put(root, "mem/memory.usage_in_bytes", "150000000\n");
	put(root, "fr/f/freezer.state", "FROZEN\n");
	struct limits_watch w;
	limits_watch_init(&w, root, 7);
	assert_int_equal(limits_watch_room(&w).bytes, 50000000);
	assert_true(limits_frozen(&w));
	put(root, "fr/f/freezer.state", "THAWED\n");
	assert_false(limits_frozen(&w));
	put(root, "mem/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(limits_watch_room(&w).bytes, 900000 * 1024);
	assert_true(limits_watch_room(&w).machine);
	limits_watch_fini(&w);
	/* One that lies outside of what we see. */
	put(root, "7/cgroup", "0::/../other\n");
	snprintf(mounts, sizeof(mounts), "30 20 0:26 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
	put(root, "self/mountinfo", mounts);
	limits_watch_init(&w, root, 7);
	assert_true(w.hidden);
	limits_watch_fini(&w);
	/* ... but shows its own inside. */
	put(root, "7/root/sys/fs/cgroup/memory.max", "64000000\n");
	put(root, "7/root/sys/fs/cgroup/memory.current", "60000000\n");
	limits_watch_init(&w, root, 7);
	assert_false(w.hidden);
	assert_int_equal(limits_watch_room(&w).bytes, 4000000);
	limits_watch_fini(&w);
	assert_ok(dir_remove(root));
}

static void test_what_a_copy_needs(void **state)
{
	(void)state;
	const uint64_t mb = 1 << 20;
	struct limits_process small = { .anon = 40 * mb }, large = { .anon = 1000 * mb, .page_tables = 2 * mb };
	assert_int_equal(limits_need(&small), 40 * mb);
	assert_int_equal(limits_need(&large), (250 + 64 + 2) * mb);
	assert_true(limits_pause_ns(&large) > limits_pause_ns(&small));
	struct limits_process self;
	assert_ok(limits_read_process("/proc", getpid(), &self));
	assert_true(self.rss > 0 && self.anon > 0 && self.threads >= 1 && self.start_ticks > 0);
	assert_err(limits_read_process("/proc", 0x7ffffffe, &self), ERR_NOT_FOUND);
}

/* ---- the lock ---- */

static void test_one_at_a_time(void **state)
{
	(void)state;
	struct target t = { .pid = getpid(), .start_ticks = 99 }, other = { .pid = getpid(), .start_ticks = 98 };
	uint8_t cookie[16] = { 1, 2, 3, (uint8_t)getpid() };
	int first = -1, second = -1;
	assert_ok(lock_take(&t, NULL, &first));
	assert_err(lock_take(&t, NULL, &second), ERR_BUSY);
	assert_err(lock_probe(&t, NULL), ERR_BUSY);
	assert_ok(lock_probe(&other, NULL));
	assert_ok(lock_take(&t, cookie, &second));
	assert_err(lock_probe(&other, cookie), ERR_BUSY);
	close(first);
	assert_ok(lock_probe(&t, NULL));
	close(second);
}

static void test_maps_lines(void **state)
{
	(void)state;
	static const char text[] = "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a file\n"
				   "7f1-7f2 rw-s 0 00:01 5 /memfd:doublemapper (deleted)\n"
				   "7f3000-7f4000 rw-s 0 00:06 5 /dev/dri/card0\n"
				   "7f5000-7f6000 r--s 0 fe:01 9 /usr/share/icu.dat\n"
				   "ff-100 ---p 0 00:00 0 \n"
				   "broken\n";
	const char *p = text, *end = text + sizeof(text) - 1;
	struct maps_line l;
	assert_true(maps_next(&p, end, &l));
	assert_int_equal(l.start, 0x400000);
	assert_int_equal(l.end, 0x452000);
	assert_int_equal(l.offset, 0x1000);
	assert_int_equal(l.ino, 173521);
	assert_memory_equal(l.path, "/usr/bin/a file", l.path_len);
	assert_false(maps_shared(&l));
	assert_true(maps_next(&p, end, &l));
	assert_true(maps_shared(&l) && !maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_true(!maps_shared(&l) && maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_false(maps_shared(&l) || maps_device(&l));
	assert_true(maps_next(&p, end, &l));
	assert_int_equal(l.path_len, 0);
	assert_false(maps_next(&p, end, &l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_core_is_read),
		cmocka_unit_test(test_core_truncated_anywhere),
		cmocka_unit_test(test_core_with_any_byte_flipped),
		cmocka_unit_test(test_not_a_core),
		cmocka_unit_test(test_core_with_many_segments),
		cmocka_unit_test(test_segments_that_overlap),
		cmocka_unit_test(test_a_fan_of_overlaps),
		cmocka_unit_test(test_hostile_notes),
		cmocka_unit_test(test_left_out_pages_come_from_the_same_file_only),
		cmocka_unit_test(test_core_is_written_and_read_again),
		cmocka_unit_test(test_a_cancelled_core_leaves_nothing),
		cmocka_unit_test(test_a_mini_core_holds_what_was_asked_for),
		cmocka_unit_test(test_reads_are_watched),
		cmocka_unit_test(test_the_signal_it_died_of),
		cmocka_unit_test(test_stream_from_a_file_and_a_pipe),
		cmocka_unit_test(test_hostile_streams),
		cmocka_unit_test(test_frame_leads_back),
		cmocka_unit_test(test_which_threads_can_carry),
		cmocka_unit_test(test_filters_are_run),
		cmocka_unit_test(test_room_in_cgroups_v2),
		cmocka_unit_test(test_room_in_cgroups_v1_and_machine),
		cmocka_unit_test(test_what_a_copy_needs),
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_maps_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
