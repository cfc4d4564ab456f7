#include "unit.h"

#include "base/clock.h"
#include "base/cursor.h"
#include "base/fd.h"
#include "base/str.h"
#include "fake_runtime.h"
#include "ipc/ask.h"
#include "ipc/connect.h"
#include "ipc/patient.h"
#include "ipc/wire.h"
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Generous: only tests of silence wait for it, and they use SILENCE_MS. */
#define ANSWER_MS 20000
#define SILENCE_MS 150

static char folder[] = "/tmp/drdotnet-test-ipc-XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	struct err *err = dir_remove(folder);
	int failed = err != NULL;
	err_free(err);
	return failed;
}

static const char *socket_path(void)
{
	static char path[200];
	static int n;
	snprintf(path, sizeof(path), "%s/dotnet-diagnostic-77-%d-socket", folder, n++);
	return path;
}

/* ---- ProcessInfo ---- */

static struct err *ask(struct fake_config config, uint64_t timeout_ms, struct ipc_process_info *ret)
{
	const char *path = socket_path();
	struct fake_runtime *f = fake_runtime_start(path, config);
	struct err *err = ipc_process_info(path, deadline_in_ms(timeout_ms), ret);
	fake_runtime_stop(f);
	return err;
}

static void test_info_of_each_release(void **state)
{
	(void)state;
	static const struct {
		int release, command;
	} cases[] = { { 11, 3 }, { 10, 3 }, { 9, 3 }, { 8, 3 }, { 7, 2 }, { 5, 1 } };
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ipc_process_info info = { 0 };
		assert_ok(ask((struct fake_config){ .release = cases[i].release, .cookie = 0xab }, ANSWER_MS, &info));
		assert_int_equal(info.command, cases[i].command);
		assert_int_equal(info.pid, 77);
		assert_int_equal(info.cookie[15], 0xab);
		assert_string_equal(info.command_line, "/app/fake --now");
		assert_string_equal(info.os, "Linux");
		assert_string_equal(info.arch, "x64");
		assert_true(str_eq(info.entry_assembly, info.command >= 2 ? "Fake" : NULL));
		assert_true(str_eq(info.rid, info.command >= 3 ? "linux-x64" : NULL));
		ipc_process_info_fini(&info);
	}
}

static void test_info_of_slow_runtime(void **state)
{
	(void)state;
	struct ipc_process_info info = { 0 };
	assert_ok(ask((struct fake_config){ .release = 10, .mood = FAKE_SLOW }, ANSWER_MS, &info));
	assert_string_equal(info.entry_assembly, "Fake");
	ipc_process_info_fini(&info);
}

static void test_info_of_bad_runtimes(void **state)
{
	(void)state;
	static const struct {
		enum fake_mood mood;
		enum err_kind kind;
	} cases[] = {
		{ FAKE_SILENT, ERR_TIMEOUT },	   { FAKE_DEAF, ERR_BUSY },
		{ FAKE_STARTING, ERR_BUSY },	   { FAKE_WRONG_MAGIC, ERR_BAD_DATA },
		{ FAKE_SHORT_SIZE, ERR_BAD_DATA }, { FAKE_LONG_SIZE, ERR_IO },
		{ FAKE_WRONG_KIND, ERR_BAD_DATA }, { FAKE_HUGE_STRING, ERR_BAD_DATA },
		{ FAKE_EMPTY, ERR_BAD_DATA },	   { FAKE_DIES, ERR_IO },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ipc_process_info info = { 0 };
		struct fake_config config = { .release = 10, .mood = cases[i].mood };
		uint64_t timeout_ms = cases[i].mood == FAKE_SILENT ? SILENCE_MS : ANSWER_MS;
		assert_err(ask(config, timeout_ms, &info), cases[i].kind);
	}
}

/* Hanging up may be noticed while sending or while reading. */
static void test_info_of_one_that_hangs_up(void **state)
{
	(void)state;
	struct ipc_process_info info = { 0 };
	assert_err(ask((struct fake_config){ .release = 10, .mood = FAKE_HANGS_UP }, ANSWER_MS, &info), ERR_IO);
}

static void test_info_of_very_old_runtime(void **state)
{
	(void)state;
	struct ipc_process_info info = { 0 };
	assert_err(ask((struct fake_config){ .release = 3 }, ANSWER_MS, &info), ERR_UNSUPPORTED);
}

static void test_info_of_nobody(void **state)
{
	(void)state;
	struct ipc_process_info info = { 0 };
	assert_err(ipc_process_info(socket_path(), deadline_in_ms(ANSWER_MS), &info), ERR_NOT_FOUND);
	/* a left-over file */
	const char *path = socket_path();
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	str_copy(address.sun_path, sizeof(address.sun_path), path);
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_err(ipc_process_info(path, deadline_in_ms(ANSWER_MS), &info), ERR_NOT_FOUND);
}

static void test_path_longer_than_an_address(void **state)
{
	(void)state;
	char deep[300], link[400];
	snprintf(deep, sizeof(deep), "%s/%0120d", folder, 7);
	assert_int_equal(mkdir(deep, 0700), 0);
	snprintf(link, sizeof(link), "%s/s", deep);
	const char *path = socket_path();
	struct fake_runtime *f = fake_runtime_start(path, (struct fake_config){ .release = 10 });
	assert_int_equal(rename(path, link), 0);
	struct ipc_process_info info = { 0 };
	assert_ok(ipc_process_info(link, deadline_in_ms(ANSWER_MS), &info));
	assert_int_equal(info.pid, 77);
	ipc_process_info_fini(&info);
	assert_int_equal(unlink(link), 0);
	fake_runtime_stop(f);
}

/* One probe tells any number of left-overs from those who are there, who do not notice. */
static void test_nobody_is_told_from_somebody(void **state)
{
	(void)state;
	CLEANUP(mem_freep) char *stale = mem_strdup(socket_path()), *file = mem_strdup(socket_path());
	CLEANUP(mem_freep) char *well = mem_strdup(socket_path()), *none = mem_strdup(socket_path());
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	str_copy(address.sun_path, sizeof(address.sun_path), stale);
	CLOSE_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), probe = connect_probe();
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	fd_closep(&fd);
	assert_ok(file_write_atomic(file, "x", 1, 0600));
	struct fake_runtime *f = fake_runtime_start(well, (struct fake_config){ .release = 10 });
	for (int i = 0; i < 2; i++) {
		assert_false(connect_worth(probe, stale));
		assert_false(connect_worth(probe, file));
		assert_false(connect_worth(probe, none));
		assert_true(connect_worth(probe, well));
	}
	assert_true(connect_worth(-1, stale));
	struct question questions[] = { { .socket = stale }, { .socket = well }, { .socket = none } };
	ask_all(questions, ARRAY_SIZE(questions), ANSWER_MS);
	assert_err(questions[0].err, ERR_NOT_FOUND);
	assert_ok(questions[1].err);
	assert_err(questions[2].err, ERR_NOT_FOUND);
	ipc_process_info_fini(&questions[1].info);
	fake_runtime_stop(f);
}

static uint64_t ask_silent_ones(size_t n, bool *ret_well)
{
	struct fake_runtime *fakes[33];
	struct question questions[33] = { 0 };
	assert_true(n < ARRAY_SIZE(fakes));
	for (size_t i = 0; i <= n; i++) {
		const char *path = mem_strdup(socket_path());
		fakes[i] = fake_runtime_start(
			path, (struct fake_config){ .release = 10, .mood = i < n ? FAKE_SILENT : FAKE_WELL });
		questions[i] = (struct question){ .socket = path };
	}
	uint64_t start = clock_mono_ns();
	ask_all(questions, n + 1, 8 * SILENCE_MS); /* the well one must make it on a busy machine too */
	uint64_t took = clock_mono_ns() - start;
	*ret_well = !questions[n].err && str_eq(questions[n].info.entry_assembly, "Fake");
	for (size_t i = 0; i <= n; i++) {
		if (i < n)
			assert_int_equal(err_kind(questions[i].err), ERR_TIMEOUT);
		err_free(questions[i].err);
		ipc_process_info_fini(&questions[i].info);
		fake_runtime_stop(fakes[i]);
		mem_free((void *)(uintptr_t)questions[i].socket);
	}
	return took;
}

static void test_many_silent_cost_one_timeout(void **state)
{
	(void)state;
	bool well;
	uint64_t one = ask_silent_ones(1, &well);
	assert_true(well);
	uint64_t many = ask_silent_ones(32, &well);
	assert_true(well);
	assert_true(many < one * 8);
}

/* They listen, and nobody is behind: the first are waited for, once, and the last are not asked at all. */
static void test_a_flood_of_silent_sockets_is_not_waited_for(void **state)
{
	(void)state;
	enum { N = 600 };
	static struct question questions[N];
	static int fds[N];
	size_t timed_out = 0, not_asked = 0;
	for (size_t i = 0; i < N; i++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		questions[i] = (struct question){ .socket = mem_strdup(socket_path()) };
		str_copy(address.sun_path, sizeof(address.sun_path), questions[i].socket);
		fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&address, sizeof(address)) | listen(fds[i], 1), 0);
	}
	ask_all(questions, N, SILENCE_MS);
	assert_int_equal(err_kind(questions[0].err), ERR_TIMEOUT);
	assert_int_equal(err_kind(questions[N - 1].err), ERR_CANCELLED);
	for (size_t i = 0; i < N; i++) {
		timed_out += err_kind(questions[i].err) == ERR_TIMEOUT;
		not_asked += err_kind(questions[i].err) == ERR_CANCELLED;
		err_free(questions[i].err);
		mem_free((void *)(uintptr_t)questions[i].socket);
		close(fds[i]);
	}
	assert_int_equal(timed_out + not_asked, N);
}

static void test_listener_must_be_the_process(void **state)
{
	(void)state;
	const char *path = socket_path();
	struct fake_runtime *f = fake_runtime_start(path, (struct fake_config){ .release = 10 });
	struct question wrong = { .socket = path, .expect_pid = 1 };
	ask_all(&wrong, 1, ANSWER_MS);
	assert_int_equal(wrong.peer_pid, getpid());
	assert_err(wrong.err, ERR_BAD_DATA);
	CLEANUP(buf_free) struct buf requests = fake_runtime_requests(f);
	assert_int_equal(requests.len, 0);
	struct question right = { .socket = path, .expect_pid = getpid() };
	ask_all(&right, 1, ANSWER_MS);
	assert_ok(right.err);
	ipc_process_info_fini(&right.info);
	fake_runtime_stop(f);
}

/* ---- CollectTracing ---- */

static const uint32_t only_ids[] = { 80, 250 };
static const struct ipc_provider providers[] = {
	{ .name = "Microsoft-Windows-DotNETRuntime",
	  .keywords = 0x8000,
	  .level = 4,
	  .only_ids = only_ids,
	  .n_only_ids = 2 },
	{ .name = "Shop", .keywords = 1, .level = 5, .args = "EventCounterIntervalSec=1" },
};

static void skip_string(struct cursor *c, const char *want)
{
	uint32_t n = cursor_u32(c);
	const uint8_t *units = cursor_take(c, (size_t)n * 2);
	struct buf s = { 0 };
	if (n)
		utf16_add(&s, units, n - 1);
	assert_true(want ? str_eq(buf_cstr(&s), want) : n == 0);
	buf_free(&s);
}

/* Reads the request as a runtime of that version does; all of it must be used. */
static void check_request(const uint8_t *data, size_t len, int version)
{
	struct cursor c = cursor_make(data, len);
	assert_memory_equal(cursor_take(&c, 14), "DOTNET_IPC_V1", 14);
	assert_int_equal(cursor_u16(&c), len);
	assert_int_equal(cursor_u8(&c), 2);
	assert_int_equal(cursor_u8(&c), version + 1);
	assert_int_equal(cursor_u16(&c), 0);
	if (version >= 5)
		assert_int_equal(cursor_u32(&c), 0);
	assert_int_equal(cursor_u32(&c), 64);
	assert_int_equal(cursor_u32(&c), 1);
	if (version >= 4)
		assert_int_equal(cursor_u64(&c), 0x30);
	else if (version >= 2)
		assert_int_equal(cursor_u8(&c), 1);
	if (version >= 3)
		assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_u32(&c), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(cursor_u64(&c), providers[i].keywords);
		assert_int_equal(cursor_u32(&c), providers[i].level);
		skip_string(&c, providers[i].name);
		skip_string(&c, providers[i].args);
		if (version < 5)
			continue;
		assert_int_equal(cursor_u8(&c), i == 0);
		assert_int_equal(cursor_u32(&c), providers[i].n_only_ids);
		for (size_t k = 0; k < providers[i].n_only_ids; k++)
			assert_int_equal(cursor_u32(&c), only_ids[k]);
	}
	if (version >= 6)
		assert_int_equal(cursor_u32(&c), 0);
	assert_true(cursor_ok(&c));
	assert_int_equal(cursor_left(&c), 0);
}

static const struct ipc_trace_config trace_config = {
	.buffer_mb = 64, .rundown = 0x30, .providers = providers, .n_providers = ARRAY_SIZE(providers)
};

/* The last of the requests, which came with falling versions. */
static void check_requests(struct fake_runtime *f, int accepted)
{
	struct buf all = fake_runtime_requests(f);
	size_t at = 0;
	for (int version = 6; version >= accepted; version--) {
		uint16_t size;
		assert_true(at + 20 <= all.len);
		memcpy(&size, all.data + at + 14, 2);
		check_request((const uint8_t *)all.data + at, size, version);
		at += size;
	}
	assert_int_equal(at, all.len);
	buf_free(&all);
}

static void test_trace_of_each_release(void **state)
{
	(void)state;
	static const struct {
		int release, command;
		bool stacks_refused, ids_ignored;
	} cases[] = {
		{ 11, 6, false, false }, { 10, 5, false, false }, { 9, 4, false, true },
		{ 8, 2, true, true },	 { 7, 2, true, true },	  { 3, 1, true, true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *path = socket_path();
		struct fake_config config = { .release = cases[i].release, .stream = "Nettrace...", .stream_len = 11 };
		struct fake_runtime *f = fake_runtime_start(path, config);
		struct ipc_trace trace;
		assert_ok(ipc_trace_start(path, &trace_config, deadline_in_ms(ANSWER_MS), &trace));
		assert_int_equal(trace.command, cases[i].command);
		assert_int_equal(trace.session_id, 4711);
		assert_int_equal(trace.stacks_refused, cases[i].stacks_refused);
		assert_int_equal(trace.ids_ignored, cases[i].ids_ignored);
		check_requests(f, cases[i].command);

		char stream[11];
		assert_ok(fd_read_full(trace.fd, stream, sizeof(stream), deadline_in_ms(ANSWER_MS)));
		assert_memory_equal(stream, "Nettrace...", 11);
		int stop = -1;
		assert_ok(ipc_trace_stop(path, trace.session_id, deadline_in_ms(ANSWER_MS), &stop));
		assert_err(fd_read_full(trace.fd, stream, 1, deadline_in_ms(ANSWER_MS)), ERR_IO);
		close(trace.fd);
		close(stop);
		fake_runtime_stop(f);
	}
}

/* Started and stopped in one go, whichever version it knows: the stream ends by itself. */
static void test_trace_at_a_glance(void **state)
{
	(void)state;
	static const int releases[] = { 11, 10, 9, 8, 3 };
	for (size_t i = 0; i < ARRAY_SIZE(releases); i++) {
		const char *path = socket_path();
		struct fake_config config = { .release = releases[i], .stream = "Nettrace...", .stream_len = 11 };
		struct fake_runtime *f = fake_runtime_start(path, config);
		struct ipc_trace trace;
		int stop = -1;
		assert_ok(ipc_trace_glance(path, &trace_config, deadline_in_ms(ANSWER_MS), &trace, &stop));
		assert_true(stop >= 0);
		char stream[12];
		assert_ok(fd_read_full(trace.fd, stream, 11, deadline_in_ms(ANSWER_MS)));
		assert_err(fd_read_full(trace.fd, stream, 1, deadline_in_ms(ANSWER_MS)), ERR_IO);
		CLEANUP(buf_free) struct buf requests = fake_runtime_requests(f);
		const uint8_t *last = (const uint8_t *)requests.data + requests.len - 28;
		assert_true(last[16] == 2 && last[17] == 1);
		assert_int_equal(last[20] | last[21] << 8, 4711);
		close(trace.fd);
		close(stop);
		fake_runtime_stop(f);
	}
}

static void test_trace_of_bad_runtimes(void **state)
{
	(void)state;
	static const struct {
		enum fake_mood mood;
		enum err_kind kind;
	} cases[] = {
		{ FAKE_SILENT, ERR_TIMEOUT },	    { FAKE_DEAF, ERR_BUSY },	       { FAKE_STARTING, ERR_BUSY },
		{ FAKE_WRONG_MAGIC, ERR_BAD_DATA }, { FAKE_SHORT_SIZE, ERR_BAD_DATA }, { FAKE_LONG_SIZE, ERR_IO },
		{ FAKE_WRONG_KIND, ERR_BAD_DATA },  { FAKE_EMPTY, ERR_BAD_DATA },      { FAKE_DIES, ERR_IO },
		{ FAKE_HANGS_UP, ERR_IO },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *path = socket_path();
		struct fake_runtime *f =
			fake_runtime_start(path, (struct fake_config){ .release = 10, .mood = cases[i].mood });
		struct ipc_trace trace;
		bool waits = cases[i].mood == FAKE_SILENT || cases[i].mood == FAKE_DEAF;
		struct deadline deadline = deadline_in_ms(waits ? SILENCE_MS : ANSWER_MS);
		assert_err(ipc_trace_start(path, &trace_config, deadline, &trace), cases[i].kind);
		int stop = -1;
		deadline = deadline_in_ms(waits ? SILENCE_MS : ANSWER_MS);
		assert_err(ipc_trace_glance(path, &trace_config, deadline, &trace, &stop), cases[i].kind);
		assert_int_equal(stop, -1);
		fake_runtime_stop(f);
	}
}

static void test_too_long_request_is_not_sent(void **state)
{
	(void)state;
	char *args = mem_zalloc(70001);
	memset(args, 'a', 70000);
	struct ipc_provider provider = { .name = "Shop", .args = args };
	struct ipc_trace_config config = { .buffer_mb = 1, .providers = &provider, .n_providers = 1 };
	const char *path = socket_path();
	struct fake_runtime *f = fake_runtime_start(path, (struct fake_config){ .release = 10 });
	struct ipc_trace trace;
	assert_err(ipc_trace_start(path, &config, deadline_in_ms(ANSWER_MS), &trace), ERR_USAGE);
	CLEANUP(buf_free) struct buf requests = fake_runtime_requests(f);
	assert_int_equal(requests.len, 0);
	fake_runtime_stop(f);
	mem_free(args);
}

/* ---- replies cut and bent ---- */

static void info_payload(struct buf *b)
{
	buf_u32(b, 1);
	buf_u64(b, 42);
	buf_add(b, "0123456789abcdef", 16);
	static const char *const strings[] = { "/app/shop", "Linux", "x64", "Shop", "10.0.1", NULL };
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		wire_string(b, strings[i]);
}

static struct err *parse(const uint8_t *data, size_t len)
{
	/* a copy of exactly that size, so that the sanitizer sees a read beyond it */
	uint8_t *copy = mem_dup(data, len);
	const uint8_t *payload;
	size_t payload_len;
	uint32_t hresult;
	struct ipc_process_info info = { 0 };
	struct err *err = wire_reply(copy, len, &payload, &payload_len, &hresult);
	if (!err && hresult)
		err = wire_refusal(hresult);
	else if (!err)
		err = wire_process_info(3, payload, payload_len, &info);
	ipc_process_info_fini(&info);
	mem_free(copy);
	return err;
}

static void make_reply(struct buf *b)
{
	struct buf payload = { 0 };
	info_payload(&payload);
	wire_begin(b, WIRE_SET_REPLY, 0);
	buf_add(b, payload.data, payload.len);
	assert_ok(wire_end(b));
	buf_free(&payload);
}

static void test_truncated_replies(void **state)
{
	(void)state;
	struct buf b = { 0 };
	make_reply(&b);
	assert_ok(parse((const uint8_t *)b.data, b.len));
	for (size_t len = 0; len < b.len; len++)
		assert_err(parse((const uint8_t *)b.data, len), ERR_BAD_DATA);
	/* consistently short: the size in the header fits what is there */
	for (uint16_t len = 20; len < b.len; len++) {
		memcpy(b.data + 14, &len, 2);
		assert_err(parse((const uint8_t *)b.data, len), ERR_BAD_DATA);
	}
	buf_free(&b);
}

static void test_flipped_replies(void **state)
{
	(void)state;
	struct buf b = { 0 };
	make_reply(&b);
	size_t refused = 0;
	for (size_t i = 0; i < b.len * 8; i++) {
		b.data[i / 8] = (char)(b.data[i / 8] ^ (1 << i % 8));
		struct err *err = parse((const uint8_t *)b.data, b.len);
		refused += err != NULL;
		if (i / 8 < 14)
			assert_non_null(err);
		err_free(err);
		b.data[i / 8] = (char)(b.data[i / 8] ^ (1 << i % 8));
	}
	assert_true(refused > 14 * 8 && refused < b.len * 8);
	buf_free(&b);
}

static void test_refusals_in_words(void **state)
{
	(void)state;
	assert_err(wire_refusal(0x80131385), ERR_UNSUPPORTED);
	assert_err(wire_refusal(0x8013135b), ERR_BUSY);
	struct err *err = wire_refusal(0x87654321);
	assert_non_null(strstr(err_text(err), "0x87654321"));
	err_free(err);
}

/* Newer commands add words to the error code; a pipe stands in for the runtime. */
static void test_dump_answers(void **state)
{
	(void)state;
	static const struct {
		uint32_t hresult;
		const char *text;
		bool known;
		const char *words;
	} cases[] = {
		{ 0, NULL, true, NULL },
		{ WIRE_UNKNOWN_COMMAND, NULL, false, NULL },
		{ 0x80004005, "no room\n", true, "the runtime wrote no dump: no room" },
		{ 0x80004005, NULL, true, "the runtime failed without saying why" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = { 0 };
		int p[2];
		bool known = false;
		wire_begin(&b, WIRE_SET_REPLY, cases[i].hresult ? 0xFF : 0);
		buf_u32(&b, cases[i].hresult);
		if (cases[i].text)
			wire_string(&b, cases[i].text);
		assert_ok(wire_end(&b));
		assert_int_equal(pipe(p), 0);
		assert_int_equal(write(p[1], b.data, b.len), b.len);
		struct err *err = ipc_dump_answer(p[0], deadline_in_ms(1000), &known);
		assert_int_equal(known, cases[i].known);
		assert_true(!err == !cases[i].words);
		if (err)
			assert_string_equal(err_text(err), cases[i].words);
		err_free(err);
		for (size_t len = 0; len < b.len; len++)
			mem_free(wire_refusal_text((const uint8_t *)b.data, len));
		close(p[0]);
		close(p[1]);
		buf_free(&b);
	}
}

/* ---- finding ---- */

static void test_find_what_is_not_there(void **state)
{
	(void)state;
	struct patient p;
	char self[16];
	snprintf(self, sizeof(self), "%d", getpid());
	assert_err(patient_find(self, SILENCE_MS, &p), ERR_NOT_FOUND);
	assert_err(patient_find("4194305", SILENCE_MS, &p), ERR_NOT_FOUND);
	assert_err(patient_find("2147483647", SILENCE_MS, &p), ERR_NOT_FOUND);
	assert_err(patient_find("no-such\x1b[31m-process", SILENCE_MS, &p), ERR_NOT_FOUND);
	assert_err(patient_find("", SILENCE_MS, &p), ERR_USAGE);
}

static void test_the_host_is_no_name(void **state UNUSED)
{
	char host[] = "dotnet", own[] = "shop-worker", assembly[] = "Shop.Api";
	struct patient p = { .target.name = host, .info.entry_assembly = assembly };
	assert_string_equal(patient_process(&p), "Shop.Api");
	p.target.name = own;
	assert_string_equal(patient_process(&p), "shop-worker");
	p = (struct patient){ .target.name = host };
	assert_string_equal(patient_process(&p), "dotnet"); /* nothing better is known */
}

/* Without a free descriptor nothing is known of a process, least of all that there is none. */
static void test_find_without_descriptors(void **state UNUSED)
{
	struct rlimit before;
	struct patient p;
	char self[16];
	snprintf(self, sizeof(self), "%d", (int)getpid());
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	struct rlimit none = { 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	struct err *err = patient_find(self, SILENCE_MS, &p);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(err);
	assert_int_equal(err_kind(err), ERR_IO);
	assert_non_null(strstr(err_text(err), strerror(EMFILE)));
	err_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_host_is_no_name),
		cmocka_unit_test(test_info_of_each_release),
		cmocka_unit_test(test_info_of_slow_runtime),
		cmocka_unit_test(test_info_of_bad_runtimes),
		cmocka_unit_test(test_info_of_one_that_hangs_up),
		cmocka_unit_test(test_info_of_very_old_runtime),
		cmocka_unit_test(test_info_of_nobody),
		cmocka_unit_test(test_path_longer_than_an_address),
		cmocka_unit_test(test_nobody_is_told_from_somebody),
		cmocka_unit_test(test_many_silent_cost_one_timeout),
		cmocka_unit_test(test_a_flood_of_silent_sockets_is_not_waited_for),
		cmocka_unit_test(test_listener_must_be_the_process),
		cmocka_unit_test(test_trace_of_each_release),
		cmocka_unit_test(test_trace_at_a_glance),
		cmocka_unit_test(test_trace_of_bad_runtimes),
		cmocka_unit_test(test_too_long_request_is_not_sent),
		cmocka_unit_test(test_truncated_replies),
		cmocka_unit_test(test_flipped_replies),
		cmocka_unit_test(test_refusals_in_words),
		cmocka_unit_test(test_dump_answers),
		cmocka_unit_test(test_find_what_is_not_there),
		cmocka_unit_test(test_find_without_descriptors),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
