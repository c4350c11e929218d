/*
 * Launches. A kernel has run when the call returns; what went wrong in it is heard
 * from the next call on, as with the real library, and stays with the context.
 */
#define _GNU_SOURCE
#include "exec.h"
#include "rt.h"

#include <stdlib.h>
#include <string.h>

static CUresult check_shape(const struct kernel *k, const uint32_t *grid, const uint32_t *block, uint32_t dynamic)
{
	const struct func *f = k->func;
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2], most = 1;
	if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
		return CUDA_ERROR_INVALID_VALUE;
	if (!threads || block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < 3; i++) {
		most *= f->maxntid[i];
		if (f->reqntid[0] && block[i] != f->reqntid[i])
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (f->maxntid[0] && threads > most)
		return CUDA_ERROR_INVALID_VALUE;
	return dynamic > (uint32_t)k->max_dynamic ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* The parameters as one piece: an array of pointers, or a buffer and its size in
 * "extra", ended by 0. */
static CUresult gather(const struct func *f, void **params, void **extra, char *to)
{
	if (!f->nparams)
		return CUDA_SUCCESS;
	if (params && extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (params) {
		for (const struct var *v = f->params; v; v = v->next, params++) {
			if (!*params)
				return CUDA_ERROR_INVALID_VALUE;
			memcpy(to + v->offset, *params, v->size);
		}
		return CUDA_SUCCESS;
	}
	const char *from = 0;
	size_t size = 0;
	for (; extra && *extra; extra += 2) {
		if (*extra == (void *)1)
			from = extra[1];
		else if (*extra == (void *)2 && extra[1])
			size = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!from || size < f->param_size)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(to, from, f->param_size);
	return CUDA_SUCCESS;
}

static uint64_t most_steps(void)
{
	const char *steps = secure_getenv("GPURIG_CUDA_STEPS");
	return steps ? strtoull(steps, 0, 10) : 0;
}

static void run(struct ctx *c, struct kernel *k, struct launch *l)
{
	static uint64_t last_grid;
	struct fault fault;
	l->f = k->func;
	l->sms = (uint32_t)(c->dev->product.sms > 0 ? c->dev->product.sms : 1);
	l->gridid = ++last_grid;
	l->steps = most_steps();
	l->find = memory_find;
	l->of = c;
	memory_windows(&l->shared_window, &l->local_window);
	if (exec_launch(l, &fault)) {
		c->sticky = fault.code;
		say(0, "kernel %s, line %d: %s", k->func->name, fault.line, fault.text);
	}
}

static CUresult launch(const char *call, CUfunction k, const uint32_t *grid, const uint32_t *block, uint32_t dynamic, CUstream s, void **params, void **extra)
{
	struct ctx *c;
	CUresult code = check_stream(s);
	if (code || (code = enter_ctx(call, &c)))
		return code;
	if ((code = library_function(&k, c)))
		return leave(code);
	if (k->object.ctx != c)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (k->func->unsupported) {
		say(1, "kernel %s, line %d: not supported here: %s", k->func->name, k->func->unsupported_line, k->func->unsupported);
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	if ((code = check_shape(k, grid, block, dynamic)))
		return leave(code);
	struct launch l = {.grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]}, .dynamic = dynamic};
	char *buffer = calloc(1, k->func->param_size + 16);
	if (!buffer)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	l.params = buffer;
	code = gather(k->func, params, extra, buffer);
	if (!code)
		run(c, k, &l);
	free(buffer);
	return leave(code);
}

API CUresult cuLaunchKernel(CUfunction k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned dynamic,
                            CUstream s, void **params, void **extra)
{
	const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
	return launch("cuLaunchKernel", k, grid, block, dynamic, s, params, extra);
}

/* The shape, dynamic memory and stream; attributes other than "ignore" are not
 * modelled. */
struct config {
	unsigned grid[3], block[3], dynamic;
	CUstream stream;
	struct attribute {
		int id;
		char pad[4];
		char value[64];
	} *attributes;
	unsigned n;
};

API CUresult cuLaunchKernelEx(const struct config *x, CUfunction k, void **params, void **extra)
{
	if (!x || (x->n && !x->attributes))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < x->n; i++)
		if (x->attributes[i].id) {
			say(1, "not supported here: launch attribute %d", x->attributes[i].id);
			return CUDA_ERROR_NOT_SUPPORTED;
		}
	return launch("cuLaunchKernelEx", k, x->grid, x->block, x->dynamic, x->stream, params, extra);
}
