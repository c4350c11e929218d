/*
 * What cuInit finds: the host's GPUs whose nodes may be opened.
 *
 * Seen of the real library: without a permitted /dev/nvidia-uvm cuInit is 999
 * (NVIDIA/k8s-device-plugin issue 222: open gives EPERM, then "unknown error"); an
 * Orin without render nodes is 801 (wendylabsinc/WendyOS issue 1699). A GPU that fell
 * off the bus is none of the devices: where it was the only one, 100 (AlexeyAB/darknet
 * issue 86, of Windows); a program that has it gets 999 (wilicc/gpu-burn issue 1).
 * Not verified: 100 without nvidiactl, 801 without the other nodes of an Orin.
 */
#define _GNU_SOURCE
#include "host.h"
#include "rt.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

struct device devices[MAX_DEVICES];
int ndevices, driver_version;

enum { NVIDIA_MAJOR = 195, CTL_MINOR = 255 };

/* 16 octets from the hexadecimal digits of a UUID with any prefix. */
static void octets(const char *uuid, CUuuid *to)
{
	int n = 0;
	for (const char *p = strlen(uuid) > 36 ? uuid + strlen(uuid) - 36 : uuid; *p && n < 32; p++) {
		const char *digit = strchr("0123456789abcdef", *p | (*p >= 'A' && *p <= 'F' ? 32 : 0));
		if (!digit || !*p)
			continue;
		int v = (int)(digit - "0123456789abcdef");
		to->bytes[n / 2] = (unsigned char)(n % 2 ? to->bytes[n / 2] | v : v << 4);
		n++;
	}
}

static void describe(struct device *d, const struct gpu *g)
{
	*d = (struct device){0};
	snprintf(d->name, sizeof d->name, "%s", g->name);
	char *nvgpu = strstr(d->name, " (nvgpu)"); /* NVML's addition */
	if (nvgpu)
		*nvgpu = 0;
	snprintf(d->uuid, sizeof d->uuid, "%s", g->uuid);
	octets(g->uuid, &d->id);
	d->parent_id = d->id;
	d->major = (int)g->cc_major;
	d->minor = (int)g->cc_minor;
	d->has_pci = g->has_pci;
	d->domain = g->domain;
	d->bus = g->bus;
	d->slot = g->device;
	d->pci_id = g->pci_id;
	d->subsystem_id = g->subsystem_id;
	d->memory = g->memory;
	d->integrated = !g->memory;
	if (d->integrated) { /* a part of the machine's own memory */
		struct sysinfo s;
		d->memory = sysinfo(&s) ? (uint64_t)4 << 30 : (uint64_t)s.totalram * s.mem_unit;
	}
	snprintf(d->bus_id, sizeof d->bus_id, "%04x:%02x:%02x.0", d->domain, d->bus, d->slot);
	product_of(d);
}

static void describe_mig(struct device *d, const struct gpu *g, const struct ci *ci)
{
	describe(d, g);
	d->is_mig = 1;
	snprintf(d->name, sizeof d->name, "%s", ci->name);
	snprintf(d->uuid, sizeof d->uuid, "%s", ci->uuid);
	octets(ci->uuid, &d->id);
	d->memory = ci->memory;
	d->integrated = 0;
	d->product.sms = (int)ci->sms;
}

/* A MIG device needs the capability nodes of its GPU and its compute instance. The
 * minors: hardware facts of the driver's fixed table. */
static int mig_permitted(const struct gpu *g, const struct gi *gi, const struct ci *ci)
{
	int major = node_major("nvidia-caps"), base = 3 + 135 * (int)g->minor + 9 * (int)gi->id;
	for (int i = 0; i < 2; i++) {
		char path[64];
		int minor = i ? base + 1 + (int)ci->id : base;
		snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%d", minor);
		if (!capability_permitted(path, major < 0 ? 0 : (unsigned)major, minor))
			return 0;
	}
	return 1;
}

/* The devices of one GPU: itself, or its MIG devices. */
static int add_gpu(struct device *found, int n, int *gpu_of, const struct gpu *g)
{
	char path[64];
	snprintf(path, sizeof path, "/dev/nvidia%u", g->minor);
	if (!node_permitted(path, NVIDIA_MAJOR, (int)g->minor))
		return n;
	if (!g->has_mig_mode || !g->mig_mode) {
		describe(&found[n], g);
		gpu_of[n] = (int)g->index;
		return n + 1;
	}
	for (int i = 0; i < g->ngi; i++)
		for (int k = 0; k < g->gi[i].nci && n < MAX_DEVICES; k++)
			if (g->gi[i].ci[k].is_mig && mig_permitted(g, &g->gi[i], &g->gi[i].ci[k])) {
				describe_mig(&found[n], g, &g->gi[i].ci[k]);
				gpu_of[n++] = (int)g->index;
			}
	return n;
}

static int any_render_node(void)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/dev/dri", dev_root());
	DIR *dir = opendir(path);
	int found = 0;
	for (struct dirent *e; dir && !found && (e = readdir(dir));)
		if (!strncmp(e->d_name, "renderD", 7)) {
			snprintf(path, sizeof path, "/dev/dri/%.64s", e->d_name);
			found = node_permitted(path, 226, -1);
		}
	if (dir)
		closedir(dir);
	return found;
}

/* The nodes of nvgpu: the newer names, or the older ones. From the release that
 * reports driver 540 on, render nodes too. */
static CUresult check_nvgpu(const struct host *h)
{
	if (!node_permitted("/dev/nvmap", 0, -1))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!node_permitted("/dev/nvgpu/igpu0/ctrl", 0, -1) && !node_permitted("/dev/nvhost-ctrl-gpu", 0, -1))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (atoi(h->driver) >= 540 && !any_render_node())
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

/* Nodes that all discrete GPUs share. */
static CUresult check_shared_nodes(const struct host *h)
{
	CUresult code;
	make_missing("/dev/nvidiactl", "make-nodes gpus");
	if (!node_permitted("/dev/nvidiactl", NVIDIA_MAJOR, CTL_MINOR))
		return CUDA_ERROR_NO_DEVICE;
	if ((code = check_version(h)))
		return code;
	make_missing("/dev/nvidia-uvm", "make-nodes uvm");
	int uvm = node_major("nvidia-uvm");
	return node_permitted("/dev/nvidia-uvm", uvm < 0 ? 0 : (unsigned)uvm, 0) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* What NVML says of a driver that is not there as it should. */
static CUresult from_nvml(unsigned init)
{
	switch (init) {
	case 9: return CUDA_ERROR_NO_DEVICE;                  /* no module */
	case 12: return CUDA_ERROR_NO_DEVICE;                 /* no driver at all */
	case 18: return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	default: return CUDA_ERROR_UNKNOWN;
	}
}

/* is_nvgpu: the integrated GPU of an Orin has no /dev/nvidiaN. */
static int is_nvgpu(const struct gpu *g) { return !g->has_minor; }

CUresult find_devices(void)
{
	static struct device found[MAX_DEVICES];
	static int gpu_of[MAX_DEVICES];
	int line, n = 0, shared = -1;
	CUresult code = CUDA_ERROR_NO_DEVICE, why;
	struct host *h = host_now(&line);
	if (!h) {
		if (line < 0)
			say(1, "there is no state of a host: the machine is not a fake one");
		else
			say(1, "line %d of the host's state is no good", line);
		return CUDA_ERROR_NO_DEVICE;
	}
	if (h->init)
		return from_nvml(h->init);
	driver_version = h->has_cuda ? (int)h->cuda : DEFAULT_CUDA;
	for (int i = 0; i < h->ngpus && n < MAX_DEVICES; i++) {
		const struct gpu *g = &h->gpus[i];
		if (is_nvgpu(g)) {
			why = check_nvgpu(h);
			if (!why) {
				describe(&found[n], g);
				gpu_of[n++] = i;
			}
		} else {
			if (shared < 0)
				shared = check_shared_nodes(h);
			why = shared;
			if (!why && !host_off_bus(h, i))
				n = add_gpu(found, n, gpu_of, g);
		}
		code = why ? why : code;
	}
	return n ? choose_visible(found, n, gpu_of) : code;
}
