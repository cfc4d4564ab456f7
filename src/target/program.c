#include "target/program.h"
#include <elf.h>
#include <string.h>
#include <unistd.h>

#define MAX_SECTIONS 512
#define MAX_NAMES ((size_t)16 << 20)

static bool read_at(int fd, void *data, size_t len, uint64_t offset)
{
	if (offset > INT64_MAX)
		return false;
	return pread(fd, data, len, (off_t)offset) == (ssize_t)len;
}

/* A whole string of the table: NUL before and behind. */
static bool has_name(const char *names, size_t len, const char *name)
{
	size_t n = strlen(name) + 1;
	for (const char *p = names, *end = names + len; (p = memmem(p, (size_t)(end - p), name, n)); p++)
		if (p == names || !p[-1])
			return true;
	return false;
}

static enum program_runtime look_at_names(int fd, const Elf64_Shdr *strings)
{
	if (!strings->sh_size || strings->sh_size > MAX_NAMES)
		return PROGRAM_RUNTIME_NONE;
	CLEANUP(mem_freep) char *names = mem_alloc(strings->sh_size);
	if (!read_at(fd, names, strings->sh_size, strings->sh_offset))
		return PROGRAM_RUNTIME_NONE;
	if (has_name(names, strings->sh_size, "DotNetRuntimeInfo"))
		return PROGRAM_RUNTIME_CORECLR;
	if (has_name(names, strings->sh_size, "DotNetRuntimeDebugHeader"))
		return PROGRAM_RUNTIME_AOT;
	return PROGRAM_RUNTIME_NONE;
}

enum program_runtime program_runtime(int fd)
{
	Elf64_Ehdr head;
	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr) || !head.e_shnum ||
	    head.e_shnum > MAX_SECTIONS)
		return PROGRAM_RUNTIME_NONE;
	size_t size = head.e_shnum * sizeof(Elf64_Shdr);
	CLEANUP(mem_freep) Elf64_Shdr *sections = mem_alloc(size);
	if (!read_at(fd, sections, size, head.e_shoff))
		return PROGRAM_RUNTIME_NONE;
	for (size_t i = 0; i < head.e_shnum; i++)
		if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < head.e_shnum)
			return look_at_names(fd, &sections[sections[i].sh_link]);
	return PROGRAM_RUNTIME_NONE;
}
