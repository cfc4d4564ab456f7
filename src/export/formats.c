#include "export/formats.h"
#include "base/str.h"
#include <string.h>

static const struct {
	const char *name;
	const char *endings[5];
} formats[] = {
	[EXPORT_FOLDED] = { "folded", { ".folded", ".folded.txt", ".collapsed", "folded_stacks.out" } },
	[EXPORT_SPEEDSCOPE] = { "speedscope", { ".speedscope.json", ".speedscope", "speedscope.json" } },
	[EXPORT_CHROMIUM] = { "chromium", { ".chromium.json", ".chrome.json", ".trace.json" } },
	[EXPORT_PPROF] = { "pprof", { ".pb.gz", ".pprof", ".pprof.gz" } },
};

const char *export_format_name(enum export_format format)
{
	return (size_t)format < ARRAY_SIZE(formats) ? formats[format].name : NULL;
}

bool export_format_of(const char *path, enum export_format *ret)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		for (const char *const *e = formats[i].endings; *e; e++) {
			if (len >= strlen(*e) && str_eq_nocase(path + len - strlen(*e), *e)) {
				*ret = (enum export_format)i;
				return true;
			}
		}
	}
	return false;
}

bool export_format_gzip(enum export_format format)
{
	return format == EXPORT_PPROF;
}

struct err *export_write(enum export_format format, const struct profile *p, const struct export_info *info,
			 struct out *out)
{
	switch (format) {
	case EXPORT_FOLDED:
		return folded_write(p, out);
	case EXPORT_SPEEDSCOPE:
		return speedscope_write(p, info, out);
	case EXPORT_CHROMIUM:
		return chromium_write(p, info, out);
	case EXPORT_PPROF:
		return pprof_write(p, info, out);
	case EXPORT_FORMATS:
		break;
	}
	return err_new(ERR_UNSUPPORTED, "no such format");
}
