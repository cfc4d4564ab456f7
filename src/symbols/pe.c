#include "symbols/pe.h"
#include "base/cursor.h"

/* Offsets of the PE format: DOS header, COFF header (20 bytes), optional header (PE32+), directories, sections (40
 * bytes each). */
#define MACHINE_AMD64 0x8664
/* Images for other systems than Windows carry their machine xored with a number of the system. */
#define MACHINE_LINUX_XOR 0x7B79
#define PE32 0x10b
#define PE32_PLUS 0x20b
#define DIRECTORY_EXCEPTION 3
#define DIRECTORY_DEBUG 6
#define DIRECTORY_CLI 14

struct headers {
	uint16_t machine, n_sections, magic;
	uint32_t stamp, image_size;
	struct cursor directories, sections;
	uint32_t n_directories;
};

static bool read_headers(const void *bytes, size_t len, struct headers *ret)
{
	struct cursor c = cursor_make(bytes, len);
	if (cursor_u16(&c) != 0x5a4d)
		return false;
	cursor_take(&c, 58);
	uint32_t header = cursor_u32(&c);
	c = cursor_make(bytes, len);
	cursor_take(&c, header);
	if (cursor_u32(&c) != 0x4550)
		return false;
	*ret = (struct headers){ 0 };
	ret->machine = cursor_u16(&c);
	ret->n_sections = cursor_u16(&c);
	ret->stamp = cursor_u32(&c);
	cursor_take(&c, 8);
	uint16_t optional = cursor_u16(&c);
	cursor_u16(&c);
	const uint8_t *opt = cursor_take(&c, optional);
	if (!opt)
		return false;
	struct cursor o = cursor_make(opt, optional);
	ret->magic = cursor_u16(&o);
	cursor_take(&o, 54);
	ret->image_size = cursor_u32(&o);
	/* Four sizes of 8 instead of 4 bytes make the difference. */
	cursor_take(&o, ret->magic == PE32_PLUS ? 48 : 32);
	ret->n_directories = cursor_u32(&o);
	ret->directories = o;
	ret->sections = c;
	return cursor_ok(&c) && (ret->magic == PE32_PLUS || ret->magic == PE32);
}

static void directory(const struct headers *h, uint32_t which, uint32_t *ret_rva, uint32_t *ret_size)
{
	struct cursor c = h->directories;
	cursor_take(&c, (size_t)8 * which);
	*ret_rva = cursor_u32(&c);
	*ret_size = cursor_u32(&c);
	if (!cursor_ok(&c) || h->n_directories <= which)
		*ret_rva = *ret_size = 0;
}

static bool parse(const void *bytes, size_t len, bool loaded, struct pe *ret)
{
	struct headers h;
	*ret = (struct pe){ .bytes = bytes, .len = len, .loaded = loaded };
	if (!read_headers(bytes, len, &h))
		return false;
	ret->stamp = h.stamp;
	ret->image_size = h.image_size;
	directory(&h, DIRECTORY_EXCEPTION, &ret->functions_rva, &ret->functions_size);
	directory(&h, DIRECTORY_DEBUG, &ret->debug_rva, &ret->debug_size);
	directory(&h, DIRECTORY_CLI, &ret->cli_rva, &(uint32_t){ 0 });
	for (size_t i = 0; i < h.n_sections && ret->n_sections < ARRAY_SIZE(ret->sections); i++) {
		struct cursor *c = &h.sections;
		struct pe_section s;
		cursor_take(c, 8);
		s.size = cursor_u32(c);
		s.rva = cursor_u32(c);
		s.file_size = cursor_u32(c);
		s.offset = cursor_u32(c);
		cursor_take(c, 16);
		if (!cursor_ok(c))
			return false;
		if (loaded) {
			s.offset = s.rva;
			s.file_size = MIN(s.size, s.file_size);
		}
		if (s.offset <= len && s.file_size <= len - s.offset)
			ret->sections[ret->n_sections++] = s;
	}
	return true;
}

bool pe_parse_any(const void *bytes, size_t len, struct pe *ret)
{
	return parse(bytes, len, false, ret);
}

bool pe_parse_loaded(const void *bytes, size_t len, struct pe *ret)
{
	return parse(bytes, len, true, ret);
}

bool pe_parse(const void *bytes, size_t len, struct pe *ret)
{
	struct headers h;
	return read_headers(bytes, len, &h) && h.magic == PE32_PLUS &&
	       (h.machine == MACHINE_AMD64 || h.machine == (MACHINE_AMD64 ^ MACHINE_LINUX_XOR)) &&
	       pe_parse_any(bytes, len, ret);
}

bool pe_identity(const void *headers, size_t len, uint32_t *ret_stamp, uint32_t *ret_image_size)
{
	struct headers h;
	if (!read_headers(headers, len, &h))
		return false;
	*ret_stamp = h.stamp;
	*ret_image_size = h.image_size;
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

#define DEBUG_ENTRY 28
/* Assemblies have about five. */
#define DEBUG_ENTRIES_MAX 64
bool pe_debug_next(const struct pe *pe, size_t *i, struct pe_debug *ret)
{
	size_t len = 0;
	const uint8_t *table = pe->debug_size ? pe_at(pe, pe->debug_rva, &len) : NULL;
	size_t n = table ? MIN(len, (size_t)pe->debug_size) / DEBUG_ENTRY : 0;
	n = MIN(n, (size_t)DEBUG_ENTRIES_MAX);
	while (*i < n) {
		struct cursor c = cursor_make(table + *i * DEBUG_ENTRY, DEBUG_ENTRY);
		*i += 1;
		cursor_u32(&c);
		*ret = (struct pe_debug){ 0 };
		ret->stamp = cursor_u32(&c);
		ret->major = cursor_u16(&c);
		ret->minor = cursor_u16(&c);
		ret->type = cursor_u32(&c);
		uint32_t size = cursor_u32(&c), rva = cursor_u32(&c), in_file = cursor_u32(&c);
		uint32_t offset = pe->loaded ? rva : in_file;
		if (!size || offset > pe->len || size > pe->len - offset)
			continue;
		ret->bytes = pe->bytes + offset;
		ret->len = size;
		return true;
	}
	return false;
}
