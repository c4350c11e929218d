/* What a program asks about kernels, and how many of their blocks fit. */
#include "rt.h"

#include <stdlib.h>

static int threads_of(const struct func *f)
{
	uint64_t n = (uint64_t)f->maxntid[0] * f->maxntid[1] * f->maxntid[2], r = (uint64_t)f->reqntid[0] * f->reqntid[1] * f->reqntid[2];
	n = r ? r : n;
	return n && n < 1024 ? (int)n : 1024;
}

/* Registers that a compiler would hardly need more of than there are values. */
static int registers_of(const struct func *f) { return f->nregs < 10 ? 10 : f->nregs > 255 ? 255 : (int)f->nregs; }

/* Those that only the text and the chip decide. */
CUresult function_attribute(int *out, int which, const struct program *p, const struct func *f, const struct device *d)
{
	switch (which) {
	case 0: *out = threads_of(f); break;
	case 1: *out = (int)f->shared; break;
	case 2: *out = (int)p->constant_size; break;
	case 3: *out = (int)f->local; break;
	case 4: *out = registers_of(f); break;
	case 5: *out = p->target; break;
	case 6: *out = d->major * 10 + d->minor; break;
	case 7: *out = 0; break;
	case 10: case 11: case 12: case 13: case 14: case 15: *out = 0; break; /* no clusters */
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* Dynamic shared memory that a kernel may ask for. */
int most_dynamic(const struct func *f, const struct device *d) { return d->product.shared_optin - (int)f->shared; }

/* with begins a call that only needs a kernel, which may be one of a library. */
static CUresult with(const char *call, CUfunction *k, int ok)
{
	CUresult code = enter(call);
	if (code)
		return code;
	if (!ok)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (object_is(*k, OBJ_LIBRARY_KERNEL) && !current())
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	code = library_function(k, current());
	return code ? leave(code) : CUDA_SUCCESS;
}

API CUresult cuFuncGetAttribute(int *out, int which, CUfunction k)
{
	CUresult code = with("cuFuncGetAttribute", &k, out != 0);
	if (code)
		return code;
	if (which != 8 && which != 9)
		return leave(function_attribute(out, which, k->module->program, k->func, k->object.ctx->dev));
	*out = which == 8 ? k->max_dynamic : k->carveout;
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncSetAttribute(CUfunction k, int which, int value)
{
	CUresult code = with("cuFuncSetAttribute", &k, 1);
	if (code)
		return code;
	if (which == 8 && value >= 0 && value <= most_dynamic(k->func, k->object.ctx->dev))
		k->max_dynamic = value;
	else if (which == 9 && value >= -1 && value <= 100)
		k->carveout = value;
	else
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncSetCacheConfig(CUfunction k, int config)
{
	CUresult code = with("cuFuncSetCacheConfig", &k, config >= 0 && config <= 3);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuFuncSetSharedMemConfig(CUfunction k, int config)
{
	CUresult code = with("cuFuncSetSharedMemConfig", &k, config >= 0 && config <= 2);
	return code ? code : leave(CUDA_SUCCESS);
}

API CUresult cuFuncGetModule(CUmodule *out, CUfunction k)
{
	CUresult code = with("cuFuncGetModule", &k, out != 0);
	if (code)
		return code;
	*out = k->module;
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncGetName(const char **out, CUfunction k)
{
	CUresult code = with("cuFuncGetName", &k, out != 0);
	if (code)
		return code;
	*out = k->func->name;
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncGetParamInfo(CUfunction k, size_t index, size_t *offset, size_t *size)
{
	CUresult code = with("cuFuncGetParamInfo", &k, offset != 0);
	if (code)
		return code;
	const struct var *v = k->func->params;
	while (v && index--)
		v = v->next;
	if (!v)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*offset = v->offset;
	if (size)
		*size = v->size;
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncIsLoaded(int *out, CUfunction k)
{
	CUresult code = with("cuFuncIsLoaded", &k, out != 0);
	if (code)
		return code;
	*out = 1;
	return leave(CUDA_SUCCESS);
}

API CUresult cuFuncLoad(CUfunction k)
{
	CUresult code = with("cuFuncLoad", &k, 1);
	return code ? code : leave(CUDA_SUCCESS);
}

/* Blocks on one multiprocessor: by its threads, blocks, shared memory and registers,
 * which are given to warps by 256. */
static int blocks_fit(const struct kernel *k, int threads, size_t dynamic)
{
	const struct product *p = &k->object.ctx->dev->product;
	int warps = (threads + 31) / 32, fit = p->threads_sm / (warps * 32);
	size_t reserved = (size_t)(p->shared_sm - p->shared_optin), shared = k->func->shared + dynamic + reserved;
	int registers = (registers_of(k->func) * 32 + 255) / 256 * 256 * warps;
	if (threads > threads_of(k->func) || dynamic > (size_t)k->max_dynamic)
		return 0;
	if (fit > p->blocks_sm)
		fit = p->blocks_sm;
	if (shared && (size_t)p->shared_sm / shared < (size_t)fit)
		fit = (int)((size_t)p->shared_sm / shared);
	return 65536 / registers < fit ? 65536 / registers : fit;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, CUfunction k, int threads, size_t dynamic, unsigned flags)
{
	CUresult code = with("cuOccupancyMaxActiveBlocksPerMultiprocessor", &k, out && threads > 0 && flags <= 1);
	if (code)
		return code;
	*out = blocks_fit(k, threads, dynamic);
	return leave(CUDA_SUCCESS);
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction k, int threads, size_t dynamic)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, k, threads, dynamic, 0);
}

/* The size of blocks with which most threads are there at once. */
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction k, size_t (*dynamic_for)(int), size_t dynamic,
                                                       int limit, unsigned flags)
{
	CUresult code = with("cuOccupancyMaxPotentialBlockSize", &k, grid && block && flags <= 1);
	if (code)
		return code;
	int most = threads_of(k->func), best = 0, sms = k->object.ctx->dev->product.sms;
	if (limit > 0 && limit < most)
		most = limit;
	*grid = *block = 0;
	for (int n = most; n > 0; n = (n - 1) / 32 * 32) {
		int fit = blocks_fit(k, n, dynamic_for ? dynamic_for(n) : dynamic);
		if (fit * n > best) {
			best = fit * n;
			*block = n;
			*grid = fit * sms;
		}
	}
	return leave(best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction k, size_t (*dynamic_for)(int), size_t dynamic, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, k, dynamic_for, dynamic, limit, 0);
}

API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction k, int blocks, int threads)
{
	CUresult code = with("cuOccupancyAvailableDynamicSMemPerBlock", &k, out && blocks > 0 && threads > 0);
	if (code)
		return code;
	const struct product *p = &k->object.ctx->dev->product;
	int each = p->shared_sm / blocks - (p->shared_sm - p->shared_optin) - (int)k->func->shared;
	*out = each > 0 ? (size_t)(each > k->max_dynamic ? k->max_dynamic : each) : 0;
	return leave(CUDA_SUCCESS);
}
