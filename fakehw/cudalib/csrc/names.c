/* Names in their scopes, and the slots of a function's file. */
#include "asm.h"

#include <string.h>

void *get(struct parser *p, size_t n)
{
	void *m = arena_get(&p->program->arena, n);
	if (!m)
		wrong(&p->lex, CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
	return m;
}

void *grow(struct parser *p, void *have, uint32_t used, uint32_t *room, size_t size)
{
	if (used < *room)
		return have;
	uint32_t more = *room ? *room * 2 : 64;
	void *new = get(p, more * size);
	if (used)
		memcpy(new, have, used * size);
	*room = more;
	return new;
}

void push_scope(struct parser *p)
{
	if (++p->depth > MAX_DEPTH)
		bad(p, "more than %d nested blocks", MAX_DEPTH);
	struct scope *s = get(p, sizeof *s);
	s->up = p->scope;
	p->scope = s;
}

static unsigned bucket(const char *s, int n)
{
	uint32_t h = 2166136261u;
	for (int i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h % BUCKETS;
}

static struct name *in_scope(struct scope *c, const char *s, int n)
{
	for (struct name *x = c->bucket[bucket(s, n)]; x; x = x->next)
		if (x->n == n && !memcmp(x->s, s, n))
			return x;
	return 0;
}

/* A jump to a label that the block does not have is one of the block around it. */
void pop_scope(struct parser *p)
{
	struct scope *s = p->scope, *up = s->up;
	for (struct jump *j = s->jumps, *next; j; j = next) {
		next = j->next;
		struct name *label = in_scope(s, j->s, j->n);
		if (label && label->kind == N_LABEL) {
			p->f->code[j->at].target = label->at;
		} else if (label || up == p->module) {
			bad_at(p, j->line, "'%.*s' is no label", j->n > 60 ? 60 : j->n, j->s);
		} else {
			j->next = up->jumps;
			up->jumps = j;
		}
	}
	p->scope = up;
	p->depth--;
}

struct name *find(struct parser *p, const char *s, int n)
{
	struct name *x = 0;
	for (struct scope *c = p->scope; c && !x; c = c->up)
		x = in_scope(c, s, n);
	return x;
}

struct name *declare(struct parser *p, const struct token *t, int kind)
{
	if (in_scope(p->scope, t->s, t->n))
		bad_at(p, t->line, "'%.*s' is declared twice", shown(t), t->s);
	struct name *x = get(p, sizeof *x), **b = &p->scope->bucket[bucket(t->s, t->n)];
	x->s = t->s;
	x->n = t->n;
	x->kind = kind;
	x->next = *b;
	*b = x;
	return x;
}

uint32_t new_slot(struct parser *p, uint64_t initially)
{
	struct func *f = p->f;
	if (f->nslots >= MAX_SLOTS)
		wrong(&p->lex, CUDA_ERROR_OUT_OF_MEMORY, "a function with more than %d registers and constants", MAX_SLOTS);
	f->file = grow(p, f->file, f->nslots, &p->room_file, sizeof *f->file);
	f->file[f->nslots] = initially;
	return f->nslots++;
}

uint32_t number_slot(struct parser *p, uint64_t value)
{
	struct number **b = &p->numbers[(value ^ value >> 17 ^ value >> 40) % BUCKETS];
	for (struct number *x = *b; x; x = x->next)
		if (x->value == value)
			return x->slot;
	struct number *x = get(p, sizeof *x);
	x->value = value;
	x->slot = new_slot(p, value);
	x->next = *b;
	*b = x;
	return x->slot;
}

/* Where a shared variable is in this function's blocks: only those that it uses
 * take room. */
static uint64_t place_shared(struct parser *p, struct var *v, int line)
{
	for (struct placed *x = p->shared; x; x = x->next)
		if (x->var == v)
			return x->offset;
	struct placed *x = get(p, sizeof *x);
	uint64_t at = (p->shared_used + v->align - 1) / v->align * v->align;
	if (v->size > p->limits->shared || at + v->size > p->limits->shared)
		bad_at(p, line, "uses too much shared data (%#llx bytes, %#x max)", (unsigned long long)(at + v->size), p->limits->shared);
	p->shared_used = at + v->size;
	x->var = v;
	x->offset = at;
	x->next = p->shared;
	p->shared = x;
	return at;
}

uint32_t var_slot(struct parser *p, struct var *v, int64_t plus, int line)
{
	struct func *f = p->f;
	if (v->space == SHARED && v->external) { /* behind what is static, when that is known */
		uint32_t slot = new_slot(p, 0);
		if (f->dynamic_align < v->align)
			f->dynamic_align = v->align;
		if (f->ndynamic % 64 == 0) {
			uint32_t *slots = get(p, (f->ndynamic + 64) * sizeof *slots);
			uint64_t *more = get(p, (f->ndynamic + 64) * sizeof *more);
			if (f->ndynamic) {
				memcpy(slots, f->dynamic, f->ndynamic * sizeof *slots);
				memcpy(more, f->dynamic_plus, f->ndynamic * sizeof *more);
			}
			f->dynamic = slots;
			f->dynamic_plus = more;
		}
		f->dynamic[f->ndynamic] = slot;
		f->dynamic_plus[f->ndynamic++] = plus;
		return slot;
	}
	if (v->space == SHARED)
		return number_slot(p, place_shared(p, v, line) + plus);
	if (v->space == LOCAL || v->space == PARAM)
		return number_slot(p, v->offset + plus);
	struct fixup *x = get(p, sizeof *x);
	x->slot = new_slot(p, 0);
	x->of = v;
	x->plus = plus;
	x->next = f->fixups;
	f->fixups = x;
	return x->slot;
}

uint32_t special_slot(struct parser *p, int which)
{
	struct func *f = p->f;
	if (!p->special_slot[which]) {
		if (!f->specials)
			f->specials = get(p, SR_COUNT * sizeof *f->specials);
		uint32_t slot = new_slot(p, 0);
		f->specials[f->nspecials++] = (struct special){which, slot};
		p->special_slot[which] = slot + 1;
	}
	return p->special_slot[which] - 1;
}

uint32_t carry_slot(struct parser *p)
{
	if (!p->carry)
		p->carry = new_slot(p, 0) + 1;
	return p->carry - 1;
}

static int use(struct parser *p, struct name *x, uint32_t i, uint32_t *slot, struct type *type)
{
	if (!x->slots[i]) {
		x->slots[i] = new_slot(p, 0) + 1;
		p->f->nregs += x->type.bits == 64 ? 2 : x->type.bits > 1;
	}
	*slot = x->slots[i] - 1;
	*type = x->type;
	return 1;
}

/* %r7 is a name of its own or the eighth of %r<9>. */
int find_register(struct parser *p, const struct token *t, uint32_t *slot, struct type *type)
{
	struct name *x = find(p, t->s, t->n);
	if (x)
		return x->kind == N_REGISTER && use(p, x, 0, slot, type);
	int n = t->n;
	uint64_t i = 0, unit = 1;
	while (n > 1 && t->s[n - 1] >= '0' && t->s[n - 1] <= '9' && unit < 100000000) {
		i += unit * (t->s[--n] - '0');
		unit *= 10;
		x = t->s[n] == '0' && t->n - n > 1 ? 0 : find(p, t->s, n);
		if (x && x->kind == N_RANGE)
			return i < x->count && use(p, x, i, slot, type);
	}
	return 0;
}
