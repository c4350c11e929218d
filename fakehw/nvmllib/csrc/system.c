/* The library itself, the driver, and how devices are found. */
#include "api.h"

#include <string.h>

API unsigned nvmlInit(void) { return start("Init"); }
API unsigned nvmlInit_v2(void) { return start("Init"); }
API unsigned nvmlInitWithFlags(unsigned flags)
{
	(void)flags; /* they change nothing here */
	return start("InitWithFlags");
}
API unsigned nvmlShutdown(void) { return stop(); }

API const char *nvmlErrorString(unsigned code)
{
	static const char *const texts[] = {
	    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
	    "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
	    "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
	    "GPU requires reset", "GPU access blocked by the operating system", "Driver/library version mismatch",
	    "In use by another client", "Insufficient Memory", "No data", "Not supported on vGPU with ECC enabled",
	    "Insufficient Resources", "Frequency Not Supported", "Argument version mismatch", "Requested functionality has been deprecated", "Not Ready",
	    "No GPUs were found", "Invalid State", "Reset type not supported"};
	return code < sizeof texts / sizeof *texts ? texts[code] : "Unknown Error";
}

API unsigned nvmlSystemGetDriverVersion(char *out, unsigned size)
{
	struct host *h;
	unsigned r = begin("SystemGetDriverVersion", &h);
	return leave(r ? r : give_text(h->driver, out, size));
}

API unsigned nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
	struct host *h;
	unsigned r = begin_early("SystemGetNVMLVersion", &h);
	return leave(r ? r : give_text(h ? h->nvml : "", out, size));
}

static unsigned cuda(const char *call, int asks_libcuda, int *out)
{
	struct host *h;
	unsigned r = begin(call, &h);
	if (!r && asks_libcuda && h->no_libcuda)
		r = LIBRARY_NOT_FOUND;
	return leave(r ? r : give_number(h->has_cuda, h->cuda, (unsigned *)out));
}

API unsigned nvmlSystemGetCudaDriverVersion(int *out) { return cuda("SystemGetCudaDriverVersion", 0, out); }
API unsigned nvmlSystemGetCudaDriverVersion_v2(int *out) { return cuda("SystemGetCudaDriverVersion_v2", 1, out); }

API unsigned nvmlUnitGetCount(unsigned *out)
{
	struct host *h;
	unsigned r = begin("UnitGetCount", &h);
	return leave(r ? r : give_number(1, 0, out));
}

static unsigned count(unsigned *out)
{
	struct host *h;
	unsigned r = begin("DeviceGetCount", &h);
	return leave(r ? r : give_number(1, h->ngpus, out));
}

API unsigned nvmlDeviceGetCount(unsigned *out) { return count(out); }
API unsigned nvmlDeviceGetCount_v2(unsigned *out) { return count(out); }

/* found answers a look-up with the handle of what was found. */
static unsigned found(struct host *h, const char *call, struct gpu *g, struct gi *gi, struct ci *ci, void **out)
{
	unsigned r = faulty(h, call, g);
	if (r)
		return r;
	*out = handle_of(ci ? MIG : GPU, g, gi, ci);
	return *out ? SUCCESS : INSUFFICIENT_RESOURCES;
}

static unsigned by_index(unsigned index, void **out)
{
	const char *call = "DeviceGetHandleByIndex";
	struct host *h;
	unsigned r = begin(call, &h);
	if (!r && (!out || index >= (unsigned)h->ngpus))
		r = INVALID_ARGUMENT;
	return leave(r ? r : found(h, call, &h->gpus[index], 0, 0, out));
}

API unsigned nvmlDeviceGetHandleByIndex(unsigned index, void **out) { return by_index(index, out); }
API unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { return by_index(index, out); }

/* hex reads from least to most digits and moves on behind them. */
static int hex(const char **s, int least, int most, unsigned *out)
{
	int n = 0;
	*out = 0;
	for (;; n++) {
		char c = (*s)[n];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
		if (digit < 0 || n == most)
			break;
		*out = *out << 4 | digit;
	}
	*s += n;
	return n >= least;
}

/* bus_id reads "0000:65:00.0", with any width of domain or without one. */
static int bus_id(const char *s, unsigned *domain, unsigned *bus, unsigned *device, unsigned *function)
{
	*domain = 0;
	if (strchr(s, ':') != strrchr(s, ':') && (!hex(&s, 4, 8, domain) || *s++ != ':'))
		return 0;
	return hex(&s, 2, 2, bus) && *s++ == ':' && hex(&s, 2, 2, device) && *s++ == '.' && hex(&s, 1, 1, function) && !*s &&
	       *device < 32 && *function < 8;
}

static unsigned by_bus_id(const char *id, void **out)
{
	const char *call = "DeviceGetHandleByPciBusId";
	unsigned domain, bus, device, function;
	struct host *h;
	unsigned r = begin(call, &h);
	if (!r && (!id || !out || !bus_id(id, &domain, &bus, &device, &function)))
		r = INVALID_ARGUMENT;
	if (r)
		return leave(r);
	for (int i = 0; i < h->ngpus; i++) {
		struct gpu *g = &h->gpus[i];
		if (g->has_pci && g->domain == domain && g->bus == bus && g->device == device && g->bus_id[strlen(g->bus_id) - 1] == (char)('0' + function))
			return leave(found(h, call, g, 0, 0, out));
	}
	return leave(NOT_FOUND);
}

API unsigned nvmlDeviceGetHandleByPciBusId(const char *id, void **out) { return by_bus_id(id, out); }
API unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out) { return by_bus_id(id, out); }

API unsigned nvmlDeviceGetHandleBySerial(const char *serial, void **out)
{
	const char *call = "DeviceGetHandleBySerial";
	struct host *h;
	unsigned r = begin(call, &h);
	if (!r && (!serial || !out))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < h->ngpus; i++)
		if (*serial && !strcmp(h->gpus[i].serial, serial))
			return leave(found(h, call, &h->gpus[i], 0, 0, out));
	return leave(r ? r : NOT_FOUND);
}

/* lookup_uuid finds a full GPU or a MIG device. */
static unsigned lookup_uuid(struct host *h, const char *call, const char *uuid, void **out)
{
	for (int i = 0; i < h->ngpus; i++) {
		struct gpu *g = &h->gpus[i];
		if (!strcmp(g->uuid, uuid))
			return found(h, call, g, 0, 0, out);
		for (int j = 0; j < g->ngi; j++)
			for (int k = 0; k < g->gi[j].nci; k++)
				if (g->gi[j].ci[k].is_mig && !strcmp(g->gi[j].ci[k].uuid, uuid))
					return found(h, call, g, &g->gi[j], &g->gi[j].ci[k], out);
	}
	return NOT_FOUND;
}

API unsigned nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
	const char *call = "DeviceGetHandleByUUID";
	struct host *h;
	unsigned r = begin(call, &h);
	if (!r && (!uuid || !out))
		r = INVALID_ARGUMENT;
	return leave(r ? r : lookup_uuid(h, call, uuid, out));
}

struct uuid_v1 {
	unsigned version, type; /* type 1: text */
	char text[41];
};

API unsigned nvmlDeviceGetHandleByUUIDV(const struct uuid_v1 *uuid, void **out)
{
	char text[sizeof uuid->text + 1] = "";
	struct host *h;
	unsigned r = begin("DeviceGetHandleByUUIDV", &h);
	if (!r && (!uuid || !out || uuid->type != 1))
		r = INVALID_ARGUMENT;
	if (!r)
		r = faulty(h, "DeviceGetHandleByUUID", 0);
	if (r)
		return leave(r);
	memcpy(text, uuid->text, sizeof uuid->text); /* its last byte may be text too */
	return leave(lookup_uuid(h, "DeviceGetHandleByUUID", text, out));
}
