/* method: the code around an address. capstone's only user. */

#include "base/fmt.h"
#include "base/lazy.h"
#include "base/str.h"
#include "inspect/internal.h"
#include <capstone/capstone.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE (64u << 10)
#define MAX_NAMED 64 /* targets of calls that are looked up */

#define CAPSTONE(X) X(cs_, open) X(cs_, disasm) X(cs_, free) X(cs_, close)

static struct {
	CAPSTONE(LAZY_MEMBER)
} capstone;
static const char *const capstone_names[] = { CAPSTONE(LAZY_NAME) };

/* Where a call goes: to an address, or through a word of memory beside the code. 0 = that is decided at run time. */
static uint64_t target_of(struct inspect *in, const cs_insn *i)
{
	static const char through[] = "qword ptr [rip ";
	uint64_t word = 0;
	if (!str_eq(i->mnemonic, "call") && !str_eq(i->mnemonic, "jmp"))
		return 0;
	if (str_starts(i->op_str, "0x"))
		return strtoull(i->op_str, NULL, 16);
	if (!str_starts(i->op_str, through))
		return 0;
	const char *rest = i->op_str + strlen(through);
	uint64_t offset = strlen(rest) > 2 ? strtoull(rest + 2, NULL, 16) : 0, next = i->address + i->size;
	(void)image_read_all(in->look.image, *rest == '-' ? next - offset : next + offset, &word, sizeof(word));
	return word;
}

static void add_target(struct inspect *in, const cs_insn *i, size_t *looked, struct buf *out)
{
	struct dac_code code = { 0 };
	uint64_t target = *looked < MAX_NAMED ? target_of(in, i) : 0;
	if (!target)
		return;
	*looked += 1;
	CLEANUP(err_freep) struct err *err = dac_code(in->look.dac, target, &code);
	if (!err && code.method && !dac_method(in->look.dac, code.method))
		err = dac_learn_methods(in->look.dac, &code.method, 1);
	if (!err)
		inspect_add_method(in, code.method, out);
	dac_code_free(&code);
}

static void add_line(struct inspect *in, const struct dac_code *code, uint64_t address, struct buf *out)
{
	struct pdb_line l;
	vec_each(il, code)
		if (il->start == address && il->il_offset >= 0) {
			buf_printf(out, "IL_%04x", (unsigned)il->il_offset);
			if (dac_line(in->look.lines, code->method, il->il_offset, &l)) {
				buf_char(out, ' ');
				dac_line_add(out, &l);
			}
			return;
		}
}

static struct err *disassemble(struct inspect *in, const struct dac_code *code, uint64_t at, struct answer *a)
{
	csh handle;
	cs_insn *insns = NULL;
	size_t got, looked = 0, size = MIN(code->size, MAX_CODE);
	CLEANUP(mem_freep) uint8_t *bytes = mem_alloc(size + 1);
	image_read(in->look.image, code->start, bytes, size, &got);
	if (!got) {
		answer_line(a, "its instructions are not in this image");
		return NULL;
	}
	TRY(lazy_load(SO_CAPSTONE, capstone_names, ARRAY_SIZE(capstone_names), &capstone));
	if (capstone.open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return err_new(ERR_IO, "the disassembler does not start");
	size_t n = capstone.disasm(handle, bytes, got, code->start, 0, &insns);
	answer_table(a, "Instructions", "", "address", "instruction", "from", "calls");
	for (size_t i = 0; i < n; i++) {
		CLEANUP(mem_freep) char *text = mem_printf("%s %s", insns[i].mnemonic, insns[i].op_str);
		CLEANUP(buf_free) struct buf from = { 0 }, target = { 0 };
		bool here = at >= insns[i].address && at - insns[i].address < insns[i].size;
		add_line(in, code, insns[i].address, &from);
		add_target(in, &insns[i], &looked, &target);
		ANSWER_ROW(a, C_TEXT(here ? ">" : ""), C_ADDRESS(insns[i].address), C_TEXT(text),
			   C_TEXT(buf_cstr(&from)), C_TEXT(buf_cstr(&target)));
	}
	if (code->size > size)
		answer_line(a, "%s more of code", fmt_bytes(code->size - size).s);
	capstone.free(insns, n);
	capstone.close(&handle);
	return NULL;
}

/* "Shop.Orders.Place": a method of a loaded type. Overloads: the first that is compiled. */
static struct err *find_by_type(struct inspect *in, const char *word, uint64_t *ret)
{
	struct dac_addresses types = { 0 };
	struct heap *heap;
	const char *dot = strrchr(word, '.');
	CLEANUP(mem_freep) char *type = dot && dot > word ? mem_strndup(word, (size_t)(dot - word)) : NULL;
	bool known = false;
	*ret = 0;
	TRY(inspect_heap(in, &heap));
	struct err *err = type ? inspect_find_types(in, type, &types) : NULL;
	for (size_t i = 0; !err && i < types.n && !*ret; i++) {
		struct dac_type_methods methods = { 0 };
		err_ignore(dac_type_methods(in->look.dac, types.v[i], &methods));
		vec_each(m, &methods) {
			known |= str_eq(m->name, dot + 1);
			if (str_eq(m->name, dot + 1) && m->code && !*ret)
				*ret = m->code;
		}
		dac_type_methods_free(&methods);
	}
	dac_addresses_free(&types);
	if (err || *ret)
		return err;
	CLEANUP(buf_free) struct buf shown = { 0 };
	str_add_visible(&shown, word, strlen(word), 100);
	if (known)
		return err_new(ERR_NOT_FOUND, "'%s' is not compiled: nobody has called it, or it was inlined",
			       buf_cstr(&shown));
	return err_new(ERR_NOT_FOUND, "no loaded type has a method '%s'; give Type.Method, or an address in its code",
		       buf_cstr(&shown));
}

/* An address, the name of a method that some thread is in, or any other. */
static struct err *find_code(struct inspect *in, const char *word, uint64_t *ret)
{
	const struct dac_threads *threads;
	CLEANUP(err_freep) struct err *no_address = inspect_address(word, ret);
	if (!no_address)
		return NULL;
	TRY(inspect_threads(in, &threads));
	vec_each(t, threads) {
		struct dac_stack stack = { 0 };
		CLEANUP(err_freep) struct err *err = t->os_id ? dac_stack(in->look.dac, t->os_id, &stack) : NULL;
		bool found = false;
		for (size_t i = 0; !err && i < stack.n && !found; i++) {
			const struct dac_frame *f = &stack.v[i];
			CLEANUP(buf_free) struct buf name = { 0 };
			if (f->kind || !f->method || dac_method(in->look.dac, f->method) ||
			    !(err = dac_learn_methods(in->look.dac, &f->method, 1)))
				inspect_add_method(in, f->kind ? 0 : f->method, &name);
			found = name.len && inspect_type_fits(buf_cstr(&name), word);
			if (found)
				*ret = f->ip;
		}
		dac_stack_free(&stack);
		if (found)
			return NULL;
	}
	return find_by_type(in, word, ret);
}

struct err *inspect_method(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct dac_code code = { 0 };
	uint64_t ip;
	(void)n;
	TRY(find_code(in, words[0], &ip));
	CLEANUP(err_freep) struct err *none = dac_code(in->look.dac, ip, &code);
	if (none || !code.method) {
		dac_code_free(&code);
		return err_new(ERR_NOT_FOUND, "no managed code is at 0x%llx; 'stacks --all' shows addresses of code",
			       (unsigned long long)ip);
	}
	struct err *err = dac_learn_methods(in->look.dac, &code.method, 1);
	const struct dac_method *m = err ? NULL : dac_method(in->look.dac, code.method);
	if (m) {
		CLEANUP(buf_free) struct buf name = { 0 };
		str_add_visible(&name, m->name, strlen(m->name), 400);
		answer_line(a, "%s", buf_cstr(&name));
		answer_line(a, "%s of code at 0x%llx, %s; token %08x", fmt_bytes(code.size).s,
			    (unsigned long long)code.start,
			    code.precompiled ? "compiled ahead of time" : "compiled by the JIT", m->token);
		err = disassemble(in, &code, ip, a);
	}
	dac_code_free(&code);
	return err;
}
