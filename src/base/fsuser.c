#include "base/fsuser.h"
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel drops the same ones when root becomes another user, but not those that were given to a user. */
static const int file_caps[] = { CAP_CHOWN,  CAP_DAC_OVERRIDE,	  CAP_DAC_READ_SEARCH, CAP_FOWNER,
				 CAP_FSETID, CAP_LINUX_IMMUTABLE, CAP_MKNOD,	       CAP_MAC_OVERRIDE };

typedef struct __user_cap_data_struct cap_words[_LINUX_CAPABILITY_U32S_3];
_Static_assert(sizeof(cap_words) == sizeof(((struct fsuser_held *)0)->caps), "both hold all sets");

static bool caps_read(cap_words ret)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	return syscall(SYS_capget, &head, ret) == 0;
}

static bool caps_write(const cap_words caps)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	return syscall(SYS_capset, &head, caps) == 0;
}

static bool caps_have(const cap_words caps, int cap)
{
	return caps[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

/* Setting an id that does not exist changes nothing and returns the one in use. */
uid_t fsuser_uid(void)
{
	return (uid_t)setfsuid((uid_t)-1);
}

static gid_t fsuser_gid(void)
{
	return (gid_t)setfsgid((gid_t)-1);
}

static struct err *remember(struct fsuser_held *h)
{
	cap_words caps;
	h->held = true;
	h->uid = fsuser_uid();
	h->gid = fsuser_gid();
	h->parent = getppid();
	h->dumpable = prctl(PR_GET_DUMPABLE) == 1;
	h->n_groups = getgroups(0, NULL);
	if (prctl(PR_GET_PDEATHSIG, &h->death_signal) < 0 || h->n_groups < 0 || !caps_read(caps))
		return err_errno(errno, "read our own rights");
	memcpy(h->caps, caps, sizeof(caps));
	h->groups = mem_array((size_t)h->n_groups + 1, sizeof(*h->groups));
	if (getgroups(h->n_groups, h->groups) != h->n_groups)
		return err_errno(errno, "read our own groups");
	return NULL;
}

/* By system calls of our own: those of the C library change every thread. */
static struct err *become(const struct fsuser *user, struct fsuser_held *h)
{
	cap_words caps;
	memcpy(caps, h->caps, sizeof(caps));
	if (user->uid == h->uid)
		return NULL;
	if (!caps_have(caps, CAP_SETUID) || !caps_have(caps, CAP_SETGID))
		return h->uid ? NULL
			      : err_new(ERR_DENIED,
					"files for user %u are written with that user's rights, and root needs "
					"CAP_SETUID and CAP_SETGID for that",
					user->uid);
	h->other = true;
	if (syscall(SYS_setgroups, 0, NULL) < 0)
		return err_errno(errno, "leave our groups to write files as user %u", user->uid);
	setfsgid(user->gid);
	setfsuid(user->uid);
	if (fsuser_gid() != user->gid || fsuser_uid() != user->uid)
		return err_new(ERR_DENIED,
			       "cannot write files as user %u and group %u: the kernel does not know them "
			       "here",
			       user->uid, user->gid);
	return NULL;
}

static struct err *put_caps_aside(void)
{
	cap_words caps, now;
	if (!caps_read(caps))
		return err_errno(errno, "read our own rights");
	memcpy(now, caps, sizeof(now));
	for (size_t i = 0; i < ARRAY_SIZE(file_caps); i++)
		now[CAP_TO_INDEX(file_caps[i])].effective &= ~CAP_TO_MASK(file_caps[i]);
	if (!memcmp(now, caps, sizeof(now)))
		return NULL;
	return caps_write(now) ? NULL : err_errno(errno, "put our rights over files aside");
}

struct err *fsuser_begin(const struct fsuser *user, struct fsuser_held *ret)
{
	FSUSER_HELD h = { 0 };
	TRY(remember(&h));
	TRY(become(user, &h));
	TRY(put_caps_aside());
	*ret = h;
	h = (struct fsuser_held){ 0 };
	return NULL;
}

void fsuser_end(struct fsuser_held *h)
{
	int errnum = errno;
	cap_words caps, now;
	memcpy(caps, h->caps, sizeof(caps));
	if (h->other) {
		setfsuid(h->uid);
		setfsgid(h->gid);
		/* Can only fail for want of memory; then we have fewer rights than before. */
		(void)!syscall(SYS_setgroups, h->n_groups, h->groups);
	}
	if (h->held && h->groups && caps_read(now) && memcmp(now, caps, sizeof(now)) != 0)
		caps_write(caps);
	if (h->held && h->dumpable && prctl(PR_GET_DUMPABLE) != 1)
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (h->held && h->death_signal) {
		prctl(PR_SET_PDEATHSIG, h->death_signal);
		if (getppid() != h->parent)
			raise(h->death_signal);
	}
	mem_free(h->groups);
	*h = (struct fsuser_held){ 0 };
	errno = errnum;
}
