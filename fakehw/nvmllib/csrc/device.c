/* What a full GPU or a MIG device is. */
#include "api.h"

#include <string.h>

#define TEXT_CALL(name, value)                                    \
	API unsigned nvml##name(void *d, char *out, unsigned size) \
	{                                                          \
		struct part at;                                    \
		unsigned r = begin_at(#name, d, 0, &at);           \
		return leave(r ? r : give_text(value, out, size)); \
	}

TEXT_CALL(DeviceGetUUID, at.ci ? at.ci->uuid : at.gpu->uuid)
TEXT_CALL(DeviceGetName, at.ci ? at.ci->name : at.gpu->name)
TEXT_CALL(DeviceGetSerial, at.ci ? "" : at.gpu->serial)
TEXT_CALL(DeviceGetVbiosVersion, at.ci ? "" : at.gpu->vbios)

#define NUMBER_CALL(name, has, value)                                           \
	API unsigned nvml##name(void *d, unsigned *out)                          \
	{                                                                        \
		struct part at;                                                  \
		unsigned r = begin_at(#name, d, 0, &at);                         \
		return leave(r ? r : give_number(has, (has) ? (value) : 0, out)); \
	}

NUMBER_CALL(DeviceGetIndex, 1, at.ci ? at.ci->index : at.gpu->index)
NUMBER_CALL(DeviceGetMinorNumber, !at.ci && at.gpu->has_minor, at.gpu->minor)
NUMBER_CALL(DeviceGetBrand, !at.ci, at.gpu->brand)
NUMBER_CALL(DeviceGetArchitecture, !at.ci, at.gpu->arch)
NUMBER_CALL(DeviceGetPersistenceMode, !at.ci && at.gpu->has_persistence, at.gpu->persistence)
NUMBER_CALL(DeviceIsMigDeviceHandle, 1, at.ci != 0)
NUMBER_CALL(DeviceGetGpuInstanceId, at.ci != 0, at.gi->id)
NUMBER_CALL(DeviceGetComputeInstanceId, at.ci != 0, at.ci->id)

API unsigned nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor)
{
	struct part at;
	unsigned r = begin_at("DeviceGetCudaComputeCapability", d, 0, &at);
	if (!r && (!major || !minor))
		r = INVALID_ARGUMENT;
	if (!r && (at.ci || !at.gpu->has_cc))
		r = NOT_SUPPORTED;
	if (!r) {
		*major = at.gpu->cc_major;
		*minor = at.gpu->cc_minor;
	}
	return leave(r);
}

struct memory {
	unsigned long long total, free, used;
};

struct memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

API unsigned nvmlDeviceGetMemoryInfo(void *d, struct memory *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMemoryInfo", d, 0, &at);
	if (r)
		return leave(r);
	unsigned long long total = at.ci ? at.ci->memory : at.gpu->memory;
	if (!out || !total)
		return leave(out ? NOT_SUPPORTED : INVALID_ARGUMENT);
	unsigned long long kept = at.ci ? 0 : first(at.gpu, "DeviceGetMemoryInfo_v2");
	*out = (struct memory){.total = total, .used = kept, .free = total - kept};
	return leave(SUCCESS);
}

API unsigned nvmlDeviceGetMemoryInfo_v2(void *d, struct memory_v2 *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMemoryInfo_v2", d, 0, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r && out->version != VERSION(struct memory_v2, 2))
		r = VERSION_MISMATCH;
	if (!r && (at.ci || !at.gpu->memory))
		r = NOT_SUPPORTED;
	if (r)
		return leave(r);
	unsigned long long kept = first(at.gpu, "DeviceGetMemoryInfo_v2");
	*out = (struct memory_v2){.version = out->version, .total = at.gpu->memory, .reserved = kept, .free = at.gpu->memory - kept};
	return leave(r);
}

API unsigned nvmlDeviceGetBAR1MemoryInfo(void *d, struct memory *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetBAR1MemoryInfo", d, 0, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	unsigned long long size = r ? 0 : at.ci ? at.ci->bar1 : at.gpu->bar1;
	if (!r && !size)
		r = NOT_SUPPORTED;
	if (r)
		return leave(r);
	unsigned long long used = at.ci ? 0 : first(at.gpu, "DeviceGetBAR1MemoryInfo");
	*out = (struct memory){.total = size, .used = used, .free = size - used};
	return leave(r);
}

struct pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_id, subsystem_id;
	char bus_id[32]; /* from the third form of the call */
};

static unsigned pci_info(void *d, struct pci_info *out, int form)
{
	struct part at;
	unsigned r = begin_at("DeviceGetPciInfo", d, 0, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r && (at.ci || !at.gpu->has_pci))
		r = NOT_SUPPORTED;
	if (r)
		return leave(r);
	const struct gpu *g = at.gpu;
	memcpy(out->bus_id_legacy, g->bus_id_legacy, sizeof out->bus_id_legacy);
	out->domain = g->domain;
	out->bus = g->bus;
	out->device = g->device;
	out->pci_id = g->pci_id;
	out->subsystem_id = g->subsystem_id;
	if (form >= 3)
		memcpy(out->bus_id, g->bus_id, sizeof out->bus_id);
	return leave(SUCCESS);
}

API unsigned nvmlDeviceGetPciInfo(void *d, struct pci_info *out) { return pci_info(d, out, 1); }
API unsigned nvmlDeviceGetPciInfo_v2(void *d, struct pci_info *out) { return pci_info(d, out, 2); }
API unsigned nvmlDeviceGetPciInfo_v3(void *d, struct pci_info *out) { return pci_info(d, out, 3); }

struct pci_info_ext {
	unsigned version, domain, bus, device, pci_id, subsystem_id, base_class, sub_class;
	char bus_id[32];
};

API unsigned nvmlDeviceGetPciInfoExt(void *d, struct pci_info_ext *out)
{
	struct part at;
	unsigned r = begin_at("DeviceGetPciInfoExt", d, 0, &at);
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r && out->version != VERSION(struct pci_info_ext, 1))
		r = VERSION_MISMATCH;
	if (!r && (at.ci || !at.gpu->has_pci))
		r = NOT_SUPPORTED;
	if (r)
		return leave(r);
	const struct gpu *g = at.gpu;
	*out = (struct pci_info_ext){.version = out->version, .domain = g->domain, .bus = g->bus, .device = g->device, .pci_id = g->pci_id,
	    .subsystem_id = g->subsystem_id, .base_class = g->base_class, .sub_class = g->sub_class};
	memcpy(out->bus_id, g->bus_id, sizeof out->bus_id);
	return leave(SUCCESS);
}
