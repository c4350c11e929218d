/* The names of the API. See proc.c; the table is in stubs.c, which is generated. */
#ifndef GPURIG_PROC_H
#define GPURIG_PROC_H

#include "cu.h"

struct named {
	const char *name;
	void *call;
};
extern const struct named calls[]; /* by name */
extern const int ncalls;

/* unsupported_call is the whole of a call that is not modelled. */
CUresult unsupported_call(const char *call);

#endif
