/* A report's JSON, damaged: read it, show it in every form. What is accepted must come back the same. */

#include "report/report.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report *r = NULL, *again = NULL;
	struct buf out = { 0 }, json = { 0 }, second = { 0 };
	struct err *err = report_from_json((const char *)data, size, &r);
	if (err) {
		err_free(err);
		return 0;
	}
	for (unsigned i = 0; i < 4; i++) {
		struct report_text_style style = { .columns = 40 + i * 30, .ascii = i & 1, .colour = i & 2 };
		report_render_text(r, &style, &out);
	}
	report_render_markdown(r, &out);
	report_render_html(r, &out);
	report_render_json(r, &json);
	err = report_from_json(json.data, json.len, &again);
	if (err)
		abort();
	report_render_json(again, &second);
	if (json.len != second.len || memcmp(json.data, second.data, json.len))
		abort();
	buf_free(&out);
	buf_free(&json);
	buf_free(&second);
	report_free(r);
	report_free(again);
	return 0;
}
