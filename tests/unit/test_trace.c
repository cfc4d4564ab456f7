#include "unit.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "build_nettrace.h"
#include "eventpipe/clr.h"
#include "export/formats.h"
#include "trace/config.h"
#include "trace/cut.h"
#include "trace/jsonl.h"
#include "trace/ring.h"
#include "trace/samples.h"
#include "trace/summary.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS 1000000ull

/* --- words --- */

static void test_providers(void **state)
{
	(void)state;
	struct trace_config c = { 0 };
	struct trace_ids ids = { 0 };
	assert_ok(trace_config_providers(&c,
					 "A.B:0x10:4:K=\"a,b\";L=x:y,C,Microsoft-Windows-DotNETRuntime:8000:Warning"));
	assert_int_equal(c.providers.n, 3);
	assert_string_equal(c.providers.v[0].name, "A.B");
	assert_int_equal(c.providers.v[0].keywords, 0x10);
	assert_int_equal(c.providers.v[0].level, 4);
	assert_string_equal(c.providers.v[0].args, "K=\"a,b\";L=x:y");
	assert_true(c.providers.v[1].keywords == UINT64_MAX);
	assert_int_equal(c.providers.v[1].level, 5);
	assert_null(c.providers.v[1].args);
	assert_int_equal(c.providers.v[2].keywords, 0x8000);
	assert_int_equal(c.providers.v[2].level, 3);
	/* Asked for twice: both. */
	assert_ok(trace_config_profile(&c, "gc", 10));
	assert_int_equal(c.providers.n, 3);
	assert_int_equal(c.providers.v[2].keywords, 0x8001);
	assert_int_equal(c.providers.v[2].level, 4);
	assert_ok(trace_config_finish(&c, &ids));
	assert_false(c.widened);
	trace_config_fini(&c);
}

static void test_wrong_words(void **state)
{
	(void)state;
	static const char *const providers[] = { "",
						 ",",
						 "A,",
						 "A B",
						 "A:zz",
						 "A:0x",
						 "A:1:6",
						 "A:1:loud",
						 "A:1:4:nothing",
						 "A:\"x",
						 "A:11111111111111111" };
	static const char *const stops[] = { "",	   "gc-pause",	 "gc-pause>", "gc-pause>x",
					     "gc-pause>0", "exception:", "oom",	      "gc-pause>>50ms" };
	static const char *const numbers[] = { "", "x", "1,", ",1", "1,x", "/3", "A/", "4294967296", "-1" };
	for (size_t i = 0; i < ARRAY_SIZE(providers); i++) {
		struct trace_config c = { 0 };
		assert_err(trace_config_providers(&c, providers[i]), ERR_USAGE);
		trace_config_fini(&c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++) {
		struct trace_config c = { 0 };
		assert_err(trace_config_stop_on(&c, stops[i]), ERR_USAGE);
		trace_config_fini(&c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		struct trace_ids ids = { 0 };
		assert_err(trace_ids_parse("--only-ids", numbers[i], false, &ids), ERR_USAGE);
		trace_ids_fini(&ids);
	}
	assert_err(trace_config_check_profile("cpu,nothing"), ERR_USAGE);
	assert_err(trace_config_check_profile(""), ERR_USAGE);
}

static void test_profiles_by_version(void **state)
{
	(void)state;
	struct trace_config c8 = { 0 }, c10 = { 0 };
	assert_ok(trace_config_profile(&c8, "alloc", 8));
	assert_ok(trace_config_profile(&c10, "alloc", 10));
	assert_int_equal(c8.providers.v[0].level, 5);
	assert_int_equal(c8.providers.v[0].keywords, 1);
	assert_int_equal(c10.providers.v[0].level, 4);
	assert_true(c10.providers.v[0].keywords == 0x80000000001);
	trace_config_fini(&c8);
	trace_config_fini(&c10);
	for (const struct trace_profile *p = trace_profiles(); p->name; p++) {
		for (unsigned major = 0; major < 12; major++) {
			struct trace_config c = { 0 };
			assert_ok(trace_config_profile(&c, p->name, major));
			assert_true(c.providers.n > 0);
			trace_config_fini(&c);
		}
	}
}

static void test_numbers(void **state)
{
	(void)state;
	struct trace_config c = { 0 };
	struct trace_ids ids = { 0 };
	assert_ok(trace_ids_parse("--only-ids", "80,My.Own/3", false, &ids));
	assert_err(trace_ids_parse("--skip-ids", "4", true, &ids), ERR_USAGE);
	assert_ok(trace_config_profile(&c, "exceptions", 10));
	assert_err(trace_config_finish(&c, &ids), ERR_USAGE); /* My.Own is not listened to */
	assert_ok(trace_config_providers(&c, "My.Own"));
	assert_ok(trace_config_finish(&c, &ids));
	assert_int_equal(c.providers.v[0].n_only_ids, 1);
	assert_int_equal(c.providers.v[0].only_ids[0], 80);
	assert_int_equal(c.providers.v[1].only_ids[0], 3);
	assert_false(c.providers.v[0].skip_ids);
	assert_true(trace_ids_take(&ids, "Anyone", 80));
	assert_true(trace_ids_take(&ids, "my.own", 3));
	assert_false(trace_ids_take(&ids, "Anyone", 3));
	/* What would never strike is refused. */
	struct trace_ids without = { 0 };
	assert_ok(trace_ids_parse("--skip-ids", "80", true, &without));
	assert_false(trace_ids_take(&without, "Anyone", 80));
	assert_true(trace_ids_take(&without, "Anyone", 81));
	assert_ok(trace_config_stop_on(&c, "exception"));
	assert_err(trace_config_finish(&c, &without), ERR_USAGE);
	trace_config_fini(&c);
	trace_ids_fini(&ids);
	trace_ids_fini(&without);
}

/* --- streams --- */

enum { M_SAMPLE = 1, M_EXCEPTION, M_METHOD, M_SUSPEND, M_RESTART, M_OWN };

struct stream {
	struct build_nettrace b;
	uint32_t sequence[8]; /* by thread */
};

static void begin(struct stream *s, uint32_t pointer_size)
{
	static const struct nettrace_field field = { .name = "Text", .type = NETTRACE_UTF16Z };
	static const struct nettrace_meta metas[] = {
		{ .id = M_SAMPLE, .provider = CLR_SAMPLE_PROVIDER },
		{ .id = M_EXCEPTION, .provider = CLR_PROVIDER, .event_id = 80, .version = 1 },
		{ .id = M_METHOD, .provider = CLR_RUNDOWN_PROVIDER, .event_id = 144, .version = 1 },
		{ .id = M_SUSPEND, .provider = CLR_PROVIDER, .event_id = 9, .version = 1 },
		{ .id = M_RESTART, .provider = CLR_PROVIDER, .event_id = 3, .version = 1 },
		{ .id = M_OWN,
		  .provider = "Shop.Events",
		  .event_id = 5,
		  .name = "Sold",
		  .fields = &field,
		  .n_fields = 1 },
	};
	*s = (struct stream){ .b = { .pointer_size = pointer_size } };
	build_nettrace_begin(&s->b, 4);
	for (size_t i = 0; i < ARRAY_SIZE(metas); i++)
		build_nettrace_meta(&s->b, &metas[i]);
}

static void put(struct stream *s, uint32_t meta, uint64_t thread, uint64_t capture, uint64_t time, uint32_t stack,
		const struct buf *payload)
{
	build_nettrace_event(&s->b, &(struct build_event){ .meta_id = meta,
							   .sequence = ++s->sequence[capture],
							   .capture_thread = capture,
							   .thread = thread,
							   .time = time,
							   .stack_id = stack,
							   .payload = payload->data,
							   .payload_size = payload->len,
							   .sorted = true });
}

static void put_sample(struct stream *s, uint64_t thread, uint64_t time, uint32_t stack, uint32_t type)
{
	struct buf p = { 0 };
	build_u32(&p, type);
	put(s, M_SAMPLE, thread, 7, time, stack, &p);
	buf_free(&p);
}

static void put_exception(struct stream *s, uint64_t thread, uint64_t time, const char *type, uint32_t stack)
{
	struct buf p = { 0 };
	build_utf16z(&p, type);
	build_utf16z(&p, "message");
	build_u64(&p, 0);
	build_u32(&p, 0);
	build_u16(&p, 0);
	build_u16(&p, 0);
	put(s, M_EXCEPTION, thread, thread, time, stack, &p);
	buf_free(&p);
}

static void put_method(struct stream *s, uint64_t start, const char *type, const char *name)
{
	struct buf p = { 0 };
	build_u64(&p, start);
	build_u64(&p, 1);
	build_u64(&p, start);
	build_u32(&p, 0x100);
	build_u32(&p, 0);
	build_u32(&p, 0);
	build_utf16z(&p, type);
	build_utf16z(&p, name);
	build_utf16z(&p, "void ()");
	build_u16(&p, 0);
	put(s, M_METHOD, 6, 6, 1000 * MS, 0, &p);
	buf_free(&p);
}

static void put_pause(struct stream *s, uint64_t time, uint64_t length)
{
	struct buf p = { 0 };
	build_u32(&p, 1);
	build_u32(&p, 1);
	build_u16(&p, 0);
	put(s, M_SUSPEND, 5, 5, time, 0, &p);
	buf_clear(&p);
	build_u16(&p, 0);
	put(s, M_RESTART, 5, 5, time + length, 0, &p);
	buf_free(&p);
}

static void save(const struct buf *bytes, char path[40])
{
	strcpy(path, "/tmp/drdotnet-unit-XXXXXX");
	CLOSE_FD int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_ok(fd_write_full(fd, buf_cstr(bytes), bytes->len, DEADLINE_NEVER));
	/* Old enough not to be taken for one that is being written. */
	assert_int_equal(futimens(fd, (struct timespec[]){ { 1, 0 }, { 1, 0 } }), 0);
}

/* Two threads, sampled every 10 ms, four rounds; thread 2 ends after the second. Thread 1 waits in its last. */
static void sampled_stream(struct stream *s, uint32_t pointer_size)
{
	begin(s, pointer_size);
	build_nettrace_stack(&s->b, 1, (const uint64_t[]){ 0x1010, 0x2010 }, 2);
	build_nettrace_stack(&s->b, 2, (const uint64_t[]){ 0x3010, 0x2010 }, 2);
	put_sample(s, 1, 10 * MS, 1, 2);
	put_sample(s, 2, 11 * MS, 2, 2);
	put_sample(s, 1, 20 * MS, 1, 2);
	put_sample(s, 2, 21 * MS, 2, 2);
	put_sample(s, 1, 30 * MS, 2, 2);
	put_sample(s, 1, 40 * MS, 2, 1);
	put_method(s, 0x1000, "Shop.Orders", "Place");
	put_method(s, 0x2000, "Shop.Program", "Main");
	put_method(s, 0x3000, "System.Text.Encoder", "Write");
	build_nettrace_end(&s->b);
}

static void export(const char *path, enum export_format format, struct buf *ret)
{
	struct trace_samples_options options = { .spool_dir = "/tmp" };
	struct trace_samples samples;
	struct out out;
	assert_ok(trace_samples(path, &options, &samples));
	assert_true(samples.cpu);
	assert_int_equal(samples.unnamed, 0);
	assert_null(samples.source.damage);
	CLOSE_FD int fd = memfd_create("out", MFD_CLOEXEC);
	out_init(&out, fd, false);
	assert_ok(export_write(format, samples.profile,
			       &(struct export_info){ .name = "x", .program = "y", .event = "samples" }, &out));
	assert_ok(out_finish(&out));
	out_fini(&out);
	trace_samples_fini(&samples);
	CLEANUP(mem_freep) char *name = mem_printf("/proc/self/fd/%d", fd);
	assert_ok(file_read(name, 1 << 20, ret));
}

static void test_samples(void **state)
{
	(void)state;
	for (uint32_t pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
		struct stream s;
		char path[40];
		CLEANUP(buf_free) struct buf folded = { 0 };
		CLEANUP(buf_free) struct buf speedscope = { 0 };
		sampled_stream(&s, pointer_size);
		save(&s.b.out, path);
		export(path, EXPORT_FOLDED, &folded);
		assert_string_equal(buf_cstr(&folded),
				    "Thread 1;Shop.Program.Main;Shop.Orders.Place 2\n"
				    "Thread 1;Shop.Program.Main;System.Text.Encoder.Write 1\n"
				    "Thread 1;Shop.Program.Main;System.Text.Encoder.Write;[native code or waiting] 1\n"
				    "Thread 2;Shop.Program.Main;System.Text.Encoder.Write 2\n");
		export(path, EXPORT_SPEEDSCOPE, &speedscope);
		/* The last look stands for a usual round; the thread that ended only until the round it missed. */
		assert_non_null(strstr(buf_cstr(&speedscope), "\"endValue\":40000000"));
		assert_non_null(strstr(buf_cstr(&speedscope), "\"name\":\"Thread 2\",\"unit\":\"nanoseconds\","
							      "\"startValue\":0,\"endValue\":40000000,\"events\":["
							      "{\"type\":\"O\",\"frame\":0,\"at\":1000000},"
							      "{\"type\":\"O\",\"frame\":2,\"at\":1000000},"
							      "{\"type\":\"C\",\"frame\":2,\"at\":20000000},"
							      "{\"type\":\"C\",\"frame\":0,\"at\":20000000}]"));
		unlink(path);
		build_nettrace_free(&s.b);
	}
}

static void test_events_with_stacks(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	struct trace_samples samples;
	begin(&s, 8);
	build_nettrace_stack(&s.b, 1, (const uint64_t[]){ 0x1010, 0x9999 }, 2);
	put_exception(&s, 1, 10, "System.TimeoutException", 1);
	put_exception(&s, 1, 20, "System.TimeoutException", 1);
	put_exception(&s, 2, 20, "System.TimeoutException", 0);
	put_method(&s, 0x1000, "Shop.Orders", "Place");
	build_nettrace_end(&s.b);
	save(&s.b.out, path);
	assert_ok(trace_samples(path, &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples));
	assert_false(samples.cpu);
	assert_int_equal(profile_n_samples(samples.profile), 2);
	assert_int_equal(samples.unnamed, 1);
	trace_samples_fini(&samples);
	/* By name, also those without a stack. */
	assert_ok(trace_samples(
		path, &(struct trace_samples_options){ .spool_dir = "/tmp", .event = "exceptionthrown" }, &samples));
	assert_int_equal(profile_n_samples(samples.profile), 3);
	trace_samples_fini(&samples);
	unlink(path);
	build_nettrace_free(&s.b);
}

static void test_jsonl(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	struct buf p = { 0 };
	begin(&s, 8);
	build_nettrace_stack(&s.b, 1, (const uint64_t[]){ 0x1010 }, 1);
	build_utf16z(&p, "a \"b\"\n<");
	put(&s, M_OWN, 3, 3, BUILD_SYNC_TIME + 1, 1, &p);
	put_exception(&s, 1, BUILD_SYNC_TIME + 2, "X", 0);
	put_method(&s, 0x1000, "Shop.Orders", "Place");
	build_nettrace_end(&s.b);
	save(&s.b.out, path);
	struct trace_ids ids = { 0 };
	assert_ok(trace_ids_parse("--skip-ids", "144", true, &ids));
	CLOSE_FD int fd = memfd_create("out", MFD_CLOEXEC);
	struct out out;
	struct trace_source source;
	out_init(&out, fd, false);
	assert_ok(trace_jsonl(path, &ids, &out, &source));
	assert_ok(out_finish(&out));
	out_fini(&out);
	CLEANUP(mem_freep) char *name = mem_printf("/proc/self/fd/%d", fd);
	CLEANUP(buf_free) struct buf got = { 0 };
	assert_ok(file_read(name, 1 << 20, &got));
	assert_string_equal(
		buf_cstr(&got),
		"{\"time\":\"2026-03-05T05:01:01.234000001Z\",\"provider\":\"Shop.Events\",\"id\":5,\"event\":\"Sold\","
		"\"thread\":3,\"payload\":{\"Text\":\"a \\\"b\\\"\\n\\u003c\"},\"stack\":[\"Shop.Orders.Place\"]}\n"
		"{\"time\":\"2026-03-05T05:01:01.234000002Z\",\"provider\":\"Microsoft-Windows-DotNETRuntime\",\"id\":"
		"80,"
		"\"event\":\"ExceptionThrown\",\"thread\":1,\"payload\":{\"ExceptionType\":\"X\","
		"\"ExceptionMessage\":\"message\",\"ExceptionEIP\":0,\"ExceptionHRESULT\":0,\"ExceptionFlags\":0,"
		"\"ClrInstanceID\":0}}\n");
	trace_source_fini(&source);
	trace_ids_fini(&ids);
	buf_free(&p);
	unlink(path);
	build_nettrace_free(&s.b);
}

static void summarize(const char *path, struct buf *text, char **ret_finding)
{
	CLEANUP(report_freep) struct report *r = NULL;
	assert_ok(trace_summary(path, NULL, "/tmp", &r));
	report_render_text(r, &(struct report_text_style){ .ascii = true }, text);
	*ret_finding = mem_strdup(report_finding(r));
}

static void test_summary(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(mem_freep) char *finding = NULL;
	begin(&s, 8);
	put_exception(&s, 1, 10 * MS, "Shop.SoldOutException", 0);
	put_exception(&s, 1, 20 * MS, "Shop.SoldOutException", 0);
	s.sequence[1] += 2; /* lost */
	put_exception(&s, 1, 30 * MS, "Shop.LateException", 0);
	put_pause(&s, 40 * MS, 7 * MS);
	build_nettrace_end(&s.b);
	save(&s.b.out, path);
	summarize(path, &text, &finding);
	assert_string_equal(finding, "trace-lost-events");
	assert_non_null(strstr(text.data, "5 events of 1 provider in 37 ms"));
	assert_non_null(strstr(text.data, "2 more were lost (29 % of all)"));
	assert_non_null(strstr(text.data, "Longest GC pause 7 ms"));
	assert_non_null(strstr(text.data, "Shop.SoldOutException"));
	unlink(path);
	build_nettrace_free(&s.b);
}

/* --- files that are not what they seem --- */

static void test_no_traces(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
		const char *says;
	} files[] = {
		{ "", 0, "it is empty" },
		{ "\x1f\x8b\x08", 3, "gzip" },
		{ "PK\3\4", 4, "zip" },
		{ "{\"a\":1}", 7, "JSON" },
		{ "\177ELF\2\1\1", 7, "core file" },
		{ "some other file", 15, "expected 'Nettrace'" },
		{ "Nettrace\0\0\0\x14!FastSerialization.1", 32, "big-endian" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[40];
		struct buf bytes = { 0 };
		struct trace_samples samples;
		buf_add(&bytes, files[i].bytes, files[i].len);
		save(&bytes, path);
		struct err *err = trace_samples(path, &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples);
		assert_non_null(err);
		assert_int_equal(err_kind(err), ERR_BAD_DATA);
		if (!strstr(err_text(err), files[i].says))
			fail_msg("%s", err_text(err));
		err_free(err);
		buf_free(&bytes);
		unlink(path);
	}
	struct trace_samples samples;
	assert_err(trace_samples("/tmp", &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples), ERR_USAGE);
	assert_err(trace_samples("/nowhere/x", &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples),
		   ERR_NOT_FOUND);
}

/* Whatever is cut off, what is there is shown, and that it is not all is said. */
static void test_truncations(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	sampled_stream(&s, 8);
	for (size_t len = 0; len < s.b.out.len; len++) {
		struct buf bytes = { 0 };
		struct trace_samples samples;
		buf_add(&bytes, s.b.out.data, len);
		save(&bytes, path);
		struct err *err = trace_samples(path, &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples);
		if (err)
			assert_true(len < 128);
		else
			assert_non_null(samples.source.damage);
		if (!err) {
			assert_false(samples.source.growing);
			trace_samples_fini(&samples);
		}
		err_free(err);
		buf_free(&bytes);
		unlink(path);
	}
	build_nettrace_free(&s.b);
}

static void cut_it(void *user, const struct nettrace_header *header UNUSED)
{
	assert_int_equal(truncate(user, 100), 0);
}

static void test_cut_short_while_read(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	CLEANUP(trace_source_fini) struct trace_source source = { 0 };
	sampled_stream(&s, 8);
	s.b.out.len -= 1;
	save(&s.b.out, path);
	assert_ok(trace_read(path, NULL, &(struct nettrace_callbacks){ .header = cut_it }, path, &source));
	assert_false(source.growing);
	assert_string_equal(source.damage, "it became shorter while it was read");
	unlink(path);
	build_nettrace_free(&s.b);
}

static void test_growing(void **state)
{
	(void)state;
	struct stream s;
	char path[40];
	struct trace_samples samples;
	sampled_stream(&s, 8);
	s.b.out.len -= 1; /* its end */
	save(&s.b.out, path);
	assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0); /* now */
	assert_ok(trace_samples(path, &(struct trace_samples_options){ .spool_dir = "/tmp" }, &samples));
	assert_true(samples.source.growing);
	assert_non_null(strstr(samples.source.damage, "still being written"));
	trace_samples_fini(&samples);
	unlink(path);
	build_nettrace_free(&s.b);
}

/* --- cutting --- */

static void rewrite(void *user, const struct cut_object *o)
{
	struct buf *out = user;
	cut_write(out, out->len, o);
}

static void test_cut_is_exact(void **state)
{
	(void)state;
	struct stream s;
	sampled_stream(&s, 8);
	for (size_t chunk = 1; chunk < 400; chunk += chunk < 20 ? 1 : 37) {
		struct cutter c = { 0 };
		struct buf out = { 0 };
		for (size_t at = 0; at < s.b.out.len; at += chunk) {
			/* Its own memory, so that reading beyond the chunk is seen. */
			size_t n = MIN(chunk, s.b.out.len - at);
			CLEANUP(mem_freep) void *piece = mem_dup(s.b.out.data + at, n);
			assert_ok(cutter_feed(&c, piece, n, rewrite, &out));
			assert_true(c.whole <= at + n);
		}
		assert_true(c.ended);
		assert_int_equal(c.whole, s.b.out.len);
		assert_int_equal(out.len, s.b.out.len);
		assert_memory_equal(out.data, s.b.out.data, out.len);
		cutter_fini(&c);
		buf_free(&out);
	}
	build_nettrace_free(&s.b);
}

static void ignore(void *user, const struct cut_object *o)
{
	size_t *n = user;
	*n += o->head_len + o->body_len;
}

static void test_cut_flips(void **state)
{
	(void)state;
	struct stream s;
	sampled_stream(&s, 8);
	for (size_t i = 0; i < s.b.out.len; i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			struct cutter c = { 0 };
			size_t n = 0;
			CLEANUP(mem_freep) char *copy = mem_dup(s.b.out.data, s.b.out.len);
			copy[i] ^= (char)(1 << bit);
			err_ignore(cutter_feed(&c, copy, s.b.out.len, ignore, &n));
			assert_true(c.whole <= s.b.out.len);
			assert_true(n <= s.b.out.len);
			cutter_fini(&c);
		}
	}
	build_nettrace_free(&s.b);
}

/* --- the ring --- */

struct kept {
	uint64_t n, first, last, without_stack;
};

static void on_kept(void *user, const struct nettrace_event *event)
{
	struct kept *k = user;
	k->first = k->n ? MIN(k->first, event->time) : event->time;
	k->last = MAX(k->last, event->time);
	k->n++;
	if (event->n_frames != 1 || nettrace_event_frame(event, 0) != 0x1000 + event->time / (100 * MS))
		k->without_stack++;
}

struct ring_stream {
	struct ring ring;
	size_t most;
};

static void to_ring(void *user, const struct cut_object *o)
{
	struct ring_stream *r = user;
	ring_add(&r->ring, o);
	r->most = MAX(r->most, r->ring.bytes);
}

/* 100 s of events, one a millisecond from each of two threads, in blocks of 100 ms; every block has its own stack,
 * every `point_every` blocks comes a sequence point. */
static void long_stream(struct stream *s, unsigned point_every)
{
	begin(s, 8);
	uint32_t stack = 0;
	for (uint32_t block = 0; block < 1000; block++) {
		build_nettrace_stack(&s->b, ++stack, (const uint64_t[]){ 0x1000 + block }, 1);
		for (uint64_t i = 0; i < 100; i++) {
			put_exception(s, 1, (block * 100 + i) * MS, "X", stack);
			put_exception(s, 2, (block * 100 + i) * MS, "X", stack);
		}
		build_nettrace_flush(&s->b);
		if (block % point_every == point_every - 1) {
			build_nettrace_sequence_point(
				&s->b, (block + 1) * 100 * MS, 0,
				(struct build_sequence[]){ { 1, s->sequence[1] }, { 2, s->sequence[2] } }, 2);
			stack = 0;
		}
	}
}

static void check_ring(unsigned point_every, uint64_t keep_ms, size_t max_bytes, struct kept *kept, bool *ret_squeezed,
		       size_t *ret_most)
{
	struct stream s;
	struct cutter c = { 0 };
	struct ring_stream r = { 0 };
	struct buf out = { 0 };
	long_stream(&s, point_every);
	ring_init(&r.ring, keep_ms * MS, max_bytes);
	for (size_t at = 0; at < s.b.out.len; at += 5000)
		assert_ok(cutter_feed(&c, s.b.out.data + at, MIN((size_t)5000, s.b.out.len - at), to_ring, &r));
	uint64_t span = ring_span(&r.ring);
	*ret_squeezed = r.ring.squeezed;
	*ret_most = r.most;
	ring_drain(&r.ring, rewrite, &out);
	assert_int_equal(r.ring.bytes, 0);
	build_u8(&out, 1);
	*kept = (struct kept){ 0 };
	struct nettrace_reader *reader =
		nettrace_reader_new(NULL, &(struct nettrace_callbacks){ .event = on_kept }, kept);
	assert_ok(nettrace_reader_feed(reader, out.data, out.len));
	assert_ok(nettrace_reader_finish(reader));
	assert_int_equal(nettrace_reader_stats(reader)->lost, 0);
	assert_int_equal(nettrace_reader_stats(reader)->orphans, 0);
	assert_int_equal(kept->without_stack, 0);
	assert_int_equal(kept->last, 99999 * MS);
	assert_int_equal(span, kept->last - kept->first);
	nettrace_reader_free(reader);
	ring_fini(&r.ring);
	cutter_fini(&c);
	buf_free(&out);
	build_nettrace_free(&s.b);
}

static void test_ring(void **state)
{
	(void)state;
	static const unsigned points[] = { 1, 7, 100, 5000 };
	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct kept kept;
		bool squeezed;
		size_t most;
		check_ring(points[i], 3000, 64 << 20, &kept, &squeezed, &most);
		assert_false(squeezed);
		assert_true(kept.last - kept.first >= 2999 * MS);
		assert_true(kept.last - kept.first <= 3200 * MS);
		assert_int_equal(kept.n, 2 * (kept.last - kept.first + MS) / MS);
		/* All stream, no ring. */
		check_ring(points[i], 1000000, 64 << 20, &kept, &squeezed, &most);
		assert_int_equal(kept.n, 200000);
	}
}

static void test_ring_is_bounded(void **state)
{
	(void)state;
	struct kept kept;
	bool squeezed;
	size_t most;
	check_ring(7, 50000, 200000, &kept, &squeezed, &most);
	assert_true(squeezed);
	assert_true(most < 220000); /* and one block */
	assert_true(kept.last - kept.first < 50000 * MS);
	assert_true(kept.n > 0);
}

/* --- what ends a collection --- */

struct striking {
	struct trace_config config;
	struct trace_trigger_state state;
	uint64_t at;
};

static void strike(void *user, const struct nettrace_event *event)
{
	struct striking *s = user;
	if (!s->at && trace_triggers_event(&s->config.triggers, &s->state, event))
		s->at = event->time;
}

static uint64_t struck_at(const struct stream *s, const char *when)
{
	struct striking x = { 0 };
	assert_ok(trace_config_stop_on(&x.config, when));
	assert_ok(trace_config_finish(&x.config, &(struct trace_ids){ 0 }));
	assert_true(x.config.widened);
	assert_string_equal(x.config.providers.v[0].name, CLR_PROVIDER);
	struct nettrace_reader *reader = nettrace_reader_new(NULL, &(struct nettrace_callbacks){ .event = strike }, &x);
	assert_ok(nettrace_reader_feed(reader, s->b.out.data, s->b.out.len));
	assert_ok(nettrace_reader_finish(reader));
	nettrace_reader_free(reader);
	trace_config_fini(&x.config);
	return x.at;
}

static void test_triggers(void **state)
{
	(void)state;
	struct stream s;
	begin(&s, 8);
	put_exception(&s, 1, 10, "Shop.Outer+TimeoutException", 0);
	put_exception(&s, 1, 20, "System.TimeoutException", 0);
	put_exception(&s, 1, 30, "Shop.MyTimeoutException", 0);
	put_pause(&s, 40 * MS, 10 * MS);
	put_pause(&s, 60 * MS, 50 * MS);
	build_nettrace_end(&s.b);
	assert_int_equal(struck_at(&s, "exception"), 10);
	assert_int_equal(struck_at(&s, "exception:TimeoutException"), 10);
	assert_int_equal(struck_at(&s, "exception:System.TimeoutException"), 20);
	assert_int_equal(struck_at(&s, "exception:MyTimeoutException"), 30);
	assert_int_equal(struck_at(&s, "exception:Timeout"), 0);
	assert_int_equal(struck_at(&s, "gc-pause>5ms"), 50 * MS);
	assert_int_equal(struck_at(&s, "gc-pause>=50ms"), 110 * MS);
	assert_int_equal(struck_at(&s, "gc-pause>60ms"), 0);
	build_nettrace_free(&s.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_providers),
		cmocka_unit_test(test_wrong_words),
		cmocka_unit_test(test_profiles_by_version),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_events_with_stacks),
		cmocka_unit_test(test_jsonl),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_no_traces),
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_growing),
		cmocka_unit_test(test_cut_short_while_read),
		cmocka_unit_test(test_cut_is_exact),
		cmocka_unit_test(test_cut_flips),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_ring_is_bounded),
		cmocka_unit_test(test_triggers),
	};
	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
