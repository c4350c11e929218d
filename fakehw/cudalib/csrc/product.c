/*
 * What chips can. Numbers of multiprocessors, clocks, buses and caches are those of
 * the vendor's data sheets and of commonly seen deviceQuery output; clocks and
 * caches are not verified on machines. Limits by compute capability: the table of
 * the CUDA programming guide.
 */
#define _GNU_SOURCE
#include "rt.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name; /* a part of the device's name; the first that fits */
	int sms, clock_khz, memory_khz, bus_bits, l2_kib;
} products[] = {
	{"Tesla T4", 40, 1590000, 5001000, 256, 4096},
	{"V100", 80, 1530000, 877000, 4096, 6144},
	{"A100-SXM4-80GB", 108, 1410000, 1593000, 5120, 40960},
	{"A100 80GB", 108, 1410000, 1512000, 5120, 40960},
	{"A100", 108, 1410000, 1215000, 5120, 40960},
	{"A30", 56, 1440000, 1215000, 3072, 24576},
	{"A40", 84, 1740000, 7251000, 384, 6144},
	{"A10G", 80, 1710000, 6251000, 384, 6144},
	{"A16", 10, 1755000, 6251000, 128, 2048},
	{"A10", 72, 1695000, 6251000, 384, 6144},
	{"RTX A6000", 84, 1800000, 8001000, 384, 6144},
	{"NVIDIA A2", 10, 1770000, 6251000, 128, 2048},
	{"L40S", 142, 2520000, 9001000, 384, 98304},
	{"L40", 142, 2490000, 9001000, 384, 98304},
	{"NVIDIA L4", 58, 2040000, 6251000, 192, 49152},
	{"H100 80GB HBM3", 132, 1980000, 2619000, 5120, 51200},
	{"H100 PCIe", 114, 1755000, 1593000, 5120, 51200},
	{"H100 NVL", 132, 1785000, 2619000, 6144, 61440},
	{"GH200", 132, 1980000, 2619000, 6144, 61440},
	{"H200", 132, 1980000, 3201000, 6144, 61440},
	{"H20", 78, 1980000, 2619000, 6144, 61440},
	{"GB300", 152, 1965000, 3996000, 8192, 129024},
	{"GB200", 152, 1965000, 3996000, 8192, 129024},
	{"B300", 148, 1965000, 3996000, 8192, 129024},
	{"B200", 148, 1965000, 3996000, 8192, 129024},
	{"RTX PRO 6000", 188, 2430000, 14001000, 512, 131072},
	{"RTX 2080 Ti", 68, 1545000, 7000000, 352, 5632},
	{"RTX 3060", 28, 1777000, 7501000, 192, 2304},
	{"RTX 3080", 68, 1710000, 9501000, 320, 5120},
	{"RTX 3090", 82, 1695000, 9751000, 384, 6144},
	{"RTX 4080", 76, 2505000, 11201000, 256, 65536},
	{"RTX 4090", 128, 2520000, 10501000, 384, 73728},
	{"RTX 5080", 84, 2617000, 15001000, 256, 65536},
	{"RTX 5090", 170, 2407000, 14001000, 512, 98304},
	{"Thor", 20, 1049000, 0, 256, 32768},
	{"Orin", 16, 1300000, 1600000, 256, 4096},
};

static const struct {
	int cc; /* this and above, until the next */
	int shared_sm, threads_sm, blocks_sm;
} limits[] = {
	{70, 98304, 2048, 32}, {75, 65536, 1024, 16}, {80, 167936, 2048, 32}, {86, 102400, 1536, 16}, {87, 167936, 1536, 16},
	{89, 102400, 1536, 24}, {90, 233472, 2048, 32}, {110, 233472, 1536, 24}, {120, 102400, 1536, 24},
};

/* The smaller Orins have half the multiprocessors; only the board says which. */
static int is_small_orin(void)
{
	char path[4200], model[128] = "";
	snprintf(path, sizeof path, "%.4000s/proc/device-tree/model", dev_root());
	FILE *f = fopen(path, "re");
	if (f) {
		model[fread(model, 1, sizeof model - 1, f)] = 0;
		fclose(f);
	}
	return strstr(model, "Orin Nano") || strstr(model, "Orin NX");
}

void product_of(struct device *d)
{
	struct product *p = &d->product;
	int cc = d->major * 10 + d->minor;
	*p = (struct product){.sms = 16, .clock_khz = 1500000, .memory_khz = 5000000, .bus_bits = 256, .l2_bytes = 4 << 20};
	for (size_t i = 0; i < sizeof products / sizeof *products; i++)
		if (strstr(d->name, products[i].name)) {
			p->sms = products[i].sms;
			p->clock_khz = products[i].clock_khz;
			p->memory_khz = products[i].memory_khz;
			p->bus_bits = products[i].bus_bits;
			p->l2_bytes = products[i].l2_kib << 10;
			break;
		}
	if (!strcmp(d->name, "Orin") && is_small_orin())
		p->sms = 8;
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		if (cc >= limits[i].cc || i == 0) {
			p->shared_sm = limits[i].shared_sm;
			p->shared_optin = limits[i].shared_sm - (cc >= 80 ? 1024 : 0);
			p->threads_sm = limits[i].threads_sm;
			p->blocks_sm = limits[i].blocks_sm;
		}
}

int product_speed(const struct device *d) { return d->product.sms * (d->product.clock_khz / 1000); }
