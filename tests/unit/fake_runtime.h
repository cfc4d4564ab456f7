#pragma once
/* A runtime that only speaks: the diagnostics protocol on a unix socket, served by a thread. It can be of any age and
 * in any mood. It copies what it is given. */

#include "base/buf.h"

enum fake_mood {
	FAKE_WELL,
	FAKE_SLOW,	  /* its answers come byte by byte */
	FAKE_SILENT,	  /* takes calls and never answers */
	FAKE_DEAF,	  /* does not even take calls: its queue is full */
	FAKE_STARTING,	  /* refuses: not ready yet */
	FAKE_WRONG_MAGIC, /* lies: not our protocol */
	FAKE_SHORT_SIZE,  /* lies: a message shorter than its header */
	FAKE_LONG_SIZE,	  /* lies: promises more than it sends, and hangs up */
	FAKE_WRONG_KIND,  /* lies: answers with a request */
	FAKE_HUGE_STRING, /* lies: a string of four thousand million units */
	FAKE_EMPTY,	  /* says OK and nothing else */
	FAKE_DIES,	  /* hangs up in the middle of its answer */
	FAKE_HANGS_UP,	  /* hangs up at once */
};

struct fake_config {
	int release; /* 3, 5, 7, 8, 9, 10 or 11: which commands it knows */
	enum fake_mood mood;
	const char *assembly; /* NULL = "Fake" */
	uint8_t cookie;	      /* all 16 bytes of it */
	const void *stream;   /* sent behind the answer to CollectTracing; ends when the session is stopped */
	size_t stream_len;
	bool hangs_up; /* a stream ends behind these bytes, whether it was stopped or not */
};

struct fake_runtime;
/* Listens on path, which must not exist. Fails the test when it cannot. */
struct fake_runtime *fake_runtime_start(const char *path, struct fake_config config);
/* Ends it and removes the socket. */
void fake_runtime_stop(struct fake_runtime *f);
/* The requests it has read, one behind the other; a copy for the caller to free. */
struct buf fake_runtime_requests(struct fake_runtime *f);
