#pragma once
/* The open descriptors of a process by kind. Reads only names of descriptors: nothing that is open is opened again. They
 * come and go while we look; what vanishes is left out.
 *
 * Everything is read below `proc`, "/proc" but for tests. */

#include "base/map.h"
#include "base/vec.h"

enum descriptor_kind {
	DESCRIPTOR_FILE,
	DESCRIPTOR_PROGRAM, /* assemblies, libraries and what else the runtime has open for itself */
	DESCRIPTOR_DEVICE,
	DESCRIPTOR_SOCKET,
	DESCRIPTOR_PIPE,
	DESCRIPTOR_EPOLL,
	DESCRIPTOR_EVENT,
	DESCRIPTOR_INOTIFY,
	DESCRIPTOR_TIMER,
	DESCRIPTOR_OTHER,
	DESCRIPTOR_KINDS
};
const char *descriptor_kind_name(enum descriptor_kind kind); /* "files" */
enum descriptor_kind descriptor_kind_of(const char *link);   /* by what a descriptor's link says */

/* Files of one folder. */
struct descriptor_folder {
	uint32_t folder, example; /* in names; the example is a path */
	uint64_t n;
	bool several; /* not all of them are the example */
};
#define DESCRIPTOR_FOLDERS_MAX 4096

struct descriptors {
	uint64_t n, of[DESCRIPTOR_KINDS];
	struct map_u64 sockets;	  /* their inodes */
	struct strtab names;	  /* of files, not trusted */
	struct map_u64 folder_of; /* name of a folder -> its place in folders */
	VEC(struct descriptor_folder) folders;
	uint64_t unlisted; /* files in more folders than are kept */
	bool cut;	   /* there are more descriptors than are looked at */
};
/* False when they are hidden from us, or the process is gone. */
bool descriptors_read(const char *proc, pid_t pid, struct descriptors *ret);
void descriptors_fini(struct descriptors *d);
/* How many there are, by the names of the folder only; UINT64_MAX = hidden. */
uint64_t descriptors_count(const char *proc, pid_t pid);
/* inotify instances of all processes of a user, which share one limit. False when some are hidden from us. */
bool descriptors_inotify_of_user(const char *proc, uid_t uid, uint64_t *ret);
