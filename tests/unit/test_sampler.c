#include "base/clock.h"
#include "build_elf.h"
#include "sampler/cfi.h"
#include "sampler/managed_x64.h"
#include "sampler/records.h"
#include "sampler/sampler.h"
#include "unit.h"
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* --- unwind tables of native code --- */

/* CFA = rsp+8, return address at CFA-8. */
static const uint8_t initial[] = { 0x0c, 7, 8, 0x90, 1 };
/* push rbp; mov rbp,rsp; ... */
static const uint8_t framed[] = { 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6 };

static struct elf *elf_with(const char *augmentation, const void *program, size_t len)
{
	struct buf eh = { 0 }, out = { 0 };
	size_t cie = build_cie(&eh, augmentation, initial, sizeof(initial));
	size_t fde = build_fde(&eh, BUILD_ELF_EH, cie, 0x1000, 0x100, program, len);
	build_elf(&(struct build_elf){ .eh_frame = eh.data,
				       .eh_frame_len = eh.len,
				       .index = &(struct build_elf_fde){ 0x1000, fde },
				       .n_index = 1 },
		  &out);
	struct elf *e;
	size_t n = out.len;
	assert_ok(elf_from_bytes(buf_steal(&out), n, &e));
	buf_free(&eh);
	return e;
}

static void rows_follow_the_program(void **state)
{
	(void)state;
	struct elf *e = elf_with("zR", framed, sizeof(framed));
	struct cfi_row row;
	assert_true(cfi_find(e, 0x1000, &row));
	assert_int_equal(row.cfa.kind, CFI_IN);
	assert_int_equal(row.cfa.len, 7);
	assert_int_equal(row.cfa.value, 8);
	assert_int_equal(row.regs[16].kind, CFI_AT);
	assert_int_equal(row.regs[16].value, -8);
	assert_int_equal(row.regs[6].kind, CFI_SAME);
	assert_true(cfi_find(e, 0x1001, &row));
	assert_int_equal(row.cfa.value, 16);
	assert_int_equal(row.regs[6].value, -16);
	assert_true(cfi_find(e, 0x10ff, &row));
	assert_int_equal(row.cfa.len, 6);
	assert_int_equal(row.cfa.value, 16);
	assert_false(row.signal);
	assert_false(cfi_find(e, 0x1100, &row));
	assert_false(cfi_find(e, 0xfff, &row));
	elf_free(e);
}

static void signal_frames_and_other_rules(void **state)
{
	(void)state;
	static const uint8_t program[] = {
		0x0a,			      /* remember */
		0x07, 3,		      /* rbx undefined */
		0x09, 12,   13,		      /* r12 in r13 */
		0x14, 14,   2,		      /* r14 is CFA-16 */
		0x11, 15,   0x7d,	      /* r15 at CFA+24 */
		0x10, 8,    2,	  0x77, 16,   /* r8 at rsp+16 */
		0x16, 9,    2,	  0x77, 24,   /* r9 is rsp+24 */
		0x0f, 3,    0x77, 8,	0x06, /* CFA = [rsp+8] */
		0x02, 0x10, 0x0b,	      /* 16 further: as before */
	};
	struct elf *e = elf_with("zRS", program, sizeof(program));
	struct cfi_row row;
	assert_true(cfi_find(e, 0x1000, &row));
	assert_true(row.signal);
	assert_int_equal(row.regs[3].kind, CFI_UNDEFINED);
	assert_int_equal(row.regs[12].kind, CFI_IN);
	assert_int_equal(row.regs[12].value, 13);
	assert_int_equal(row.regs[14].kind, CFI_IS);
	assert_int_equal(row.regs[14].value, -16);
	assert_int_equal(row.regs[15].value, 24);
	assert_int_equal(row.regs[8].kind, CFI_AT_EXPR);
	assert_int_equal(row.regs[9].kind, CFI_IS_EXPR);
	assert_int_equal(row.cfa.kind, CFI_IS_EXPR);
	assert_true(cfi_find(e, 0x1010, &row));
	assert_int_equal(row.cfa.kind, CFI_IN);
	assert_int_equal(row.regs[3].kind, CFI_SAME);
	elf_free(e);
}

static bool value_of(void *user, unsigned reg, uint64_t *ret)
{
	(void)user;
	*ret = 1000 + reg;
	return reg <= 16;
}

static bool memory_of(void *user, uint64_t at, void *out, size_t len)
{
	(void)user;
	uint64_t v = at * 2;
	memcpy(out, &v, len);
	return at < 5000;
}

static bool eval(const uint8_t *expr, size_t len, uint64_t *ret)
{
	struct cfi_values values = { value_of, memory_of, NULL };
	uint64_t cfa = 7;
	return cfi_eval(&(struct cfi_rule){ .len = (uint32_t)len, .expr = expr }, &values, &cfa, ret);
}
#define EVAL(ret, ...) eval((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }), ret)

static void expressions(void **state)
{
	(void)state;
	uint64_t v = 0;
	assert_true(EVAL(&v, 0x77, 8)); /* rsp+8 */
	assert_int_equal(v, 1015);
	assert_true(EVAL(&v, 0x77, 0, 0x06)); /* [rsp] */
	assert_int_equal(v, 2014);
	/* The PLT's: 8 more when (rip & 15) >= 11. */
	assert_true(EVAL(&v, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22));
	assert_int_equal(v, 1015 + ((1016 & 15) >= 11 ? 8 : 0));
	assert_true(EVAL(&v, 0x0a, 0x34, 0x12, 0x31, 0x1c)); /* 0x1234 - 1 */
	assert_int_equal(v, 0x1233);
	assert_true(EVAL(&v, 0x32, 0x33, 0x16, 0x1c)); /* 2 3 swap - = 1 */
	assert_int_equal(v, 1);
	assert_true(EVAL(&v, 0x31, 0x28, 1, 0, 0x32, 0x35)); /* a jump over the 2 */
	assert_int_equal(v, 5);
	assert_true(EVAL(&v, 0x96)); /* the CFA itself */
	assert_int_equal(v, 7);
	assert_false(EVAL(&v, 0x22, 0x22));		/* nothing to add */
	assert_false(EVAL(&v, 0x31, 0x30, 0x1b));	/* by zero */
	assert_false(EVAL(&v, 0x2f, 0xfd, 0xff));	/* for ever */
	assert_false(EVAL(&v, 0x2f, 0, 0x7f));		/* beyond the end */
	assert_false(EVAL(&v, 0x0b));			/* cut */
	assert_false(EVAL(&v, 0x0a, 0xff, 0x7f, 0x06)); /* memory that is not there */
	assert_false(EVAL(&v, 0xff));
}

static void damaged_tables_have_no_rule(void **state)
{
	(void)state;
	struct buf eh = { 0 }, out = { 0 };
	size_t cie = build_cie(&eh, "zR", initial, sizeof(initial));
	size_t fde = build_fde(&eh, BUILD_ELF_EH, cie, 0x1000, 0x100, framed, sizeof(framed));
	build_elf(&(struct build_elf){ .eh_frame = eh.data,
				       .eh_frame_len = eh.len,
				       .index = &(struct build_elf_fde){ 0x1000, fde },
				       .n_index = 1 },
		  &out);
	size_t found = 0, missed = 0;
	for (size_t at = BUILD_ELF_EH; at < BUILD_ELF_EH + eh.len + 32; at++) {
		for (int bit = 0; bit < 8; bit++) {
			char *bytes = mem_dup(out.data, out.len);
			bytes[at] = (char)(bytes[at] ^ 1 << bit);
			struct elf *e;
			assert_ok(elf_from_bytes(bytes, out.len, &e));
			struct cfi_row row;
			bool ok = cfi_find(e, 0x1080, &row);
			found += ok;
			missed += !ok;
			elf_free(e);
		}
	}
	assert_true(found && missed);
	buf_free(&eh);
	buf_free(&out);
}

/* --- managed frames --- */

/* A stack whose word i is 0x100 + i, at address 0x8000. */
static bool read_word(void *user, uint64_t address, uint64_t *ret)
{
	size_t n = *(size_t *)user;
	if (address < 0x8000 || (address - 0x8000) / 8 >= n || address % 8)
		return false;
	*ret = 0x100 + (address - 0x8000) / 8;
	return true;
}

static struct managed_frame frame_at(uint64_t sp)
{
	struct managed_frame f = { .ip = 0x5000 };
	for (size_t i = 0; i < 16; i++)
		f.r[i] = 0x900 + i;
	f.r[4] = sp;
	return f;
}

/* push rbp (1); push rbx (2); sub rsp,0x20 (6); lea rbp,[rsp+0x20] (11) */
static const uint8_t info_framed[] = { 1, 11, 4, 0x25, 11, 0x03, 6, 0x32, 2, 0x30, 1, 0x50 };

static void unwind_data_of_a_framed_method(void **state)
{
	(void)state;
	size_t n = 64;
	struct managed_unwind info;
	assert_true(managed_unwind_parse(info_framed, sizeof(info_framed), &info));
	/* In the body the frame register counts, whatever rsp is. */
	struct managed_frame f = frame_at(0x8000);
	f.r[5] = 0x8080;
	assert_true(managed_apply(&info, UINT64_MAX, read_word, &n, &f));
	assert_int_equal(f.r[3], 0x100 + 16); /* 0x8060 + 0x20 */
	assert_int_equal(f.r[5], 0x100 + 17);
	assert_int_equal(f.ip, 0x100 + 18);
	assert_int_equal(f.r[4], 0x8098);
	/* After the first push only. */
	f = frame_at(0x8000);
	assert_true(managed_apply(&info, 1, read_word, &n, &f));
	assert_int_equal(f.r[5], 0x100);
	assert_int_equal(f.r[3], 0x903);
	assert_int_equal(f.ip, 0x101);
	/* At the very first instruction. */
	f = frame_at(0x8008);
	assert_true(managed_apply(&info, 0, read_word, &n, &f));
	assert_int_equal(f.ip, 0x101);
	assert_int_equal(f.r[4], 0x8010);
}

static void large_frames_and_saved_registers(void **state)
{
	(void)state;
	size_t n = 64;
	/* alloc 0x80 in 8s; rbx saved at +16; frame offset by 32 bits: 0x40 */
	static const uint8_t data[] = { 1, 20, 7, 0x05, 20, 0x34, 2, 0, 18, 0x0b, 4, 0, 0, 0, 10, 0x01, 16, 0 };
	struct managed_unwind info;
	assert_true(managed_unwind_parse(data, sizeof(data), &info));
	struct managed_frame f = frame_at(0x8000);
	f.r[5] = 0x8040;
	assert_true(managed_apply(&info, UINT64_MAX, read_word, &n, &f));
	assert_int_equal(f.r[3], 0x102);
	assert_int_equal(f.ip, 0x110);
	/* A stack that ends too early. */
	n = 8;
	f = frame_at(0x8000);
	f.r[5] = 0x8040;
	assert_false(managed_apply(&info, UINT64_MAX, read_word, &n, &f));
	assert_int_equal(f.ip, 0x5000);
}

static void epilogues_are_carried_out(void **state)
{
	(void)state;
	size_t n = 64;
	/* add rsp,8; pop rbx; pop r15; pop rbp; ret */
	static const uint8_t code[] = { 0x48, 0x83, 0xc4, 8, 0x5b, 0x41, 0x5f, 0x5d, 0xc3 };
	struct managed_frame f = frame_at(0x8000);
	assert_true(managed_epilogue(code, sizeof(code), read_word, &n, &f));
	assert_int_equal(f.r[3], 0x101);
	assert_int_equal(f.r[15], 0x102);
	assert_int_equal(f.r[5], 0x103);
	assert_int_equal(f.ip, 0x104);
	for (size_t cut = 0; cut < sizeof(code); cut++) {
		f = frame_at(0x8000);
		assert_false(managed_epilogue(code, cut, read_word, &n, &f));
	}
	static const uint8_t body[] = { 0x48, 0x8b, 0xc1, 0xc3 };
	f = frame_at(0x8000);
	assert_false(managed_epilogue(body, sizeof(body), read_word, &n, &f));
}

static void prologues_are_read_when_there_is_nothing_else(void **state)
{
	(void)state;
	size_t n = 64;
	/* push rbp; push r15; sub rsp,16; lea rbp,[rsp+16]; nop */
	static const uint8_t code[] = { 0x55, 0x41, 0x57, 0x48, 0x83, 0xec, 16, 0x48, 0x8d, 0x6c, 0x24, 16, 0x90 };
	struct managed_frame f = frame_at(0x8000);
	f.r[5] = 0x8040;
	assert_true(managed_prologue(code, sizeof(code), 100, read_word, &n, &f));
	assert_int_equal(f.r[5], 0x108);
	assert_int_equal(f.ip, 0x109);
	assert_int_equal(f.r[15], 0x107);
	f = frame_at(0x8000);
	assert_true(managed_prologue(code, sizeof(code), 3, read_word, &n, &f));
	assert_int_equal(f.r[15], 0x100);
	assert_int_equal(f.r[5], 0x101);
	assert_int_equal(f.ip, 0x102);
}

static void damaged_unwind_data(void **state)
{
	(void)state;
	size_t n = 64;
	struct managed_unwind info;
	for (size_t cut = 0; cut < sizeof(info_framed); cut++)
		assert_false(managed_unwind_parse(info_framed, cut, &info));
	for (size_t at = 0; at < sizeof(info_framed); at++) {
		for (int v = 0; v < 256; v++) {
			uint8_t bytes[sizeof(info_framed)];
			memcpy(bytes, info_framed, sizeof(bytes));
			bytes[at] = (uint8_t)v;
			struct managed_frame f = frame_at(0x8000);
			if (managed_unwind_parse(bytes, sizeof(bytes), &info))
				managed_apply(&info, UINT64_MAX, read_word, &n, &f);
		}
	}
}

/* --- records --- */

static void put(struct buf *b, uint64_t v, size_t n)
{
	buf_add(b, &v, n);
}

static void build_sample(struct buf *b, size_t stack)
{
	put(b, PERF_RECORD_SAMPLE, 4);
	put(b, 0, 2);
	put(b, 0, 2);
	put(b, 100, 4);
	put(b, 101, 4);
	put(b, 123456789, 8);
	put(b, 3, 8);
	put(b, 1010000, 8);
	put(b, 3, 8);
	put(b, PERF_CONTEXT_KERNEL, 8);
	put(b, 0xffffffff81000000, 8);
	put(b, 0xffffffff81000010, 8);
	put(b, 2, 8);
	for (uint64_t i = 0; i < RECORD_REGS_N; i++)
		put(b, 0x1000 + i, 8);
	put(b, stack, 8);
	for (size_t i = 0; i < stack; i++)
		buf_char(b, (char)i);
	if (stack)
		put(b, stack - 8, 8);
	uint16_t size = (uint16_t)b->len;
	memcpy(b->data + 6, &size, 2);
}

static void a_sample_is_taken_apart(void **state)
{
	(void)state;
	struct buf b = { 0 };
	build_sample(&b, 64);
	struct record r;
	assert_true(record_parse((const uint8_t *)b.data, b.len, &r));
	assert_int_equal(r.kind, RECORD_SAMPLE);
	assert_int_equal(r.pid, 100);
	assert_int_equal(r.tid, 101);
	assert_int_equal(r.time, 123456789);
	assert_int_equal(r.cpu, 3);
	assert_int_equal(r.period, 1010000);
	assert_int_equal(r.n_kernel, 3);
	assert_int_equal(record_kernel_ip(&r, 0), 0);
	assert_int_equal(record_kernel_ip(&r, 2), 0xffffffff81000010);
	assert_true(r.has_regs);
	/* AX BX CX DX SI DI BP SP IP R8.. */
	assert_int_equal(r.regs.r[0], 0x1000);
	assert_int_equal(r.regs.r[3], 0x1001);
	assert_int_equal(r.regs.r[1], 0x1002);
	assert_int_equal(r.regs.r[5], 0x1006);
	assert_int_equal(r.regs.r[4], 0x1007);
	assert_int_equal(r.regs.ip, 0x1008);
	assert_int_equal(r.regs.r[8], 0x1009);
	assert_int_equal(r.regs.r[15], 0x1010);
	assert_int_equal(r.stack.n, 56);
	assert_false(r.stack.full);
	assert_int_equal(r.stack.sp, 0x1007);
	buf_free(&b);
}

static void damaged_records_are_refused(void **state)
{
	(void)state;
	struct buf b = { 0 };
	build_sample(&b, 64);
	struct record r;
	for (size_t cut = 0; cut < b.len; cut++) {
		CLEANUP(mem_freep) uint8_t *bytes = mem_dup(b.data, cut ? cut : 1);
		assert_false(record_parse(bytes, cut, &r));
	}
	for (size_t at = 0; at < b.len; at++) {
		CLEANUP(mem_freep) uint8_t *bytes = mem_dup(b.data, b.len);
		bytes[at] ^= 0xff;
		if (record_parse(bytes, b.len, &r) && r.kind == RECORD_SAMPLE)
			for (size_t i = 0; i < r.n_kernel; i++)
				record_kernel_ip(&r, i);
	}
	buf_free(&b);
}

static void switches_and_losses(void **state)
{
	(void)state;
	struct buf b = { 0 };
	put(&b, PERF_RECORD_SWITCH, 4);
	put(&b, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, 2);
	put(&b, 32, 2);
	put(&b, 100, 4);
	put(&b, 101, 4);
	put(&b, 77, 8);
	put(&b, 1, 8);
	struct record r;
	assert_true(record_parse((const uint8_t *)b.data, b.len, &r));
	assert_int_equal(r.kind, RECORD_SWITCH);
	assert_true(r.out && r.preempted);
	assert_int_equal(r.tid, 101);
	assert_int_equal(r.time, 77);
	buf_clear(&b);
	put(&b, PERF_RECORD_LOST, 4);
	put(&b, 0, 2);
	put(&b, 48, 2);
	put(&b, 1, 8);
	put(&b, 42, 8);
	put(&b, 0, 8);
	put(&b, 78, 8);
	put(&b, 0, 8);
	assert_true(record_parse((const uint8_t *)b.data, b.len, &r));
	assert_int_equal(r.kind, RECORD_LOST);
	assert_int_equal(r.lost, 42);
	buf_free(&b);
}

static void names_of_threads_and_new_programs(void **state)
{
	(void)state;
	for (int exec = 0; exec < 2; exec++) {
		struct buf b = { 0 };
		struct record r;
		put(&b, PERF_RECORD_COMM, 4);
		put(&b, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, 2);
		put(&b, 48, 2);
		put(&b, 100, 4);
		put(&b, 101, 4);
		buf_add(&b, "sleep\0\0", 8);
		put(&b, 100, 4);
		put(&b, 101, 4);
		put(&b, 79, 8);
		put(&b, 1, 8);
		assert_true(record_parse((const uint8_t *)b.data, b.len, &r));
		assert_int_equal(r.kind, RECORD_COMM);
		assert_int_equal(r.comm_len, 5);
		assert_int_equal(r.exec, exec);
		assert_int_equal(r.time, 79);
		buf_free(&b);
	}
}

/* --- ourselves, sampled and unwound --- */

static volatile bool stop;

static __attribute__((noinline)) uint64_t burn_inner(uint64_t x)
{
	for (int i = 0; i < 10000; i++)
		x = x * 6364136223846793005ull + 1;
	return x;
}

static __attribute__((noinline)) uint64_t burn_outer(uint64_t x)
{
	return burn_inner(x) + 1;
}

static void *burner(void *user)
{
	uint64_t x = 1;
	while (!stop)
		x = burn_outer(x);
	*(uint64_t *)user = x;
	return NULL;
}

struct seen {
	struct space *space;
	struct unwinder *unwinder;
	uint64_t samples, rooted, path;
	struct unwound unwound;
	struct buf name;
};

static bool no_method(void *user, uint64_t address, struct unwind_method *ret)
{
	(void)user;
	(void)address;
	(void)ret;
	return false;
}

static bool named(struct seen *s, size_t i, const char *name)
{
	uint64_t ip = s->unwound.ips[i] - !unwound_exact(&s->unwound, i);
	const struct space_map *map = space_find(s->space, ip);
	buf_clear(&s->name);
	return map && space_symbol(s->space, map, ip, &s->name) && !strcmp(buf_cstr(&s->name), name);
}

static void on_record(void *user, const struct record *r)
{
	struct seen *s = user;
	if (r->kind != RECORD_SAMPLE || !r->has_regs)
		return;
	unwind(s->unwinder, &r->regs, &r->stack, &s->unwound);
	const struct unwound *u = &s->unwound;
	bool inner = u->n > 3 && named(s, 0, "burn_inner");
	if (!inner)
		return;
	s->samples++;
	s->rooted += u->end == UNWIND_ROOT;
	s->path += named(s, 1, "burn_outer") && named(s, 2, "burner");
}

/* As compilers write them: nothing says that rbx and r14 are popped in the epilogue. Its caller's frame is found by
 * rbx, which only is right when it was left as it is. Unwound, never run. */
__asm__(".pushsection .text\n"
	"epilogue_fn: .cfi_startproc\n"
	"	push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n"
	"	mov %rsp, %rbp\n .cfi_def_cfa_register %rbp\n"
	"	push %r14\n push %rbx\n .cfi_offset %rbx, -32\n .cfi_offset %r14, -24\n"
	"	nop\n"
	"epilogue_at0: pop %rbx\n"
	"epilogue_at1: pop %r14\n"
	"epilogue_at2: pop %rbp\n .cfi_def_cfa %rsp, 8\n"
	"epilogue_at3: ret\n .cfi_endproc\n"
	"epilogue_caller: .cfi_startproc\n .cfi_def_cfa %rbx, 16\n"
	"	call epilogue_fn\n"
	"epilogue_return: ret\n .cfi_endproc\n"
	"epilogue_root: .cfi_startproc\n .cfi_undefined %rip\n"
	"	call epilogue_caller\n"
	"epilogue_end: ret\n .cfi_endproc\n"
	".popsection\n");
extern const char epilogue_at0[], epilogue_at1[], epilogue_at2[], epilogue_at3[], epilogue_return[], epilogue_end[];

static void registers_that_an_epilogue_popped(void **state)
{
	(void)state;
	enum { AX, CX, DX, BX, SP, BP };
	struct space *space = space_new(getpid());
	struct unwinder *u = unwinder_new(space, no_method, NULL);
	static struct unwound unwound;
	const char *at[] = { epilogue_at0, epilogue_at1, epilogue_at2, epilogue_at3 };
	const uint64_t sp = 0x7f0000001000;
	/* rbx, r14, rbp, the return address; then the caller's frame, of which the last word is where it returns to. */
	const uint64_t words[] = {
		sp + 40, 14, 99, (uint64_t)(uintptr_t)epilogue_return, 0, 0, (uint64_t)(uintptr_t)epilogue_end
	};
	for (size_t popped = 0; popped < ARRAY_SIZE(at); popped++) {
		struct unwind_regs regs = { .ip = (uint64_t)(uintptr_t)at[popped] };
		regs.r[SP] = sp + 8 * popped;
		regs.r[BP] = popped == 3 ? 99 : sp + 16;
		regs.r[BX] = popped ? sp + 40 : 1;
		struct unwind_stack stack = { .sp = regs.r[SP],
					      .bytes = (const uint8_t *)(words + popped),
					      .n = sizeof(words) - 8 * popped };
		unwind(u, &regs, &stack, &unwound);
		assert_int_equal(unwound.end, UNWIND_ROOT);
		assert_int_equal(unwound.guessed, 0);
		assert_int_equal(unwound.n, 3);
		assert_int_equal(unwound.ips[1], words[3]);
		assert_int_equal(unwound.ips[2], words[6]);
	}
	unwinder_free(u);
	space_free(space);
}

static void sample_ourselves(size_t max_fds, bool whole_cpus, bool expect_per_cpu)
{
	struct sampler *s;
	struct sampler_config config = { .pid = getpid(),
					 .kind = SAMPLER_CPU,
					 .period = 1000000,
					 .stack_bytes = 16384,
					 .max_fds = max_fds,
					 .whole_cpus = whole_cpus };
	struct err *err = sampler_open(&config, &s);
	if (err && err_kind(err) == ERR_DENIED) {
		err_free(err);
		skip(); /* this machine does not let us sample, see check */
	}
	assert_ok(err);
	assert_int_equal(sampler_facts(s)->per_cpu, expect_per_cpu);
	struct seen seen = { .space = space_new(getpid()) };
	seen.unwinder = unwinder_new(seen.space, no_method, NULL);
	stop = false;
	uint64_t result;
	pthread_t thread;
	sampler_start(s);
	assert_int_equal(pthread_create(&thread, NULL, burner, &result), 0); /* inherits the events */
	struct deadline deadline = deadline_in_ms(30000);
	while (seen.samples < 100 && !deadline_passed(deadline)) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		sampler_drain(s, clock_mono_ns(), on_record, &seen);
	}
	if (seen.samples >= 50 && seen.samples < 200 && !expect_per_cpu)
		assert_ok(sampler_change(s, 32768, 1000000));
	stop = true;
	pthread_join(thread, NULL);
	sampler_stop(s);
	sampler_drain(s, UINT64_MAX, on_record, &seen);
	assert_true(seen.samples >= 100);
	assert_int_equal(seen.rooted, seen.samples);
	assert_int_equal(seen.path, seen.samples);
	assert_int_equal(sampler_facts(s)->damaged, 0);
	unwinder_free(seen.unwinder);
	space_free(seen.space);
	buf_free(&seen.name);
	sampler_free(s);
}

/* A compiled method as the runtime lays it out, in our own memory: push rbp; sub rsp,0x20; lea rbp,[rsp+0x20]. */
static struct {
	const void *header_at;
	uint8_t code[64];
	struct {
		uint64_t pointers[4];
		uint32_t n, begin, end, unwind;
	} header;
	uint8_t unwind[10];
	uint8_t room[128];
} compiled = {
	.code = { [15] = 0xe8, [31] = 0xe8, [47] = 0xe8 }, /* calls, five bytes before 20, 36 and 52 */
	.unwind = { 1, 9, 3, 0x25, 9, 3, 5, 0x32, 1, 0x50 },
};

static bool the_compiled(void *user, uint64_t address, struct unwind_method *ret)
{
	(void)user;
	uint64_t start = (uint64_t)(uintptr_t)compiled.code;
	*ret = (struct unwind_method){ .start = start, .size = sizeof(compiled.code), .version = 1 };
	return address >= start && address < start + sizeof(compiled.code);
}

/* Native code that has no rule and leaves the frame pointer to its caller must not hide that caller. */
static void without_a_rule_the_managed_caller_is_found_by_its_frame(void **state)
{
	(void)state;
	enum { BASE = 0x100, BP = 24, SLOTS = 40 };
	uint64_t start = (uint64_t)(uintptr_t)compiled.code, sp = 0x10000, slots[SLOTS] = { 0 };
	compiled.header_at = &compiled.header;
	compiled.header.n = 1;
	compiled.header.begin = BASE;
	compiled.header.end = BASE + sizeof(compiled.code);
	compiled.header.unwind = (uint32_t)((uint64_t)(uintptr_t)compiled.unwind - (start - BASE));
	slots[3] = start + 20;	    /* left from an earlier call */
	slots[BP - 5] = start + 36; /* right below the 0x20 bytes of its body */
	slots[BP] = sp + 8 * 38;
	slots[BP + 1] = start + 52;
	struct space *space = space_new(getpid());
	struct unwinder *u = unwinder_new(space, the_compiled, NULL);
	struct unwound unwound;
	struct unwind_regs regs = { .ip = 0x2000 };
	regs.r[4] = sp;
	regs.r[5] = sp + 8 * BP;
	struct unwind_stack stack = { .sp = sp, .bytes = (const uint8_t *)slots, .n = sizeof(slots) };
	unwind(u, &regs, &stack, &unwound);
	assert_true(unwound.n >= 3);
	assert_int_equal(unwound.ips[1], start + 36);
	assert_int_equal(unwound.ips[2], start + 52);
	/* Of another size it is not its frame: then the chain is all there is. */
	slots[BP - 6] = slots[BP - 5];
	slots[BP - 5] = 0;
	unwind(u, &regs, &stack, &unwound);
	assert_int_equal(unwound.ips[1], start + 52);
	unwinder_free(u);
	space_free(space);
}

static void a_thread_of_ours_is_sampled_to_its_root(void **state)
{
	(void)state;
	sample_ourselves(0, false, false);
}

static void with_few_descriptors_whole_cpus_are_sampled(void **state)
{
	(void)state;
	sample_ourselves(2, false, true);
}

static void whole_cpus_are_sampled_when_wanted(void **state)
{
	(void)state;
	sample_ourselves(0, true, true);
}

static void count_samples(void *user, const struct record *r)
{
	uint64_t *counts = user;
	if (r->kind != RECORD_SAMPLE)
		return;
	counts[0]++;
	counts[1] = MAX(counts[1], (uint64_t)r->stack.n);
}

static void burn_until(struct sampler *s, uint64_t *counts, uint64_t samples)
{
	struct deadline deadline = deadline_in_ms(30000);
	while (counts[0] < samples && !deadline_passed(deadline)) {
		burn_inner(100000);
		sampler_drain(s, UINT64_MAX, count_samples, counts);
	}
	assert_true(counts[0] >= samples);
}

static void resting_it_hears_nothing_and_goes_on_with_what_changed(void **state)
{
	(void)state;
	struct sampler *s;
	struct sampler_config config = { .pid = getpid(), .kind = SAMPLER_CPU, .period = 1000000, .stack_bytes = 256 };
	struct err *err = sampler_open(&config, &s);
	if (err && err_kind(err) == ERR_DENIED) {
		err_free(err);
		skip(); /* this machine does not let us sample, see check */
	}
	assert_ok(err);
	uint64_t counts[2] = { 0 };
	sampler_start(s);
	burn_until(s, counts, 5);
	sampler_rest(s);
	sampler_drain(s, UINT64_MAX, count_samples, counts);
	assert_true(counts[1] <= 256);
	counts[0] = 0;
	/* It must not begin to listen for that. */
	assert_ok(sampler_change(s, 1024, 1000000));
	for (int i = 0; i < 100; i++)
		burn_inner(100000);
	sampler_drain(s, UINT64_MAX, count_samples, counts);
	assert_int_equal(counts[0], 0);
	assert_ok(sampler_go_on(s));
	burn_until(s, counts, 5);
	assert_true(counts[1] > 256);
	sampler_free(s);
}

static void a_process_that_is_gone(void **state)
{
	(void)state;
	struct sampler *s;
	struct sampler_config config = {
		.pid = 0x7ffffff0, .kind = SAMPLER_CPU, .period = 1000000, .stack_bytes = 4096
	};
	assert_err(sampler_open(&config, &s), ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_follow_the_program),
		cmocka_unit_test(signal_frames_and_other_rules),
		cmocka_unit_test(expressions),
		cmocka_unit_test(damaged_tables_have_no_rule),
		cmocka_unit_test(unwind_data_of_a_framed_method),
		cmocka_unit_test(large_frames_and_saved_registers),
		cmocka_unit_test(epilogues_are_carried_out),
		cmocka_unit_test(prologues_are_read_when_there_is_nothing_else),
		cmocka_unit_test(damaged_unwind_data),
		cmocka_unit_test(a_sample_is_taken_apart),
		cmocka_unit_test(damaged_records_are_refused),
		cmocka_unit_test(switches_and_losses),
		cmocka_unit_test(names_of_threads_and_new_programs),
		cmocka_unit_test(without_a_rule_the_managed_caller_is_found_by_its_frame),
		cmocka_unit_test(registers_that_an_epilogue_popped),
		cmocka_unit_test(a_thread_of_ours_is_sampled_to_its_root),
		cmocka_unit_test(with_few_descriptors_whole_cpus_are_sampled),
		cmocka_unit_test(whole_cpus_are_sampled_when_wanted),
		cmocka_unit_test(resting_it_hears_nothing_and_goes_on_with_what_changed),
		cmocka_unit_test(a_process_that_is_gone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
