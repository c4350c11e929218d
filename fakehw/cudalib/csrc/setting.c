/* Settings of a context, and the access of devices to each other. */
#include "rt.h"

#include <stdlib.h>

API CUresult cuCtxSetLimit(int which, size_t value)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuCtxSetLimit", &c);
	if (code)
		return code;
	if (which < 0 || which > 6)
		return leave(which < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT);
	c->limits[which] = value;
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxGetLimit(size_t *out, int which)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuCtxGetLimit", &c);
	if (code)
		return code;
	if (!out || which < 0 || which > 6)
		return leave(!out || which < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT);
	*out = c->limits[which];
	return leave(CUDA_SUCCESS);
}

static CUresult set(const char *call, int value, int most, size_t at)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (value < 0 || value > most)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*(int *)((char *)c + at) = value;
	return leave(CUDA_SUCCESS);
}

static CUresult get(const char *call, int *out, size_t at)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = *(int *)((char *)c + at);
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxSetCacheConfig(int config) { return set("cuCtxSetCacheConfig", config, 3, offsetof(struct ctx, cache_config)); }
API CUresult cuCtxGetCacheConfig(int *out) { return get("cuCtxGetCacheConfig", out, offsetof(struct ctx, cache_config)); }
API CUresult cuCtxSetSharedMemConfig(int config) { return set("cuCtxSetSharedMemConfig", config, 2, offsetof(struct ctx, shared_config)); }
API CUresult cuCtxGetSharedMemConfig(int *out) { return get("cuCtxGetSharedMemConfig", out, offsetof(struct ctx, shared_config)); }
API CUresult cuCtxGetFlags(unsigned *out) { return get("cuCtxGetFlags", (int *)out, offsetof(struct ctx, flags)); }

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuCtxGetStreamPriorityRange", &c);
	if (code)
		return code;
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return leave(CUDA_SUCCESS);
}

static CUresult peer(const char *call, CUcontext other, int allow)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!alive(other))
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	long n = other->dev - devices;
	uint32_t *word = &c->peers[n / 32], bit = 1u << (n % 32);
	if (other->dev == c->dev || other->dev->integrated || c->dev->integrated)
		return leave(allow ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	if (allow ? *word & bit : !(*word & bit))
		return leave(allow ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	*word ^= bit;
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxEnablePeerAccess(CUcontext other, unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : peer("cuCtxEnablePeerAccess", other, 1); }
API CUresult cuCtxDisablePeerAccess(CUcontext other) { return peer("cuCtxDisablePeerAccess", other, 0); }

/* 1 performance rank, 2 access, 3 native atomics, 4 arrays */
API CUresult cuDeviceGetP2PAttribute(int *out, int which, CUdevice from, CUdevice to)
{
	CUresult code = enter("cuDeviceGetP2PAttribute");
	if (code)
		return code;
	if (!out || which < 1 || which > 4 || (device_of(from) && from == to))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device_of(from) || !device_of(to))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*out = which == 2 && !device_of(from)->integrated && !device_of(to)->integrated;
	return leave(CUDA_SUCCESS);
}

/* Nothing is profiled, and no profiler is told. */
API CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
API CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }
