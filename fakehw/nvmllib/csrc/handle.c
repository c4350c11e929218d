/*
 * Handles. NVML's are pointers; ours point into a table that only grows, so a
 * wrong pointer is told from a handle without looking at what it points to. A
 * handle names its part by what stays the same when the host changes.
 */
#include "api.h"

#include <string.h>

enum { MAX_HANDLES = 8192 };

static struct handle table[MAX_HANDLES];
static int used;

/* gpu_name is what a GPU is known by: its address, or its UUID where it has
 * none. Orin's GPU may have neither, and is then the only one. */
static const char *gpu_name(const struct gpu *g)
{
	return g->has_pci ? g->bus_id : g->uuid;
}

struct handle *handle_of(int kind, struct gpu *g, struct gi *gi, struct ci *ci)
{
	struct handle want = {.kind = kind, .gi = gi ? gi->id : 0, .ci = ci ? ci->id : 0};
	strcpy(want.gpu, gpu_name(g));
	if (kind == MIG)
		strcpy(want.uuid, ci->uuid);
	for (int i = 0; i < used; i++)
		if (table[i].kind == want.kind && table[i].gi == want.gi && table[i].ci == want.ci &&
		    !strcmp(table[i].gpu, want.gpu) && !strcmp(table[i].uuid, want.uuid))
			return &table[i];
	if (used == MAX_HANDLES)
		return 0;
	table[used] = want;
	return &table[used++];
}

static struct gi *find_gi(struct gpu *g, unsigned id)
{
	for (int i = 0; i < g->ngi; i++)
		if (g->gi[i].id == id)
			return &g->gi[i];
	return 0;
}

static struct ci *find_ci(struct gi *gi, unsigned id)
{
	for (int i = 0; i < gi->nci; i++)
		if (gi->ci[i].id == id)
			return &gi->ci[i];
	return 0;
}

unsigned handle_find(struct host *h, void *p, int kind, struct part *out)
{
	size_t at = (char *)p - (char *)table;
	memset(out, 0, sizeof *out);
	if ((char *)p < (char *)table || at >= used * sizeof *table || at % sizeof *table)
		return INVALID_ARGUMENT;
	struct handle *want = p;
	if (kind ? (int)want->kind != kind : want->kind > MIG)
		return INVALID_ARGUMENT;
	out->host = h;
	out->handle = want;
	for (int i = 0; i < h->ngpus && !out->gpu; i++)
		if (!strcmp(gpu_name(&h->gpus[i]), want->gpu))
			out->gpu = &h->gpus[i];
	if (!out->gpu)
		return GPU_IS_LOST;
	if (want->kind == GPU)
		return SUCCESS;
	if (!(out->gi = find_gi(out->gpu, want->gi)))
		return NOT_FOUND;
	if (want->kind == GI)
		return SUCCESS;
	out->ci = find_ci(out->gi, want->ci);
	if (!out->ci || (want->kind == MIG && (!out->ci->is_mig || strcmp(out->ci->uuid, want->uuid))))
		return NOT_FOUND;
	return SUCCESS;
}
