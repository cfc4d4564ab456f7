/* A runtime that is none: loads our library as one would, and takes what it sends. Built for the C library of this
 * machine and for musl, so that the library is seen at work in both; for arm64 it runs under emulation, which makes no
 * copy of a process, and there is no sampling: the library must say so, resume the runtime and leave. Prints TAP.
 *
 *   agent_host LIBRARY [refuses] */
#include "com/profiler.h"
#include "wire/agent.h"
#include "wire/image.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LIFE_MS 20000

static int tests;
static int detached; /* times that it asked to leave */
static int suspended, resumed;
static volatile bool busy = true;
static uint64_t secret = 0x5ec2e7c0ffee;

static void check(bool ok, const char *what)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++tests, what);
	fflush(stdout);
	if (!ok)
		exit(1);
}

/* ---- what it asks of a runtime ---- */

static com_hr suspend(void *self)
{
	(void)self;
	suspended++;
	return COM_OK;
}

static com_hr resume(void *self)
{
	(void)self;
	resumed++;
	return COM_OK;
}

static com_hr detach(void *self, uint32_t ms)
{
	(void)self;
	(void)ms;
	__atomic_fetch_add(&detached, 1, __ATOMIC_RELEASE);
	return COM_OK;
}

static com_hr query(void *self, const struct com_guid *iid, void **ret)
{
	(void)iid;
	*ret = self;
	return COM_OK;
}

static const struct cor_profiler_info_vtbl vtbl = { .QueryInterface = (void *)query,
						    .SuspendRuntime = (void *)suspend,
						    .ResumeRuntime = (void *)resume,
						    .RequestProfilerDetach = (void *)detach };
static struct cor_profiler_info info = { &vtbl };

/* ---- its lines ---- */

static bool take(int fd, void *to, size_t n)
{
	return recv(fd, to, n, MSG_WAITALL) == (ssize_t)n;
}

static int answer_call(int listener, const struct wire_agent_config *config, enum wire_agent_line line)
{
	struct wire_agent_hello hello;
	int fd = accept(listener, NULL, NULL);
	check(take(fd, &hello, sizeof(hello)) && hello.line == line && !memcmp(hello.token, config->token, 16),
	      line == WIRE_AGENT_CONTROL ? "calls" : "its copy calls");
	return fd;
}

static bool skip(int fd, uint64_t n)
{
	static char bytes[1 << 16];
	for (size_t step; n; n -= step) {
		step = n < sizeof(bytes) ? (size_t)n : sizeof(bytes);
		if (!take(fd, bytes, step))
			return false;
	}
	return true;
}

/* ---- the two things that it can do ---- */

static struct wire_agent_config configure(struct cor_profiler_callback *agent, enum wire_agent_mode mode,
					  const char *folder)
{
	struct wire_agent_config c = { .magic = WIRE_AGENT_MAGIC,
				       .version = WIRE_AGENT_VERSION,
				       .size = sizeof(c),
				       .mode = mode,
				       .suspend_ms = 1000,
				       .life_ms = LIFE_MS,
				       .silence_ms = LIFE_MS,
				       .max_pause_ns = 60000000000,
				       .period_us = 4000,
				       .stack_bytes = 4096,
				       .token = "0123456789abcde" };
	snprintf(c.folder, sizeof(c.folder), "%s", folder);
	check(COM_CALL(agent, InitializeForAttach, &info, &c, sizeof(c)) == COM_OK &&
		      COM_CALL(agent, ProfilerAttachComplete) == COM_OK,
	      mode == WIRE_AGENT_IMAGE ? "is attached for an image" : "is attached for samples");
	return c;
}

static void await_leave(struct cor_profiler_callback *agent, int control)
{
	struct wire_agent_note note = { 0 };
	while (note.kind != WIRE_AGENT_LEAVING && take(control, &note, sizeof(note)))
		skip(control,
		     note.kind == WIRE_AGENT_SAMPLE || note.kind == WIRE_AGENT_THREAD ? (uint64_t)note.code : 0);
	check(note.kind == WIRE_AGENT_LEAVING, "says that it leaves");
	for (int i = 0; i < 2000 && !__atomic_load_n(&detached, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	check(__atomic_exchange_n(&detached, 0, __ATOMIC_ACQUIRE) == 1, "asks to be detached");
	COM_CALL(agent, ProfilerDetachSucceeded);
	close(control);
}

/* The memory record that holds our own secret says that it is this very process that was sent. */
static void try_image(struct cor_profiler_callback *agent, int listener, const char *folder)
{
	struct wire_agent_config c = configure(agent, WIRE_AGENT_IMAGE, folder);
	int control = answer_call(listener, &c, WIRE_AGENT_CONTROL), copy = answer_call(listener, &c, WIRE_AGENT_COPY);
	struct wire_image_head head;
	struct wire_image_record r = { 0 };
	uint64_t at = (uint64_t)(uintptr_t)&secret, found = 0;
	check(take(copy, &head, sizeof(head)) && !memcmp(head.magic, WIRE_IMAGE_MAGIC, 8), "sends an image");
	secret = 0; /* the copy has the old one */
	while (r.kind != WIRE_IMAGE_END && take(copy, &r, sizeof(r))) {
		uint64_t len = r.kind == WIRE_IMAGE_ZERO ? 0 : r.len;
		if (r.kind == WIRE_IMAGE_MEMORY && r.addr <= at && at + sizeof(found) <= r.addr + r.len) {
			skip(copy, at - r.addr);
			take(copy, &found, sizeof(found));
			len -= at - r.addr + sizeof(found);
		}
		skip(copy, len);
	}
	check(r.kind == WIRE_IMAGE_END, "sends all of it");
	check(found == 0x5ec2e7c0ffee, "sends memory as it was");
	close(copy);
	await_leave(agent, control);
	check(suspended == 1 && resumed == 1, "suspends and resumes the runtime once");
}

static void *burn(void *unused)
{
	for (volatile uint64_t i = 0; busy; i++)
		;
	return unused;
}

static void try_samples(struct cor_profiler_callback *agent, int listener, const char *folder)
{
	struct sigaction before[65], after;
	bool same = true;
	pthread_t thread;
	for (int s = 50; s < 64; s++)
		sigaction(s, NULL, &before[s]);
	pthread_create(&thread, NULL, burn, NULL);
	struct wire_agent_config c = configure(agent, WIRE_AGENT_CPU, folder);
	int control = answer_call(listener, &c, WIRE_AGENT_CONTROL), samples = 0;
	struct wire_agent_request stop = { .kind = WIRE_AGENT_STOP }, leave = { .kind = WIRE_AGENT_LEAVE };
	struct wire_agent_note note = { 0 };
	struct wire_agent_sample sample = { 0 };
	while (samples < 10 && take(control, &note, sizeof(note)) && note.kind != WIRE_AGENT_REFUSED) {
		if (note.kind == WIRE_AGENT_SAMPLE) {
			take(control, &sample, sizeof(sample));
			skip(control, (uint64_t)note.code - sizeof(sample));
			samples++;
		} else if (note.kind == WIRE_AGENT_THREAD) {
			skip(control, (uint64_t)note.code);
		}
	}
	check(samples == 10, "takes samples of a busy thread");
	check(sample.ip && sample.stack_len >= 64 && sample.cpu_ns, "with registers, a stack and CPU time");
	send(control, &stop, sizeof(stop), 0);
	while (note.kind != WIRE_AGENT_SAMPLED && take(control, &note, sizeof(note)))
		skip(control,
		     note.kind == WIRE_AGENT_SAMPLE || note.kind == WIRE_AGENT_THREAD ? (uint64_t)note.code : 0);
	check(note.values[WIRE_AGENT_HANDLED] >= 10, "says what they cost");
	for (int s = 50; s < 64; s++)
		same &= !sigaction(s, NULL, &after) && after.sa_handler == before[s].sa_handler;
	check(same, "leaves the signals as they were");
	send(control, &leave, sizeof(leave), 0);
	await_leave(agent, control);
	busy = false;
	pthread_join(thread, NULL);
}

/* What cannot be done is said, and it leaves as it does after work. */
static void try_refusal(struct cor_profiler_callback *agent, int listener, const char *folder,
			enum wire_agent_mode mode)
{
	struct wire_agent_config c = configure(agent, mode, folder);
	int control = answer_call(listener, &c, WIRE_AGENT_CONTROL);
	struct wire_agent_note note = { 0 };
	check(take(control, &note, sizeof(note)) && note.kind == WIRE_AGENT_REFUSED &&
		      note.why == (mode == WIRE_AGENT_IMAGE ? WIRE_AGENT_NO_CLONE : WIRE_AGENT_NO_TIMER),
	      "says why not");
	await_leave(agent, control);
	check(suspended == 1 && resumed == 1, "leaves the runtime running");
}

int main(int argc, char **argv)
{
	typedef com_hr get_class_object(const struct com_guid *clsid, const struct com_guid *iid, void **ret);
	static const struct com_guid any;
	char folder[] = "/tmp/agent-host-XXXXXX";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct com_class_factory *factory = NULL;
	struct cor_profiler_callback *agent = NULL;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library)
		printf("# %s\n", argc > 1 ? dlerror() : "which library?");
	check(library && mkdtemp(folder), "is loaded");
	get_class_object *get = (get_class_object *)dlsym(library, "DllGetClassObject");
	check(get && !get(&any, &any, (void **)&factory) &&
		      !COM_CALL(factory, CreateInstance, NULL, &any, (void **)&agent),
	      "gives a profiler");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" WIRE_AGENT_SOCKET, folder);
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	check(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 4), "finds a socket");
	alarm(LIFE_MS / 1000 + 10);
	if (argc > 2) {
		try_refusal(agent, listener, folder, WIRE_AGENT_IMAGE);
		try_refusal(agent, listener, folder, WIRE_AGENT_CPU);
	} else {
		try_image(agent, listener, folder);
		try_samples(agent, listener, folder);
	}
	unlink(address.sun_path);
	rmdir(folder);
	check(!dlclose(library), "is unloaded");
	printf("1..%d\n", tests);
	return 0;
}
