#include "build_elf.h"
#include <elf.h>
#include <string.h>

static void pad_to(struct buf *b, size_t to)
{
	static const char zeros[64];
	while (b->len < to)
		buf_add(b, zeros, to - b->len < sizeof(zeros) ? to - b->len : sizeof(zeros));
}

static void put(struct buf *b, const void *p, size_t n)
{
	buf_add(b, p, n);
}

static void put_u32(struct buf *b, uint32_t v)
{
	put(b, &v, 4);
}

/* Pads a record with nops and writes its length. */
static void close_record(struct buf *eh, size_t at)
{
	while ((eh->len - at) % 8)
		buf_char(eh, 0);
	uint32_t len = (uint32_t)(eh->len - at - 4);
	memcpy(eh->data + at, &len, 4);
}

size_t build_cie(struct buf *eh, const char *augmentation, const void *program, size_t len)
{
	size_t at = eh->len;
	put_u32(eh, 0);
	put_u32(eh, 0);
	buf_char(eh, 1);
	put(eh, augmentation, strlen(augmentation) + 1);
	buf_char(eh, 1);    /* code alignment */
	buf_char(eh, 0x78); /* data alignment -8 */
	buf_char(eh, 16);   /* return address */
	buf_char(eh, 1);    /* augmentation data: the encoding */
	buf_char(eh, 0x1b); /* pcrel | sdata4 */
	put(eh, program, len);
	close_record(eh, at);
	return at;
}

size_t build_fde(struct buf *eh, uint64_t eh_va, size_t cie, uint64_t start, uint32_t size, const void *program,
		 size_t len)
{
	size_t at = eh->len;
	put_u32(eh, 0);
	put_u32(eh, (uint32_t)(at + 4 - cie));
	put_u32(eh, (uint32_t)(start - (eh_va + eh->len)));
	put_u32(eh, size);
	buf_char(eh, 0);
	put(eh, program, len);
	close_record(eh, at);
	return at;
}

struct section {
	uint32_t name, type, link;
	uint64_t offset, size;
};

static void put_sections(struct buf *out, const struct section *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Elf64_Shdr h = { .sh_name = s[i].name,
				 .sh_type = s[i].type,
				 .sh_link = s[i].link,
				 .sh_offset = s[i].offset,
				 .sh_addr = s[i].offset,
				 .sh_size = s[i].size };
		put(out, &h, sizeof(h));
	}
}

static void put_index(struct buf *out, const struct build_elf *b, uint64_t hdr)
{
	put(out, "\x01\x1b\x03\x3b", 4);
	put_u32(out, (uint32_t)(BUILD_ELF_EH - (hdr + 4)));
	put_u32(out, (uint32_t)b->n_index);
	for (size_t i = 0; i < b->n_index; i++) {
		put_u32(out, (uint32_t)(b->index[i].function - hdr));
		put_u32(out, (uint32_t)(BUILD_ELF_EH + b->index[i].offset - hdr));
	}
}

void build_elf(const struct build_elf *b, struct buf *out)
{
	static const char names[] = "\0.shstrtab\0.symtab\0.strtab\0.note\0.gnu_debuglink\0.plt\0.rela.plt";
	struct section s[8] = { 0 };
	pad_to(out, BUILD_ELF_EH);
	put(out, b->eh_frame, b->eh_frame_len);
	pad_to(out, (out->len + 15) & ~15ul);
	uint64_t hdr = out->len;
	if (b->n_index)
		put_index(out, b, hdr);
	uint64_t hdr_len = out->len - hdr;
	s[1] = (struct section){ 1, SHT_STRTAB, 0, out->len, sizeof(names) };
	put(out, names, sizeof(names));
	struct buf strings = { 0 };
	buf_char(&strings, 0);
	pad_to(out, (out->len + 7) & ~7ul);
	s[2] = (struct section){ 11, b->dynamic ? SHT_DYNSYM : SHT_SYMTAB, 3, out->len, 0 };
	for (size_t i = 0; i < b->n_symbols; i++) {
		Elf64_Sym sym = { .st_name = (uint32_t)strings.len,
				  .st_info = b->symbols[i].kind == BUILD_DATA ? STT_OBJECT : STT_FUNC,
				  .st_shndx = b->symbols[i].kind == BUILD_STUB ? 6 : 1,
				  .st_value = b->symbols[i].value,
				  .st_size = b->symbols[i].size };
		put(out, &sym, sizeof(sym));
		put(&strings, b->symbols[i].name, strlen(b->symbols[i].name) + 1);
	}
	s[2].size = out->len - s[2].offset;
	s[3] = (struct section){ 19, SHT_STRTAB, 0, out->len, strings.len };
	put(out, strings.data, strings.len);
	pad_to(out, (out->len + 7) & ~7ul);
	s[4] = (struct section){ 27, SHT_NOTE, 0, out->len, 0 };
	if (b->build_id_len) {
		Elf64_Nhdr n = { 4, (uint32_t)b->build_id_len, NT_GNU_BUILD_ID };
		put(out, &n, sizeof(n));
		put(out, "GNU", 4);
		put(out, b->build_id, b->build_id_len);
		pad_to(out, (out->len + 3) & ~3ul);
	}
	s[4].size = out->len - s[4].offset;
	s[5] = (struct section){ 33, SHT_PROGBITS, 0, out->len, 0 };
	if (b->debug_link)
		put(out, b->debug_link, strlen(b->debug_link) + 1);
	s[5].size = out->len - s[5].offset;
	pad_to(out, (out->len + 7) & ~7ul);
	s[6] = (struct section){ 48, SHT_PROGBITS, 0, BUILD_ELF_STUBS, b->n_stubs ? 16 * (b->n_stubs + 2) : 0 };
	s[7] = (struct section){ 53, SHT_RELA, 2, out->len, 0 };
	for (size_t i = 0; i < b->n_stubs; i++) {
		Elf64_Rela r = { .r_info = ELF64_R_INFO(i, R_X86_64_JUMP_SLOT) };
		put(out, &r, sizeof(r));
	}
	s[7].size = out->len - s[7].offset;
	Elf64_Ehdr h = { .e_ident = ELFMAG,
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phoff = sizeof(h),
			 .e_shoff = out->len,
			 .e_ehsize = sizeof(h),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 8,
			 .e_shstrndx = 1 };
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	put_sections(out, s, 8);
	Elf64_Phdr p[2] = { { .p_type = PT_LOAD, .p_filesz = out->len, .p_memsz = out->len },
			    { .p_type = b->n_index ? PT_GNU_EH_FRAME : PT_NULL,
			      .p_offset = hdr,
			      .p_vaddr = hdr,
			      .p_filesz = hdr_len } };
	memcpy(out->data, &h, sizeof(h));
	memcpy(out->data + sizeof(h), p, sizeof(p));
	buf_free(&strings);
}
