/* Modules: PTX text into kernels and variables. */
#define _GNU_SOURCE
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 << 20 };

/* The newest PTX that the driver of a CUDA version takes: CUDA 11.0 has PTX 7.0,
 * and so on; from 12.6 on the two do not go in step. */
static int newest_ptx(void)
{
	static const struct {
		int cuda, ptx;
	} table[] = {
		{10000, 63}, {10010, 64}, {10020, 65}, {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75},
		{11060, 76}, {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
		{12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}, {13020, 92},
	};
	int ptx = 60;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (driver_version >= table[i].cuda)
			ptx = table[i].ptx;
	return ptx;
}

void module_drop(struct module *m)
{
	if (m->library)
		library_forget(m);
	for (struct kernel *k = m->kernels, *next; k; k = next) {
		next = k->next;
		object_drop(k);
		free(k);
	}
	for (int i = 0; i < 2; i++) {
		struct block *b = memory_at(i ? m->constants : m->globals);
		if (b && b->is_module)
			memory_drop(b);
	}
	object_drop(m);
	ptx_free(m->program);
	free(m);
}

/* One block for all variables of a kind, with their initial values. */
static CUresult place(struct module *m, struct ctx *c, uint64_t size, int constants, uint64_t *addr)
{
	struct block *b;
	if (!size)
		return CUDA_SUCCESS;
	CUresult code = memory_get(c, size, ON_DEVICE, &b);
	if (code) {
		say(0, "no memory for the %llu bytes of a module's variables", (unsigned long long)size);
		return code;
	}
	b->is_module = 1;
	b->readonly = constants;
	for (struct var *v = constants ? m->program->constants : m->program->globals; v; v = v->next)
		if (v->init)
			memcpy(b->host + v->offset, v->init, v->size);
	*addr = b->addr;
	return CUDA_SUCCESS;
}

/* Initial values that are addresses, once all are known. */
static void relocate(struct module *m)
{
	for (int i = 0; i < 2; i++) {
		struct block *b = memory_at(i ? m->constants : m->globals);
		for (struct var *v = i ? m->program->constants : m->program->globals; b && v; v = v->next)
			for (struct reloc *r = v->relocs; r; r = r->next) {
				uint64_t to = (r->of->space == GLOBAL ? m->globals : m->constants) + r->of->offset + (uint64_t)r->plus;
				memcpy(b->host + v->offset + r->at, &to, r->bytes);
			}
	}
}

struct program *parse_text(const struct device *d, const char *text, struct mistake *mistake)
{
	const struct limits limits = {newest_ptx(), d->major * 10 + d->minor, 48 << 10};
	struct program *p = ptx_parse(text, &limits, mistake);
	if (!p)
		say(mistake->code == CUDA_ERROR_NOT_SUPPORTED, "ptx line %d: %s%s", mistake->line,
		    mistake->code == CUDA_ERROR_NOT_SUPPORTED ? "not supported here: " : "", mistake->text);
	return p;
}

CUresult load_text(struct ctx *c, const char *text, struct module **out, struct mistake *mistake)
{
	struct module *m = calloc(1, sizeof *m);
	*mistake = (struct mistake){.code = CUDA_ERROR_OUT_OF_MEMORY, .text = "out of memory"};
	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->program = parse_text(c->dev, text, mistake);
	if (!m->program) {
		free(m);
		return mistake->code;
	}
	object_add(m, OBJ_MODULE, c);
	CUresult code = place(m, c, m->program->global_size, 0, &m->globals);
	if (!code)
		code = place(m, c, m->program->constant_size, 1, &m->constants);
	if (code) {
		module_drop(m);
		return code;
	}
	relocate(m);
	ptx_place(m->program, m->globals, m->constants);
	*out = m;
	return CUDA_SUCCESS;
}

/* Machine code begins with one of these. None of it can be interpreted. */
static const char *binary(const void *image)
{
	uint32_t magic;
	if (memchr(image, 0, 3))
		return 0;
	memcpy(&magic, image, sizeof magic);
	switch (magic) {
	case 0x464c457f: return "a cubin";
	case 0xba55ed50: return "a fat binary";
	case 0x466243b1: return "a wrapped fat binary";
	case 0xdec04342: case 0x0b17c0de: return "bitcode";
	default: return 0;
	}
}

CUresult check_image(const void *image)
{
	if (!binary(image))
		return CUDA_SUCCESS;
	say(1, "not supported here: %s; only PTX text can be run", binary(image));
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Options of the compiler that are answered; the others only tune. */
enum { INFO_LOG = 3, INFO_LOG_SIZE, ERROR_LOG, ERROR_LOG_SIZE };

static void write_log(unsigned n, const int *options, void **values, int which, const char *text)
{
	char *to = 0;
	int size = -1;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == which)
			to = values[i];
		if (options[i] == which + 1)
			size = (int)i;
	}
	if (size < 0)
		return;
	size_t have = (size_t)(uintptr_t)values[size] & 0xffffffff, used = 0;
	if (to && have) {
		snprintf(to, have, "%s", text);
		used = strlen(to);
	}
	values[size] = (void *)(uintptr_t)used;
}

void answer_options(unsigned n, const int *options, void **values, CUresult code, const struct mistake *mistake)
{
	char text[320] = "";
	if (code)
		snprintf(text, sizeof text, "ptxas application ptx input, line %d; error   : %s\n", mistake->line, mistake->text);
	write_log(n, options, values, ERROR_LOG, text);
	write_log(n, options, values, INFO_LOG, "");
}

static CUresult load(const char *call, CUmodule *out, const void *image, unsigned n, const int *options, void **values)
{
	struct ctx *c;
	struct mistake mistake = {0};
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!out || !image || (n && (!options || !values)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if ((code = check_image(image)))
		return leave(code);
	code = load_text(c, image, out, &mistake);
	answer_options(n, options, values, code, &mistake);
	return leave(code);
}

API CUresult cuModuleLoadData(CUmodule *out, const void *image) { return load("cuModuleLoadData", out, image, 0, 0, 0); }
API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options, void **values)
{
	return load("cuModuleLoadDataEx", out, image, n, options, values);
}

CUresult read_image(const char *path, char **text)
{
	size_t n = 0;
	FILE *f = fopen(path, "re");
	*text = 0;
	if (!f)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (!fseek(f, 0, SEEK_END)) {
		long size = ftell(f);
		rewind(f);
		*text = size >= 0 && size <= MAX_TEXT ? calloc(1, (size_t)size + 4) : 0;
		n = *text ? fread(*text, 1, (size_t)size, f) : 0;
	}
	fclose(f);
	return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

API CUresult cuModuleLoad(CUmodule *out, const char *path)
{
	char *text;
	if (!out || !path)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult code = read_image(path, &text);
	if (!code)
		code = load("cuModuleLoad", out, text, 0, 0, 0);
	free(text);
	return code;
}

API CUresult cuModuleUnload(CUmodule m)
{
	CUresult code = enter("cuModuleUnload");
	if (code)
		return code;
	if (!object_is(m, OBJ_MODULE) || m->library) /* that of a library goes with it */
		return leave(CUDA_ERROR_INVALID_HANDLE);
	module_drop(m);
	return leave(CUDA_SUCCESS);
}

struct kernel *kernel_of(struct module *m, struct func *f)
{
	for (struct kernel *k = m->kernels; k; k = k->next)
		if (k->func == f)
			return k;
	struct kernel *k = calloc(1, sizeof *k);
	if (!k)
		return 0;
	k->module = m;
	k->func = f;
	k->max_dynamic = (48 << 10) - (int)f->shared;
	k->carveout = -1;
	k->next = m->kernels;
	m->kernels = k;
	object_add(k, OBJ_KERNEL, m->object.ctx);
	return k;
}

API CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuModuleGetFunction", &c);
	if (code)
		return code;
	if (!out || !name || !object_is(m, OBJ_MODULE))
		return leave(out && name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	struct func *f = ptx_entry(m->program, name);
	if (!f)
		return leave(CUDA_ERROR_NOT_FOUND);
	*out = kernel_of(m, f);
	return leave(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

API CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule m)
{
	CUresult code = enter("cuModuleGetFunctionCount");
	if (code)
		return code;
	if (!count || !object_is(m, OBJ_MODULE))
		return leave(count ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	*count = 0;
	for (struct func *f = m->program->funcs; f; f = f->next)
		++*count;
	return leave(CUDA_SUCCESS);
}

API CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned most, CUmodule m)
{
	CUresult code = enter("cuModuleEnumerateFunctions");
	if (code)
		return code;
	if (!out || !object_is(m, OBJ_MODULE))
		return leave(out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	for (struct func *f = m->program->funcs; f && most; f = f->next, most--)
		if (!(*out++ = kernel_of(m, f)))
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
	return leave(CUDA_SUCCESS);
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *addr, size_t *size, CUmodule m, const char *name)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuModuleGetGlobal", &c);
	if (code)
		return code;
	if (!name || !object_is(m, OBJ_MODULE))
		return leave(name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	struct var *v = ptx_variable(m->program, name);
	if (!v)
		return leave(CUDA_ERROR_NOT_FOUND);
	if (addr)
		*addr = (v->space == GLOBAL ? m->globals : m->constants) + v->offset;
	if (size)
		*size = v->size;
	return leave(CUDA_SUCCESS);
}

/* Modules are parsed when they are loaded: CU_MODULE_EAGER_LOADING. */
API CUresult cuModuleGetLoadingMode(int *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = 1;
	return CUDA_SUCCESS;
}
