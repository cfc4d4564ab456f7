#pragma once
/* Writes small managed heaps for tests: method tables with their reference maps, objects, statics; and is the source of
 * knowledge about them that a runtime's library is otherwise. What it says and what is in memory can be made to differ.
 */

#include "heap/internal.h"
#include "heap/walk.h"
#include "image/image.h"

#define BUILT_TYPES 0x20000000u /* where method tables are */
#define BUILT_HEAP 0x10000000u
#define BUILT_STATICS 0x30000000u
#define BUILT_ROOM 0x10000u /* of each */

struct built_heap {
	uint8_t types[BUILT_ROOM], heap[BUILT_ROOM], statics[BUILT_ROOM];
	uint64_t next_type, next_object;
	VEC(struct dac_type) type_list;
	VEC(struct dac_field) field_list; /* token holds the index of its type */
	VEC(struct dac_statics) statics_list;
	struct dac_objects object_list;
	struct dac_modules modules;
	struct dac_facts facts;
	uint64_t object_type, string_type, free_type, value_type;
	bool fails; /* every question is answered with an error */
};
struct built_heap *build_heap_new(void);
void build_heap_free(struct built_heap *b);

struct built_series {
	int64_t size;
	uint64_t start;
};
/* The first type with a name; refs = n series of references (count > 0), or none. */
uint64_t build_type(struct built_heap *b, const char *name, uint64_t parent, uint32_t base_size,
		    uint32_t component_size, const struct built_series *series, size_t n);
/* A type of arrays of structures: `pointers` references, then `skip` bytes, in each. */
uint64_t build_struct_array(struct built_heap *b, const char *name, uint64_t element, uint32_t component_size,
			    uint32_t pointers, uint32_t skip);
void build_field(struct built_heap *b, uint64_t type, const char *name, uint32_t element, uint32_t offset,
		 uint64_t field_type);
void build_static(struct built_heap *b, uint64_t type, const char *name, uint32_t element, uint32_t offset,
		  bool thread);
/* The next object of the heap; n = components. */
uint64_t build_object(struct built_heap *b, uint64_t type, uint32_t n);
uint64_t build_string(struct built_heap *b, const char *ascii);
void build_put(struct built_heap *b, uint64_t addr, const void *data, size_t len);
void build_put_u64(struct built_heap *b, uint64_t addr, uint64_t value);
/* One region of old objects over all of them. */
struct heap_outline build_outline(const struct built_heap *b);
/* What has been written so far as an image. */
struct image *build_heap_image(const struct built_heap *b);
struct heap_source build_heap_source(struct built_heap *b);
