/*
 * Memory. A device's memory has addresses of its own, in a region that nobody may
 * touch: a program that follows such a pointer on the CPU crashes, as it does with
 * the real library. What is stored lies elsewhere. Managed and pinned memory has one
 * address for both.
 *
 * A kernel or a copy reaches only what is allocated, to the byte; on the chip the
 * grain is a page of 2 MiB.
 */
#define _GNU_SOURCE
#include "rt.h"

#include "exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct block **blocks; /* by address */
static int nblocks, room;

static uint64_t region, region_end, next;
static uint64_t windows[2];

enum { GRAIN = 512, PAGE = 4096, LARGE = 1 << 20, GRANULE = 2 << 20 };

static uint64_t up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static uint64_t reserve(uint64_t size)
{
	void *p = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)p;
}

/* The region is as large as this process may have. */
static int make_region(void)
{
	for (int bits = 42; !region && bits >= 32; bits--)
		if ((region = reserve((uint64_t)1 << bits))) {
			next = up(region, GRANULE);
			region_end = region + ((uint64_t)1 << bits);
		}
	return region != 0;
}

void memory_windows(uint64_t *shared, uint64_t *local)
{
	for (int i = 0; i < 2; i++)
		if (!windows[i])
			windows[i] = reserve(WINDOW);
	*shared = windows[0];
	*local = windows[1];
}

/* index returns where the first block above an address is. */
static int index_of(uint64_t addr)
{
	int low = 0, high = nblocks;
	while (low < high) {
		int mid = low + (high - low) / 2;
		if (blocks[mid]->addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct block *memory_at(uint64_t addr)
{
	int i = index_of(addr);
	return i && addr - blocks[i - 1]->addr < blocks[i - 1]->size ? blocks[i - 1] : 0;
}

int memory_is_ours(uint64_t addr) { return region && addr >= region && addr < region_end; }

char *memory_reach(uint64_t addr, uint64_t size)
{
	struct block *b = memory_at(addr);
	return b && b->size - (addr - b->addr) >= size ? b->host + (addr - b->addr) : 0;
}

/* An address for a block: behind the last, or, at the end of the region, in the
 * first gap. Between blocks is nothing, so that what overruns one is seen. */
static uint64_t address_for(uint64_t size)
{
	uint64_t align = size >= LARGE ? GRANULE : GRAIN, need = up(size, GRAIN) + GRAIN, at;
	if (!region && !make_region())
		return 0;
	at = up(next, align);
	if (at < region_end && region_end - at >= need) {
		next = at + need;
		return at;
	}
	at = up(region, align);
	for (int i = 0; i < nblocks; i++) {
		if (blocks[i]->addr < region || blocks[i]->addr >= region_end)
			continue;
		if (blocks[i]->addr >= at && blocks[i]->addr - at >= need)
			return at;
		at = up(blocks[i]->addr + up(blocks[i]->size, GRAIN) + GRAIN, align);
	}
	return at < region_end && region_end - at >= need ? at : 0;
}

static int insert(struct block *b)
{
	if (nblocks == room) {
		int more = room ? room * 2 : 64;
		struct block **new = realloc(blocks, (size_t)more * sizeof *new);
		if (!new)
			return 0;
		blocks = new;
		room = more;
	}
	int i = index_of(b->addr);
	memmove(&blocks[i + 1], &blocks[i], (size_t)(nblocks - i) * sizeof *blocks);
	blocks[i] = b;
	nblocks++;
	return 1;
}

static void give_back(struct block *b)
{
	if (b->where == REGISTERED)
		return;
	if (b->mapped)
		munmap(b->host, b->mapped);
	else
		free(b->host);
}

static int back(struct block *b)
{
	if (b->where == ON_DEVICE && b->size < LARGE)
		return (b->host = calloc(1, b->size)) != 0;
	b->mapped = up(b->size, PAGE);
	b->host = mmap(0, b->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->host == MAP_FAILED)
		b->host = 0;
	return b->host != 0;
}

CUresult memory_get(struct ctx *c, uint64_t size, enum where where, struct block **out)
{
	struct device *d = c->dev;
	uint64_t charged = where == ON_DEVICE ? up(size, size >= LARGE ? GRANULE : GRAIN) : 0;
	if (size > (uint64_t)1 << 46 || charged > d->memory - d->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct block *b = calloc(1, sizeof *b);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct block){.size = size, .where = where, .ctx = c, .charged = charged};
	if (back(b)) {
		b->addr = where == ON_DEVICE ? address_for(size) : (uint64_t)(uintptr_t)b->host;
		if (b->addr && insert(b)) {
			d->used += charged;
			*out = b;
			return CUDA_SUCCESS;
		}
		give_back(b);
	}
	free(b);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* memory_register makes a piece of the program's own memory known. */
CUresult memory_register(struct ctx *c, uint64_t addr, uint64_t size, unsigned flags)
{
	int above = index_of(addr);
	if (size > UINT64_MAX - addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_at(addr) || (above < nblocks && blocks[above]->addr < addr + size))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	struct block *b = calloc(1, sizeof *b);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct block){.addr = addr, .size = size, .host = (char *)(uintptr_t)addr, .where = REGISTERED, .flags = flags, .ctx = c};
	if (insert(b))
		return CUDA_SUCCESS;
	free(b);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void memory_drop(struct block *b)
{
	int i = index_of(b->addr) - 1;
	memmove(&blocks[i], &blocks[i + 1], (size_t)(nblocks - i - 1) * sizeof *blocks);
	nblocks--;
	b->ctx->dev->used -= b->charged;
	give_back(b);
	free(b);
}

void memory_of_ctx_drop(struct ctx *c)
{
	for (int i = nblocks; i-- > 0;)
		if (blocks[i]->ctx == c)
			memory_drop(blocks[i]);
}

/* memory_find serves a kernel: it reaches its own device's memory, that of devices
 * it has access to, and the host's that is known here. */
int memory_find(void *ctx, uint64_t addr, struct seen *out)
{
	struct ctx *c = ctx;
	struct block *b = memory_at(addr);
	if (!b)
		return 0;
	long other = b->ctx->dev - devices;
	if (b->where == ON_DEVICE && b->ctx->dev != c->dev && !(c->peers[other / 32] >> (other % 32) & 1))
		return 0;
	out->lo = b->addr;
	out->hi = b->addr + b->size;
	out->at = b->host;
	out->writable = !b->readonly;
	return 1;
}

static CUresult get(const char *call, CUdeviceptr *out, size_t size, enum where where)
{
	struct ctx *c;
	struct block *b;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!out || !size)
		return leave(CUDA_ERROR_INVALID_VALUE);
	code = memory_get(c, size, where, &b);
	if (!code)
		*out = b->addr;
	return leave(code);
}

API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size) { return get("cuMemAlloc", out, size, ON_DEVICE); }

API CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
	if (flags != 1 && flags != 2)
		return CUDA_ERROR_INVALID_VALUE;
	return get("cuMemAllocManaged", out, size, MANAGED);
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16) || width > (size_t)1 << 40 || height > (size_t)1 << 40)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = up(width, GRAIN);
	if (*pitch > ((size_t)1 << 46) / height)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return get("cuMemAllocPitch", out, *pitch * height, ON_DEVICE);
}

static CUresult drop(const char *call, CUdeviceptr p, int host)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	struct block *b = memory_at(p);
	if (!p && !host)
		return leave(CUDA_SUCCESS);
	if (!b || b->addr != p || b->is_module || (host ? b->where != ON_HOST : b->where != ON_DEVICE && b->where != MANAGED))
		return leave(CUDA_ERROR_INVALID_VALUE);
	memory_drop(b);
	return leave(CUDA_SUCCESS);
}

API CUresult cuMemFree_v2(CUdeviceptr p) { return drop("cuMemFree", p, 0); }
API CUresult cuMemFreeHost(void *p) { return drop("cuMemFreeHost", (uintptr_t)p, 1); }

API CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream s)
{
	CUresult code = check_stream(s);
	return code ? code : get("cuMemAllocAsync", out, size, ON_DEVICE);
}

API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s)
{
	CUresult code = check_stream(s);
	return code ? code : drop("cuMemFreeAsync", p, 0);
}

API CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
	CUdeviceptr p = 0;
	CUresult code = flags > 7 ? CUDA_ERROR_INVALID_VALUE : get("cuMemHostAlloc", out ? &p : 0, size, ON_HOST);
	if (!code) {
		*out = (void *)(uintptr_t)p;
		memory_at(p)->flags = flags;
	}
	return code;
}

API CUresult cuMemAllocHost_v2(void **out, size_t size) { return cuMemHostAlloc(out, size, 0); }

API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
	struct ctx *c;
	CUresult code = enter_ctx("cuMemGetInfo", &c);
	if (code)
		return code;
	if (!unused || !total)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*total = c->dev->memory;
	*unused = c->dev->memory - c->dev->used;
	return leave(CUDA_SUCCESS);
}
