/*
 * The host that the library answers for, as read from its state file, and the
 * handles that it gives out. See host.c for the file's form.
 *
 * Nothing here is thread-safe by itself: begin() takes the one lock of the
 * library and leave() releases it (see api.h).
 */
#ifndef GPURIG_HOST_H
#define GPURIG_HOST_H

enum { MAX_TEXT = 128, MAX_PROFILES = 24, MAX_PLACES = 16, MAX_GI = 16, MAX_CI = 8, MAX_GPUS = 256, MAX_XID = 256, MAX_READINGS = 4096 };

/* What nvml calls a placement. */
struct place {
	unsigned start, size;
};

/* Engines, in the order of NVML's structures. */
struct engines {
	unsigned copy, decoders, encoders, jpeg, ofa;
};

/* The answer of a call about a GPU that returns numbers or a text; arg is its
 * argument, or which of its results. */
struct reading {
	char call[48];
	unsigned arg;
	unsigned long long value;
	char text[48]; /* empty: it is a number */
};

/* A GPU instance profile of a GPU. */
struct profile {
	unsigned number; /* NVML_GPU_INSTANCE_PROFILE_… */
	unsigned id, slices, count, sms, remaining;
	unsigned long long memory_mb;
	struct engines engines;
	char name[48];
	struct place places[MAX_PLACES];
	int nplaces;
};

/* A compute instance profile of a GPU instance. */
struct ciprofile {
	unsigned number; /* NVML_COMPUTE_INSTANCE_PROFILE_… */
	unsigned id, slices, count, sms, remaining;
	struct engines engines;
	char name[48];
};

/* A compute instance, and the MIG device that it is. */
struct ci {
	unsigned id, profile;
	struct place at;
	int is_mig; /* the rest is set */
	unsigned index, gi_slices, ci_slices, sms;
	struct engines engines;
	unsigned long long memory_mb, memory, bar1;
	char uuid[MAX_TEXT], name[MAX_TEXT];
};

struct gi {
	unsigned id, profile;
	struct place at;
	struct ciprofile profiles[MAX_PROFILES];
	int nprofiles;
	struct ci ci[MAX_CI];
	int nci;
};

/* A full GPU. What the host has not is empty, or its has_ field is 0. */
struct gpu {
	char uuid[MAX_TEXT], name[MAX_TEXT], serial[MAX_TEXT], vbios[MAX_TEXT];
	unsigned index, place; /* place: the index that faults go by */
	int has_minor, has_cc, has_persistence, has_pci, has_fabric, has_mig_mode;
	unsigned minor, brand, arch, cc_major, cc_minor, persistence, fabric, mig_mode, mig_pending, max_mig;
	unsigned long long memory, bar1; /* bytes */
	unsigned domain, bus, device, pci_id, subsystem_id, base_class, sub_class;
	char bus_id[32], bus_id_legacy[16];
	struct reading *readings;
	int nreadings;
	struct profile profiles[MAX_PROFILES];
	int nprofiles;
	struct gi gi[MAX_GI];
	int ngi;
};

/* A fault: calls of this name return a code, on one GPU or on all. */
struct fault {
	char call[MAX_TEXT];
	int index; /* -1: any */
	unsigned code;
};

/* An Xid that the driver has reported of a GPU, by its place. */
struct xid {
	unsigned gpu, code;
};

struct host {
	unsigned init; /* what nvmlInit returns */
	int looked;    /* whether its nodes were looked at; see nodes.h */
	unsigned reach;
	char driver[MAX_TEXT], nvml[MAX_TEXT];
	int has_cuda, no_libcuda;
	unsigned cuda;
	struct gpu *gpus; /* by index */
	int ngpus;
	unsigned char off_bus[MAX_GPUS / 8]; /* a bit each */
	struct fault *faults;
	int nfaults;
	struct xid xids[64];
	int nxids;
};

/* host_parse reads a state file's text, which it changes. On failure it returns
 * 0 and the number of the offending line. */
struct host *host_parse(char *text, int *line);
void host_free(struct host *h);

/* host_now returns the host as the state file says now. It reads the file again
 * when that was replaced or written to, and keeps what it had when the new
 * content cannot be used. 0: there was never a file, or never a good one; *bad
 * is then the line at fault, -1 without a file. */
struct host *host_now(int *bad);

static inline int host_off_bus(const struct host *h, int gpu) { return h->off_bus[gpu / 8] >> gpu % 8 & 1; }

/* host_forget makes the next host_now begin anew. */
void host_forget(void);

/* A handle stays valid and means the same part for as long as the program
 * lives, also when the host changes under it. */
struct handle {
	enum { GPU = 1, MIG, GI, CI } kind;
	char gpu[MAX_TEXT], uuid[MAX_TEXT];
	unsigned gi, ci;
};

/* The parts of the host that a handle leads to; those above it are set too. */
struct part {
	struct host *host;
	struct handle *handle;
	struct gpu *gpu;
	struct gi *gi;
	struct ci *ci;
};

/* handle_of returns the handle of a part, 0 when there are too many. */
struct handle *handle_of(int kind, struct gpu *g, struct gi *gi, struct ci *ci);

/* handle_find returns 0, or an NVML code: not a handle of that kind, or its GPU
 * or instance is gone. kind 0 takes GPUs and MIG devices. */
unsigned handle_find(struct host *h, void *p, int kind, struct part *out);

#endif
