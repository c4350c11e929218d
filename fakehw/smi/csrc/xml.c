/* -q -x: what -q prints, as XML. The names of elements are those of captures of
 * branches 570 to 595. */
#include "rows.h"

#include <string.h>
#include <time.h>

static int depth;

static void tabs(int n)
{
	while (n-- > 0)
		putchar('\t');
}

static void element(const char *tag, const char *value)
{
	tabs(depth);
	printf("<%s>", tag);
	for (; *value; value++)
		if (*value == '&')
			printf("&amp;");
		else if (*value == '<')
			printf("&lt;");
		else
			putchar(*value);
	printf("</%s>\n", tag);
}

static void numbered(const char *tag, unsigned long long n, const char *unit)
{
	char text[TEXT];
	snprintf(text, sizeof text, "%llu%s", n, unit);
	element(tag, text);
}

static void open_element(const char *tag) { tabs(depth++), printf("<%s>\n", tag); }
static void close_element(const char *tag) { tabs(--depth), printf("</%s>\n", tag); }

static void usage(const char *tag, unsigned r, unsigned long long total, unsigned long long reserved, unsigned long long used, unsigned long long left, int has_reserved)
{
	open_element(tag);
	if (r) {
		element("total", "N/A");
		element("used", "N/A");
		element("free", "N/A");
	} else {
		numbered("total", total >> 20, " MiB");
		if (has_reserved)
			numbered("reserved", reserved >> 20, " MiB");
		numbered("used", used >> 20, " MiB");
		numbered("free", left >> 20, " MiB");
	}
	close_element(tag);
}

static void mig_device(device mig, unsigned index)
{
	struct attributes a = {0};
	struct memory_v2 m = {0};
	struct memory bar = {0};
	unsigned gi = 0, ci = 0;
	nvml.DeviceGetGpuInstanceId(mig, &gi);
	nvml.DeviceGetComputeInstanceId(mig, &ci);
	nvml.DeviceGetAttributes_v2(mig, &a);
	open_element("mig_device");
	numbered("index", index, "");
	numbered("gpu_instance_id", gi, "");
	numbered("compute_instance_id", ci, "");
	open_element("device_attributes");
	open_element("shared");
	numbered("multiprocessor_count", a.sms, "");
	numbered("copy_engine_count", a.shared.copy, "");
	numbered("encoder_count", a.shared.encoders, "");
	numbered("decoder_count", a.shared.decoders, "");
	numbered("ofa_count", a.shared.ofa, "");
	numbered("jpg_count", a.shared.jpeg, "");
	close_element("shared");
	close_element("device_attributes");
	open_element("ecc_error_count");
	open_element("volatile_count");
	element("sram_uncorrectable", "0");
	close_element("volatile_count");
	close_element("ecc_error_count");
	unsigned r = memory_of(mig, &m);
	usage("fb_memory_usage", r, m.total, m.reserved, m.used, m.free, 1);
	r = nvml.DeviceGetBAR1MemoryInfo(mig, &bar);
	usage("bar1_memory_usage", r, bar.total, 0, bar.used, bar.free, 0);
	close_element("mig_device");
}

static void mig_devices(device d, const char *tag)
{
	unsigned most;
	open_element(tag);
	if (!mig_on(d) || nvml.DeviceGetMaxMigDeviceCount(d, &most))
		tabs(depth), printf("None\n");
	else
		for (unsigned i = 0; i < most; i++) {
			device mig;
			if (!nvml.DeviceGetMigDeviceHandleByIndex(d, i, &mig))
				mig_device(mig, i);
		}
	close_element(tag);
}

/* plain says whether an element has its number without "0x". */
static int plain(const char *tag) { return !strncmp(tag, "pci_", 4); }

static void value_of(const struct gpu *g, const struct row *r)
{
	char value[TEXT], text[TEXT * 2];
	const char *unit;
	unsigned code = OK;
	if (*r->value == '=')
		snprintf(text, sizeof text, "%s", r->value + 1);
	else if (!(code = get(g, r->value, value, &unit)))
		snprintf(text, sizeof text, "%s%s%s", value + (plain(r->tag) && !strncmp(value, "0x", 2) ? 2 : 0), *unit && strcmp(unit, "x") ? " " : "", unit);
	else
		snprintf(text, sizeof text, "%s", code == NOT_SUPPORTED || code == NO_FUNCTION ? "N/A" : why(code));
	element(r->tag, text);
}

/* xml_gpu prints a GPU. A heading opens an element that ends before the next row
 * that is no deeper. */
static void xml_gpu(const struct gpu *g)
{
	const struct row *open[8];
	int n = 0;
	tabs(depth++);
	printf("<gpu id=\"%s\">\n", g->bus);
	for (const struct row *r = rows; r->label; r++) {
		if (!r->tag || !row_of(g, r))
			continue;
		while (n && open[n - 1]->depth >= r->depth)
			close_element(open[--n]->tag);
		if (!r->value) {
			open_element(r->tag);
			open[n++] = r;
		} else if (*r->value == '@')
			mig_devices(g->d, r->tag);
		else if (!strcmp(r->tag, "processes") || !strcmp(r->tag, "supported_clocks")) {
			open_element(r->tag);
			close_element(r->tag);
		} else
			value_of(g, r);
	}
	while (n)
		close_element(open[--n]->tag);
	open_element("accounted_processes");
	close_element("accounted_processes");
	if (machine.branch >= 570) {
		open_element("capabilities");
		element("egm", "disabled");
		close_element("capabilities");
	}
	close_element("gpu");
}

int xml(void)
{
	char now[64];
	time_t t = time(0);
	struct tm tm;
	strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&t, &tm));
	printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v%d.dtd\">\n", machine.branch >= 580 ? 13 : 12);
	open_element("nvidia_smi_log");
	element("timestamp", now);
	element("driver_version", machine.driver);
	element("cuda_version", machine.cuda);
	numbered("attached_gpus", machine.count, "");
	for (int i = 0; i < machine.n; i++)
		xml_gpu(&machine.gpu[i]);
	printf("\n");
	close_element("nvidia_smi_log");
	return OK;
}
