#pragma once
/* Messages of the diagnostics IPC protocol: built and taken apart, no socket here. Private to ipc.
 *
 *   0  char magic[14] = "DOTNET_IPC_V1\0"
 *  14  u16  size of the whole message, these 20 bytes included
 *  16  u8   command set (0xFF = reply)
 *  17  u8   command id  (0x00 = OK, 0xFF = error in a reply)
 *  18  u16  0
 *  20  payload; all little endian
 *
 * string: u32 count of UTF-16 units with the NUL, then the units; count 0 = none. */

#include "base/buf.h"
#include "base/err.h"
#include "ipc/ipc.h"

#define WIRE_HEADER_SIZE 20
#define WIRE_MESSAGE_MAX 65535

enum wire_set {
	WIRE_SET_DUMP = 0x01,
	WIRE_SET_TRACING = 0x02,
	WIRE_SET_PROFILER = 0x03,
	WIRE_SET_PROCESS = 0x04,
	WIRE_SET_REPLY = 0xFF,
};
enum wire_id {
	WIRE_CORE_DUMP = 0x01, /* and the versions 2 and 3 behind it */
	WIRE_STOP_TRACING = 0x01,
	WIRE_COLLECT_TRACING = 0x02, /* and the versions 2..6 behind it */
	WIRE_ATTACH_PROFILER = 0x01,
	WIRE_PROCESS_INFO = 0x00,
	WIRE_RESUME_RUNTIME = 0x01,
	WIRE_ENVIRONMENT = 0x02,
	WIRE_SET_ENVIRONMENT = 0x03,
	WIRE_PROCESS_INFO2 = 0x04,
	WIRE_PROCESS_INFO3 = 0x08,
};

/* Appends a message; wire_end sets its size and refuses one that is too long. */
void wire_begin(struct buf *b, uint8_t set, uint8_t id);
void wire_string(struct buf *b, const char *s); /* NULL = none */
struct err *wire_end(struct buf *b) MUST_USE;

/* Size of the whole reply, given at least its header. */
struct err *wire_reply_size(const uint8_t *data, size_t len, size_t *ret) MUST_USE;

#define WIRE_UNKNOWN_COMMAND 0x80131385u
/* A whole reply: its payload, or the runtime's error: then *ret_hresult is not 0 and there is no payload. */
struct err *wire_reply(const uint8_t *data, size_t len, const uint8_t **ret_payload, size_t *ret_len,
		       uint32_t *ret_hresult) MUST_USE;
/* The runtime's refusal in words. */
struct err *wire_refusal(uint32_t hresult) MUST_USE;

/* What the runtime adds to an error code in newer commands, or NULL. The caller frees. */
char *wire_refusal_text(const uint8_t *data, size_t len);

/* The command id of ProcessInfo version 1, 2 or 3. */
uint8_t wire_process_info_id(int version);
/* The payload of its reply. */
struct err *wire_process_info(int version, const uint8_t *payload, size_t len, struct ipc_process_info *ret) MUST_USE;

/* The request CollectTracing version 1..6. */
struct err *wire_collect_tracing(int version, const struct ipc_trace_config *config, struct buf *b) MUST_USE;
