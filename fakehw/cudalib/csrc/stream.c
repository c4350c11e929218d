/* Streams and events. Work is done when its call returns, so a stream is always at
 * its end; events hold the time at which they were recorded. */
#include "rt.h"

#include <stdlib.h>
#include <time.h>

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The default streams are no objects: 0, and the two constants for it. */
static int is_default(CUstream s) { return (uintptr_t)s <= 2; }
static int is_stream(CUstream s) { return is_default(s) || object_is(s, OBJ_STREAM); }

CUresult check_stream(CUstream s)
{
	if (is_default(s))
		return CUDA_SUCCESS;
	CUresult code = enter("");
	return code ? code : leave(is_stream(s) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

API CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	static unsigned long long last;
	struct ctx *c;
	CUresult code = enter_ctx("cuStreamCreate", &c);
	if (code)
		return code;
	if (!out || flags > 1)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *s = calloc(1, sizeof *s);
	if (!s)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	s->flags = flags;
	s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	s->id = 8 + ++last;
	object_add(s, OBJ_STREAM, c);
	*out = s;
	return leave(CUDA_SUCCESS);
}

API CUresult cuStreamCreate(CUstream *out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

/* with begins a call on a stream: the library is up and the handle is good. */
static CUresult with(const char *call, CUstream s)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	return is_stream(s) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

API CUresult cuStreamDestroy_v2(CUstream s)
{
	CUresult code = with("cuStreamDestroy", s);
	if (code)
		return code;
	if (is_default(s))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	object_drop(s);
	free(s);
	return leave(CUDA_SUCCESS);
}

API CUresult cuStreamSynchronize(CUstream s)
{
	CUresult code = with("cuStreamSynchronize", s);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuStreamQuery(CUstream s)
{
	CUresult code = with("cuStreamQuery", s);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
	CUresult code = with("cuStreamWaitEvent", s);
	if (code)
		return code;
	if (flags > 1)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(object_is(e, OBJ_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

#define STREAM_FACT(name, T, of_default, of) \
	API CUresult name(CUstream s, T *out) \
	{ \
		CUresult code = with(#name, s); \
		if (code) \
			return code; \
		if (!out) \
			return leave(CUDA_ERROR_INVALID_VALUE); \
		*out = is_default(s) ? of_default : of; \
		return leave(CUDA_SUCCESS); \
	}
STREAM_FACT(cuStreamGetFlags, unsigned, 0, s->flags)
STREAM_FACT(cuStreamGetPriority, int, 0, s->priority)
STREAM_FACT(cuStreamGetId, unsigned long long, (unsigned long long)(uintptr_t)s, s->id)
STREAM_FACT(cuStreamGetCtx, CUcontext, current(), s->object.ctx)
STREAM_FACT(cuStreamGetDevice, CUdevice, (CUdevice)(current()->dev - devices), (CUdevice)(s->object.ctx->dev - devices))
STREAM_FACT(cuStreamIsCapturing, int, 0, 0)

API CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuEventCreate", &c);
	if (code)
		return code;
	if (!out || flags > 7 || (flags & 6) == 4)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct event *e = calloc(1, sizeof *e);
	if (!e)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	e->flags = flags;
	object_add(e, OBJ_EVENT, c);
	*out = e;
	return leave(CUDA_SUCCESS);
}

static CUresult with_event(const char *call, CUevent e)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	return object_is(e, OBJ_EVENT) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

API CUresult cuEventRecord(CUevent e, CUstream s)
{
	CUresult code = with_event("cuEventRecord", e);
	if (code)
		return code;
	if (!is_stream(s) || (!is_default(s) && s->object.ctx != e->object.ctx))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	e->recorded = 1;
	e->at = now_ns();
	return leave(CUDA_SUCCESS);
}

API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags)
{
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(e, s);
}

API CUresult cuEventQuery(CUevent e)
{
	CUresult code = with_event("cuEventQuery", e);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuEventSynchronize(CUevent e)
{
	CUresult code = with_event("cuEventSynchronize", e);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	CUresult code = with_event("cuEventElapsedTime", from);
	if (code)
		return code;
	if (!ms)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!object_is(to, OBJ_EVENT) || !from->recorded || !to->recorded || (from->flags & 2) || (to->flags & 2))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	*ms = (float)((double)(to->at - from->at) / 1e6);
	return leave(CUDA_SUCCESS);
}
API CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) { return cuEventElapsedTime(ms, from, to); }

API CUresult cuEventDestroy_v2(CUevent e)
{
	CUresult code = with_event("cuEventDestroy", e);
	if (code)
		return code;
	object_drop(e);
	free(e);
	return leave(CUDA_SUCCESS);
}
