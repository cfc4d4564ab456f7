#include "image/frame.h"
#include "base/str.h"
#include <asm/sigcontext.h>
#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>

/* The kernel's struct ucontext, which differs from the C library's. */
struct kernel_ucontext {
	uint64_t flags, link;
	uint64_t ss_sp;
	int32_t ss_flags, pad;
	uint64_t ss_size;
	struct {
		uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
		uint16_t cs, gs, fs, ss;
		uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
	} mc;
	uint64_t sigmask;
};
struct signal_frame {
	uint64_t return_to;
	struct kernel_ucontext uc;
};
_Static_assert(sizeof(struct kernel_ucontext) == 304, "the kernel's layout");

#define UC_FP_XSTATE 1
#define UC_SIGCONTEXT_SS 2
#define UC_STRICT_RESTORE_SS 4
/* No such mode: the kernel leaves the alternate stack as it is and goes on. */
#define SS_FLAGS_KEEP 0x7ffe

#define AT_THREAD 0
#define AT_COPY 384
#define AT_XSTATE 768
_Static_assert(AT_THREAD + sizeof(struct signal_frame) <= AT_COPY, "frames must not touch");
_Static_assert(AT_COPY + sizeof(struct signal_frame) <= AT_XSTATE, "frames must not touch");
_Static_assert(AT_XSTATE % 64 == 0, "XRSTOR wants 64");

#define XSTATE_SW 464 /* words reserved for software within the FXSAVE area */
#define XSTATE_BV 512 /* which components are not in their initial state */
#define XSTATE_HEAD 576
/* Tile registers: their state may be larger than what the kernel has set aside for the thread. */
#define XFEATURES_TILE ((uint64_t)3 << 17)
#define XFEATURES_LAST 32

static uint64_t user_eflags(uint64_t eflags)
{
	return eflags & ~(uint64_t)0x100; /* never single-step */
}

static void put_context(struct kernel_ucontext *uc, const struct image_regs *r)
{
	uc->flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	uc->ss_flags = SS_FLAGS_KEEP;
	uc->mc.r8 = r->r8;
	uc->mc.r9 = r->r9;
	uc->mc.r10 = r->r10;
	uc->mc.r11 = r->r11;
	uc->mc.r12 = r->r12;
	uc->mc.r13 = r->r13;
	uc->mc.r14 = r->r14;
	uc->mc.r15 = r->r15;
	uc->mc.rdi = r->rdi;
	uc->mc.rsi = r->rsi;
	uc->mc.rbp = r->rbp;
	uc->mc.rbx = r->rbx;
	uc->mc.rdx = r->rdx;
	uc->mc.rax = r->rax;
	uc->mc.rcx = r->rcx;
	uc->mc.rsp = r->rsp;
	uc->mc.rip = r->rip;
	uc->mc.eflags = user_eflags(r->eflags);
	uc->mc.cs = (uint16_t)r->cs;
	uc->mc.ss = (uint16_t)r->ss;
}

/* Bytes of the standard format that the components take; 0 when the processor does not know one of them. */
static size_t xstate_size(uint64_t features)
{
	size_t size = XSTATE_HEAD;
	for (unsigned i = 2; i < XFEATURES_LAST; i++) {
		unsigned len, offset, c, d;
		if (!(features >> i & 1))
			continue;
		if (!__get_cpuid_count(0xd, i, &len, &offset, &c, &d) || !len || !offset)
			return 0;
		size = MAX(size, (size_t)offset + len);
	}
	return size;
}

/* The vector state as a signal frame has it; its length with the closing word, or 0. */
static size_t put_xstate(const struct frame_state *s, uint8_t *out)
{
	uint64_t features, in_use;
	if (s->xstate_len < XSTATE_HEAD)
		return 0;
	memcpy(&features, s->xstate + XSTATE_SW, sizeof(features));
	memcpy(&in_use, s->xstate + XSTATE_BV, sizeof(in_use));
	features &= ~XFEATURES_TILE;
	size_t size = xstate_size(features);
	if ((in_use & ~features) || !size || size > s->xstate_len)
		return 0;
	memcpy(out, s->xstate, size);
	struct _fpx_sw_bytes sw = { .magic1 = FP_XSTATE_MAGIC1,
				    .extended_size = (uint32_t)size + FP_XSTATE_MAGIC2_SIZE,
				    .xfeatures = features,
				    .xstate_size = (uint32_t)size };
	_Static_assert(sizeof(sw) == 48, "the kernel's layout");
	memcpy(out + XSTATE_SW, &sw, sizeof(sw));
	uint32_t magic2 = FP_XSTATE_MAGIC2;
	memcpy(out + size, &magic2, sizeof(magic2));
	return size + sizeof(magic2);
}

bool frame_build(const struct frame_state *s, struct frame *ret)
{
	*ret = (struct frame){ 0 };
	size_t xstate = put_xstate(s, ret->bytes + AT_XSTATE);
	if (!xstate)
		return false;
	ret->len = AT_XSTATE + xstate;
	ret->at = (s->regs.rsp - FRAME_RED_ZONE - ret->len) & ~(uint64_t)63;

	struct signal_frame thread = { .return_to = s->sigreturn_at };
	struct image_regs again = s->regs;
	again.rip -= 2; /* the syscall instruction */
	again.rax = s->call;
	put_context(&thread.uc, &again);
	thread.uc.flags |= UC_FP_XSTATE;
	thread.uc.mc.fpstate = ret->at + AT_XSTATE;
	thread.uc.sigmask = s->mask;
	memcpy(ret->bytes + AT_THREAD, &thread, sizeof(thread));

	struct signal_frame copy = { .return_to = s->sigreturn_at };
	struct image_regs end = { .rip = s->syscall_at,
				  .rsp = ret->at + AT_COPY,
				  .rax = SYS_exit_group,
				  .cs = s->regs.cs,
				  .ss = s->regs.ss,
				  .eflags = 0x202 };
	put_context(&copy.uc, &end);
	copy.uc.sigmask = UINT64_MAX;
	memcpy(ret->bytes + AT_COPY, &copy, sizeof(copy));

	ret->heal = s->regs;
	ret->heal.rip = s->sigreturn_at;
	ret->heal.rsp = ret->at + AT_THREAD + sizeof(thread.return_to);
	ret->heal.orig_rax = UINT64_MAX; /* no call of the kernel's own making */
	ret->heal.eflags = user_eflags(s->regs.eflags);
	return true;
}

struct image_regs frame_call(const struct frame *f, const struct frame_state *s, uint64_t nr, const uint64_t args[4])
{
	struct image_regs r = f->heal;
	r.rip = s->syscall_at;
	r.rsp = f->at + AT_THREAD;
	r.rax = nr;
	r.rdi = args[0];
	r.rsi = args[1];
	r.rdx = args[2];
	r.r10 = args[3];
	r.r8 = r.r9 = 0;
	return r;
}

uint64_t frame_exit_stack(const struct frame *f)
{
	return f->at + AT_COPY;
}

/* ---- which thread ---- */

#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
#define USER_CS 0x33
#define FUTEX_WAIT_BITSET_OP 9

/* The number in `mov $nr, %eax; syscall`. */
static bool call_in_code(const uint8_t *code, uint64_t *ret)
{
	uint32_t nr;
	if (!code || code[0] != 0xb8)
		return false;
	memcpy(&nr, code + 1, sizeof(nr));
	*ret = nr;
	return true;
}

enum carrier_kind carrier_kind(const struct image_regs *regs, const uint8_t code[7], uint64_t *ret_call)
{
	int64_t result = (int64_t)regs->rax;
	if (regs->cs != USER_CS || (int64_t)regs->orig_rax < 0 || !code || code[5] != 0x0f || code[6] != 0x05)
		return CARRIER_NO;
	uint64_t call = regs->orig_rax;
	if (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND) {
		*ret_call = call;
		return call == SYS_restart_syscall ? CARRIER_NO : CARRIER_PLAIN;
	}
	if (result != -ERESTART_RESTARTBLOCK)
		return CARRIER_NO;
	/* After an earlier stop the kernel shows restart_syscall; its arguments are still those of the call. */
	if (call == SYS_restart_syscall && !call_in_code(code, &call))
		return CARRIER_NO;
	bool endless_poll = call == SYS_poll && (int32_t)regs->rdx < 0;
	bool absolute_futex = call == SYS_futex && (regs->rsi & 0x7f) == FUTEX_WAIT_BITSET_OP;
	*ret_call = call;
	return endless_poll || absolute_futex ? CARRIER_TIMED : CARRIER_NO;
}

unsigned carrier_rank(enum carrier_kind kind, const char *name)
{
	bool runtime = str_starts(name, ".NET ");
	if (kind == CARRIER_PLAIN)
		return runtime ? 0 : 3;
	return str_eq(name, ".NET SynchManag") || str_starts(name, ".NET Synch") ? 1 : runtime ? 2 : 4;
}
