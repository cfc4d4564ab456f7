#include "base/err.h"
#include <errno.h>
#include <string.h>

struct err {
	enum err_kind kind;
	char *text;
};

static struct err *err_make(enum err_kind kind, char *text)
{
	struct err *err = mem_alloc(sizeof(*err));
	err->kind = kind;
	err->text = text;
	return err;
}

struct err *err_new(enum err_kind kind, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = mem_vprintf(fmt, ap);
	va_end(ap);
	return err_make(kind, text);
}

static enum err_kind kind_of_errno(int errnum)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
		return ERR_DENIED;
	case ENOENT:
	case ESRCH:
	case ENOTDIR:
		return ERR_NOT_FOUND;
	case EBUSY:
	case EAGAIN:
	case EEXIST:
		return ERR_BUSY;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ENOSYS:
	case EOPNOTSUPP:
		return ERR_UNSUPPORTED;
	case EINTR:
		return ERR_CANCELLED;
	default:
		return ERR_IO;
	}
}

struct err *err_errno(int errnum, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *what = mem_vprintf(fmt, ap);
	va_end(ap);
	return err_make(kind_of_errno(errnum), mem_printf("%s: %s", what, strerror(errnum)));
}

struct err *err_wrap(struct err *err, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *what = mem_vprintf(fmt, ap);
	va_end(ap);
	char *text = mem_printf("%s: %s", what, err->text);
	mem_free(err->text);
	err->text = text;
	return err;
}

enum err_kind err_kind(const struct err *err)
{
	return err->kind;
}

const char *err_text(const struct err *err)
{
	return err->text;
}

const char *err_kind_name(enum err_kind kind)
{
	static const char *const names[] = {
		[ERR_USAGE] = "usage", [ERR_NOT_FOUND] = "not-found",	  [ERR_DENIED] = "denied",
		[ERR_BUSY] = "busy",   [ERR_UNSUPPORTED] = "unsupported", [ERR_BAD_DATA] = "bad-data",
		[ERR_IO] = "io",       [ERR_TIMEOUT] = "timeout",	  [ERR_CANCELLED] = "cancelled",
	};
	return (size_t)kind < ARRAY_SIZE(names) && names[kind] ? names[kind] : "unknown";
}

void err_free(struct err *err)
{
	if (!err)
		return;
	mem_free(err->text);
	mem_free(err);
}

void err_ignore(struct err *err)
{
	err_free(err);
}
