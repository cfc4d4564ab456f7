/* What the dac module says about a core file, one line a thing: dac_facts CORE. Compared with tests/oracle/clrmd. */

#include "dac/dac.h"
#include "base/fd.h"
#include <stdio.h>
#include <stdlib.h>

static void must(struct err *err)
{
	if (!err)
		return;
	fprintf(stderr, "dac_facts: %s\n", err_text(err));
	exit(1);
}

#define X(v) ((unsigned long long)(v))

static void print_type(struct dac *d, const struct dac_type *t)
{
	struct dac_fields fields;
	printf("type %llx %u %u %d %x\n", X(t->type), t->base_size, t->component_size, t->contains_pointers, t->token);
	must(dac_fields(d, t->type, &fields));
	vec_each(f, &fields)
		if (!f->is_static)
			printf("field %llx %s %u %u\n", X(t->type), f->name, f->offset, f->element_type);
	dac_fields_free(&fields);
}

static void print_handles(struct dac *d, const struct image *img)
{
	struct dac_handles handles;
	struct dac_addresses types = { 0 };
	must(dac_handles(d, &handles));
	vec_each(h, &handles) {
		uint64_t type;
		/* Empty slots are no handles for ClrMD. */
		if (!h->object)
			continue;
		printf("handle %llx %llx %u %d\n", X(h->handle), X(h->object), h->type, h->strong);
		if (image_read_all(img, h->object, &type, sizeof(type)))
			vec_push(&types, type & ~(uint64_t)7);
	}
	must(dac_learn_types(d, types.v, types.n));
	vec_each(t, &types) {
		const struct dac_type *type = dac_type(d, *t);
		if (type && type->known)
			print_type(d, type);
	}
	dac_handles_free(&handles);
	dac_addresses_free(&types);
}

static void print_code(struct dac *d, uint64_t ip, uint64_t method)
{
	struct dac_code code;
	must(dac_code(d, ip, &code));
	vec_each(il, &code)
		printf("il %llx %llx %d\n", X(method), X(il->start), il->il_offset);
	dac_code_free(&code);
}

/* What a thread throws, with inner ones, and the stacks that they carry. */
static void print_exceptions(struct dac *d, const struct dac_thread *t)
{
	struct dac_exception e;
	for (uint64_t object = t->exception; object; object = e.inner) {
		struct dac_stack stack;
		must(dac_exception(d, object, &e));
		printf("exception %u %llx %s %s\n", t->os_id, X(object), e.type_name, e.message ? e.message : "-");
		must(dac_exception_stack(d, &e, &stack));
		for (size_t i = 0; i < stack.n; i++)
			printf("thrown %llx %zu %llx %s\n", X(object), i, X(stack.v[i].ip),
			       dac_method(d, stack.v[i].method)->name);
		dac_stack_free(&stack);
	}
}

static void print_threads(struct dac *d)
{
	struct dac_threads threads;
	must(dac_threads(d, &threads));
	vec_each(t, &threads) {
		struct dac_refs refs;
		struct dac_stack stack;
		if (!t->os_id)
			continue;
		must(dac_stack_refs(d, t->os_id, &refs));
		vec_each(r, &refs)
			if (!(r->flags & DAC_REF_INTERIOR) && r->object)
				printf("ref %u %llx %llx\n", t->os_id, X(r->slot), X(r->object));
		must(dac_stack(d, t->os_id, &stack));
		vec_each(f, &stack)
			if (!f->kind && f->method)
				print_code(d, f->ip, f->method);
		dac_refs_free(&refs);
		dac_stack_free(&stack);
	}
	dac_threads_free(&threads);
}

static void print_all_exceptions(struct dac *d)
{
	struct dac_threads threads;
	must(dac_threads(d, &threads));
	vec_each(t, &threads)
		print_exceptions(d, t);
	dac_threads_free(&threads);
}

static int print_facts(struct dac *d, const struct image *img)
{
	const struct dac_modules *modules;
	struct dac_segments segments;
	struct dac_heaps heaps;
	struct dac_syncs syncs;
	struct dac_facts facts;
	must(dac_facts(d, &facts));
	must(dac_modules(d, &modules));
	vec_each(m, modules)
		printf("module %llx %s\n", X(m->address), m->path);
	must(dac_heaps(d, &heaps));
	if (heaps.n != facts.n_heaps)
		return 3;
	must(dac_segments(d, &segments));
	vec_each(s, &segments)
		printf("segment %llx %llx %u\n", X(s->address), X(s->mem), s->heap_index);
	print_handles(d, img);
	must(dac_syncs(d, &syncs));
	vec_each(s, &syncs)
		printf("sync %u %llx %d %llx %u\n", s->index, X(s->object), s->held, X(s->holding_thread), s->waiting);
	print_threads(d);
	dac_syncs_free(&syncs);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	return 0;
}

int main(int argc, char **argv)
{
	struct image *img = NULL;
	struct dac *d = NULL;
	int code = 0;
	if (argc != 2 && argc != 3)
		return 2;
	must(image_open_core(argv[1], &(struct image_core_options){ .files_root = "" }, NULL, &img));
	must(dac_open(img, NULL, &d));
	if (argc == 3)
		print_all_exceptions(d);
	else
		code = print_facts(d, img);
	dac_close(d);
	image_close(img);
	return code;
}
