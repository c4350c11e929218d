/* Calls each function of the library that it is told of with arguments that no
 * caller means: six zeros, and a first argument that is no handle, or is one while
 * all others are zero. It prints a line each: what was passed, name, code. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned (*call)(void *, void *, void *, void *, void *, void *);

static char junk[4096];

/* writes says whether the first argument is where the answer goes. */
static int writes(const char *name)
{
	return !strncmp(name, "nvmlSystem", 10) || !strncmp(name, "nvmlUnitGetCount", 16) || !strncmp(name, "nvmlDeviceGetCount", 18);
}

static void try(void *library, const char *what, void *first, int n, char **names)
{
	for (int i = 0; i < n; i++) {
		call f = (call)dlsym(library, names[i]);
		if (first && writes(names[i]))
			continue;
		if (!f) {
			printf("%s %s missing\n", what, names[i]);
			continue;
		}
		printf("%s %s %u\n", what, names[i], f(first, 0, 0, 0, 0, 0));
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW), *gpu = 0, *mig = 0, *gi = 0;
	if (!library)
		return 1;
	call init = (call)dlsym(library, "nvmlInit_v2"), by_index = (call)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	call mig_by_index = (call)dlsym(library, "nvmlDeviceGetMigDeviceHandleByIndex"), gi_by_id = (call)dlsym(library, "nvmlDeviceGetGpuInstanceById");
	argv += 2;
	argc -= 2;
	try(library, "before", 0, argc, argv);
	if (init(0, 0, 0, 0, 0, 0) || by_index(0, &gpu, 0, 0, 0, 0) || mig_by_index(gpu, 0, &mig, 0, 0, 0))
		return 2;
	for (long id = 0; id < 16 && gi_by_id(gpu, (void *)id, &gi, 0, 0, 0); id++)
		;
	memset(junk, 0x5a, sizeof junk - 1); /* also read as text */
	try(library, "zeros", 0, argc, argv);
	try(library, "junk", junk, argc, argv);
	try(library, "inside", (char *)gpu + 1, argc, argv);
	try(library, "gpu", gpu, argc, argv);
	try(library, "mig", mig, argc, argv);
	try(library, "gi", gi, argc, argv);
	return 0;
}
