/* -q: everything about each GPU, or the sections that -d names. The rows and their
 * order are those of branches 535 to 580. */
#include "smi.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
	ALL = 0, /* a row that only a query without -d shows */
	MEMORY = 1 << 0,
	UTILIZATION = 1 << 1,
	ECC = 1 << 2,
	TEMPERATURE = 1 << 3,
	POWER = 1 << 4,
	CLOCK = 1 << 5,
	COMPUTE = 1 << 6,
	PIDS = 1 << 7,
	PERFORMANCE = 1 << 8,
	PAGE_RETIREMENT = 1 << 9,
	ACCOUNTING = 1 << 10,
	ENCODER_STATS = 1 << 11,
	FBC_STATS = 1 << 12,
	ROW_REMAPPER = 1 << 13,
	VOLTAGE = 1 << 14,
	SUPPORTED_CLOCKS = 1 << 15,
	RESET_STATUS = 1 << 16,
	GSP = 1 << 17,
};

static const struct {
	const char *name;
	unsigned bit;
} sections[] = {
    {"MEMORY", MEMORY}, {"UTILIZATION", UTILIZATION}, {"ECC", ECC}, {"TEMPERATURE", TEMPERATURE}, {"POWER", POWER}, {"CLOCK", CLOCK},
    {"COMPUTE", COMPUTE}, {"PIDS", PIDS}, {"PERFORMANCE", PERFORMANCE}, {"PAGE_RETIREMENT", PAGE_RETIREMENT}, {"ACCOUNTING", ACCOUNTING},
    {"ENCODER_STATS", ENCODER_STATS}, {"FBC_STATS", FBC_STATS}, {"ROW_REMAPPER", ROW_REMAPPER}, {"VOLTAGE", VOLTAGE},
    {"SUPPORTED_CLOCKS", SUPPORTED_CLOCKS}, {"RESET_STATUS", RESET_STATUS}, {"GSP_FIRMWARE_VERSION", GSP},
};

/* A row. value is a field; "=" and a text that is always printed; 0 for a heading;
 * "@" for rows that mig_devices() prints. It is there from one branch on and until
 * another; 0 sets no bound. */
struct row {
	int depth;
	const char *label, *value;
	unsigned section;
	int from, until;
};

#define NONE "=N/A"

static const struct row rows[] = {
    {1, "Product Name", "name", ALL, 0, 0},
    {1, "Product Brand", "q.brand", ALL, 0, 0},
    {1, "Product Architecture", "q.architecture", ALL, 0, 0},
    {1, "Display Mode", "display_mode", ALL, 0, 0},
    {1, "Display Active", "display_active", ALL, 0, 0},
    {1, "Persistence Mode", "persistence_mode", ALL, 0, 0},
    {1, "Addressing Mode", "addressing_mode", ALL, 535, 0},
    {1, "MIG Mode", 0, ALL, 0, 0},
    {2, "Current", "mig.mode.current", ALL, 0, 0},
    {2, "Pending", "mig.mode.pending", ALL, 0, 0},
    {1, "", "@", ALL, 0, 0},
    {1, "Accounting Mode", "accounting.mode", ACCOUNTING, 0, 0},
    {1, "Accounting Mode Buffer Size", "accounting.buffer_size", ACCOUNTING, 0, 0},
    {1, "Driver Model", 0, ALL, 0, 0},
    {2, "Current", NONE, ALL, 0, 0},
    {2, "Pending", NONE, ALL, 0, 0},
    {1, "Serial Number", "serial", ALL, 0, 0},
    {1, "GPU UUID", "uuid", ALL, 0, 0},
    {1, "Minor Number", "q.minor", ALL, 0, 0},
    {1, "VBIOS Version", "vbios_version", ALL, 0, 0},
    {1, "MultiGPU Board", "q.multi_board", ALL, 0, 0},
    {1, "Board ID", "q.board_id", ALL, 0, 0},
    {1, "Board Part Number", "q.part", ALL, 0, 0},
    {1, "GPU Part Number", NONE, ALL, 0, 0},
    {1, "FRU Part Number", NONE, ALL, 535, 0},
    {1, "Inforom Version", 0, ALL, 0, 0},
    {2, "Image Version", "inforom.img", ALL, 0, 0},
    {2, "OEM Object", "inforom.oem", ALL, 0, 0},
    {2, "ECC Object", "inforom.ecc", ALL, 0, 0},
    {2, "Power Management Object", "inforom.pwr", ALL, 0, 0},
    {1, "Inforom BBX Object Flush", 0, ALL, 550, 0},
    {2, "Latest Timestamp", NONE, ALL, 550, 0},
    {2, "Latest Duration", NONE, ALL, 550, 0},
    {1, "GPU Operation Mode", 0, ALL, 0, 0},
    {2, "Current", "gom.current", ALL, 0, 0},
    {2, "Pending", "gom.pending", ALL, 0, 0},
    {1, "GPU C2C Mode", NONE, ALL, 550, 0},
    {1, "GPU Virtualization Mode", 0, ALL, 0, 0},
    {2, "Virtualization Mode", "q.virtualization", ALL, 0, 0},
    {2, "Host VGPU Mode", "q.host_vgpu", ALL, 0, 0},
    {2, "vGPU Heterogeneous Mode", NONE, ALL, 550, 0},
    {1, "GPU Reset Status", 0, RESET_STATUS, 535, 580},
    {2, "Reset Required", NONE, RESET_STATUS, 535, 580},
    {2, "Drain and Reset Recommended", NONE, RESET_STATUS, 535, 580},
    {1, "GPU Recovery Action", NONE, ALL, 570, 0},
    {1, "GSP Firmware Version", "q.gsp", GSP, 0, 0},
    {1, "IBMNPU", 0, ALL, 0, 0},
    {2, "Relaxed Ordering Mode", NONE, ALL, 0, 0},
    {1, "PCI", 0, ALL, 0, 0},
    {2, "Bus", "pci.bus", ALL, 0, 0},
    {2, "Device", "pci.device", ALL, 0, 0},
    {2, "Domain", "pci.domain", ALL, 0, 0},
    {2, "Device Id", "pci.device_id", ALL, 0, 0},
    {2, "Bus Id", "pci.bus_id", ALL, 0, 0},
    {2, "Sub System Id", "pci.sub_device_id", ALL, 0, 0},
    {2, "GPU Link Info", 0, ALL, 0, 0},
    {3, "PCIe Generation", 0, ALL, 0, 0},
    {4, "Max", "pcie.link.gen.max", ALL, 0, 0},
    {4, "Current", "pcie.link.gen.current", ALL, 0, 0},
    {4, "Device Current", "pcie.link.gen.current", ALL, 0, 0},
    {4, "Device Max", "pcie.link.gen.gpumax", ALL, 0, 0},
    {4, "Host Max", "pcie.link.gen.hostmax", ALL, 0, 0},
    {3, "Link Width", 0, ALL, 0, 0},
    {4, "Max", "q.width_max", ALL, 0, 0},
    {4, "Current", "q.width_now", ALL, 0, 0},
    {2, "Bridge Chip", 0, ALL, 0, 0},
    {3, "Type", NONE, ALL, 0, 0},
    {3, "Firmware", NONE, ALL, 0, 0},
    {2, "Replays Since Reset", "q.replays", ALL, 0, 0},
    {2, "Replay Number Rollovers", NONE, ALL, 0, 0},
    {2, "Tx Throughput", NONE, ALL, 0, 0},
    {2, "Rx Throughput", NONE, ALL, 0, 0},
    {2, "Atomic Caps Outbound", NONE, ALL, 535, 0},
    {2, "Atomic Caps Inbound", NONE, ALL, 535, 0},
    {1, "Fan Speed", "fan.speed", ALL, 0, 0},
    {1, "Performance State", "pstate", PERFORMANCE, 0, 0},
    {1, "Clocks Throttle Reasons", NONE, PERFORMANCE, 0, 545},
    {1, "Clocks Event Reasons", NONE, PERFORMANCE, 545, 0},
    {1, "Sparse Operation Mode", NONE, PERFORMANCE, 550, 0},
    {1, "FB Memory Usage", 0, MEMORY, 0, 0},
    {2, "Total", "memory.total", MEMORY, 0, 0},
    {2, "Reserved", "memory.reserved", MEMORY, 0, 0},
    {2, "Used", "memory.used", MEMORY, 0, 0},
    {2, "Free", "memory.free", MEMORY, 0, 0},
    {1, "BAR1 Memory Usage", 0, MEMORY, 0, 0},
    {2, "Total", "q.bar1.total", MEMORY, 0, 0},
    {2, "Used", "q.bar1.used", MEMORY, 0, 0},
    {2, "Free", "q.bar1.free", MEMORY, 0, 0},
    {1, "Conf Compute Protected Memory Usage", 0, MEMORY, 535, 0},
    {2, "Total", NONE, MEMORY, 535, 0},
    {2, "Used", NONE, MEMORY, 535, 0},
    {2, "Free", NONE, MEMORY, 535, 0},
    {1, "Compute Mode", "compute_mode", COMPUTE, 0, 0},
    {1, "Utilization", 0, UTILIZATION, 0, 0},
    {2, "Gpu", "utilization.gpu", UTILIZATION, 0, 570},
    {2, "GPU", "utilization.gpu", UTILIZATION, 570, 0},
    {2, "Memory", "utilization.memory", UTILIZATION, 0, 0},
    {2, "Encoder", "utilization.encoder", UTILIZATION, 0, 0},
    {2, "Decoder", "utilization.decoder", UTILIZATION, 0, 0},
    {2, "JPEG", "utilization.jpeg", UTILIZATION, 535, 0},
    {2, "OFA", "utilization.ofa", UTILIZATION, 535, 0},
    {1, "Encoder Stats", 0, ENCODER_STATS, 0, 0},
    {2, "Active Sessions", "encoder.stats.sessionCount", ENCODER_STATS, 0, 0},
    {2, "Average FPS", "encoder.stats.averageFps", ENCODER_STATS, 0, 0},
    {2, "Average Latency", "encoder.stats.averageLatency", ENCODER_STATS, 0, 0},
    {1, "FBC Stats", 0, FBC_STATS, 0, 0},
    {2, "Active Sessions", NONE, FBC_STATS, 0, 0},
    {2, "Average FPS", NONE, FBC_STATS, 0, 0},
    {2, "Average Latency", NONE, FBC_STATS, 0, 0},
    {1, "DRAM Encryption Mode", 0, ALL, 570, 0},
    {2, "Current", NONE, ALL, 570, 0},
    {2, "Pending", NONE, ALL, 570, 0},
    {1, "ECC Mode", 0, ECC, 0, 0},
    {2, "Current", "ecc.mode.current", ECC, 0, 0},
    {2, "Pending", "ecc.mode.pending", ECC, 0, 0},
    {1, "ECC Errors", 0, ECC, 0, 0},
    {2, "Volatile", 0, ECC, 0, 0},
    {3, "SRAM Correctable", "ecc.errors.corrected.volatile.sram", ECC, 0, 0},
    {3, "SRAM Uncorrectable", "ecc.errors.uncorrected.volatile.sram", ECC, 0, 545},
    {3, "SRAM Uncorrectable Parity", NONE, ECC, 545, 0},
    {3, "SRAM Uncorrectable SEC-DED", NONE, ECC, 545, 0},
    {3, "DRAM Correctable", "ecc.errors.corrected.volatile.dram", ECC, 0, 0},
    {3, "DRAM Uncorrectable", "ecc.errors.uncorrected.volatile.dram", ECC, 0, 0},
    {2, "Aggregate", 0, ECC, 0, 0},
    {3, "SRAM Correctable", NONE, ECC, 0, 0},
    {3, "SRAM Uncorrectable", NONE, ECC, 0, 545},
    {3, "SRAM Uncorrectable Parity", NONE, ECC, 545, 0},
    {3, "SRAM Uncorrectable SEC-DED", NONE, ECC, 545, 0},
    {3, "DRAM Correctable", NONE, ECC, 0, 0},
    {3, "DRAM Uncorrectable", NONE, ECC, 0, 0},
    {3, "SRAM Threshold Exceeded", NONE, ECC, 545, 0},
    {2, "Aggregate Uncorrectable SRAM Sources", 0, ECC, 545, 0},
    {3, "SRAM L2", NONE, ECC, 545, 0},
    {3, "SRAM SM", NONE, ECC, 545, 0},
    {3, "SRAM Microcontroller", NONE, ECC, 545, 0},
    {3, "SRAM PCIE", NONE, ECC, 545, 0},
    {3, "SRAM Other", NONE, ECC, 545, 0},
    {1, "Retired Pages", 0, PAGE_RETIREMENT, 0, 0},
    {2, "Single Bit ECC", "retired_pages.sbe", PAGE_RETIREMENT, 0, 0},
    {2, "Double Bit ECC", "retired_pages.dbe", PAGE_RETIREMENT, 0, 0},
    {2, "Pending Page Blacklist", "retired_pages.pending", PAGE_RETIREMENT, 0, 0},
    {1, "Remapped Rows", NONE, ROW_REMAPPER, 0, 0},
    {1, "Temperature", 0, TEMPERATURE, 0, 0},
    {2, "GPU Current Temp", "q.temperature", TEMPERATURE, 0, 0},
    {2, "GPU T.Limit Temp", NONE, TEMPERATURE, 535, 0},
    {2, "GPU Shutdown Temp", "q.shutdown", TEMPERATURE, 0, 0},
    {2, "GPU Slowdown Temp", "q.slowdown", TEMPERATURE, 0, 0},
    {2, "GPU Max Operating Temp", "q.most", TEMPERATURE, 0, 0},
    {2, "GPU Target Temperature", "q.target", TEMPERATURE, 0, 0},
    {2, "Memory Current Temp", "temperature.memory", TEMPERATURE, 0, 0},
    {2, "Memory Max Operating Temp", "q.memory_most", TEMPERATURE, 0, 0},
    {1, "Power Readings", 0, POWER, 0, 535},
    {2, "Power Management", "power.management", POWER, 0, 535},
    {1, "GPU Power Readings", 0, POWER, 535, 0},
    {2, "Power Draw", "power.draw", POWER, 0, 570},
    {2, "Average Power Draw", "power.draw.average", POWER, 570, 0},
    {2, "Instantaneous Power Draw", "power.draw.instant", POWER, 570, 0},
    {2, "Power Limit", "power.limit", POWER, 0, 535},
    {2, "Current Power Limit", "enforced.power.limit", POWER, 535, 0},
    {2, "Requested Power Limit", "power.limit", POWER, 535, 0},
    {2, "Default Power Limit", "power.default_limit", POWER, 0, 0},
    {2, "Enforced Power Limit", "enforced.power.limit", POWER, 0, 535},
    {2, "Min Power Limit", "power.min_limit", POWER, 0, 0},
    {2, "Max Power Limit", "power.max_limit", POWER, 0, 0},
    {1, "Clocks", 0, CLOCK, 0, 0},
    {2, "Graphics", "clocks.gr", CLOCK, 0, 0},
    {2, "SM", "clocks.sm", CLOCK, 0, 0},
    {2, "Memory", "clocks.mem", CLOCK, 0, 0},
    {2, "Video", "clocks.video", CLOCK, 0, 0},
    {1, "Applications Clocks", 0, CLOCK, 0, 0},
    {2, "Graphics", "clocks.applications.gr", CLOCK, 0, 0},
    {2, "Memory", "clocks.applications.mem", CLOCK, 0, 0},
    {1, "Default Applications Clocks", 0, CLOCK, 0, 0},
    {2, "Graphics", "clocks.default_applications.gr", CLOCK, 0, 0},
    {2, "Memory", "clocks.default_applications.mem", CLOCK, 0, 0},
    {1, "Deferred Clocks", 0, CLOCK, 535, 0},
    {2, "Memory", NONE, CLOCK, 535, 0},
    {1, "Max Clocks", 0, CLOCK, 0, 0},
    {2, "Graphics", "clocks.max.gr", CLOCK, 0, 0},
    {2, "SM", "clocks.max.sm", CLOCK, 0, 0},
    {2, "Memory", "clocks.max.mem", CLOCK, 0, 0},
    {2, "Video", "q.most_video", CLOCK, 0, 0},
    {1, "Max Customer Boost Clocks", 0, CLOCK, 0, 0},
    {2, "Graphics", NONE, CLOCK, 0, 0},
    {1, "Clock Policy", 0, CLOCK, 0, 0},
    {2, "Auto Boost", NONE, CLOCK, 0, 0},
    {2, "Auto Boost Default", NONE, CLOCK, 0, 0},
    {1, "Supported Clocks", NONE, SUPPORTED_CLOCKS, 0, 0},
    {1, "Voltage", 0, VOLTAGE, 0, 580},
    {2, "Graphics", NONE, VOLTAGE, 0, 580},
    {1, "Fabric", 0, ALL, 535, 0},
    {2, "State", "fabric.state", ALL, 535, 0},
    {2, "Status", "fabric.status", ALL, 535, 0},
    {1, "Processes", "=None", PIDS, 0, 0},
};

/* line prints a label and its value, or a heading without one. The values of
 * branch 580 and later stand further right. */
static void line(int depth, const char *label, const char *value)
{
	int column = machine.branch >= 580 ? 55 : 42;
	if (value)
		printf("%*s%-*s: %s\n", depth * 4, "", column - depth * 4, label, value);
	else
		printf("%*s%s\n", depth * 4, "", label);
}

static void number_line(int depth, const char *label, unsigned long long n, const char *unit)
{
	char text[TEXT];
	snprintf(text, sizeof text, "%llu%s", n, unit);
	line(depth, label, text);
}

static void field_line(const struct gpu *g, const struct row *r)
{
	char value[TEXT], text[TEXT * 2];
	const char *unit;
	unsigned code = get(g, r->value, value, &unit);
	if (code == NOT_SUPPORTED || code == NO_FUNCTION)
		line(r->depth, r->label, "N/A");
	else if (code)
		line(r->depth, r->label, why(code));
	else {
		snprintf(text, sizeof text, "%s%s%s", value, *unit && strcmp(unit, "x") ? " " : "", unit);
		line(r->depth, r->label, text);
	}
}

static void mig_memory(const char *label, unsigned r, const struct memory_v2 *m, int reserved)
{
	line(2, label, 0);
	if (r) {
		line(3, "Total", "N/A");
		return;
	}
	number_line(3, "Total", m->total >> 20, " MiB");
	if (reserved)
		number_line(3, "Reserved", m->reserved >> 20, " MiB");
	number_line(3, "Used", m->used >> 20, " MiB");
	number_line(3, "Free", m->free >> 20, " MiB");
}

static void mig_devices(device d)
{
	unsigned most;
	if (!mig_on(d) || nvml.DeviceGetMaxMigDeviceCount(d, &most))
		return;
	for (unsigned i = 0; i < most; i++) {
		struct attributes a = {0};
		struct memory_v2 m = {0};
		struct memory bar = {0};
		unsigned gi = 0, ci = 0;
		device mig;
		if (nvml.DeviceGetMigDeviceHandleByIndex(d, i, &mig))
			continue;
		nvml.DeviceGetGpuInstanceId(mig, &gi);
		nvml.DeviceGetComputeInstanceId(mig, &ci);
		nvml.DeviceGetAttributes_v2(mig, &a);
		line(1, "MIG Device", 0);
		number_line(2, "Index", i, "");
		number_line(2, "GPU Instance ID", gi, "");
		number_line(2, "Compute Instance ID", ci, "");
		line(2, "Device Attributes", 0);
		line(3, "Shared", 0);
		number_line(4, "Multiprocessor count", a.sms, "");
		number_line(4, "Copy Engine count", a.shared.copy, "");
		number_line(4, "Encoder count", a.shared.encoders, "");
		number_line(4, "Decoder count", a.shared.decoders, "");
		number_line(4, "OFA count", a.shared.ofa, "");
		number_line(4, "JPG count", a.shared.jpeg, "");
		line(2, "ECC Errors", 0);
		line(3, "Volatile", 0);
		line(4, "SRAM Uncorrectable", "0");
		mig_memory("FB Memory Usage", memory_of(mig, &m), &m, 1);
		unsigned r = nvml.DeviceGetBAR1MemoryInfo(mig, &bar);
		m = (struct memory_v2){.total = bar.total, .used = bar.used, .free = bar.free};
		mig_memory("BAR1 Memory Usage", r, &m, 0);
	}
}

/* chosen reads "MEMORY,CLOCK". */
static int chosen(const char *names, unsigned *out)
{
	char *copy = strdup(names), *rest = copy, *name;
	int code = OK;
	*out = 0;
	while (!code && (name = strsep(&rest, ","))) {
		unsigned bit = 0;
		for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
			if (!strcasecmp(sections[i].name, name))
				bit = sections[i].bit;
		*out |= bit;
		if (!bit)
			code = bad("Invalid display type \"%s\".", name); /* unverified */
	}
	free(copy);
	return code;
}

static void head(void)
{
	char now[64];
	time_t t = time(0);
	struct tm tm;
	strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&t, &tm));
	printf("\n==============NVSMI LOG==============\n\n");
	line(0, "Timestamp", now);
	line(0, machine.branch >= 600 ? "KMD Version" : "Driver Version", machine.driver);
	line(0, machine.branch >= 600 ? "CUDA UMD Version" : "CUDA Version", machine.cuda);
	printf("\n");
	number_line(0, "Attached GPUs", machine.count, "");
}

int query(const char *names)
{
	unsigned wanted = ~0u;
	int code = names ? chosen(names, &wanted) : OK;
	if (code)
		return code;
	head();
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		printf("GPU %s\n", g->bus);
		for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
			if ((r->from && machine.branch < r->from) || (r->until && machine.branch >= r->until))
				continue;
			if (names ? !(r->section & wanted) : r->section == SUPPORTED_CLOCKS)
				continue;
			if (!r->value)
				line(r->depth, r->label, 0);
			else if (*r->value == '@')
				mig_devices(g->d);
			else if (*r->value == '=')
				line(r->depth, r->label, r->value + 1);
			else
				field_line(g, r);
		}
		printf("\n");
	}
	return OK;
}
