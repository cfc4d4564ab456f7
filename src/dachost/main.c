/* drdotnet-dachost: loads the data-access library of a target's runtime, which is untrusted code from the target's file
 * system, in a process that has no rights left, and answers questions about an image. The protocol is wire/dac.h, the
 * client is the dac module, which alone starts it. */

#include "base/str.h"
#include "dachost/data_target.h"
#include "dachost/host.h"
#include "dachost/sandbox.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- bytes ---- */

/* The client is the only reason to be: when it is gone, so are we. */
static void send_all(int fd, const void *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		data = (const char *)data + n;
		len -= (size_t)n;
	}
}

static bool receive_all(int fd, void *data, size_t len)
{
	while (len) {
		ssize_t n = read(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data = (char *)data + n;
		len -= (size_t)n;
	}
	return true;
}

static void send_reply(struct host_answer *a, size_t len, uint16_t flags, com_hr hr)
{
	struct wire_dac_reply head = {
		.length = (uint32_t)len, .kind = (uint16_t)a->kind, .flags = flags, .id = a->id, .hr = hr
	};
	send_all(a->fd, &head, sizeof(head));
	send_all(a->fd, a->out.data, len);
	buf_consume(&a->out, len);
}

static void answer_flush(struct host_answer *a)
{
	while (!a->part && a->out.len > WIRE_DAC_MAX_REPLY)
		send_reply(a, WIRE_DAC_MAX_REPLY, 0, COM_OK);
}

void answer_add(struct host_answer *a, const void *record, size_t len)
{
	buf_add(&a->out, record, len);
	answer_flush(a);
}

void answer_text(struct host_answer *a, const char *text, size_t len)
{
	buf_add(&a->out, text, len);
	answer_flush(a);
}

/* The last reply: hr < 0 is a failure, whose text is the body. */
static void end_answer(struct host_answer *a, com_hr hr, const char *failure)
{
	if (hr < 0) {
		buf_clear(&a->out);
		buf_str(&a->out, failure);
	}
	send_reply(a, a->out.len, hr < 0 ? WIRE_DAC_END | WIRE_DAC_FAILED : WIRE_DAC_END, hr);
	buf_clear(&a->out);
}

void host_utf8(const com_char *name, size_t n, struct buf *out)
{
	size_t len = 0;
	while (len < n && name[len])
		len++;
	buf_clear(out);
	utf16_add(out, (const uint8_t *)name, len);
}

/* ---- start ---- */

static void hello(enum wire_dac_stage stage, com_hr hr, const char *text)
{
	struct host_answer a = { .fd = WIRE_DAC_FD_SOCKET, .kind = WIRE_DAC_HELLO };
	size_t len = text ? strlen(text) : 0;
	struct wire_dac_hello record = {
		.version = WIRE_DAC_VERSION, .stage = stage, .hr = hr, .text_len = (uint32_t)len
	};
	answer_add(&a, &record, sizeof(record));
	answer_text(&a, text, len);
	end_answer(&a, COM_OK, NULL);
	buf_free(&a.out);
}

static NORETURN void give_up(enum wire_dac_stage stage, com_hr hr, const char *text)
{
	hello(stage, hr, text);
	_exit(1);
}

/* What the library is linked against comes from our own system and is in memory before rights are dropped: the loader
 * then finds it by name and opens nothing. */
static void load_needed(void)
{
	static const char *const needed[] = { "libstdc++.so.6",	 "libgcc_s.so.1", "libm.so.6",
					      "libpthread.so.0", "libdl.so.2",	  "librt.so.1" };
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!dlopen(needed[i], RTLD_NOW | RTLD_GLOBAL))
			give_up(WIRE_DAC_NEEDS_LIBRARY, 0, needed[i]);
}

static void *query(struct host *h, unsigned number, const struct com_guid *iid)
{
	void *found = NULL;
	if (COM_CALL(h->process, QueryInterface, iid, &found) < 0 || !found)
		return NULL;
	h->interfaces |= 1u << number;
	return found;
}

static void create(struct host *h, void *library)
{
	dacp_main_fn dll_main = (dacp_main_fn)dlsym(library, "DllMain");
	dacp_create_fn create_instance = (dacp_create_fn)dlsym(library, "CLRDataCreateInstance");
	if (!create_instance)
		give_up(WIRE_DAC_NOT_A_DAC, 0, NULL);
	if (dll_main)
		dll_main(library, 1, NULL);
	void *process = NULL;
	com_hr hr = create_instance(&(struct com_guid)COM_IID_XCLR_PROCESS, data_target(&h->memory), &process);
	if (hr < 0 || !process)
		give_up(WIRE_DAC_REFUSED, hr, NULL);
	h->process = process;
	h->sos = query(h, 1, &(struct com_guid)COM_IID_SOS);
	if (!h->sos)
		give_up(WIRE_DAC_NOT_A_DAC, 0, NULL);
	h->sos2 = query(h, 2, &(struct com_guid)COM_IID_SOS2);
	h->sos5 = query(h, 5, &(struct com_guid)COM_IID_SOS5);
	h->sos6 = query(h, 6, &(struct com_guid)COM_IID_SOS6);
	h->sos8 = query(h, 8, &(struct com_guid)COM_IID_SOS8);
	h->sos9 = query(h, 9, &(struct com_guid)COM_IID_SOS9);
	h->sos12 = query(h, 12, &(struct com_guid)COM_IID_SOS12);
	h->sos13 = query(h, 13, &(struct com_guid)COM_IID_SOS13);
	h->sos14 = query(h, 14, &(struct com_guid)COM_IID_SOS14);
}

static void start(struct host *h)
{
	if (!memory_open(&h->memory, WIRE_DAC_FD_SETUP))
		give_up(WIRE_DAC_BAD_SETUP, 0, NULL);
	load_needed();
	const char *failure = sandbox_enter(&(struct sandbox_limits){
		.memory_bytes = h->memory.setup->memory_bytes,
		.cpu_seconds = h->memory.setup->cpu_seconds,
		.n_fds = WIRE_DAC_FD_IMAGE + h->memory.setup->n_fds,
	});
	if (failure)
		give_up(WIRE_DAC_NO_SANDBOX, 0, failure);
	void *library = sandbox_load(WIRE_DAC_FD_LIBRARY);
	if (!library)
		give_up(WIRE_DAC_NOT_LOADABLE, 0, dlerror());
	failure = sandbox_seal();
	if (failure)
		give_up(WIRE_DAC_NO_SANDBOX, 0, failure);
	create(h, library);
	hello(WIRE_DAC_READY, 0, NULL);
}

/* ---- requests ---- */

static const struct {
	answer_fn answer;
	size_t n_values; /* a question's length; SIZE_MAX = any */
} answers[WIRE_DAC_KINDS] = {
	[WIRE_DAC_RUNTIME] = { answer_runtime, 0 },
	[WIRE_DAC_THREADS] = { answer_threads, 0 },
	[WIRE_DAC_STACK] = { answer_stack, 1 },
	[WIRE_DAC_METHODS] = { answer_methods, SIZE_MAX },
	[WIRE_DAC_TYPES] = { answer_types, SIZE_MAX },
	[WIRE_DAC_FIELDS] = { answer_fields, 1 },
	[WIRE_DAC_MODULES] = { answer_modules, 0 },
	[WIRE_DAC_MODULE_TYPES] = { answer_module_types, 1 },
	[WIRE_DAC_HEAPS] = { answer_heaps, 0 },
	[WIRE_DAC_SEGMENTS] = { answer_segments, 0 },
	[WIRE_DAC_HANDLES] = { answer_handles, 0 },
	[WIRE_DAC_STACK_REFS] = { answer_stack_refs, 1 },
	[WIRE_DAC_IL_MAP] = { answer_il_map, 1 },
	[WIRE_DAC_SYNC_BLOCKS] = { answer_sync_blocks, 0 },
	[WIRE_DAC_EXCEPTION] = { answer_exception, 1 },
	[WIRE_DAC_STATICS] = { answer_statics, SIZE_MAX },
	[WIRE_DAC_OBJECTS] = { answer_objects, SIZE_MAX },
	[WIRE_DAC_THREAD_STATICS] = { answer_thread_statics, SIZE_MAX },
	[WIRE_DAC_LOADER_HEAPS] = { answer_loader_heaps, 1 },
	[WIRE_DAC_MEMORY] = { answer_memory, 0 },
	[WIRE_DAC_VARIABLES] = { answer_variables, 1 },
	[WIRE_DAC_BUSY_WORD] = { answer_busy_word, 0 },
	[WIRE_DAC_TYPE_METHODS] = { answer_type_methods, 1 },
	[WIRE_DAC_STACKS] = { answer_stacks, SIZE_MAX },
	[WIRE_DAC_STACKS_REFS] = { answer_stacks_refs, SIZE_MAX },
	[WIRE_DAC_VERSIONS] = { answer_versions, 1 },
	[WIRE_DAC_CLAUSES] = { answer_clauses, 1 },
	[WIRE_DAC_TOKEN] = { answer_token, 2 },
	[WIRE_DAC_TOKEN_NAMES] = { answer_token_names, SIZE_MAX },
	[WIRE_DAC_IL] = { answer_il, 1 },
	[WIRE_DAC_NAMED_HEAPS] = { answer_named_heaps, 1 },
	[WIRE_DAC_CODE_RANGES] = { answer_code_ranges, 0 },
	[WIRE_DAC_CODE_IN] = { answer_code_in, 2 },
	[WIRE_DAC_IL_AT] = { answer_il_at, SIZE_MAX },
	[WIRE_DAC_MODULE_CODE] = { answer_module_code, 3 },
};

static void serve(struct host *h, const struct wire_dac_request *head, const uint64_t *values, struct host_answer *a)
{
	struct host_question q = { .values = values, .n = head->length / sizeof(uint64_t) };
	a->kind = head->kind;
	a->id = head->id;
	if (head->kind >= WIRE_DAC_KINDS || !answers[head->kind].answer ||
	    (answers[head->kind].n_values != SIZE_MAX && answers[head->kind].n_values != q.n)) {
		end_answer(a, COM_E_NOTIMPL, "no such question");
		return;
	}
	char failure[120];
	(void)data_target_hole();
	com_hr hr = answers[head->kind].answer(h, &q, a);
	uint64_t hole = data_target_hole();
	if (hole)
		snprintf(failure, sizeof(failure),
			 "the data-access library has no answer: memory at 0x%llx is not in the image",
			 (unsigned long long)hole);
	end_answer(a, hr, hole ? failure : "the data-access library has no answer");
}

int main(void)
{
	static struct host host;
	struct host_answer a = { .fd = WIRE_DAC_FD_SOCKET };
	int type;
	socklen_t type_len = sizeof(type);
	if (getsockopt(WIRE_DAC_FD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &type_len)) {
		fprintf(stderr,
			"drdotnet-dachost is a part of drdotnet, which starts it; there is nothing to do for people\n");
		return 2;
	}
	start(&host);
	struct wire_dac_request head;
	uint64_t *values = mem_alloc(WIRE_DAC_MAX_REQUEST);
	while (receive_all(WIRE_DAC_FD_SOCKET, &head, sizeof(head)) && head.length <= WIRE_DAC_MAX_REQUEST &&
	       receive_all(WIRE_DAC_FD_SOCKET, values, head.length))
		serve(&host, &head, values, &a);
	/* Not exit: the library's hooks would run. */
	_exit(0);
}
