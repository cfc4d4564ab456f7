/* Writes the corpus of fuzz_pdb: corpus_pdb FOLDER */

#include "build_pdb.h"
#include "corpus.h"

int main(int argc, char **argv)
{
	static const char *const documents[] = { "/src/Shop/Orders.cs", "B.cs" };
	static const struct build_pdb_point points[] = { { .il = 0 },
							 { .il = 2, .line = 10, .column = 9 },
							 { .il = 9, .line = 300, .column = 1, .document = 2 } };
	static const struct build_pdb_local locals[] = { { 0, "order", 0, 40 }, { 1, "total", 9, 11 } };
	static const uint32_t awaits[] = { 3, 12 };
	static const struct build_pdb_method methods[] = {
		{ points, 3, locals, 2, .document = 1 },
		{ points, 3, .document = 1, .kickoff = 1, .awaits = awaits, .n_awaits = 2 },
	};
	struct build_pdb b = { .id = "0123456789abcdefghi",
			       .documents = documents,
			       .n_documents = 2,
			       .methods = methods,
			       .n_methods = 2 };
	struct buf narrow = { 0 }, wide = { 0 }, assembly = { 0 };
	if (argc != 2)
		return 2;
	build_pdb(&b, &narrow);
	build_assembly(b.id, &narrow, &assembly);
	b.wide = true;
	b.assembly_rows = 70000;
	build_pdb(&b, &wide);
	write_file(argv[1], "narrow", &narrow);
	write_file(argv[1], "wide", &wide);
	write_file(argv[1], "assembly", &assembly);
	return 0;
}
