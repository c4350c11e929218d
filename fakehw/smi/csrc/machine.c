/* Finding NVML, the driver and the GPUs. */
#include "smi.h"

#include <ctype.h>
#include <glob.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct machine machine;

const char *why(unsigned code) { return nvml.ErrorString(code); }

int bad(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" Please run 'nvidia-smi -h' for help.\n\n");
	return BAD_ARGUMENT;
}

int number(const char *text, unsigned *out)
{
	size_t n = strspn(text, "0123456789");
	if (n == 0 || n > 9 || text[n])
		return 0;
	*out = strtoul(text, 0, 10);
	return 1;
}

/* versions asks what does not need a running driver. NVML's version is the
 * driver's after CUDA's major: "12.550.54.14". */
static void versions(void)
{
	char *dot;
	if (nvml.SystemGetNVMLVersion(machine.smi, TEXT) || !(dot = strchr(machine.smi, '.')))
		strcpy(machine.smi, "N/A");
	else
		memmove(machine.smi, dot + 1, strlen(dot));
	strcpy(machine.nvml, machine.smi);
	if ((dot = strchr(machine.nvml, '.')) && (dot = strchr(dot + 1, '.')))
		*dot = 0;
}

int start(void)
{
	int cuda;
	if (!nvml_load()) {
		printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
		       "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n");
		return NO_LIBRARY;
	}
	unsigned r = nvml.Init_v2();
	versions();
	if (r == NO_DRIVER) {
		printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n");
		return r;
	}
	if (r) {
		printf("Failed to initialize NVML: %s\n", why(r));
		if (r == VERSIONS_DIFFER)
			printf("NVML library version: %s\n", machine.nvml);
		return r > 255 ? 255 : r;
	}
	if (nvml.SystemGetDriverVersion(machine.driver, TEXT))
		strcpy(machine.driver, "N/A");
	machine.branch = atoi(machine.driver);
	if (nvml.SystemGetCudaDriverVersion_v2(&cuda))
		strcpy(machine.cuda, "N/A");
	else
		snprintf(machine.cuda, TEXT, "%d.%d", cuda / 1000, cuda % 1000 / 10);
	return OK;
}

/* address finds the index and the bus address of a GPU that does not answer: what
 * procfs has is in NVML's order. An integrated GPU is not there. */
static int address(const char *id, unsigned *index, char bus[TEXT])
{
	glob_t all;
	int found = 0;
	if (glob("/proc/driver/nvidia/gpus/*", 0, 0, &all))
		return 0;
	for (unsigned i = 0; i < all.gl_pathc && all.gl_pathc == machine.count && !found; i++) {
		const char *name = strrchr(all.gl_pathv[i], '/') + 1, *tail = strchr(id, ':');
		if (tail ? strcasecmp(tail, strchr(name, ':')) : !number(id, index) || *index != i)
			continue;
		*index = i;
		snprintf(bus, TEXT, "%s", name);
		for (char *c = bus; *c; c++)
			*c = toupper((unsigned char)*c);
		found = 1;
	}
	globfree(&all);
	return found;
}

/* lost says that a GPU is there but does not answer. How it is named is from public
 * transcripts: with a blank before the address from 369 to 520, without it from 525
 * to 560, after the index in those of 2026. Where the second became the third is
 * unverified. */
static int lost(const char *id, unsigned r)
{
	char where[2 * TEXT], bus[TEXT];
	unsigned index;
	if (!address(id, &index, bus))
		snprintf(where, sizeof where, "%s", id);
	else if (machine.branch < 525)
		snprintf(where, sizeof where, " %s", bus);
	else if (machine.branch < 570)
		snprintf(where, sizeof where, "%s", bus);
	else
		snprintf(where, sizeof where, "%u: %s", index, bus);
	fprintf(stderr, "Unable to determine the device handle for GPU%s: %s%s\n", where, why(r),
		r == GPU_IS_LOST ? ".  Reboot the system to recover this GPU" : "");
	return r > 255 ? 255 : r;
}

/* add appends a GPU, once. */
static int add(device d, const char *where)
{
	struct gpu *g = &machine.gpu[machine.n];
	struct pci_info pci;
	unsigned r = nvml.DeviceGetPciInfo_v3(d, &pci);
	if (r == GPU_IS_LOST || nvml.DeviceGetIndex(d, &g->index) == GPU_IS_LOST)
		return lost(where, GPU_IS_LOST);
	for (int i = 0; i < machine.n; i++)
		if (machine.gpu[i].d == d)
			return OK;
	if (machine.n == MAX_GPUS)
		return OK;
	snprintf(g->bus, sizeof g->bus, "%s", r ? "N/A" : pci.bus_id);
	g->d = d;
	machine.n++;
	return OK;
}

/* one finds the GPU that a text names. */
static int one(const char *id)
{
	unsigned index, r;
	device d;
	if (number(id, &index) && index < machine.count)
		r = nvml.DeviceGetHandleByIndex_v2(index, &d);
	else if (strchr(id, ':'))
		r = nvml.DeviceGetHandleByPciBusId_v2(id, &d);
	else if (number(id, &index) || !strpbrk(id, "-"))
		r = nvml.DeviceGetHandleBySerial(id, &d);
	else
		r = nvml.DeviceGetHandleByUUID(id, &d);
	if (r == GPU_IS_LOST || r == 999)
		return lost(id, r);
	if (r) {
		printf("No devices were found\n");
		return NOT_FOUND;
	}
	unsigned is_mig = 0;
	if (!nvml.DeviceIsMigDeviceHandle(d, &is_mig) && is_mig)
		nvml.DeviceGetDeviceHandleFromMigDeviceHandle(d, &d);
	return add(d, id);
}

int choose(const char *ids)
{
	int code = OK;
	unsigned r = nvml.DeviceGetCount_v2(&machine.count);
	machine.n = 0;
	if (r) {
		printf("Unable to determine the number of devices: %s\n", why(r));
		return r > 255 ? 255 : r;
	}
	if (!ids) {
		for (unsigned i = 0; i < machine.count; i++) {
			char where[16];
			device d;
			snprintf(where, sizeof where, "%u", i);
			r = nvml.DeviceGetHandleByIndex_v2(i, &d);
			int bad = r ? lost(where, r) : add(d, where);
			code = bad ? bad : code;
		}
		if (!machine.count) {
			printf("No devices were found\n");
			return NOT_FOUND;
		}
		return code;
	}
	char *copy = strdup(ids), *rest = copy, *id;
	while (!code && (id = strsep(&rest, ",")))
		code = one(id);
	free(copy);
	return code;
}

void title(unsigned (*call)(device, char *, unsigned), device d, char out[TEXT])
{
	if (call(d, out, TEXT))
		strcpy(out, "N/A");
}

int mig_on(device d)
{
	unsigned now, pending;
	return !nvml.DeviceGetMigMode(d, &now, &pending) && now;
}

const char *after_mig(const char *name)
{
	const char *at = strstr(name, " MIG ");
	return at ? at + 5 : name;
}
