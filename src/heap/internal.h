#pragma once
/* The inside of the heap module, for its files and tests. */

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "heap/objects.h"

/* Source of knowledge about types: the dac, or a test's table. The functions mean the same as those of the dac. */
struct heap_source {
	void *user;
	struct err *(*facts)(void *user, struct dac_facts *ret);
	struct err *(*learn)(void *user, const uint64_t *types, size_t n);
	const struct dac_type *(*type)(void *user, uint64_t type);
	struct err *(*fields)(void *user, uint64_t type, struct dac_fields *ret);
	struct err *(*modules)(void *user, const struct dac_modules **ret);
	struct err *(*module_types)(void *user, uint64_t module, struct dac_addresses *ret);
	struct err *(*loader_heaps)(void *user, uint64_t loader_allocator, struct dac_ranges *ret);
	struct err *(*objects)(void *user, const uint64_t *objects, size_t n, struct dac_objects *ret);
	struct err *(*statics)(void *user, uint64_t thread, const uint64_t *types, size_t n,
			       struct dac_statics_list *ret);
};
struct err *heap_open_source(const struct image *img, const struct heap_source *source, struct heap **ret) MUST_USE;

/* Which words of an instance are references: decoded from the data in front of its method table. */
struct ref_map {
	bool repeated; /* the parts are (references, then bytes to skip), over and over from start on */
	uint32_t n;
	uint64_t start;
	struct ref_part {
		uint64_t start; /* from the object's address; repeated: how many references in a row */
		int64_t size;	/* bytes of references, less the object's own size; repeated: bytes to skip */
	} * parts;
};

struct type_entry {
	struct heap_type type; /* the first member: what callers get */
	bool has_map;
	struct ref_map map;
	bool has_fields;
	const struct heap_field *fields;
	size_t n_fields;
	bool has_statics;
	struct dac_statics statics;
};

struct heap {
	const struct image *image;
	struct heap_source source;
	struct dac_facts facts;
	struct arena arena;
	VEC(struct type_entry *) types; /* by index */
	struct map_u64 by_address;	/* index + 1; 0 = there is no type */
	/* by name, filled at the first question: */
	bool has_names;
	struct strtab names;
	VEC(uint32_t) named;	    /* by name: the first type's index */
	VEC(uint32_t) with_statics; /* closed types that have static fields */
	uint32_t modules_unread;    /* whose types could not be listed */
	char trouble[256];
};

struct type_entry *heap_entry(struct heap *h, const struct heap_type *type);
/* Read once; empty when there are none, or when it makes no sense. */
const struct ref_map *heap_ref_map(struct heap *h, const struct heap_type *type);
/* Learns many at once; those that are no types are remembered as such. */
struct err *heap_learn(struct heap *h, const uint64_t *types, size_t n) MUST_USE;
/* Keeps the first failure's text and frees it. */
void heap_note(struct heap *h, struct err *err);
/* The size of a field's value; 0 = of another shape (a structure). */
size_t heap_element_size(enum heap_element element);
bool heap_read_int(const struct heap *h, uint64_t addr, enum heap_element element, int64_t *ret);

/* Names of types that were made at run time, from the objects that made them. */
struct emitted_type {
	uint64_t method_table;
	const char *name;
};
VEC_TYPE(emitted, struct emitted_type);
bool emitted_is_builder(const struct heap_type *type);
void emitted_note(struct heap *h, uint64_t builder, struct emitted *list);
/* Gives these names to types that were found and have none. */
void emitted_name(struct heap *h, const struct emitted *list);
