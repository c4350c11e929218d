/* What changes the host: asked of it on its channel, seen in its state file when
 * it has answered. The library's lock is held all the while, so that no other
 * thread sees a handle that is half made. */
#include "api.h"
#include "control.h"

#include <stdarg.h>
#include <stdio.h>

/* ask sends a request about the part's GPU: its verb, its address, the rest. */
static unsigned ask(const struct part *at, unsigned *values, int n, const char *verb, const char *format, ...)
{
	char line[MAX_LINE];
	va_list rest;
	if (!at->gpu->has_pci)
		return NOT_SUPPORTED;
	int used = snprintf(line, sizeof line, "%s %s", verb, at->gpu->bus_id);
	va_start(rest, format);
	vsnprintf(line + used, sizeof line - used, format, rest);
	va_end(rest);
	return control_ask(line, values, n);
}

/* again finds the part of a handle in the host as it is now. */
static unsigned again(void *handle, struct part *at)
{
	int bad;
	return handle_find(host_seen(&bad), handle, 0, at);
}

API unsigned nvmlDeviceSetMigMode(void *d, unsigned mode, unsigned *status)
{
	struct part at;
	unsigned values[3], r = begin_at("DeviceSetMigMode", d, 0, &at);
	if (!r && (at.ci || !at.gpu->max_mig))
		r = NOT_SUPPORTED;
	if (!r && (!status || mode > 1))
		r = INVALID_ARGUMENT;
	if (!r)
		r = ask(&at, values, 3, "mig-mode", " %u", mode);
	if (!r)
		*status = values[2];
	return leave(r);
}

API unsigned nvmlDeviceSetPersistenceMode(void *d, unsigned mode)
{
	struct part at;
	unsigned r = begin_at("DeviceSetPersistenceMode", d, 0, &at);
	if (!r && (at.ci || !at.gpu->has_persistence))
		r = NOT_SUPPORTED;
	if (!r && mode > 1)
		r = INVALID_ARGUMENT;
	return leave(r ? r : ask(&at, 0, 0, "persistence", " %u", mode));
}

/* made returns the handle of a new GPU instance. */
static unsigned made(void *d, unsigned id, void **out)
{
	struct part at;
	unsigned r = again(d, &at);
	for (int i = 0; !r && i < at.gpu->ngi; i++)
		if (at.gpu->gi[i].id == id)
			return give_handle(GI, at.gpu, &at.gpu->gi[i], 0, out);
	return r ? r : (unsigned)UNKNOWN; /* the host said that it is there */
}

API unsigned nvmlDeviceCreateGpuInstance(void *d, unsigned profile, void **out)
{
	struct part at;
	unsigned values[3], r = begin_mig("DeviceCreateGpuInstance", d, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r)
		r = ask(&at, values, 3, "create-gi", " %u", profile);
	return leave(r ? r : made(d, values[0], out));
}

API unsigned nvmlDeviceCreateGpuInstanceWithPlacement(void *d, unsigned profile, const struct place *place, void **out)
{
	struct part at;
	unsigned values[3], r = begin_mig("DeviceCreateGpuInstanceWithPlacement", d, &at);
	if (!r && (!out || !place))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < at.gpu->nprofiles; i++) /* the start says it all, the size must fit */
		if (at.gpu->profiles[i].id == profile && at.gpu->profiles[i].nplaces && at.gpu->profiles[i].places[0].size != place->size)
			r = INVALID_ARGUMENT;
	if (!r)
		r = ask(&at, values, 3, "create-gi", " %u %u", profile, place->start);
	return leave(r ? r : made(d, values[0], out));
}

API unsigned nvmlGpuInstanceDestroy(void *instance)
{
	struct part at;
	unsigned r = begin_at("GpuInstanceDestroy", instance, GI, &at);
	return leave(r ? r : ask(&at, 0, 0, "destroy-gi", " %u", at.gi->id));
}

API unsigned nvmlGpuInstanceCreateComputeInstance(void *instance, unsigned profile, void **out)
{
	struct part at;
	unsigned id, r = begin_at("GpuInstanceCreateComputeInstance", instance, GI, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r)
		r = ask(&at, &id, 1, "create-ci", " %u %u", at.gi->id, profile);
	int bad;
	if (!r)
		r = handle_find(host_seen(&bad), instance, GI, &at);
	for (int i = 0; !r && i < at.gi->nci; i++)
		if (at.gi->ci[i].id == id)
			return leave(give_handle(CI, at.gpu, at.gi, &at.gi->ci[i], out));
	return leave(r ? r : UNKNOWN);
}

API unsigned nvmlComputeInstanceDestroy(void *instance)
{
	struct part at;
	unsigned r = begin_at("ComputeInstanceDestroy", instance, CI, &at);
	return leave(r ? r : ask(&at, 0, 0, "destroy-ci", " %u %u", at.gi->id, at.ci->id));
}
