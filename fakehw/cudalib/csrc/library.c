/*
 * Libraries: modules that belong to no context. A library is parsed when it is
 * loaded, for the newest of the devices, and becomes a module of a context when it
 * is first used there. A kernel of a library may stand wherever a launch or an
 * occupancy call takes a function: it is then that of the current context.
 */
#include "rt.h"

#include <stdlib.h>
#include <string.h>

struct lkernel {
	struct object object;
	struct lkernel *next;
	struct library *library;
	struct func *func; /* of the library's own program */
	int max_dynamic[MAX_DEVICES], carveout[MAX_DEVICES];
};

struct library {
	struct object object;
	char *text;
	struct program *program;
	struct module *modules; /* one for each context that used it */
	struct lkernel *kernels;
};

void library_forget(struct module *m)
{
	for (struct module **x = &m->library->modules; *x; x = &(*x)->sibling)
		if (*x == m) {
			*x = m->sibling;
			return;
		}
}

static void library_drop(struct library *l)
{
	while (l->modules)
		module_drop(l->modules);
	for (struct lkernel *k = l->kernels, *next; k; k = next) {
		next = k->next;
		object_drop(k);
		free(k);
	}
	object_drop(l);
	ptx_free(l->program);
	free(l->text);
	free(l);
}

static const struct device *newest(void)
{
	const struct device *d = devices;
	for (int i = 1; i < ndevices; i++)
		if (devices[i].major * 10 + devices[i].minor > d->major * 10 + d->minor)
			d = &devices[i];
	return d;
}

/* Options of libraries tell who owns the text, and are none that change what runs. */
static CUresult load(const char *call, CUlibrary *out, const char *image, const int *options, void **values, unsigned n)
{
	struct mistake mistake = {.code = CUDA_ERROR_OUT_OF_MEMORY, .text = "out of memory"};
	CUresult code = enter(call);
	if (code)
		return code;
	if (!out || !image || (n && (!options || !values)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if ((code = check_image(image)))
		return leave(code);
	struct library *l = calloc(1, sizeof *l);
	if (l && (l->text = strdup(image)))
		l->program = parse_text(newest(), l->text, &mistake);
	code = l && l->program ? CUDA_SUCCESS : mistake.code;
	answer_options(n, options, values, code, &mistake);
	if (code) {
		if (l)
			free(l->text);
		free(l);
		return leave(code);
	}
	object_add(l, OBJ_LIBRARY, 0);
	*out = l;
	return leave(CUDA_SUCCESS);
}

API CUresult cuLibraryLoadData(CUlibrary *out, const void *image, int *options, void **values, unsigned n, int *own, void **own_values,
                               unsigned own_n)
{
	if (own_n && (!own || !own_values))
		return CUDA_ERROR_INVALID_VALUE;
	return load("cuLibraryLoadData", out, image, options, values, n);
}

API CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *options, void **values, unsigned n, int *own, void **own_values,
                                   unsigned own_n)
{
	char *text;
	if (!out || !path || (own_n && (!own || !own_values)))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult code = read_image(path, &text);
	if (!code)
		code = load("cuLibraryLoadFromFile", out, text, options, values, n);
	free(text);
	return code;
}

/* begin begins a call about a library. */
static CUresult begin(const char *call, CUlibrary l, int ok)
{
	CUresult code = enter(call);
	if (code)
		return code;
	if (!ok)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return object_is(l, OBJ_LIBRARY) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

API CUresult cuLibraryUnload(CUlibrary l)
{
	CUresult code = begin("cuLibraryUnload", l, 1);
	if (code)
		return code;
	library_drop(l);
	return leave(CUDA_SUCCESS);
}

static struct lkernel *of_library(struct library *l, struct func *f)
{
	for (struct lkernel *k = l->kernels; k; k = k->next)
		if (k->func == f)
			return k;
	struct lkernel *k = calloc(1, sizeof *k);
	if (!k)
		return 0;
	k->library = l;
	k->func = f;
	for (int i = 0; i < MAX_DEVICES; i++) {
		k->max_dynamic[i] = (48 << 10) - (int)f->shared;
		k->carveout[i] = -1;
	}
	k->next = l->kernels;
	l->kernels = k;
	object_add(k, OBJ_LIBRARY_KERNEL, 0);
	return k;
}

API CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name)
{
	CUresult code = begin("cuLibraryGetKernel", l, out && name);
	if (code)
		return code;
	struct func *f = ptx_entry(l->program, name);
	if (!f)
		return leave(CUDA_ERROR_NOT_FOUND);
	*out = of_library(l, f);
	return leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary l)
{
	CUresult code = begin("cuLibraryGetKernelCount", l, count != 0);
	if (code)
		return code;
	*count = 0;
	for (struct func *f = l->program->funcs; f; f = f->next)
		++*count;
	return leave(CUDA_SUCCESS);
}

API CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned most, CUlibrary l)
{
	CUresult code = begin("cuLibraryEnumerateKernels", l, out != 0);
	if (code)
		return code;
	for (struct func *f = l->program->funcs; f && most; f = f->next, most--)
		if (!(*out++ = of_library(l, f)))
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
	return leave(CUDA_SUCCESS);
}

/* module_in returns a library's module in a context, which it makes. */
static CUresult module_in(struct library *l, struct ctx *c, struct module **out)
{
	struct mistake mistake;
	for (*out = l->modules; *out; *out = (*out)->sibling)
		if ((*out)->object.ctx == c)
			return CUDA_SUCCESS;
	CUresult code = load_text(c, l->text, out, &mistake);
	if (code)
		return code;
	(*out)->library = l;
	(*out)->sibling = l->modules;
	l->modules = *out;
	return CUDA_SUCCESS;
}

/* in_context begins a call about a library in the current context. */
static CUresult in_context(const char *call, CUlibrary l, int ok, struct module **out)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!ok)
		return leave(CUDA_ERROR_INVALID_VALUE);
	code = object_is(l, OBJ_LIBRARY) ? module_in(l, c, out) : CUDA_ERROR_INVALID_HANDLE;
	return code ? leave(code) : CUDA_SUCCESS;
}

API CUresult cuLibraryGetModule(CUmodule *out, CUlibrary l)
{
	struct module *m;
	CUresult code = in_context("cuLibraryGetModule", l, out != 0, &m);
	if (code)
		return code;
	*out = m;
	return leave(CUDA_SUCCESS);
}

API CUresult cuLibraryGetGlobal(CUdeviceptr *addr, size_t *size, CUlibrary l, const char *name)
{
	struct module *m;
	CUresult code = in_context("cuLibraryGetGlobal", l, name && (addr || size), &m);
	if (code)
		return code;
	struct var *v = ptx_variable(m->program, name);
	if (!v)
		return leave(CUDA_ERROR_NOT_FOUND);
	if (addr)
		*addr = (v->space == GLOBAL ? m->globals : m->constants) + v->offset;
	if (size)
		*size = v->size;
	return leave(CUDA_SUCCESS);
}

/* Managed variables are not parsed: a library has none. */
API CUresult cuLibraryGetManaged(CUdeviceptr *addr, size_t *size, CUlibrary l, const char *name)
{
	CUresult code = begin("cuLibraryGetManaged", l, name && (addr || size));
	return code ? code : leave(CUDA_ERROR_NOT_FOUND);
}

CUresult library_function(CUfunction *k, struct ctx *c)
{
	struct module *m;
	if (object_is(*k, OBJ_KERNEL))
		return CUDA_SUCCESS;
	struct lkernel *of = object_is(*k, OBJ_LIBRARY_KERNEL);
	if (!of)
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult code = module_in(of->library, c, &m);
	if (code)
		return code;
	int known = 0, dev = (int)(c->dev - devices);
	struct func *f = ptx_entry(m->program, of->func->name);
	for (struct kernel *x = m->kernels; x; x = x->next)
		known |= x->func == f;
	if (!(*k = kernel_of(m, f)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!known) {
		(*k)->max_dynamic = of->max_dynamic[dev];
		(*k)->carveout = of->carveout[dev];
	}
	return CUDA_SUCCESS;
}

/* about begins a call about a kernel of a library. */
static CUresult about(const char *call, CUkernel k, int ok)
{
	CUresult code = enter(call);
	if (code)
		return code;
	if (!ok)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return object_is(k, OBJ_LIBRARY_KERNEL) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

API CUresult cuKernelGetFunction(CUfunction *out, CUkernel k)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuKernelGetFunction", &c);
	if (code)
		return code;
	if (!out || !object_is(k, OBJ_LIBRARY_KERNEL))
		return leave(out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	CUfunction f = (CUfunction)k;
	if (!(code = library_function(&f, c)))
		*out = f;
	return leave(code);
}

API CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k)
{
	CUresult code = about("cuKernelGetLibrary", k, out != 0);
	if (code)
		return code;
	*out = k->library;
	return leave(CUDA_SUCCESS);
}

API CUresult cuKernelGetName(const char **out, CUkernel k)
{
	CUresult code = about("cuKernelGetName", k, out != 0);
	if (code)
		return code;
	*out = k->func->name;
	return leave(CUDA_SUCCESS);
}

API CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *size)
{
	CUresult code = about("cuKernelGetParamInfo", k, offset != 0);
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

API CUresult cuKernelGetAttribute(int *out, int which, CUkernel k, CUdevice dev)
{
	CUresult code = about("cuKernelGetAttribute", k, out != 0);
	if (code)
		return code;
	if (!device_of(dev))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (which != 8 && which != 9)
		return leave(function_attribute(out, which, k->library->program, k->func, device_of(dev)));
	*out = which == 8 ? k->max_dynamic[dev] : k->carveout[dev];
	return leave(CUDA_SUCCESS);
}

/* For the contexts of a device, those that are there and those to come. */
API CUresult cuKernelSetAttribute(int which, int value, CUkernel k, CUdevice dev)
{
	CUresult code = about("cuKernelSetAttribute", k, 1);
	if (code)
		return code;
	if (!device_of(dev))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (which == 8 && value >= 0 && value <= most_dynamic(k->func, device_of(dev)))
		k->max_dynamic[dev] = value;
	else if (which == 9 && value >= -1 && value <= 100)
		k->carveout[dev] = value;
	else
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (struct module *m = k->library->modules; m; m = m->sibling)
		for (struct kernel *x = m->kernels; m->object.ctx->dev == device_of(dev) && x; x = x->next)
			if (!strcmp(x->func->name, k->func->name)) {
				x->max_dynamic = k->max_dynamic[dev];
				x->carveout = k->carveout[dev];
			}
	return leave(CUDA_SUCCESS);
}

API CUresult cuKernelSetCacheConfig(CUkernel k, int config, CUdevice dev)
{
	CUresult code = about("cuKernelSetCacheConfig", k, config >= 0 && config <= 3);
	if (code)
		return code;
	return leave(device_of(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}
