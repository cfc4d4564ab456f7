#pragma once
/* The inside of an image, for the files of this module. */

#include "base/arena.h"
#include "base/vec.h"
#include "image/image.h"

struct snapshot; /* snapshot.c: the tracer process and what it shares with us */

/* A file that came with a stream. */
struct image_sent_file {
	const char *path; /* as the process saw it */
	int fd;
};

struct image {
	enum image_source source;
	pid_t pid;
	struct arena arena; /* texts */
	VEC(struct image_thread) threads;
	VEC(struct image_mapping) mappings;
	VEC(struct image_module) modules;
	VEC(struct image_piece) pieces;
	VEC(int) fds;
	VEC(struct image_sent_file) files;
	void *auxv;
	size_t auxv_len;
	int pagemap_fd;		    /* of a copy: which pages were ever used; -1 = not known */
	struct image_signal signal; /* number 0 = none known */
	struct image_ranges *watch; /* where reads are noted, or NULL */
	char *command;		    /* of its process, for a core written from it; or NULL */
	struct snapshot *snapshot;
	uint64_t core_bytes; /* of a core file when it was opened; it is the first of fds */
};

struct image *image_new(enum image_source source);
/* The descriptor is the image's from now on. */
uint32_t image_add_fd(struct image *img, int fd);
void image_add_piece(struct image *img, struct image_piece piece);
/* Sorts the pieces and cuts overlaps away, so that of two that claim an address the one added first has it. Returns
 * how many bytes were claimed twice. */
uint64_t image_seal_pieces(struct image *img);
/* The piece that holds the address, or the next one above; NULL above all. */
const struct image_piece *image_piece_from(const struct image *img, uint64_t addr);
/* Sorts mappings, finds the modules in them and reads their build ids. */
void image_find_modules(struct image *img);

/* The build id in the notes of an ELF file, read through `read` at addresses relative to its base. 0 = none. */
struct elf_bytes {
	bool (*read)(void *user, uint64_t addr, void *buf, size_t len);
	void *user;
	bool file; /* addresses are file offsets, not those of memory */
};
size_t image_build_id(const struct elf_bytes *bytes, uint64_t base, uint8_t ret[IMAGE_BUILD_ID_MAX]);
