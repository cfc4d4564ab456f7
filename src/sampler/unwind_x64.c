/* Unwinds a stack of x86-64 from registers and a copy of its memory; the rules are described in
 * docs/internals/unwinder.md. */

#include "sampler/unwind.h"
#include "base/map.h"
#include "base/vec.h"
#include "sampler/cfi.h"
#include "sampler/managed_x64.h"
#include <string.h>

enum { RSP = 4, RBP = 5 };
static const uint8_t FROM_DWARF[16] = { 0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 };

#define FUNCLETS_MAX 1024
#define CODE_CACHE_MAX 200000 /* methods */
#define PROLOGUE_BYTES 96
#define EPILOGUE_BYTES 32
#define SCAN_SLOTS 512
#define LEAF_CACHE 4096

/* A compiled method: its pieces (itself and its funclets), each with unwind data. */
struct unwind_piece {
	uint32_t begin, end; /* from the method's start */
	uint32_t unwind;     /* in data */
	uint16_t unwind_len;
};
struct code {
	struct unwind_piece *pieces; /* NULL: the runtime's data could not be read */
	size_t n;
	uint8_t *data;
	uint8_t prologue[PROLOGUE_BYTES];
	size_t prologue_len;
};

/* Instructions at places where samples hit. */
struct leaf {
	uint64_t ip;
	uint32_t version;
	uint8_t len, code[EPILOGUE_BYTES];
};

struct unwinder {
	struct space *space;
	bool (*method)(void *user, uint64_t address, struct unwind_method *ret);
	void *user;
	VEC(struct code) codes;
	struct map_u64 by_method; /* hash of start and version -> index in codes */
	struct leaf leaves[LEAF_CACHE];
	/* The stack that is being unwound. */
	const struct unwind_stack *stack;
	bool cut; /* something beyond the copy was needed */
};

struct unwinder *unwinder_new(struct space *space,
			      bool (*method)(void *user, uint64_t address, struct unwind_method *ret), void *user)
{
	struct unwinder *u = mem_zalloc(sizeof(*u));
	u->space = space;
	u->method = method;
	u->user = user;
	return u;
}

void unwinder_free(struct unwinder *u)
{
	if (!u)
		return;
	vec_each(c, &u->codes) {
		mem_free(c->pieces);
		mem_free(c->data);
	}
	vec_free(&u->codes);
	map_u64_free(&u->by_method);
	mem_free(u);
}

static bool read_stack(void *user, uint64_t address, uint64_t *ret)
{
	struct unwinder *u = user;
	const struct unwind_stack *s = u->stack;
	if (address < s->sp)
		return false;
	uint64_t at = address - s->sp;
	if (at > s->n || s->n - at < 8) {
		/* Far beyond is nonsense, not the rest of a stack. */
		u->cut |= s->full && at < (1ull << 30);
		return false;
	}
	memcpy(ret, s->bytes + at, 8);
	return true;
}

/* --- compiled methods --- */

/* In front of a method's code is a pointer to its header: some pointers, the number of pieces, and for each piece
 * begin, end and unwind data, relative to a base that follows from the first piece. The number of pointers differs
 * between runtimes, so the place is the one at which everything fits. */
static bool read_pieces(struct unwinder *u, const struct unwind_method *m, const uint8_t *header, size_t len, size_t at,
			struct code *ret)
{
	uint32_t n, piece[3];
	memcpy(&n, header + at, 4);
	if (!n || n > FUNCLETS_MAX || at + 4 + 12 > len)
		return false;
	memcpy(piece, header + at + 4, 12);
	uint64_t base = m->start - piece[0];
	if (piece[0] >= piece[1] || piece[1] - piece[0] > m->size)
		return false;
	const uint8_t *pieces = header + at + 4;
	if (at + 4 + 12ull * n > len)
		return false;
	CLEANUP(mem_freep) struct unwind_piece *list = mem_array(n, sizeof(*list));
	CLEANUP(mem_freep) uint8_t *data = mem_array(n, 4 + 2 * 256);
	size_t used = 0;
	for (size_t i = 0; i < n; i++) {
		memcpy(piece, pieces + 12 * i, 12);
		uint64_t begin = base + piece[0] - m->start, end = base + piece[1] - m->start;
		uint8_t head[4];
		if (begin >= end || end > m->size || !space_read(u->space, base + piece[2], head, 4))
			return false;
		size_t bytes = 4 + 2u * head[2];
		if ((head[0] & 7) < 1 || (head[0] & 7) > 2 ||
		    !space_read(u->space, base + piece[2], data + used, bytes))
			return false;
		list[i] = (struct unwind_piece){ (uint32_t)begin, (uint32_t)end, (uint32_t)used, (uint16_t)bytes };
		used += bytes;
	}
	ret->pieces = STEAL(list);
	ret->data = mem_realloc(STEAL(data), used);
	ret->n = n;
	return true;
}

static void read_header(struct unwinder *u, const struct unwind_method *m, struct code *ret)
{
	static const size_t places[] = { 32, 24, 40, 16, 48 };
	uint64_t at;
	uint8_t header[64 + 12 * 512];
	size_t len = sizeof(header);
	if (!space_read(u->space, m->start - 8, &at, 8))
		return;
	/* It may lie near the end of what is mapped. */
	while (len > 64 && !space_read(u->space, at, header, len))
		len /= 2;
	if (len <= 64)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(places) && !ret->pieces; i++)
		read_pieces(u, m, header, len, places[i], ret);
}

static const struct code *code_of(struct unwinder *u, const struct unwind_method *m)
{
	bool new;
	uint64_t key = hash_u64(m->start) ^ m->version;
	uint64_t *index = map_u64_put(&u->by_method, key, &new);
	if (!new)
		return &u->codes.v[*index];
	if (u->codes.n >= CODE_CACHE_MAX) {
		vec_each(c, &u->codes) {
			mem_free(c->pieces);
			mem_free(c->data);
		}
		vec_clear(&u->codes);
		map_u64_clear(&u->by_method);
		index = map_u64_put(&u->by_method, key, &new);
	}
	*index = u->codes.n;
	struct code *c = vec_add(&u->codes);
	size_t prologue = MIN((size_t)m->size, (size_t)PROLOGUE_BYTES);
	*c = (struct code){ .prologue_len = prologue };
	if (!space_read(u->space, m->start, c->prologue, c->prologue_len))
		c->prologue_len = 0;
	read_header(u, m, c);
	return c;
}

/* --- steps: each makes the caller's registers of a frame's, or fails and leaves them --- */

struct unwind_frame {
	struct managed_frame regs;
	bool exact; /* at the instruction itself */
	bool ended; /* it has no caller */
};

static const uint8_t *leaf_code(struct unwinder *u, uint64_t ip, uint32_t version, size_t *ret_len)
{
	struct leaf *l = &u->leaves[hash_u64(ip) % LEAF_CACHE];
	if (l->ip != ip || l->version != version || !l->len) {
		*l = (struct leaf){ .ip = ip, .version = version, .len = EPILOGUE_BYTES };
		while (l->len && !space_read(u->space, ip, l->code, l->len))
			l->len /= 2;
	}
	*ret_len = l->len;
	return l->code;
}

static bool step_epilogue(struct unwinder *u, uint32_t version, uint64_t end, struct unwind_frame *f)
{
	if (!f->exact)
		return false;
	size_t len;
	const uint8_t *code = leaf_code(u, f->regs.ip, version, &len);
	return managed_epilogue(code, MIN((uint64_t)len, end - f->regs.ip), read_stack, u, &f->regs);
}

static const struct unwind_piece *piece_at(const struct code *c, uint64_t into, struct managed_unwind *ret)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct unwind_piece *p = &c->pieces[i];
		if (into >= p->begin && into < p->end && managed_unwind_parse(c->data + p->unwind, p->unwind_len, ret))
			return p;
	}
	return NULL;
}

static bool step_jit(struct unwinder *u, const struct unwind_method *m, uint64_t look, struct unwind_frame *f)
{
	const struct code *c = code_of(u, m);
	uint64_t into = look - m->start;
	struct managed_unwind info;
	const struct unwind_piece *p = piece_at(c, into, &info);
	if (p) {
		/* In the prologue and before it, the first instruction's bytes may look like an epilogue's. */
		uint64_t done = f->regs.ip - m->start - p->begin;
		if (done >= info.prolog && step_epilogue(u, m->version, m->start + p->end, f))
			return true;
		return managed_apply(&info, f->exact ? done : UINT64_MAX, read_stack, u, &f->regs);
	}
	if (c->n || !c->prologue_len)
		return false;
	if (into && step_epilogue(u, m->version, m->start + m->size, f))
		return true;
	return managed_prologue(c->prologue, c->prologue_len, f->regs.ip - m->start, read_stack, u, &f->regs);
}

static bool step_r2r(struct unwinder *u, const struct space_map *map, const struct pe *pe, uint64_t look,
		     struct unwind_frame *f)
{
	uint32_t rva;
	struct pe_function fn;
	size_t len = 0;
	struct managed_unwind info;
	if (!pe_rva(pe, look - map->start + map->offset, &rva) || !pe_function(pe, rva, &fn))
		return false;
	const uint8_t *data = pe_at(pe, fn.unwind, &len);
	if (!data || !managed_unwind_parse(data, len, &info))
		return false;
	uint64_t done = f->regs.ip - look + rva - fn.begin;
	if (done >= info.prolog && step_epilogue(u, 0, f->regs.ip + (fn.end - rva), f))
		return true;
	return managed_apply(&info, f->exact ? done : UINT64_MAX, read_stack, u, &f->regs);
}

struct native {
	struct unwinder *u;
	const struct unwind_frame *f;
};

static bool native_reg(void *user, unsigned dwarf, uint64_t *ret)
{
	struct native *n = user;
	if (dwarf > 16)
		return false;
	*ret = dwarf == 16 ? n->f->regs.ip : n->f->regs.r[FROM_DWARF[dwarf]];
	return true;
}

static bool native_read(void *user, uint64_t address, void *out, size_t len)
{
	struct native *n = user;
	const struct unwind_stack *s = n->u->stack;
	if (address >= s->sp && address - s->sp <= s->n && len <= s->n - (address - s->sp)) {
		memcpy(out, s->bytes + (address - s->sp), len);
		return true;
	}
	return false;
}

/* One register of the caller. */
static bool apply_rule(struct unwinder *u, const struct cfi_rule *rule, const struct cfi_values *values, uint64_t cfa,
		       uint64_t *value)
{
	uint64_t at;
	switch (rule->kind) {
	case CFI_AT:
		return read_stack(u, cfa + (uint64_t)rule->value, value);
	case CFI_IS:
		*value = cfa + (uint64_t)rule->value;
		return true;
	case CFI_IN:
		return values->reg(values->user, (unsigned)MIN((uint64_t)rule->value, (uint64_t)255), value);
	case CFI_AT_EXPR:
		return cfi_eval(rule, values, &cfa, &at) && read_stack(u, at, value);
	case CFI_IS_EXPR:
		return cfi_eval(rule, values, &cfa, value);
	default:
		return true;
	}
}

static bool step_native(struct unwinder *u, const struct space_map *map, const struct elf *elf, uint64_t look,
			struct unwind_frame *f)
{
	uint64_t va, cfa;
	struct cfi_row row;
	if (!elf_va(elf, look - map->start + map->offset, &va) || !cfi_find(elf, va, &row))
		return false;
	if (row.regs[16].kind == CFI_UNDEFINED) {
		f->ended = true;
		return true;
	}
	struct native n = { u, f };
	struct cfi_values values = { native_reg, native_read, &n };
	if (row.cfa.kind == CFI_IS_EXPR) {
		if (!cfi_eval(&row.cfa, &values, NULL, &cfa))
			return false;
	} else if (row.cfa.kind != CFI_IN || !native_reg(&n, row.cfa.len, &cfa)) {
		return false;
	} else {
		cfa += (uint64_t)row.cfa.value;
	}
	struct unwind_frame caller = *f;
	for (unsigned i = 0; i < 16; i++) {
		uint64_t *value = &caller.regs.r[FROM_DWARF[i]];
		/* Without a rule the stack pointer is the CFA by definition. */
		if (FROM_DWARF[i] == RSP && row.regs[i].kind == CFI_SAME)
			*value = cfa;
		/* Compilers do not describe epilogues: what was saved below the stack pointer has been popped. */
		else if (f->exact && row.regs[i].kind == CFI_AT && cfa + (uint64_t)row.regs[i].value < f->regs.r[RSP])
			continue;
		else if (!apply_rule(u, &row.regs[i], &values, cfa, value))
			return false;
	}
	if (!apply_rule(u, &row.regs[16], &values, cfa, &caller.regs.ip))
		return false;
	caller.exact = row.signal;
	*f = caller;
	f->ended = !f->regs.ip;
	return true;
}

/* --- without a rule --- */

static bool is_code(struct unwinder *u, uint64_t address)
{
	struct unwind_method m;
	if (u->method(u->user, address, &m))
		return true;
	const struct space_map *map = space_find(u->space, address);
	return map && map->exec;
}

/* Is there a call just before it? */
static bool is_return_address(struct unwinder *u, uint64_t address)
{
	uint8_t b[7];
	if (address < 4096 || address >> 47 || !is_code(u, address - 1) || !space_read(u->space, address - 7, b, 7))
		return false;
	if (b[2] == 0xe8)
		return true;
	/* call r/m: the second opcode byte has 2 in its middle three bits. */
	for (size_t len = 2; len <= 7; len++) {
		const uint8_t *p = b + 7 - len;
		if (p[0] == 0xff && (p[1] >> 3 & 7) == 2)
			return true;
	}
	return false;
}

/* A leaf without a frame of its own, as stubs and write barriers are: the return address is on top. */
static bool step_stub(struct unwinder *u, struct unwind_frame *f)
{
	uint64_t ra;
	if (!f->exact || !read_stack(u, f->regs.r[RSP], &ra) || !is_return_address(u, ra))
		return false;
	f->regs.ip = ra;
	f->regs.r[RSP] += 8;
	return true;
}

/* Is the frame pointer that of a compiled method which called from here, with no frame in between? */
static bool called_from(struct unwinder *u, const struct unwind_frame *caller)
{
	struct unwind_method m;
	struct managed_unwind info;
	uint64_t look = caller->regs.ip - 1, bp = caller->regs.r[RBP];
	if (!u->method(u->user, look, &m) || !is_return_address(u, caller->regs.ip) ||
	    !piece_at(code_of(u, &m), look - m.start, &info) ||
	    managed_body_sp(&info, &caller->regs) != caller->regs.r[RSP])
		return false;
	struct unwind_frame next = *caller;
	return step_jit(u, &m, look, &next) && next.regs.r[RSP] == bp + 16;
}

/* Code without a frame pointer leaves that of the method which called it: the chain would go past this method. */
static bool step_caller(struct unwinder *u, struct unwind_frame *f)
{
	uint64_t bp = f->regs.r[RBP], at = f->regs.r[RSP];
	struct unwind_frame caller = { .regs = f->regs };
	for (size_t i = 0; i < SCAN_SLOTS && at < bp && read_stack(u, at, &caller.regs.ip); i++, at += 8) {
		caller.regs.r[RSP] = at + 8;
		if (!called_from(u, &caller))
			continue;
		*f = caller;
		return true;
	}
	/* It was only looked for. */
	u->cut = false;
	return false;
}

static bool step_chain(struct unwinder *u, struct unwind_frame *f)
{
	uint64_t bp = f->regs.r[RBP], next, ra;
	if (bp < f->regs.r[RSP] || !read_stack(u, bp, &next) || !read_stack(u, bp + 8, &ra) ||
	    !is_return_address(u, ra))
		return false;
	f->regs.ip = ra;
	f->regs.r[RBP] = next;
	f->regs.r[RSP] = bp + 16;
	return true;
}

static bool step_scan(struct unwinder *u, struct unwind_frame *f)
{
	uint64_t value;
	for (size_t i = 0; i < SCAN_SLOTS; i++) {
		uint64_t at = f->regs.r[RSP] + 8 * i;
		if (!read_stack(u, at, &value))
			return false;
		if (!is_return_address(u, value))
			continue;
		f->regs.ip = value;
		f->regs.r[RSP] = at + 8;
		/* Below a return address often lies the caller's frame pointer, which we may have lost. */
		uint64_t bp;
		if (f->regs.r[RBP] < at && read_stack(u, at - 8, &bp) && bp > at && bp - at < (1u << 20))
			f->regs.r[RBP] = bp;
		return true;
	}
	return false;
}

static bool step_by_rule(struct unwinder *u, struct unwind_frame *f)
{
	uint64_t look = f->exact ? f->regs.ip : f->regs.ip - 1;
	struct unwind_method m;
	if (u->method(u->user, look, &m)) {
		const struct space_map *map = space_find(u->space, look);
		struct space_object *o = map ? space_open(u->space, map) : NULL;
		bool ok = (o && o->pe && step_r2r(u, map, o->pe, look, f)) || step_jit(u, &m, look, f);
		f->exact &= !ok;
		return ok;
	}
	const struct space_map *map = space_find(u->space, look);
	struct space_object *o = map ? space_open(u->space, map) : NULL;
	if (o && o->elf)
		return step_native(u, map, o->elf, look, f);
	bool ok = o && o->pe && step_r2r(u, map, o->pe, look, f);
	f->exact &= !ok;
	return ok;
}

/* A caller is believed when its code is code and its frame lies above. */
static bool step(struct unwinder *u, struct unwind_frame *f, unsigned *guessed)
{
	struct unwind_frame before = *f;
	bool ruled = step_by_rule(u, f);
	if (ruled && f->ended)
		return true;
	if (ruled && f->regs.r[RSP] > before.regs.r[RSP] && is_code(u, f->regs.ip - !f->exact))
		return true;
	if (u->cut)
		return false;
	*f = before;
	bool found = step_stub(u, f);
	if (!found) {
		found = step_caller(u, f) || step_chain(u, f) || (*f = before, step_scan(u, f));
		*guessed += found;
	}
	f->exact = false;
	return found;
}

void unwind(struct unwinder *u, const struct unwind_regs *regs, const struct unwind_stack *stack, struct unwound *ret)
{
	struct unwind_frame f = { .exact = true };
	memcpy(f.regs.r, regs->r, sizeof(f.regs.r));
	f.regs.ip = regs->ip;
	u->stack = stack;
	u->cut = false;
	ret->n = 0;
	ret->guessed = 0;
	ret->end = UNWIND_DEEP;
	memset(ret->exact, 0, sizeof(ret->exact));
	while (ret->n < UNWIND_FRAMES_MAX) {
		ret->exact[ret->n / 8] |= (uint8_t)(f.exact << ret->n % 8);
		ret->ips[ret->n++] = f.regs.ip;
		if (!step(u, &f, &ret->guessed)) {
			ret->end = u->cut ? UNWIND_CUT : UNWIND_LOST;
			break;
		}
		if (f.ended) {
			ret->end = UNWIND_ROOT;
			break;
		}
	}
}
