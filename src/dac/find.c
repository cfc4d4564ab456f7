/* Which runtime an image holds, and the data-access library for it.
 *
 * The runtime exports DotNetRuntimeInfo: an 18-byte text, a version at 20, three {length, build id} of 24 bytes each
 * for runtime, data-access and debugger libraries, and four 32-bit parts of the version. */

#include "base/fd.h"
#include "base/str.h"
#include "dac/internal.h"
#include "target/target.h"
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MAX_HEADERS 64
#define MAX_DYNAMIC 512
#define MAX_CHAIN 65536
#define RUNTIME_FILE "libcoreclr.so"
#define INFO_EXPORT "DotNetRuntimeInfo"
#define AOT_EXPORT "DotNetRuntimeDebugHeader"
#define INFO_BYTES 112
#define ID_BYTES 20
#define SEARCH_BYTES ((uint64_t)64 << 20)
#define INFO_SEARCH_BYTES ((uint64_t)1 << 30)

/* ---- an exported name of a module in memory ---- */

struct dac_dynamic {
	uint64_t symbols, strings, hash;
};

static bool read_dynamic(const struct image *img, uint64_t base, struct dac_dynamic *ret)
{
	Elf64_Ehdr header;
	Elf64_Phdr headers[MAX_HEADERS];
	if (!image_read_all(img, base, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_phentsize != sizeof(headers[0]) || header.e_phnum > MAX_HEADERS ||
	    !image_read_all(img, base + header.e_phoff, headers, header.e_phnum * sizeof(headers[0])))
		return false;
	uint64_t dynamic = 0;
	for (size_t i = 0; i < header.e_phnum; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			dynamic = headers[i].p_vaddr;
	if (!dynamic)
		return false;
	/* A program at a fixed address counts from 0, anything else from its base. */
	uint64_t bias = header.e_type == ET_EXEC ? 0 : base;
	for (size_t i = 0; i < MAX_DYNAMIC; i++) {
		Elf64_Dyn d;
		if (!image_read_all(img, bias + dynamic + i * sizeof(d), &d, sizeof(d)) || d.d_tag == DT_NULL)
			break;
		/* glibc's loader has added the base already, musl's has not. */
		uint64_t at = d.d_un.d_ptr < bias ? d.d_un.d_ptr + bias : d.d_un.d_ptr;
		if (d.d_tag == DT_SYMTAB)
			ret->symbols = at;
		else if (d.d_tag == DT_STRTAB)
			ret->strings = at;
		else if (d.d_tag == DT_GNU_HASH)
			ret->hash = at;
	}
	return ret->symbols && ret->strings && ret->hash;
}

static bool symbol_is(const struct image *img, const struct dac_dynamic *d, uint32_t index, const char *name,
		      uint64_t *ret)
{
	Elf64_Sym symbol;
	char text[64];
	size_t len = strlen(name) + 1;
	if (!image_read_all(img, d->symbols + index * sizeof(symbol), &symbol, sizeof(symbol)) || !symbol.st_value ||
	    len > sizeof(text) || !image_read_all(img, d->strings + symbol.st_name, text, len) ||
	    memcmp(text, name, len))
		return false;
	*ret = symbol.st_value;
	return true;
}

/* Address of an exported name; 0 = it has none. */
static uint64_t find_export(const struct image *img, uint64_t base, const char *name)
{
	struct dac_dynamic d = { 0 };
	uint32_t head[4], hash = 5381, index, link;
	if (!read_dynamic(img, base, &d) || !image_read_all(img, d.hash, head, sizeof(head)) || !head[0])
		return 0;
	for (const char *p = name; *p; p++)
		hash = hash * 33 + (uint8_t)*p;
	uint64_t buckets = d.hash + sizeof(head) + (uint64_t)head[2] * sizeof(uint64_t);
	uint64_t chains = buckets + (uint64_t)head[0] * sizeof(uint32_t);
	if (!image_read_all(img, buckets + (hash % head[0]) * sizeof(uint32_t), &index, sizeof(index)) ||
	    index < head[1])
		return 0;
	for (size_t i = 0; i < MAX_CHAIN; i++, index++) {
		uint64_t value;
		if (!image_read_all(img, chains + (uint64_t)(index - head[1]) * sizeof(link), &link, sizeof(link)))
			return 0;
		if ((link | 1) == (hash | 1) && symbol_is(img, &d, index, name, &value))
			return value < base ? base + value : value;
		if (link & 1)
			return 0;
	}
	return 0;
}

/* ---- the runtime ---- */

static void set_version(struct dac_runtime *r, int major, int minor, int build)
{
	if (major > 0 && major < 100 && minor >= 0 && build >= 0)
		snprintf(r->version, sizeof(r->version), "%d.%d.%d", major, minor, build / 100);
}

/* Bytes of an image or a file. */
struct bytes {
	size_t (*read)(const void *user, uint64_t at, void *buf, size_t len);
	const void *user;
	uint64_t start, end;
};

static size_t read_from_image(const void *user, uint64_t at, void *buf, size_t len)
{
	size_t got;
	image_read(user, at, buf, len, &got);
	return got;
}

static size_t read_from_file(const void *user, uint64_t at, void *buf, size_t len)
{
	ssize_t n = pread(*(const int *)user, buf, len, (off_t)at);
	return n > 0 ? (size_t)n : 0;
}

static struct bytes bytes_of_file(const int *fd)
{
	struct stat st = { 0 };
	uint64_t size = fstat(*fd, &st) || st.st_size < 0 ? 0 : (uint64_t)st.st_size;
	return (struct bytes){ read_from_file, fd, 0, size };
}

/* What stands behind "@(#)Version " in the data, "" when nothing does. Data comes last, so the end is looked at first.
 */
static void find_build(const struct bytes *b, char *ret, size_t size)
{
	static const char mark[] = "@(#)Version ";
	enum { WINDOW = 65536, OVERLAP = 256 };
	char text[WINDOW + OVERLAP + 1];
	ret[0] = 0;
	for (uint64_t from = b->end; from > b->start && b->end - from < SEARCH_BYTES;) {
		size_t step = (size_t)MIN(from - b->start, (uint64_t)WINDOW);
		from -= step;
		size_t got = b->read(b->user, from, text, (size_t)MIN(b->end - from, (uint64_t)(step + OVERLAP)));
		text[got] = 0;
		const char *at = memmem(text, got, mark, sizeof(mark) - 1);
		if (at) {
			str_copy(ret, size, at + sizeof(mark) - 1);
			return;
		}
	}
}

static void find_version(const struct bytes *b, struct dac_runtime *ret)
{
	int major, minor, build;
	find_build(b, ret->build, sizeof(ret->build));
	if (sscanf(ret->build, "%d.%d.%d", &major, &minor, &build) == 3)
		set_version(ret, major, minor, build);
}

/* The same text as the name of the export: what follows must look like the structure. */
static bool parse_info(const uint8_t info[INFO_BYTES], struct dac_runtime *ret)
{
	int32_t version, parts[4];
	const uint8_t *runtime = info + 24, *dac = runtime + 24;
	memcpy(&version, info + 20, sizeof(version));
	memcpy(parts, info + 24 + 3 * 24, sizeof(parts));
	if (memcmp(info, INFO_EXPORT, sizeof(INFO_EXPORT)) || version < 1 || version > 100 || !runtime[0] ||
	    runtime[0] > ID_BYTES || !dac[0] || dac[0] > ID_BYTES)
		return false;
	ret->dac_build_id_len = dac[0];
	memcpy(ret->dac_build_id, dac + 1, dac[0]);
	set_version(ret, parts[0], parts[1], parts[2]);
	return true;
}

static bool find_info(const struct bytes *b, struct dac_runtime *ret)
{
	enum { WINDOW = 1 << 20 };
	CLEANUP(mem_freep) uint8_t *text = mem_alloc(WINDOW + INFO_BYTES);
	for (uint64_t at = b->start; at < b->end && at - b->start < INFO_SEARCH_BYTES; at += WINDOW) {
		size_t got = b->read(b->user, at, text, WINDOW + INFO_BYTES);
		for (const uint8_t *p = text; got >= INFO_BYTES; p++) {
			p = memmem(p, got - (size_t)(p - text), INFO_EXPORT, sizeof(INFO_EXPORT));
			if (!p || p > text + got - INFO_BYTES)
				break;
			if (parse_info(p, ret))
				return true;
		}
	}
	return false;
}

/* A package upgraded while the process runs on leaves it with a file that has no name any more. */
static bool is_runtime_file(const char *path)
{
	return str_ends(path, "/" RUNTIME_FILE) || str_ends(path, "/" RUNTIME_FILE " (deleted)");
}

struct err *dac_find_runtime(const struct image *img, struct dac_runtime *ret)
{
	size_t n;
	const struct image_module *modules = image_modules(img, &n), *clr = NULL, *aot = NULL;
	for (size_t i = 0; i < n && !clr; i++)
		if (is_runtime_file(modules[i].path))
			clr = &modules[i];
	uint64_t info = clr ? find_export(img, clr->base, INFO_EXPORT) : 0;
	bool single_file = !clr;
	for (size_t i = 0; i < n && !clr; i++) {
		info = find_export(img, modules[i].base, INFO_EXPORT);
		if (info)
			clr = &modules[i];
		else if (find_export(img, modules[i].base, AOT_EXPORT))
			aot = &modules[i];
	}
	if (!clr && aot)
		return err_new(ERR_UNSUPPORTED,
			       "'%s' was compiled ahead of time (Native AOT): it has no data-access library",
			       aot->path);
	if (!clr)
		return err_new(ERR_NOT_FOUND, "there is no .NET runtime in it");
	*ret = (struct dac_runtime){ .path = clr->path, .base = clr->base, .single_file = single_file };
	ret->build_id_len = clr->build_id_len;
	memcpy(ret->build_id, clr->build_id, sizeof(ret->build_id));
	uint8_t bytes[INFO_BYTES];
	if (info && image_read_all(img, info, bytes, sizeof(bytes)))
		(void)parse_info(bytes, ret);
	else
		find_version(&(struct bytes){ read_from_image, img, clr->base, clr->end }, ret);
	return NULL;
}

/* ---- the library ---- */

static bool has_build_id(int fd, const uint8_t *want, size_t want_len)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t len = fd >= 0 ? image_file_build_id(fd, id) : 0;
	return len && len == want_len && !memcmp(id, want, len);
}

/* The library that was built together with the runtime: either the one that the runtime names, or one in the same
 * folder as the runtime that names the same build. One of another build would not refuse: it crashes. */
static bool fits(const struct dac_runtime *runtime, int library, int neighbour)
{
	char build[sizeof(runtime->build)];
	if (runtime->dac_build_id_len)
		return has_build_id(library, runtime->dac_build_id, runtime->dac_build_id_len);
	if (runtime->build_id_len && !has_build_id(neighbour, runtime->build_id, runtime->build_id_len))
		return false;
	struct bytes bytes = bytes_of_file(&library);
	find_build(&bytes, build, sizeof(build));
	return !runtime->build[0] || !build[0] || str_eq(runtime->build, build);
}

/* Packs as NuGet unpacks them, or any folder that holds such files. */
struct dac_search {
	const struct dac_runtime *runtime;
	size_t left; /* entries still to look at */
	int fd;
	char *path;
};
#define SEARCH_DEPTH 8
#define SEARCH_ENTRIES 200000

static void search_folder(struct dac_search *s, const char *path, unsigned depth);

static void search_entry(struct dac_search *s, const char *folder, const struct dirent *e, unsigned depth)
{
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, e->d_name);
	struct stat st;
	if (str_eq(e->d_name, ".") || str_eq(e->d_name, "..") || lstat(path, &st))
		return;
	if (S_ISDIR(st.st_mode)) {
		search_folder(s, path, depth + 1);
		return;
	}
	if (!S_ISREG(st.st_mode) || !str_eq(e->d_name, DAC_LIBRARY))
		return;
	CLEANUP(mem_freep) char *neighbour = mem_printf("%s/" RUNTIME_FILE, folder);
	CLOSE_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	CLOSE_FD int runtime = open(neighbour, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || !fits(s->runtime, fd, runtime))
		return;
	s->fd = fd_steal(&fd);
	s->path = STEAL(path);
}

static void search_folder(struct dac_search *s, const char *path, unsigned depth)
{
	DIR *dir = depth < SEARCH_DEPTH ? opendir(path) : NULL;
	const struct dirent *e;
	if (!dir)
		return;
	while (s->fd < 0 && s->left && (e = readdir(dir))) {
		s->left--;
		search_entry(s, path, e, depth);
	}
	closedir(dir);
}

static struct err *not_found(const struct dac_runtime *runtime, const char *beside, bool mismatch, const char *packs)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	if (runtime->single_file)
		buf_str(&text, "a single-file application carries no " DAC_LIBRARY);
	else if (mismatch)
		buf_printf(&text, "'%s' is of another build than the runtime that was running", beside);
	else
		buf_printf(&text, "'%s' is not there", beside);
	buf_printf(&text, "; what would help is " DAC_LIBRARY " of .NET %s", runtime->version);
	if (!runtime->version[0])
		buf_str(&text, "of exactly its build");
	if (runtime->dac_build_id_len) {
		buf_str(&text, " (build id ");
		for (size_t i = 0; i < runtime->dac_build_id_len; i++)
			buf_printf(&text, "%02x", runtime->dac_build_id[i]);
		buf_char(&text, ')');
	}
	buf_printf(&text,
		   ": 'drdotnet symbols fetch' downloads it, or it is found in the runtime pack "
		   "microsoft.netcore.app.runtime.linux-x64 %s, in the folder that DRDOTNET_RUNTIME_PACKS names%s%s%s",
		   runtime->version, packs ? " (it is not in '" : "", packs ? packs : "", packs ? "')" : "");
	return err_new(ERR_NOT_FOUND, "%s", buf_cstr(&text));
}

/* It came from beside the runtime's file, which may have been replaced since the runtime was loaded. */
static struct err *take_sent(const struct dac_runtime *runtime, int library, int *ret_fd, char **ret_path)
{
	char build[sizeof(runtime->build)];
	struct bytes bytes = bytes_of_file(&library);
	find_build(&bytes, build, sizeof(build));
	if (runtime->build[0] && build[0] && !str_eq(runtime->build, build))
		return not_found(runtime, DAC_LIBRARY, true, NULL);
	*ret_fd = fcntl(library, F_DUPFD_CLOEXEC, 0);
	if (*ret_fd < 0)
		return err_errno(errno, "use " DAC_LIBRARY);
	*ret_path = mem_strdup(DAC_LIBRARY);
	return NULL;
}

bool dac_library_symbol(const struct dac_runtime *runtime, struct symbol_file *ret)
{
	return runtime->dac_build_id_len
		       ? symbol_of_build(SYMBOL_LIBRARY, DAC_LIBRARY, runtime->dac_build_id, runtime->dac_build_id_len,
					 ret)
		       : symbol_of_build(SYMBOL_DAC, DAC_LIBRARY, runtime->build_id, runtime->build_id_len, ret);
}

/* It was asked for by the build id of this runtime; still, one that names another build is none. */
static int find_fetched(const struct dac_runtime *runtime)
{
	struct symbol_file file;
	char build[sizeof(runtime->build)];
	CLOSE_FD int fd = dac_library_symbol(runtime, &file) ? symbol_cache_open(&file) : -1;
	if (fd < 0)
		return -1;
	struct bytes bytes = bytes_of_file(&fd);
	find_build(&bytes, build, sizeof(build));
	return runtime->build[0] && build[0] && !str_eq(runtime->build, build) ? -1 : fd_steal(&fd);
}

struct err *dac_find_library(const struct dac_runtime *runtime, const struct dac_options *options, int *ret_fd,
			     char **ret_path)
{
	static const struct dac_options none = { 0 };
	options = options ? options : &none;
	if (options->library) {
		*ret_fd = open(options->library, O_RDONLY | O_CLOEXEC);
		if (*ret_fd < 0)
			return err_errno(errno, "'%s' cannot be read", options->library);
		*ret_path = mem_strdup(options->library);
		return NULL;
	}
	if (options->library_fd > 0)
		return take_sent(runtime, options->library_fd, ret_fd, ret_path);
	const char *slash = strrchr(runtime->path, '/');
	int folder = slash ? (int)(slash - runtime->path) : 0;
	CLEANUP(mem_freep) char *beside = mem_printf("%.*s/" DAC_LIBRARY, folder, runtime->path);
	CLEANUP(mem_freep) char *itself = mem_printf("%.*s/" RUNTIME_FILE, folder, runtime->path);
	bool mismatch = false;
	CLOSE_FD int fd = file_open_below(options->root, beside, O_RDONLY);
	CLOSE_FD int same = file_open_below(options->root, itself, O_RDONLY);
	if (fd >= 0 && fits(runtime, fd, same)) {
		*ret_fd = fd_steal(&fd);
		*ret_path = STEAL(beside);
		return NULL;
	}
	mismatch = fd >= 0;
	int fetched = find_fetched(runtime);
	if (fetched >= 0) {
		*ret_fd = fetched;
		*ret_path = mem_strdup(DAC_LIBRARY);
		return NULL;
	}
	const char *packs = options->packs ? options->packs : getenv("DRDOTNET_RUNTIME_PACKS");
	packs = str_empty(packs) ? NULL : packs;
	struct dac_search s = { .runtime = runtime, .left = SEARCH_ENTRIES, .fd = -1 };
	/* Without a build id to compare, any file of a pack would be a guess. */
	if (packs && (runtime->build_id_len || runtime->dac_build_id_len))
		search_folder(&s, packs, 0);
	if (s.fd < 0)
		return not_found(runtime, beside, mismatch, packs);
	*ret_fd = s.fd;
	*ret_path = s.path;
	return NULL;
}

/* What is known of a runtime from its file. */
static bool runtime_on_disk(const char *root, const char *path, struct dac_runtime *ret)
{
	CLOSE_FD int fd = file_open_below(root, path, O_RDONLY);
	if (fd < 0)
		return false;
	*ret = (struct dac_runtime){ .path = path, .single_file = !str_ends(path, "/" RUNTIME_FILE) };
	struct bytes bytes = bytes_of_file(&fd);
	if (ret->single_file)
		return find_info(&bytes, ret);
	ret->build_id_len = image_file_build_id(fd, ret->build_id);
	find_version(&bytes, ret);
	return true;
}

static struct err *find_for_target(const struct target *target, const struct dac_options *options,
				   struct dac_runtime *ret, char **ret_path)
{
	CLEANUP(mem_freep) char *library = NULL;
	CLEANUP(mem_freep) char *root = mem_printf("/proc/%d/root", (int)target->pid);
	struct dac_options here = options ? *options : (struct dac_options){ 0 };
	CLOSE_FD int fd = -1;
	TRY(target_runtime_path(target, ret_path));
	here.root = root;
	if (!runtime_on_disk(root, *ret_path, ret))
		return NULL;
	return dac_find_library(ret, &here, &fd, &library);
}

struct err *dac_check_target(const struct target *target, const struct dac_options *options, const char **ret_fix)
{
	CLEANUP(mem_freep) char *path = NULL;
	struct dac_runtime runtime;
	const char *none;
	*(ret_fix ? ret_fix : &none) = "install it beside drdotnet";
	TRY(helper_check(options ? options->helper : NULL));
	*(ret_fix ? ret_fix : &none) = "fetch it with 'drdotnet symbols fetch', or name a folder that holds it in "
				       "DRDOTNET_RUNTIME_PACKS";
	return find_for_target(target, options, &runtime, &path);
}

bool dac_target_lacks(const struct target *target, struct symbol_file *ret)
{
	CLEANUP(mem_freep) char *path = NULL;
	struct dac_runtime runtime = { 0 };
	CLEANUP(err_freep) struct err *err = find_for_target(target, NULL, &runtime, &path);
	return err && err_kind(err) == ERR_NOT_FOUND && dac_library_symbol(&runtime, ret);
}
