#include "cli/secret.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include <string.h>

#define SECRET_BYTES_MAX 4096

static void hide(char **word, size_t from)
{
	char *shown = *word;
	*word = mem_strdup(shown);
	memset(shown + from, '*', strlen(shown + from));
}

void secret_hide(int argc, char **argv)
{
	static const char *const names[] = { "--token", "--read-token" };
	for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			size_t len = strlen(names[k]);
			if (str_starts(argv[i], names[k]) && argv[i][len] == '=')
				hide(&argv[i], len + 1);
			else if (str_eq(argv[i], names[k]) && i + 1 < argc)
				hide(&argv[++i], 0);
		}
	}
}

struct err *secret_read(const char *path, char **ret)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	TRY(file_read(path, SECRET_BYTES_MAX, &text));
	size_t len = strcspn(buf_cstr(&text), "\r\n");
	if (!len)
		return err_new(ERR_USAGE, "'%s' is empty: its first line is to be the token", path);
	*ret = mem_strndup(buf_cstr(&text), len);
	return NULL;
}
