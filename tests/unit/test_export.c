#include "unit.h"

#include "base/cursor.h"
#include "base/fd.h"
#include "base/str.h"
#include "export/zip.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>

static int new_file(void)
{
	int fd = memfd_create("zip", MFD_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void load(int fd, struct buf *out)
{
	CLEANUP(mem_freep) char *path = mem_printf("/proc/self/fd/%d", fd);
	assert_ok(file_read(path, 64 << 20, out));
}

static uint32_t le(const struct buf *b, size_t at, unsigned bytes)
{
	assert_true(at + bytes <= b->len);
	uint32_t v = 0;
	for (unsigned i = bytes; i-- > 0;)
		v = v << 8 | (uint8_t)b->data[at + i];
	return v;
}

/* Follows the directory to the i-th file and inflates it. */
static void extract(const struct buf *z, unsigned index, const char *want_name, struct buf *out)
{
	size_t end = z->len - 22;
	assert_int_equal(le(z, end, 4), 0x06054b50);
	assert_true(index < le(z, end + 10, 2));
	size_t at = le(z, end + 16, 4);
	assert_int_equal(at + le(z, end + 12, 4), end);
	for (; index; index--)
		at += 46 + le(z, at + 28, 2);
	assert_int_equal(le(z, at, 4), 0x02014b50);
	assert_int_equal(le(z, at + 28, 2), strlen(want_name));
	assert_memory_equal(z->data + at + 46, want_name, strlen(want_name));
	uint32_t sum = le(z, at + 16, 4), packed = le(z, at + 20, 4), size = le(z, at + 24, 4);
	size_t local = le(z, at + 42, 4);
	assert_int_equal(le(z, local, 4), 0x04034b50);
	size_t data = local + 30 + le(z, local + 26, 2);
	assert_int_equal(le(z, data + packed, 4), 0x08074b50);
	assert_int_equal(le(z, data + packed + 4, 4), sum);
	z_stream s = { .next_in = (Bytef *)z->data + data, .avail_in = packed };
	assert_int_equal(inflateInit2(&s, -MAX_WBITS), Z_OK);
	s.next_out = buf_room(out, size + 1);
	s.avail_out = size + 1;
	assert_int_equal(inflate(&s, Z_FINISH), Z_STREAM_END);
	assert_int_equal(s.total_out, size);
	inflateEnd(&s);
	out->len = size;
	assert_int_equal(crc32_z(0, (const Bytef *)out->data, size), sum);
}

static void write_sample(int fd, int64_t when)
{
	CLEANUP(zip_freep) struct zip *z = zip_new(fd, when);
	assert_ok(zip_add(z, "report.md", "# Hello\n", 8));
	assert_ok(zip_add(z, "empty.txt", "", 0));
	CLOSE_FD int in = new_file();
	for (int i = 0; i < 300000; i++)
		assert_int_equal(write(in, &i, 2), 2);
	lseek(in, 0, SEEK_SET);
	assert_ok(zip_add_fd(z, "big.bin", in));
	assert_ok(zip_finish(z));
}

static void files_come_out_as_they_went_in(void **state UNUSED)
{
	CLOSE_FD int fd = new_file();
	write_sample(fd, 1700000000);
	struct buf z = { 0 }, f = { 0 };
	load(fd, &z);
	extract(&z, 0, "report.md", &f);
	assert_int_equal(f.len, 8);
	assert_memory_equal(f.data, "# Hello\n", 8);
	buf_clear(&f);
	extract(&z, 1, "empty.txt", &f);
	assert_int_equal(f.len, 0);
	extract(&z, 2, "big.bin", &f);
	assert_int_equal(f.len, 600000);
	for (int i = 0; i < 300000; i++)
		assert_memory_equal(f.data + 2 * i, &i, 2);
	buf_free(&f);
	buf_free(&z);
}

static void the_same_input_gives_the_same_bytes(void **state UNUSED)
{
	CLOSE_FD int a = new_file();
	CLOSE_FD int b = new_file();
	struct buf x = { 0 }, y = { 0 };
	write_sample(a, 0);
	write_sample(b, 0);
	load(a, &x);
	load(b, &y);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.data, y.data, x.len);
	assert_int_equal(le(&x, 12, 2), 1 << 5 | 1); /* 1980-01-01 */
	buf_free(&x);
	buf_free(&y);
}

static void names_are_flat_and_once(void **state UNUSED)
{
	CLOSE_FD int fd = new_file();
	CLEANUP(zip_freep) struct zip *z = zip_new(fd, 0);
	static const char *const bad[] = { "",	   ".",	  "..",	     "../x", "/etc/x",	"a/b",
					   "a\\b", "-rf", ".hidden", "a b",  "\xc3\xa4" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_err(zip_add(z, bad[i], "", 0), ERR_USAGE);
	assert_ok(zip_add(z, "a", "", 0));
	assert_err(zip_add(z, "a", "", 0), ERR_USAGE);
}

static void a_failing_file_is_an_error(void **state UNUSED)
{
	CLOSE_FD int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CLEANUP(zip_freep) struct zip *z = zip_new(full, 0);
	assert_err(zip_add(z, "a", "x", 1), ERR_IO);
	CLOSE_FD int fd = new_file();
	CLEANUP(zip_freep) struct zip *y = zip_new(fd, 0);
	assert_err(zip_add_fd(y, "a", full), ERR_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_come_out_as_they_went_in),
		cmocka_unit_test(the_same_input_gives_the_same_bytes),
		cmocka_unit_test(names_are_flat_and_once),
		cmocka_unit_test(a_failing_file_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
