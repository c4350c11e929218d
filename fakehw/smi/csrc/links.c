/* topo -m and nvlink -s. */
#include "counters.h"
#include "fields.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 16, LINKS = 36, COMMON_SPEED = 90 };

/* ranges prints the bits that are set as "0-55,112-167", or "N/A". */
static void ranges(unsigned r, const unsigned long *mask, int words, char out[TEXT])
{
	int bits = words * 64, any = 0;
	*out = 0;
	for (int i = 0; !r && i < bits; i++) {
		int first = i;
		if (!(mask[i / 64] >> i % 64 & 1))
			continue;
		while (i + 1 < bits && mask[(i + 1) / 64] >> (i + 1) % 64 & 1)
			i++;
		size_t n = strlen(out);
		if (first == i)
			snprintf(out + n, TEXT - n, "%s%d", any ? "," : "", i);
		else
			snprintf(out + n, TEXT - n, "%s%d-%d", any ? "," : "", first, i);
		any = 1;
	}
	if (!any)
		strcpy(out, "N/A");
}

/* links counts the NVLinks of a GPU that are up. */
static unsigned links(device d)
{
	unsigned n = 0, on = 0;
	for (unsigned i = 0; i < LINKS; i++)
		if (!nvml.DeviceGetNvLinkState(d, i, &on) && on)
			n++;
	return n;
}

/* way names how two GPUs reach each other. */
static void way(device a, device b, char out[TEXT])
{
	unsigned status = 1, level = 50;
	if (!nvml.DeviceGetP2PStatus(a, b, 2, &status) && !status) {
		snprintf(out, TEXT, "NV%u", links(a));
		return;
	}
	if (nvml.DeviceGetTopologyCommonAncestor(a, b, &level))
		level = 50;
	strcpy(out, level >= 50 ? "SYS" : level >= 40 ? "NODE" : level >= 30 ? "PHB" : level >= 20 ? "PXB" : "PIX");
}

int topo(int argc, char **argv)
{
	char text[TEXT];
	if (argc != 1 || (strcmp(argv[0], "-m") && strcmp(argv[0], "--matrix"))) {
		fprintf(stderr, "nvidia-smi topo without -m is not modelled by this fake host\n");
		return NOT_SUPPORTED;
	}
	int code = choose(0);
	if (!machine.n)
		return code;
	printf("\t\033[4m");
	for (int i = 0; i < machine.n; i++)
		printf("GPU%u\t", machine.gpu[i].index);
	printf("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n");
	for (int i = 0; i < machine.n; i++) {
		device d = machine.gpu[i].d;
		unsigned long cpus[WORDS] = {0}, nodes[1] = {0};
		printf("GPU%u\t", machine.gpu[i].index);
		for (int j = 0; j < machine.n; j++) {
			strcpy(text, " X ");
			if (i != j)
				way(d, machine.gpu[j].d, text);
			printf("%s\t", text);
		}
		ranges(nvml.DeviceGetCpuAffinity(d, WORDS, cpus), cpus, WORDS, text);
		printf("%s\t", text);
		ranges(nvml.DeviceGetMemoryAffinity(d, 1, nodes, 0), nodes, 1, text);
		printf("%s\t\tN/A\n", text);
	}
	printf("\nLegend:\n\n"
	       "  X    = Self\n"
	       "  SYS  = over the link between NUMA nodes\n"
	       "  NODE = over host bridges of one NUMA node\n"
	       "  PHB  = over one host bridge\n"
	       "  PXB  = over several PCIe bridges, no host bridge\n"
	       "  PIX  = over one PCIe bridge at most\n"
	       "  NV#  = over # NVLinks\n");
	return code;
}

int nvlink(int argc, char **argv)
{
	if (argc != 1 || (strcmp(argv[0], "-s") && strcmp(argv[0], "--status"))) {
		fprintf(stderr, "nvidia-smi nvlink without -s is not modelled by this fake host\n");
		return NOT_SUPPORTED;
	}
	int code = choose(0);
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		char name[TEXT], uuid[TEXT];
		struct field_value speed = {.id = COMMON_SPEED};
		title(nvml.DeviceGetName, g->d, name);
		title(nvml.DeviceGetUUID, g->d, uuid);
		printf("GPU %u: %s (UUID: %s)\n", g->index, name, uuid);
		if (nvml.DeviceGetFieldValues(g->d, 1, &speed) || speed.code)
			continue;
		for (unsigned l = 0; l < LINKS; l++) {
			unsigned on = 0;
			if (nvml.DeviceGetNvLinkState(g->d, l, &on))
				continue;
			if (on)
				printf("\t Link %u: %g GB/s\n", l, speed.value.ui / 1000.0);
			else
				printf("\t Link %u: <inactive>\n", l);
		}
	}
	return code;
}
