/* Writes the corpus of fuzz_program: corpus_program FOLDER */

#include "build_program.h"
#include "corpus.h"

int main(int argc, char **argv)
{
	static const struct build_type types[] = { { "", "<Module>" }, { "Shop", "Orders" }, { "", "+In" } };
	struct build_types narrow_types = { .v = types, .n = 3, .n_refs = 2 };
	struct build_types wide_types = { .v = types, .n = 3, .wide = true, .n_methods = 70000 };
	struct buf narrow = { 0 }, wide = { 0 }, list = { 0 }, deps = { 0 }, bytes = { 0 };
	struct build_part parts[] = { { "shop.dll", &bytes, 0 }, { "de/shop.dll", &bytes, 25 } };
	if (argc != 2)
		return 2;
	build_typed_assembly(&narrow_types, &narrow);
	build_typed_assembly(&wide_types, &wide);
	buf_str(&bytes, "0123456789");
	build_bundle_list(parts, 2, 6, 100, &list);
	buf_str(&deps, "{\"targets\":{\"t\":{\"a/1\":{\"runtime\":{\"lib/a.dll\":{}}}}},"
		       "\"libraries\":{\"a/1\":{\"type\":\"project\"}}}");
	write_file(argv[1], "narrow", &narrow);
	write_file(argv[1], "wide", &wide);
	write_file(argv[1], "list", &list);
	write_file(argv[1], "deps", &deps);
	buf_free(&bytes);
	return 0;
}
