/* Somebody else's profiler: it is attached, does nothing, and stays until the process ends. */
#include "com/profiler.h"

static com_hr query(void *self, const struct com_guid *iid, void **ret)
{
	(void)iid;
	*ret = self;
	return COM_OK;
}

static uint32_t count(void *self)
{
	(void)self;
	return 1;
}

static com_hr nothing(void)
{
	return COM_OK;
}

#define FILL_(T, slot, name, ...) .name = (void *)nothing,
static const struct cor_profiler_callback_vtbl vtbl = { .QueryInterface = (void *)query,
							.AddRef = (void *)count,
							.Release = (void *)count,
							COR_PROFILER_CALLBACK(FILL_, cor_profiler_callback) };
static struct cor_profiler_callback callback = { &vtbl };

static com_hr create(struct com_class_factory *self, void *outer, const struct com_guid *iid, void **ret)
{
	(void)self;
	(void)outer;
	return query(&callback, iid, ret);
}

static const struct com_class_factory_vtbl factory_vtbl = { .QueryInterface = (void *)query,
							    .AddRef = (void *)count,
							    .Release = (void *)count,
							    .CreateInstance = create,
							    .LockServer = (void *)nothing };
static struct com_class_factory factory = { &factory_vtbl };

__attribute__((visibility("default"))) com_hr DllGetClassObject(const struct com_guid *clsid,
								const struct com_guid *iid, void **ret);
com_hr DllGetClassObject(const struct com_guid *clsid, const struct com_guid *iid, void **ret)
{
	(void)clsid;
	(void)iid;
	*ret = &factory;
	return COM_OK;
}
