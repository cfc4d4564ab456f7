/* Loading and unloading: the runtime loads this library, asks for a profiler, and unloads it once the profiler has
 * asked to be detached.
 *
 * Everything happens on one thread of its own: attaching blocks the runtime's diagnostics server, so it must return at
 * once. The last thing that thread does is to ask to be detached; the runtime unloads us 300 ms later. */
#include "agent/agent.h"
#include "agent/sys.h"
#include <pthread.h>

#define DETACH_MS 300 /* the least that the runtime waits before it unloads a library */

static struct agent agent;

__attribute__((noinline)) static void work(void)
{
	struct wire_agent_note leaving = { .kind = WIRE_AGENT_LEAVING };
	agent.control = line_open(&agent.config, WIRE_AGENT_CONTROL, (int32_t)SYS(getpid));
	if (agent.control < 0)
		return;
	agent.plain = (agent.config.flags & WIRE_AGENT_PLAIN) ||
		      ((agent.config.flags & WIRE_AGENT_UNREAD) && proc_filtered());
	if (agent.config.mode == WIRE_AGENT_IMAGE)
		image_run(&agent);
	else if (agent.config.mode == WIRE_AGENT_CPU)
		cpu_run(&agent);
	line_send(agent.control, &leaving, sizeof(leaving));
}

/* The last call is a jump (a test looks for it): it returns to the C library, never to code that may be gone by then.
 */
static void *thread_run(void *user)
{
	typedef void *last_call(struct cor_profiler_info * self, uint32_t ms);
	(void)user;
	work();
	return ((last_call *)(void *)agent.info->vtbl->RequestProfilerDetach)(agent.info, DETACH_MS);
}

/* ---- what the runtime calls ---- */

static com_hr initialize_for_attach(struct cor_profiler_callback *self, void *unknown, void *data, uint32_t len)
{
	static const struct com_guid wanted = COM_IID_COR_PROFILER_INFO;
	struct com_unknown *offered = unknown;
	(void)self;
	if (len != sizeof(agent.config) || !data)
		return COM_E_FAIL;
	agent = (struct agent){ .control = -1 };
	memcpy(&agent.config, data, sizeof(agent.config));
	if (memcmp(agent.config.magic, WIRE_AGENT_MAGIC, sizeof(agent.config.magic)) != 0 ||
	    agent.config.version != WIRE_AGENT_VERSION || agent.config.size != sizeof(agent.config))
		return COM_E_FAIL;
	agent.end_ns = sys_now_ns() + (uint64_t)agent.config.life_ms * 1000000;
	return offered->vtbl->QueryInterface(offered, &wanted, (void **)&agent.info);
}

/* No signal ever runs on our thread: it inherits the mask. */
static com_hr attach_complete(struct cor_profiler_callback *self)
{
	uint64_t all = ~(uint64_t)0, old = 0;
	pthread_t thread;
	(void)self;
	SYS(rt_sigprocmask, 2 /* SIG_SETMASK */, &all, &old, sizeof(all));
	bool started = pthread_create(&thread, NULL, thread_run, NULL) == 0;
	SYS(rt_sigprocmask, 2 /* SIG_SETMASK */, &old, 0, sizeof(old));
	if (started)
		pthread_detach(thread);
	else
		COM_CALL(agent.info, RequestProfilerDetach, DETACH_MS);
	return COM_OK;
}

/* No thread runs our code any more but this call; closing the connection tells drdotnet so. */
static com_hr detach_succeeded(struct cor_profiler_callback *self)
{
	(void)self;
	if (agent.control >= 0)
		SYS(close, agent.control);
	return COM_OK;
}

/* As a notification profiler beside the main one: an APM stays as it is, and one of ours that is about to leave does
 * not matter. We only ask to suspend the runtime, which such a profiler may. */
static com_hr as_notification_only(struct cor_profiler_callback *self, int32_t *ret)
{
	(void)self;
	*ret = 1;
	return COM_OK;
}

/* ---- objects: static, so that references need not be counted ---- */

static com_hr callback_query(struct cor_profiler_callback *self, const struct com_guid *iid, void **ret)
{
	(void)iid; /* one table serves all versions */
	*ret = self;
	return COM_OK;
}

static uint32_t callback_count(struct cor_profiler_callback *self)
{
	(void)self;
	return 1;
}

/* No argument is used, so one function fills every slot. */
static com_hr nothing(void)
{
	return COM_OK;
}

#define FILL_(T, slot, name, ...) .name = (void *)nothing,
#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
static const struct cor_profiler_callback_vtbl callback_vtbl = {
	.QueryInterface = callback_query,
	.AddRef = callback_count,
	.Release = callback_count,
	COR_PROFILER_CALLBACK(FILL_, cor_profiler_callback)
		/* and those that do something */
		.InitializeForAttach = initialize_for_attach,
	.ProfilerAttachComplete = attach_complete,
	.ProfilerDetachSucceeded = detach_succeeded,
	.LoadAsNotificationOnly = as_notification_only,
};
#pragma GCC diagnostic pop
static struct cor_profiler_callback callback = { &callback_vtbl };

static com_hr factory_query(struct com_class_factory *self, const struct com_guid *iid, void **ret)
{
	(void)iid;
	*ret = self;
	return COM_OK;
}

static uint32_t factory_count(struct com_class_factory *self)
{
	(void)self;
	return 1;
}

static com_hr factory_create(struct com_class_factory *self, void *outer, const struct com_guid *iid, void **ret)
{
	(void)self;
	(void)outer;
	return callback_query(&callback, iid, ret);
}

static com_hr factory_lock(struct com_class_factory *self, com_bool lock)
{
	(void)self;
	(void)lock;
	return COM_OK;
}

static const struct com_class_factory_vtbl factory_vtbl = {
	.QueryInterface = factory_query,
	.AddRef = factory_count,
	.Release = factory_count,
	.CreateInstance = factory_create,
	.LockServer = factory_lock,
};
static struct com_class_factory factory = { &factory_vtbl };

/* The one name that this library exports. */
__attribute__((visibility("default"))) com_hr DllGetClassObject(const struct com_guid *clsid,
								const struct com_guid *iid, void **ret);
com_hr DllGetClassObject(const struct com_guid *clsid, const struct com_guid *iid, void **ret)
{
	(void)clsid;
	(void)iid;
	*ret = &factory;
	return COM_OK;
}
