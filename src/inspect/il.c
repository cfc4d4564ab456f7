/* il: a method as its compiler wrote it, instruction by instruction, with names for tokens and source lines. */

#include "base/cursor.h"
#include "base/fmt.h"
#include "base/str.h"
#include "inspect/internal.h"
#include <string.h>

#define MAX_IL (256u << 10)
#define MAX_TOKENS 4000
#define MAX_JUMPS 200 /* of a switch, that are shown */
#define SHOWN_OPERAND 200

/* What follows an instruction. */
enum operand { PLAIN, U1, U2, I1, I4, I8, R4, R8, TOKEN, JUMP1, JUMP4, SWITCH };
struct op {
	const char *name; /* NULL = there is none */
	enum operand operand;
};

/* clang-format off */
static const struct op ops[256] = {
	[0x00] = { "nop", PLAIN }, [0x01] = { "break", PLAIN }, [0x02] = { "ldarg.0", PLAIN },
	[0x03] = { "ldarg.1", PLAIN }, [0x04] = { "ldarg.2", PLAIN }, [0x05] = { "ldarg.3", PLAIN },
	[0x06] = { "ldloc.0", PLAIN }, [0x07] = { "ldloc.1", PLAIN }, [0x08] = { "ldloc.2", PLAIN },
	[0x09] = { "ldloc.3", PLAIN }, [0x0a] = { "stloc.0", PLAIN }, [0x0b] = { "stloc.1", PLAIN },
	[0x0c] = { "stloc.2", PLAIN }, [0x0d] = { "stloc.3", PLAIN }, [0x0e] = { "ldarg.s", U1 },
	[0x0f] = { "ldarga.s", U1 }, [0x10] = { "starg.s", U1 }, [0x11] = { "ldloc.s", U1 },
	[0x12] = { "ldloca.s", U1 }, [0x13] = { "stloc.s", U1 }, [0x14] = { "ldnull", PLAIN },
	[0x15] = { "ldc.i4.m1", PLAIN }, [0x16] = { "ldc.i4.0", PLAIN }, [0x17] = { "ldc.i4.1", PLAIN },
	[0x18] = { "ldc.i4.2", PLAIN }, [0x19] = { "ldc.i4.3", PLAIN }, [0x1a] = { "ldc.i4.4", PLAIN },
	[0x1b] = { "ldc.i4.5", PLAIN }, [0x1c] = { "ldc.i4.6", PLAIN }, [0x1d] = { "ldc.i4.7", PLAIN },
	[0x1e] = { "ldc.i4.8", PLAIN }, [0x1f] = { "ldc.i4.s", I1 }, [0x20] = { "ldc.i4", I4 },
	[0x21] = { "ldc.i8", I8 }, [0x22] = { "ldc.r4", R4 }, [0x23] = { "ldc.r8", R8 },
	[0x25] = { "dup", PLAIN }, [0x26] = { "pop", PLAIN }, [0x27] = { "jmp", TOKEN },
	[0x28] = { "call", TOKEN }, [0x29] = { "calli", TOKEN }, [0x2a] = { "ret", PLAIN },
	[0x2b] = { "br.s", JUMP1 }, [0x2c] = { "brfalse.s", JUMP1 }, [0x2d] = { "brtrue.s", JUMP1 },
	[0x2e] = { "beq.s", JUMP1 }, [0x2f] = { "bge.s", JUMP1 }, [0x30] = { "bgt.s", JUMP1 },
	[0x31] = { "ble.s", JUMP1 }, [0x32] = { "blt.s", JUMP1 }, [0x33] = { "bne.un.s", JUMP1 },
	[0x34] = { "bge.un.s", JUMP1 }, [0x35] = { "bgt.un.s", JUMP1 }, [0x36] = { "ble.un.s", JUMP1 },
	[0x37] = { "blt.un.s", JUMP1 }, [0x38] = { "br", JUMP4 }, [0x39] = { "brfalse", JUMP4 },
	[0x3a] = { "brtrue", JUMP4 }, [0x3b] = { "beq", JUMP4 }, [0x3c] = { "bge", JUMP4 },
	[0x3d] = { "bgt", JUMP4 }, [0x3e] = { "ble", JUMP4 }, [0x3f] = { "blt", JUMP4 },
	[0x40] = { "bne.un", JUMP4 }, [0x41] = { "bge.un", JUMP4 }, [0x42] = { "bgt.un", JUMP4 },
	[0x43] = { "ble.un", JUMP4 }, [0x44] = { "blt.un", JUMP4 }, [0x45] = { "switch", SWITCH },
	[0x46] = { "ldind.i1", PLAIN }, [0x47] = { "ldind.u1", PLAIN }, [0x48] = { "ldind.i2", PLAIN },
	[0x49] = { "ldind.u2", PLAIN }, [0x4a] = { "ldind.i4", PLAIN }, [0x4b] = { "ldind.u4", PLAIN },
	[0x4c] = { "ldind.i8", PLAIN }, [0x4d] = { "ldind.i", PLAIN }, [0x4e] = { "ldind.r4", PLAIN },
	[0x4f] = { "ldind.r8", PLAIN }, [0x50] = { "ldind.ref", PLAIN }, [0x51] = { "stind.ref", PLAIN },
	[0x52] = { "stind.i1", PLAIN }, [0x53] = { "stind.i2", PLAIN }, [0x54] = { "stind.i4", PLAIN },
	[0x55] = { "stind.i8", PLAIN }, [0x56] = { "stind.r4", PLAIN }, [0x57] = { "stind.r8", PLAIN },
	[0x58] = { "add", PLAIN }, [0x59] = { "sub", PLAIN }, [0x5a] = { "mul", PLAIN },
	[0x5b] = { "div", PLAIN }, [0x5c] = { "div.un", PLAIN }, [0x5d] = { "rem", PLAIN },
	[0x5e] = { "rem.un", PLAIN }, [0x5f] = { "and", PLAIN }, [0x60] = { "or", PLAIN },
	[0x61] = { "xor", PLAIN }, [0x62] = { "shl", PLAIN }, [0x63] = { "shr", PLAIN },
	[0x64] = { "shr.un", PLAIN }, [0x65] = { "neg", PLAIN }, [0x66] = { "not", PLAIN },
	[0x67] = { "conv.i1", PLAIN }, [0x68] = { "conv.i2", PLAIN }, [0x69] = { "conv.i4", PLAIN },
	[0x6a] = { "conv.i8", PLAIN }, [0x6b] = { "conv.r4", PLAIN }, [0x6c] = { "conv.r8", PLAIN },
	[0x6d] = { "conv.u4", PLAIN }, [0x6e] = { "conv.u8", PLAIN }, [0x6f] = { "callvirt", TOKEN },
	[0x70] = { "cpobj", TOKEN }, [0x71] = { "ldobj", TOKEN }, [0x72] = { "ldstr", TOKEN },
	[0x73] = { "newobj", TOKEN }, [0x74] = { "castclass", TOKEN }, [0x75] = { "isinst", TOKEN },
	[0x76] = { "conv.r.un", PLAIN }, [0x79] = { "unbox", TOKEN }, [0x7a] = { "throw", PLAIN },
	[0x7b] = { "ldfld", TOKEN }, [0x7c] = { "ldflda", TOKEN }, [0x7d] = { "stfld", TOKEN },
	[0x7e] = { "ldsfld", TOKEN }, [0x7f] = { "ldsflda", TOKEN }, [0x80] = { "stsfld", TOKEN },
	[0x81] = { "stobj", TOKEN }, [0x82] = { "conv.ovf.i1.un", PLAIN }, [0x83] = { "conv.ovf.i2.un", PLAIN },
	[0x84] = { "conv.ovf.i4.un", PLAIN }, [0x85] = { "conv.ovf.i8.un", PLAIN }, [0x86] = { "conv.ovf.u1.un", PLAIN },
	[0x87] = { "conv.ovf.u2.un", PLAIN }, [0x88] = { "conv.ovf.u4.un", PLAIN }, [0x89] = { "conv.ovf.u8.un", PLAIN },
	[0x8a] = { "conv.ovf.i.un", PLAIN }, [0x8b] = { "conv.ovf.u.un", PLAIN }, [0x8c] = { "box", TOKEN },
	[0x8d] = { "newarr", TOKEN }, [0x8e] = { "ldlen", PLAIN }, [0x8f] = { "ldelema", TOKEN },
	[0x90] = { "ldelem.i1", PLAIN }, [0x91] = { "ldelem.u1", PLAIN }, [0x92] = { "ldelem.i2", PLAIN },
	[0x93] = { "ldelem.u2", PLAIN }, [0x94] = { "ldelem.i4", PLAIN }, [0x95] = { "ldelem.u4", PLAIN },
	[0x96] = { "ldelem.i8", PLAIN }, [0x97] = { "ldelem.i", PLAIN }, [0x98] = { "ldelem.r4", PLAIN },
	[0x99] = { "ldelem.r8", PLAIN }, [0x9a] = { "ldelem.ref", PLAIN }, [0x9b] = { "stelem.i", PLAIN },
	[0x9c] = { "stelem.i1", PLAIN }, [0x9d] = { "stelem.i2", PLAIN }, [0x9e] = { "stelem.i4", PLAIN },
	[0x9f] = { "stelem.i8", PLAIN }, [0xa0] = { "stelem.r4", PLAIN }, [0xa1] = { "stelem.r8", PLAIN },
	[0xa2] = { "stelem.ref", PLAIN }, [0xa3] = { "ldelem", TOKEN }, [0xa4] = { "stelem", TOKEN },
	[0xa5] = { "unbox.any", TOKEN }, [0xb3] = { "conv.ovf.i1", PLAIN }, [0xb4] = { "conv.ovf.u1", PLAIN },
	[0xb5] = { "conv.ovf.i2", PLAIN }, [0xb6] = { "conv.ovf.u2", PLAIN }, [0xb7] = { "conv.ovf.i4", PLAIN },
	[0xb8] = { "conv.ovf.u4", PLAIN }, [0xb9] = { "conv.ovf.i8", PLAIN }, [0xba] = { "conv.ovf.u8", PLAIN },
	[0xc2] = { "refanyval", TOKEN }, [0xc3] = { "ckfinite", PLAIN }, [0xc6] = { "mkrefany", TOKEN },
	[0xd0] = { "ldtoken", TOKEN }, [0xd1] = { "conv.u2", PLAIN }, [0xd2] = { "conv.u1", PLAIN },
	[0xd3] = { "conv.i", PLAIN }, [0xd4] = { "conv.ovf.i", PLAIN }, [0xd5] = { "conv.ovf.u", PLAIN },
	[0xd6] = { "add.ovf", PLAIN }, [0xd7] = { "add.ovf.un", PLAIN }, [0xd8] = { "mul.ovf", PLAIN },
	[0xd9] = { "mul.ovf.un", PLAIN }, [0xda] = { "sub.ovf", PLAIN }, [0xdb] = { "sub.ovf.un", PLAIN },
	[0xdc] = { "endfinally", PLAIN }, [0xdd] = { "leave", JUMP4 }, [0xde] = { "leave.s", JUMP1 },
	[0xdf] = { "stind.i", PLAIN }, [0xe0] = { "conv.u", PLAIN },
};
/* Behind 0xfe. */
static const struct op long_ops[256] = {
	[0x00] = { "arglist", PLAIN }, [0x01] = { "ceq", PLAIN }, [0x02] = { "cgt", PLAIN },
	[0x03] = { "cgt.un", PLAIN }, [0x04] = { "clt", PLAIN }, [0x05] = { "clt.un", PLAIN },
	[0x06] = { "ldftn", TOKEN }, [0x07] = { "ldvirtftn", TOKEN }, [0x09] = { "ldarg", U2 },
	[0x0a] = { "ldarga", U2 }, [0x0b] = { "starg", U2 }, [0x0c] = { "ldloc", U2 },
	[0x0d] = { "ldloca", U2 }, [0x0e] = { "stloc", U2 }, [0x0f] = { "localloc", PLAIN },
	[0x11] = { "endfilter", PLAIN }, [0x12] = { "unaligned.", U1 }, [0x13] = { "volatile.", PLAIN },
	[0x14] = { "tail.", PLAIN }, [0x15] = { "initobj", TOKEN }, [0x16] = { "constrained.", TOKEN },
	[0x17] = { "cpblk", PLAIN }, [0x18] = { "initblk", PLAIN }, [0x19] = { "no.", U1 },
	[0x1a] = { "rethrow", PLAIN }, [0x1c] = { "sizeof", TOKEN }, [0x1d] = { "refanytype", PLAIN },
	[0x1e] = { "readonly.", PLAIN },
};
/* clang-format on */

/* The code behind a method's header: tiny ones have a byte, fat ones twelve. False = that is no method's. */
static bool find_body(struct inspect *in, uint64_t at, uint64_t *ret_start, uint32_t *ret_size)
{
	uint8_t head[12] = { 0 };
	size_t got;
	image_read(in->look.image, at, head, sizeof(head), &got);
	if (got && (head[0] & 3) == 2) {
		*ret_start = at + 1;
		*ret_size = head[0] >> 2;
		return true;
	}
	if (got < sizeof(head) || (head[0] & 3) != 3 || head[1] >> 4 < 3)
		return false;
	*ret_start = at + 4ull * (head[1] >> 4);
	memcpy(ret_size, head + 4, 4);
	return true;
}

static const struct op *take_op(struct cursor *c)
{
	uint8_t b = cursor_u8(c);
	const struct op *op = b == 0xfe ? &long_ops[cursor_u8(c)] : &ops[b];
	return cursor_ok(c) && op->name ? op : NULL;
}

/* Appends the operand; *ret_token is set when it is one. size: of all the code, to know where in it the cursor is. */
static void take_operand(struct cursor *c, size_t size, enum operand kind, struct buf *out, uint32_t *ret_token)
{
	float f;
	double d;
	uint32_t n;
	int32_t jump;
	switch (kind) {
	case PLAIN:
		break;
	case U1:
		buf_printf(out, "%u", cursor_u8(c));
		break;
	case U2:
		buf_printf(out, "%u", cursor_u16(c));
		break;
	case I1:
		buf_printf(out, "%d", (int8_t)cursor_u8(c));
		break;
	case I4:
		buf_printf(out, "%d", (int32_t)cursor_u32(c));
		break;
	case I8:
		buf_printf(out, "%lld", (long long)cursor_u64(c));
		break;
	case R4:
		n = cursor_u32(c);
		memcpy(&f, &n, sizeof(f));
		buf_printf(out, "%.9g", (double)f);
		break;
	case R8: {
		uint64_t bits = cursor_u64(c);
		memcpy(&d, &bits, sizeof(d));
		buf_printf(out, "%.17g", d);
		break;
	}
	case TOKEN:
		*ret_token = cursor_u32(c);
		break;
	case JUMP1:
		jump = (cursor_u8(c) ^ 0x80) - 0x80;
		buf_printf(out, "IL_%04x", (unsigned)((int64_t)(size - cursor_left(c)) + jump));
		break;
	case JUMP4:
		jump = (int32_t)cursor_u32(c);
		buf_printf(out, "IL_%04x", (unsigned)((int64_t)(size - cursor_left(c)) + jump));
		break;
	case SWITCH: {
		n = cursor_u32(c);
		uint64_t base = (size - cursor_left(c)) + 4ull * n;
		for (uint32_t i = 0; i < n && cursor_ok(c); i++) {
			jump = (int32_t)cursor_u32(c);
			if (i < MAX_JUMPS && cursor_ok(c))
				buf_printf(out, "%sIL_%04x", i ? " " : "", (unsigned)((int64_t)base + jump));
		}
		break;
	}
	}
}

bool il_next(struct cursor *c, size_t size, struct il_op *ret, struct buf *operand)
{
	*ret = (struct il_op){ .offset = (uint32_t)(size - cursor_left(c)) };
	const struct op *op = cursor_left(c) ? take_op(c) : NULL;
	if (!op)
		return false;
	take_operand(c, size, op->operand, operand, &ret->token);
	ret->name = op->name;
	return cursor_ok(c);
}

/* Names of all tokens in the code, asked for at once. */
static void learn_tokens(struct inspect *in, uint64_t module, const uint8_t *code, size_t size,
			 struct dac_token_names *ret)
{
	VEC(uint32_t) tokens = { 0 };
	struct cursor c = cursor_make(code, size);
	CLEANUP(buf_free) struct buf skipped = { 0 };
	struct il_op op;
	while (tokens.n < MAX_TOKENS && il_next(&c, size, &op, &skipped)) {
		buf_clear(&skipped);
		if (op.token)
			vec_push(&tokens, op.token);
	}
	if (tokens.n)
		err_ignore(dac_token_names(in->look.dac, module, tokens.v, tokens.n, ret));
	vec_free(&tokens);
}

static void add_code(struct inspect *in, const struct dac_method *m, const uint8_t *code, size_t size, struct answer *a)
{
	struct dac_token_names names = { 0 };
	struct cursor c = cursor_make(code, size);
	CLEANUP(buf_free) struct buf operand = { 0 };
	struct il_op op;
	uint32_t last_line = 0;
	size_t used = 0;
	learn_tokens(in, m->module, code, size, &names);
	answer_table(a, "IL", "offset", "instruction", "operand", "from");
	while (il_next(&c, size, &op, &operand)) {
		CLEANUP(buf_free) struct buf shown = { 0 }, line = { 0 };
		CLEANUP(mem_freep) char *offset = mem_printf("IL_%04x", op.offset);
		struct pdb_line l;
		if (op.token && used < names.n && names.v[used].token == op.token && *names.v[used].name)
			buf_str(&operand, names.v[used].name);
		else if (op.token)
			buf_printf(&operand, "token %08x", op.token);
		used += op.token != 0;
		str_add_visible(&shown, buf_cstr(&operand), operand.len, SHOWN_OPERAND);
		if (dac_line(in->look.lines, m->desc, (int32_t)op.offset, &l) && l.line != last_line) {
			dac_line_add(&line, &l);
			last_line = l.line;
		}
		ANSWER_ROW(a, C_TEXT(offset), C_TEXT(op.name), C_TEXT(buf_cstr(&shown)), C_TEXT(buf_cstr(&line)));
		buf_clear(&operand);
	}
	if (op.offset < size)
		answer_line(a, "no instruction is at IL_%04x", op.offset);
	dac_token_names_free(&names);
}

struct err *inspect_il(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct method_place place;
	uint64_t at, start;
	uint32_t size;
	size_t got;
	(void)n;
	TRY(inspect_find_method(in, words[0], &place));
	TRY(dac_learn_methods(in->look.dac, &place.method, 1));
	const struct dac_method *m = dac_method(in->look.dac, place.method);
	if (!m)
		return err_new(ERR_NOT_FOUND, "that method cannot be read");
	CLEANUP(buf_free) struct buf name = { 0 };
	str_add_visible(&name, m->name, strlen(m->name), 400);
	if (m->dynamic)
		return err_new(ERR_NOT_FOUND, "%s was made at run time: its IL is not kept", buf_cstr(&name));
	TRY(dac_il_address(in->look.dac, place.method, &at));
	if (!at)
		return err_new(ERR_NOT_FOUND, "%s has no IL: it is abstract, or the runtime's own", buf_cstr(&name));
	if (!find_body(in, at, &start, &size))
		return err_new(ERR_NOT_FOUND, "the IL of %s is not in this image", buf_cstr(&name));
	CLEANUP(mem_freep) uint8_t *code = mem_alloc(MIN(size, MAX_IL) + 1);
	image_read(in->look.image, start, code, MIN(size, MAX_IL), &got);
	if (!got && size)
		return err_new(ERR_NOT_FOUND, "the IL of %s is not in this image", buf_cstr(&name));
	answer_line(a, "%s", buf_cstr(&name));
	answer_line(a, "%s of IL at 0x%llx; token %08x", fmt_bytes(size).s, (unsigned long long)start, m->token);
	add_code(in, m, code, got, a);
	if (got < size)
		answer_line(a, "%s more", fmt_bytes(size - got).s);
	return NULL;
}
