#include "symbols/pe.h"
#include "base/cursor.h"

/* Offsets of the PE format: DOS header, COFF header (20 bytes), optional header (PE32+), directories, sections (40
 * bytes each). */
#define MACHINE_AMD64 0x8664
/* Images for other systems than Windows carry their machine xored with a number of the system. */
#define MACHINE_LINUX_XOR 0x7B79
#define PE32_PLUS 0x20b
#define DIRECTORY_EXCEPTION 3

bool pe_parse(const void *bytes, size_t len, struct pe *ret)
{
	struct cursor c = cursor_make(bytes, len);
	*ret = (struct pe){ .bytes = bytes, .len = len };
	if (cursor_u16(&c) != 0x5a4d)
		return false;
	cursor_take(&c, 58);
	uint32_t header = cursor_u32(&c);
	c = cursor_make(bytes, len);
	cursor_take(&c, header);
	if (cursor_u32(&c) != 0x4550)
		return false;
	uint16_t machine = cursor_u16(&c), n_sections = cursor_u16(&c);
	cursor_take(&c, 12);
	uint16_t optional = cursor_u16(&c);
	cursor_u16(&c);
	const uint8_t *opt = cursor_take(&c, optional);
	if (!opt || (machine != MACHINE_AMD64 && machine != (MACHINE_AMD64 ^ MACHINE_LINUX_XOR)))
		return false;
	struct cursor o = cursor_make(opt, optional);
	if (cursor_u16(&o) != PE32_PLUS)
		return false;
	cursor_take(&o, 106);
	uint32_t directories = cursor_u32(&o);
	cursor_take(&o, 8 * DIRECTORY_EXCEPTION);
	ret->functions_rva = cursor_u32(&o);
	ret->functions_size = cursor_u32(&o);
	if (!cursor_ok(&o) || directories <= DIRECTORY_EXCEPTION)
		ret->functions_size = 0;
	for (size_t i = 0; i < n_sections && ret->n_sections < ARRAY_SIZE(ret->sections); i++) {
		struct pe_section s;
		cursor_take(&c, 8);
		s.size = cursor_u32(&c);
		s.rva = cursor_u32(&c);
		s.file_size = cursor_u32(&c);
		s.offset = cursor_u32(&c);
		cursor_take(&c, 16);
		if (!cursor_ok(&c))
			return false;
		if (s.offset <= len && s.file_size <= len - s.offset)
			ret->sections[ret->n_sections++] = s;
	}
	return true;
}

bool pe_rva(const struct pe *pe, uint64_t offset, uint32_t *ret_rva)
{
	for (size_t i = 0; i < pe->n_sections; i++) {
		const struct pe_section *s = &pe->sections[i];
		if (offset >= s->offset && offset - s->offset < s->file_size) {
			*ret_rva = (uint32_t)(offset - s->offset + s->rva);
			return true;
		}
	}
	return false;
}

const uint8_t *pe_at(const struct pe *pe, uint32_t rva, size_t *ret_len)
{
	for (size_t i = 0; i < pe->n_sections; i++) {
		const struct pe_section *s = &pe->sections[i];
		if (rva >= s->rva && rva - s->rva < s->file_size) {
			*ret_len = s->file_size - (rva - s->rva);
			return pe->bytes + s->offset + (rva - s->rva);
		}
	}
	return NULL;
}

bool pe_function(const struct pe *pe, uint32_t rva, struct pe_function *ret)
{
	size_t len = 0;
	const uint8_t *table = pe->functions_size ? pe_at(pe, pe->functions_rva, &len) : NULL;
	if (!table)
		return false;
	size_t low = 0, n = MIN(len, (size_t)pe->functions_size) / sizeof(*ret), high = n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		uint32_t begin;
		memcpy(&begin, table + mid * sizeof(*ret), sizeof(begin));
		if (begin <= rva)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	memcpy(ret, table + (low - 1) * sizeof(*ret), sizeof(*ret));
	return rva >= ret->begin && rva < ret->end;
}
