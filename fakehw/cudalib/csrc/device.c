/* What a program asks about devices. */
#define _GNU_SOURCE
#include "host.h"
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Works before cuInit, and without a driver: it is the library's own version. */
API CUresult cuDriverGetVersion(int *out)
{
	int line;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	enter_any();
	struct host *h = host_now(&line);
	*out = h && h->has_cuda ? (int)h->cuda : DEFAULT_CUDA;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceGetCount(int *out)
{
	CUresult code = enter("cuDeviceGetCount");
	if (code)
		return code;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = ndevices;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
	CUresult code = enter("cuDeviceGet");
	if (code)
		return code;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device_of(ordinal))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*out = ordinal;
	return leave(CUDA_SUCCESS);
}

/* with begins a call on a device whose answer goes to out. */
static CUresult with(const char *call, CUdevice dev, const void *out, struct device **d)
{
	CUresult code = enter(call);
	if (code)
		return code;
	*d = device_of(dev);
	return !out ? leave(CUDA_ERROR_INVALID_VALUE) : *d ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_DEVICE);
}

API CUresult cuDeviceGetName(char *out, int size, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceGetName", dev, size > 0 ? out : 0, &d);
	if (code)
		return code;
	snprintf(out, (size_t)size, "%s", d->name);
	return leave(CUDA_SUCCESS);
}

/* The newer call gives a MIG device its own UUID, the older one its GPU's. */
API CUresult cuDeviceGetUuid_v2(CUuuid *out, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceGetUuid", dev, out, &d);
	if (code)
		return code;
	*out = d->id;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceGetUuid(CUuuid *out, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceGetUuid", dev, out, &d);
	if (code)
		return code;
	*out = d->parent_id;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceTotalMem", dev, out, &d);
	if (code)
		return code;
	*out = d->memory;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceComputeCapability", dev, minor ? major : 0, &d);
	if (code)
		return code;
	*major = d->major;
	*minor = d->minor;
	return leave(CUDA_SUCCESS);
}

/* 13 characters with their end: domain:bus:device.function. */
API CUresult cuDeviceGetPCIBusId(char *out, int size, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceGetPCIBusId", dev, size > 0 ? out : 0, &d);
	if (code)
		return code;
	if ((size_t)size <= strlen(d->bus_id))
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i <= strlen(d->bus_id); i++)
		out[i] = d->bus_id[i] >= 'a' ? (char)(d->bus_id[i] - 32) : d->bus_id[i];
	return leave(CUDA_SUCCESS);
}

API CUresult cuDeviceGetByPCIBusId(CUdevice *out, const char *text)
{
	unsigned domain = 0, bus, slot, function = 0;
	int n = 0;
	CUresult code = enter("cuDeviceGetByPCIBusId");
	if (code)
		return code;
	if (!out || !text)
		return leave(CUDA_ERROR_INVALID_VALUE);
	int ok = (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) == 4 && !text[n]) ||
	         (sscanf(text, "%8x:%2x:%2x%n", &domain, &bus, &slot, &n) == 3 && !text[n]) ||
	         ((domain = 0), sscanf(text, "%2x:%2x.%1x%n", &bus, &slot, &function, &n) == 3 && !text[n]);
	for (int i = 0; ok && i < ndevices; i++)
		if (devices[i].domain == domain && devices[i].bus == bus && devices[i].slot == slot) {
			*out = i;
			return leave(CUDA_SUCCESS);
		}
	return leave(ok ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
}

/* LUIDs are Windows'. */
API CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice dev)
{
	struct device *d;
	CUresult code = with("cuDeviceGetLuid", dev, mask ? luid : 0, &d);
	return code ? code : leave(CUDA_ERROR_NOT_SUPPORTED);
}

API CUresult cuDeviceCanAccessPeer(int *out, CUdevice dev, CUdevice peer)
{
	struct device *d;
	CUresult code = with("cuDeviceCanAccessPeer", dev, out, &d);
	if (code)
		return code;
	if (!device_of(peer))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*out = dev != peer && !d->integrated && !devices[peer].integrated;
	return leave(CUDA_SUCCESS);
}
