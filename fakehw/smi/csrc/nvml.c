#include "nvml.h"

#include <dlfcn.h>
#include <string.h>

struct nvml nvml;

static unsigned absent(void) { return NO_FUNCTION; }

static const char *unnamed(unsigned code)
{
	(void)code;
	return "Unknown Error";
}

/* find stores the address of a call, or that of a stand-in, in a pointer to a
 * function, which C does not convert from a pointer to data. */
static void find(void *library, const char *name, void *into, void (*otherwise)(void))
{
	void *at = dlsym(library, name);
	if (at)
		memcpy(into, &at, sizeof at);
	else
		memcpy(into, &otherwise, sizeof otherwise);
}

int nvml_load(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library)
		return 0;
	find(library, "nvmlErrorString", &nvml.ErrorString, (void (*)(void))unnamed);
#define X(name, arguments) find(library, "nvml" #name, &nvml.name, (void (*)(void))absent);
	CALLS(X)
#undef X
	return 1;
}
