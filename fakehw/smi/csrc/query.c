/* -q: everything about each GPU, or the sections that -d names. The rows and their
 * order are in rows.c. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const struct {
	const char *name;
	unsigned bit;
} sections[] = {
    {"MEMORY", MEMORY}, {"UTILIZATION", UTILIZATION}, {"ECC", ECC}, {"TEMPERATURE", TEMPERATURE}, {"POWER", POWER}, {"CLOCK", CLOCK},
    {"COMPUTE", COMPUTE}, {"PIDS", PIDS}, {"PERFORMANCE", PERFORMANCE}, {"PAGE_RETIREMENT", PAGE_RETIREMENT}, {"ACCOUNTING", ACCOUNTING},
    {"ENCODER_STATS", ENCODER_STATS}, {"FBC_STATS", FBC_STATS}, {"ROW_REMAPPER", ROW_REMAPPER}, {"VOLTAGE", VOLTAGE},
    {"SUPPORTED_CLOCKS", SUPPORTED_CLOCKS}, {"RESET_STATUS", RESET_STATUS}, {"GSP_FIRMWARE_VERSION", GSP},
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

int row_of(const struct gpu *g, const struct row *r)
{
	char text[TEXT];
	const char *unit;
	int has;
	if ((r->from && machine.branch < r->from) || (r->until && machine.branch >= r->until))
		return 0;
	switch (r->when) {
	case 'T':
	case 't':
		has = !get(g, "q.slowdown_tlimit", text, &unit);
		break;
	case 'S':
	case 's':
		has = machine.branch >= 545 && !get(g, "q.parity", text, &unit);
		break;
	case 'R':
	case 'r':
		has = !get(g, "remapped_rows.pending", text, &unit);
		break;
	default:
		return 1;
	}
	return has == (r->when < 'a');
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
		for (const struct row *r = rows; r->label; r++) {
			if ((!*r->label && (!r->value || *r->value != '@')) || !row_of(g, r))
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
