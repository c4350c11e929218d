/*
 * The library's own state: devices, contexts, memory, objects. One lock guards all
 * of it; every call of the API begins with enter… and ends with leave.
 */
#ifndef GPURIG_RT_H
#define GPURIG_RT_H

#include "cu.h"
#include "ptx.h"

#include <stdint.h>

enum { MAX_DEVICES = 256, MAX_STACK = 128, DEFAULT_CUDA = 12000 };

/* What a chip can, by compute capability and name. See product.c. */
struct product {
	int sms, clock_khz, memory_khz, bus_bits, l2_bytes;
	int shared_sm, shared_optin, threads_sm, blocks_sm; /* per multiprocessor */
};

struct device {
	char name[128], uuid[128], bus_id[32];
	CUuuid id, parent_id; /* of the MIG device, and of its GPU */
	int is_mig, integrated, mig_count;
	int major, minor; /* compute capability */
	unsigned domain, bus, slot, pci_id, subsystem_id;
	int has_pci;
	uint64_t memory, used; /* bytes */
	struct product product;
	struct ctx *primary;
	unsigned primary_refs, primary_flags;
};

struct ctx {
	struct ctx *next;
	struct device *dev;
	int alive, is_primary, sticky; /* sticky: the code that every call returns */
	unsigned flags, version;
	unsigned long long id;
	uint32_t peers[MAX_DEVICES / 32]; /* devices whose memory it may reach */
	uint64_t limits[16];
	int cache_config, shared_config;
};

/* What a handle points to begins with this. */
enum kind { OBJ_MODULE = 1, OBJ_KERNEL, OBJ_STREAM, OBJ_EVENT, OBJ_LIBRARY, OBJ_LIBRARY_KERNEL };
struct object {
	struct object *next;
	enum kind kind;
	struct ctx *ctx;
};

struct kernel {
	struct object object;
	struct kernel *next;
	struct module *module;
	struct func *func;
	int max_dynamic, carveout;
};

struct module {
	struct object object;
	struct program *program;
	uint64_t globals, constants; /* addresses of their blocks; 0: none */
	struct kernel *kernels;
	struct library *library; /* whose module of this context it is; 0: none */
	struct module *sibling;  /* of the same library, in another context */
};

struct stream {
	struct object object;
	unsigned flags;
	int priority;
	unsigned long long id;
};

struct event {
	struct object object;
	unsigned flags;
	int recorded;
	int64_t at; /* nanoseconds */
};

/* A piece of memory that has addresses of its own. */
enum where { ON_DEVICE, MANAGED, ON_HOST, REGISTERED };
struct block {
	uint64_t addr, size;
	char *host;
	size_t mapped; /* bytes got from mmap; 0: from malloc */
	enum where where;
	unsigned flags;
	struct ctx *ctx;
	uint64_t charged; /* bytes that count as used on the device */
	int is_module, readonly;
};

extern struct device devices[MAX_DEVICES];
extern int ndevices, driver_version;

/* rt.c */
CUresult enter(const char *call);             /* library initialised */
CUresult enter_ctx(const char *call, struct ctx **c); /* and a context is current */
void enter_any(void);                         /* in any state */
CUresult leave(CUresult code);
CUresult on_bus(const struct device *d); /* 999: its GPU fell off the bus */
struct device *device_of(CUdevice d); /* 0: no such */
void say(int always, const char *format, ...) __attribute__((format(printf, 2, 3)));
void object_add(void *object, enum kind kind, struct ctx *c);
void *object_is(void *handle, enum kind kind);
void object_drop(void *object);
struct object *object_of(struct ctx *c); /* any that is left, but no kernel */

/* init.c, nodes.c, visible.c, product.c */
struct host;
struct gpu;
CUresult find_devices(void);
const char *dev_root(void);
int node_permitted(const char *path, unsigned major, int minor);
void make_missing(const char *path, const char *request);
void make_missing(const char *path, const char *request);
int capability_permitted(const char *path, unsigned major, int minor);
int node_major(const char *name);
CUresult check_version(const struct host *h);
CUresult choose_visible(struct device *found, int nfound, const int *gpu_of);
void product_of(struct device *d);
int product_speed(const struct device *d);

/* ctx.c */
struct ctx *current(void);
void push(struct ctx *c);
void drop_context(struct ctx *c);
int alive(struct ctx *c);

/* mem.c */
CUresult memory_get(struct ctx *c, uint64_t size, enum where where, struct block **out);
CUresult memory_register(struct ctx *c, uint64_t addr, uint64_t size, unsigned flags);
void memory_drop(struct block *b);
struct block *memory_at(uint64_t addr);
char *memory_reach(uint64_t addr, uint64_t size); /* where it is here, 0: not allocated as a whole */
int memory_find(void *ctx, uint64_t addr, struct seen *out);
void memory_windows(uint64_t *shared, uint64_t *local);
void memory_of_ctx_drop(struct ctx *c);
int memory_is_ours(uint64_t addr);

/* module.c */
void module_drop(struct module *m);
struct kernel *kernel_of(struct module *m, struct func *f);
CUresult check_image(const void *image);
CUresult read_image(const char *path, char **text); /* free it, also on failure */
struct program *parse_text(const struct device *d, const char *text, struct mistake *mistake);
void answer_options(unsigned n, const int *options, void **values, CUresult code, const struct mistake *mistake);
CUresult load_text(struct ctx *c, const char *text, struct module **out, struct mistake *mistake);

/* library.c */
void library_forget(struct module *m);
CUresult library_function(CUfunction *k, struct ctx *c); /* *k may be a kernel of a library: its function in c then */

/* func.c */
CUresult function_attribute(int *out, int which, const struct program *p, const struct func *f, const struct device *d);
int most_dynamic(const struct func *f, const struct device *d);

/* stream.c */
CUresult check_stream(CUstream s);
int64_t now_ns(void);

#endif
