#include "server/token.h"
#include "base/fd.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define TOKEN_MIN 12
#define FILE_BYTES_MAX 1024

struct err *token_make(char ret[TOKEN_LEN + 1])
{
	uint8_t raw[TOKEN_BYTES];
	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return err_errno(errno, "get random bytes");
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, 3, "%02x", raw[i]);
	return NULL;
}

struct err *token_check(const char *token, const char *what)
{
	if (strlen(token) < TOKEN_MIN || strpbrk(token, " \t\r\n;,\"\\"))
		return err_new(ERR_USAGE, "%s must have %d characters at least, without blanks, quotes, ';' and ','",
			       what, TOKEN_MIN);
	return NULL;
}

/* Absent is ERR_NOT_FOUND. */
static struct err *read_kept(const char *path, char **ret)
{
	struct stat st;
	CLEANUP(buf_free) struct buf text = { 0 };
	CLOSE_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ELOOP)
		return err_new(ERR_DENIED, "the token is kept in '%s', which is a link: remove it", path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(errno, "the token in '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return err_new(
			ERR_DENIED,
			"the token is kept in '%s', which must be a file of uid %u that nobody else can read (mode "
			"0600): remove it, and a new token is made",
			path, (unsigned)geteuid());
	TRY(file_read_fd(fd, path, FILE_BYTES_MAX, &text));
	CLEANUP(mem_freep) char *token = mem_strdup(buf_cstr(&text));
	token[strcspn(token, "\n")] = '\0';
	TRY_WRAP(token_check(token, "the token"), "'%s'", path);
	*ret = STEAL(token);
	return NULL;
}

/* Whole or not at all; one that another server has made meanwhile stays. */
static struct err *make_kept(const char *path)
{
	char token[TOKEN_LEN + 2], mark[TOKEN_LEN + 1];
	TRY(token_make(token));
	TRY(token_make(mark));
	CLEANUP(mem_freep) char *temp = mem_printf("%s.%.16s", path, mark);
	token[TOKEN_LEN] = '\n';
	TRY(file_create(temp, token, TOKEN_LEN + 1, 0600, true));
	struct err *err = link(temp, path) < 0 && errno != EEXIST ? err_errno(errno, "make '%s'", path) : NULL;
	unlink(temp);
	return err ? err : file_sync_folder(path);
}

struct err *token_keep(const char *path, char **ret)
{
	struct err *err = read_kept(path, ret);
	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return err;
	err_free(err);
	TRY(make_kept(path));
	return read_kept(path, ret);
}
