#include "api.h"
#include "nodes.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users; /* nvmlInit without nvmlShutdown yet */

/* twins are calls whose second form is a call of its own: a fault of one is none
 * of the other. All others are known without their version. */
static int twin(const char *call)
{
	return !strcmp(call, "DeviceGetMemoryInfo_v2") || !strcmp(call, "SystemGetCudaDriverVersion_v2");
}

/* is compares a call, "DeviceGetCount_v2", with the name in a fault. "*" comes
 * before all other names, which have the last word. */
static int is(const char *call, const char *name)
{
	size_t n = strlen(name);
	if (!strcmp(name, "*"))
		return 1;
	if (strncmp(call, name, n))
		return 0;
	return !call[n] || (!strncmp(call + n, "_v", 2) && call[n + 2] && !call[n + 2 + strspn(call + n + 2, "0123456789")] && !twin(call));
}

struct host *host_seen(int *bad)
{
	struct host *h = host_now(bad);
	if (h && !h->looked) {
		h->looked = 1;
		h->reach = h->init == SUCCESS ? nodes_reach(h) : (unsigned)SUCCESS;
	}
	return h;
}

unsigned faulty(struct host *h, const char *call, const struct gpu *g)
{
	unsigned code = SUCCESS;
	for (int i = 0; i < h->nfaults; i++) {
		const struct fault *f = &h->faults[i];
		if (!is(call, f->call))
			continue;
		if (f->index < 0)
			return f->code; /* all GPUs come first */
		if (g && (unsigned)f->index == g->place)
			code = f->code;
	}
	return code;
}

unsigned begin(const char *call, struct host **h)
{
	int bad;
	pthread_mutex_lock(&lock);
	if (!users)
		return UNINITIALIZED;
	*h = host_seen(&bad);
	return faulty(*h, call, 0);
}

unsigned begin_early(const char *call, struct host **h)
{
	int bad;
	pthread_mutex_lock(&lock);
	*h = host_now(&bad);
	return *h ? faulty(*h, call, 0) : (unsigned)SUCCESS;
}

unsigned begin_at(const char *call, void *handle, int kind, struct part *at)
{
	struct host *h;
	unsigned r = begin(call, &h);
	if (r == SUCCESS)
		r = handle_find(h, handle, kind, at);
	if (r == SUCCESS)
		r = faulty(h, call, at->gpu);
	return r;
}

unsigned leave(unsigned code)
{
	pthread_mutex_unlock(&lock);
	return code;
}

unsigned start(const char *call)
{
	int bad = 0;
	unsigned r;
	pthread_mutex_lock(&lock);
	if (!users)
		host_forget(); /* nobody has seen it: no reason to keep what was */
	struct host *h = host_seen(&bad);
	if (!h) {
		if (bad >= 0)
			fprintf(stderr, "libnvidia-ml: line %d of the host's state is not understood\n", bad);
		return leave(bad < 0 ? DRIVER_NOT_LOADED : UNKNOWN);
	}
	r = faulty(h, call, 0);
	if (r == SUCCESS)
		r = h->init;
	if (r == SUCCESS)
		r = h->reach;
	if (r == SUCCESS)
		users++;
	return leave(r);
}

unsigned stop(void)
{
	struct host *h;
	unsigned r = begin("Shutdown", &h);
	if (r == SUCCESS)
		users--;
	return leave(r);
}

unsigned unsupported(const char *call)
{
	struct host *h;
	unsigned r = begin(call, &h);
	return leave(r == SUCCESS ? NOT_SUPPORTED : r);
}

unsigned give_text(const char *value, char *out, unsigned size)
{
	if (!out)
		return INVALID_ARGUMENT;
	if (!*value)
		return NOT_SUPPORTED;
	if (strlen(value) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(out, value);
	return SUCCESS;
}

unsigned give_number(int has, unsigned value, unsigned *out)
{
	if (!out)
		return INVALID_ARGUMENT;
	if (!has)
		return NOT_SUPPORTED;
	*out = value;
	return SUCCESS;
}
