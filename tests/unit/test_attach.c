/* The host side against a runtime and a library that do not mean well. The real ones: tests/e2e/test_agent.py. */
#include "unit.h"

#include "attach/attach.h"
#include "attach/cpu.h"
#include "attach/notes.h"
#include "base/fd.h"
#include "base/str.h"
#include "build_core.h"
#include "ipc/patient.h"
#include "wire/agent.h"
#include "wire/image.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PATIENCE_MS 150

/* What the far side does when it is asked to load the library. */
struct act {
	uint32_t hresult;
	bool silent; /* the library never calls */
	bool wrong_token;
	bool hangs_up; /* right after its hello */
	struct wire_agent_note notes[3];
	size_t n_notes;
	const void *stream; /* what the copy sends; NULL = it never calls */
	size_t stream_len;
	const void *said; /* on the control line, by one that samples */
	size_t said_len;
	bool ends; /* and hangs up then */
};

struct stage {
	char folder[64], socket[128];
	int listener;
	struct act act;
	pthread_t thread;
	bool loadable; /* the library was where the command said, and cannot be changed by others */
};

static struct err *play_line(const struct wire_agent_config *config, enum wire_agent_line line, bool wrong, int *ret)
{
	struct wire_agent_hello hello = { .magic = WIRE_AGENT_MAGIC, .version = WIRE_AGENT_VERSION, .line = line };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/" WIRE_AGENT_SOCKET, config->folder);
	*ret = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(*ret, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_new(ERR_IO, "connect");
	memcpy(hello.token, config->token, sizeof(hello.token));
	hello.token[3] ^= wrong;
	return fd_write_full(*ret, &hello, sizeof(hello), DEADLINE_NEVER);
}

static void pass(int line, const char *path)
{
	struct wire_agent_note note = { .kind = WIRE_AGENT_ANSWER };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} passed = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec data = { &note, sizeof(note) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof(passed.bytes)
	};
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		note.code = errno;
		message.msg_control = NULL;
		message.msg_controllen = 0;
	}
	memcpy(CMSG_DATA(&passed.head), &fd, sizeof(fd));
	assert_int_equal(sendmsg(line, &message, MSG_NOSIGNAL), sizeof(note));
}

/* One that samples, as src/agent/cpu.c does. */
static void play_sampling(const struct act *act, int control)
{
	struct wire_agent_note sampled = { .kind = WIRE_AGENT_SAMPLED, .values = { [WIRE_AGENT_HANDLED] = 7 } };
	struct wire_agent_note left = { .kind = WIRE_AGENT_LEAVING };
	struct wire_agent_request r;
	char path[1024];
	err_ignore(fd_write_full(control, act->said, act->said_len, deadline_in_ms(PATIENCE_MS)));
	while (!act->ends && recv(control, &r, sizeof(r), MSG_WAITALL) == sizeof(r) && r.kind != WIRE_AGENT_LEAVE) {
		if (r.kind == WIRE_AGENT_OPEN && r.len < sizeof(path) &&
		    recv(control, path, r.len, MSG_WAITALL) == r.len) {
			path[r.len] = 0;
			pass(control, path);
		} else if (r.kind == WIRE_AGENT_STOP) {
			err_ignore(fd_write_full(control, &sampled, sizeof(sampled), DEADLINE_NEVER));
		}
	}
	if (!act->ends)
		err_ignore(fd_write_full(control, &left, sizeof(left), DEADLINE_NEVER));
}

static void play_library(struct stage *s, const struct wire_agent_config *config)
{
	CLOSE_FD int control = -1, copy = -1;
	const struct act *act = &s->act;
	if (act->silent || act->hresult)
		return;
	err_ignore(play_line(config, WIRE_AGENT_CONTROL, act->wrong_token, &control));
	if (act->hangs_up)
		return;
	if (act->said) {
		play_sampling(act, control);
		return;
	}
	if (act->stream) {
		err_ignore(play_line(config, WIRE_AGENT_COPY, act->wrong_token, &copy));
		err_ignore(fd_write_full(copy, act->stream, act->stream_len, deadline_in_ms(PATIENCE_MS)));
		fd_closep(&copy);
	}
	for (size_t i = 0; i < act->n_notes; i++)
		err_ignore(fd_write_full(control, &act->notes[i], sizeof(act->notes[i]), DEADLINE_NEVER));
	/* Whoever has sent no last note stays on the line until we have had enough. */
	err_ignore(fd_wait(control, POLLIN, deadline_in_ms(10 * PATIENCE_MS)));
}

/* One AttachProfiler: 20 bytes, timeout, class, path, data. */
static void *play_runtime(void *user)
{
	struct stage *s = user;
	uint8_t request[8192];
	struct wire_agent_config config;
	CLOSE_FD int fd = accept(s->listener, NULL, NULL);
	ssize_t n = recv(fd, request, sizeof(request), 0);
	uint32_t units = 0;
	if (n < 44)
		return NULL;
	memcpy(&units, request + 40, sizeof(units));
	memcpy(&config, request + 44 + units * 2 + 4, sizeof(config));
	CLEANUP(mem_freep) char *library = mem_printf("%s/" WIRE_AGENT_LIBRARY, config.folder);
	struct stat st, folder;
	s->loadable = stat(library, &st) == 0 && (st.st_mode & 07777) == 0444 && stat(config.folder, &folder) == 0 &&
		      (folder.st_mode & 07777) == 0711;
	uint8_t reply[24] = "DOTNET_IPC_V1";
	reply[14] = 24;
	reply[16] = 0xFF;
	reply[17] = s->act.hresult ? 0xFF : 0;
	memcpy(reply + 20, &s->act.hresult, sizeof(s->act.hresult));
	err_ignore(fd_write_full(fd, reply, sizeof(reply), DEADLINE_NEVER));
	play_library(s, &config);
	return NULL;
}

/* Of its own: who examines the same process waits for its turn. */
static struct patient patient_here(char *socket)
{
	struct target self;
	assert_ok(target_find_pid(getpid(), &self));
	struct patient p = {
		.target = { .pid = self.pid, .start_ticks = self.start_ticks, .uid = self.uid, .socket = socket }
	};
	target_fini(&self);
	memcpy(p.info.cookie, &p.target.pid, sizeof(p.target.pid));
	return p;
}

static void stage_open(struct stage *s, struct act act)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	*s = (struct stage){ .act = act };
	str_copy(s->folder, sizeof(s->folder), "/tmp/drdotnet-test-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	snprintf(s->socket, sizeof(s->socket), "%s/dotnet-diagnostic-1-1-socket", s->folder);
	str_copy(address.sun_path, sizeof(address.sun_path), s->socket);
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(s->listener, 4), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, play_runtime, s), 0);
}

/* Whatever happened, the target's folder holds what it held before. */
static void stage_close(struct stage *s)
{
	/* Where nobody called, it waits no longer. */
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
	unlink(s->socket);
	assert_true(s->loadable);
	assert_int_equal(rmdir(s->folder), 0);
}

static struct err *take(struct act act, struct image **ret)
{
	struct stage s;
	stage_open(&s, act);
	char library[] = "/proc/self/exe"; /* any file: nobody loads it */
	struct attach_options options = { .library = library, .patience_ms = PATIENCE_MS };
	struct patient p = patient_here(s.socket);
	struct attach_facts facts;
	struct err *err = attach_image(&p, &options, &facts, ret);
	stage_close(&s);
	return err;
}

static void assert_refused(struct act act, enum err_kind kind, const char *words)
{
	struct image *img = NULL;
	struct err *err = take(act, &img);
	assert_non_null(err);
	if (err_kind(err) != kind || !strstr(err_text(err), words))
		fail_msg("%s: %s", err_kind_name(err_kind(err)), err_text(err));
	err_free(err);
	assert_null(img);
}

static struct buf good_stream(void)
{
	static const char maps[] = "10000-11000 rw-p 00000000 00:00 0 \n";
	static const uint8_t page[4096] = { 7 };
	struct buf s = { 0 };
	build_stream_head(&s, 9);
	build_stream_record(&s, WIRE_IMAGE_MAPS, 0, maps, sizeof(maps) - 1);
	build_stream_record(&s, WIRE_IMAGE_MEMORY, 0x10000, page, sizeof(page));
	build_stream_record(&s, WIRE_IMAGE_END, 2, NULL, 0);
	return s;
}

static const struct wire_agent_note copied = { .kind = WIRE_AGENT_COPIED, .values = { [WIRE_AGENT_PAUSE_NS] = 5 } };
static const struct wire_agent_note leaving = { .kind = WIRE_AGENT_LEAVING };

static void test_an_image(void **state)
{
	(void)state;
	struct buf s = good_stream();
	struct act act = { .stream = s.data, .stream_len = s.len, .notes = { copied, leaving }, .n_notes = 2 };
	struct image *img = NULL;
	uint8_t byte;
	assert_ok(take(act, &img));
	assert_true(image_read_all(img, 0x10000, &byte, 1));
	assert_int_equal(byte, 7);
	image_close(img);
	buf_free(&s);
}

static void test_runtime_refuses(void **state)
{
	(void)state;
	assert_refused((struct act){ .hresult = 0x8013136a }, ERR_BUSY, "other profilers are attached");
	assert_refused((struct act){ .hresult = 0x80131378 }, ERR_DENIED, "told to take no profilers");
	assert_refused((struct act){ .hresult = 0x8007007e }, ERR_NOT_FOUND, "not the one we see");
	assert_refused((struct act){ .hresult = 0x80131385 }, ERR_UNSUPPORTED, "too old");
	assert_refused((struct act){ .hresult = 0x80131371 }, ERR_BUSY, "still starting");
	assert_refused((struct act){ .hresult = 0x8badf00d }, ERR_IO, "0x8badf00d");
}

static struct act refusing(enum wire_agent_why why, int32_t code)
{
	return (struct act){ .notes = { { .kind = WIRE_AGENT_REFUSED, .why = why, .code = code }, leaving },
			     .n_notes = 2 };
}

static void test_library_refuses(void **state)
{
	(void)state;
	assert_refused(refusing(WIRE_AGENT_PAUSE_TOO_LONG, 0), ERR_UNSUPPORTED, "longer than is allowed");
	assert_refused(refusing(WIRE_AGENT_NO_SUSPEND, (int32_t)0x80131388), ERR_BUSY, "0x80131388");
	assert_refused(refusing(WIRE_AGENT_NO_CLONE, 1), ERR_UNSUPPORTED, "copy of itself");
	assert_refused(refusing(WIRE_AGENT_NO_PROC, 13), ERR_UNSUPPORTED, "/proc/self");
	assert_refused(refusing(77, 0), ERR_IO, "without saying why");
}

static struct act ending(int32_t status)
{
	return (struct act){ .notes = { copied, { .kind = WIRE_AGENT_ENDED, .code = status }, leaving }, .n_notes = 3 };
}

static void test_copy_fails(void **state)
{
	(void)state;
	assert_refused(ending(9), ERR_IO, "was killed");
	assert_refused(ending(11), ERR_IO, "signal 11");
	assert_refused(ending(WIRE_AGENT_EXIT_DESCRIPTORS << 8), ERR_UNSUPPORTED, "close_range");
	assert_refused(ending(WIRE_AGENT_EXIT_PROC << 8), ERR_UNSUPPORTED, "pagemap");
	assert_refused(ending(WIRE_AGENT_EXIT_SEND << 8), ERR_TIMEOUT, "too long");
}

static void test_hostile_library(void **state)
{
	(void)state;
	struct buf s = good_stream();
	assert_refused((struct act){ .silent = true }, ERR_TIMEOUT, "did not call");
	assert_refused((struct act){ .hangs_up = true }, ERR_IO, "fell silent");
	assert_refused((struct act){ .wrong_token = true, .stream = s.data, .stream_len = s.len }, ERR_TIMEOUT,
		       "did not call");
	assert_refused((struct act){ .notes = { { .kind = 99 } }, .n_notes = 1 }, ERR_BAD_DATA, "do not understand");
	assert_refused((struct act){ .stream = "garbage, and more of it", .stream_len = 23 }, ERR_BAD_DATA,
		       "not an image");
	for (size_t cut = 1; cut < s.len; cut += 500) {
		struct image *img = NULL;
		struct act act = {
			.stream = s.data, .stream_len = s.len - cut, .notes = { copied, leaving }, .n_notes = 2
		};
		struct err *err = take(act, &img);
		assert_non_null(err);
		assert_null(img);
		err_free(err);
	}
	buf_free(&s);
}

/* ---- samples ---- */

static void say(struct buf *out, enum wire_agent_kind kind, const void *more, size_t len)
{
	struct wire_agent_note note = { .kind = kind, .code = (int32_t)len };
	buf_add(out, &note, sizeof(note));
	buf_add(out, more, len);
}

static struct buf good_samples(void)
{
	struct {
		struct wire_agent_sample head;
		uint64_t stack[4];
	} sample = { .head = { .tid = 5, .stack_len = 32, .asked = 32, .time_ns = 100, .cpu_ns = 9, .ip = 0x1234 },
		     .stack = { 1, 2, 3, 4 } };
	struct wire_agent_thread thread = { .tid = 5, .cpu_ns = 77, .name = "worker" };
	struct buf b = { 0 };
	sample.head.regs[4] = 0x8000;
	say(&b, WIRE_AGENT_STARTED, NULL, 0);
	say(&b, WIRE_AGENT_THREAD, &thread, sizeof(thread));
	say(&b, WIRE_AGENT_SAMPLE, &sample, sizeof(sample));
	sample.head.time_ns = 900;
	sample.head.asked = 64;
	say(&b, WIRE_AGENT_SAMPLE, &sample, sizeof(sample));
	return b;
}

struct got {
	struct attach_sample last;
	uint64_t top; /* of its stack */
	size_t samples, threads;
	char name[17];
};

static void on_sample(void *user, const struct attach_sample *s)
{
	struct got *g = user;
	g->last = *s;
	if (s->stack_len >= sizeof(g->top))
		memcpy(&g->top, s->stack + s->stack_len - sizeof(g->top), sizeof(g->top));
	g->samples++;
}

static void on_thread(void *user, const struct attach_thread *t)
{
	struct got *g = user;
	memcpy(g->name, t->name, sizeof(g->name));
	g->threads++;
}

/* Starts, gives everything up to that time to got, and stops. */
static struct err *sample(struct act act, uint64_t until_ns, struct got *got, struct attach_cpu_facts *facts)
{
	struct stage s;
	stage_open(&s, act);
	char library[] = "/proc/self/exe";
	struct attach_options options = { .library = library, .patience_ms = PATIENCE_MS };
	struct patient p = patient_here(s.socket);
	struct attach_cpu_sink sink = { on_sample, on_thread, got };
	struct attach_cpu *cpu = NULL;
	struct err *err = attach_cpu_start(&p, &options, 10000000, 64, &cpu);
	uint64_t word = 4711, seen = 0;
	if (!err && !act.ends) {
		assert_true(attach_cpu_read(cpu, (uint64_t)(uintptr_t)&word, &seen, sizeof(seen)));
		assert_int_equal(seen, word);
		assert_false(attach_cpu_read(cpu, 16, &seen, sizeof(seen)));
		assert_int_equal(attach_cpu_open(cpu, "/nothing/here"), -1);
		CLOSE_FD int maps = attach_cpu_open(cpu, "/proc/self/maps");
		assert_true(maps >= 0);
	}
	if (!err)
		err = attach_cpu_drain(cpu, until_ns, &sink);
	struct err *late = cpu && !err ? attach_cpu_stop(cpu, facts) : NULL;
	attach_cpu_free(cpu);
	stage_close(&s);
	if (err)
		err_free(late);
	return err ? err : late;
}

static void test_samples(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf said = good_samples();
	struct attach_cpu_facts facts = { 0 };
	struct got got = { 0 };
	assert_ok(sample((struct act){ .said = said.data, .said_len = said.len }, 500, &got, &facts));
	assert_int_equal(got.samples, 1);
	assert_int_equal(got.threads, 1);
	assert_string_equal(got.name, "worker");
	assert_int_equal(got.last.tid, 5);
	assert_int_equal(got.last.cpu_ns, 9);
	assert_int_equal(got.last.regs[4], 0x8000);
	assert_int_equal(got.last.stack_len, 32);
	assert_int_equal(got.top, 4);
	assert_true(got.last.full);
	assert_int_equal(facts.handled, 7);
	got.samples = 0;
	assert_ok(sample((struct act){ .said = said.data, .said_len = said.len }, UINT64_MAX, &got, &facts));
	assert_int_equal(got.samples, 2);
	assert_false(got.last.full);
}

static void test_samples_refused(void **state)
{
	(void)state;
	struct wire_agent_note refused = { .kind = WIRE_AGENT_REFUSED, .why = WIRE_AGENT_NO_TIMER, .code = EAGAIN };
	struct attach_cpu_facts facts;
	struct got got = { 0 };
	struct err *err =
		sample((struct act){ .said = &refused, .said_len = sizeof(refused), .ends = true }, 0, &got, &facts);
	assert_err(err, ERR_UNSUPPORTED);
}

/* Cut anywhere, and with any byte of what frames it changed: an error or fewer samples, nothing worse. */
static void test_hostile_samples(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf said = good_samples();
	struct attach_cpu_facts facts;
	for (size_t len = 0; len < said.len; len += 11) {
		struct got got = { 0 };
		struct err *err = sample((struct act){ .said = said.data, .said_len = len, .ends = true }, UINT64_MAX,
					 &got, &facts);
		assert_non_null(err);
		assert_true(got.samples < 2);
		err_free(err);
	}
	for (size_t i = 0; i < 2 * sizeof(struct wire_agent_note) + 40; i++) {
		struct got got = { 0 };
		if (i % sizeof(struct wire_agent_note) > 16 && i < sizeof(struct wire_agent_note))
			continue; /* values that mean nothing here */
		((uint8_t *)said.data)[i] ^= 0xff;
		err_ignore(sample((struct act){ .said = said.data, .said_len = said.len, .ends = true }, UINT64_MAX,
				  &got, &facts));
		assert_true(got.samples <= 2);
		((uint8_t *)said.data)[i] ^= 0xff;
	}
}

static size_t take_notes(const void *said, size_t len, size_t step, struct notes *ret_state)
{
	struct got got = { 0 };
	struct attach_cpu_sink sink = { on_sample, on_thread, &got };
	struct notes notes = { 0 };
	for (size_t at = 0; at < len; at += step)
		notes_add(&notes, (const uint8_t *)said + at, MIN(step, len - at));
	notes_give(&notes, UINT64_MAX, &sink);
	*ret_state = notes;
	notes_fini(&notes);
	return got.samples;
}

/* Every length and every byte, without a socket; in whatever pieces it comes, it means the same. */
static void test_hostile_notes(void **state)
{
	(void)state;
	CLEANUP(buf_free) struct buf said = good_samples();
	uint8_t *bytes = (uint8_t *)said.data;
	struct notes after;
	for (size_t step = 1; step <= said.len; step += 13)
		assert_int_equal(take_notes(bytes, said.len, step, &after), 2);
	for (size_t len = 0; len < said.len; len++) {
		assert_true(take_notes(bytes, len, said.len, &after) < 2);
		assert_false(after.nonsense);
	}
	for (size_t i = 0; i < said.len; i++) {
		for (int bit = 0; bit < 9; bit++) {
			uint8_t kept = bytes[i];
			bytes[i] = (uint8_t)(kept ^ (bit < 8 ? 1 << bit : 0xff));
			assert_true(take_notes(bytes, said.len, said.len, &after) <= 2);
			bytes[i] = kept;
		}
	}
	struct wire_agent_note copied_note = { .kind = WIRE_AGENT_COPIED };
	assert_int_equal(take_notes(&copied_note, sizeof(copied_note), 1, &after), 0);
	assert_true(after.nonsense);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_image),	cmocka_unit_test(test_runtime_refuses),
		cmocka_unit_test(test_library_refuses), cmocka_unit_test(test_copy_fails),
		cmocka_unit_test(test_hostile_library), cmocka_unit_test(test_samples),
		cmocka_unit_test(test_samples_refused), cmocka_unit_test(test_hostile_samples),
		cmocka_unit_test(test_hostile_notes),
	};
	signal(SIGPIPE, SIG_IGN); /* as the program does: who plays the library may find that we hung up */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
