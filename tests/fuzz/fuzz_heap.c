/* The walk over a small heap whose memory was changed: pairs of (place, value), four bytes each; and reading every
 * object it gives as whatever it may be. */

#include "build_heap.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct built_heap *small_heap(void)
{
	struct built_heap *b = build_heap_new();
	struct built_series one = { .size = 8 - 32, .start = 8 }, elements = { .size = 8 - 32, .start = 16 };
	uint64_t node = build_type(b, "Node", b->object_type, 32, 0, &one, 1);
	uint64_t nodes = build_type(b, "Node[]", b->object_type, 24, 8, &elements, 1);
	uint64_t pairs = build_struct_array(b, "Pair[]", b->value_type, 24, 2, 8);
	build_field(b, node, "_next", 0x12, 0, node);
	build_field(b, node, "_id", 0x08, 8, 0);
	uint64_t last = 0;
	for (int i = 0; i < 8; i++) {
		uint64_t object = build_object(b, node, 0);
		build_put_u64(b, object + 8, last);
		last = object;
		build_string(b, "text");
		build_put_u64(b, build_object(b, nodes, 4) + 16, last);
		build_put_u64(b, build_object(b, pairs, 2) + 16, last);
		build_object(b, b->free_type, 16);
	}
	return b;
}

static void on_refs(void *user, uint64_t at, const uint64_t *refs, size_t n)
{
	uint64_t *sum = user;
	for (size_t i = 0; i < n; i++)
		*sum += refs[i];
	if (at < BUILT_HEAP || at + 8 * n > BUILT_HEAP + BUILT_ROOM)
		abort();
}

static void look(struct heap *h, uint64_t object)
{
	struct heap_value v;
	struct heap_array a;
	struct heap_header header;
	CLEANUP(buf_free) struct buf text = { 0 };
	uint64_t ref;
	(void)heap_string(h, object, 1000, &text, NULL);
	(void)heap_header(h, object, &header);
	if (heap_object(h, object, &v))
		(void)heap_get_ref(h, v, "_next", &ref);
	if (heap_array(h, object, &a) && a.n)
		(void)heap_element_ref(h, &a, a.n - 1, &ref);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct built_heap *b = small_heap();
	struct heap_outline outline = build_outline(b);
	for (size_t i = 0; i + 4 <= size && i < 400; i += 4) {
		uint16_t place;
		memcpy(&place, data + i, 2);
		(place & 0x8000 ? b->types : b->heap)[place & 0x7FFF] = data[i + 2];
		if (data[i + 3] & 1)
			vec_push(&outline.contexts,
				 ((struct heap_context){ BUILT_HEAP + place * 8ull, BUILT_HEAP + place * 8ull + 64 }));
	}
	struct image *img = build_heap_image(b);
	struct heap_source source = build_heap_source(b);
	struct heap *h = NULL;
	struct heap_found f;
	uint64_t sum = 0;
	if (heap_open_source(img, &source, &h))
		abort();
	struct heap_walk *w = heap_walk_new(h, &outline);
	while (heap_walk_next(w, &f)) {
		heap_walk_refs(w, &f, on_refs, &sum);
		look(h, f.address);
	}
	err_ignore(heap_walk_check(w));
	heap_walk_free(w);
	heap_close(h);
	image_close(img);
	heap_outline_free(&outline);
	build_heap_free(b);
	return 0;
}
