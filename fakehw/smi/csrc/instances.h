/* The instances and profiles of GPUs in MIG mode, in the order of the tables. */
#ifndef GPURIG_SMI_INSTANCES_H
#define GPURIG_SMI_INSTANCES_H

#include "smi.h"

enum { MAX_GI = 16, MAX_CI = 8 };

/* Which instances a command is about. */
struct only {
	const char *gi, *ci; /* lists of ids; 0: all */
};

struct gi_row {
	const struct gpu *g;
	gpu_instance h;
	struct gi_info info;
	struct gi_profile profile;
};

struct ci_row {
	compute_instance h;
	struct ci_info info;
	struct ci_profile profile;
};

/* gi_profiles fills in what a GPU has: one slice first, and then as NVML counts. */
int gi_profiles(device d, struct gi_profile out[GI_PROFILES]);
int ci_profiles(gpu_instance h, struct ci_profile out[CI_PROFILES]);

/* gi_rows and ci_rows fill in instances that are wanted: by profile, then by id;
 * by id. */
int gi_rows(const struct gpu *g, const struct only *only, struct gi_row out[MAX_GI]);
int ci_rows(gpu_instance h, const struct only *only, struct ci_row out[MAX_CI]);

/* short_name is a profile's name without "MIG ". */
const char *short_name(const char *name);

/* The lists. */
int list_gi_profiles(void);
int list_gi_places(void);
int list_ci_profiles(const struct only *only);
int list_gi(const struct only *only);
int list_ci(const struct only *only);

/* The changes. profiles are ids or names, divided by commas, each with or without
 * a place; with_ci makes the compute instance that has all of each. profiles 0
 * stands for that one. */
int create_gi(const char *profiles, int with_ci);
int create_ci(const char *profiles, const struct only *only);
int destroy_gi(const struct only *only);
int destroy_ci(const struct only *only);

#endif
