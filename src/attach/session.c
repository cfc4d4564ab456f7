#include "attach/session.h"
#include "attach/words.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/fault.h"
#include "image/lock.h"
#include "wire/calls.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define LIBRARY "libdrdotnet-agent.so"
#define READY_MS 3000	/* the runtime must be ready for a profiler */
#define ATTACH_MS 10000 /* its answer */
#define HELLO_MS 2000
#define SUSPEND_MS 5000
#define SILENCE_MS 10000

/* The runtime passes it through; nothing is registered under it. */
static const uint8_t clsid[16] = { 0x3e, 0x5d, 0x1c, 0x8a, 0x07, 0x91, 0x4f, 0x4b,
				   0xa2, 0x6e, 0xd0, 0x52, 0x44, 0x9b, 0xe1, 0x70 };

/* ---- before ---- */

static char *library_path(const struct attach_options *o)
{
	const char *env = getenv("DRDOTNET_AGENT");
	char self[PATH_MAX];
	if (o && o->library)
		return mem_strdup(o->library);
	if (!str_empty(env))
		return mem_strdup(env);
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[MAX(n, 0)] = '\0';
	char *slash = strrchr(self, '/');
	return mem_printf("%.*s" LIBRARY, slash ? (int)(slash - self + 1) : 0, self);
}

static struct err *check_architecture(const struct patient *p)
{
	const char *arch = p->info.arch;
#if defined(__x86_64__)
	const char *ours = "x64";
#else
	const char *ours = "arm64";
#endif
	if (arch && !str_eq_nocase(arch, ours))
		return err_new(ERR_UNSUPPORTED, "it runs on %s, our library was built for %s", arch, ours);
	return NULL;
}

struct err *attach_check(const struct patient *p, const struct attach_options *options)
{
	CLEANUP(mem_freep) char *library = library_path(options);
	TRY(check_architecture(p));
	if (access(library, R_OK) < 0)
		return err_new(ERR_NOT_FOUND, "'%s' is missing, the part of drdotnet that a process loads", library);
	if (!p->target.socket)
		return err_new(ERR_UNSUPPORTED, "it has no diagnostics socket");
	/* Some runtimes would let us in all the same. */
	CLEANUP(mem_freep) char *off = target_env(&p->target, "DOTNET_EnableDiagnostics_Profiler");
	if (str_eq(off, "0"))
		return err_new(ERR_DENIED,
			       "its runtime was told to take no profilers (DOTNET_EnableDiagnostics_Profiler=0)");
	return NULL;
}

/* Under a seccomp filter code of ours runs only when it was proved to be harmless: wire/calls.h has the two proofs. */
static struct err *prove(struct attach_session *s)
{
	static const unsigned copies[] = { CALLS_LOAD | CALLS_IMAGE, CALLS_LOAD | CALLS_PLAIN | CALLS_BURY },
			      samples[] = { CALLS_LOAD | CALLS_CPU, CALLS_LOAD | CALLS_TICKS };
	const struct target *t = &s->patient->target;
	size_t which = 0;
	switch (image_filter(t)) {
	case IMAGE_FILTER_NONE:
		return NULL;
	case IMAGE_FILTER_HIDDEN:
	case IMAGE_FILTER_UNSEEN:
		s->config.flags |= WIRE_AGENT_UNREAD;
		return NULL;
	case IMAGE_FILTER_READABLE:
		break;
	}
	struct err *err = image_prove(t, s->config.mode == WIRE_AGENT_IMAGE ? copies : samples, 2, &which);
	if (!err) {
		s->config.flags |= which ? WIRE_AGENT_PLAIN : 0;
	} else if (err_kind(err) == ERR_DENIED) {
		/* The right to read is there, that to trace is not. */
		err_free(err);
		err = NULL;
		s->config.flags |= WIRE_AGENT_UNREAD;
	}
	return err;
}

static struct err *fill_config(struct attach_session *s, const struct attach_options *o)
{
	struct wire_agent_config *c = &s->config;
	uint64_t life_ms = o->max_life_ms ? o->max_life_ms : IMAGE_MAX_LIFE_MS;
	memcpy(c->magic, WIRE_AGENT_MAGIC, sizeof(c->magic));
	c->version = WIRE_AGENT_VERSION;
	c->size = sizeof(*c);
	c->suspend_ms = o->patience_ms ? (uint32_t)o->patience_ms : SUSPEND_MS;
	c->life_ms = (uint32_t)MIN(life_ms, (uint64_t)UINT32_MAX);
	c->silence_ms = SILENCE_MS;
	c->fault = o->fault;
	if (getrandom(c->token, sizeof(c->token), 0) != sizeof(c->token))
		return err_errno(errno, "a random token");
	if (strlen(s->place.seen_as) >= sizeof(c->folder))
		return err_new(ERR_UNSUPPORTED, "the path of its temporary folder is too long");
	memcpy(c->folder, s->place.seen_as, strlen(s->place.seen_as));
	return NULL;
}

/* ---- loading ---- */

static struct err *load(struct attach_session *s)
{
	uint32_t hresult = 0;
	CLEANUP(mem_freep) char *path = mem_printf("%s/" WIRE_AGENT_LIBRARY, s->place.seen_as);
	struct ipc_attach attach = {
		.path = path, .data = &s->config, .len = sizeof(s->config), .timeout_ms = READY_MS
	};
	memcpy(attach.clsid, clsid, sizeof(clsid));
	uint64_t from_ns = clock_mono_ns();
	struct err *err = ipc_attach_profiler(s->patient->target.socket, &attach, deadline_in_ms(ATTACH_MS), &hresult);
	s->facts->attach_ns = clock_mono_ns() - from_ns;
	place_drop_library(&s->place);
	fault_point("loaded");
	if (err)
		return err_wrap(err, "the runtime did not load our library");
	return hresult ? words_refused(s->patient, hresult) : NULL;
}

/* ---- lines ---- */

/* A connection: is it the library's? Others are closed. */
static void take_call(struct attach_session *s)
{
	struct wire_agent_hello hello;
	int size = 1 << 20;
	CLOSE_FD int fd = accept4(s->place.listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	struct err *err = fd_read_full(fd, &hello, sizeof(hello), deadline_in_ms(HELLO_MS));
	bool ours = !err && !memcmp(hello.magic, WIRE_AGENT_MAGIC, sizeof(hello.magic)) &&
		    hello.version == WIRE_AGENT_VERSION && !memcmp(hello.token, s->config.token, sizeof(hello.token));
	err_free(err);
	if (!ours)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	int *line = hello.line == WIRE_AGENT_CONTROL ? &s->control : hello.line == WIRE_AGENT_COPY ? &s->copy : NULL;
	if (line && *line < 0)
		*line = fd_steal(&fd);
}

static void take_values(struct attach_session *s, const uint64_t *values)
{
	struct attach_facts *f = s->facts;
	f->pause_ns = values[WIRE_AGENT_PAUSE_NS];
	f->suspend_ns = values[WIRE_AGENT_SUSPEND_NS];
	f->save_ns = values[WIRE_AGENT_SAVE_NS];
	f->clone_ns = values[WIRE_AGENT_CLONE_NS];
	f->resume_ns = values[WIRE_AGENT_RESUME_NS];
	f->saved_bytes = values[WIRE_AGENT_SAVED_BYTES];
	f->left_bytes = values[WIRE_AGENT_LEFT_BYTES];
	f->attempts = (uint32_t)values[WIRE_AGENT_ATTEMPTS];
}

static struct err *take_note(struct attach_session *s)
{
	struct wire_agent_note note;
	struct err *err = fd_read_full(s->control, &note, sizeof(note), deadline_in_ms(HELLO_MS));
	if (err) {
		fd_closep(&s->control);
		return err_wrap(err, "our library in the process fell silent");
	}
	switch (note.kind) {
	case WIRE_AGENT_REFUSED:
		s->refusal = note;
		break;
	case WIRE_AGENT_COPIED:
		s->copied = true;
		take_values(s, note.values);
		break;
	case WIRE_AGENT_ENDED:
		s->copy_ended = true;
		s->copy_status = note.code;
		break;
	case WIRE_AGENT_LEAVING:
		s->left = true;
		fd_closep(&s->control);
		break;
	default:
		return err_new(ERR_BAD_DATA, "our library in the process says what we do not understand");
	}
	return NULL;
}

struct err *session_listen(struct attach_session *s, const int *line, struct deadline deadline)
{
	while (!s->left && (!line || *line < 0)) {
		struct pollfd fds[] = { { .fd = s->place.listen_fd, .events = POLLIN },
					{ .fd = s->control, .events = POLLIN } };
		if (deadline_passed(deadline))
			return err_new(ERR_TIMEOUT, "our library in the process did not call in time");
		if (poll(fds, ARRAY_SIZE(fds), deadline_poll_ms(deadline)) < 0 && errno != EINTR)
			return err_errno(errno, "wait for our library");
		if (fds[0].revents)
			take_call(s);
		if (fds[1].revents)
			TRY(take_note(s));
	}
	return NULL;
}

/* ---- from begin to end ---- */

struct err *session_begin(struct attach_session *s, const struct patient *p, const struct attach_options *o,
			  const struct wire_agent_config *config, struct attach_facts *facts)
{
	CLEANUP(mem_freep) char *library = library_path(o);
	*s = (struct attach_session){ .patient = p,
				      .place = PLACE_NONE,
				      .config = *config,
				      .control = -1,
				      .copy = -1,
				      .lock = -1,
				      .facts = facts };
	TRY(attach_check(p, o));
	struct image_turn turn = { .cookie = p->info.cookie,
				   .deadline = deadline_in_ms(o->turn_ms),
				   .cancel_fd = o->cancel_fd };
	TRY(lock_take_in_turn(&p->target, &turn, &s->lock));
	fault_role("host");
	struct err *err = prove(s);
	if (!err)
		err = place_make(p, library, &s->place);
	if (!err)
		err = fill_config(s, o);
	if (!err)
		err = load(s);
	if (err)
		session_end(s);
	return err;
}

void session_end(struct attach_session *s)
{
	fd_closep(&s->copy);
	fd_closep(&s->control);
	place_remove(&s->place);
	fd_closep(&s->lock);
}
