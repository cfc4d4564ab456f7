#include "ipc/ipc.h"
#include "base/cursor.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/ask.h"
#include "ipc/connect.h"
#include "ipc/wire.h"
#include <string.h>

#define ENVIRONMENT_MAX ((uint32_t)16 << 20)

void ipc_process_info_fini(struct ipc_process_info *info)
{
	mem_free(info->command_line);
	mem_free(info->os);
	mem_free(info->arch);
	mem_free(info->entry_assembly);
	mem_free(info->runtime_version);
	mem_free(info->rid);
	*info = (struct ipc_process_info){ 0 };
}

struct err *ipc_process_info(const char *socket, struct deadline deadline, struct ipc_process_info *ret)
{
	struct question q = { .socket = socket };
	int ms = deadline_poll_ms(deadline);
	ask_all(&q, 1, ms < 0 ? UINT32_MAX : (uint64_t)ms);
	if (q.err)
		return q.err;
	*ret = q.info;
	return NULL;
}

/* A connection on which the answer will come. */
static struct err *send_to(const char *socket, const struct buf *request, struct deadline deadline, int *ret_fd)
{
	CLOSE_FD int fd = -1;
	TRY(connect_wait(socket, deadline, &fd));
	TRY(connect_send(fd, request, deadline));
	*ret_fd = fd_steal(&fd);
	return NULL;
}

/* Exactly one reply: what follows it on the connection is the caller's. */
static struct err *read_reply(int fd, struct deadline deadline, struct buf *reply, const uint8_t **ret_payload,
			      size_t *ret_len, uint32_t *ret_hresult)
{
	size_t size;
	uint8_t *head = buf_room(reply, WIRE_HEADER_SIZE);
	TRY(fd_read_full(fd, head, WIRE_HEADER_SIZE, deadline));
	reply->len = WIRE_HEADER_SIZE;
	TRY(wire_reply_size((const uint8_t *)reply->data, reply->len, &size));
	TRY(fd_read_full(fd, buf_room(reply, size - WIRE_HEADER_SIZE), size - WIRE_HEADER_SIZE, deadline));
	reply->len = size;
	return wire_reply((const uint8_t *)reply->data, size, ret_payload, ret_len, ret_hresult);
}

static struct err *session_of(const uint8_t *payload, size_t len, uint64_t *ret)
{
	struct cursor c = cursor_make(payload, len);
	*ret = cursor_u64(&c);
	return cursor_ok(&c) ? NULL : err_new(ERR_BAD_DATA, "the runtime's answer names no session");
}

static struct err *stop_request(uint64_t session_id, struct buf *request)
{
	wire_begin(request, WIRE_SET_TRACING, WIRE_STOP_TRACING);
	buf_u64(request, session_id);
	return wire_end(request);
}

/* Asks with one version; *ret_known is false when the runtime does not know that version. With ret_stop_fd it is
 * stopped again by a connection that has been made before, so that nothing is left to do but to send. */
static struct err *try_version(const char *socket, const struct ipc_trace_config *config, int version,
			       struct deadline deadline, bool *ret_known, struct ipc_trace *ret, int *ret_stop_fd)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	CLEANUP(buf_free) struct buf reply = { 0 };
	CLEANUP(buf_free) struct buf stop = { 0 };
	CLOSE_FD int fd = -1;
	CLOSE_FD int stop_fd = -1;
	const uint8_t *payload;
	size_t len;
	uint32_t hresult;
	TRY(wire_collect_tracing(version, config, &request));
	TRY(send_to(socket, &request, deadline, &fd));
	if (ret_stop_fd)
		TRY(connect_wait(socket, deadline, &stop_fd));
	TRY(read_reply(fd, deadline, &reply, &payload, &len, &hresult));
	*ret_known = hresult != WIRE_UNKNOWN_COMMAND;
	if (hresult)
		return *ret_known ? wire_refusal(hresult) : NULL;
	uint64_t session_id;
	TRY(session_of(payload, len, &session_id));
	if (ret_stop_fd) {
		TRY(stop_request(session_id, &stop));
		TRY(connect_send(stop_fd, &stop, deadline));
		*ret_stop_fd = fd_steal(&stop_fd);
	}
	*ret = (struct ipc_trace){ .fd = fd_steal(&fd), .session_id = session_id, .command = version };
	return NULL;
}

static bool wants_ids(const struct ipc_trace_config *config)
{
	for (size_t i = 0; i < config->n_providers; i++)
		if (config->providers[i].n_only_ids)
			return true;
	return false;
}

struct err *ipc_trace_glance(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			     struct ipc_trace *ret, int *ret_stop_fd)
{
	for (int version = 6; version >= 1; version--) {
		bool known = true;
		TRY_WRAP(try_version(socket, config, version, deadline, &known, ret, ret_stop_fd),
			 "start an event session");
		if (!known)
			continue;
		ret->stacks_refused = !config->stacks && version < 3;
		ret->ids_ignored = wants_ids(config) && version < 5;
		return NULL;
	}
	return err_new(ERR_UNSUPPORTED, "this runtime has no event sessions");
}

struct err *ipc_trace_start(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			    struct ipc_trace *ret)
{
	return ipc_trace_glance(socket, config, deadline, ret, NULL);
}

#define ASK_VERSION 2 /* which every runtime with event sessions knows */

struct err *ipc_trace_ask(const char *socket, const struct ipc_trace_config *config, struct deadline deadline,
			  int *ret_fd)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	TRY(wire_collect_tracing(ASK_VERSION, config, &request));
	TRY_WRAP(send_to(socket, &request, deadline, ret_fd), "start an event session");
	return NULL;
}

struct err *ipc_trace_answer(int fd, struct deadline deadline, uint64_t *ret_session_id)
{
	CLEANUP(buf_free) struct buf reply = { 0 };
	const uint8_t *payload;
	size_t len;
	uint32_t hresult;
	TRY_WRAP(read_reply(fd, deadline, &reply, &payload, &len, &hresult), "start an event session");
	if (hresult)
		return wire_refusal(hresult);
	return session_of(payload, len, ret_session_id);
}

struct err *ipc_trace_stop(const char *socket, uint64_t session_id, struct deadline deadline, int *ret_fd)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	TRY(stop_request(session_id, &request));
	TRY_WRAP(send_to(socket, &request, deadline, ret_fd), "stop the event session");
	return NULL;
}

struct err *ipc_dump_start(const char *socket, const char *path, enum ipc_dump_type type, int version,
			   struct deadline deadline, int *ret_fd)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	wire_begin(&request, WIRE_SET_DUMP, (uint8_t)(WIRE_CORE_DUMP + version - 1));
	wire_string(&request, path);
	buf_u32(&request, type);
	buf_u32(&request, 0);
	TRY(wire_end(&request));
	TRY_WRAP(send_to(socket, &request, deadline, ret_fd), "ask the runtime for a dump");
	return NULL;
}

struct err *ipc_dump_answer(int fd, struct deadline deadline, bool *ret_known)
{
	CLEANUP(buf_free) struct buf reply = { 0 };
	const uint8_t *payload;
	size_t len;
	uint32_t hresult;
	TRY_WRAP(read_reply(fd, deadline, &reply, &payload, &len, &hresult), "the runtime's answer");
	*ret_known = hresult != WIRE_UNKNOWN_COMMAND;
	if (!hresult || !*ret_known)
		return NULL;
	CLEANUP(mem_freep) char *text = wire_refusal_text((const uint8_t *)reply.data, reply.len);
	struct err *err = wire_refusal(hresult);
	if (!text)
		return err;
	err_free(err);
	for (size_t n = strlen(text); n && (text[n - 1] == '\n' || text[n - 1] == '\r'); n--)
		text[n - 1] = '\0';
	return err_new(ERR_IO, "the runtime wrote no dump: %s", text);
}

struct err *ipc_attach_profiler(const char *socket, const struct ipc_attach *attach, struct deadline deadline,
				uint32_t *ret_hresult)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	CLEANUP(buf_free) struct buf reply = { 0 };
	CLOSE_FD int fd = -1;
	const uint8_t *payload;
	size_t len;
	uint32_t refused;
	wire_begin(&request, WIRE_SET_PROFILER, WIRE_ATTACH_PROFILER);
	buf_u32(&request, attach->timeout_ms);
	buf_add(&request, attach->clsid, sizeof(attach->clsid));
	wire_string(&request, attach->path);
	buf_u32(&request, (uint32_t)attach->len);
	buf_add(&request, attach->data, attach->len);
	TRY(wire_end(&request));
	TRY(send_to(socket, &request, deadline, &fd));
	TRY(read_reply(fd, deadline, &reply, &payload, &len, &refused));
	struct cursor c = cursor_make(payload, len);
	uint32_t hresult = refused ? refused : cursor_u32(&c);
	if (!refused && !cursor_ok(&c))
		return err_new(ERR_BAD_DATA, "the runtime's answer is cut short");
	*ret_hresult = hresult;
	return NULL;
}

/* An array of strings "NAME=VALUE", of which the values may be anything. */
static struct err *find_variable(const struct buf *text, const char *name, char **ret)
{
	struct cursor c = cursor_make(text->data, text->len);
	uint32_t n = cursor_u32(&c);
	for (uint32_t i = 0; i < n && cursor_ok(&c); i++) {
		uint32_t units = cursor_u32(&c);
		if (!cursor_ok(&c) || units > cursor_left(&c) / 2)
			return err_new(ERR_BAD_DATA, "the environment that the runtime sent is damaged");
		const uint8_t *p = cursor_take(&c, (size_t)units * 2);
		CLEANUP(buf_free) struct buf line = { 0 };
		utf16_add(&line, p, units ? units - 1 : 0);
		const char *equals = strchr(buf_cstr(&line), '=');
		if (equals && (size_t)(equals - line.data) == strlen(name) && !strncmp(line.data, name, strlen(name))) {
			*ret = mem_strdup(equals + 1);
			return NULL;
		}
	}
	*ret = NULL;
	return cursor_ok(&c) ? NULL : err_new(ERR_BAD_DATA, "the environment that the runtime sent is cut short");
}

struct err *ipc_process_env(const char *socket, const char *name, struct deadline deadline, char **ret)
{
	CLEANUP(buf_free) struct buf request = { 0 };
	CLEANUP(buf_free) struct buf reply = { 0 }, text = { 0 };
	CLOSE_FD int fd = -1;
	const uint8_t *payload;
	size_t len;
	uint32_t refused;
	wire_begin(&request, WIRE_SET_PROCESS, WIRE_ENVIRONMENT);
	TRY(wire_end(&request));
	TRY(send_to(socket, &request, deadline, &fd));
	TRY(read_reply(fd, deadline, &reply, &payload, &len, &refused));
	if (refused)
		return wire_refusal(refused);
	struct cursor c = cursor_make(payload, len);
	uint32_t size = cursor_u32(&c);
	if (!cursor_ok(&c) || size > ENVIRONMENT_MAX)
		return err_new(ERR_BAD_DATA, "the environment that the runtime sends is too large");
	TRY(fd_read_full(fd, buf_room(&text, size), size, deadline));
	text.len = size;
	return find_variable(&text, name, ret);
}
