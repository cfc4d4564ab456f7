/* Writes the corpus of fuzz_gcdump into a folder: corpus_gcdump FOLDER. */

#include "build_graph.h"
#include "model/gcdump.h"
#include <stdio.h>

static int save(const char *folder, const char *name, uint32_t n, uint32_t n_roots, const struct built_edge *edges,
		size_t n_edges)
{
	CLEANUP(buf_free) struct buf b = { 0 }, file = { 0 };
	CLEANUP(heapgraph_freep) struct heapgraph *g = NULL;
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	build_graph(&b, n, n_roots, edges, n_edges);
	struct cursor in = cursor_make(b.data, b.len);
	struct err *err = heapgraph_read(&in, &g);
	if (err) {
		err_free(err);
		return 1;
	}
	heapgraph_dominate(g);
	gcdump_write(g, &(struct gcdump_facts){ .pid = 7 }, &file);
	FILE *f = fopen(path, "wb");
	if (!f)
		return 1;
	size_t written = fwrite(file.data, 1, file.len, f);
	return fclose(f) || written != file.len;
}

int main(int argc, char **argv)
{
	static const struct built_edge diamond[] = {
		{ BUILT_ROOT(0), 0 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 }, { 3, 0 },
	};
	static const struct built_edge two[] = { { BUILT_ROOT(0), 0 }, { BUILT_ROOT(1), 1 }, { 0, 2 }, { 1, 2 } };
	if (argc != 2)
		return 2;
	return save(argv[1], "nothing-held", 1, 0, NULL, 0) || save(argv[1], "diamond", 4, 1, diamond, 6) ||
	       save(argv[1], "two-roots", 5, 2, two, 4);
}
