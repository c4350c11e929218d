/*
 * The state file, one fact a line, "key value…". Lines belong to the part that
 * was named last; the last line is "end", so that a file cut short is refused.
 * Text runs to the end of its line; numbers are decimal or start with 0x.
 *
 *   gpurig-nvml 1                      first line: form and its version
 *   init CODE                          what nvmlInit returns
 *   driver TEXT  nvml TEXT  cuda N     versions
 *   nolibcuda                          the driver has no libcuda
 *   fail CALL[:INDEX] CODE             CALL without "nvml", *: any; INDEX of a GPU
 *   offbus INDEX                       CUDA's answer where a GPU fell off the bus
 *   gpu INDEX                          from 0, in order; then, of this GPU:
 *     uuid name serial vbios TEXT      what is absent is not supported
 *     minor brand arch persistence fabric maxmig N
 *     cc MAJOR MINOR   memory BYTES   bar1 BYTES   migmode NOW PENDING
 *     pci DOMAIN BUS DEVICE ID SUBSYSTEM BASECLASS SUBCLASS BUSID LEGACY
 *     reading CALL ARG VALUE           what CALL returns for its argument ARG
 *     text CALL ARG TEXT               the same where that is a text
 *     profile NUMBER ID SLICES COUNT SMS REMAINING MEMORYMB ENGINES
 *       profilename TEXT   place START SIZE
 *     gi ID PROFILE START SIZE
 *       ciprofile NUMBER ID SLICES COUNT SMS REMAINING ENGINES
 *         ciname TEXT
 *       ci ID PROFILE START SIZE
 *         mig INDEX GISLICES CISLICES MEMORYMB MEMORYBYTES SMS ENGINES
 *         miguuid TEXT   migname TEXT   migbar1 BYTES
 *
 * ENGINES are five numbers: copy, decoders, encoders, jpeg, ofa.
 */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef GPURIG_NVML_STATE
#define GPURIG_NVML_STATE "/run/gpurig/nvml.state"
#endif
#define IN_CONTAINERS "/proc/driver/.gpurig/nvml.state" /* of a host that was entered */

enum { MAX_STATE = 16 << 20, MAX_FAULTS = 4096 };

/* Where lines go while the file is read. */
struct reader {
	struct host *host;
	struct gpu *gpu;
	struct gi *gi;
	struct ci *ci;
};

/* next cuts one word off the line. */
static char *next(char **line)
{
	char *word = *line + strspn(*line, " ");
	char *rest = word + strcspn(word, " ");
	if (*rest)
		*rest++ = 0;
	*line = rest;
	return word;
}

static int number(char **line, unsigned long long *out)
{
	char *word = next(line), *rest;
	if (*word < '0' || *word > '9')
		return 0;
	errno = 0;
	*out = strtoull(word, &rest, 0);
	return !errno && !*rest;
}

static int small(char **line, unsigned *out)
{
	unsigned long long n;
	if (!number(line, &n) || n > 0xffffffffULL)
		return 0;
	*out = n;
	return 1;
}

static int text(const char *from, char *to, size_t size)
{
	size_t n = strlen(from);
	if (n == 0 || n >= size)
		return 0;
	memcpy(to, from, n + 1);
	return 1;
}

static int place(char **line, struct place *p)
{
	return small(line, &p->start) && small(line, &p->size);
}

static int engines(char **line, struct engines *e)
{
	return small(line, &e->copy) && small(line, &e->decoders) && small(line, &e->encoders) && small(line, &e->jpeg) && small(line, &e->ofa);
}

/* grow makes room for one more element of zeros. */
static void *grow(void *have, int n, int max, size_t size)
{
	if (n >= max)
		return 0;
	char *more = realloc(have, (n + 1) * size);
	if (more)
		memset(more + n * size, 0, size);
	return more;
}

static int new_gpu(struct reader *r, char *line)
{
	struct host *h = r->host;
	struct gpu *more = grow(h->gpus, h->ngpus, MAX_GPUS, sizeof *more);
	if (!more)
		return 0;
	h->gpus = more;
	r->gpu = &more[h->ngpus];
	r->gi = 0;
	r->ci = 0;
	r->gpu->place = h->ngpus;
	return small(&line, &r->gpu->index) && r->gpu->index == (unsigned)h->ngpus++;
}

static int new_fault(struct reader *r, char *line)
{
	struct host *h = r->host;
	struct fault *more = grow(h->faults, h->nfaults, MAX_FAULTS, sizeof *more);
	if (!more)
		return 0;
	h->faults = more;
	struct fault *f = &more[h->nfaults++];
	char *call = next(&line), *at = strchr(call, ':');
	f->index = -1;
	if (at) {
		unsigned n;
		*at++ = 0;
		if (!small(&at, &n) || n >= MAX_GPUS)
			return 0;
		f->index = n;
	}
	return text(call, f->call, sizeof f->call) && small(&line, &f->code);
}

static int off_bus(struct host *h, char *line)
{
	unsigned n;
	if (!small(&line, &n) || n >= MAX_GPUS)
		return 0;
	h->off_bus[n / 8] |= 1 << n % 8;
	return 1;
}

static int of_host(struct reader *r, const char *key, char *line)
{
	struct host *h = r->host;
	if (!strcmp(key, "init"))
		return small(&line, &h->init);
	if (!strcmp(key, "driver"))
		return text(line, h->driver, sizeof h->driver);
	if (!strcmp(key, "nvml"))
		return text(line, h->nvml, sizeof h->nvml);
	if (!strcmp(key, "cuda"))
		return h->has_cuda = small(&line, &h->cuda);
	if (!strcmp(key, "nolibcuda"))
		return h->no_libcuda = 1;
	if (!strcmp(key, "fail"))
		return new_fault(r, line);
	if (!strcmp(key, "offbus"))
		return off_bus(h, line);
	if (!strcmp(key, "xid")) {
		struct xid *x = &h->xids[h->nxids];
		return h->nxids < (int)(sizeof h->xids / sizeof *x) && small(&line, &x->gpu) && small(&line, &x->code) && x->code < MAX_XID && ++h->nxids;
	}
	return !strcmp(key, "gpu") && new_gpu(r, line);
}

static int pci(struct gpu *g, char *line)
{
	g->has_pci = 1;
	return small(&line, &g->domain) && small(&line, &g->bus) && small(&line, &g->device) && small(&line, &g->pci_id) &&
	       small(&line, &g->subsystem_id) && small(&line, &g->base_class) && small(&line, &g->sub_class) &&
	       text(next(&line), g->bus_id, sizeof g->bus_id) && text(next(&line), g->bus_id_legacy, sizeof g->bus_id_legacy);
}

static int profile(struct gpu *g, char *line)
{
	if (g->nprofiles >= MAX_PROFILES)
		return 0;
	struct profile *p = &g->profiles[g->nprofiles++];
	return small(&line, &p->number) && small(&line, &p->id) && small(&line, &p->slices) && small(&line, &p->count) &&
	       small(&line, &p->sms) && small(&line, &p->remaining) && number(&line, &p->memory_mb) && engines(&line, &p->engines);
}

static int profile_name(struct gpu *g, char *line)
{
	return g->nprofiles && text(line, g->profiles[g->nprofiles - 1].name, sizeof g->profiles[0].name);
}

static int reading(struct gpu *g, char *line, int is_text)
{
	struct reading *more = grow(g->readings, g->nreadings, MAX_READINGS, sizeof *more);
	if (!more)
		return 0;
	g->readings = more;
	struct reading *x = &more[g->nreadings++];
	return text(next(&line), x->call, sizeof x->call) && small(&line, &x->arg) &&
	       (is_text ? text(line, x->text, sizeof x->text) : number(&line, &x->value));
}

static int profile_place(struct gpu *g, char *line)
{
	if (!g->nprofiles)
		return 0;
	struct profile *p = &g->profiles[g->nprofiles - 1];
	return p->nplaces < MAX_PLACES && place(&line, &p->places[p->nplaces++]);
}

static int new_gi(struct reader *r, char *line)
{
	if (r->gpu->ngi >= MAX_GI)
		return 0;
	r->gi = &r->gpu->gi[r->gpu->ngi++];
	r->ci = 0;
	return small(&line, &r->gi->id) && small(&line, &r->gi->profile) && place(&line, &r->gi->at);
}

/* 1 and 0 say whether the line was good, -1 that the key is none of these. */
static int of_gpu(struct reader *r, const char *key, char *line)
{
	struct gpu *g = r->gpu;
	if (!strcmp(key, "uuid"))
		return text(line, g->uuid, sizeof g->uuid);
	if (!strcmp(key, "name"))
		return text(line, g->name, sizeof g->name);
	if (!strcmp(key, "serial"))
		return text(line, g->serial, sizeof g->serial);
	if (!strcmp(key, "vbios"))
		return text(line, g->vbios, sizeof g->vbios);
	if (!strcmp(key, "minor"))
		return g->has_minor = small(&line, &g->minor);
	if (!strcmp(key, "brand"))
		return small(&line, &g->brand);
	if (!strcmp(key, "arch"))
		return small(&line, &g->arch);
	if (!strcmp(key, "cc"))
		return g->has_cc = small(&line, &g->cc_major) && small(&line, &g->cc_minor);
	if (!strcmp(key, "persistence"))
		return g->has_persistence = small(&line, &g->persistence);
	if (!strcmp(key, "memory"))
		return number(&line, &g->memory);
	if (!strcmp(key, "bar1"))
		return number(&line, &g->bar1);
	if (!strcmp(key, "pci"))
		return pci(g, line);
	if (!strcmp(key, "fabric"))
		return g->has_fabric = small(&line, &g->fabric);
	if (!strcmp(key, "migmode"))
		return g->has_mig_mode = small(&line, &g->mig_mode) && small(&line, &g->mig_pending);
	if (!strcmp(key, "maxmig"))
		return small(&line, &g->max_mig);
	if (!strcmp(key, "profile"))
		return profile(g, line);
	if (!strcmp(key, "reading") || !strcmp(key, "text"))
		return reading(g, line, *key == 't');
	if (!strcmp(key, "profilename"))
		return profile_name(g, line);
	if (!strcmp(key, "place"))
		return profile_place(g, line);
	if (!strcmp(key, "gi"))
		return new_gi(r, line);
	return -1;
}

static int of_gi(struct reader *r, const char *key, char *line)
{
	struct gi *gi = r->gi;
	if (!strcmp(key, "ciprofile")) {
		if (gi->nprofiles >= MAX_PROFILES)
			return 0;
		struct ciprofile *p = &gi->profiles[gi->nprofiles++];
		return small(&line, &p->number) && small(&line, &p->id) && small(&line, &p->slices) && small(&line, &p->count) &&
		       small(&line, &p->sms) && small(&line, &p->remaining) && engines(&line, &p->engines);
	}
	if (!strcmp(key, "ciname"))
		return gi->nprofiles && text(line, gi->profiles[gi->nprofiles - 1].name, sizeof gi->profiles[0].name);
	if (!strcmp(key, "ci")) {
		if (gi->nci >= MAX_CI)
			return 0;
		r->ci = &gi->ci[gi->nci++];
		return small(&line, &r->ci->id) && small(&line, &r->ci->profile) && place(&line, &r->ci->at);
	}
	struct ci *ci = r->ci;
	if (!ci)
		return -1;
	if (!strcmp(key, "mig")) {
		ci->is_mig = 1;
		return small(&line, &ci->index) && small(&line, &ci->gi_slices) && small(&line, &ci->ci_slices) &&
		       number(&line, &ci->memory_mb) && number(&line, &ci->memory) && small(&line, &ci->sms) && engines(&line, &ci->engines);
	}
	if (!strcmp(key, "miguuid"))
		return text(line, ci->uuid, sizeof ci->uuid);
	if (!strcmp(key, "migbar1"))
		return number(&line, &ci->bar1);
	if (!strcmp(key, "migname"))
		return text(line, ci->name, sizeof ci->name);
	return -1;
}

static int one_line(struct reader *r, char *line)
{
	const char *key = next(&line);
	int ok = r->gi ? of_gi(r, key, line) : -1;
	if (ok < 0 && r->gpu)
		ok = of_gpu(r, key, line);
	if (ok < 0)
		ok = of_host(r, key, line);
	return ok;
}

struct host *host_parse(char *text, int *line)
{
	struct reader r = {.host = calloc(1, sizeof(struct host))};
	int ended = 0;
	*line = 0;
	while (r.host && text && *text) {
		char *end = strchr(text, '\n');
		++*line;
		if (!end || ended)
			break; /* cut short, or more after the end */
		*end = 0;
		if (*line == 1 ? strcmp(text, "gpurig-nvml 1") != 0 : !(ended = !strcmp(text, "end")) && !one_line(&r, text))
			break;
		text = end + 1;
	}
	if (r.host && ended && !*text)
		return r.host;
	host_free(r.host);
	return 0;
}

void host_free(struct host *h)
{
	if (!h)
		return;
	for (int i = 0; i < h->ngpus; i++)
		free(h->gpus[i].readings);
	free(h->gpus);
	free(h->faults);
	free(h);
}

/* content returns the file's whole text, to be freed, and what it looked like. */
static char *content(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *data = 0;
	if (fd < 0)
		return 0;
	if (!fstat(fd, st) && S_ISREG(st->st_mode) && st->st_size <= MAX_STATE && (data = malloc(st->st_size + 1))) {
		ssize_t n, have = 0;
		while (have < st->st_size && (n = read(fd, data + have, st->st_size - have)) > 0)
			have += n;
		data[have] = 0;
	}
	close(fd);
	return data;
}

static int same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static struct host *now;
static struct stat seen; /* of the file that was read last */
static int line = -1;    /* of that file, if it was no good */

void host_forget(void)
{
	host_free(now);
	now = 0;
	memset(&seen, 0, sizeof seen);
	line = -1;
}

struct host *host_now(int *bad)
{
	const char *path = secure_getenv("GPURIG_NVML_STATE");
	struct stat st;
	if (!path || !*path)
		path = access(GPURIG_NVML_STATE, F_OK) ? IN_CONTAINERS : GPURIG_NVML_STATE;
	if (!stat(path, &st) && !same(&st, &seen)) {
		char *data = content(path, &st);
		if (data) {
			struct host *h = host_parse(data, &line);
			if (h) {
				host_free(now);
				now = h;
			}
			seen = st;
			free(data);
		}
	}
	*bad = line;
	return now;
}
