#include "ipc/wire.h"
#include "base/cursor.h"
#include "base/str.h"
#include <string.h>

static const char magic[14] = "DOTNET_IPC_V1";

void wire_string(struct buf *b, const char *s)
{
	CLEANUP(buf_free) struct buf units = { 0 };
	if (s) {
		utf16_from_utf8(&units, s);
		buf_add(&units, "\0", 2);
	}
	buf_u32(b, (uint32_t)(units.len / 2));
	buf_add(b, buf_cstr(&units), units.len);
}

void wire_begin(struct buf *b, uint8_t set, uint8_t id)
{
	buf_clear(b);
	buf_add(b, magic, sizeof(magic));
	buf_add(b, "\0", 2);
	buf_u8(b, set);
	buf_u8(b, id);
	buf_add(b, "\0", 2);
}

struct err *wire_end(struct buf *b)
{
	if (b->overflow || b->len > WIRE_MESSAGE_MAX)
		return err_new(ERR_USAGE, "the request is too long for the runtime (%zu of at most %d bytes)", b->len,
			       WIRE_MESSAGE_MAX);
	uint16_t size = (uint16_t)b->len;
	memcpy(b->data + sizeof(magic), &size, sizeof(size));
	return NULL;
}

struct err *wire_reply_size(const uint8_t *data, size_t len, size_t *ret)
{
	struct cursor c = cursor_make(data, len);
	const uint8_t *head = cursor_take(&c, sizeof(magic));
	uint16_t size = cursor_u16(&c);
	if (!cursor_ok(&c) || memcmp(head, magic, sizeof(magic)) != 0)
		return err_new(ERR_BAD_DATA, "what answers does not speak the diagnostics protocol");
	if (size < WIRE_HEADER_SIZE)
		return err_new(ERR_BAD_DATA, "the answer claims to be %u bytes long", size);
	*ret = size;
	return NULL;
}

struct err *wire_reply(const uint8_t *data, size_t len, const uint8_t **ret_payload, size_t *ret_len,
		       uint32_t *ret_hresult)
{
	size_t size = 0;
	TRY(wire_reply_size(data, len, &size));
	if (size > len)
		return err_new(ERR_BAD_DATA, "the answer is cut short");
	struct cursor c = cursor_make(data + sizeof(magic) + 2, size - sizeof(magic) - 2);
	uint8_t set = cursor_u8(&c), id = cursor_u8(&c);
	cursor_u16(&c);
	if (set != WIRE_SET_REPLY || (id != 0x00 && id != 0xFF))
		return err_new(ERR_BAD_DATA, "the answer is of an unknown kind (%02x.%02x)", set, id);
	uint32_t hresult = 0;
	if (id == 0xFF) {
		hresult = cursor_u32(&c);
		if (!cursor_ok(&c) || !hresult)
			return err_new(ERR_BAD_DATA, "the runtime refused without saying why");
	}
	*ret_hresult = hresult;
	*ret_payload = c.p;
	*ret_len = hresult ? 0 : cursor_left(&c);
	return NULL;
}

struct err *wire_refusal(uint32_t hresult)
{
	static const struct {
		uint32_t hresult;
		enum err_kind kind;
		const char *words;
	} known[] = {
		{ 0x80131384, ERR_BAD_DATA, "the runtime could not read our request" },
		{ WIRE_UNKNOWN_COMMAND, ERR_UNSUPPORTED, "this runtime does not know the command" },
		{ 0x80131386, ERR_BAD_DATA, "the runtime speaks another version of the protocol" },
		{ 0x80131515, ERR_UNSUPPORTED, "this runtime does not support it" },
		{ 0x80004005, ERR_IO, "the runtime failed without saying why" },
		{ 0x8013135b, ERR_BUSY, "the runtime is not ready yet: it is still starting" },
		{ 0x80131371, ERR_BUSY, "the runtime is not ready yet: it is still starting" },
		{ 0x80070057, ERR_USAGE, "the runtime does not accept the arguments" },
		{ 0x800000CB, ERR_NOT_FOUND, "the variable is not set in the process" },
		{ 0x8007000E, ERR_IO, "the runtime ran out of memory" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].hresult == hresult)
			return err_new(known[i].kind, "%s", known[i].words);
	return err_new(ERR_IO, "the runtime refused with error 0x%08x", hresult);
}

uint8_t wire_process_info_id(int version)
{
	return version == 3 ? WIRE_PROCESS_INFO3 : version == 2 ? WIRE_PROCESS_INFO2 : WIRE_PROCESS_INFO;
}

/* NULL when it is none or damaged (then c is bad). */
static char *take_string(struct cursor *c)
{
	uint32_t n = cursor_u32(c);
	if (n > cursor_left(c) / 2) {
		c->bad = true;
		return NULL;
	}
	const uint8_t *units = cursor_take(c, (size_t)n * 2);
	if (!units || !n)
		return NULL;
	size_t len = 0;
	while (len < n && (units[len * 2] || units[len * 2 + 1]))
		len++;
	struct buf s = { 0 };
	utf16_add(&s, units, len);
	return buf_steal(&s);
}

char *wire_refusal_text(const uint8_t *data, size_t len)
{
	struct cursor c = cursor_make(data, len);
	cursor_take(&c, WIRE_HEADER_SIZE + sizeof(uint32_t));
	return cursor_ok(&c) ? take_string(&c) : NULL;
}

struct err *wire_process_info(int version, const uint8_t *payload, size_t len, struct ipc_process_info *ret)
{
	struct cursor c = cursor_make(payload, len);
	struct ipc_process_info info = { .command = version };
	if (version >= 3)
		cursor_u32(&c); /* a later layout only adds behind what we read */
	info.pid = cursor_u64(&c);
	const uint8_t *cookie = cursor_take(&c, sizeof(info.cookie));
	if (cookie)
		memcpy(info.cookie, cookie, sizeof(info.cookie));
	info.command_line = take_string(&c);
	info.os = take_string(&c);
	info.arch = take_string(&c);
	if (version >= 2) {
		info.entry_assembly = take_string(&c);
		info.runtime_version = take_string(&c);
	}
	if (version >= 3)
		info.rid = take_string(&c);
	if (!cursor_ok(&c)) {
		ipc_process_info_fini(&info);
		return err_new(ERR_BAD_DATA, "the runtime's description of itself is damaged");
	}
	*ret = info;
	return NULL;
}

static void add_provider(struct buf *b, int version, const struct ipc_provider *p)
{
	buf_u64(b, p->keywords);
	buf_u32(b, p->level);
	wire_string(b, p->name);
	wire_string(b, p->args);
	if (version < 5)
		return;
	buf_u8(b, p->n_only_ids > 0 && !p->skip_ids);
	buf_u32(b, (uint32_t)p->n_only_ids);
	for (size_t i = 0; i < p->n_only_ids; i++)
		buf_u32(b, p->only_ids[i]);
}

/* Each version adds to the one before:
 *   1  u32 buffer MB, u32 format, providers
 *   2  ... bool rundown before the providers
 *   3  ... bool stacks behind the rundown
 *   4  ... the rundown is u64 keywords
 *   5  u32 kind of session in front; providers with a filter of event ids
 *   6  ... u32 what to do when the buffer is full, at the end */
struct err *wire_collect_tracing(int version, const struct ipc_trace_config *config, struct buf *b)
{
	wire_begin(b, WIRE_SET_TRACING, (uint8_t)(WIRE_COLLECT_TRACING + version - 1));
	if (version >= 5)
		buf_u32(b, 0); /* streamed to us */
	buf_u32(b, config->buffer_mb);
	buf_u32(b, 1); /* nettrace */
	if (version >= 4)
		buf_u64(b, config->rundown);
	else if (version >= 2)
		buf_u8(b, config->rundown != 0);
	if (version >= 3)
		buf_u8(b, config->stacks);
	buf_u32(b, (uint32_t)config->n_providers);
	for (size_t i = 0; i < config->n_providers; i++)
		add_provider(b, version, &config->providers[i]);
	if (version >= 6)
		buf_u32(b, 0); /* drop events: never block the target */
	return wire_end(b);
}
