#include "image/inject.h"
#include "image/fault.h"
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PTRACE_GETSIGMASK
#define PTRACE_GETSIGMASK ((enum __ptrace_request)0x420a)
#define PTRACE_SETSIGMASK ((enum __ptrace_request)0x420b)
#endif
#define MASK_BYTES ((void *)8)

/* `syscall; ret` and `mov $15, %rax; syscall`. */
static const uint8_t code_syscall[] = { 0x0f, 0x05, 0xc3 };
static const uint8_t code_sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

static bool code_is(int mem_fd, uint64_t at, const uint8_t *want, size_t len)
{
	uint8_t got[16];
	return pread(mem_fd, got, len, (off_t)at) == (ssize_t)len && !memcmp(got, want, len);
}

bool inject_place_good(const struct inject_place *p)
{
	return code_is(p->mem_fd, p->syscall_at, code_syscall, sizeof(code_syscall)) &&
	       code_is(p->mem_fd, p->sigreturn_at, code_sigreturn, sizeof(code_sigreturn));
}

enum carrier_kind inject_look(const struct inject_place *place, const struct image_thread *thread, uint64_t *ret_call)
{
	uint8_t code[7];
	int64_t result = (int64_t)thread->regs.rax;
	if (!thread->has_regs || result > -512 || result < -516 ||
	    pread(place->mem_fd, code, sizeof(code), (off_t)(thread->regs.rip - sizeof(code))) != (ssize_t)sizeof(code))
		return CARRIER_NO;
	return carrier_kind(&thread->regs, code, ret_call);
}

static bool read_state(pid_t tid, struct frame_state *s)
{
	struct iovec io = { s->xstate, sizeof(s->xstate) };
	if (ptrace(PTRACE_GETREGS, tid, NULL, &s->regs) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, MASK_BYTES, &s->mask) < 0 ||
	    ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &io) < 0)
		return false;
	s->xstate_len = io.iov_len;
	return true;
}

static bool write_frame(pid_t tid, const struct frame *f)
{
	struct iovec from = { (void *)(uintptr_t)f->bytes, f->len }, to = { (void *)(uintptr_t)f->at, f->len };
	return process_vm_writev(tid, &from, 1, &to, 1, 0) == (ssize_t)f->len;
}

static bool set_regs(pid_t tid, struct image_regs regs)
{
	return !ptrace(PTRACE_SETREGS, tid, NULL, &regs);
}

/* Continues it to its next system call stop, or to the event of a child. */
static bool go_on(struct stop *s, struct tracee *t, struct deadline deadline, int *ret_status)
{
	return !ptrace(PTRACE_SYSCALL, t->tid, NULL, NULL) && stop_wait(s, t, deadline, ret_status);
}

static bool is_call_stop(int status)
{
	return WIFSTOPPED(status) && status >> 16 == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80);
}

static bool is_child_event(int status)
{
	int event = status >> 16;
	return WIFSTOPPED(status) &&
	       (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK);
}

/* From here on the thread restores itself, whatever its registers are set to. The mask is changed only once it would be
 * restored, and the call is set only once no signal can be delivered before it. */
static bool arm(struct tracee *t, const struct frame *f, const struct image_regs *call)
{
	uint64_t all = UINT64_MAX;
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	if (ptrace(PTRACE_SETOPTIONS, t->tid, NULL, (void *)options) < 0)
		return false;
	fault_point("options set");
	if (!set_regs(t->tid, f->heal))
		return false;
	fault_point("heal set");
	if (ptrace(PTRACE_SETSIGMASK, t->tid, MASK_BYTES, &all) < 0)
		return false;
	fault_point("mask set");
	if (!set_regs(t->tid, *call))
		return false;
	fault_point("call set");
	return true;
}

static enum inject_end abort_call(struct tracee *t, const struct frame *f)
{
	if (t->gone)
		return INJECT_ABORTED;
	if (!t->stopped)
		return INJECT_LOST;
	set_regs(t->tid, f->heal);
	fault_point("aborted");
	return INJECT_ABORTED;
}

static enum inject_end run_call(struct stop *s, struct tracee *t, const struct frame *f, struct deadline deadline,
				int64_t *ret_result, pid_t *ret_child)
{
	int status;
	if (!go_on(s, t, deadline, &status) || !is_call_stop(status))
		return abort_call(t, f);
	fault_point("call entered");
	if (!go_on(s, t, deadline, &status))
		return abort_call(t, f);
	if (is_child_event(status)) {
		unsigned long child = 0;
		ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &child);
		*ret_child = (pid_t)child;
		*ret_result = (int64_t)child;
		fault_point("child made");
		return INJECT_DONE;
	}
	struct image_regs regs;
	if (!is_call_stop(status) || ptrace(PTRACE_GETREGS, t->tid, NULL, &regs) < 0)
		return abort_call(t, f);
	fault_point("call left");
	*ret_result = (int64_t)regs.rax;
	/* Something is pending, and the kernel would begin the call anew after it. */
	if (*ret_result <= -512 && *ret_result >= -516)
		return abort_call(t, f);
	return INJECT_DONE;
}

enum inject_end inject_call(struct stop *s, struct tracee *t, const struct inject_place *place, uint64_t call,
			    uint64_t nr, const uint64_t args[4], bool child_exits, struct deadline deadline,
			    int64_t *ret_result, pid_t *ret_child)
{
	static struct frame_state state;
	static struct frame frame;
	*ret_result = 0;
	*ret_child = 0;
	state = (struct frame_state){ .call = call,
				      .syscall_at = place->syscall_at,
				      .sigreturn_at = place->sigreturn_at };
	if (t->signal || !read_state(t->tid, &state) || !frame_build(&state, &frame))
		return INJECT_UNFIT;
	if (!write_frame(t->tid, &frame))
		return INJECT_UNFIT;
	fault_point("frame written");
	uint64_t real_args[4];
	memcpy(real_args, args, sizeof(real_args));
	if (child_exits)
		real_args[1] = frame_exit_stack(&frame);
	struct image_regs regs = frame_call(&frame, &state, nr, real_args);
	if (!arm(t, &frame, &regs))
		return abort_call(t, &frame);
	return run_call(s, t, &frame, deadline, ret_result, ret_child);
}
