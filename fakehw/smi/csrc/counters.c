/* Counters, modes and limits that newer branches print. */
#include "counters.h"

#include <string.h>

static unsigned decimal(unsigned r, unsigned long long n, char *out)
{
	if (!r)
		snprintf(out, TEXT, "%llu", n);
	return r;
}

static unsigned either(unsigned r, int on, const char *no, const char *yes, char *out)
{
	if (!r)
		snprintf(out, TEXT, "%s", on ? yes : no);
	return r;
}

/* value asks one field value. */
static unsigned value(const struct gpu *g, unsigned id, unsigned scope, long long *out)
{
	struct field_value v = {.id = id, .scope = scope};
	unsigned r = nvml.DeviceGetFieldValues(g->d, 1, &v);
	if (r || v.code)
		return r ? r : v.code;
	*out = v.type == 5 ? v.value.si : v.type == 1 ? (long long)v.value.ui : v.value.sll;
	return OK;
}

#define VALUE(name, id, scope)                                    \
	unsigned name(const struct gpu *g, char *out)             \
	{                                                         \
		long long n = 0;                                  \
		unsigned r = value(g, id, scope, &n);             \
		if (!r)                                           \
			snprintf(out, TEXT, "%lld", n);           \
		return r;                                         \
	}

#define MILLIWATTS(name, id, scope)                                                      \
	unsigned name(const struct gpu *g, char *out)                                    \
	{                                                                                \
		long long n = 0;                                                         \
		unsigned r = value(g, id, scope, &n);                                    \
		if (!r)                                                                  \
			snprintf(out, TEXT, "%lld.%02lld", n / 1000, n % 1000 / 10);     \
		return r;                                                                \
	}

#define NANOSECONDS(name, id)                                     \
	unsigned name(const struct gpu *g, char *out)             \
	{                                                         \
		long long n = 0;                                  \
		unsigned r = value(g, id, 0, &n);                 \
		return decimal(r, n / 1000, out);                 \
	}

VALUE(memory_temperature, 82, 0)
VALUE(rollovers, 95, 0)
VALUE(shutdown_tlimit, 193, 0)
VALUE(slowdown_tlimit, 194, 0)
VALUE(memory_tlimit, 195, 0)
VALUE(most_tlimit, 196, 0)
MILLIWATTS(power_average, 185, 0)
MILLIWATTS(power_instant, 186, 0)
MILLIWATTS(module_average, 185, 1)
MILLIWATTS(module_instant, 186, 1)
MILLIWATTS(module_min, 187, 1)
MILLIWATTS(module_max, 188, 1)
MILLIWATTS(module_default, 189, 1)
MILLIWATTS(module_current, 190, 1)
MILLIWATTS(module_requested, 192, 1)
MILLIWATTS(memory_average, 185, 2)
MILLIWATTS(memory_instant, 186, 2)
NANOSECONDS(counter_power_cap, 74)
NANOSECONDS(counter_sync_boost, 76)
NANOSECONDS(counter_sw_thermal, 269)
NANOSECONDS(counter_hw_thermal, 270)
NANOSECONDS(counter_hw_brake, 271)

static unsigned atomics(const struct gpu *g, unsigned id, char *out)
{
	static const char *const names[] = {"FETCHADD_32", "FETCHADD_64", "SWAP_32", "SWAP_64", "CAS_32", "CAS_64", "CAS_128"};
	long long mask = 0;
	unsigned r = value(g, id, 0, &mask);
	*out = 0;
	for (unsigned i = 0; !r && i < 7; i++)
		if (mask >> i & 1) {
			strcat(out, names[i]);
			strcat(out, " ");
		}
	return r;
}

unsigned atomics_out(const struct gpu *g, char *out) { return atomics(g, 228, out); }
unsigned atomics_in(const struct gpu *g, char *out) { return atomics(g, 229, out); }

unsigned recovery(const struct gpu *g, char *out)
{
	static const char *const words[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"};
	long long n = 0;
	unsigned r = value(g, 230, 0, &n);
	if (!r)
		snprintf(out, TEXT, "%s", n >= 0 && n < 5 ? words[n] : "Unknown");
	return r;
}

/* REASON makes the getter of one reason of clocks. */
#define REASON(name, bit)                                                                  \
	unsigned name(const struct gpu *g, char *out)                                      \
	{                                                                                  \
		unsigned long long mask = 0;                                               \
		unsigned r = nvml.DeviceGetCurrentClocksThrottleReasons(g->d, &mask);      \
		return either(r, mask >> bit & 1, "Not Active", "Active", out);            \
	}

REASON(reason_idle, 0)
REASON(reason_applications, 1)
REASON(reason_power_cap, 2)
REASON(reason_hw, 3)
REASON(reason_sync_boost, 4)
REASON(reason_sw_thermal, 5)
REASON(reason_hw_thermal, 6)
REASON(reason_hw_brake, 7)
REASON(reason_display, 8)

unsigned reasons_active(const struct gpu *g, char *out)
{
	unsigned long long mask = 0;
	unsigned r = nvml.DeviceGetCurrentClocksThrottleReasons(g->d, &mask);
	if (!r)
		snprintf(out, TEXT, "0x%016llX", mask);
	return r;
}

unsigned reasons_supported(const struct gpu *g, char *out)
{
	unsigned long long mask = 0;
	unsigned r = nvml.DeviceGetSupportedClocksThrottleReasons(g->d, &mask);
	if (!r)
		snprintf(out, TEXT, "0x%016llX", mask);
	return r;
}

/* LOCATED makes the getter of a count of errors in DRAM (2) or SRAM (7). */
#define LOCATED(name, type, counter, location)                                                        \
	unsigned name(const struct gpu *g, char *out)                                                 \
	{                                                                                             \
		unsigned long long n = 0;                                                             \
		return decimal(nvml.DeviceGetMemoryErrorCounter(g->d, type, counter, location, &n), n, out); \
	}

LOCATED(volatile_dram_corrected, 0, 0, 2)
LOCATED(volatile_dram_uncorrected, 1, 0, 2)
LOCATED(volatile_sram_corrected, 0, 0, 7)
LOCATED(volatile_sram_uncorrected, 1, 0, 7)
LOCATED(aggregate_dram_corrected, 0, 1, 2)
LOCATED(aggregate_dram_uncorrected, 1, 1, 2)
LOCATED(aggregate_sram_corrected, 0, 1, 7)
LOCATED(aggregate_sram_uncorrected, 1, 1, 7)

#define SRAM(name, member)                                                        \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		struct sram_status s = {.version = FORM(struct sram_status, 1)};  \
		unsigned r = nvml.DeviceGetSramEccErrorStatus(g->d, &s);          \
		return decimal(r, s.member, out);                                 \
	}

SRAM(aggregate_parity, aggregate_parity)
SRAM(aggregate_secded, aggregate_secded)
SRAM(volatile_parity, volatile_parity)
SRAM(volatile_secded, volatile_secded)
SRAM(sram_l2, l2)
SRAM(sram_sm, sm)
SRAM(sram_pcie, pcie)
SRAM(sram_mcu, mcu)
SRAM(sram_other, other)

unsigned sram_exceeded(const struct gpu *g, char *out)
{
	struct sram_status s = {.version = FORM(struct sram_status, 1)};
	unsigned r = nvml.DeviceGetSramEccErrorStatus(g->d, &s);
	return either(r, s.exceeded, "No", "Yes", out);
}

static unsigned repair(const struct gpu *g, char *out, int which)
{
	struct repair s = {.version = FORM(struct repair, 1)};
	unsigned r = nvml.DeviceGetRepairStatus(g->d, &s);
	return either(r, s.pending[which], "No", "Yes", out);
}

unsigned repair_channel(const struct gpu *g, char *out) { return repair(g, out, 0); }
unsigned repair_tpc(const struct gpu *g, char *out) { return repair(g, out, 1); }

static unsigned retired(const struct gpu *g, unsigned cause, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetRetiredPages(g->d, cause, &n, 0);
	return decimal(r == NO_ROOM ? OK : r, n, out);
}

unsigned retired_single(const struct gpu *g, char *out) { return retired(g, 0, out); }
unsigned retired_double(const struct gpu *g, char *out) { return retired(g, 1, out); }

unsigned retired_pending(const struct gpu *g, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetRetiredPagesPendingStatus(g->d, &n);
	return either(r, n, "No", "Yes", out);
}

static unsigned remapped(const struct gpu *g, unsigned n[4])
{
	return nvml.DeviceGetRemappedRows(g->d, &n[0], &n[1], &n[2], &n[3]);
}

#define ROWS(name, which)                                                         \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		unsigned n[4] = {0}, r = remapped(g, n);                          \
		return which < 2 ? decimal(r, n[which], out) : either(r, n[which], "No", "Yes", out); \
	}

ROWS(remapped_corrected, 0)
ROWS(remapped_uncorrected, 1)
ROWS(remapped_pending, 2)
ROWS(remapped_failed, 3)

#define BANKS(name, which)                                                        \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		unsigned n[5] = {0}, r = nvml.DeviceGetRowRemapperHistogram(g->d, n); \
		return decimal(r, n[which], out);                                 \
	}

BANKS(banks_max, 0)
BANKS(banks_high, 1)
BANKS(banks_partial, 2)
BANKS(banks_low, 3)
BANKS(banks_none, 4)

#define SESSIONS(name, which)                                                     \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		unsigned n[3] = {0}, r = nvml.DeviceGetEncoderStats(g->d, &n[0], &n[1], &n[2]); \
		return decimal(r, n[which], out);                                 \
	}

SESSIONS(encoder_sessions, 0)
SESSIONS(encoder_fps, 1)
SESSIONS(encoder_latency, 2)

#define CAPTURES(name, which)                                                     \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		unsigned n[3] = {0}, r = nvml.DeviceGetFBCStats(g->d, n);         \
		return decimal(r, n[which], out);                                 \
	}

CAPTURES(fbc_sessions, 0)
CAPTURES(fbc_fps, 1)
CAPTURES(fbc_latency, 2)

#define PROTECTED(name, member)                                                   \
	unsigned name(const struct gpu *g, char *out)                             \
	{                                                                         \
		struct memory m = {0};                                            \
		unsigned r = nvml.DeviceGetConfComputeProtectedMemoryUsage(g->d, &m); \
		return decimal(r, m.member >> 20, out);                           \
	}

PROTECTED(protected_total, total)
PROTECTED(protected_used, used)
PROTECTED(protected_free, free)

static unsigned throughput(const struct gpu *g, unsigned counter, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetPcieThroughput(g->d, counter, &n);
	return decimal(r, n, out);
}

unsigned throughput_tx(const struct gpu *g, char *out) { return throughput(g, 0, out); }
unsigned throughput_rx(const struct gpu *g, char *out) { return throughput(g, 1, out); }

unsigned used_jpeg(const struct gpu *g, char *out)
{
	unsigned n = 0, period, r = nvml.DeviceGetJpgUtilization(g->d, &n, &period);
	return decimal(r, n, out);
}

unsigned used_ofa(const struct gpu *g, char *out)
{
	unsigned n = 0, period, r = nvml.DeviceGetOfaUtilization(g->d, &n, &period);
	return decimal(r, n, out);
}

unsigned tlimit(const struct gpu *g, char *out)
{
	struct margin m = {.version = FORM(struct margin, 1)};
	unsigned r = nvml.DeviceGetMarginTemperature(g->d, &m);
	if (!r)
		snprintf(out, TEXT, "%d", m.degrees);
	return r;
}

unsigned addressing(const struct gpu *g, char *out)
{
	static const char *const words[] = {"None", "HMM", "ATS"};
	struct margin m = {.version = FORM(struct margin, 1)};
	unsigned r = nvml.DeviceGetAddressingMode(g->d, &m);
	if (!r)
		snprintf(out, TEXT, "%s", m.degrees >= 0 && m.degrees < 3 ? words[m.degrees] : "Unknown");
	return r;
}

unsigned boost(const struct gpu *g, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetMaxCustomerBoostClock(g->d, CLOCK_GRAPHICS, &n);
	return decimal(r, n, out);
}

unsigned link_device(const struct gpu *g, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetGpuMaxPcieLinkGeneration(g->d, &n);
	return decimal(r, n, out);
}

unsigned module_id(const struct gpu *g, char *out)
{
	unsigned n = 0, r = nvml.DeviceGetModuleId(g->d, &n);
	return decimal(r, n, out);
}

static unsigned platform(const struct gpu *g, struct platform *p)
{
	*p = (struct platform){.version = FORM(struct platform, 1)};
	return nvml.DeviceGetPlatformInfo(g->d, p);
}

unsigned platform_host(const struct gpu *g, char *out)
{
	struct platform p;
	unsigned r = platform(g, &p);
	return decimal(r, p.host, out);
}

unsigned platform_peer(const struct gpu *g, char *out)
{
	struct platform p;
	unsigned r = platform(g, &p);
	return either(r, p.peer, "Direct Connected", "Switch Connected", out);
}

unsigned base_class(const struct gpu *g, char *out)
{
	struct pci_ext p = {.version = FORM(struct pci_ext, 1)};
	unsigned r = nvml.DeviceGetPciInfoExt(g->d, &p);
	if (!r)
		snprintf(out, TEXT, "0x%X", p.base_class);
	return r;
}

unsigned sub_class(const struct gpu *g, char *out)
{
	struct pci_ext p = {.version = FORM(struct pci_ext, 1)};
	unsigned r = nvml.DeviceGetPciInfoExt(g->d, &p);
	if (!r)
		snprintf(out, TEXT, "0x%X", p.sub_class);
	return r;
}

unsigned clique(const struct gpu *g, char *out)
{
	struct fabric f = {.state = 0};
	unsigned r = nvml.DeviceGetGpuFabricInfo(g->d, &f);
	return decimal(r, f.clique, out);
}

unsigned cluster(const struct gpu *g, char *out)
{
	struct fabric f = {.state = 0};
	unsigned r = nvml.DeviceGetGpuFabricInfo(g->d, &f);
	for (int i = 0; !r && i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", f.cluster[i]);
	return r;
}

/* health prints two bits of the fabric's health: not known, so, or not so. */
static unsigned health(const struct gpu *g, unsigned shift, const char *so, const char *not, char *out)
{
	struct fabric_v3 f = {.version = FORM(struct fabric_v3, 3)};
	unsigned r = nvml.DeviceGetGpuFabricInfoV(g->d, &f), bits = f.health >> shift & 3;
	return r || !bits ? NOT_SUPPORTED : either(r, bits == 2, so, not, out);
}

unsigned health_bandwidth(const struct gpu *g, char *out) { return health(g, 0, "Degraded", "Full", out); }
unsigned health_recovery(const struct gpu *g, char *out) { return health(g, 2, "True", "False", out); }
unsigned health_route(const struct gpu *g, char *out) { return health(g, 4, "True", "False", out); }
unsigned health_timeout(const struct gpu *g, char *out) { return health(g, 6, "True", "False", out); }

unsigned health_summary(const struct gpu *g, char *out)
{
	static const char *const words[] = {"N/A", "Healthy", "Unhealthy", "Limited Capacity"};
	struct fabric_v3 f = {.version = FORM(struct fabric_v3, 3)};
	unsigned r = nvml.DeviceGetGpuFabricInfoV(g->d, &f);
	if (!r)
		snprintf(out, TEXT, "%s", words[f.summary & 3]);
	return r;
}
