/* What sensors and settings of a full GPU say; MIG devices have none. */
#include "api.h"

#include <string.h>

const struct reading *reading(const struct gpu *g, const char *call, unsigned arg)
{
	for (int i = 0; i < g->nreadings; i++)
		if (g->readings[i].arg == arg && !strcmp(g->readings[i].call, call))
			return &g->readings[i];
	return 0;
}

unsigned long long first(const struct gpu *g, const char *call)
{
	const struct reading *x = reading(g, call, 0);
	return x ? x->value : 0;
}

/* one answers a call with one result; args is how many arguments it knows. */
static unsigned one(const char *call, void *d, unsigned arg, unsigned args, unsigned *out)
{
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || arg >= args))
		r = INVALID_ARGUMENT;
	const struct reading *x = r ? 0 : reading(at.gpu, call, arg);
	return leave(r ? r : give_number(x != 0, x ? (unsigned)x->value : 0, out));
}

static unsigned two(const char *call, void *d, unsigned *first, unsigned *second)
{
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!first || !second))
		r = INVALID_ARGUMENT;
	const struct reading *a = r ? 0 : reading(at.gpu, call, 0), *b = r ? 0 : reading(at.gpu, call, 1);
	if (!r && (!a || !b))
		r = NOT_SUPPORTED;
	if (!r) {
		*first = a->value;
		*second = b->value;
	}
	return leave(r);
}

#define PLAIN(call) \
	API unsigned nvml##call(void *d, unsigned *out) { return one(#call, d, 0, 1, out); }

PLAIN(DeviceGetPowerUsage)
PLAIN(DeviceGetPowerManagementMode)
PLAIN(DeviceGetPowerManagementLimit)
PLAIN(DeviceGetPowerManagementDefaultLimit)
PLAIN(DeviceGetEnforcedPowerLimit)
PLAIN(DeviceGetPerformanceState)
PLAIN(DeviceGetPowerState)
PLAIN(DeviceGetFanSpeed)
PLAIN(DeviceGetCurrPcieLinkGeneration)
PLAIN(DeviceGetMaxPcieLinkGeneration)
PLAIN(DeviceGetCurrPcieLinkWidth)
PLAIN(DeviceGetMaxPcieLinkWidth)
PLAIN(DeviceGetPcieReplayCounter)
PLAIN(DeviceGetComputeMode)
PLAIN(DeviceGetDisplayMode)
PLAIN(DeviceGetDisplayActive)
PLAIN(DeviceGetAccountingMode)
PLAIN(DeviceGetAccountingBufferSize)
PLAIN(DeviceGetVirtualizationMode)
PLAIN(DeviceGetHostVgpuMode)
PLAIN(DeviceGetMultiGpuBoard)
PLAIN(DeviceGetBoardId)
PLAIN(DeviceGetModuleId)
PLAIN(DeviceGetGpuMaxPcieLinkGeneration)
PLAIN(DeviceGetRetiredPagesPendingStatus)

#define INDEXED(call, args) \
	API unsigned nvml##call(void *d, unsigned arg, unsigned *out) { return one(#call, d, arg, args, out); }

INDEXED(DeviceGetTemperature, 1)
INDEXED(DeviceGetTemperatureThreshold, 8)
INDEXED(DeviceGetClockInfo, 4)
INDEXED(DeviceGetMaxClockInfo, 4)
INDEXED(DeviceGetApplicationsClock, 4)
INDEXED(DeviceGetDefaultApplicationsClock, 4)
INDEXED(DeviceGetMaxCustomerBoostClock, 4)
INDEXED(DeviceGetPcieThroughput, 2)
INDEXED(DeviceGetNvLinkState, 36)
INDEXED(DeviceGetNvLinkVersion, 36)
INDEXED(DeviceGetNvLinkRemoteDeviceType, 36)

#define PAIR(call) \
	API unsigned nvml##call(void *d, unsigned *a, unsigned *b) { return two(#call, d, a, b); }

PAIR(DeviceGetPowerManagementLimitConstraints)
PAIR(DeviceGetEccMode)
PAIR(DeviceGetEncoderUtilization)
PAIR(DeviceGetDecoderUtilization)
PAIR(DeviceGetJpgUtilization)
PAIR(DeviceGetOfaUtilization)

struct utilization {
	unsigned gpu, memory;
};

API unsigned nvmlDeviceGetUtilizationRates(void *d, struct utilization *out)
{
	return two("DeviceGetUtilizationRates", d, out ? &out->gpu : 0, out ? &out->memory : 0);
}

API unsigned nvmlDeviceGetTotalEccErrors(void *d, unsigned type, unsigned counter, unsigned long long *out)
{
	unsigned n = 0;
	unsigned r = one("DeviceGetTotalEccErrors", d, type < 2 && counter < 2 ? type * 2 + counter : 4, 4, out ? &n : 0);
	if (!r)
		*out = n;
	return r;
}

unsigned several(const char *call, void *d, int args, struct part *at, unsigned long long *out, unsigned n)
{
	unsigned r = begin_at(call, d, 0, at);
	if (!r && at->ci)
		r = NOT_SUPPORTED;
	if (!r && !args)
		r = INVALID_ARGUMENT;
	for (unsigned i = 0; !r && i < n; i++) {
		const struct reading *x = reading(at->gpu, call, i);
		if (!x)
			r = NOT_SUPPORTED;
		else
			out[i] = x->value;
	}
	return r;
}

/* processes answers that there are none, in every form of the call. */
static unsigned processes(const char *call, void *d, int mig, unsigned *count)
{
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && (at.ci ? !mig : !at.gpu->has_pci))
		r = NOT_SUPPORTED;
	if (!r && !count)
		r = INVALID_ARGUMENT;
	if (!r)
		*count = 0;
	return leave(r);
}

#define PROCESSES(call, mig)                                                                                               \
	API unsigned nvml##call(void *d, unsigned *n, void *out) { return (void)out, processes(#call, d, mig, n); }       \
	API unsigned nvml##call##_v2(void *d, unsigned *n, void *out) { return (void)out, processes(#call, d, mig, n); } \
	API unsigned nvml##call##_v3(void *d, unsigned *n, void *out) { return (void)out, processes(#call, d, mig, n); }

PROCESSES(DeviceGetComputeRunningProcesses, 1)
PROCESSES(DeviceGetGraphicsRunningProcesses, 0)
