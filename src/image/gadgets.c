/* Finds instructions of the process itself that the snapshot runs: nothing of ours is ever put into its code. */
#include "base/str.h"
#include "image/maps.h"
#include "image/snapshot.h"
#include <string.h>
#include <unistd.h>

/* The text of a C library is 1.5 MB; more than this of one mapping is not searched. */
#define TEXT_MAX ((size_t)8 << 20)

static const uint8_t code_syscall[] = { 0x0f, 0x05, 0xc3 };
static const uint8_t code_sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05 };

static bool is_c_library(const struct maps_line *l)
{
	CLEANUP(mem_freep) char *path = mem_strndup(l->path, l->path_len);
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	return str_starts(file, "libc.so") || str_starts(file, "libc-2") || str_starts(file, "ld-musl") ||
	       str_starts(file, "libc.musl");
}

static void search(int mem_fd, const struct maps_line *l, uint64_t *syscall_at, uint64_t *sigreturn_at)
{
	static uint8_t text[TEXT_MAX];
	size_t len = (size_t)MIN(l->end - l->start, (uint64_t)TEXT_MAX);
	ssize_t n = pread(mem_fd, text, len, (off_t)l->start);
	if (n <= 0)
		return;
	const uint8_t *found = memmem(text, (size_t)n, code_syscall, sizeof(code_syscall));
	if (found && !*syscall_at)
		*syscall_at = l->start + (uint64_t)(found - text);
	found = memmem(text, (size_t)n, code_sigreturn, sizeof(code_sigreturn));
	if (found && !*sigreturn_at)
		*sigreturn_at = l->start + (uint64_t)(found - text);
}

/* A process that ends gives its memory back first: the list of its mappings is empty then, or nothing can be read of them. */
static bool has_memory(int mem_fd, const char *maps, size_t len)
{
	struct maps_line first;
	char byte;
	return maps_next(&maps, maps + len, &first) && pread(mem_fd, &byte, 1, (off_t)first.start) != 0;
}

struct err *gadgets_find(int mem_fd, const char *maps, size_t len, uint64_t *ret_syscall, uint64_t *ret_sigreturn)
{
	uint64_t syscall_at = 0, sigreturn_at = 0;
	/* The C library first; a program that has it linked in, after that. */
	for (int pass = 0; pass < 2 && !(syscall_at && sigreturn_at); pass++) {
		const char *p = maps;
		for (struct maps_line l; maps_next(&p, maps + len, &l) && !(syscall_at && sigreturn_at);)
			if (!memcmp(l.prot, "r-xp", 4) && l.path_len && l.path[0] == '/' && is_c_library(&l) == !pass)
				search(mem_fd, &l, &syscall_at, &sigreturn_at);
	}
	if ((!syscall_at || !sigreturn_at) && !has_memory(mem_fd, maps, len))
		return err_new(ERR_NOT_FOUND, "it has ended");
	if (!syscall_at || !sigreturn_at)
		return err_new(ERR_UNSUPPORTED, "its C library is of an unknown kind");
	*ret_syscall = syscall_at;
	*ret_sigreturn = sigreturn_at;
	return NULL;
}
