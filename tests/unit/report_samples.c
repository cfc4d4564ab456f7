/* report_samples FOLDER: writes every sample report as an HTML page. */

#include "report_samples.h"

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: report_samples FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < ARRAY_SIZE(report_samples); i++) {
		CLEANUP(report_freep) struct report *r = report_samples[i].make();
		CLEANUP(mem_freep) char *path = mem_printf("%s/%s.html", argv[1], report_samples[i].name);
		struct buf page = { 0 };
		report_render_html(r, &page);
		FILE *f = fopen(path, "w");
		if (!f || fwrite(page.data, 1, page.len, f) != page.len || fclose(f)) {
			perror(path);
			return 1;
		}
		buf_free(&page);
	}
	return 0;
}
