/* What a full GPU says of its board, its counters and its field values. */
#include "api.h"

#include <string.h>

/* words answers a call with a text. */
static unsigned words(const char *call, void *d, unsigned arg, unsigned args, char *out, unsigned size)
{
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && arg >= args)
		r = INVALID_ARGUMENT;
	const struct reading *x = r ? 0 : reading(at.gpu, call, arg);
	return leave(r ? r : give_text(x ? x->text : "", out, size));
}

API unsigned nvmlDeviceGetBoardPartNumber(void *d, char *out, unsigned size) { return words("DeviceGetBoardPartNumber", d, 0, 1, out, size); }
API unsigned nvmlDeviceGetInforomImageVersion(void *d, char *out, unsigned size) { return words("DeviceGetInforomImageVersion", d, 0, 1, out, size); }
API unsigned nvmlDeviceGetInforomVersion(void *d, unsigned object, char *out, unsigned size) { return words("DeviceGetInforomVersion", d, object, 4, out, size); }
API unsigned nvmlDeviceGetGspFirmwareVersion(void *d, char *out) { return words("DeviceGetGspFirmwareVersion", d, 0, 1, out, 0x40); }

/* LONG makes a call with one 64-bit result. */
#define LONG(call) \
	API unsigned nvml##call(void *d, unsigned long long *out) \
	{ \
		struct part at; \
		unsigned long long n; \
		unsigned r = several(#call, d, out != 0, &at, &n, 1); \
		if (!r) \
			*out = n; \
		return leave(r); \
	}

LONG(DeviceGetCurrentClocksEventReasons)
LONG(DeviceGetSupportedClocksEventReasons)
LONG(DeviceGetCurrentClocksThrottleReasons)
LONG(DeviceGetSupportedClocksThrottleReasons)
LONG(DeviceGetSupportedEventTypes)

API unsigned nvmlDeviceGetEncoderStats(void *d, unsigned *sessions, unsigned *fps, unsigned *latency)
{
	struct part at;
	unsigned long long n[3];
	unsigned r = several("DeviceGetEncoderStats", d, sessions && fps && latency, &at, n, 3);
	if (!r) {
		*sessions = n[0];
		*fps = n[1];
		*latency = n[2];
	}
	return leave(r);
}

API unsigned nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
	struct part at;
	unsigned long long n[4];
	unsigned r = several("DeviceGetRemappedRows", d, corrected && uncorrected && pending && failed, &at, n, 4);
	if (!r) {
		*corrected = n[0];
		*uncorrected = n[1];
		*pending = n[2];
		*failed = n[3];
	}
	return leave(r);
}

/* numbers fills a structure of n unsigned ints, after a version if it has one. */
static unsigned numbers(const char *call, void *d, unsigned *out, unsigned version, unsigned n)
{
	struct part at;
	unsigned long long v[8];
	unsigned r = several(call, d, out != 0, &at, v, n);
	if (!r && version && *out != version)
		r = VERSION_MISMATCH;
	for (unsigned i = 0; !r && i < n; i++)
		out[i + (version != 0)] = v[i];
	return leave(r);
}

/* STRUCT makes a call that fills n unsigned ints; VERSIONED one with a version first. */
#define STRUCT(call, n) \
	API unsigned nvml##call(void *d, unsigned *out) { return numbers(#call, d, out, 0, n); }
#define VERSIONED(call, n) \
	API unsigned nvml##call(void *d, unsigned *out) { return numbers(#call, d, out, 4 * (n + 1) | 1u << 24, n); }

STRUCT(DeviceGetC2cModeInfoV, 1)
STRUCT(DeviceGetFBCStats, 3)
STRUCT(DeviceGetRowRemapperHistogram, 5)
VERSIONED(DeviceGetRepairStatus, 2)
VERSIONED(DeviceGetMarginTemperature, 1)
VERSIONED(DeviceGetAddressingMode, 1)

struct memory {
	unsigned long long total, free, used;
};

API unsigned nvmlDeviceGetConfComputeProtectedMemoryUsage(void *d, struct memory *out)
{
	struct part at;
	unsigned long long n[3];
	unsigned r = several("DeviceGetConfComputeProtectedMemoryUsage", d, out != 0, &at, n, 3);
	if (!r)
		*out = (struct memory){.total = n[0], .free = n[1], .used = n[2]};
	return leave(r);
}

struct sram {
	unsigned version;
	unsigned long long counts[11];
	unsigned exceeded;
};

API unsigned nvmlDeviceGetSramEccErrorStatus(void *d, struct sram *out)
{
	struct part at;
	unsigned long long n[12];
	unsigned r = several("DeviceGetSramEccErrorStatus", d, out != 0, &at, n, 12);
	if (!r && out->version != VERSION(struct sram, 1))
		r = VERSION_MISMATCH;
	if (!r) {
		memcpy(out->counts, n, sizeof out->counts);
		out->exceeded = n[11];
	}
	return leave(r);
}

struct platform {
	unsigned version;
	unsigned char guid[16], chassis[16], slot, tray, host, peer, module;
};

API unsigned nvmlDeviceGetPlatformInfo(void *d, struct platform *out)
{
	struct part at;
	unsigned long long n[5];
	unsigned r = several("DeviceGetPlatformInfo", d, out != 0, &at, n, 5);
	if (!r && out->version != VERSION(struct platform, 1) && out->version != VERSION(struct platform, 2))
		r = VERSION_MISMATCH;
	if (!r)
		*out = (struct platform){.version = out->version, .slot = n[0], .tray = n[1], .host = n[2], .peer = n[3], .module = n[4]};
	return leave(r);
}

API unsigned nvmlDeviceGetMemoryErrorCounter(void *d, unsigned type, unsigned counter, unsigned location, unsigned long long *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMemoryErrorCounter", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || type > 1 || counter > 1 || location > 7))
		r = INVALID_ARGUMENT;
	const struct reading *x = r ? 0 : reading(at.gpu, "DeviceGetMemoryErrorCounter", (type * 2 + counter) * 16 + location);
	if (!r && !x)
		r = NOT_SUPPORTED;
	if (!r)
		*out = x->value;
	return leave(r);
}

/* retired lists no pages. */
static unsigned retired(void *d, unsigned cause, unsigned *count)
{
	struct part at;
	unsigned r = begin_at("DeviceGetRetiredPages", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!count || cause > 1))
		r = INVALID_ARGUMENT;
	if (!r && !reading(at.gpu, "DeviceGetRetiredPages", cause))
		r = NOT_SUPPORTED;
	if (!r)
		*count = 0;
	return leave(r);
}

API unsigned nvmlDeviceGetRetiredPages(void *d, unsigned cause, unsigned *n, void *pages) { return (void)pages, retired(d, cause, n); }
API unsigned nvmlDeviceGetRetiredPages_v2(void *d, unsigned cause, unsigned *n, void *pages, void *times) { return (void)pages, (void)times, retired(d, cause, n); }

struct field_value {
	unsigned id, scope;
	long long when, took;
	unsigned type, code;
	unsigned char value[8];
};

/* Types of values, and the fields that have not unsigned ints. */
enum { UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3, SIGNED_INT = 5, FIELDS = 308 };

static unsigned type_of(unsigned id)
{
	if (id >= 193 && id <= 196)
		return SIGNED_INT;
	return (id >= 74 && id <= 76) || (id >= 269 && id <= 271) ? UNSIGNED_LONG_LONG : UNSIGNED_INT;
}

API unsigned nvmlDeviceGetFieldValues(void *d, int n, struct field_value *v)
{
	struct part at;
	unsigned r = begin_at("DeviceGetFieldValues", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (n <= 0 || !v))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < n; i++) {
		struct field_value *f = &v[i];
		*f = (struct field_value){.id = f->id, .scope = f->scope, .type = UNSIGNED_INT};
		if (!f->id || f->id >= FIELDS || f->scope > 0xffff) {
			f->code = INVALID_ARGUMENT;
			continue;
		}
		const struct reading *x = reading(at.gpu, "DeviceGetFieldValues", f->scope << 16 | f->id);
		if (!x) {
			f->code = NOT_SUPPORTED;
			continue;
		}
		f->type = type_of(f->id);
		memcpy(f->value, &x->value, f->type == UNSIGNED_LONG_LONG ? 8 : 4);
	}
	return leave(r);
}

struct temperature {
	unsigned version, sensor;
	int celsius;
};

API unsigned nvmlDeviceGetTemperatureV(void *d, struct temperature *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetTemperatureV", d, 0, &at);
	if (!r && (!out || out->sensor))
		r = INVALID_ARGUMENT;
	if (!r && out->version != VERSION(struct temperature, 1))
		r = VERSION_MISMATCH;
	const struct reading *x = r || at.ci ? 0 : reading(at.gpu, "DeviceGetTemperature", 0);
	if (!r && !x)
		r = NOT_SUPPORTED;
	if (!r)
		out->celsius = (int)x->value;
	return leave(r);
}
