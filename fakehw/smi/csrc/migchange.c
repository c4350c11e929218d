/* nvidia-smi mig -cgi, -cci, -dgi, -dci. All stop at the first refusal. */
#include "instances.h"

#include <stdlib.h>
#include <string.h>

static int failed(const char *what, unsigned r)
{
	printf("Failed to %s: %s\n", what, why(r));
	return r > 255 ? 255 : r;
}

/* full is the compute instance profile that has all of a GPU instance. */
static int full(gpu_instance h, unsigned slices, struct ci_profile *out)
{
	struct ci_profile p[CI_PROFILES];
	int n = ci_profiles(h, p);
	while (n-- > 0)
		if (p[n].slices == slices) {
			*out = p[n];
			return 1;
		}
	return 0;
}

/* make_ci makes one compute instance, of a profile with an id or a name, or with
 * neither of the one that has all. */
static unsigned make_ci(const struct gi_row *gi, const char *name)
{
	struct ci_profile p[CI_PROFILES], chosen = {.id = 0};
	struct ci_info info;
	compute_instance made;
	unsigned id;
	int is_id = name && number(name, &id), n = ci_profiles(gi->h, p), found = name ? 0 : full(gi->h, gi->profile.slices, &chosen);
	for (int i = 0; name && i < n && !found; i++)
		if ((found = is_id ? p[i].id == id : !strcmp(short_name(p[i].name), short_name(name))))
			chosen = p[i];
	unsigned r = found ? nvml.GpuInstanceCreateComputeInstance(gi->h, chosen.id, &made) : (unsigned)BAD_ARGUMENT;
	if (!r)
		r = nvml.ComputeInstanceGetInfo_v2(made, &info);
	if (r)
		printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using profile %s: %s\n", gi->g->index, gi->info.id,
		       name ? name : "default", why(r));
	else
		printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile %s (ID %2u)\n", info.id, gi->g->index,
		       gi->info.id, chosen.name, chosen.id);
	return r;
}

/* make_gi makes one GPU instance: of "9", "3g.20gb" or either with ":START". */
static unsigned make_gi(const struct gpu *g, char *name, struct gi_row *out)
{
	struct gi_profile p[GI_PROFILES];
	struct place at = {0, 0};
	char *place = strchr(name, ':');
	unsigned id, r = BAD_ARGUMENT;
	gpu_instance made;
	int n = gi_profiles(g->d, p), found = -1;
	if (place)
		*place++ = 0;
	int is_id = number(name, &id);
	for (int i = 0; i < n && found < 0; i++)
		if (is_id ? p[i].id == id : !strcmp(short_name(p[i].name), short_name(name)))
			found = i;
	if (found >= 0 && !place) {
		r = nvml.DeviceCreateGpuInstance(g->d, p[found].id, &made);
	} else if (found >= 0 && number(place, &at.start)) {
		struct place all[MAX_GI];
		unsigned count = MAX_GI;
		if (!nvml.DeviceGetGpuInstancePossiblePlacements_v2(g->d, p[found].id, all, &count) && count)
			at.size = all[0].size;
		r = nvml.DeviceCreateGpuInstanceWithPlacement(g->d, p[found].id, &at, &made);
	}
	if (!r) {
		*out = (struct gi_row){.g = g, .h = made, .profile = p[found]};
		r = nvml.GpuInstanceGetInfo(made, &out->info);
	}
	if (r)
		printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", g->index, name, why(r));
	else
		printf("Successfully created GPU instance ID %2u on GPU %2u using profile %s (ID %2u)\n", out->info.id, g->index, p[found].name, p[found].id);
	return r;
}

int create_gi(const char *profiles, int with_ci)
{
	for (int i = 0; i < machine.n; i++) {
		char *copy = strdup(profiles), *rest = copy, *name;
		unsigned r = 0, in_ci = 0;
		while (mig_on(machine.gpu[i].d) && !r && (name = strsep(&rest, ","))) {
			struct gi_row made;
			r = make_gi(&machine.gpu[i], name, &made);
			if (!r && with_ci)
				r = in_ci = make_ci(&made, 0);
		}
		free(copy);
		if (r)
			return failed(in_ci ? "create compute instances" : "create GPU instances", r);
	}
	return OK;
}

int create_ci(const char *profiles, const struct only *only)
{
	int found = 0;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++, found++) {
			char *copy = strdup(profiles ? profiles : ""), *rest = copy, *name;
			unsigned r = 0;
			while (!r && (name = strsep(&rest, ",")))
				r = make_ci(&row[j], profiles ? name : 0);
			free(copy);
			if (r)
				return failed("create compute instances", r);
		}
	}
	if (found)
		return OK;
	printf("No GPU instances found: Not Found\n");
	return NOT_FOUND;
}

int destroy_gi(const struct only *only)
{
	int found = 0;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++, found++) {
			unsigned r = nvml.GpuInstanceDestroy(row[j].h);
			if (r) {
				printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", row[j].info.id, row[j].g->index, why(r));
				return failed("destroy GPU instances", r);
			}
			printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", row[j].info.id, row[j].g->index);
		}
	}
	if (found)
		return OK;
	printf("No GPU instances found: Not Found\n");
	return NOT_FOUND;
}

int destroy_ci(const struct only *only)
{
	int found = 0;
	for (int i = 0; i < machine.n; i++) {
		struct gi_row row[MAX_GI];
		int n = gi_rows(&machine.gpu[i], only, row);
		for (int j = 0; j < n; j++) {
			struct ci_row ci[MAX_CI];
			int m = ci_rows(row[j].h, only, ci);
			for (int k = 0; k < m; k++, found++) {
				unsigned r = nvml.ComputeInstanceDestroy(ci[k].h);
				if (r) {
					printf("Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u: %s\n", ci[k].info.id, row[j].g->index,
					       row[j].info.id, why(r));
					return failed("destroy compute instances", r);
				}
				printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n", ci[k].info.id, row[j].g->index,
				       row[j].info.id);
			}
		}
	}
	if (found)
		return OK;
	printf("No compute instances found: Not Found\n");
	return NOT_FOUND;
}
