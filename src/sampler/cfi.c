#include "sampler/cfi.h"
#include "base/cursor.h"

#define INSTRUCTIONS_MAX 100000
#define REMEMBERED_MAX 16
#define EXPR_STEPS_MAX 1000
#define EXPR_STACK 64

static int64_t sleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t byte;
	do {
		byte = cursor_u8(c);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && cursor_ok(c) && shift < 77);
	if ((byte & 0x40) && shift < 64)
		v |= ~0ull << shift;
	return (int64_t)v;
}

static uint64_t uleb(struct cursor *c)
{
	return cursor_varu64(c);
}

/* --- pointers as the tables encode them (DW_EH_PE_*) --- */

struct bytes_at {
	const uint8_t *bytes; /* of a section or segment */
	uint64_t va;
};

static uint64_t read_plain(struct cursor *c, uint8_t encoding)
{
	switch (encoding & 15) {
	case 0:
	case 4:
	case 12:
		return cursor_u64(c);
	case 1:
		return uleb(c);
	case 2:
		return cursor_u16(c);
	case 3:
		return cursor_u32(c);
	case 9:
		return (uint64_t)sleb(c);
	case 10:
		return (uint64_t)(int16_t)cursor_u16(c);
	case 11:
		return (uint64_t)cursor_i32(c);
	default:
		c->bad = true;
		return 0;
	}
}

static uint64_t read_pointer(struct cursor *c, uint8_t encoding, struct bytes_at at, uint64_t data)
{
	if (encoding == 0xff)
		return 0;
	uint64_t here = at.va + (uint64_t)(c->p - at.bytes);
	uint64_t v = read_plain(c, encoding);
	switch (encoding & 0x70) {
	case 0:
		return v;
	case 0x10:
		return v + here;
	case 0x30:
		return v + data;
	default:
		c->bad = true;
		return 0;
	}
}

/* --- .eh_frame_hdr: a sorted table of (function, FDE), both relative to the header --- */

static bool find_fde(const struct elf *elf, uint64_t va, uint64_t *ret_fde)
{
	uint64_t hdr_va;
	size_t len = 0;
	const uint8_t *hdr = elf_unwind_index(elf, &hdr_va, &len);
	if (!hdr || len < 4 || hdr[0] != 1 || hdr[3] != 0x3b)
		return false;
	struct cursor c = cursor_make(hdr, len);
	struct bytes_at at = { hdr, hdr_va };
	cursor_take(&c, 4);
	read_pointer(&c, hdr[1], at, hdr_va);
	uint64_t n = read_pointer(&c, hdr[2], at, hdr_va);
	if (!cursor_ok(&c) || n > cursor_left(&c) / 8)
		return false;
	uint64_t low = 0, high = n;
	int32_t entry[2];
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		memcpy(entry, c.p + mid * 8, 8);
		if (hdr_va + (uint64_t)(int64_t)entry[0] <= va)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	memcpy(entry, c.p + (low - 1) * 8, 8);
	*ret_fde = hdr_va + (uint64_t)(int64_t)entry[1];
	return true;
}

/* --- CIE and FDE --- */

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool has_data, signal;
	struct cursor program;
};

/* The record at a virtual address: its body after the length. */
static bool record_at(const struct elf *elf, uint64_t va, struct cursor *ret, struct bytes_at *ret_at)
{
	size_t len = 0;
	const uint8_t *p = elf_at(elf, va, &len);
	if (!p)
		return false;
	struct cursor c = cursor_make(p, len);
	uint32_t size = cursor_u32(&c);
	if (!cursor_ok(&c) || !size || size == UINT32_MAX || size > cursor_left(&c))
		return false;
	*ret = cursor_make(c.p, size);
	*ret_at = (struct bytes_at){ p, va };
	return true;
}

static bool read_cie(const struct elf *elf, uint64_t va, struct cie *ret)
{
	struct cursor c;
	struct bytes_at at;
	if (!record_at(elf, va, &c, &at) || cursor_u32(&c) != 0)
		return false;
	uint8_t version = cursor_u8(&c);
	const char *augmentation = (const char *)c.p;
	const uint8_t *end = memchr(c.p, 0, cursor_left(&c));
	if (!end || (version != 1 && version != 3))
		return false;
	cursor_take(&c, (size_t)(end - c.p) + 1);
	*ret = (struct cie){ .code_align = uleb(&c) };
	ret->data_align = sleb(&c);
	uint64_t ra = version == 1 ? cursor_u8(&c) : uleb(&c);
	if (ra != 16)
		return false;
	if (*augmentation == 'z') {
		ret->has_data = true;
		uint64_t len = uleb(&c);
		const uint8_t *data = cursor_take(&c, len);
		if (!data)
			return false;
		struct cursor a = cursor_make(data, len);
		for (const char *s = augmentation + 1; *s; s++) {
			if (*s == 'R') {
				ret->encoding = cursor_u8(&a);
			} else if (*s == 'P') {
				uint8_t encoding = cursor_u8(&a);
				read_pointer(&a, encoding, at, 0);
			} else if (*s == 'L') {
				cursor_u8(&a);
			} else if (*s == 'S') {
				ret->signal = true;
			} else {
				break;
			}
		}
	}
	ret->program = c;
	return cursor_ok(&c);
}

/* --- the program that makes the row for an address --- */

struct run {
	const struct cie *cie;
	struct bytes_at at;
	uint64_t loc, va;
	struct cfi_row row, initial;
	struct cfi_row remembered[REMEMBERED_MAX];
	size_t n_remembered;
	bool done;
};

static void advance(struct run *r, uint64_t delta)
{
	r->loc += delta * r->cie->code_align;
	r->done = r->loc > r->va;
}

/* A factored offset. Hostile ones wrap round. */
static int64_t scaled(const struct run *r, uint64_t offset)
{
	return (int64_t)(offset * (uint64_t)r->cie->data_align);
}

static void set_rule(struct run *r, uint64_t reg, enum cfi_kind kind, int64_t value)
{
	if (reg < CFI_REGISTERS)
		r->row.regs[reg] = (struct cfi_rule){ .kind = (uint8_t)kind, .value = value };
}

static void set_expr(struct cursor *c, struct cfi_rule *rule, enum cfi_kind kind)
{
	uint64_t len = uleb(c);
	const uint8_t *expr = cursor_take(c, len);
	if (expr && rule)
		*rule = (struct cfi_rule){ .kind = (uint8_t)kind, .len = (uint32_t)len, .expr = expr };
}

static void set_cfa(struct run *r, uint64_t reg, int64_t offset)
{
	uint32_t known = (uint32_t)MIN(reg, (uint64_t)255);
	r->row.cfa = (struct cfi_rule){ .kind = CFI_IN, .len = known, .value = offset };
}

static void restore(struct run *r, uint64_t reg)
{
	if (reg < CFI_REGISTERS)
		r->row.regs[reg] = r->initial.regs[reg];
}

/* DW_CFA_* beyond the three that carry an operand in the opcode. */
static bool step_extended(struct run *r, uint8_t op, struct cursor *c)
{
	uint64_t reg;
	switch (op) {
	case 0x00: /* nop */
		return true;
	case 0x01: /* set_loc */
		r->loc = read_pointer(c, r->cie->encoding, r->at, 0);
		r->done = r->loc > r->va;
		return true;
	case 0x02:
		advance(r, cursor_u8(c));
		return true;
	case 0x03:
		advance(r, cursor_u16(c));
		return true;
	case 0x04:
		advance(r, cursor_u32(c));
		return true;
	case 0x05: /* offset_extended */
		reg = uleb(c);
		set_rule(r, reg, CFI_AT, scaled(r, uleb(c)));
		return true;
	case 0x06:
		restore(r, uleb(c));
		return true;
	case 0x07:
		set_rule(r, uleb(c), CFI_UNDEFINED, 0);
		return true;
	case 0x08:
		set_rule(r, uleb(c), CFI_SAME, 0);
		return true;
	case 0x09: /* register */
		reg = uleb(c);
		set_rule(r, reg, CFI_IN, (int64_t)uleb(c));
		return true;
	case 0x0a: /* remember_state */
		if (r->n_remembered == REMEMBERED_MAX)
			return false;
		r->remembered[r->n_remembered++] = r->row;
		return true;
	case 0x0b:
		if (!r->n_remembered)
			return false;
		r->row = r->remembered[--r->n_remembered];
		return true;
	case 0x0c: /* def_cfa */
		reg = uleb(c);
		set_cfa(r, reg, (int64_t)uleb(c));
		return true;
	case 0x0d:
		set_cfa(r, uleb(c), r->row.cfa.value);
		return true;
	case 0x0e:
		set_cfa(r, r->row.cfa.len, (int64_t)uleb(c));
		return true;
	case 0x0f:
		set_expr(c, &r->row.cfa, CFI_IS_EXPR);
		return true;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		reg = uleb(c);
		set_expr(c, reg < CFI_REGISTERS ? &r->row.regs[reg] : NULL, op == 0x10 ? CFI_AT_EXPR : CFI_IS_EXPR);
		return true;
	case 0x11: /* offset_extended_sf */
		reg = uleb(c);
		set_rule(r, reg, CFI_AT, scaled(r, (uint64_t)sleb(c)));
		return true;
	case 0x12: /* def_cfa_sf */
		reg = uleb(c);
		set_cfa(r, reg, scaled(r, (uint64_t)sleb(c)));
		return true;
	case 0x13:
		set_cfa(r, r->row.cfa.len, scaled(r, (uint64_t)sleb(c)));
		return true;
	case 0x14: /* val_offset */
		reg = uleb(c);
		set_rule(r, reg, CFI_IS, scaled(r, uleb(c)));
		return true;
	case 0x15: /* val_offset_sf */
		reg = uleb(c);
		set_rule(r, reg, CFI_IS, scaled(r, (uint64_t)sleb(c)));
		return true;
	case 0x2e: /* GNU_args_size */
		uleb(c);
		return true;
	default:
		return false;
	}
}

static bool run_program(struct run *r, struct cursor c)
{
	for (size_t i = 0; cursor_left(&c) && !r->done; i++) {
		if (i == INSTRUCTIONS_MAX)
			return false;
		uint8_t op = cursor_u8(&c), low = op & 63;
		bool ok = true;
		switch (op >> 6) {
		case 1:
			advance(r, low);
			break;
		case 2:
			set_rule(r, low, CFI_AT, scaled(r, uleb(&c)));
			break;
		case 3:
			restore(r, low);
			break;
		default:
			ok = step_extended(r, op, &c);
		}
		if (!ok || !cursor_ok(&c))
			return false;
	}
	return true;
}

bool cfi_find(const struct elf *elf, uint64_t va, struct cfi_row *ret)
{
	uint64_t fde_va;
	struct cursor c;
	struct run r = { .va = va };
	if (!find_fde(elf, va, &fde_va) || !record_at(elf, fde_va, &c, &r.at))
		return false;
	uint32_t back = cursor_u32(&c);
	struct cie cie;
	if (!cursor_ok(&c) || !back || !read_cie(elf, fde_va + 4 - back, &cie))
		return false;
	r.cie = &cie;
	uint64_t start = read_pointer(&c, cie.encoding, r.at, 0), len = read_plain(&c, cie.encoding);
	if (va < start || va - start >= len)
		return false;
	if (cie.has_data)
		cursor_take(&c, uleb(&c));
	if (!cursor_ok(&c))
		return false;
	/* The CIE's instructions hold everywhere. */
	r.va = UINT64_MAX;
	if (!run_program(&r, cie.program))
		return false;
	r.initial = r.row;
	r.loc = start;
	r.va = va;
	r.done = false;
	if (!run_program(&r, c))
		return false;
	*ret = r.row;
	ret->signal = cie.signal;
	return true;
}

/* --- expressions --- */

struct cfi_machine {
	const struct cfi_values *values;
	uint64_t stack[EXPR_STACK];
	size_t n;
	bool bad;
};

static void push(struct cfi_machine *m, uint64_t v)
{
	if (m->n == EXPR_STACK)
		m->bad = true;
	else
		m->stack[m->n++] = v;
}

static uint64_t pop(struct cfi_machine *m)
{
	if (!m->n) {
		m->bad = true;
		return 0;
	}
	return m->stack[--m->n];
}

static void load(struct cfi_machine *m, size_t size)
{
	uint64_t v = 0, at = pop(m);
	if (size > 8 || !m->values->read(m->values->user, at, &v, size))
		m->bad = true;
	push(m, v);
}

static uint64_t shift(uint64_t v, uint64_t by, bool left)
{
	return by > 63 ? 0 : left ? v << by : v >> by;
}

static void push_register(struct cfi_machine *m, unsigned reg, int64_t offset)
{
	uint64_t v = 0;
	if (!m->values->reg(m->values->user, reg, &v))
		m->bad = true;
	push(m, v + (uint64_t)offset);
}

static uint64_t binary(struct cfi_machine *m, uint8_t op, uint64_t a, uint64_t b)
{
	int64_t x = (int64_t)a, y = (int64_t)b;
	switch (op) {
	case 0x1a:
		return a & b;
	case 0x1b:
		m->bad |= !y || (x == INT64_MIN && y == -1);
		return m->bad ? 0 : (uint64_t)(x / y);
	case 0x1c:
		return a - b;
	case 0x1d:
		m->bad |= !b;
		return b ? a % b : 0;
	case 0x1e:
		return a * b;
	case 0x21:
		return a | b;
	case 0x22:
		return a + b;
	case 0x24:
		return shift(a, b, true);
	case 0x25:
		return shift(a, b, false);
	case 0x26:
		return (uint64_t)(x >> MIN(b, (uint64_t)63));
	case 0x27:
		return a ^ b;
	case 0x29:
		return x == y;
	case 0x2a:
		return x >= y;
	case 0x2b:
		return x > y;
	case 0x2c:
		return x <= y;
	case 0x2d:
		return x < y;
	case 0x2e:
		return x != y;
	default:
		m->bad = true;
		return 0;
	}
}

static void constant(struct cfi_machine *m, uint8_t op, struct cursor *c)
{
	switch (op) {
	case 0x03:
	case 0x0e:
	case 0x0f:
		push(m, cursor_u64(c));
		break;
	case 0x08:
		push(m, cursor_u8(c));
		break;
	case 0x09:
		push(m, (uint64_t)(int8_t)cursor_u8(c));
		break;
	case 0x0a:
		push(m, cursor_u16(c));
		break;
	case 0x0b:
		push(m, (uint64_t)(int16_t)cursor_u16(c));
		break;
	case 0x0c:
		push(m, cursor_u32(c));
		break;
	case 0x0d:
		push(m, (uint64_t)cursor_i32(c));
		break;
	case 0x10:
		push(m, uleb(c));
		break;
	default:
		push(m, (uint64_t)sleb(c));
	}
}

static void shuffle(struct cfi_machine *m, uint8_t op, struct cursor *c)
{
	size_t depth = op == 0x12 ? 0 : op == 0x14 ? 1 : op == 0x15 ? cursor_u8(c) : 2;
	if (op == 0x13) {
		pop(m);
	} else if (op == 0x16 || op == 0x17) { /* swap, rot */
		size_t n = op == 0x16 ? 2 : 3;
		m->bad |= m->n < n;
		if (m->bad)
			return;
		uint64_t top = m->stack[m->n - 1];
		memmove(&m->stack[m->n - n + 1], &m->stack[m->n - n], (n - 1) * sizeof(top));
		m->stack[m->n - n] = top;
	} else if (depth < m->n) {
		push(m, m->stack[m->n - 1 - depth]);
	} else {
		m->bad = true;
	}
}

static void unary(struct cfi_machine *m, uint8_t op, struct cursor *c)
{
	uint64_t v = pop(m);
	switch (op) {
	case 0x19:
		push(m, (int64_t)v < 0 ? 0 - v : v);
		break;
	case 0x1f:
		push(m, 0 - v);
		break;
	case 0x20:
		push(m, ~v);
		break;
	default: /* plus_uconst */
		push(m, v + uleb(c));
	}
}

/* A jump, relative to the end of its own operand. */
static void jump(struct cfi_machine *m, struct cursor *c, const uint8_t *start, bool always)
{
	int16_t by = (int16_t)cursor_u16(c);
	if (!always && !pop(m))
		return;
	if (by < start - c->p || by > c->end - c->p)
		m->bad = true;
	else
		c->p += by;
}

static void step_expr(struct cfi_machine *m, uint8_t op, struct cursor *c, const uint8_t *start)
{
	if (op >= 0x30 && op <= 0x4f)
		push(m, op - 0x30u);
	else if (op >= 0x70 && op <= 0x8f)
		push_register(m, op - 0x70u, sleb(c));
	else if (op == 0x92) {
		uint64_t reg = uleb(c);
		push_register(m, (unsigned)MIN(reg, (uint64_t)255), sleb(c));
	} else if (op == 0x03 || (op >= 0x08 && op <= 0x11))
		constant(m, op, c);
	else if (op == 0x06)
		load(m, 8);
	else if (op == 0x94)
		load(m, cursor_u8(c));
	else if (op >= 0x12 && op <= 0x17)
		shuffle(m, op, c);
	else if (op == 0x19 || op == 0x1f || op == 0x20 || op == 0x23)
		unary(m, op, c);
	else if (op == 0x28 || op == 0x2f)
		jump(m, c, start, op == 0x2f);
	else if (op != 0x96) { /* 0x96 is nop */
		uint64_t b = pop(m), a = pop(m);
		push(m, binary(m, op, a, b));
	}
}

bool cfi_eval(const struct cfi_rule *rule, const struct cfi_values *values, const uint64_t *cfa, uint64_t *ret)
{
	struct cfi_machine m = { .values = values };
	struct cursor c = cursor_make(rule->expr, rule->len);
	if (cfa)
		push(&m, *cfa);
	for (size_t i = 0; cursor_left(&c) && !m.bad; i++) {
		if (i == EXPR_STEPS_MAX)
			return false;
		step_expr(&m, cursor_u8(&c), &c, rule->expr);
		m.bad |= !cursor_ok(&c);
	}
	uint64_t v = pop(&m);
	if (m.bad)
		return false;
	*ret = v;
	return true;
}
