#pragma once
/* A folder of our own in one of the target's: it holds the library, and a socket that the library connects to. Its name
 * cannot be guessed; others may enter but not list or change it. It is removed whatever happens to us: a small child
 * process that outlives us does that. All of it is made and removed with the rights of the target's user. Private to
 * attach. */

#include "base/err.h"
#include "base/fsuser.h"
#include "ipc/patient.h"

struct place {
	char *path;    /* ours */
	char *seen_as; /* the target's */
	int folder;    /* opened */
	int parent;    /* the folder it lies in, opened */
	char name[64]; /* in the parent */
	struct fsuser user;
	int listen_fd;
	pid_t keeper;
	int keeper_pipe;
};
#define PLACE_NONE ((struct place){ .folder = -1, .parent = -1, .listen_fd = -1, .keeper_pipe = -1 })
struct err *place_make(const struct patient *p, const char *library, struct place *ret) MUST_USE;
/* The library was loaded, or will never be. */
void place_drop_library(struct place *place);
/* Everything, the socket too. */
void place_remove(struct place *place);
