/* NVLinks, the fabric, and the way from one GPU to another. */
#include "api.h"

#include <stdio.h>
#include <string.h>

/* to_other answers about two GPUs: the second's index and a kind make the argument. */
static unsigned to_other(const char *call, void *d1, void *d2, unsigned kind, unsigned kinds, unsigned all, unsigned *out)
{
	struct part at, other;
	unsigned r = begin_at(call, d1, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || kind >= kinds))
		r = INVALID_ARGUMENT;
	if (!r && (handle_find(at.host, d2, 0, &other) || other.ci))
		r = INVALID_ARGUMENT;
	const struct reading *x = r ? 0 : reading(at.gpu, call, other.gpu->place * all + kind);
	return leave(r ? r : give_number(x != 0, x ? (unsigned)x->value : 0, out));
}

API unsigned nvmlDeviceGetTopologyCommonAncestor(void *d1, void *d2, unsigned *out)
{
	return to_other("DeviceGetTopologyCommonAncestor", d1, d2, 0, 1, 1, out);
}

API unsigned nvmlDeviceGetP2PStatus(void *d1, void *d2, unsigned kind, unsigned *out)
{
	return to_other("DeviceGetP2PStatus", d1, d2, kind, 5, 6, out);
}

API unsigned nvmlDeviceGetCpuAffinity(void *d, unsigned n, unsigned long *out)
{
	static const char call[] = "DeviceGetCpuAffinity";
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || !n))
		r = INVALID_ARGUMENT;
	if (!r && !reading(at.gpu, call, 0))
		r = NOT_SUPPORTED;
	for (unsigned i = 0; !r && i < n; i++) {
		const struct reading *x = reading(at.gpu, call, i);
		out[i] = x ? x->value : 0;
	}
	return leave(r);
}

API unsigned nvmlDeviceGetMemoryAffinity(void *d, unsigned n, unsigned long *out, unsigned scope)
{
	struct part at;
	unsigned r = begin_at("DeviceGetMemoryAffinity", d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || !n || scope > 1))
		r = INVALID_ARGUMENT;
	const struct reading *x = r ? 0 : reading(at.gpu, "DeviceGetMemoryAffinity", 0);
	if (!r && !x)
		r = NOT_SUPPORTED;
	if (!r) {
		memset(out, 0, n * sizeof *out);
		*out = x->value;
	}
	return leave(r);
}

struct pci_info {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_id, subsystem_id;
	char bus_id[32];
};

/* remote is the switch at the end of a link: domain, bus, device, and both ids in one. */
static unsigned remote(void *d, unsigned link, struct pci_info *out)
{
	static const char call[] = "DeviceGetNvLinkRemotePciInfo";
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	unsigned long long n[4] = {0};
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && (!out || link >= 36))
		r = INVALID_ARGUMENT;
	for (unsigned i = 0; !r && i < 4; i++) {
		const struct reading *x = reading(at.gpu, call, link * 4 + i);
		if (!x)
			r = NOT_SUPPORTED;
		else
			n[i] = x->value;
	}
	if (r)
		return leave(r);
	*out = (struct pci_info){.domain = n[0], .bus = n[1], .device = n[2], .pci_id = n[3] >> 32, .subsystem_id = (unsigned)n[3]};
	snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
	snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus, out->device);
	return leave(SUCCESS);
}

API unsigned nvmlDeviceGetNvLinkRemotePciInfo(void *d, unsigned link, struct pci_info *out) { return remote(d, link, out); }
API unsigned nvmlDeviceGetNvLinkRemotePciInfo_v2(void *d, unsigned link, struct pci_info *out) { return remote(d, link, out); }

struct fabric {
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
};

/* fabric fills in the first form, and what the later ones have besides. */
static unsigned fabric(const char *call, void *d, void *out, struct fabric *f, unsigned *health, unsigned *summary)
{
	static const char name[] = "DeviceGetGpuFabricInfo";
	struct part at;
	unsigned r = begin_at(call, d, 0, &at);
	if (!r && at.ci)
		r = NOT_SUPPORTED;
	if (!r && !out)
		r = INVALID_ARGUMENT;
	if (!r && !at.gpu->has_fabric)
		r = NOT_SUPPORTED;
	if (r)
		return r;
	const struct reading *clique = reading(at.gpu, name, 0), *mask = reading(at.gpu, name, 1), *sum = reading(at.gpu, name, 2),
			     *cluster = reading(at.gpu, name, 3);
	*f = (struct fabric){.state = at.gpu->fabric, .clique = clique ? clique->value : 0};
	*health = mask ? mask->value : 0;
	*summary = sum ? sum->value : 0;
	for (int i = 0; cluster && f->state == 3 && i < 16; i++) {
		unsigned byte = 0;
		sscanf(cluster->text + 2 * i, "%2x", &byte);
		f->cluster[i] = byte;
	}
	return SUCCESS;
}

API unsigned nvmlDeviceGetGpuFabricInfo(void *d, struct fabric *out)
{
	unsigned health, summary;
	struct fabric f;
	unsigned r = fabric("DeviceGetGpuFabricInfo", d, out, &f, &health, &summary);
	if (!r)
		*out = f;
	return leave(r);
}

struct fabric_v2 {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
	unsigned health;
};

struct fabric_v3 {
	unsigned version;
	unsigned char cluster[16];
	unsigned status, clique;
	unsigned char state;
	unsigned health;
	unsigned char summary;
};

API unsigned nvmlDeviceGetGpuFabricInfoV(void *d, void *out)
{
	unsigned health, summary;
	struct fabric f;
	unsigned r = fabric("DeviceGetGpuFabricInfoV", d, out, &f, &health, &summary);
	if (r)
		return leave(r);
	struct fabric_v2 *v2 = out;
	struct fabric_v3 *v3 = out;
	if (v2->version == VERSION(struct fabric_v2, 2)) {
		*v2 = (struct fabric_v2){.version = v2->version, .clique = f.clique, .state = f.state, .health = health};
		memcpy(v2->cluster, f.cluster, sizeof f.cluster);
	} else if (v3->version == VERSION(struct fabric_v3, 3)) {
		*v3 = (struct fabric_v3){.version = v3->version, .clique = f.clique, .state = f.state, .health = health, .summary = summary};
		memcpy(v3->cluster, f.cluster, sizeof f.cluster);
	} else
		r = VERSION_MISMATCH;
	return leave(r);
}
