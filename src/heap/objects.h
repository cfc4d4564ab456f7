#pragma once
/* Objects of the managed heap in an image: their types, sizes, fields, strings, arrays, locks, and static fields.
 *
 * What a type looks like is asked of the runtime's library once and remembered; what is in an object is read from the
 * image. Both are hostile: every address may be anything, every count is checked against what it claims to be part of.
 * Functions that return bool say false when the thing is not there, not readable or not of that shape, and then leave
 * their ret_ alone.
 *
 * Knows nothing of what an application's types mean. The image and the dac must outlive it. Pointers that it hands out
 * live until heap_close. Not for threads. */

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "dac/dac.h"
#include "image/image.h"

struct heap;
struct err *heap_open(const struct image *img, struct dac *d, struct heap **ret) MUST_USE;
void heap_close(struct heap *h);
DEFINE_CLEANUP(heap_close, struct heap *)
const struct dac_facts *heap_facts(const struct heap *h);
/* Why something could not be learnt from the runtime's library, the first time; NULL = nothing went wrong. */
const char *heap_trouble(const struct heap *h);

/* ---- types ---- */

enum heap_kind { HEAP_OBJECT, HEAP_STRING, HEAP_ARRAY, HEAP_FREE };
struct heap_type {
	uint64_t address; /* of its method table */
	uint64_t module, parent;
	uint64_t element; /* of an array: type of its elements; 0 = none, or a pointer type */
	uint64_t loader;  /* object that its instances keep alive; 0 = none */
	const char *name; /* in the runtime's words: "System.Collections.Generic.List`1[[Shop.Order, Shop]]" */
	enum heap_kind kind;
	uint32_t index;		 /* of the types found so far, from 0 */
	uint32_t base_size;	 /* of an instance without components */
	uint32_t component_size; /* of an array's element, a string's unit; 0 = neither */
	uint32_t n_static, n_thread_static;
	bool has_refs;
};
/* NULL: there is no type at that address. */
const struct heap_type *heap_type(struct heap *h, uint64_t method_table);
/* Is it a structure, an enum or a primitive? */
bool heap_is_struct(struct heap *h, const struct heap_type *type);
/* NULL: that is no object. */
const struct heap_type *heap_type_of(struct heap *h, uint64_t object);
/* With header and padding, as the collector counts it; 0: that is no object. */
uint64_t heap_size_of(struct heap *h, uint64_t object);
/* A loaded type by its name, in the runtime's words; *ret is NULL when there is none. Generic types that are in use are
 * found too: "Shop.Cache`1[[System.Int32, System.Private.CoreLib]]". module is the file name ("Shop.dll"), or NULL =
 * any. */
struct err *heap_find_type(struct heap *h, const char *module, const char *name, const struct heap_type **ret) MUST_USE;
/* "System.Private.CoreLib.dll" of the type's module; "" when not known. */
const char *heap_module_file(struct heap *h, const struct heap_type *type);

/* ---- fields ---- */

enum heap_element { /* CorElementType, as far as fields have them */
		    HEAP_BOOLEAN = 0x02,
		    HEAP_CHAR = 0x03,
		    HEAP_I1 = 0x04,
		    HEAP_U1 = 0x05,
		    HEAP_I2 = 0x06,
		    HEAP_U2 = 0x07,
		    HEAP_I4 = 0x08,
		    HEAP_U4 = 0x09,
		    HEAP_I8 = 0x0A,
		    HEAP_U8 = 0x0B,
		    HEAP_R4 = 0x0C,
		    HEAP_R8 = 0x0D,
		    HEAP_POINTER = 0x0F,
		    HEAP_STRUCT = 0x11,
		    HEAP_CLASS = 0x12,
		    HEAP_NATIVE_INT = 0x18,
		    HEAP_NATIVE_UINT = 0x19,
		    HEAP_FUNCTION = 0x1B,
};
struct heap_field {
	const char *name;	   /* "" = not known */
	uint64_t declaring, type;  /* type: its own, 0 when not known */
	uint32_t offset;	   /* from the first byte behind the method table; of a static: from its base */
	enum heap_element element; /* references of all kinds are HEAP_CLASS; an enum is its number */
	bool is_static, is_thread_static;
};
struct heap_fields {
	const struct heap_field *v;
	size_t n;
};
/* Instance fields with the inherited ones, the type's own last; then the statics that it declares itself. */
struct heap_fields heap_fields(struct heap *h, const struct heap_type *type);
/* By name, the most derived first; NULL = none. */
const struct heap_field *heap_field(struct heap *h, const struct heap_type *type, const char *name);

/* ---- values ---- */

/* Something with fields: an object, or a structure inside one. */
struct heap_value {
	const struct heap_type *type;
	uint64_t fields; /* address of the first */
};
bool heap_object(struct heap *h, uint64_t object, struct heap_value *ret);
/* A null reference is 0 and true. */
bool heap_get_ref(struct heap *h, struct heap_value v, const char *field, uint64_t *ret);
/* The object that a field refers to; false for null as well. */
bool heap_get_object(struct heap *h, struct heap_value v, const char *field, struct heap_value *ret);
/* Numbers, characters, booleans, enums, native integers and pointers. */
bool heap_get_int(struct heap *h, struct heap_value v, const char *field, int64_t *ret);
bool heap_get_struct(struct heap *h, struct heap_value v, const char *field, struct heap_value *ret);
/* The text of a string field, appended; false for null as well. */
bool heap_get_string(struct heap *h, struct heap_value v, const char *field, size_t max_units, struct buf *out);

/* Appends a string object's text as UTF-8, at most max_units UTF-16 units of it; *ret_units (may be NULL) gets how many
 * it has. */
bool heap_string(struct heap *h, uint64_t object, size_t max_units, struct buf *out, uint32_t *ret_units);

struct heap_array {
	const struct heap_type *type;
	uint64_t object, first; /* first: address of element 0 */
	uint32_t n, stride;	/* elements of all dimensions together; bytes of one */
};
bool heap_array(struct heap *h, uint64_t object, struct heap_array *ret);
/* Element i of an array of references (null is 0 and true), and of an array of structures. */
bool heap_element_ref(struct heap *h, const struct heap_array *a, uint32_t i, uint64_t *ret);
bool heap_element_struct(struct heap *h, const struct heap_array *a, uint32_t i, struct heap_value *ret);

/* The word in front of an object. At most one of them is not 0. */
struct heap_header {
	uint32_t thin_owner; /* managed thread id that holds it by a thin lock */
	uint32_t recursion;  /* of that lock: 0 = entered once */
	uint32_t sync_block; /* index, for dac_sync.index */
	uint32_t hash;
};
bool heap_header(struct heap *h, uint64_t object, struct heap_header *ret);

/* Plain memory. */
bool heap_read(const struct heap *h, uint64_t addr, void *buf, size_t len);
bool heap_read_u32(const struct heap *h, uint64_t addr, uint32_t *ret);
bool heap_read_u64(const struct heap *h, uint64_t addr, uint64_t *ret);

/* ---- static fields ---- */

/* Where a static field is kept; thread is dac_thread.address, 0 for plain ones. False as well as long as the runtime
 * has made no room for it. *ret_field may be NULL. */
bool heap_static_slot(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
		      uint64_t *ret_slot, const struct heap_field **ret_field);
bool heap_static_ref(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field, uint64_t *ret);
bool heap_static_object(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
			struct heap_value *ret);
bool heap_static_int(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field, int64_t *ret);
bool heap_static_struct(struct heap *h, uint64_t thread, const struct heap_type *type, const char *field,
			struct heap_value *ret);

/* A static field that can hold objects, and the place where it does. */
struct heap_static {
	const struct heap_type *type;
	const struct heap_field *field;
	uint64_t slot, thread; /* thread: dac_thread.address, or 0 */
	uint64_t object;       /* in it now, never 0; a structure is in a box */
};
VEC_TYPE(heap_statics, struct heap_static);
/* All that hold something, of all loaded types, in order of their slots. threads may be NULL = plain ones only. */
struct err *heap_statics(struct heap *h, const struct dac_threads *threads, struct heap_statics *ret) MUST_USE;
void heap_statics_free(struct heap_statics *statics);
