/* Any bytes as a line typed at the prompt, and as texts in an answer. */

#include "inspect/internal.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = mem_strndup((const char *)data, size);
	struct inspect_words words = { 0 };
	struct answer a = { 0 };
	struct buf text = { 0 }, json = { 0 };
	struct jsonw w = jsonw_make(&json, false);
	uint64_t address;
	struct err *err = inspect_split(line, &words);
	answer_table(&a, "words", "word", "n");
	for (size_t i = 0; !err && i < words.n; i++) {
		err_ignore(inspect_address(words.v[i], &address));
		(void)inspect_type_fits("Shop.Bank.Account", words.v[i]);
		ANSWER_ROW(&a, C_TEXT(words.v[i]), C_COUNT(strlen(words.v[i])));
	}
	answer_write_text(&a, &text);
	jsonw_object(&w, NULL);
	answer_write_json(&a, &w);
	jsonw_object_end(&w);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\033')
			__builtin_trap();
	err_free(err);
	answer_free(&a);
	buf_free(&text);
	buf_free(&json);
	mem_free(line);
	return 0;
}
