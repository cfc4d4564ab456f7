/* Writes the corpus of fuzz_agent_samples: corpus_agent FOLDER. */
#include "base/fd.h"
#include "wire/agent.h"

static void note(struct buf *b, struct wire_agent_note n, const void *more, size_t len)
{
	if (len)
		n.code = (int32_t)len;
	buf_add(b, &n, sizeof(n));
	buf_add(b, more, len);
}

static void save(const char *folder, const char *name, struct buf *b)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	err_ignore(file_write_atomic(path, b->data, b->len, 0644));
	buf_clear(b);
}

static void sample(struct buf *b, uint64_t time_ns, uint32_t asked)
{
	struct {
		struct wire_agent_sample head;
		uint64_t stack[4];
	} s = { .head = { .tid = 5, .stack_len = 32, .asked = asked, .time_ns = time_ns, .cpu_ns = 9, .ip = 0x1234 },
		.stack = { 1, 2, 3, 4 } };
	note(b, (struct wire_agent_note){ .kind = WIRE_AGENT_SAMPLE }, &s, sizeof(s));
}

int main(int argc, char **argv)
{
	struct wire_agent_thread thread = { .tid = 5, .cpu_ns = 77, .name = "sixteen letters!" };
	CLEANUP(buf_free) struct buf b = { 0 };
	if (argc != 2)
		return 2;
	buf_char(&b, '\xff');
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_STARTED }, NULL, 0);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_THREAD }, &thread, sizeof(thread));
	sample(&b, 100, 32);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_ANSWER, .code = 2 }, NULL, 0);
	sample(&b, 900, 64);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_SAMPLED, .values = { [WIRE_AGENT_HANDLED] = 2 } }, NULL,
	     0);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_LEAVING }, NULL, 0);
	save(argv[1], "whole", &b);
	buf_char(&b, 1); /* small pieces, newest first, and one that lies beyond all time */
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_STARTED }, NULL, 0);
	sample(&b, UINT64_MAX, 32);
	sample(&b, 5, 32);
	save(argv[1], "late", &b);
	buf_char(&b, 9);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_REFUSED, .why = WIRE_AGENT_NO_TIMER, .code = 11 }, NULL,
	     0);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_SAMPLE, .code = -1 }, NULL, 0);
	save(argv[1], "refused", &b);
	buf_char(&b, 0);
	note(&b, (struct wire_agent_note){ .kind = WIRE_AGENT_COPIED }, NULL, 0);
	save(argv[1], "of-another-mode", &b);
	return 0;
}
