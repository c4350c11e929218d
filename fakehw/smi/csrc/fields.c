/* The values of a GPU, by the names that --query-gpu gives them. -q takes its
 * values from here too; what has no name there has one that starts with "q.". */
#include "counters.h"
#include "fields.h"

#include <string.h>
#include <time.h>

unsigned memory_of(device d, struct memory_v2 *out)
{
	struct memory m;
	out->version = FORM(struct memory_v2, 2);
	unsigned r = nvml.DeviceGetMemoryInfo_v2(d, out);
	if (r != NOT_SUPPORTED && r != NO_FUNCTION)
		return r;
	r = nvml.DeviceGetMemoryInfo(d, &m);
	*out = (struct memory_v2){.total = m.total, .free = m.free, .used = m.used};
	return r;
}

/* TEXT_FIELD, NUMBER and WORD make the getter of a call with one result. */
#define TEXT_FIELD(name, call) \
	static unsigned name(const struct gpu *g, char *out) { return nvml.call(g->d, out, TEXT); }

#define NUMBER(name, call, format)                            \
	static unsigned name(const struct gpu *g, char *out)  \
	{                                                     \
		unsigned n, r = nvml.call(g->d, &n);          \
		if (!r)                                       \
			snprintf(out, TEXT, format, n);       \
		return r;                                     \
	}

static unsigned word(unsigned r, unsigned n, const char *const *words, unsigned count, char *out)
{
	if (!r)
		snprintf(out, TEXT, "%s", n < count ? words[n] : "Unknown");
	return r;
}

#define WORD(name, call, ...)                                                              \
	static unsigned name(const struct gpu *g, char *out)                               \
	{                                                                                  \
		static const char *const words[] = {__VA_ARGS__};                          \
		unsigned n = 0, r = nvml.call(g->d, &n);                                   \
		return word(r, n, words, sizeof words / sizeof *words, out);               \
	}

/* SIDE makes the getter of one of two results. */
#define SIDE(name, call, side, ...)                                                        \
	static unsigned name(const struct gpu *g, char *out)                               \
	{                                                                                  \
		static const char *const words[] = {__VA_ARGS__};                          \
		unsigned n[2] = {0, 0}, r = nvml.call(g->d, &n[0], &n[1]);                 \
		return word(r, n[side], words, sizeof words / sizeof *words, out);         \
	}

/* INDEXED makes the getter of a call whose argument says which. */
#define INDEXED(name, call, arg)                                      \
	static unsigned name(const struct gpu *g, char *out)          \
	{                                                             \
		unsigned n, r = nvml.call(g->d, arg, &n);             \
		if (!r)                                               \
			snprintf(out, TEXT, "%u", n);                 \
		return r;                                             \
	}

static unsigned watts(unsigned r, unsigned milli, char *out)
{
	if (!r)
		snprintf(out, TEXT, "%u.%02u", milli / 1000, milli % 1000 / 10);
	return r;
}

#define WATTS(name, call)                                     \
	static unsigned name(const struct gpu *g, char *out)  \
	{                                                     \
		unsigned n = 0, r = nvml.call(g->d, &n);      \
		return watts(r, n, out);                      \
	}

/* mebibytes rounds up: in every capture, what is free and what is reserved add up to
 * one more than there is. */
static unsigned mebibytes(unsigned r, unsigned long long bytes, char *out)
{
	if (!r)
		snprintf(out, TEXT, "%llu", (bytes + (1 << 20) - 1) >> 20);
	return r;
}

#define MEMORY(name, kind, call, member)                      \
	static unsigned name(const struct gpu *g, char *out)  \
	{                                                     \
		struct kind m = {0};                          \
		unsigned r = call(g->d, &m);                  \
		return mebibytes(r, m.member, out);           \
	}

#define PCI(name, format, value)                                   \
	static unsigned name(const struct gpu *g, char *out)       \
	{                                                          \
		struct pci_info p;                                 \
		unsigned r = nvml.DeviceGetPciInfo_v3(g->d, &p);   \
		if (!r)                                            \
			snprintf(out, TEXT, format, value);        \
		return r;                                          \
	}

#define ECC(name, type, counter)                                                   \
	static unsigned name(const struct gpu *g, char *out)                       \
	{                                                                          \
		unsigned long long n;                                              \
		unsigned r = nvml.DeviceGetTotalEccErrors(g->d, type, counter, &n);\
		if (!r)                                                            \
			snprintf(out, TEXT, "%llu", n);                            \
		return r;                                                          \
	}

#define SWITCH "Disabled", "Enabled"

TEXT_FIELD(uuid, DeviceGetUUID)
TEXT_FIELD(name, DeviceGetName)
TEXT_FIELD(serial, DeviceGetSerial)
TEXT_FIELD(vbios, DeviceGetVbiosVersion)
TEXT_FIELD(part, DeviceGetBoardPartNumber)
TEXT_FIELD(inforom, DeviceGetInforomImageVersion)
NUMBER(minor_number, DeviceGetMinorNumber, "%u")
NUMBER(board_id, DeviceGetBoardId, "0x%x")
NUMBER(accounting_size, DeviceGetAccountingBufferSize, "%u")
NUMBER(fan, DeviceGetFanSpeed, "%u")
NUMBER(pstate, DeviceGetPerformanceState, "P%u")
NUMBER(power_state, DeviceGetPowerState, "P%u")
NUMBER(link_max, DeviceGetMaxPcieLinkGeneration, "%u")
NUMBER(link_now, DeviceGetCurrPcieLinkGeneration, "%u")
NUMBER(width_max, DeviceGetMaxPcieLinkWidth, "%u")
NUMBER(width_now, DeviceGetCurrPcieLinkWidth, "%u")
NUMBER(replays, DeviceGetPcieReplayCounter, "%u")
WORD(persistence, DeviceGetPersistenceMode, SWITCH)
WORD(display_mode, DeviceGetDisplayMode, SWITCH)
WORD(display_active, DeviceGetDisplayActive, SWITCH)
WORD(accounting, DeviceGetAccountingMode, SWITCH)
WORD(multi_board, DeviceGetMultiGpuBoard, "No", "Yes")
WORD(power_management, DeviceGetPowerManagementMode, SWITCH)
WORD(compute_mode, DeviceGetComputeMode, "Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
WORD(virtualization, DeviceGetVirtualizationMode, "None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA")
WORD(host_vgpu, DeviceGetHostVgpuMode, "Non SR-IOV", "SR-IOV")
WORD(c2c, DeviceGetC2cModeInfoV, SWITCH)
WORD(brand, DeviceGetBrand, "Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "NVIDIA Virtual Applications",
     "NVIDIA Virtual PC", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation", "NVIDIA Cloud Gaming", "Quadro RTX",
     "NVIDIA RTX", "NVIDIA", "GeForce RTX", "Titan RTX")
WORD(architecture, DeviceGetArchitecture, "Unknown", "Unknown", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace",
     "Hopper", "Blackwell")
SIDE(mig_now, DeviceGetMigMode, 0, SWITCH)
SIDE(mig_pending, DeviceGetMigMode, 1, SWITCH)
SIDE(ecc_now, DeviceGetEccMode, 0, SWITCH)
SIDE(ecc_pending, DeviceGetEccMode, 1, SWITCH)
INDEXED(temperature, DeviceGetTemperature, 0)
INDEXED(shutdown_at, DeviceGetTemperatureThreshold, 0)
INDEXED(slowdown_at, DeviceGetTemperatureThreshold, 1)
INDEXED(memory_at, DeviceGetTemperatureThreshold, 2)
INDEXED(most_at, DeviceGetTemperatureThreshold, 3)
INDEXED(target_at, DeviceGetTemperatureThreshold, 5)
INDEXED(clock_gr, DeviceGetClockInfo, CLOCK_GRAPHICS)
INDEXED(clock_sm, DeviceGetClockInfo, CLOCK_SM)
INDEXED(clock_mem, DeviceGetClockInfo, CLOCK_MEM)
INDEXED(clock_video, DeviceGetClockInfo, CLOCK_VIDEO)
INDEXED(most_gr, DeviceGetMaxClockInfo, CLOCK_GRAPHICS)
INDEXED(most_sm, DeviceGetMaxClockInfo, CLOCK_SM)
INDEXED(most_mem, DeviceGetMaxClockInfo, CLOCK_MEM)
INDEXED(most_video, DeviceGetMaxClockInfo, CLOCK_VIDEO)
INDEXED(app_gr, DeviceGetApplicationsClock, CLOCK_GRAPHICS)
INDEXED(app_mem, DeviceGetApplicationsClock, CLOCK_MEM)
INDEXED(default_gr, DeviceGetDefaultApplicationsClock, CLOCK_GRAPHICS)
INDEXED(default_mem, DeviceGetDefaultApplicationsClock, CLOCK_MEM)
WATTS(power, DeviceGetPowerUsage)
WATTS(power_limit, DeviceGetPowerManagementLimit)
WATTS(power_default, DeviceGetPowerManagementDefaultLimit)
WATTS(power_enforced, DeviceGetEnforcedPowerLimit)
MEMORY(memory_total, memory_v2, memory_of, total)
MEMORY(memory_reserved, memory_v2, memory_of, reserved)
MEMORY(memory_used, memory_v2, memory_of, used)
MEMORY(memory_free, memory_v2, memory_of, free)
MEMORY(bar1_total, memory, nvml.DeviceGetBAR1MemoryInfo, total)
MEMORY(bar1_used, memory, nvml.DeviceGetBAR1MemoryInfo, used)
MEMORY(bar1_free, memory, nvml.DeviceGetBAR1MemoryInfo, free)
PCI(pci_bus_id, "%s", p.bus_id)
PCI(pci_domain, "0x%04X", p.domain)
PCI(pci_bus, "0x%02X", p.bus)
PCI(pci_device, "0x%02X", p.device)
PCI(pci_id, "0x%08X", p.id)
PCI(pci_subsystem, "0x%08X", p.subsystem)
ECC(ecc_volatile_corrected, 0, 0)
ECC(ecc_volatile_uncorrected, 1, 0)
ECC(ecc_aggregate_corrected, 0, 1)
ECC(ecc_aggregate_uncorrected, 1, 1)

static unsigned gsp(const struct gpu *g, char *out) { return nvml.DeviceGetGspFirmwareVersion(g->d, out); }
static unsigned oem(const struct gpu *g, char *out) { return nvml.DeviceGetInforomVersion(g->d, 0, out, TEXT); }
static unsigned inforom_ecc(const struct gpu *g, char *out) { return nvml.DeviceGetInforomVersion(g->d, 1, out, TEXT); }
static unsigned inforom_power(const struct gpu *g, char *out) { return nvml.DeviceGetInforomVersion(g->d, 2, out, TEXT); }

static unsigned limit(const struct gpu *g, char *out, int side)
{
	unsigned n[2] = {0, 0}, r = nvml.DeviceGetPowerManagementLimitConstraints(g->d, &n[0], &n[1]);
	return watts(r, n[side], out);
}

static unsigned power_min(const struct gpu *g, char *out) { return limit(g, out, 0); }
static unsigned power_max(const struct gpu *g, char *out) { return limit(g, out, 1); }

static unsigned capability(const struct gpu *g, char *out)
{
	unsigned major, minor, r = nvml.DeviceGetCudaComputeCapability(g->d, &major, &minor);
	if (!r)
		snprintf(out, TEXT, "%u.%u", major, minor);
	return r;
}

static unsigned used_by(const struct gpu *g, char *out, int memory)
{
	struct pair p = {0, 0};
	unsigned r = nvml.DeviceGetUtilizationRates(g->d, &p);
	if (!r)
		snprintf(out, TEXT, "%u", memory ? p.b : p.a);
	return r;
}

static unsigned used_gpu(const struct gpu *g, char *out) { return used_by(g, out, 0); }
static unsigned used_memory(const struct gpu *g, char *out) { return used_by(g, out, 1); }

static unsigned used_encoder(const struct gpu *g, char *out)
{
	unsigned n = 0, period, r = nvml.DeviceGetEncoderUtilization(g->d, &n, &period);
	if (!r)
		snprintf(out, TEXT, "%u", n);
	return r;
}

static unsigned used_decoder(const struct gpu *g, char *out)
{
	unsigned n = 0, period, r = nvml.DeviceGetDecoderUtilization(g->d, &n, &period);
	if (!r)
		snprintf(out, TEXT, "%u", n);
	return r;
}

static unsigned fabric_state(const struct gpu *g, char *out)
{
	static const char *const words[] = {"Not Supported", "Not Started", "In Progress", "Completed"};
	struct fabric f = {.state = 0};
	unsigned r = nvml.DeviceGetGpuFabricInfo(g->d, &f);
	return word(r, f.state, words, 4, out);
}

static unsigned fabric_status(const struct gpu *g, char *out)
{
	struct fabric f = {.state = 0};
	unsigned r = nvml.DeviceGetGpuFabricInfo(g->d, &f);
	if (!r)
		snprintf(out, TEXT, "%s", why(f.status));
	return r;
}

static unsigned gpu_index(const struct gpu *g, char *out)
{
	snprintf(out, TEXT, "%u", g->index);
	return OK;
}

static unsigned gpu_count(const struct gpu *g, char *out)
{
	(void)g;
	snprintf(out, TEXT, "%u", machine.count);
	return OK;
}

static unsigned driver(const struct gpu *g, char *out)
{
	(void)g;
	snprintf(out, TEXT, "%s", machine.driver);
	return OK;
}

static unsigned timestamp(const struct gpu *g, char *out)
{
	struct timespec now;
	struct tm t;
	(void)g;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &t);
	size_t n = strftime(out, TEXT, "%Y/%m/%d %H:%M:%S", &t);
	snprintf(out + n, TEXT - n, ".%03ld", now.tv_nsec / 1000000);
	return OK;
}

/* nothing is the getter of what is not modelled. */
/* plain_na is a text that is not in brackets. */
static unsigned plain_na(const struct gpu *g, char *out)
{
	(void)g;
	strcpy(out, "N/A");
	return OK;
}

/* What a driver has given up. */
static unsigned deprecated(const struct gpu *g, char *out)
{
	(void)g, (void)out;
	return DEPRECATED;
}

static unsigned reset_status(const struct gpu *g, char *out)
{
	return machine.branch >= 570 ? deprecated(g, out) : NOT_SUPPORTED;
}

static unsigned nothing(const struct gpu *g, char *out)
{
	(void)g, (void)out;
	return NOT_SUPPORTED;
}

/* The order is that of --help-query-gpu. */
const struct field fields[] = {
    {"timestamp", 0, "", timestamp},
    {"driver_version", "kmd_version", "", driver},
    {"count", 0, "", gpu_count},
    {"name", "gpu_name", "", name},
    {"serial", "gpu_serial", "", serial},
    {"uuid", "gpu_uuid", "", uuid},
    {"pci.bus_id", "gpu_bus_id", "", pci_bus_id},
    {"pci.domain", 0, "", pci_domain},
    {"pci.bus", 0, "", pci_bus},
    {"pci.device", 0, "", pci_device},
    {"pci.device_id", 0, "", pci_id},
    {"pci.sub_device_id", 0, "", pci_subsystem},
    {"pcie.link.gen.current", 0, "", link_now},
    {"pcie.link.gen.gpucurrent", 0, "", link_now},
    {"pcie.link.gen.max", 0, "", link_max},
    {"pcie.link.gen.gpumax", 0, "", link_device},
    {"pcie.link.gen.hostmax", 0, "", nothing},
    {"pcie.link.width.current", 0, "", width_now},
    {"pcie.link.width.max", 0, "", width_max},
    {"index", 0, "", gpu_index},
    {"display_mode", 0, "", display_mode},
    {"display_active", 0, "", display_active},
    {"persistence_mode", 0, "", persistence},
    {"addressing_mode", 0, "", addressing},
    {"accounting.mode", 0, "", accounting},
    {"accounting.buffer_size", 0, "", accounting_size},
    {"driver_model.current", 0, "", nothing},
    {"driver_model.pending", 0, "", nothing},
    {"vbios_version", 0, "", vbios},
    {"inforom.img", "inforom.image", "", inforom},
    {"inforom.oem", 0, "", oem},
    {"inforom.ecc", 0, "", inforom_ecc},
    {"inforom.pwr", "inforom.power", "", inforom_power},
    {"gom.current", "gpu_operation_mode.current", "", nothing},
    {"gom.pending", "gpu_operation_mode.pending", "", nothing},
    {"fan.speed", 0, "%", fan},
    {"pstate", 0, "", pstate},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", "", reasons_supported},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "", reasons_active},
    {"clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle", "", reason_idle},
    {"clocks_event_reasons.applications_clocks_setting", "clocks_throttle_reasons.applications_clocks_setting", "", reason_applications},
    {"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "", reason_power_cap},
    {"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "", reason_hw},
    {"clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown", "", reason_hw_thermal},
    {"clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown", "", reason_hw_brake},
    {"clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown", "", reason_sw_thermal},
    {"clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost", "", reason_sync_boost},
    {"memory.total", 0, "MiB", memory_total},
    {"memory.reserved", 0, "MiB", memory_reserved},
    {"memory.used", 0, "MiB", memory_used},
    {"memory.free", 0, "MiB", memory_free},
    {"compute_mode", 0, "", compute_mode},
    {"compute_cap", 0, "", capability},
    {"utilization.gpu", 0, "%", used_gpu},
    {"utilization.memory", 0, "%", used_memory},
    {"utilization.encoder", 0, "%", used_encoder},
    {"utilization.decoder", 0, "%", used_decoder},
    {"utilization.jpeg", 0, "%", used_jpeg},
    {"utilization.ofa", 0, "%", used_ofa},
    {"encoder.stats.sessionCount", 0, "", encoder_sessions},
    {"encoder.stats.averageFps", 0, "", encoder_fps},
    {"encoder.stats.averageLatency", 0, "", encoder_latency},
    {"ecc.mode.current", 0, "", ecc_now},
    {"ecc.mode.pending", 0, "", ecc_pending},
    {"ecc.errors.corrected.volatile.device_memory", 0, "", volatile_dram_corrected},
    {"ecc.errors.corrected.volatile.dram", 0, "", volatile_dram_corrected},
    {"ecc.errors.corrected.volatile.sram", 0, "", volatile_sram_corrected},
    {"ecc.errors.corrected.volatile.total", 0, "", ecc_volatile_corrected},
    {"ecc.errors.corrected.aggregate.total", 0, "", ecc_aggregate_corrected},
    {"ecc.errors.uncorrected.volatile.device_memory", 0, "", volatile_dram_uncorrected},
    {"ecc.errors.uncorrected.volatile.dram", 0, "", volatile_dram_uncorrected},
    {"ecc.errors.uncorrected.volatile.sram", 0, "", volatile_sram_uncorrected},
    {"ecc.errors.uncorrected.volatile.total", 0, "", ecc_volatile_uncorrected},
    {"ecc.errors.uncorrected.aggregate.total", 0, "", ecc_aggregate_uncorrected},
    {"retired_pages.single_bit_ecc.count", "retired_pages.sbe", "", retired_single},
    {"retired_pages.double_bit.count", "retired_pages.dbe", "", retired_double},
    {"retired_pages.pending", 0, "", retired_pending},
    {"ecc.errors.corrected.aggregate.dram", 0, "", aggregate_dram_corrected},
    {"ecc.errors.corrected.aggregate.sram", 0, "", aggregate_sram_corrected},
    {"ecc.errors.uncorrected.aggregate.dram", 0, "", aggregate_dram_uncorrected},
    {"ecc.errors.uncorrected.aggregate.sram", 0, "", aggregate_sram_uncorrected},
    {"remapped_rows.correctable", "remapped_rows.sbe", "", remapped_corrected},
    {"remapped_rows.uncorrectable", "remapped_rows.dbe", "", remapped_uncorrected},
    {"remapped_rows.pending", 0, "", remapped_pending},
    {"remapped_rows.failure", 0, "", remapped_failed},
    {"remapped_rows.histogram.max", 0, "", banks_max},
    {"remapped_rows.histogram.high", 0, "", banks_high},
    {"remapped_rows.histogram.partial", 0, "", banks_partial},
    {"remapped_rows.histogram.low", 0, "", banks_low},
    {"remapped_rows.histogram.none", 0, "", banks_none},
    {"temperature.gpu", 0, "", temperature},
    {"temperature.gpu.tlimit", 0, "", tlimit},
    {"temperature.memory", 0, "", memory_temperature},
    {"power.management", 0, "", power_management},
    {"power.draw", 0, "W", power},
    {"power.draw.average", "gpu.power.draw.average", "W", power_average},
    {"power.draw.instant", "gpu.power.draw.instant", "W", power_instant},
    {"power.limit", "gpu.power.requested_limit", "W", power_limit},
    {"enforced.power.limit", "gpu.power.current_limit", "W", power_enforced},
    {"power.default_limit", "gpu.power.default_limit", "W", power_default},
    {"power.min_limit", "gpu.power.min_limit", "W", power_min},
    {"power.max_limit", "gpu.power.max_limit", "W", power_max},
    {"clocks.current.graphics", "clocks.gr", "MHz", clock_gr},
    {"clocks.current.sm", "clocks.sm", "MHz", clock_sm},
    {"clocks.current.memory", "clocks.mem", "MHz", clock_mem},
    {"clocks.current.video", "clocks.video", "MHz", clock_video},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz", app_gr},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz", app_mem},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz", default_gr},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz", default_mem},
    {"clocks.max.graphics", "clocks.max.gr", "MHz", most_gr},
    {"clocks.max.sm", "clocks.max.sm", "MHz", most_sm},
    {"clocks.max.memory", "clocks.max.mem", "MHz", most_mem},
    {"mig.mode.current", 0, "", mig_now},
    {"mig.mode.pending", 0, "", mig_pending},
    {"gsp.mode.current", 0, "", nothing},
    {"gsp.mode.default", 0, "", nothing},
    {"fabric.state", 0, "", fabric_state},
    {"fabric.status", 0, "", fabric_status},
    {"c2c.mode", 0, "", c2c},
    {"clocks_event_reasons_counters.sw_power_cap", 0, "us", counter_power_cap},
    {"clocks_event_reasons_counters.sync_boost", 0, "us", counter_sync_boost},
    {"clocks_event_reasons_counters.sw_thermal_slowdown", 0, "us", counter_sw_thermal},
    {"clocks_event_reasons_counters.hw_thermal_slowdown", 0, "us", counter_hw_thermal},
    {"clocks_event_reasons_counters.hw_power_brake_slowdown", 0, "us", counter_hw_brake},
    {"display_attached", 0, "", deprecated},
    {"dramEncryption.mode.current", 0, "", nothing},
    {"dramEncryption.mode.pending", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.device_memory", 0, "", aggregate_dram_corrected},
    {"ecc.errors.corrected.volatile.cbu", 0, "", nothing},
    {"ecc.errors.corrected.volatile.l1_cache", 0, "", nothing},
    {"ecc.errors.corrected.volatile.l2_cache", 0, "", nothing},
    {"ecc.errors.corrected.volatile.register_file", 0, "", nothing},
    {"ecc.errors.corrected.volatile.texture_memory", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.cbu", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.l1_cache", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.l2_cache", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.register_file", 0, "", nothing},
    {"ecc.errors.corrected.aggregate.texture_memory", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.device_memory", 0, "", aggregate_dram_uncorrected},
    {"ecc.errors.uncorrected.volatile.cbu", 0, "", nothing},
    {"ecc.errors.uncorrected.volatile.l1_cache", 0, "", nothing},
    {"ecc.errors.uncorrected.volatile.l2_cache", 0, "", nothing},
    {"ecc.errors.uncorrected.volatile.register_file", 0, "", nothing},
    {"ecc.errors.uncorrected.volatile.texture_memory", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.cbu", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.l1_cache", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.l2_cache", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.register_file", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.texture_memory", 0, "", nothing},
    {"ecc.errors.uncorrected.aggregate.sram.l2", 0, "", sram_l2},
    {"ecc.errors.uncorrected.aggregate.sram.mcu", 0, "", sram_mcu},
    {"ecc.errors.uncorrected.aggregate.sram.other", 0, "", sram_other},
    {"ecc.errors.uncorrected.aggregate.sram.pcie", 0, "", sram_pcie},
    {"ecc.errors.uncorrected.aggregate.sram.sm", 0, "", sram_sm},
    {"ecc.errors.uncorrected.aggregate.sram.parity", 0, "", aggregate_parity},
    {"ecc.errors.uncorrected.aggregate.sram.secded", 0, "", aggregate_secded},
    {"ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", 0, "", sram_exceeded},
    {"ecc.errors.uncorrected.volatile.sram.parity", 0, "", volatile_parity},
    {"ecc.errors.uncorrected.volatile.sram.secded", 0, "", volatile_secded},
    {"fabric.cliqueId", 0, "", clique},
    {"fabric.clusterUuid", 0, "", cluster},
    {"fabric.health.summary", 0, "", health_summary},
    {"fabric.health.bandwidth", 0, "", health_bandwidth},
    {"fabric.health.route_recovery_in_progress", 0, "", health_recovery},
    {"fabric.health.route_unhealthy", 0, "", health_route},
    {"fabric.health.access_timeout_recovery", 0, "", health_timeout},
    {"fabric.health.incorrect_configuration", 0, "", plain_na},
    {"fabric.health.partition_assigned", 0, "", plain_na},
    {"gpu_recovery_action", 0, "", recovery},
    {"hostname", 0, "", nothing},
    {"inforom.checksum_validation", 0, "", plain_na},
    {"module.power.draw.average", 0, "W", module_average},
    {"module.power.draw.instant", 0, "W", module_instant},
    {"module.enforced.power.limit", "module.power.current_limit", "W", module_current},
    {"module.power.limit", "module.power.requested_limit", "W", module_requested},
    {"module.power.default_limit", 0, "W", module_default},
    {"module.power.min_limit", 0, "W", module_min},
    {"module.power.max_limit", 0, "W", module_max},
    {"pci.baseClass", 0, "", base_class},
    {"pci.subClass", 0, "", sub_class},
    {"platform.chassis_serial_number", 0, "", nothing},
    {"platform.gpu_fabric_guid", 0, "", nothing},
    {"platform.slot_number", 0, "", nothing},
    {"platform.tray_index", 0, "", nothing},
    {"platform.host_id", 0, "", platform_host},
    {"platform.module_id", 0, "", module_id},
    {"platform.peer_type", 0, "", platform_peer},
    {"power_smoothing.admin_override.primary_floor_act_offset", 0, "W", nothing},
    {"power_smoothing.admin_override.primary_floor_act_window_multiplier", 0, "", nothing},
    {"power_smoothing.admin_override.primary_floor_tar_window_multiplier", 0, "", nothing},
    {"power_smoothing.admin_override.secondary_power_floor", 0, "W", nothing},
    {"power_smoothing.curr_profile.primary_floor_act_offset", 0, "W", nothing},
    {"power_smoothing.curr_profile.primary_floor_act_window_multiplier", 0, "", nothing},
    {"power_smoothing.curr_profile.primary_floor_tar_window_multiplier", 0, "", nothing},
    {"power_smoothing.curr_profile.secondary_power_floor", 0, "W", nothing},
    {"power_smoothing.delayed_power_smoothing_supported", 0, "", nothing},
    {"power_smoothing.min_primary_floor_activation_offset", 0, "W", nothing},
    {"power_smoothing.min_primary_floor_activation_point", 0, "W", nothing},
    {"power_smoothing.primary_power_floor", 0, "W", nothing},
    {"power_smoothing.secondary_power_floor", 0, "W", nothing},
    {"power_smoothing.window_multiplier", 0, "ms", nothing},
    {"protected_memory.total", 0, "MiB", protected_total},
    {"protected_memory.used", 0, "MiB", protected_used},
    {"protected_memory.free", 0, "MiB", protected_free},
    {"remapped_rows.correctable_inactive", 0, "", nothing},
    {"remapped_rows.uncorrectable_inactive", 0, "", nothing},
    {"vgpu_device_capability.fractional_multiVgpu", 0, "", nothing},
    {"vgpu_device_capability.heterogeneous_timeSlice_profile", 0, "", nothing},
    {"vgpu_device_capability.heterogeneous_timeSlice_sizes", 0, "", nothing},
    {"vgpu_device_capability.homogeneous_placements", 0, "", nothing},
    {"vgpu_device_capability.mig_timeSlicing", 0, "", nothing},
    {"vgpu_device_capability.mig_timeSlicing_mode", 0, "", nothing},
    {"vgpu_driver_capability.heterogenous_multivGPU", 0, "", nothing},
    {"edpp_multiplier", 0, "", nothing},
    {"reset_status.reset_required", 0, "", reset_status},
    {"reset_status.drain_and_reset_recommended", 0, "", reset_status},
    {"q.architecture", 0, "", architecture},
    {"q.brand", 0, "", brand},
    {"q.minor", 0, "", minor_number},
    {"q.multi_board", 0, "", multi_board},
    {"q.board_id", 0, "", board_id},
    {"q.part", 0, "", part},
    {"q.gsp", 0, "", gsp},
    {"q.virtualization", 0, "", virtualization},
    {"q.host_vgpu", 0, "", host_vgpu},
    {"q.replays", 0, "", replays},
    {"q.bar1.total", 0, "MiB", bar1_total},
    {"q.bar1.used", 0, "MiB", bar1_used},
    {"q.bar1.free", 0, "MiB", bar1_free},
    {"q.temperature", 0, "C", temperature},
    {"q.shutdown", 0, "C", shutdown_at},
    {"q.slowdown", 0, "C", slowdown_at},
    {"q.most", 0, "C", most_at},
    {"q.target", 0, "C", target_at},
    {"q.memory_most", 0, "C", memory_at},
    {"q.most_video", 0, "MHz", most_video},
    {"q.width_max", 0, "x", width_max},
    {"q.width_now", 0, "x", width_now},
    {"q.base_class", 0, "", base_class},
    {"q.sub_class", 0, "", sub_class},
    {"q.rollovers", 0, "", rollovers},
    {"q.tx", 0, "KB/s", throughput_tx},
    {"q.rx", 0, "KB/s", throughput_rx},
    {"q.atomics_out", 0, "", atomics_out},
    {"q.atomics_in", 0, "", atomics_in},
    {"q.recovery", 0, "", recovery},
    {"q.display_reason", 0, "", reason_display},
    {"q.counter_power_cap", 0, "us", counter_power_cap},
    {"q.counter_sync_boost", 0, "us", counter_sync_boost},
    {"q.counter_sw_thermal", 0, "us", counter_sw_thermal},
    {"q.counter_hw_thermal", 0, "us", counter_hw_thermal},
    {"q.counter_hw_brake", 0, "us", counter_hw_brake},
    {"q.protected.total", 0, "MiB", protected_total},
    {"q.protected.used", 0, "MiB", protected_used},
    {"q.protected.free", 0, "MiB", protected_free},
    {"q.fbc.sessions", 0, "", fbc_sessions},
    {"q.fbc.fps", 0, "", fbc_fps},
    {"q.fbc.latency", 0, "", fbc_latency},
    {"q.parity", 0, "", volatile_parity},
    {"q.secded", 0, "", volatile_secded},
    {"q.aggregate_parity", 0, "", aggregate_parity},
    {"q.aggregate_secded", 0, "", aggregate_secded},
    {"q.sram_exceeded", 0, "", sram_exceeded},
    {"q.sram_l2", 0, "", sram_l2},
    {"q.sram_sm", 0, "", sram_sm},
    {"q.sram_mcu", 0, "", sram_mcu},
    {"q.sram_pcie", 0, "", sram_pcie},
    {"q.sram_other", 0, "", sram_other},
    {"q.repair_channel", 0, "", repair_channel},
    {"q.repair_tpc", 0, "", repair_tpc},
    {"q.banks.max", 0, "bank(s)", banks_max},
    {"q.banks.high", 0, "bank(s)", banks_high},
    {"q.banks.partial", 0, "bank(s)", banks_partial},
    {"q.banks.low", 0, "bank(s)", banks_low},
    {"q.banks.none", 0, "bank(s)", banks_none},
    {"q.tlimit", 0, "C", tlimit},
    {"q.shutdown_tlimit", 0, "C", shutdown_tlimit},
    {"q.slowdown_tlimit", 0, "C", slowdown_tlimit},
    {"q.most_tlimit", 0, "C", most_tlimit},
    {"q.memory_tlimit", 0, "C", memory_tlimit},
    {"q.memory_temperature", 0, "C", memory_temperature},
    {"q.power.memory_average", 0, "W", memory_average},
    {"q.power.memory_instant", 0, "W", memory_instant},
    {"q.module.average", 0, "W", module_average},
    {"q.module.instant", 0, "W", module_instant},
    {"q.module.current", 0, "W", module_current},
    {"q.module.requested", 0, "W", module_requested},
    {"q.module.default", 0, "W", module_default},
    {"q.module.min", 0, "W", module_min},
    {"q.module.max", 0, "W", module_max},
    {"q.boost", 0, "MHz", boost},
    {"q.module_id", 0, "", module_id},
    {"q.host", 0, "", platform_host},
    {"q.peer", 0, "", platform_peer},
    {"q.health.summary", 0, "", health_summary},
    {"q.health.bandwidth", 0, "", health_bandwidth},
    {"q.health.recovery", 0, "", health_recovery},
    {"q.health.route", 0, "", health_route},
    {"q.health.timeout", 0, "", health_timeout},
    {"q.power_state", 0, "", power_state},
    {"q.c2c", 0, "", c2c},
    {"q.clique", 0, "", clique},
    {"q.cluster", 0, "", cluster},
    {0, 0, 0, 0},
};

const struct field *field_named(const char *name)
{
	for (const struct field *f = fields; f->name; f++)
		if (!strcmp(f->name, name) || (f->alias && !strcmp(f->alias, name)))
			return f;
	return 0;
}

unsigned get(const struct gpu *g, const char *field, char out[TEXT], const char **unit)
{
	const struct field *f = field_named(field);
	if (!f)
		return BAD_ARGUMENT;
	*unit = f->unit;
	unsigned r = f->get(g, out);
	return r == BAD_ARGUMENT ? (unsigned)NOT_SUPPORTED : r;
}
