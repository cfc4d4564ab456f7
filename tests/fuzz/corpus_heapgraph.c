/* Writes the corpus of fuzz_heapgraph into a folder: corpus_heapgraph FOLDER. */

#include "build_graph.h"
#include <stdio.h>

static int save(const char *folder, const char *name, uint32_t n, uint32_t n_roots, const struct built_edge *edges,
		size_t n_edges)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	CLEANUP(mem_freep) char *path = mem_printf("%s/%s", folder, name);
	build_graph(&b, n, n_roots, edges, n_edges);
	FILE *f = fopen(path, "wb");
	if (!f)
		return 1;
	size_t written = fwrite(b.data, 1, b.len, f);
	return fclose(f) || written != b.len;
}

int main(int argc, char **argv)
{
	static const struct built_edge diamond[] = {
		{ BUILT_ROOT(0), 0 }, { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 }, { 3, 0 },
	};
	static const struct built_edge two[] = { { BUILT_ROOT(0), 0 }, { BUILT_ROOT(1), 1 }, { 0, 2 }, { 1, 2 } };
	if (argc != 2)
		return 2;
	return save(argv[1], "empty", 1, 0, NULL, 0) || save(argv[1], "diamond", 4, 1, diamond, 6) ||
	       save(argv[1], "two-roots", 5, 2, two, 4);
}
