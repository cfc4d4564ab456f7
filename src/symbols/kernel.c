/* Names of kernel functions, from /proc/kallsyms. */

#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "symbols/space.h"
#include <stdlib.h>
#include <string.h>

#define KALLSYMS_BYTES_MAX ((size_t)256 << 20)

struct function {
	uint64_t address;
	const char *name;
};

struct kernel {
	bool read;
	struct buf text;
	VEC(struct function) functions;
};

struct kernel *kernel_new(void)
{
	return mem_zalloc(sizeof(struct kernel));
}

void kernel_free(struct kernel *k)
{
	if (!k)
		return;
	buf_free(&k->text);
	vec_free(&k->functions);
	mem_free(k);
}

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	return CMP(x->address, y->address);
}

/* "ffffffff81000000 T _stext" and for modules "... t name\t[module]". All zeros when hidden from us. */
static void add_line(struct kernel *k, char *line)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);
	if (!address || end == line || end[0] != ' ' || !end[1] || end[2] != ' ' || !strchr("tTwW", end[1]))
		return;
	char *name = end + 3;
	name[strcspn(name, "\t ")] = 0;
	vec_push(&k->functions, ((struct function){ address, name }));
}

static void read_all(struct kernel *k)
{
	k->read = true;
	struct err *err = file_read("/proc/kallsyms", KALLSYMS_BYTES_MAX, &k->text);
	char *save = NULL;
	if (!err && k->text.len) {
		for (char *line = strtok_r(k->text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
			add_line(k, line);
	}
	err_ignore(err);
	vec_sort(&k->functions, by_address);
}

const char *kernel_symbol(struct kernel *k, uint64_t address)
{
	if (!k->read)
		read_all(k);
	size_t low = 0, high = k->functions.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (k->functions.v[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? k->functions.v[low - 1].name : NULL;
}
