/* Where a living process says that its collector is at work: busy_word PID, as a hexadecimal number; 0 = not found. */
#include "dac/dac.h"
#include "target/target.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct target t = { 0 };
	struct err *err = argc == 2 ? target_find_pid((pid_t)strtol(argv[1], NULL, 10), &t) : NULL;
	if (argc != 2 || err)
		return 2;
	printf("%llx\n", (unsigned long long)dac_busy_word(&t));
	target_fini(&t);
	return 0;
}
