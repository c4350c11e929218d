/* How calls begin and end, what is logged, and which handles are good. */
#define _GNU_SOURCE
#include "rt.h"

#include "host.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised, forked;

enum { HANDLES = 1024 };
static struct object *objects[HANDLES];

/* A child of fork has none of its parent's devices: every call says that the
 * library is not initialised, and cuInit cannot mend that. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void in_child(void)
{
	forked = initialised;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

/* say writes a line into the file that GPURIG_CUDA_LOG names, or, if it matters
 * always, to standard error without one. */
void say(int always, const char *format, ...)
{
	const char *path = secure_getenv("GPURIG_CUDA_LOG");
	int named = path && *path;
	if (!named && !always)
		return;
	FILE *f = named && strcmp(path, "stderr") ? fopen(path, "ae") : stderr;
	va_list args;
	if (!f)
		return;
	char text[512];
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(f, "libcuda: %s\n", text);
	if (f != stderr)
		fclose(f);
}

/* A fault that the state file asks for, "fail cuInit 999". */
static CUresult asked_for(const char *call)
{
	int line;
	struct host *h = host_now(&line);
	for (int i = 0; h && i < h->nfaults; i++)
		if (!strcmp(h->faults[i].call, call))
			return (CUresult)h->faults[i].code;
	return CUDA_SUCCESS;
}

/* on_bus says whether a device's GPU is there still. */
CUresult on_bus(const struct device *d)
{
	int line;
	struct host *h = host_now(&line);
	for (int i = 0; h && i < h->ngpus; i++) {
		const struct gpu *g = &h->gpus[i];
		if (g->has_pci && d->has_pci && g->domain == d->domain && g->bus == d->bus && g->device == d->slot)
			return host_off_bus(h, i) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
	}
	return CUDA_SUCCESS;
}

CUresult leave(CUresult code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

void enter_any(void) { pthread_mutex_lock(&lock); }

CUresult enter(const char *call)
{
	pthread_mutex_lock(&lock);
	CUresult code = !initialised || forked ? CUDA_ERROR_NOT_INITIALIZED : asked_for(call);
	return code ? leave(code) : CUDA_SUCCESS;
}

CUresult enter_ctx(const char *call, struct ctx **c)
{
	CUresult code = enter(call);
	if (code)
		return code;
	*c = current();
	if (!*c)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!(*c)->alive)
		return leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	if (!(*c)->sticky)
		(*c)->sticky = on_bus((*c)->dev);
	return (*c)->sticky ? leave((*c)->sticky) : CUDA_SUCCESS;
}

API CUresult cuInit(unsigned flags)
{
	pthread_mutex_lock(&lock);
	if (forked)
		return leave(CUDA_ERROR_NOT_INITIALIZED);
	if (flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	CUresult code = asked_for("cuInit");
	if (!code && !initialised)
		code = find_devices();
	initialised |= !code;
	return leave(code);
}

struct device *device_of(CUdevice d) { return d >= 0 && d < ndevices ? &devices[d] : 0; }

static unsigned bucket(const void *p) { return (unsigned)((uintptr_t)p >> 4) % HANDLES; }

void object_add(void *object, enum kind kind, struct ctx *c)
{
	struct object *o = object;
	o->kind = kind;
	o->ctx = c;
	o->next = objects[bucket(o)];
	objects[bucket(o)] = o;
}

void *object_is(void *handle, enum kind kind)
{
	for (struct object *o = objects[bucket(handle)]; o; o = o->next)
		if (o == handle)
			return o->kind == kind ? o : 0;
	return 0;
}

void object_drop(void *object)
{
	for (struct object **o = &objects[bucket(object)]; *o; o = &(*o)->next)
		if (*o == object) {
			*o = (*o)->next;
			return;
		}
}

struct object *object_of(struct ctx *c)
{
	for (int i = 0; i < HANDLES; i++)
		for (struct object *o = objects[i]; o; o = o->next)
			if (o->ctx == c && o->kind != OBJ_KERNEL)
				return o;
	return 0;
}
