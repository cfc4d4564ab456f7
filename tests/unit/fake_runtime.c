#include "fake_runtime.h"
#include "unit.h"

#include "base/str.h"
#include "base/vec.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CALLERS_MAX 512
/* Bytes of a slow answer that come one by one; the rest comes at once. */
#define SLOW_BYTES 60

struct fake_runtime {
	struct fake_config config;
	char *path, *assembly;
	int listener, stop;
	int fillers[2]; /* fill the queue of a deaf one */
	pthread_t thread;
	pthread_mutex_t lock; /* guards requests */
	struct buf requests;
	VEC(int) open; /* callers that are kept waiting, and streams */
};

/* ---- what it says ---- */

static void add_u16(struct buf *b, uint16_t v)
{
	buf_add(b, &v, 2);
}

static void add_u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, 4);
}

static void add_u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, 8);
}

static void add_string(struct buf *b, const char *s)
{
	struct buf units = { 0 };
	utf16_from_utf8(&units, s);
	buf_add(&units, "\0", 2);
	add_u32(b, (uint32_t)(units.len / 2));
	buf_add(b, units.data, units.len);
	buf_free(&units);
}

static void add_reply(struct buf *b, bool ok, const struct buf *payload)
{
	buf_add(b, "DOTNET_IPC_V1", 14);
	add_u16(b, (uint16_t)(20 + payload->len));
	buf_add(b, "\xff", 1);
	buf_add(b, ok ? "\0" : "\xff", 1);
	add_u16(b, 0);
	buf_add(b, buf_cstr(payload), payload->len);
}

static void add_refusal(struct buf *b, uint32_t hresult)
{
	struct buf payload = { 0 };
	add_u32(&payload, hresult);
	add_reply(b, false, &payload);
	buf_free(&payload);
}

static void add_process_info(struct fake_runtime *f, int version, struct buf *b)
{
	struct buf payload = { 0 };
	uint8_t cookie[16];
	memset(cookie, f->config.cookie, sizeof(cookie));
	if (version == 3)
		add_u32(&payload, 1);
	add_u64(&payload, 77);
	buf_add(&payload, cookie, sizeof(cookie));
	if (f->config.mood == FAKE_HUGE_STRING)
		add_u32(&payload, UINT32_MAX);
	add_string(&payload, "/app/fake --now");
	add_string(&payload, "Linux");
	add_string(&payload, "x64");
	if (version >= 2) {
		add_string(&payload, f->assembly);
		char release[16];
		snprintf(release, sizeof(release), "%d.0.1", f->config.release);
		add_string(&payload, release);
	}
	if (version == 3)
		add_string(&payload, "linux-x64");
	if (f->config.mood == FAKE_EMPTY)
		buf_clear(&payload);
	add_reply(b, true, &payload);
	buf_free(&payload);
}

/* The oldest release that knows the command; 0 = none does. */
static int known_since(uint8_t set, uint8_t id)
{
	static const uint8_t commands[][3] = {
		{ 2, 1, 3 },  { 2, 2, 3 },  { 2, 3, 5 }, { 2, 4, 9 }, { 2, 5, 9 },
		{ 2, 6, 10 }, { 2, 7, 11 }, { 4, 0, 5 }, { 4, 4, 6 }, { 4, 8, 8 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i][0] == set && commands[i][1] == id)
			return commands[i][2];
	return 0;
}

static void make_answer(struct fake_runtime *f, uint8_t set, uint8_t id, struct buf *b)
{
	int since = known_since(set, id);
	if (!since || since > f->config.release) {
		add_refusal(b, 0x80131385);
	} else if (f->config.mood == FAKE_STARTING) {
		add_refusal(b, 0x8013135b);
	} else if (set == 4) {
		add_process_info(f, id == 8 ? 3 : id == 4 ? 2 : 1, b);
	} else {
		struct buf session = { 0 };
		if (f->config.mood != FAKE_EMPTY)
			add_u64(&session, 4711);
		add_reply(b, true, &session);
		buf_free(&session);
	}
	if (f->config.mood == FAKE_WRONG_MAGIC)
		b->data[3] ^= 1;
	if (f->config.mood == FAKE_SHORT_SIZE)
		memcpy(b->data + 14, "\x13\0", 2);
	if (f->config.mood == FAKE_LONG_SIZE)
		memcpy(b->data + 14, "\xff\xff", 2);
	if (f->config.mood == FAKE_WRONG_KIND)
		b->data[16] = 4;
}

/* ---- how it says it ---- */

static bool wait_readable(struct fake_runtime *f, int fd)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = f->stop, .events = POLLIN } };
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	return !p[1].revents;
}

static void send_answer(struct fake_runtime *f, int fd, const struct buf *answer)
{
	size_t len = f->config.mood == FAKE_DIES ? answer->len / 2 : answer->len, done = 0;
	while (f->config.mood == FAKE_SLOW && done < MIN(len, (size_t)SLOW_BYTES)) {
		struct pollfd p = { .fd = f->stop, .events = POLLIN };
		if (send(fd, answer->data + done++, 1, MSG_NOSIGNAL) < 0 || poll(&p, 1, 1) > 0)
			return;
	}
	(void)!send(fd, answer->data + done, len - done, MSG_NOSIGNAL);
}

static bool read_request(struct fake_runtime *f, int fd, struct buf *request)
{
	size_t want = 20;
	while (request->len < want) {
		if (!wait_readable(f, fd))
			return false;
		ssize_t n = read(fd, buf_room(request, want - request->len), want - request->len);
		if (n <= 0)
			return false;
		request->len += (size_t)n;
		if (request->len == 20) {
			uint16_t size;
			memcpy(&size, request->data + 14, 2);
			want = MAX(size, (uint16_t)20);
		}
	}
	pthread_mutex_lock(&f->lock);
	buf_add(&f->requests, request->data, request->len);
	pthread_mutex_unlock(&f->lock);
	return true;
}

static void close_open(struct fake_runtime *f)
{
	vec_each(fd, &f->open)
		close(*fd);
	vec_clear(&f->open);
}

/* True when the connection stays open. */
static bool serve(struct fake_runtime *f, int fd)
{
	struct buf request = { 0 }, answer = { 0 };
	bool keep = f->config.mood == FAKE_SILENT;
	if (!keep && f->config.mood != FAKE_HANGS_UP && read_request(f, fd, &request)) {
		uint8_t set = (uint8_t)request.data[16], id = (uint8_t)request.data[17];
		make_answer(f, set, id, &answer);
		if (set == 2 && id == 1)
			close_open(f);
		send_answer(f, fd, &answer);
		keep = set == 2 && id != 1 && answer.data[17] == 0 && f->config.mood == FAKE_WELL;
		if (keep)
			(void)!send(fd, f->config.stream, f->config.stream_len, MSG_NOSIGNAL);
		keep = keep && !f->config.hangs_up;
	}
	buf_free(&request);
	buf_free(&answer);
	return keep;
}

static void *run(void *arg)
{
	struct fake_runtime *f = arg;
	while (wait_readable(f, f->config.mood == FAKE_DEAF ? -1 : f->listener)) {
		int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		if (serve(f, fd))
			vec_push(&f->open, fd);
		else
			close(fd);
	}
	return NULL;
}

static int connect_to(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)!connect(fd, (const struct sockaddr *)address, sizeof(*address));
	return fd;
}

struct fake_runtime *fake_runtime_start(const char *path, struct fake_config config)
{
	struct fake_runtime *f = mem_zalloc(sizeof(*f));
	f->config = config;
	f->config.stream = config.stream_len ? mem_dup(config.stream, config.stream_len) : NULL;
	f->path = mem_strdup(path);
	f->assembly = mem_strdup(config.assembly ? config.assembly : "Fake");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	str_copy(address.sun_path, sizeof(address.sun_path), path);
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	/* Old enough for any session: see eventpipe/settle.h. */
	assert_int_equal(utimensat(AT_FDCWD, address.sun_path, (struct timespec[2]){ 0 }, 0), 0);
	assert_int_equal(listen(f->listener, config.mood == FAKE_DEAF ? 0 : CALLERS_MAX), 0);
	for (size_t i = 0; i < 2; i++)
		f->fillers[i] = config.mood == FAKE_DEAF ? connect_to(&address) : -1;
	f->stop = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&f->lock, NULL);
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	return f;
}

void fake_runtime_stop(struct fake_runtime *f)
{
	uint64_t one = 1;
	assert_int_equal(write(f->stop, &one, sizeof(one)), sizeof(one));
	pthread_join(f->thread, NULL);
	close_open(f);
	vec_free(&f->open);
	for (size_t i = 0; i < 2; i++)
		if (f->fillers[i] >= 0)
			close(f->fillers[i]);
	close(f->listener);
	close(f->stop);
	unlink(f->path);
	pthread_mutex_destroy(&f->lock);
	buf_free(&f->requests);
	mem_free((void *)(uintptr_t)f->config.stream);
	mem_free(f->path);
	mem_free(f->assembly);
	mem_free(f);
}

struct buf fake_runtime_requests(struct fake_runtime *f)
{
	struct buf copy = { 0 };
	pthread_mutex_lock(&f->lock);
	buf_add(&copy, buf_cstr(&f->requests), f->requests.len);
	pthread_mutex_unlock(&f->lock);
	return copy;
}
