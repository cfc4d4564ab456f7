/* What the heap module says about a core file, one line a thing: heap_facts CORE. Compared with tests/oracle/clrmd. */

#include "heap/objects.h"
#include <stdio.h>
#include <stdlib.h>

static void must(struct err *err)
{
	if (!err)
		return;
	fprintf(stderr, "heap_facts: %s\n", err_text(err));
	exit(1);
}

#define X(v) ((unsigned long long)(v))

static void print_statics(struct heap *h, const struct dac_threads *threads)
{
	struct heap_statics statics;
	must(heap_statics(h, threads, &statics));
	vec_each(s, &statics)
		printf("%s %llx %s %llx %s %s\n", s->thread ? "thread-static" : "static", X(s->type->address),
		       s->field->name, X(s->object), s->type->name, heap_type_of(h, s->object)->name);
	heap_statics_free(&statics);
}

int main(int argc, char **argv)
{
	struct image *img = NULL;
	struct dac *d = NULL;
	struct heap *h = NULL;
	struct dac_threads threads;
	if (argc != 2)
		return 2;
	must(image_open_core(argv[1], &(struct image_core_options){ .files_root = "" }, NULL, &img));
	must(dac_open(img, NULL, &d));
	must(heap_open(img, d, &h));
	must(dac_threads(d, &threads));
	print_statics(h, &threads);
	if (heap_trouble(h))
		fprintf(stderr, "heap_facts: %s\n", heap_trouble(h));
	dac_threads_free(&threads);
	heap_close(h);
	dac_close(d);
	image_close(img);
	return 0;
}
