#include "sampler/managed_x64.h"
#include "base/cursor.h"

enum { RSP = 4, RBP = 5 };

/* Codes of the unwind data (the format of Windows x64, with one code that only other systems have). */
enum {
	UWOP_PUSH_NONVOL = 0,
	UWOP_ALLOC_LARGE = 1,
	UWOP_ALLOC_SMALL = 2,
	UWOP_SET_FPREG = 3,
	UWOP_SAVE_NONVOL = 4,
	UWOP_SAVE_NONVOL_FAR = 5,
	UWOP_EPILOG = 6,
	UWOP_SAVE_XMM128 = 8,
	UWOP_SAVE_XMM128_FAR = 9,
	UWOP_PUSH_MACHFRAME = 10,
	UWOP_SET_FPREG_LARGE = 11,
};

bool managed_unwind_parse(const uint8_t *bytes, size_t len, struct managed_unwind *ret)
{
	if (len < 4)
		return false;
	unsigned version = bytes[0] & 7;
	*ret = (struct managed_unwind){ .prolog = bytes[1],
					.n_codes = bytes[2],
					.frame_reg = bytes[3] & 15,
					.frame_offset = bytes[3] >> 4,
					.codes = bytes + 4 };
	return (version == 1 || version == 2) && len - 4 >= 2u * ret->n_codes;
}

static uint16_t slot(const struct managed_unwind *info, size_t i)
{
	uint16_t v;
	memcpy(&v, info->codes + 2 * i, sizeof(v));
	return v;
}

/* Slots of a code, 0 for what we do not know. */
static size_t slots_of(unsigned op, unsigned arg)
{
	switch (op) {
	case UWOP_ALLOC_LARGE:
		return arg ? 3 : 2;
	case UWOP_SAVE_NONVOL:
	case UWOP_SAVE_XMM128:
		return 2;
	case UWOP_SAVE_NONVOL_FAR:
	case UWOP_SAVE_XMM128_FAR:
	case UWOP_SET_FPREG_LARGE:
		return 3;
	case UWOP_PUSH_NONVOL:
	case UWOP_ALLOC_SMALL:
	case UWOP_SET_FPREG:
	case UWOP_PUSH_MACHFRAME:
		return 1;
	case UWOP_EPILOG:
		return 2;
	default:
		return 0;
	}
}

static uint64_t slot32(const struct managed_unwind *info, size_t i)
{
	return slot(info, i) | (uint64_t)slot(info, i + 1) << 16;
}

/* The address that saved registers are relative to: the frame register's, once it is set. */
static uint64_t frame_base(const struct managed_unwind *info, uint64_t into, const struct managed_frame *f)
{
	for (size_t i = 0; i < info->n_codes;) {
		unsigned code = slot(info, i), op = code >> 8 & 15;
		size_t n = slots_of(op, code >> 12);
		if (!n || i + n > info->n_codes)
			break;
		if (into >= (code & 255) && op == UWOP_SET_FPREG)
			return f->r[info->frame_reg] - 16ull * info->frame_offset;
		if (into >= (code & 255) && op == UWOP_SET_FPREG_LARGE)
			return f->r[info->frame_reg] - 16 * slot32(info, i + 1);
		i += n;
	}
	return f->r[RSP];
}

static bool undo(const struct managed_unwind *info, size_t i, uint64_t base, managed_read read, void *user,
		 struct managed_frame *f)
{
	unsigned code = slot(info, i), op = code >> 8 & 15, arg = code >> 12;
	switch (op) {
	case UWOP_PUSH_NONVOL:
		if (!read(user, f->r[RSP], &f->r[arg]))
			return false;
		f->r[RSP] += 8;
		return true;
	case UWOP_ALLOC_LARGE:
		f->r[RSP] += arg ? slot32(info, i + 1) : 8ull * slot(info, i + 1);
		return true;
	case UWOP_ALLOC_SMALL:
		f->r[RSP] += 8 * arg + 8;
		return true;
	case UWOP_SET_FPREG:
	case UWOP_SET_FPREG_LARGE:
		f->r[RSP] = base;
		return true;
	case UWOP_SAVE_NONVOL:
		return read(user, base + 8ull * slot(info, i + 1), &f->r[arg]);
	case UWOP_SAVE_NONVOL_FAR:
		return read(user, base + slot32(info, i + 1), &f->r[arg]);
	case UWOP_PUSH_MACHFRAME:
		return false;
	default:
		return true;
	}
}

static bool pop_ip(managed_read read, void *user, struct managed_frame *f)
{
	if (!read(user, f->r[RSP], &f->ip))
		return false;
	f->r[RSP] += 8;
	return true;
}

uint64_t managed_body_sp(const struct managed_unwind *info, const struct managed_frame *frame)
{
	return frame_base(info, UINT64_MAX, frame);
}

bool managed_apply(const struct managed_unwind *info, uint64_t into, managed_read read, void *user,
		   struct managed_frame *frame)
{
	struct managed_frame f = *frame;
	uint64_t base = frame_base(info, into, &f);
	for (size_t i = 0; i < info->n_codes;) {
		unsigned code = slot(info, i);
		size_t n = slots_of(code >> 8 & 15, code >> 12);
		if (!n || i + n > info->n_codes)
			return false;
		if (into >= (code & 255) && !undo(info, i, base, read, user, &f))
			return false;
		i += n;
	}
	if (!pop_ip(read, user, &f))
		return false;
	*frame = f;
	return true;
}

/* push/pop with and without the prefix for registers 8 to 15; -1 for other instructions. */
static int one_register(struct cursor *c, uint8_t first)
{
	const uint8_t *p = c->p;
	size_t left = cursor_left(c);
	if (left >= 1 && p[0] >= first && p[0] < first + 8) {
		c->p += 1;
		return p[0] - first;
	}
	if (left >= 2 && p[0] == 0x41 && p[1] >= first && p[1] < first + 8) {
		c->p += 2;
		return 8 + p[1] - first;
	}
	return -1;
}

static bool skip(struct cursor *c, const char *bytes, size_t n)
{
	if (cursor_left(c) < n || memcmp(c->p, bytes, n) != 0)
		return false;
	c->p += n;
	return true;
}
#define SKIP(c, bytes) skip(c, bytes, sizeof(bytes) - 1)

bool managed_epilogue(const uint8_t *code, size_t len, managed_read read, void *user, struct managed_frame *frame)
{
	struct cursor c = cursor_make(code, len);
	struct managed_frame f = *frame;
	SKIP(&c, "\xc5\xf8\x77"); /* vzeroupper */
	if (SKIP(&c, "\x48\x83\xc4"))
		f.r[RSP] += (uint64_t)(int8_t)cursor_u8(&c);
	else if (SKIP(&c, "\x48\x81\xc4"))
		f.r[RSP] += (uint64_t)cursor_i32(&c);
	else if (SKIP(&c, "\x48\x8d\x65")) /* lea rsp,[rbp+n] */
		f.r[RSP] = f.r[RBP] + (uint64_t)(int8_t)cursor_u8(&c);
	else if (SKIP(&c, "\x48\x8d\xa5"))
		f.r[RSP] = f.r[RBP] + (uint64_t)cursor_i32(&c);
	for (int reg; (reg = one_register(&c, 0x58)) >= 0;) {
		uint64_t v;
		if (!read(user, f.r[RSP], &v))
			return false;
		f.r[RSP] += 8;
		f.r[reg] = v;
	}
	/* A return; or a tail jump, but only when something was popped before: a jump alone is a loop's. */
	bool returns = SKIP(&c, "\xc3") || SKIP(&c, "\xf3\xc3");
	bool jumps =
		!returns && c.p != code && (SKIP(&c, "\xff\x25") || SKIP(&c, "\x48\xff\xe0") || SKIP(&c, "\xff\xe0"));
	if (!cursor_ok(&c) || (!returns && !jumps) || !pop_ip(read, user, &f))
		return false;
	*frame = f;
	return true;
}

bool managed_prologue(const uint8_t *code, size_t len, uint64_t into, managed_read read, void *user,
		      struct managed_frame *frame)
{
	struct cursor c = cursor_make(code, len);
	uint8_t pushed[16];
	size_t n = 0;
	uint64_t sub = 0;
	bool framed = false;
	while ((uint64_t)(c.p - code) < into && cursor_left(&c)) {
		int reg = one_register(&c, 0x50);
		if (reg >= 0 && n == ARRAY_SIZE(pushed))
			return false;
		if (reg >= 0)
			pushed[n++] = (uint8_t)reg;
		else if (SKIP(&c, "\x48\x83\xec"))
			sub += cursor_u8(&c);
		else if (SKIP(&c, "\x48\x81\xec"))
			sub += cursor_u32(&c);
		else if (SKIP(&c, "\x48\x8d\x6c\x24"))
			framed = cursor_take(&c, 1) != NULL;
		else if (SKIP(&c, "\x48\x8d\xac\x24"))
			framed = cursor_take(&c, 4) != NULL;
		else if (SKIP(&c, "\x48\x8b\xec") || SKIP(&c, "\x48\x89\xe5"))
			framed = true;
		else if (!SKIP(&c, "\xc5\xf8\x77"))
			break;
	}
	struct managed_frame f = *frame;
	uint64_t cfa = framed && n && pushed[0] == RBP ? f.r[RBP] + 16 : f.r[RSP] + 8 * n + sub + 8;
	if (!cursor_ok(&c) || !read(user, cfa - 8, &f.ip))
		return false;
	for (size_t k = 0; k < n; k++)
		if (!read(user, cfa - 16 - 8 * k, &f.r[pushed[k]]))
			return false;
	f.r[RSP] = cfa;
	*frame = f;
	return true;
}
