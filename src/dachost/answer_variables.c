/* Arguments and local variables of a thread's frames, as far as the JIT wrote down where they are. */

#include "dachost/host.h"
#include <string.h>

#define MAX_FRAMES 2000
#define MAX_VARIABLES 256 /* of one frame */

static void add_variable(struct host_answer *a, uint64_t sp, uint32_t index, bool is_local, struct xclr_value *value,
			 const struct buf *name)
{
	struct wire_dac_variable v = {
		.sp = sp, .index = index, .is_local = is_local, .text_len = (uint32_t)name->len
	};
	uint8_t bytes[16] = { 0 };
	uint32_t got = 0;
	uint64_t size = 0;
	if (value) {
		if (COM_CALL(value, GetFlags, &v.flags) < 0)
			v.flags = 0;
		if (COM_CALL(value, GetAddress, &v.address) < 0)
			v.address = 0;
		if (COM_CALL(value, GetSize, &size) < 0)
			size = 0;
		v.size = (uint32_t)(size < UINT32_MAX ? size : UINT32_MAX);
		/* It fails when the buffer is too small; larger ones are read where they are. */
		if (size && size <= sizeof(v.value) && COM_CALL(value, GetBytes, sizeof(bytes), &got, bytes) >= 0) {
			memcpy(&v.value, bytes, sizeof(v.value));
			v.known = 1;
		} else {
			v.known = size && v.address;
		}
	}
	answer_add(a, &v, sizeof(v));
	answer_text(a, name->data, name->len);
}

static void add_frame(struct xclr_frame *frame, uint64_t sp, struct host_answer *a, struct buf *name)
{
	static com_char units[HOST_NAME_MAX];
	uint32_t n = 0, len;
	struct xclr_value *value;
	if (COM_CALL(frame, GetNumArguments, &n) < 0)
		n = 0;
	for (uint32_t i = 0; i < n && i < MAX_VARIABLES; i++) {
		value = NULL;
		len = 0;
		units[0] = 0;
		com_hr hr = COM_CALL(frame, GetArgumentByIndex, i, &value, HOST_NAME_MAX, &len, units);
		host_utf8(units, HOST_NAME_MAX, name);
		add_variable(a, sp, i, false, hr < 0 ? NULL : value, name);
		COM_RELEASE(value);
	}
	n = 0;
	if (COM_CALL(frame, GetNumLocalVariables, &n) < 0)
		n = 0;
	buf_clear(name);
	for (uint32_t i = 0; i < n && i < MAX_VARIABLES; i++) {
		value = NULL;
		units[0] = 0;
		com_hr hr = COM_CALL(frame, GetLocalVariableByIndex, i, &value, HOST_NAME_MAX, &len, units);
		add_variable(a, sp, i, true, hr < 0 ? NULL : value, name);
		COM_RELEASE(value);
	}
}

static void visit(struct xclr_walk *walk, struct host_answer *a, struct buf *name)
{
	struct dacp_context context;
	struct xclr_frame *frame = NULL;
	if (!walk_context(walk, &context) || walk_explicit(walk))
		return;
	if (COM_CALL(walk, GetFrame, (void **)&frame) >= 0 && frame)
		add_frame(frame, context.rsp, a, name);
	COM_RELEASE(frame);
}

com_hr answer_variables(struct host *h, const struct host_question *q, struct host_answer *a)
{
	CLEANUP(walk_close) struct stack_walk w;
	CLEANUP(buf_free) struct buf name = { 0 };
	com_hr hr = walk_open(h, q->values[0], &w);
	if (hr < 0)
		return hr;
	for (size_t i = 0; hr == COM_OK && i < MAX_FRAMES; i++) {
		visit(w.walk, a, &name);
		hr = COM_CALL(w.walk, Next);
	}
	return COM_OK;
}
