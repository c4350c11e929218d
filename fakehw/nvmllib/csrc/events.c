/* Event sets. What happens to a GPU is a line "xid GPU CODE" of the state; a set tells
 * those that came after the GPU was registered with it. Who looks for them looks every
 * 20 milliseconds, so what comes and goes between two looks is missed. Other events
 * never happen on a fake host. */
#include "api.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

enum { MAX_SETS = 64, MAX_REGISTERED = 64, XID = 8, PAUSE = 20 /* milliseconds */ };

struct registered {
	struct handle *gpu;
	unsigned char seen[MAX_XID / 8]; /* a bit for each Xid of the GPU that was there before, or that was told */
	unsigned long long types;
};

static struct set {
	int used, n;
	struct registered on[MAX_REGISTERED];
} sets[MAX_SETS];

struct event {
	void *device;
	unsigned long long type, data;
	unsigned gi, ci;
};

/* set_of returns the set that a program's pointer is, 0 if it is none. */
static struct set *set_of(void *p)
{
	for (int i = 0; i < MAX_SETS; i++)
		if (p == &sets[i] && sets[i].used)
			return &sets[i];
	return 0;
}

/* news makes what was seen of a GPU what it has now, or, for one, returns a new Xid and
 * takes it for seen; 0: there is none. */
static unsigned news(const struct host *h, const struct gpu *g, unsigned char *seen, int one)
{
	unsigned char has[MAX_XID / 8] = {0};
	for (int i = 0; i < h->nxids; i++)
		if (h->xids[i].gpu == g->place)
			has[h->xids[i].code / 8] |= 1 << h->xids[i].code % 8;
	for (int i = 0; i < MAX_XID / 8 && one; i++)
		seen[i] &= has[i];
	for (unsigned code = 0; code < MAX_XID && one; code++)
		if ((has[code / 8] & ~seen[code / 8]) >> code % 8 & 1) {
			seen[code / 8] |= 1 << code % 8;
			return code;
		}
	if (!one)
		memcpy(seen, has, sizeof has);
	return 0;
}

API unsigned nvmlEventSetCreate(void **out)
{
	struct host *h;
	unsigned r = begin("EventSetCreate", &h);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	for (int i = 0; !r; i++) {
		if (i == MAX_SETS) {
			r = INSUFFICIENT_RESOURCES;
		} else if (!sets[i].used) {
			sets[i] = (struct set){.used = 1};
			*out = &sets[i];
			break;
		}
	}
	return leave(r);
}

API unsigned nvmlEventSetFree(void *p)
{
	struct host *h;
	unsigned r = begin("EventSetFree", &h);
	struct set *s = set_of(p);
	if (!r && !s)
		r = INVALID_ARGUMENT;
	if (!r)
		s->used = 0;
	return leave(r);
}

API unsigned nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *p)
{
	struct part at;
	unsigned r = begin_at("DeviceRegisterEvents", d, GPU, &at);
	struct set *s = set_of(p);
	struct registered *x = 0;
	if (!r && !s)
		r = INVALID_ARGUMENT;
	if (!r && types & ~first(at.gpu, "DeviceGetSupportedEventTypes"))
		r = NOT_SUPPORTED;
	for (int i = 0; !r && i < s->n; i++)
		if (s->on[i].gpu == at.handle)
			x = &s->on[i];
	if (!r && !x) {
		if (s->n == MAX_REGISTERED)
			return leave(INSUFFICIENT_RESOURCES);
		x = &s->on[s->n++];
		*x = (struct registered){.gpu = at.handle};
		news(at.host, at.gpu, x->seen, 0);
	}
	if (!r)
		x->types |= types;
	return leave(r);
}

/* look returns whether something happened to one of the set's GPUs. */
static int look(struct host *h, struct set *s, struct event *e)
{
	for (int i = 0; i < s->n; i++) {
		struct registered *x = &s->on[i];
		struct part at;
		unsigned code;
		if (handle_find(h, x->gpu, GPU, &at) || !(code = news(h, at.gpu, x->seen, 1)) || !(x->types & XID))
			continue;
		*e = (struct event){x->gpu, XID, code, ~0u, ~0u};
		return 1;
	}
	return 0;
}

static unsigned wait_for(const char *call, void *p, struct event *e, unsigned milliseconds)
{
	const struct timespec pause = {0, PAUSE * 1000000};
	for (;;) {
		struct host *h;
		unsigned r = begin(call, &h);
		struct set *s = set_of(p);
		if (!r && (!s || !e))
			r = INVALID_ARGUMENT;
		if (r || look(h, s, e) || !milliseconds)
			return leave(r ? r : e->device ? (unsigned)SUCCESS : (unsigned)TIMEOUT);
		leave(SUCCESS);
		nanosleep(&pause, 0);
		milliseconds = milliseconds > PAUSE ? milliseconds - PAUSE : 0;
	}
}

/* The first form of an event ends before the instances. */
API unsigned nvmlEventSetWait(void *p, struct event *out, unsigned milliseconds)
{
	struct event e = {0};
	unsigned r = wait_for("EventSetWait", p, out ? &e : 0, milliseconds);
	if (!r)
		memcpy(out, &e, offsetof(struct event, gi));
	return r;
}

API unsigned nvmlEventSetWait_v2(void *p, struct event *out, unsigned milliseconds)
{
	struct event e = {0};
	unsigned r = wait_for("EventSetWait_v2", p, out ? &e : 0, milliseconds);
	if (!r)
		*out = e;
	return r;
}
