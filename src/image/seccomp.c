#include "image/seccomp.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER ((enum __ptrace_request)0x420c)
#endif
#define FILTERS_MAX 64

/* The machine of classic BPF as seccomp uses it. */
struct machine {
	uint32_t a, x, mem[BPF_MEMWORDS];
	struct seccomp_data data;
};

static bool load(struct machine *m, uint32_t mode, uint32_t k, uint32_t *ret)
{
	switch (mode) {
	case BPF_ABS:
		if (k % 4 || k > sizeof(m->data) - 4)
			return false;
		memcpy(ret, (const char *)&m->data + k, 4);
		return true;
	case BPF_IMM:
		*ret = k;
		return true;
	case BPF_LEN:
		*ret = sizeof(m->data);
		return true;
	case BPF_MEM:
		if (k >= BPF_MEMWORDS)
			return false;
		*ret = m->mem[k];
		return true;
	default:
		return false;
	}
}

static bool compute(struct machine *m, uint16_t code, uint32_t k)
{
	uint32_t b = BPF_SRC(code) == BPF_X ? m->x : k;
	switch (BPF_OP(code)) {
	case BPF_ADD:
		m->a += b;
		return true;
	case BPF_SUB:
		m->a -= b;
		return true;
	case BPF_MUL:
		m->a *= b;
		return true;
	case BPF_DIV:
		if (!b)
			return false;
		m->a /= b;
		return true;
	case BPF_OR:
		m->a |= b;
		return true;
	case BPF_AND:
		m->a &= b;
		return true;
	case BPF_XOR:
		m->a ^= b;
		return true;
	case BPF_LSH:
		m->a = b < 32 ? m->a << b : 0;
		return true;
	case BPF_RSH:
		m->a = b < 32 ? m->a >> b : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	default:
		return false;
	}
}

/* How far to jump on: jt or jf; false when unknown. */
static bool jump(const struct machine *m, const struct sock_filter *i, uint32_t *ret)
{
	uint32_t b = BPF_SRC(i->code) == BPF_X ? m->x : i->k;
	switch (BPF_OP(i->code)) {
	case BPF_JA:
		*ret = i->k;
		return true;
	case BPF_JEQ:
		*ret = m->a == b ? i->jt : i->jf;
		return true;
	case BPF_JGT:
		*ret = m->a > b ? i->jt : i->jf;
		return true;
	case BPF_JGE:
		*ret = m->a >= b ? i->jt : i->jf;
		return true;
	case BPF_JSET:
		*ret = m->a & b ? i->jt : i->jf;
		return true;
	default:
		return false;
	}
}

/* One instruction; false when it is not one of the machine. *at is the next one. */
static bool step(struct machine *m, const struct sock_filter *i, size_t *at)
{
	uint32_t far;
	switch (BPF_CLASS(i->code)) {
	case BPF_LD:
		return load(m, BPF_MODE(i->code), i->k, &m->a);
	case BPF_LDX:
		return BPF_MODE(i->code) != BPF_ABS && load(m, BPF_MODE(i->code), i->k, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (i->k >= BPF_MEMWORDS)
			return false;
		m->mem[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return compute(m, i->code, i->k);
	case BPF_JMP:
		if (!jump(m, i, &far))
			return false;
		*at += far;
		return true;
	case BPF_MISC:
		if (BPF_MISCOP(i->code) == BPF_TAX)
			m->x = m->a;
		else if (BPF_MISCOP(i->code) == BPF_TXA)
			m->a = m->x;
		else
			return false;
		return true;
	default:
		return false;
	}
}

uint32_t seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_call *call)
{
	struct machine m = {
		.data = { .nr = (int)call->nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = call->ip }
	};
	memcpy(m.data.args, call->args, sizeof(m.data.args));
	/* Jumps go forward only, so it ends. */
	for (size_t at = 0; at < len;) {
		const struct sock_filter *i = &program[at++];
		if (BPF_CLASS(i->code) == BPF_RET)
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		if (!step(&m, i, &at))
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

bool seccomp_allows(uint32_t answer)
{
	uint32_t action = answer & SECCOMP_RET_ACTION_FULL;
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

enum seccomp_end seccomp_ask(pid_t tid, const struct seccomp_call *calls, size_t n)
{
	static struct sock_filter program[BPF_MAXINSNS];
	for (unsigned long filter = 0; filter < FILTERS_MAX; filter++) {
		long len = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)filter, NULL);
		if (len < 0 && errno == ENOENT)
			return SECCOMP_OPEN;
		if (len < 0 || len > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)filter, program) != len)
			return SECCOMP_HIDDEN;
		for (size_t i = 0; i < n; i++)
			if (!seccomp_allows(seccomp_run(program, (size_t)len, &calls[i])))
				return SECCOMP_FORBIDS;
	}
	return SECCOMP_HIDDEN;
}
