#include "image/seccomp.h"
#include "base/fd.h"
#include "target/proc.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER ((enum __ptrace_request)0x420c)
#endif
#define FILTERS_MAX 64

#define STEPS_MAX 200000 /* of all paths through a filter that depend on what is not known */

/* The machine of classic BPF as seccomp uses it, but that values may be unknown. */
struct bpf_value {
	uint32_t v;
	bool unknown;
};
struct bpf_machine {
	struct bpf_value a, x, mem[BPF_MEMWORDS];
	struct seccomp_data data;
	uint8_t unknown;
};

/* nr, arch, ip, six arguments. */
static bool is_unknown(const struct bpf_machine *m, uint32_t at)
{
	if (at < offsetof(struct seccomp_data, instruction_pointer))
		return false;
	if (at < offsetof(struct seccomp_data, args))
		return m->unknown & SECCOMP_ANY_IP;
	return m->unknown >> (at - offsetof(struct seccomp_data, args)) / 8 & 1;
}

static bool load(struct bpf_machine *m, uint32_t mode, uint32_t k, struct bpf_value *ret)
{
	*ret = (struct bpf_value){ .v = k };
	switch (mode) {
	case BPF_ABS:
		if (k % 4 || k > sizeof(m->data) - 4)
			return false;
		memcpy(&ret->v, (const char *)&m->data + k, 4);
		ret->unknown = is_unknown(m, k);
		return true;
	case BPF_IMM:
		return true;
	case BPF_LEN:
		ret->v = sizeof(m->data);
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

static bool compute(struct bpf_machine *m, uint16_t code, uint32_t k)
{
	struct bpf_value by = BPF_SRC(code) == BPF_X ? m->x : (struct bpf_value){ .v = k };
	uint32_t b = by.v, *a = &m->a.v;
	/* A bit that is masked away is known, but what is asked for then is the rest. */
	m->a.unknown |= by.unknown && BPF_OP(code) != BPF_NEG;
	switch (BPF_OP(code)) {
	case BPF_ADD:
		*a += b;
		return true;
	case BPF_SUB:
		*a -= b;
		return true;
	case BPF_MUL:
		*a *= b;
		return true;
	case BPF_DIV:
		if (!b || by.unknown)
			return false;
		*a /= b;
		return true;
	case BPF_OR:
		*a |= b;
		return true;
	case BPF_AND:
		*a &= b;
		return true;
	case BPF_XOR:
		*a ^= b;
		return true;
	case BPF_LSH:
		*a = b < 32 ? *a << b : 0;
		return true;
	case BPF_RSH:
		*a = b < 32 ? *a >> b : 0;
		return true;
	case BPF_NEG:
		*a = -*a;
		return true;
	default:
		return false;
	}
}

/* How far to jump on: jt or jf; *ret_other is the other one when it cannot be known. False when it is no jump. */
static bool jump(const struct bpf_machine *m, const struct sock_filter *i, uint32_t *ret, uint32_t *ret_other)
{
	struct bpf_value by = BPF_SRC(i->code) == BPF_X ? m->x : (struct bpf_value){ .v = i->k };
	bool yes;
	switch (BPF_OP(i->code)) {
	case BPF_JA:
		*ret = *ret_other = i->k;
		return true;
	case BPF_JEQ:
		yes = m->a.v == by.v;
		break;
	case BPF_JGT:
		yes = m->a.v > by.v;
		break;
	case BPF_JGE:
		yes = m->a.v >= by.v;
		break;
	case BPF_JSET:
		yes = m->a.v & by.v;
		break;
	default:
		return false;
	}
	*ret = yes ? i->jt : i->jf;
	*ret_other = m->a.unknown || by.unknown ? i->jt + i->jf - *ret : *ret;
	return true;
}

/* One instruction that is no jump; false when it is not one of the machine. */
static bool step(struct bpf_machine *m, const struct sock_filter *i)
{
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

static enum seccomp_answer answer_of(struct bpf_value v)
{
	switch (v.unknown ? SECCOMP_RET_KILL_PROCESS : v.v & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return SECCOMP_ALLOWS;
	case SECCOMP_RET_ERRNO:
		return SECCOMP_REFUSES;
	default:
		return SECCOMP_KILLS;
	}
}

/* Jumps go forward only, so each path ends; both are taken where the way is not known. */
static enum seccomp_answer run_from(struct bpf_machine m, const struct sock_filter *program, size_t len, size_t at,
				    size_t *steps)
{
	enum seccomp_answer worst = SECCOMP_ALLOWS;
	while (at < len && ++*steps < STEPS_MAX) {
		const struct sock_filter *i = &program[at++];
		uint32_t far, other;
		if (BPF_CLASS(i->code) == BPF_RET)
			return MAX(worst,
				   answer_of(BPF_RVAL(i->code) == BPF_A ? m.a : (struct bpf_value){ .v = i->k }));
		if (BPF_CLASS(i->code) != BPF_JMP) {
			if (!step(&m, i))
				break;
			continue;
		}
		if (!jump(&m, i, &far, &other))
			break;
		if (other != far)
			worst = MAX(worst, run_from(m, program, len, at + other, steps));
		if (worst == SECCOMP_KILLS)
			break;
		at += far;
	}
	return SECCOMP_KILLS;
}

enum seccomp_answer seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_call *call)
{
	size_t steps = 0;
	struct bpf_machine m = {
		.data = { .nr = (int)call->nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = call->ip },
		.unknown = call->unknown
	};
	memcpy(m.data.args, call->args, sizeof(m.data.args));
	return run_from(m, program, len, 0, &steps);
}

bool seccomp_ask(pid_t tid, const struct seccomp_call *calls, size_t n, enum seccomp_answer *answers)
{
	static struct sock_filter program[BPF_MAXINSNS];
	for (unsigned long filter = 0; filter < FILTERS_MAX; filter++) {
		long len = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)filter, NULL);
		if (len < 0 && errno == ENOENT)
			return true;
		if (len < 0 || len > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)filter, program) != len)
			return false;
		for (size_t i = 0; i < n; i++)
			answers[i] = MAX(answers[i], seccomp_run(program, (size_t)len, &calls[i]));
	}
	return false;
}

bool seccomp_may_read(void)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	struct proc_status self;
	struct err *err = file_read("/proc/self/status", 1 << 20, &text);
	bool ok = !err && proc_parse_status(text.data, text.len, &self) && !self.seccomp &&
		  (self.cap_effective >> CAP_SYS_ADMIN & 1);
	err_free(err);
	return ok;
}
