/* method: the code of a method: its versions, its exception handlers, its instructions. capstone's only user. */

#include "base/fmt.h"
#include "base/lazy.h"
#include "base/str.h"
#include "eventpipe/methods.h"
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

/* ---- instructions ---- */

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

/* ---- versions ---- */

static const char *tier_words(enum dac_tier tier)
{
	switch (tier) {
	case DAC_TIER_MINIMAL:
		return "not optimised, for debuggers";
	case DAC_TIER_OPTIMIZED:
		return "optimised at once";
	case DAC_TIER_QUICK:
		return "quickly made (tier 0)";
	case DAC_TIER_1:
		return "optimised (tier 1)";
	case DAC_TIER_AHEAD:
		return "made ahead of time (ReadyToRun)";
	case DAC_TIER_OSR:
		return "optimised while it ran (OSR)";
	case DAC_TIER_QUICK_COUNTS:
		return "quickly made, counting (tier 0)";
	case DAC_TIER_1_COUNTS:
		return "optimised, counting (tier 1)";
	default:
		return "not known how";
	}
}

static void add_versions(struct inspect *in, const struct dac_code *code, struct answer *a)
{
	struct dac_versions versions = { 0 };
	err_ignore(dac_versions(in->look.dac, code->method, &versions));
	if (versions.n)
		answer_table(a, "Versions of its code", "", "address", "tier");
	vec_each(v, &versions)
		ANSWER_ROW(a, C_TEXT(v->code == code->start ? ">" : ""),
			   v->code ? C_ADDRESS(v->code) : C_TEXT("none yet"), C_TEXT(tier_words(v->tier)));
	dac_versions_free(&versions);
}

/* ---- exception handlers ---- */

/* The source line of the first code between two offsets that came from any. */
static void add_line_in(struct inspect *in, const struct dac_code *code, uint64_t from, uint64_t to, struct buf *out)
{
	const struct dac_il *first = NULL;
	struct pdb_line l;
	vec_each(il, code)
		if (il->il_offset >= 0 && il->end > code->start + from && il->start < code->start + to &&
		    (!first || il->start < first->start))
			first = il;
	if (first && dac_line(in->look.lines, code->method, first->il_offset, &l))
		dac_line_add(out, &l);
}

static void add_clauses(struct inspect *in, const struct dac_code *code, struct answer *a)
{
	static const char *const kinds[] = { "fault", "finally", "catch when", "catch" };
	struct dac_clauses clauses = { 0 };
	err_ignore(dac_clauses(in->look.dac, code->start, &clauses));
	if (clauses.n)
		answer_table(a, "Exception handlers", "kind", "catches", "of code", "in", "handler", "at");
	vec_each(c, &clauses) {
		CLEANUP(buf_free) struct buf type = { 0 }, from = { 0 }, to = { 0 };
		CLEANUP(mem_freep)
		char *tried =
			mem_printf("+%llx to +%llx", (unsigned long long)c->try_start, (unsigned long long)c->try_end);
		if (c->any)
			buf_str(&type, "everything");
		else
			type_show(c->catches, &type);
		add_line_in(in, code, c->try_start, c->try_end, &from);
		add_line_in(in, code, c->start, c->end, &to);
		ANSWER_ROW(a, C_TEXT(kinds[c->kind]), C_TEXT(buf_cstr(&type)), C_TEXT(tried), C_TEXT(buf_cstr(&from)),
			   C_ADDRESS(code->start + c->start), C_TEXT(buf_cstr(&to)));
	}
	dac_clauses_free(&clauses);
}

struct err *inspect_method(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct dac_code code = { 0 };
	struct method_place place;
	(void)n;
	TRY(inspect_find_method(in, words[0], &place));
	if (!place.ip)
		return err_new(ERR_NOT_FOUND,
			       "that method is not compiled: nobody has called it, or it was inlined; 'il' shows what "
			       "it would do");
	CLEANUP(err_freep) struct err *none = dac_code(in->look.dac, place.ip, &code);
	if (none || !code.method) {
		dac_code_free(&code);
		return err_new(ERR_NOT_FOUND, "no managed code is at 0x%llx; 'stacks --all' shows addresses of code",
			       (unsigned long long)place.ip);
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
		add_versions(in, &code, a);
		add_clauses(in, &code, a);
		err = disassemble(in, &code, place.ip, a);
	}
	dac_code_free(&code);
	return err;
}
