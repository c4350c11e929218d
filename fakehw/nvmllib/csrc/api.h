/*
 * What every call of the library begins and ends with.
 */
#ifndef GPURIG_API_H
#define GPURIG_API_H

#include "codes.h"
#include "host.h"

/* The size of a structure and the number of its form make its version field. */
#define VERSION(type, n) ((unsigned)sizeof(type) | (n) << 24)

#define API __attribute__((visibility("default")))

/* host_seen is host_now of what this program may reach. */
struct host *host_seen(int *bad);

/* begin takes the lock and returns SUCCESS and the host when the library is
 * initialised and no fault is asked for. Every begin… needs one leave. */
unsigned begin(const char *call, struct host **h);

/* begin_early is begin for a call that needs no initialised library; the host is
 * 0 when there is none. */
unsigned begin_early(const char *call, struct host **h);

/* begin_at is begin for a call on a handle; see handle_find for kind. Faults of
 * the handle's GPU count. */
unsigned begin_at(const char *call, void *handle, int kind, struct part *at);

/* faulty returns the code that a call shall return on a GPU, or SUCCESS. */
unsigned faulty(struct host *h, const char *call, const struct gpu *g);

/* leave releases the lock and returns its argument. */
unsigned leave(unsigned code);

/* The answers of simple calls. */
unsigned give_text(const char *value, char *out, unsigned size);
unsigned give_number(int has, unsigned value, unsigned *out);

/* give_handle makes the handle of a part. */
unsigned give_handle(int kind, struct gpu *g, struct gi *gi, struct ci *ci, void **out);

/* begin_mig is begin_at for calls that only a GPU in MIG mode supports. */
unsigned begin_mig(const char *call, void *d, struct part *at);

/* start and stop count the library's users. */
unsigned start(const char *call);
unsigned stop(void);

/* reading finds what a full GPU answers; 0: nothing. first is its number, or 0. */
const struct reading *reading(const struct gpu *g, const char *call, unsigned arg);
unsigned long long first(const struct gpu *g, const char *call);

/* several is begin_at for a call of n results, of which there are all or none. args
 * is whether the caller's pointers are good. */
unsigned several(const char *call, void *d, int args, struct part *at, unsigned long long *out, unsigned n);

/* unsupported is the whole of a call that is not modelled. */
unsigned unsupported(const char *call);

#endif
