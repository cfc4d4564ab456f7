#include "build_core.h"
#include "wire/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void pad(struct buf *b, size_t to)
{
	while (b->len % to)
		buf_char(b, '\0');
}

void build_note(struct buf *notes, uint32_t type, const void *desc, size_t len)
{
	const uint32_t head[3] = { 5, (uint32_t)len, type };
	buf_add(notes, head, sizeof(head));
	buf_add(notes, "CORE\0\0\0", 8);
	buf_add(notes, desc, len);
	pad(notes, 4);
}

static void add_notes(struct buf *notes, const struct core_spec *s)
{
	uint8_t info[136] = { 0 };
	memcpy(info + 24, &s->pid, 4);
	snprintf((char *)info + 56, 80, "%s", s->command ? s->command : "");
	build_note(notes, NT_PRPSINFO, info, sizeof(info));
	const uint64_t auxv[] = { AT_PAGESZ, 4096, AT_NULL, 0 };
	build_note(notes, NT_AUXV, auxv, sizeof(auxv));
	struct buf files = { 0 };
	const uint64_t head[2] = { s->n_files, 4096 };
	buf_add(&files, head, sizeof(head));
	for (size_t i = 0; i < s->n_files; i++) {
		const uint64_t row[3] = { s->files[i].start, s->files[i].end, s->files[i].page_offset };
		buf_add(&files, row, sizeof(row));
	}
	for (size_t i = 0; i < s->n_files; i++)
		buf_add(&files, s->files[i].path, strlen(s->files[i].path) + 1);
	build_note(notes, NT_FILE, files.data, files.len);
	buf_free(&files);
	for (size_t i = 0; i < s->n_threads; i++) {
		uint8_t status[336] = { 0 }, fp[512];
		memcpy(status + 32, &s->threads[i].tid, 4);
		memcpy(status + 112 + 16 * 8, &s->threads[i].rip, 8);
		memcpy(status + 112 + 19 * 8, &s->threads[i].rsp, 8);
		memset(fp, 0x40 + (int)i, sizeof(fp));
		build_note(notes, NT_PRSTATUS, status, sizeof(status));
		build_note(notes, NT_FPREGSET, fp, sizeof(fp));
		const int32_t facts[32] = { s->signal, 0, 1, 0, 0x40 };
		if (s->signal && i == 1)
			build_note(notes, NT_SIGINFO, facts, sizeof(facts));
	}
}

void build_core(struct buf *out, const struct core_spec *s)
{
	struct buf notes = { 0 };
	add_notes(&notes, s);
	size_t n = 1 + s->n_segments + s->extra_segments;
	bool many = n >= PN_XNUM;
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_CORE,
			 .e_machine = s->machine ? s->machine : EM_X86_64,
			 .e_version = 1,
			 .e_phoff = sizeof(h) + (many ? sizeof(Elf64_Shdr) : 0),
			 .e_shoff = many ? sizeof(h) : 0,
			 .e_ehsize = sizeof(h),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = (uint16_t)(many ? PN_XNUM : n) };
	buf_add(out, &h, sizeof(h));
	if (many) {
		Elf64_Shdr section = { .sh_info = (uint32_t)n };
		buf_add(out, &section, sizeof(section));
	}
	uint64_t at = out->len + n * sizeof(Elf64_Phdr);
	Elf64_Phdr note = { .p_type = PT_NOTE, .p_offset = at, .p_filesz = notes.len };
	buf_add(out, &note, sizeof(note));
	at += notes.len;
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct core_segment *seg = &s->segments[i];
		Elf64_Phdr p = { .p_type = PT_LOAD,
				 .p_flags = seg->flags ? seg->flags : PF_R,
				 .p_offset = at,
				 .p_vaddr = seg->addr,
				 .p_memsz = seg->len,
				 .p_filesz = seg->bytes ? seg->len : 0 };
		buf_add(out, &p, sizeof(p));
		at += p.p_filesz;
	}
	Elf64_Phdr empty = { .p_type = PT_LOAD };
	for (uint64_t i = 0; i < s->extra_segments; i++)
		buf_add(out, &empty, sizeof(empty));
	buf_add(out, notes.data, notes.len);
	for (size_t i = 0; i < s->n_segments; i++)
		if (s->segments[i].bytes)
			buf_add(out, s->segments[i].bytes, s->segments[i].len);
	buf_free(&notes);
}

void build_elf(uint8_t page[BUILD_ELF_LEN], const uint8_t *id, size_t id_len)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr load, note;
		uint32_t head[3];
		char name[4];
	} elf = { .h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_DYN,
			 .e_machine = EM_X86_64,
			 .e_phoff = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2 },
		  .load = { .p_type = PT_LOAD },
		  .note = { .p_type = PT_NOTE, .p_filesz = 16 + id_len },
		  .head = { 4, (uint32_t)id_len, NT_GNU_BUILD_ID },
		  .name = "GNU" };
	elf.note.p_offset = elf.note.p_vaddr = offsetof(typeof(elf), head);
	memset(page, 0, BUILD_ELF_LEN);
	memcpy(page, &elf, sizeof(elf));
	memcpy(page + offsetof(typeof(elf), name) + 4, id, id_len);
}

int build_file(const void *data, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	return fd;
}

void build_stream_head(struct buf *out, int pid)
{
	struct wire_image_head head = { .magic = WIRE_IMAGE_MAGIC, .version = WIRE_IMAGE_VERSION, .pid = pid };
	buf_add(out, &head, sizeof(head));
}

void build_stream_record(struct buf *out, uint32_t kind, uint64_t addr, const void *data, uint64_t len)
{
	struct wire_image_record rec = { .kind = kind, .addr = addr, .len = len };
	buf_add(out, &rec, sizeof(rec));
	if (data)
		buf_add(out, data, len);
}
