/*
 * A node that has no driver behind it gives ENXIO when it may be opened, and EPERM
 * or EACCES when its mode or a container's rules forbid it. The real library makes
 * nodes that are missing by nvidia-modprobe, which containers lack; this one asks the
 * host, whose channel they lack.
 */
#define _GNU_SOURCE
#include "nodes.h"
#include "codes.h"
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* only_shown: FUSE without privilege shows nodes that nobody can open; their owner
 * and mode count. */
static int only_shown(const char *path, int mode)
{
	struct statfs fs;
	return errno == EACCES && !statfs(path, &fs) && fs.f_type == FUSE_SUPER_MAGIC && fs.f_flags & ST_NODEV && !access(path, mode);
}

/* reach returns 0, or why a node cannot be opened. */
static int reach(const char *root, const char *path, int how)
{
	char full[PATH_MAX];
	struct stat st;
	snprintf(full, sizeof full, "%s%s", root, path);
	if (stat(full, &st))
		return errno;
	if (!*root && !S_ISCHR(st.st_mode))
		return ENODEV;
	int fd = open(full, how | O_CLOEXEC);
	if (fd >= 0)
		return close(fd);
	return errno == ENXIO || errno == ENODEV || only_shown(full, how == O_RDONLY ? R_OK : R_OK | W_OK) ? 0 : errno;
}

static int missing(const char *root, const char *path)
{
	char full[PATH_MAX];
	struct stat st;
	snprintf(full, sizeof full, "%s%s", root, path);
	return stat(full, &st) && errno == ENOENT;
}

/* make_missing has the host make the nodes that nothing has asked for so far. */
static void make_missing(const char *root, const struct host *h)
{
	int gpus = missing(root, "/dev/nvidiactl"), caps = 0;
	for (int i = 0; i < h->ngpus; i++) {
		char path[32];
		snprintf(path, sizeof path, "/dev/nvidia%u", h->gpus[i].minor);
		gpus = gpus || (h->gpus[i].has_pci && h->gpus[i].has_minor && missing(root, path));
		caps = caps || h->gpus[i].max_mig;
	}
	if (gpus)
		control_ask("make-nodes gpus", 0, 0);
	if (gpus || (caps && missing(root, "/dev/nvidia-caps/nvidia-cap1")))
		control_ask("make-nodes caps", 0, 0);
}

static int capability(const char *root, unsigned minor)
{
	char path[64];
	snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%u", minor);
	return !reach(root, path, O_RDONLY);
}

static int mig_permitted(const char *root, const struct gpu *g, const struct gi *gi, const struct ci *ci)
{
	unsigned minor = 3 + 135 * g->minor + 9 * gi->id;
	return capability(root, minor) && capability(root, minor + 1 + ci->id);
}

/* hide_mig takes the MIG devices away whose two capabilities a program has not:
 * that of the GPU instance and that of the compute instance. Who may monitor, by
 * capability 2, sees them all. */
static void hide_mig(const char *root, struct gpu *g)
{
	struct ci *at[MAX_GI * MAX_CI] = {0}; /* those that stay, by index */
	unsigned left = 0;
	for (int i = 0; i < g->ngi; i++)
		for (int j = 0; j < g->gi[i].nci; j++) {
			struct ci *ci = &g->gi[i].ci[j];
			ci->is_mig = ci->is_mig && ci->index < MAX_GI * MAX_CI && mig_permitted(root, g, &g->gi[i], ci);
			if (ci->is_mig)
				at[ci->index] = ci;
		}
	for (unsigned i = 0; i < MAX_GI * MAX_CI; i++)
		if (at[i])
			at[i]->index = left++;
}

unsigned nodes_reach(struct host *h)
{
	const char *root = secure_getenv("GPURIG_DEV_ROOT");
	const char *state = secure_getenv("GPURIG_NVML_STATE");
	int cards = 0, left = 0;
	if (!root && state && *state)
		return SUCCESS;
	root = root ? root : "";
	for (int i = 0; i < h->ngpus; i++)
		cards += h->gpus[i].has_pci && h->gpus[i].has_minor; /* Orin's own GPU has other nodes */
	if (!cards)
		return SUCCESS;
	if (!*root)
		make_missing(root, h);
	switch (reach(root, "/dev/nvidiactl", O_RDWR)) {
	case 0:
		break;
	case EACCES:
	case EPERM:
		return NO_PERMISSION;
	default:
		return DRIVER_NOT_LOADED;
	}
	int monitor = capability(root, 2);
	for (int i = 0; i < h->ngpus; i++) {
		struct gpu *g = &h->gpus[i];
		char path[32];
		snprintf(path, sizeof path, "/dev/nvidia%u", g->minor);
		if (g->has_pci && g->has_minor && reach(root, path, O_RDWR))
			continue;
		if (g->has_pci && !monitor)
			hide_mig(root, g);
		if (left != i)
			h->gpus[left] = *g;
		h->gpus[left].index = left;
		left++;
	}
	h->ngpus = left;
	return SUCCESS;
}
