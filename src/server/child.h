#pragma once
/* Commands of our own program as child processes, so that a crash, a hang or much memory harms only the child. Standard
 * output goes to a stream; standard error is kept for the answer.
 *
 * The main thread starts and watches them (the kernel kills them when it ends); any thread may ask for one. */

#include "base/err.h"
#include "base/vec.h"
#include "server/stream.h"
#include <poll.h>

struct child;
struct child_order {
	/* Without the program's name; ended by NULL, owned by the order. A second one is started when the first has
	 * ended well; only the last one's standard output is kept. */
	char **argv, **then;
	char **environment; /* "NAME=value" beside our own, ended by NULL; NULL = none */
	/* The stream gets both outputs, if wanted the file that the command left in its folder, and its exit code: each
	 * piece after a line "out N", "err N" or "file N" with its length, and at the end "exit CODE". */
	bool framed;
	bool send_file;		   /* with framed */
	int client_fd;		   /* -1, or the connection: when it is closed the command is asked to stop */
	char *folder;		   /* where it works, removed with the child; NULL without */
	void (*ready)(void *user); /* once: there is output, or it has ended. From the main thread */
	void *user;
};
char **child_words(const char *first, ...) __attribute__((sentinel)); /* copies, for argv */
void child_words_free(char **words);

struct children;
/* wake: makes the main thread call children_turn. */
struct children *children_new(void (*wake)(void *user), void *user);
void children_free(struct children *c); /* kills children that still run */

/* Any thread. Takes the order's memory. The caller owns *ret. ERR_BUSY when there are too many. */
struct err *child_start(struct children *c, struct child_order *order, struct child **ret) MUST_USE;
void child_unref(struct child *child);
DEFINE_CLEANUP(child_unref, struct child *)
/* A number to find it by, and the other way round; the caller owns *ret. */
uint64_t child_id(const struct child *child);
struct err *child_find(struct children *c, uint64_t id, struct child **ret) MUST_USE;
void child_stop(struct child *child, int signal); /* asks it to stop; it is killed when it does not */
bool child_ended(struct child *child);
/* Called once at its end, at once when that is past. From the main thread or this one. */
void child_on_end(struct child *child, void (*fn)(void *user), void *user);
/* After its end: NULL when it succeeded, else what it wrote to standard error, with the kind of its exit code. */
struct err *child_error(struct child *child) MUST_USE;
bool child_said(struct child *child, const char *text); /* on standard error, so far */
struct stream *child_output(struct child *child);	/* the caller's own reference */
const char *child_folder(const struct child *child);

/* The main thread. */
VEC_TYPE(pollfds, struct pollfd);
/* Adds what to wait for; children_turn then gets the same list from `first` on. */
void children_poll(struct children *c, struct pollfds *fds);
void children_turn(struct children *c, const struct pollfds *fds, size_t first);
size_t children_count(struct children *c);
/* Asks all to stop, and kills with `now`. */
void children_stop(struct children *c, bool now);
