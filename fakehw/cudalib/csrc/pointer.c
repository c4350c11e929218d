/* What a pointer is, and memory of the program that a device may reach. */
#include "rt.h"

#include <stdlib.h>
#include <string.h>

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemGetAddressRange", &c);
	if (code)
		return code;
	struct block *b = memory_at(p);
	if (!b)
		return leave(CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = b->addr;
	if (size)
		*size = b->size;
	return leave(CUDA_SUCCESS);
}

/* Attributes by number; size is that of the answer. */
static CUresult attribute(int which, const struct block *b, CUdeviceptr p, void *out)
{
	unsigned u = 0;
	int i;
	uint64_t v = 0;
	switch (which) {
	case 1: memcpy(out, &b->ctx, sizeof b->ctx); return CUDA_SUCCESS;
	case 2: u = b->where == ON_HOST || b->where == REGISTERED ? 1 : 2; break; /* host, device */
	case 3: v = p; memcpy(out, &v, 8); return CUDA_SUCCESS;
	case 4:
		if (b->where == ON_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		v = p;
		memcpy(out, &v, 8);
		return CUDA_SUCCESS;
	case 6: u = 1; break;
	case 7: v = b->addr; memcpy(out, &v, 8); return CUDA_SUCCESS; /* unique while it lives */
	case 8: u = b->where == MANAGED; break;
	case 9: i = (int)(b->ctx->dev - devices); memcpy(out, &i, 4); return CUDA_SUCCESS;
	case 10: u = 0; break;
	case 11: v = b->addr; memcpy(out, &v, 8); return CUDA_SUCCESS;
	case 12: v = b->size; memcpy(out, &v, 8); return CUDA_SUCCESS;
	case 13: u = 1; break;
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
	memcpy(out, &u, 4);
	return CUDA_SUCCESS;
}

API CUresult cuPointerGetAttribute(void *out, int which, CUdeviceptr p)
{
	CUresult code = enter("cuPointerGetAttribute");
	if (code)
		return code;
	struct block *b = memory_at(p);
	if (!out || which <= 0 || !b)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(attribute(which, b, p, out));
}

/* Of a pointer that is not known here, all answers are zero. */
API CUresult cuPointerGetAttributes(unsigned n, int *which, void **out, CUdeviceptr p)
{
	CUresult code = enter("cuPointerGetAttributes");
	if (code)
		return code;
	struct block *b = memory_at(p);
	if (!n || !which || !out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < n && !code; i++) {
		int wide = which[i] == 1 || which[i] == 3 || which[i] == 4 || which[i] == 7 || which[i] == 11 || which[i] == 12;
		memset(out[i], which[i] == 9 && !b ? 0xff : 0, wide ? 8 : 4);
		code = b ? attribute(which[i], b, p, out[i]) : CUDA_SUCCESS;
		if (code == CUDA_ERROR_INVALID_VALUE)
			code = CUDA_SUCCESS; /* it has none: zero */
	}
	return leave(code);
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemHostGetDevicePointer", &c);
	if (code)
		return code;
	struct block *b = memory_at((uintptr_t)p);
	if (!out || flags || !b || (b->where != ON_HOST && b->where != REGISTERED))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (uintptr_t)p;
	return leave(CUDA_SUCCESS);
}

API CUresult cuMemHostGetFlags(unsigned *out, void *p)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemHostGetFlags", &c);
	if (code)
		return code;
	struct block *b = memory_at((uintptr_t)p);
	if (!out || !b || b->where != ON_HOST)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = b->flags | 2; /* with unified addresses all of it is mapped */
	return leave(CUDA_SUCCESS);
}

API CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemHostRegister", &c);
	if (code)
		return code;
	if (!p || !size || flags > 15)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(memory_register(c, (uintptr_t)p, size, flags));
}

API CUresult cuMemHostUnregister(void *p)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemHostUnregister", &c);
	if (code)
		return code;
	struct block *b = memory_at((uintptr_t)p);
	if (!p)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!b || b->addr != (uintptr_t)p || b->where != REGISTERED)
		return leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	memory_drop(b);
	return leave(CUDA_SUCCESS);
}
