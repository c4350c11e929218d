/* Contexts: each thread has a stack of them, and each device a primary one. */
#include "rt.h"

#include <stdlib.h>
#include <string.h>

/* Contexts are not freed: another thread's stack may still name one, and shall hear
 * that it is destroyed. */
static struct ctx *contexts;
static unsigned long long last_id;

static _Thread_local struct ctx *stack[MAX_STACK];
static _Thread_local int depth;

enum { API_VERSION = 3020, MOST_FLAGS = 0x1ff };

struct ctx *current(void) { return depth ? stack[depth - 1] : 0; }

int alive(struct ctx *c)
{
	for (struct ctx *x = contexts; x; x = x->next)
		if (x == c)
			return x->alive;
	return 0;
}

static struct ctx *new_context(struct device *d, unsigned flags)
{
	struct ctx *c = calloc(1, sizeof *c);
	if (!c)
		return 0;
	c->dev = d;
	c->alive = 1;
	c->flags = flags;
	c->version = API_VERSION;
	c->id = ++last_id;
	c->limits[0] = 1024;           /* stack */
	c->limits[1] = 1 << 20;        /* printf */
	c->limits[2] = 8 << 20;        /* malloc */
	c->limits[4] = 2048;           /* pending launches */
	c->limits[5] = 64;             /* fetch granularity */
	c->next = contexts;
	contexts = c;
	return c;
}

void push(struct ctx *c)
{
	if (depth < MAX_STACK)
		stack[depth++] = c;
}

void drop_context(struct ctx *c)
{
	for (struct object *o; (o = object_of(c));) {
		if (o->kind == OBJ_MODULE) {
			module_drop((struct module *)o);
		} else {
			object_drop(o);
			free(o);
		}
	}
	memory_of_ctx_drop(c);
	c->alive = 0;
}

static CUresult create(const char *call, CUcontext *out, unsigned flags, CUdevice dev)
{
	CUresult code = enter(call);
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!out || flags > MOST_FLAGS || (flags & 7) == 3 || (flags & 7) > 4)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!d)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if ((code = on_bus(d)))
		return leave(code);
	struct ctx *c = depth < MAX_STACK ? new_context(d, flags) : 0;
	if (!c)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	push(c);
	*out = c;
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice dev) { return create("cuCtxCreate", out, flags, dev); }
API CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice dev) { return create("cuCtxCreate", out, flags, dev); }

/* With parameters for the affinity to multiprocessors, which is not modelled. */
API CUresult cuCtxCreate_v3(CUcontext *out, void *affinity, int n, unsigned flags, CUdevice dev)
{
	if (affinity || n)
		return CUDA_ERROR_NOT_SUPPORTED;
	return create("cuCtxCreate", out, flags, dev);
}

API CUresult cuCtxCreate_v4(CUcontext *out, void *params, unsigned flags, CUdevice dev)
{
	void *const *p = params; /* affinity, number, graphics: all must be absent */
	if (p && (p[0] || p[2]))
		return CUDA_ERROR_NOT_SUPPORTED;
	return create("cuCtxCreate", out, flags, dev);
}

API CUresult cuCtxDestroy_v2(CUcontext c)
{
	CUresult code = enter("cuCtxDestroy");
	if (code)
		return code;
	if (!alive(c) || c->is_primary)
		return leave(c ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
	drop_context(c);
	if (current() == c)
		depth--;
	return leave(CUDA_SUCCESS);
}
API CUresult cuCtxDestroy(CUcontext c) { return cuCtxDestroy_v2(c); }

API CUresult cuCtxPushCurrent_v2(CUcontext c)
{
	CUresult code = enter("cuCtxPushCurrent");
	if (code)
		return code;
	if (!alive(c) || depth == MAX_STACK)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	push(c);
	return leave(CUDA_SUCCESS);
}
API CUresult cuCtxPushCurrent(CUcontext c) { return cuCtxPushCurrent_v2(c); }

API CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
	CUresult code = enter("cuCtxPopCurrent");
	if (code)
		return code;
	if (!depth)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	depth--;
	if (out)
		*out = stack[depth];
	return leave(CUDA_SUCCESS);
}
API CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

API CUresult cuCtxSetCurrent(CUcontext c)
{
	CUresult code = enter("cuCtxSetCurrent");
	if (code)
		return code;
	if (c && !alive(c))
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (depth)
		depth--;
	if (c)
		push(c);
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxGetCurrent(CUcontext *out)
{
	CUresult code = enter("cuCtxGetCurrent");
	if (code)
		return code;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = current();
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxGetDevice(CUdevice *out)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuCtxGetDevice", &c);
	if (code)
		return code;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUdevice)(c->dev - devices);
	return leave(CUDA_SUCCESS);
}

/* Launches are done when they return, so there is nothing to wait for. */
API CUresult cuCtxSynchronize(void)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuCtxSynchronize", &c);
	return code ? code : leave(CUDA_SUCCESS);
}

/* given returns the context that a call names, or the current one. */
static struct ctx *given(CUcontext c)
{
	struct ctx *x = c ? c : current();
	return x && alive(x) ? x : 0;
}

API CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext c)
{
	CUresult code = enter("cuCtxGetDevice");
	if (code)
		return code;
	struct ctx *x = given(c);
	if (!x || !out)
		return leave(x ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
	*out = (CUdevice)(x->dev - devices);
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxSynchronize_v2(CUcontext c)
{
	CUresult code = enter("cuCtxSynchronize");
	if (code)
		return code;
	struct ctx *x = given(c);
	if (x && !x->sticky)
		x->sticky = on_bus(x->dev);
	return leave(x ? x->sticky : CUDA_ERROR_INVALID_CONTEXT);
}

API CUresult cuCtxGetApiVersion(CUcontext c, unsigned *out)
{
	CUresult code = enter("cuCtxGetApiVersion");
	if (code)
		return code;
	struct ctx *x = given(c);
	if (!x || !out)
		return leave(x ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
	*out = x->version;
	return leave(CUDA_SUCCESS);
}

API CUresult cuCtxGetId(CUcontext c, unsigned long long *out)
{
	CUresult code = enter("cuCtxGetId");
	if (code)
		return code;
	struct ctx *x = given(c);
	if (!x || !out)
		return leave(x ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_CONTEXT_IS_DESTROYED);
	*out = x->id;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
	CUresult code = enter("cuDevicePrimaryCtxRetain");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!d || !out)
		return leave(d ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE);
	if ((code = on_bus(d)))
		return leave(code);
	if (!d->primary || !d->primary->alive) {
		d->primary = new_context(d, d->primary_flags);
		if (!d->primary)
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
		d->primary->is_primary = 1;
	}
	d->primary_refs++;
	*out = d->primary;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult code = enter("cuDevicePrimaryCtxRelease");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!d || !d->primary_refs)
		return leave(d ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_DEVICE);
	if (!--d->primary_refs)
		drop_context(d->primary);
	return leave(CUDA_SUCCESS);
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }

/* Reset destroys what is in it; whoever retained it gets a new one. */
API CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult code = enter("cuDevicePrimaryCtxReset");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!d)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (d->primary && d->primary->alive)
		drop_context(d->primary);
	d->primary_refs = 0;
	return leave(CUDA_SUCCESS);
}
API CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }

API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	CUresult code = enter("cuDevicePrimaryCtxGetState");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!d || !flags || !active)
		return leave(d ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE);
	*active = d->primary && d->primary->alive;
	*flags = *active ? d->primary->flags : d->primary_flags;
	return leave(CUDA_SUCCESS);
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
	CUresult code = enter("cuDevicePrimaryCtxSetFlags");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!d || flags > MOST_FLAGS || (flags & 7) == 3 || (flags & 7) > 4)
		return leave(d ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE);
	d->primary_flags = flags;
	if (d->primary && d->primary->alive)
		d->primary->flags = flags;
	return leave(CUDA_SUCCESS);
}
API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }
