#include "unit.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "export/formats.h"
#include "export/pprof.pb-c.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>

static const struct export_info info = {
	.name = "Shop (7)",
	.program = "drdotnet 1.2.3.4",
	.event = "samples",
	.pid = 7,
	.unix_ns = 1000,
};

static enum frame_kind name_of(void *user, uint64_t place, struct buf *out)
{
	(void)user;
	/* Two addresses of one method. */
	buf_printf(out, "M%llu", (unsigned long long)place / 10);
	return FRAME_CODE;
}

/* Main(10) calls A(20..29) and B(30); thread 5 runs Main/A, Main/A elsewhere, Main/B, a gap, Main/A. */
static struct profile *sample_profile(enum profile_unit unit)
{
	struct profile *p = profile_new("/tmp", unit);
	uint64_t waiting = profile_place(p, "[waiting; <b>]", FRAME_NATIVE);
	uint32_t t = profile_thread(p, 5), other = profile_thread(p, 6);
	uint32_t a1 = profile_stack(p, (uint64_t[]){ 20, 10 }, 2), a2 = profile_stack(p, (uint64_t[]){ 25, 10 }, 2);
	uint32_t b = profile_stack(p, (uint64_t[]){ 30, 10 }, 2);
	uint32_t w = profile_stack(p, (uint64_t[]){ waiting, 10 }, 2);
	assert_int_not_equal(a1, a2);
	assert_int_equal(a1, profile_stack(p, (uint64_t[]){ 20, 10 }, 2));
	uint64_t one = unit == PROFILE_NS ? 1000 : 1;
	profile_sample(p, t, (struct profile_sample){ 1000, one, a1, 1 });
	profile_sample(p, t, (struct profile_sample){ 2000, one, a2, 1 });
	profile_sample(p, t, (struct profile_sample){ 3000, one, b, 1 });
	profile_sample(p, t, (struct profile_sample){ 9000, one, a1, 1 });
	profile_sample(p, other, (struct profile_sample){ 1500, one, w, 1 });
	profile_thread_name(p, other, "Thread 6 (pool)");
	assert_ok(profile_seal(p, name_of, NULL));
	return p;
}

static void write_to(enum export_format format, const struct profile *p, struct buf *ret)
{
	CLOSE_FD int fd = memfd_create("export", MFD_CLOEXEC);
	struct out out;
	out_init(&out, fd, export_format_gzip(format));
	assert_ok(export_write(format, p, &info, &out));
	assert_ok(out_finish(&out));
	out_fini(&out);
	CLEANUP(mem_freep) char *path = mem_printf("/proc/self/fd/%d", fd);
	assert_ok(file_read(path, 64 << 20, ret));
}

static void check(enum export_format format, enum profile_unit unit, const char *want)
{
	CLEANUP(profile_freep) struct profile *p = sample_profile(unit);
	CLEANUP(buf_free) struct buf got = { 0 };
	write_to(format, p, &got);
	assert_string_equal(buf_cstr(&got), want);
}

static void test_folded(void **state)
{
	(void)state;
	check(EXPORT_FOLDED, PROFILE_NS,
	      "Thread 5;M1;M2 3\n"
	      "Thread 5;M1;M3 1\n"
	      "Thread 6 (pool);M1;[waiting: <b>] 1\n");
}

static void test_speedscope_evented(void **state)
{
	(void)state;
	check(EXPORT_SPEEDSCOPE, PROFILE_NS,
	      "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"drdotnet 1.2.3.4\","
	      "\"name\":\"Shop (7)\",\"activeProfileIndex\":0,\"shared\":{\"frames\":["
	      "{\"name\":\"M1\"},{\"name\":\"M2\"},{\"name\":\"M3\"},"
	      "{\"name\":\"[waiting; \\u003cb\\u003e]\"}]},\"profiles\":["
	      "{\"type\":\"evented\",\"name\":\"Thread 5\",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":9000,"
	      "\"events\":["
	      "{\"type\":\"O\",\"frame\":0,\"at\":0},{\"type\":\"O\",\"frame\":1,\"at\":0},"
	      "{\"type\":\"C\",\"frame\":1,\"at\":2000},{\"type\":\"O\",\"frame\":2,\"at\":2000},"
	      "{\"type\":\"C\",\"frame\":2,\"at\":3000},{\"type\":\"C\",\"frame\":0,\"at\":3000},"
	      "{\"type\":\"O\",\"frame\":0,\"at\":8000},{\"type\":\"O\",\"frame\":1,\"at\":8000},"
	      "{\"type\":\"C\",\"frame\":1,\"at\":9000},{\"type\":\"C\",\"frame\":0,\"at\":9000}]},"
	      "{\"type\":\"evented\",\"name\":\"Thread 6 (pool)\",\"unit\":\"nanoseconds\",\"startValue\":0,"
	      "\"endValue\":9000,\"events\":["
	      "{\"type\":\"O\",\"frame\":0,\"at\":500},{\"type\":\"O\",\"frame\":3,\"at\":500},"
	      "{\"type\":\"C\",\"frame\":3,\"at\":1500},{\"type\":\"C\",\"frame\":0,\"at\":1500}]}]}\n");
}

static void test_speedscope_sampled(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = sample_profile(PROFILE_COUNT);
	CLEANUP(buf_free) struct buf got = { 0 };
	write_to(EXPORT_SPEEDSCOPE, p, &got);
	assert_non_null(strstr(got.data,
			       "\"type\":\"sampled\",\"name\":\"Thread 5\",\"unit\":\"none\",\"startValue\":0,"
			       "\"samples\":[[0,1],[0,1],[0,2],[0,1]],\"endValue\":4,\"weights\":[1,1,1,1]"));
	json_t *json = NULL;
	assert_ok(json_parse(got.data, got.len, 1 << 20, &json));
	json_decref(json);
}

static void test_chromium(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = sample_profile(PROFILE_NS);
	CLEANUP(buf_free) struct buf got = { 0 };
	write_to(EXPORT_CHROMIUM, p, &got);
	json_t *json = NULL;
	assert_ok(json_parse(got.data, got.len, 1 << 20, &json));
	/* Names: process and two threads; frames: Main twice and A twice and B on one thread, Main and waiting on the
	 * other. */
	assert_int_equal(json_array_size(json_object_get(json, "traceEvents")), 3 + 5 + 2);
	json_decref(json);
	assert_non_null(strstr(got.data, "{\"ph\":\"X\",\"name\":\"M2\",\"pid\":7,\"tid\":5,\"cat\":\"samples\","
					 "\"ts\":0.000,\"dur\":2.000}"));
	assert_non_null(strstr(got.data, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"tid\":6,"
					 "\"args\":{\"name\":\"Thread 6 (pool)\"}}"));
}

static void inflate_all(const struct buf *packed, struct buf *ret)
{
	z_stream z = { 0 };
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = (Bytef *)packed->data;
	z.avail_in = (uInt)packed->len;
	z.next_out = buf_room(ret, 1 << 20);
	z.avail_out = 1 << 20;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	ret->len = (1 << 20) - z.avail_out;
	inflateEnd(&z);
}

static void test_pprof(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = sample_profile(PROFILE_NS);
	CLEANUP(buf_free) struct buf packed = { 0 };
	CLEANUP(buf_free) struct buf plain = { 0 };
	write_to(EXPORT_PPROF, p, &packed);
	inflate_all(&packed, &plain);
	Pprof__Profile *profile = pprof__profile__unpack(NULL, plain.len, (const uint8_t *)plain.data);
	assert_non_null(profile);
	assert_string_equal(profile->string_table[0], "");
	assert_int_equal(profile->n_sample_type, 2);
	assert_string_equal(profile->string_table[profile->sample_type[1]->unit], "nanoseconds");
	assert_int_equal(profile->n_sample, 3);
	const Pprof__Sample *first = profile->sample[0];
	assert_int_equal(first->n_location_id, 2);
	assert_int_equal(first->value[0], 3);
	assert_int_equal(first->value[1], 3000);
	const Pprof__Location *leaf = profile->location[first->location_id[0] - 1];
	assert_int_equal(leaf->id, first->location_id[0]);
	const Pprof__Function *function = profile->function[leaf->line[0]->function_id - 1];
	assert_string_equal(profile->string_table[function->name], "M2");
	assert_string_equal(profile->string_table[first->label[0]->str], "Thread 5");
	assert_string_equal(profile->string_table[profile->sample[2]->label[0]->str], "Thread 6 (pool)");
	assert_int_equal(profile->time_nanos, 1000);
	pprof__profile__free_unpacked(profile, NULL);
}

static void test_pprof_of_a_heap(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = sample_profile(PROFILE_BYTES);
	CLEANUP(buf_free) struct buf packed = { 0 }, plain = { 0 };
	write_to(EXPORT_PPROF, p, &packed);
	inflate_all(&packed, &plain);
	Pprof__Profile *profile = pprof__profile__unpack(NULL, plain.len, (const uint8_t *)plain.data);
	assert_non_null(profile);
	assert_int_equal(profile->n_sample_type, 2);
	assert_string_equal(profile->string_table[profile->sample_type[0]->type], "inuse_objects");
	assert_string_equal(profile->string_table[profile->sample_type[1]->type], "inuse_space");
	assert_string_equal(profile->string_table[profile->sample_type[1]->unit], "bytes");
	assert_string_equal(profile->string_table[profile->default_sample_type], "inuse_space");
	assert_int_equal(profile->sample[0]->value[0], 3);
	assert_int_equal(profile->sample[0]->value[1], 3);
	assert_int_equal(profile->sample[0]->n_label, 0); /* nobody's thread */
	assert_int_equal(profile->duration_nanos, 0);
	pprof__profile__free_unpacked(profile, NULL);
}

/* More samples than a chunk: through the spool and back, per thread, in order. */
static void count_up(void *user, const struct profile_sample *s)
{
	uint64_t *next = user;
	assert_int_equal(s->time_ns, *next);
	*next += 2;
}

static void test_spool(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = profile_new("/tmp", PROFILE_NS);
	uint32_t threads[] = { profile_thread(p, 1), profile_thread(p, 2) };
	uint32_t stack = profile_stack(p, (uint64_t[]){ 20, 10 }, 2);
	for (uint64_t i = 0; i < 10001; i++)
		profile_sample(p, threads[i % 2], (struct profile_sample){ i, 1, stack, 1 });
	assert_ok(profile_seal(p, name_of, NULL));
	uint64_t next = 0;
	assert_ok(profile_read(p, 0, count_up, &next));
	assert_int_equal(next, 10002);
	next = 1;
	assert_ok(profile_read(p, 1, count_up, &next));
	assert_int_equal(next, 10001);
	struct profile_sums sums = { 0 };
	assert_ok(profile_sum(p, &sums));
	assert_int_equal(sums.n, 2);
	assert_int_equal(sums.v[0].count + sums.v[1].count, 10001);
	mem_free(sums.v);
}

static void test_no_room_for_the_spool(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = profile_new("/nowhere/at/all", PROFILE_NS);
	uint32_t thread = profile_thread(p, 1), stack = profile_stack(p, (uint64_t[]){ 1 }, 1);
	for (uint64_t i = 0; i < 2000; i++)
		profile_sample(p, thread, (struct profile_sample){ 2 * i, 1, stack, 1 });
	assert_err(profile_seal(p, name_of, NULL), ERR_NOT_FOUND);
}

static void test_full_disk(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = sample_profile(PROFILE_NS);
	for (enum export_format f = 0; f < EXPORT_FORMATS; f++) {
		CLOSE_FD int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
		struct out out;
		out_init(&out, fd, export_format_gzip(f));
		assert_ok(export_write(f, p, &info, &out));
		assert_err(out_finish(&out), ERR_IO);
		out_fini(&out);
	}
}

static void test_endings(void **state)
{
	(void)state;
	enum export_format f;
	assert_true(export_format_of("a/b.speedscope.json", &f) && f == EXPORT_SPEEDSCOPE);
	assert_true(export_format_of("x.FOLDED", &f) && f == EXPORT_FOLDED);
	assert_true(export_format_of("profile.pb.gz", &f) && f == EXPORT_PPROF);
	assert_true(export_format_of("x.chromium.json", &f) && f == EXPORT_CHROMIUM);
	assert_false(export_format_of("x.json", &f));
	assert_false(export_format_of("x", &f));
}

/* Names and numbers of threads are hostile; nothing of them may break a line or a string. */
static void test_hostile_names(void **state)
{
	(void)state;
	CLEANUP(profile_freep) struct profile *p = profile_new("/tmp", PROFILE_NS);
	uint64_t bad = profile_place(p, "a;b\nc \xff\"</script>", FRAME_CODE);
	uint32_t thread = profile_thread(p, UINT64_MAX);
	/* No named place has that number: it must be asked for, not looked up. */
	uint64_t places[] = { bad, UINT64_MAX };
	profile_sample(p, thread, (struct profile_sample){ UINT64_MAX, UINT64_MAX, profile_stack(p, places, 2), 1 });
	profile_sample(p, thread, (struct profile_sample){ 0, UINT64_MAX, 0, 1 });
	assert_ok(profile_seal(p, name_of, NULL));
	for (enum export_format f = 0; f < EXPORT_FORMATS; f++) {
		CLEANUP(buf_free) struct buf got = { 0 };
		write_to(f, p, &got);
		assert_true(got.len > 0);
		if (f == EXPORT_FOLDED)
			assert_string_equal(
				buf_cstr(&got),
				"Thread 18446744073709551615;M1844674407370955161;a:b?c \xef\xbf\xbd\"</script> 1\n"
				"Thread 18446744073709551615 1\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_speedscope_evented),
		cmocka_unit_test(test_speedscope_sampled),
		cmocka_unit_test(test_chromium),
		cmocka_unit_test(test_pprof),
		cmocka_unit_test(test_pprof_of_a_heap),
		cmocka_unit_test(test_spool),
		cmocka_unit_test(test_no_room_for_the_spool),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_endings),
		cmocka_unit_test(test_hostile_names),
	};
	return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
