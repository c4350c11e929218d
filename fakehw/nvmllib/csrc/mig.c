/* MIG: modes, profiles, GPU instances (GI), compute instances (CI), MIG devices. */
#include "api.h"

#include <string.h>

enum { GI_PROFILES = 0x12, CI_PROFILES = 0x9 }; /* how many numbers of profiles NVML has */

API unsigned nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMigMode", d, 0, &at);
	if (!r && (!current || !pending || at.ci))
		r = INVALID_ARGUMENT; /* MIG devices have no mode */
	if (!r && !at.gpu->has_mig_mode)
		r = NOT_SUPPORTED;
	if (!r) {
		*current = at.gpu->mig_mode;
		*pending = at.gpu->mig_pending;
	}
	return leave(r);
}

API unsigned nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMaxMigDeviceCount", d, GPU, &at);
	return leave(r ? r : give_number(1, at.gpu->max_mig, out));
}

unsigned give_handle(int kind, struct gpu *g, struct gi *gi, struct ci *ci, void **out)
{
	if (!out)
		return INVALID_ARGUMENT;
	*out = handle_of(kind, g, gi, ci);
	return *out ? SUCCESS : INSUFFICIENT_RESOURCES;
}

static unsigned mig_by_index(struct gpu *g, unsigned index, void **out)
{
	if (!g->max_mig)
		return NOT_SUPPORTED;
	if (index >= g->max_mig)
		return INVALID_ARGUMENT;
	for (int i = 0; i < g->ngi; i++)
		for (int j = 0; j < g->gi[i].nci; j++)
			if (g->gi[i].ci[j].is_mig && g->gi[i].ci[j].index == index)
				return give_handle(MIG, g, &g->gi[i], &g->gi[i].ci[j], out);
	return NOT_FOUND;
}

API unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned index, void **out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMigDeviceHandleByIndex", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	return leave(r ? r : mig_by_index(at.gpu, index, out));
}

API unsigned nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *d, void **out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetDeviceHandleFromMigDeviceHandle", d, MIG, &at);
	return leave(r ? r : give_handle(GPU, at.gpu, 0, 0, out));
}

struct attributes {
	unsigned sms;
	struct engines engines;
	unsigned gi_slices, ci_slices;
	unsigned long long memory_mb;
};

static unsigned attributes(void *d, struct attributes *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetAttributes", d, 0, &at);
	if (!r && !at.ci)
		r = NOT_SUPPORTED;
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r)
		*out = (struct attributes){.sms = at.ci->sms, .engines = at.ci->engines, .gi_slices = at.ci->gi_slices,
		    .ci_slices = at.ci->ci_slices, .memory_mb = at.ci->memory_mb};
	return leave(r);
}

API unsigned nvmlDeviceGetAttributes(void *d, struct attributes *out) { return attributes(d, out); }
API unsigned nvmlDeviceGetAttributes_v2(void *d, struct attributes *out) { return attributes(d, out); }

/* find_profile begins a call about a GPU instance profile. */
static unsigned find_profile(void *d, unsigned number, void *out, const struct profile **p)
{
	struct part at;
	unsigned r = begin_at("DeviceGetGpuInstanceProfileInfo", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || number >= GI_PROFILES))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < at.gpu->nprofiles; i++)
		if ((*p = &at.gpu->profiles[i])->number == number)
			return SUCCESS;
	return r ? r : NOT_SUPPORTED;
}

struct gi_profile {
	unsigned id, p2p, slices, count, sms;
	struct engines engines;
	unsigned long long memory_mb;
};

API unsigned nvmlDeviceGetGpuInstanceProfileInfo(void *d, unsigned number, struct gi_profile *out)
{
	const struct profile *p;
	unsigned r = find_profile(d, number, out, &p);
	if (!r)
		*out = (struct gi_profile){.id = p->id, .slices = p->slices, .count = p->count, .sms = p->sms, .engines = p->engines, .memory_mb = p->memory_mb};
	return leave(r);
}

/* The second and third form have a name; the first member tells them apart. */
struct gi_profile_v2 {
	unsigned version, id, p2p, slices, count, sms;
	struct engines engines;
	unsigned long long memory_mb;
	char name[96];
};

struct gi_profile_v3 {
	unsigned version, id, slices, count, sms;
	struct engines engines;
	unsigned long long memory_mb;
	char name[96];
	unsigned capabilities;
};

API unsigned nvmlDeviceGetGpuInstanceProfileInfoV(void *d, unsigned number, void *out)
{
	const struct profile *p;
	unsigned r = find_profile(d, number, out, &p);
	if (r)
		return leave(r);
	unsigned version = *(unsigned *)out;
	if (version == VERSION(struct gi_profile_v2, 2)) {
		struct gi_profile_v2 *v = out;
		*v = (struct gi_profile_v2){version, p->id, 0, p->slices, p->count, p->sms, p->engines, p->memory_mb, ""};
		strcpy(v->name, p->name);
	} else if (version == VERSION(struct gi_profile_v3, 3)) {
		struct gi_profile_v3 *v = out;
		*v = (struct gi_profile_v3){version, p->id, p->slices, p->count, p->sms, p->engines, p->memory_mb, "", 0};
		strcpy(v->name, p->name);
	} else {
		return leave(VERSION_MISMATCH);
	}
	return leave(SUCCESS);
}

unsigned begin_mig(const char *call, void *d, struct part *at)
{
	unsigned r = begin_at(call, d, 0, at);
	if (!r && (at->ci || !at->gpu->has_mig_mode || !at->gpu->mig_mode))
		r = NOT_SUPPORTED;
	return r;
}

static struct profile *profile_of(struct gpu *g, unsigned id)
{
	for (int i = 0; i < g->nprofiles; i++)
		if (g->profiles[i].id == id)
			return &g->profiles[i];
	return 0;
}

static unsigned places(void *d, unsigned id, struct place *out, unsigned *count)
{
	struct part at;
	unsigned r = begin_mig("DeviceGetGpuInstancePossiblePlacements", d, &at);
	if (!r && !count)
		r = INVALID_ARGUMENT;
	if (r)
		return leave(r);
	struct profile *p = profile_of(at.gpu, id);
	unsigned n = p ? p->nplaces : 0, room = *count;
	*count = n;
	if (!out)
		return leave(SUCCESS); /* only the number was asked for */
	if (room < n)
		return leave(INSUFFICIENT_SIZE);
	if (n)
		memcpy(out, p->places, n * sizeof *out);
	return leave(SUCCESS);
}

API unsigned nvmlDeviceGetGpuInstancePossiblePlacements(void *d, unsigned id, struct place *out, unsigned *count)
{
	return places(d, id, out, count);
}

API unsigned nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *d, unsigned id, struct place *out, unsigned *count)
{
	return places(d, id, out, count);
}

API unsigned nvmlDeviceGetGpuInstanceRemainingCapacity(void *d, unsigned id, unsigned *out)
{
	struct part at;
	unsigned r = begin_mig("DeviceGetGpuInstanceRemainingCapacity", d, &at);
	if (r)
		return leave(r);
	struct profile *p = profile_of(at.gpu, id);
	return leave(give_number(1, p ? p->remaining : 0, out));
}

/* The caller's array has room for as many instances as the profile allows. */
API unsigned nvmlDeviceGetGpuInstances(void *d, unsigned id, void **out, unsigned *count)
{
	struct part at;
	unsigned n = 0, r = begin_mig("DeviceGetGpuInstances", d, &at);
	if (!r && (!out || !count))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < at.gpu->ngi; i++)
		if (at.gpu->gi[i].profile == id)
			r = give_handle(GI, at.gpu, &at.gpu->gi[i], 0, &out[n++]);
	if (!r)
		*count = n;
	return leave(r);
}

API unsigned nvmlDeviceGetGpuInstanceById(void *d, unsigned id, void **out)
{
	struct part at;
	unsigned r = begin_mig("DeviceGetGpuInstanceById", d, &at);
	for (int i = 0; !r && i < at.gpu->ngi; i++)
		if (at.gpu->gi[i].id == id)
			return leave(give_handle(GI, at.gpu, &at.gpu->gi[i], 0, out));
	return leave(r ? r : NOT_FOUND);
}

struct gi_info {
	void *device;
	unsigned id, profile;
	struct place at;
};

API unsigned nvmlGpuInstanceGetInfo(void *instance, struct gi_info *out)
{
	struct part at;
	unsigned r = begin_at("GpuInstanceGetInfo", instance, GI, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (r)
		return leave(r);
	*out = (struct gi_info){.id = at.gi->id, .profile = at.gi->profile, .at = at.gi->at};
	return leave(give_handle(GPU, at.gpu, 0, 0, &out->device));
}

/* find_ciprofile begins a call about a compute instance profile. */
static unsigned find_ciprofile(void *instance, unsigned number, unsigned engine, void *out, const struct ciprofile **p)
{
	struct part at;
	unsigned r = begin_at("GpuInstanceGetComputeInstanceProfileInfo", instance, GI, &at);
	if (!r && (!out || number >= CI_PROFILES || engine != 0))
		r = INVALID_ARGUMENT; /* engine 0: shared, the only kind there is */
	for (int i = 0; !r && i < at.gi->nprofiles; i++)
		if ((*p = &at.gi->profiles[i])->number == number)
			return SUCCESS;
	return r ? r : NOT_SUPPORTED;
}

struct ci_profile {
	unsigned id, slices, count, sms;
	struct engines engines;
};

API unsigned nvmlGpuInstanceGetComputeInstanceProfileInfo(void *instance, unsigned number, unsigned engine, struct ci_profile *out)
{
	const struct ciprofile *p;
	unsigned r = find_ciprofile(instance, number, engine, out, &p);
	if (!r)
		*out = (struct ci_profile){.id = p->id, .slices = p->slices, .count = p->count, .sms = p->sms, .engines = p->engines};
	return leave(r);
}

struct ci_profile_v2 {
	unsigned version, id, slices, count, sms;
	struct engines engines;
	char name[96];
};

struct ci_profile_v3 {
	struct ci_profile_v2 v2;
	unsigned capabilities;
};

API unsigned nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *instance, unsigned number, unsigned engine, void *out)
{
	const struct ciprofile *p;
	unsigned r = find_ciprofile(instance, number, engine, out, &p);
	if (r)
		return leave(r);
	struct ci_profile_v2 *v = out;
	unsigned version = v->version;
	if (version != VERSION(struct ci_profile_v2, 2) && version != VERSION(struct ci_profile_v3, 3))
		return leave(VERSION_MISMATCH);
	*v = (struct ci_profile_v2){version, p->id, p->slices, p->count, p->sms, p->engines, ""};
	strcpy(v->name, p->name);
	if (version == VERSION(struct ci_profile_v3, 3))
		((struct ci_profile_v3 *)out)->capabilities = 0;
	return leave(SUCCESS);
}

API unsigned nvmlGpuInstanceGetComputeInstanceRemainingCapacity(void *instance, unsigned id, unsigned *out)
{
	struct part at;
	unsigned r = begin_at("GpuInstanceGetComputeInstanceRemainingCapacity", instance, GI, &at);
	for (int i = 0; !r && i < at.gi->nprofiles; i++)
		if (at.gi->profiles[i].id == id)
			return leave(give_number(1, at.gi->profiles[i].remaining, out));
	return leave(r ? r : INVALID_ARGUMENT);
}

API unsigned nvmlGpuInstanceGetComputeInstances(void *instance, unsigned id, void **out, unsigned *count)
{
	struct part at;
	unsigned n = 0, r = begin_at("GpuInstanceGetComputeInstances", instance, GI, &at);
	if (!r && (!out || !count))
		r = INVALID_ARGUMENT;
	for (int i = 0; !r && i < at.gi->nci; i++)
		if (at.gi->ci[i].profile == id)
			r = give_handle(CI, at.gpu, at.gi, &at.gi->ci[i], &out[n++]);
	if (!r)
		*count = n;
	return leave(r);
}

API unsigned nvmlGpuInstanceGetComputeInstanceById(void *instance, unsigned id, void **out)
{
	struct part at;
	unsigned r = begin_at("GpuInstanceGetComputeInstanceById", instance, GI, &at);
	for (int i = 0; !r && i < at.gi->nci; i++)
		if (at.gi->ci[i].id == id)
			return leave(give_handle(CI, at.gpu, at.gi, &at.gi->ci[i], out));
	return leave(r ? r : NOT_FOUND);
}

struct ci_info {
	void *device, *instance;
	unsigned id, profile;
	struct place at; /* from the second form of the call */
};

static unsigned ci_info(void *instance, struct ci_info *out, int form)
{
	struct part at;
	unsigned r = begin_at("ComputeInstanceGetInfo", instance, CI, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r)
		r = give_handle(GPU, at.gpu, 0, 0, &out->device);
	if (!r)
		r = give_handle(GI, at.gpu, at.gi, 0, &out->instance);
	if (r)
		return leave(r);
	out->id = at.ci->id;
	out->profile = at.ci->profile;
	if (form >= 2)
		out->at = at.ci->at;
	return leave(SUCCESS);
}

API unsigned nvmlComputeInstanceGetInfo(void *instance, struct ci_info *out) { return ci_info(instance, out, 1); }
API unsigned nvmlComputeInstanceGetInfo_v2(void *instance, struct ci_info *out) { return ci_info(instance, out, 2); }
