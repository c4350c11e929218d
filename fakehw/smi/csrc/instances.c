#include "instances.h"

#include <stdlib.h>
#include <string.h>

const char *short_name(const char *name) { return strncmp(name, "MIG ", 4) ? name : name + 4; }

/* rank orders profiles of as many slices: those with all media engines come
 * before those with none, the others as NVML counts. */
static unsigned rank(unsigned number)
{
	enum { NO_ME_1 = 0xd, NO_ME_2 = 0xe };
	return number == NO_ME_1 || number == NO_ME_2 ? number + GI_PROFILES : number;
}

int gi_profiles(device d, struct gi_profile out[GI_PROFILES])
{
	unsigned numbers[GI_PROFILES];
	int n = 0;
	for (unsigned number = 0; number < GI_PROFILES; number++) {
		struct gi_profile p = {.version = FORM(struct gi_profile, 2)};
		if (nvml.DeviceGetGpuInstanceProfileInfoV(d, number, &p))
			continue;
		int at = n++;
		for (; at > 0 && (out[at - 1].slices > p.slices || (out[at - 1].slices == p.slices && rank(numbers[at - 1]) > rank(number))); at--) {
			out[at] = out[at - 1];
			numbers[at] = numbers[at - 1];
		}
		out[at] = p;
		numbers[at] = number;
	}
	return n;
}

int ci_profiles(gpu_instance h, struct ci_profile out[CI_PROFILES])
{
	int n = 0;
	for (unsigned number = 0; number < CI_PROFILES; number++) {
		struct ci_profile p = {.version = FORM(struct ci_profile, 2)};
		if (nvml.GpuInstanceGetComputeInstanceProfileInfoV(h, number, 0, &p))
			continue;
		int at = n++;
		for (; at > 0 && out[at - 1].slices > p.slices; at--)
			out[at] = out[at - 1];
		out[at] = p;
	}
	return n;
}

/* wanted says whether an id is in a list, "1,2"; 0 has all. */
static int wanted(const char *list, unsigned id)
{
	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (*at >= '0' && *at <= '9' && strtoul(at, 0, 10) == id)
			return 1;
	}
	return !list;
}

int gi_rows(const struct gpu *g, const struct only *only, struct gi_row out[MAX_GI])
{
	struct gi_profile profiles[GI_PROFILES];
	int n = 0, known = gi_profiles(g->d, profiles);
	for (int i = 0; i < known; i++) {
		gpu_instance have[MAX_GI];
		unsigned count = MAX_GI;
		int first = n;
		if (profiles[i].count > MAX_GI || nvml.DeviceGetGpuInstances(g->d, profiles[i].id, have, &count))
			continue;
		for (unsigned j = 0; j < count && n < MAX_GI; j++) {
			struct gi_row row = {.g = g, .h = have[j], .profile = profiles[i]};
			if (nvml.GpuInstanceGetInfo(have[j], &row.info) || !wanted(only->gi, row.info.id))
				continue;
			int at = n++;
			for (; at > first && out[at - 1].info.id > row.info.id; at--)
				out[at] = out[at - 1];
			out[at] = row;
		}
	}
	return n;
}

int ci_rows(gpu_instance h, const struct only *only, struct ci_row out[MAX_CI])
{
	struct ci_profile profiles[CI_PROFILES];
	int n = 0, known = ci_profiles(h, profiles);
	for (int i = 0; i < known; i++) {
		compute_instance have[MAX_CI];
		unsigned count = MAX_CI;
		if (profiles[i].count > MAX_CI || nvml.GpuInstanceGetComputeInstances(h, profiles[i].id, have, &count))
			continue;
		for (unsigned j = 0; j < count && n < MAX_CI; j++) {
			struct ci_row row = {.h = have[j], .profile = profiles[i]};
			if (nvml.ComputeInstanceGetInfo_v2(have[j], &row.info) || !wanted(only->ci, row.info.id))
				continue;
			int at = n++;
			for (; at > 0 && out[at - 1].info.id > row.info.id; at--)
				out[at] = out[at - 1];
			out[at] = row;
		}
	}
	return n;
}
