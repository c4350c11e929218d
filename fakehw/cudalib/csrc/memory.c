/* What threads read and write. */
#include "cu.h"
#include "exec.h"

#include <string.h>

static char *out_of(struct exec *x, const struct ins *i, uint64_t addr, uint32_t size, const char *what, int write)
{
	failed(x, i, CUDA_ERROR_ILLEGAL_ADDRESS, "%s of %u bytes at %#llx is outside %s", write ? "a write" : "a read", size,
	       (unsigned long long)addr, what);
	return 0;
}

/* Global memory, through what the instruction reached last. */
static char *global(struct exec *x, struct ins *i, uint64_t addr, uint32_t size, int write)
{
	struct seen *s = &i->seen;
	if (addr < s->lo || addr >= s->hi || s->hi - addr < size) {
		struct seen new = {0};
		if (!x->l->find(x->l->of, addr, &new) || new.hi - addr < size)
			return out_of(x, i, addr, size, "what is allocated", write);
		*s = new;
	}
	if (write && !s->writable)
		return out_of(x, i, addr, size, "what may be written", write);
	return s->at + (addr - s->lo);
}

static char *inside(struct exec *x, struct ins *i, char *base, uint64_t have, uint64_t at, uint32_t size, const char *what, int write)
{
	if (at > have || have - at < size)
		return out_of(x, i, at, size, what, write);
	return base + at;
}

/* reach returns where an address of the instruction's space is, or 0 after a fault. */
char *reach(struct exec *x, struct thread *t, struct ins *i, uint64_t addr, uint32_t size, int write)
{
	if (addr & (size - 1)) {
		failed(x, i, CUDA_ERROR_MISALIGNED_ADDRESS, "%u bytes at %#llx", size, (unsigned long long)addr);
		return 0;
	}
	switch ((enum space)i->space) {
	case SHARED: return inside(x, i, x->shared, x->shared_size, addr, size, "shared memory", write);
	case LOCAL: return inside(x, i, t->local, x->f->local, addr, size, "local memory", write);
	case PARAM: return inside(x, i, (char *)x->l->params, x->f->param_size, addr, size, "the parameters", write);
	case GENERIC:
		if (addr - x->l->shared_window < WINDOW)
			return inside(x, i, x->shared, x->shared_size, addr - x->l->shared_window, size, "shared memory", write);
		if (addr - x->l->local_window < WINDOW)
			return inside(x, i, t->local, x->f->local, addr - x->l->local_window, size, "local memory", write);
		/* fall through */
	default: return global(x, i, addr, size, write);
	}
}

static uint64_t get(const char *from, int bytes)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;
	switch (bytes) {
	case 8: memcpy(&v64, from, 8); return v64;
	case 4: memcpy(&v32, from, 4); return v32;
	case 2: memcpy(&v16, from, 2); return v16;
	default: return (uint8_t)*from;
	}
}

static void put(char *to, uint64_t v, int bytes)
{
	uint32_t v32 = (uint32_t)v;
	uint16_t v16 = (uint16_t)v;
	switch (bytes) {
	case 8: memcpy(to, &v, 8); break;
	case 4: memcpy(to, &v32, 4); break;
	case 2: memcpy(to, &v16, 2); break;
	default: *to = (char)v;
	}
}

void load(struct exec *x, struct thread *t, struct ins *i)
{
	int bytes = i->type.bits / 8;
	char *from = reach(x, t, i, t->r[i->a] + (uint64_t)i->imm, (uint32_t)(bytes * i->n), 0);
	for (int k = 0; from && k < i->n; k++, from += bytes) {
		uint64_t v = get(from, bytes);
		if (i->type.kind == 's' && i->wide > i->type.bits) {
			int above = 64 - i->type.bits;
			v = (uint64_t)((int64_t)(v << above) >> above);
			v = v << (64 - i->wide) >> (64 - i->wide);
		}
		t->r[i->v[k]] = v;
	}
}

void store(struct exec *x, struct thread *t, struct ins *i)
{
	int bytes = i->type.bits / 8;
	char *to = reach(x, t, i, t->r[i->a] + (uint64_t)i->imm, (uint32_t)(bytes * i->n), 1);
	for (int k = 0; to && k < i->n; k++, to += bytes)
		put(to, t->r[i->v[k]], bytes);
}

static uint64_t added(const struct ins *i, uint64_t old, uint64_t b)
{
	float f, g;
	double d, e;
	uint32_t low;
	if (i->type.kind != 'f')
		return old + b;
	if (i->type.bits == 64) {
		memcpy(&d, &old, 8);
		memcpy(&e, &b, 8);
		d += e;
		memcpy(&old, &d, 8);
		return old;
	}
	memcpy(&f, &old, 4);
	memcpy(&g, &b, 4);
	f += g;
	memcpy(&low, &f, 4);
	return f != f ? 0x7fffffff : low;
}

/* The greater as the type sees it: sign bits are turned over. */
static int greater(const struct ins *i, uint64_t a, uint64_t b)
{
	uint64_t sign = i->type.kind == 's' ? (uint64_t)1 << (i->type.bits - 1) : 0;
	return (a ^ sign) > (b ^ sign);
}

/* In the order of the decoder's table. The host's other threads may look at the
 * same memory, which is no matter of atomicity among the kernel's threads: those
 * take turns. */
void atomic(struct exec *x, struct thread *t, struct ins *i)
{
	int bytes = i->type.bits / 8;
	char *at = reach(x, t, i, t->r[i->a] + (uint64_t)i->imm, (uint32_t)bytes, 1);
	if (!at)
		return;
	uint64_t old = get(at, bytes), b = t->r[i->b], new;
	switch (i->how) {
	case 0: new = old & b; break;
	case 1: new = old | b; break;
	case 2: new = old ^ b; break;
	case 3: new = b; break;
	case 4: new = old == b ? t->r[i->c] : old; break;
	case 5: new = added(i, old, b); break;
	case 6: new = old >= b ? 0 : old + 1; break;
	case 7: new = old == 0 || old > b ? b : old - 1; break;
	case 8: new = greater(i, old, b) ? b : old; break;
	default: new = greater(i, b, old) ? b : old;
	}
	put(at, new, bytes);
	if (i->n)
		t->r[i->d] = old;
}

static uint64_t window(struct exec *x, int space)
{
	return space == SHARED ? x->l->shared_window : space == LOCAL ? x->l->local_window : 0;
}

void to_generic(struct exec *x, struct thread *t, const struct ins *i)
{
	t->r[i->d] = t->r[i->a] + window(x, i->space);
}

void from_generic(struct exec *x, struct thread *t, const struct ins *i)
{
	t->r[i->d] = t->r[i->a] - window(x, i->space);
}

void is_space(struct exec *x, struct thread *t, const struct ins *i)
{
	uint64_t a = t->r[i->a];
	int shared = a - x->l->shared_window < WINDOW, local = a - x->l->local_window < WINDOW;
	t->r[i->d] = i->space == SHARED ? shared : i->space == LOCAL ? local : i->space == GLOBAL && !shared && !local;
}
