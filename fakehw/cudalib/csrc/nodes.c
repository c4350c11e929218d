/*
 * The device nodes. What a driver is not there for gives ENXIO when it may be
 * opened, and EPERM or EACCES when a container's rules or its mode forbid it: that
 * is all that this library asks. A node that opens stays open, as the real
 * library's do.
 *
 * GPURIG_DEV_ROOT, for tests, is put before /dev and /proc; regular files stand for
 * nodes there.
 */
#define _GNU_SOURCE
#include "control.h"
#include "host.h"
#include "rt.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *dev_root(void)
{
	const char *root = secure_getenv("GPURIG_DEV_ROOT");
	return root ? root : "";
}

static FILE *open_text(const char *path)
{
	char full[PATH_MAX];
	snprintf(full, sizeof full, "%s%s", dev_root(), path);
	return fopen(full, "re");
}

/* node_major returns a driver's character major from /proc/devices; -1: the file
 * does not say, as in a container that has a /proc of its own. */
int node_major(const char *name)
{
	FILE *f = open_text("/proc/devices");
	char line[256], have[200];
	int major, found = -1;
	while (f && found < 0 && fgets(line, sizeof line, f) && strncmp(line, "Block", 5))
		if (sscanf(line, "%d %199s", &major, have) == 2 && !strcmp(have, name))
			found = major;
	if (f)
		fclose(f);
	return found;
}

/* only_shown says whether errno is of a node that cannot be opened where the
 * machine is made without privilege: FUSE shows it, and its owner and mode count. */
static int only_shown(const char *path)
{
	struct statfs fs;
	return errno == EACCES && !statfs(path, &fs) && fs.f_type == FUSE_SUPER_MAGIC && fs.f_flags & ST_NODEV && !access(path, R_OK | W_OK);
}

/* may_open says whether a node is there, has the number that its driver has, and may
 * be opened. major 0: any; minor -1: any. */
static int may_open(const char *path, unsigned number, int wanted, int flags)
{
	char full[PATH_MAX];
	struct stat st;
	snprintf(full, sizeof full, "%s%s", dev_root(), path);
	if (stat(full, &st)) {
		say(0, "%s: %s", full, strerror(errno));
		return 0;
	}
	if (!*dev_root() && (!S_ISCHR(st.st_mode) || (number && major(st.st_rdev) != number) || (wanted >= 0 && minor(st.st_rdev) != (unsigned)wanted))) {
		say(0, "%s: not the driver's node", full);
		return 0;
	}
	int fd = open(full, flags | O_CLOEXEC);
	if (fd < 0 && errno != ENXIO && errno != ENODEV && !only_shown(full)) {
		say(0, "%s: %s", full, strerror(errno));
		return 0;
	}
	if (fd < 0)
		open(full, O_PATH | O_CLOEXEC); /* so that it is seen to be in use */
	return 1;
}

/* make_missing has the host make nodes that nothing has asked for so far, as the
 * real library has nvidia-modprobe do. Containers have neither. */
void make_missing(const char *path, const char *request)
{
	struct stat st;
	if (!*dev_root() && stat(path, &st) && errno == ENOENT)
		control_ask(request, 0, 0);
}

int node_permitted(const char *path, unsigned number, int wanted) { return may_open(path, number, wanted, O_RDWR); }

/* Capability nodes, mode 0444, are for reading. */
int capability_permitted(const char *path, unsigned number, int wanted) { return may_open(path, number, wanted, O_RDONLY); }

/* The version in this library's own file name, libcuda.so.550.163.01: that of the
 * driver it belongs to. Empty: it has another name. */
static void own_version(char *to, size_t size)
{
	Dl_info info;
	char path[PATH_MAX];
	*to = 0;
	if (!dladdr((void *)own_version, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
		return;
	const char *at = strstr(path, "libcuda.so.");
	int major, n = 0;
	if (at && sscanf(at += strlen("libcuda.so."), "%3d.%n", &major, &n) == 1 && n && major >= 100)
		snprintf(to, size, "%s", at);
}

/* check_version compares it with the loaded module's: of /proc, or, where that is
 * not mounted, of the host state. */
CUresult check_version(const struct host *h)
{
	char own[64], line[256] = "", loaded[128] = "";
	FILE *f = open_text("/proc/driver/nvidia/version");
	own_version(own, sizeof own);
	if (f) {
		if (!fgets(line, sizeof line, f))
			*line = 0;
		fclose(f);
	}
	for (char *word = strtok(line, " \n"); word; word = strtok(0, " \n"))
		if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.') && !*loaded)
			snprintf(loaded, sizeof loaded, "%s", word);
	if (!*loaded)
		snprintf(loaded, sizeof loaded, "%s", h->driver);
	if (!*own || !*loaded || !strcmp(own, loaded))
		return CUDA_SUCCESS;
	say(1, "this library is of driver %s, the loaded kernel module of %s", own, loaded);
	return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
}
