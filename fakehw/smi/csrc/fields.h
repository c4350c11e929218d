#ifndef GPURIG_SMI_FIELDS_H
#define GPURIG_SMI_FIELDS_H

#include "smi.h"

/* A value of a GPU. */
struct field {
	const char *name, *alias; /* alias: another name, or 0 */
	const char *unit;	  /* "MiB", or "" */
	unsigned (*get)(const struct gpu *g, char *out);
};

/* fields ends with a field that has no name. */
extern const struct field fields[];

/* field_named returns the field of a name or an alias, or 0. */
const struct field *field_named(const char *name);

/* in_branch tells whether nvidia-smi of a branch takes a name. */
int in_branch(const char *name, int branch);

#endif
