#include "sampler/records.h"
#include "base/cursor.h"
#include <linux/perf_event.h>

/* perf's order of registers to the order of instructions. */
static const uint8_t ORDER[9] = { 0, 3, 1, 2, 6, 7, 5, 4, 16 };

static void parse_regs(struct cursor *c, struct record *r)
{
	if (!cursor_u64(c)) /* the abi; none: a thread of the kernel */
		return;
	r->has_regs = true;
	for (size_t i = 0; i < RECORD_REGS_N; i++) {
		uint64_t v = cursor_u64(c);
		size_t to = i < 9 ? ORDER[i] : i - 1;
		if (to == 16)
			r->regs.ip = v;
		else
			r->regs.r[to] = v;
	}
}

/* TID, TIME, CPU, PERIOD (or not), CALLCHAIN, REGS_USER, STACK_USER */
static void parse_sample(struct cursor *c, bool counted, struct record *r)
{
	r->pid = cursor_u32(c);
	r->tid = cursor_u32(c);
	r->time = cursor_u64(c);
	r->cpu = cursor_u32(c);
	cursor_u32(c);
	r->period = counted ? 1 : cursor_u64(c);
	uint64_t n = cursor_u64(c);
	if (n > cursor_left(c) / 8) {
		c->bad = true;
		return;
	}
	r->kernel = cursor_take(c, n * 8);
	r->n_kernel = n;
	parse_regs(c, r);
	uint64_t size = cursor_u64(c);
	if (!size)
		return;
	const uint8_t *bytes = cursor_take(c, size);
	uint64_t real = cursor_u64(c);
	if (!bytes || real > size) {
		c->bad = true;
		return;
	}
	r->stack = (struct unwind_stack){ .sp = r->regs.r[4], .bytes = bytes, .n = real, .full = real == size };
}

/* What every record that is no sample ends with: TID, TIME, CPU. */
static bool parse_trailer(struct cursor *c, struct record *r)
{
	if (cursor_left(c) < 24)
		return false;
	struct cursor t = cursor_make(c->end - 24, 24);
	c->end -= 24;
	r->pid = cursor_u32(&t);
	r->tid = cursor_u32(&t);
	r->time = cursor_u64(&t);
	r->cpu = cursor_u32(&t);
	return true;
}

static bool parse(const uint8_t *bytes, size_t len, bool counted, struct record *ret)
{
	struct cursor c = cursor_make(bytes, len);
	uint32_t type = cursor_u32(&c);
	uint16_t misc = cursor_u16(&c), size = cursor_u16(&c);
	*ret = (struct record){ .kind = RECORD_OTHER };
	if (!cursor_ok(&c) || size != len)
		return false;
	if (type == PERF_RECORD_SAMPLE) {
		ret->kind = RECORD_SAMPLE;
		parse_sample(&c, counted, ret);
		return cursor_ok(&c);
	}
	if (!parse_trailer(&c, ret))
		return false;
	switch (type) {
	case PERF_RECORD_LOST:
		ret->kind = RECORD_LOST;
		cursor_u64(&c);
		ret->lost = cursor_u64(&c);
		break;
	case PERF_RECORD_SWITCH:
		ret->kind = RECORD_SWITCH;
		ret->out = misc & PERF_RECORD_MISC_SWITCH_OUT;
		ret->preempted = misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
		break;
	case PERF_RECORD_COMM:
		ret->kind = RECORD_COMM;
		ret->pid = cursor_u32(&c);
		ret->tid = cursor_u32(&c);
		ret->comm = (const char *)c.p;
		ret->exec = misc & PERF_RECORD_MISC_COMM_EXEC;
		ret->comm_len = strnlen(ret->comm, MIN(cursor_left(&c), (size_t)16));
		break;
	case PERF_RECORD_THROTTLE:
		ret->kind = RECORD_THROTTLE;
		break;
	default:
		break;
	}
	return cursor_ok(&c);
}

bool record_parse(const uint8_t *bytes, size_t len, struct record *ret)
{
	return parse(bytes, len, false, ret);
}

bool record_parse_counted(const uint8_t *bytes, size_t len, struct record *ret)
{
	return parse(bytes, len, true, ret);
}

uint64_t record_kernel_ip(const struct record *r, size_t i)
{
	uint64_t ip;
	memcpy(&ip, r->kernel + 8 * i, 8);
	return ip >= PERF_CONTEXT_MAX ? 0 : ip;
}
