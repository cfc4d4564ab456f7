/* Any bytes as a portable PDB: every question about its first methods; and as an assembly's debug directory. */

#include "symbols/pdb.h"
#include "symbols/pe.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pdb *p = NULL;
	struct err *err = pdb_from_bytes(mem_dup(data, size ? size : 1), size, NULL, &p);
	for (uint32_t m = 0x06000000; p && m < 0x06000008; m++) {
		struct pdb_line l;
		pdb_kickoff(p, m);
		for (uint32_t il = 0; il < 64; il += 7) {
			if (pdb_line(p, m, il, &l) && strlen(l.file) > 100000)
				__builtin_trap();
			pdb_local(p, m, il, il / 7);
		}
		pdb_await(p, m, 0, &l);
		pdb_await(p, m, 3, &l);
	}
	pdb_free(p);
	err_free(err);
	struct pe pe;
	struct pe_debug d;
	uint32_t sum = 0;
	if (pe_parse_any(data, size, &pe))
		for (size_t i = 0; pe_debug_next(&pe, &i, &d);)
			sum += d.bytes[0] + d.bytes[d.len - 1];
	return sum == 1 ? 0 : 0;
}
