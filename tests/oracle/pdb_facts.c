/* Answers the questions that the lines of tests/oracle/pdb imply: pdb_facts PDB < FACTS prints the same lines if it
 * reads the same things. */

#include "base/fd.h"
#include "symbols/pdb.h"
#include <inttypes.h>
#include <stdio.h>

static void answer(struct pdb *p, const char *question)
{
	uint32_t token, il, slot;
	struct pdb_line l;
	if (sscanf(question, "line %" SCNx32 " %" SCNu32, &token, &il) == 2) {
		if (pdb_line(p, token, il, &l))
			printf("line %x %u %u %u %s\n", token, l.il_offset, l.line, l.column, l.file);
	} else if (sscanf(question, "kickoff %" SCNx32, &token) == 1) {
		printf("kickoff %x %x\n", token, pdb_kickoff(p, token));
	} else if (sscanf(question, "local %" SCNx32 " %" SCNu32 " %" SCNu32, &token, &il, &slot) == 3) {
		const char *name = pdb_local(p, token, il, slot);
		printf("local %x %u %u %s\n", token, il, slot, name ? name : "-");
	}
}

int main(int argc, char **argv)
{
	struct buf bytes = { 0 };
	CLEANUP(pdb_freep) struct pdb *p = NULL;
	char line[8192];
	if (argc != 2)
		return 2;
	struct err *err = file_read(argv[1], 1 << 28, &bytes);
	size_t len = bytes.len;
	if (!err)
		err = pdb_from_bytes(buf_steal(&bytes), len, NULL, &p);
	if (err) {
		fprintf(stderr, "%s\n", err_text(err));
		err_free(err);
		return 1;
	}
	while (fgets(line, sizeof(line), stdin))
		answer(p, line);
	return 0;
}
