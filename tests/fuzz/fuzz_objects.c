/* The printer of objects over a small heap whose memory was changed: pairs of (place, value), four bytes each. Every
 * object that is still found, and addresses that are none. */

#include "build_heap.h"
#include "inspect/internal.h"
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ASKED_MAX 64

static struct built_heap *small_heap(void)
{
	struct built_heap *b = build_heap_new();
	struct built_series one = { .size = 8 - 64, .start = 8 }, elements = { .size = 8 - 32, .start = 16 };
	uint64_t pair = build_type(b, "Shop.Pair\033[31m", b->value_type, 32, 0, NULL, 0);
	uint64_t node = build_type(b, "Shop.Node`1[[System.Int32, Core]]", b->object_type, 64, 0, &one, 1);
	uint64_t nodes = build_type(b, "Shop.Node[]", b->object_type, 24, 8, &elements, 1);
	uint64_t pairs = build_struct_array(b, "Shop.Pair[]", pair, 24, 2, 8);
	build_field(b, pair, "First", HEAP_CLASS, 0, node);
	build_field(b, pair, "Second\n", HEAP_STRUCT, 8, pair);
	build_field(b, node, "<Next>k__BackingField", HEAP_CLASS, 0, node);
	build_field(b, node, "_id", HEAP_I4, 8, 0);
	build_field(b, node, "_ratio", HEAP_R8, 16, 0);
	build_field(b, node, "_letter", HEAP_CHAR, 12, 0);
	build_field(b, node, "_pair", HEAP_STRUCT, 24, pair);
	uint64_t last = 0;
	for (int i = 0; i < 6; i++) {
		uint64_t object = build_object(b, node, 0);
		build_put_u64(b, object + 8, last);
		last = object;
		build_string(b, "text \033]0;x\007");
		build_put_u64(b, build_object(b, nodes, 4) + 16, last);
		build_put_u64(b, build_object(b, pairs, 2) + 16, last);
		build_object(b, b->free_type, 16);
	}
	return b;
}

static void ask(struct inspect *in, const char *command, uint64_t address)
{
	struct answer a = { 0 };
	struct buf text = { 0 }, json = { 0 };
	char line[64];
	snprintf(line, sizeof(line), "%s %llx", command, (unsigned long long)address);
	err_ignore(inspect_run(in, line, &a));
	answer_write_text(&a, &text);
	struct jsonw w = jsonw_make(&json, false);
	jsonw_object(&w, NULL);
	answer_write_json(&a, &w);
	jsonw_object_end(&w);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\033')
			__builtin_trap();
	answer_free(&a);
	buf_free(&text);
	buf_free(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct built_heap *b = small_heap();
	struct inspect in = { .has_outline = true, .has_threads = true, .cancel_fd = -1 };
	VEC(uint64_t) asked = { 0 };
	struct heap_found f;
	for (size_t i = 0; i + 4 <= size && i < 400; i += 4) {
		uint16_t place;
		memcpy(&place, data + i, 2);
		(place & 0x8000 ? b->types : b->heap)[place & 0x7FFF] = data[i + 2];
		if (data[i + 3] & 1 && asked.n < ASKED_MAX)
			vec_push(&asked, (data[i + 3] & 2 ? BUILT_TYPES : BUILT_HEAP) + (place & 0x7FFFull));
	}
	in.outline = build_outline(b);
	in.look.image = build_heap_image(b);
	struct heap_source source = build_heap_source(b);
	if (heap_open_source(in.look.image, &source, &in.heap))
		__builtin_trap();
	struct heap_walk *w = heap_walk_new(in.heap, &in.outline);
	while (heap_walk_next(w, &f) && asked.n < 2 * ASKED_MAX)
		vec_push(&asked, f.address);
	heap_walk_free(w);
	vec_each(address, &asked) {
		ask(&in, "object", *address);
		ask(&in, "referrers", *address);
		ask(&in, "memory", *address);
	}
	vec_free(&asked);
	heap_close(in.heap);
	image_close(in.look.image);
	heap_outline_free(&in.outline);
	build_heap_free(b);
	return 0;
}
