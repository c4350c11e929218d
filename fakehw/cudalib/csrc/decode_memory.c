/* ld, st, atom, red, cvta, isspacep, prefetch and fences. */
#include "asm.h"

#include <string.h>

/* Modifiers that say how a cache or another thread sees it: nothing to do here,
 * where all threads share one memory at once. */
static int skip_ordering(struct stmt *s)
{
	static const char *const words[] = {
		"weak", "relaxed", "acquire", "release", "acq_rel", "sc", "volatile", "mmio", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs",
		"lu", "cv", "wb", "wt", "nc", "L1::evict_last", "L1::evict_normal", "L1::evict_first", "L1::evict_unchanged", "L1::no_allocate",
		"L2::64B", "L2::128B", "L2::256B", "L2::evict_last", "L2::evict_normal", "L2::evict_first",
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (mod(s, words[i]))
			return 1;
	return 0;
}

static int take_space(struct stmt *s)
{
	static const struct {
		const char *word;
		enum space space;
	} spaces[] = {
		{"global", GLOBAL}, {"shared", SHARED}, {"shared::cta", SHARED}, {"local", LOCAL}, {"const", CONSTANT}, {"param", PARAM},
		{"param::entry", PARAM},
	};
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
		if (mod(s, spaces[i].word))
			return spaces[i].space;
	return -1;
}

/* Where [operand n] is: a slot and a number to add. */
static int address(struct parser *p, struct stmt *s, int n)
{
	struct operand *o = &s->o[n];
	enum space space = s->ins.space;
	if (o->kind != O_ADDRESS)
		bad_at(p, s->line, "operand %d is no address", n + 1);
	if (!o->var) {
		s->ins.a = o->slot;
		s->ins.imm = o->plus;
		return 1;
	}
	if (space == GENERIC && (o->var->space == SHARED || o->var->space == LOCAL || o->var->space == PARAM))
		return !!not_here(p, s, "a generic address of a variable that is in no global memory");
	if (space != GENERIC && space != o->var->space)
		bad_at(p, s->line, "'%s' is not in that state space", o->var->name);
	s->ins.a = var_slot(p, o->var, 0, s->line);
	s->ins.imm = o->plus;
	return 1;
}

/* The registers of {a, b}, or of a alone. */
static void elements(struct parser *p, struct stmt *s, int n, int vector, int write)
{
	struct operand *o = &s->o[n];
	s->ins.n = vector;
	if (vector == 1) {
		s->ins.v[0] = write ? destination(p, s, n, s->ins.type, 1) : source(p, s, n, s->ins.type, 1);
		return;
	}
	if (o->kind != O_VECTOR || o->n != vector)
		bad_at(p, s->line, "operand %d is no vector of %d", n + 1, vector);
	for (int i = 0; i < vector; i++) {
		struct stmt one = *s;
		one.o[0] = (struct operand){.kind = o->v[i].sink ? O_SINK : o->v[i].constant == 1 ? O_INT : o->v[i].constant ? O_FLOAT : O_REG,
		                            .type = o->v[i].type, .slot = o->v[i].slot, .value = o->v[i].value, .is_f32 = s->ins.type.bits == 32};
		s->ins.v[i] = write ? destination(p, &one, 0, s->ins.type, 1) : source(p, &one, 0, s->ins.type, 1);
		if (i && write && one.ins.wide && s->ins.wide != one.ins.wide)
			not_here(p, s, "registers of several widths");
		s->ins.wide = write ? one.ins.wide : 0;
	}
}

static int load_or_store(struct parser *p, struct stmt *s, int store)
{
	int space = -1;
	while (skip_ordering(s) || (space < 0 && (space = take_space(s)) >= 0))
		;
	int vector = mod(s, "v2") ? 2 : mod(s, "v4") ? 4 : 1;
	s->ins.type = need_type(p, s, "busf");
	if (!s->ins.type.bits)
		return 0;
	s->ins.op = store ? OP_ST : OP_LD;
	s->ins.space = space < 0 ? GENERIC : space;
	if (store && s->ins.space == PARAM && p->f->unsupported)
		return 0; /* for a call */
	if (store && (s->ins.space == CONSTANT || s->ins.space == PARAM))
		bad_at(p, s->line, "a store to constant or parameter memory");
	if (s->n == 3)
		return !!not_here(p, s, "a cache policy");
	need_operands(p, s, 2, 2);
	if (vector * s->ins.type.bits > 128)
		bad_at(p, s->line, "a vector of more than 128 bits");
	elements(p, s, store, vector, !store);
	return address(p, s, !store);
}

static int d_ld(struct parser *p, struct stmt *s) { return load_or_store(p, s, 0); }
static int d_st(struct parser *p, struct stmt *s) { return load_or_store(p, s, 1); }

/* ins.how of OP_ATOM, and the types that each has. */
static const struct {
	const char *name, *kinds;
	int least, most;
} atomics[] = {
	{"and", "b", 32, 64}, {"or", "b", 32, 64}, {"xor", "b", 32, 64}, {"exch", "b", 32, 64}, {"cas", "b", 32, 64},
	{"add", "usf", 32, 64}, {"inc", "u", 32, 32}, {"dec", "u", 32, 32}, {"min", "us", 32, 64}, {"max", "us", 32, 64},
};

static int atomic(struct parser *p, struct stmt *s, int returns)
{
	int space = -1, how = -1;
	while (skip_ordering(s) || (space < 0 && (space = take_space(s)) >= 0))
		;
	for (size_t i = 0; i < sizeof atomics / sizeof *atomics && how < 0; i++)
		if (mod(s, atomics[i].name))
			how = i;
	if (how < 0)
		return !!not_here(p, s, "");
	mod(s, "noftz");
	s->ins.type = need_type(p, s, "busf");
	if (!s->ins.type.bits || s->ins.type.bits < 32)
		return !!not_here(p, s, "");
	if (!strchr(atomics[how].kinds, s->ins.type.kind) || s->ins.type.bits > atomics[how].most)
		bad_at(p, s->line, "no atomic operation of that type");
	if (space > 0 && space != GLOBAL && space != SHARED)
		bad_at(p, s->line, "an atomic operation on such a state space");
	s->ins.op = OP_ATOM;
	s->ins.how = how;
	s->ins.space = space < 0 ? GENERIC : space;
	s->ins.n = returns;
	int cas = how == 4;
	if (s->n == 3 + cas + returns)
		return !!not_here(p, s, "a cache policy");
	need_operands(p, s, 2 + cas + returns, 2 + cas + returns);
	if (s->o[returns].kind == O_VECTOR || s->o[0].kind == O_VECTOR)
		return !!not_here(p, s, "a vector");
	if (returns)
		s->ins.d = destination(p, s, 0, s->ins.type, 0);
	s->ins.b = source(p, s, returns + 1, s->ins.type, 0);
	if (cas)
		s->ins.c = source(p, s, returns + 2, s->ins.type, 0);
	return address(p, s, returns);
}

static int d_atom(struct parser *p, struct stmt *s) { return atomic(p, s, 1); }

static int d_red(struct parser *p, struct stmt *s)
{
	if (mod(s, "async"))
		return !!not_here(p, s, "");
	return atomic(p, s, 0);
}

/* cvta.global.u64 d, a; cvta.to.global.u64 d, a; a may be a variable. */
static int d_cvta(struct parser *p, struct stmt *s)
{
	int to = mod(s, "to"), space = take_space(s);
	if (space < 0 || space == PARAM)
		return !!not_here(p, s, "");
	s->ins.type = need_type(p, s, "u");
	if (s->ins.type.bits != 64)
		return !!not_here(p, s, "addresses of 32 bits");
	need_operands(p, s, 2, 2);
	s->ins.op = to ? OP_FROMGENERIC : OP_TOGENERIC;
	s->ins.space = space;
	s->ins.d = destination(p, s, 0, s->ins.type, 0);
	struct operand *o = &s->o[1];
	if (o->kind != O_VAR) {
		s->ins.a = source(p, s, 1, s->ins.type, 0);
		return 1;
	}
	if (o->var->space != (enum space)space || to)
		bad_at(p, s->line, "'%s' is not in that state space", o->var->name);
	s->ins.a = var_slot(p, o->var, o->plus, s->line);
	return 1;
}

static int d_isspacep(struct parser *p, struct stmt *s)
{
	int space = take_space(s);
	if (space < 0)
		return !!not_here(p, s, "");
	need_operands(p, s, 2, 2);
	s->ins.op = OP_ISSPACE;
	s->ins.space = space;
	s->ins.d = predicate(p, s, 0, 1);
	s->ins.a = source(p, s, 1, (struct type){'u', 64}, 0);
	return 1;
}

static int d_prefetch(struct parser *p, struct stmt *s)
{
	take_space(s);
	if (!mod(s, "L1") && !mod(s, "L2") && !skip_ordering(s))
		return !!not_here(p, s, "");
	need_operands(p, s, 1, 1);
	if (s->o[0].kind != O_ADDRESS)
		bad_at(p, s->line, "operand 1 is no address");
	s->ins.op = OP_NOP;
	return 1;
}

static int d_fence(struct parser *p, struct stmt *s)
{
	while (skip_ordering(s) || mod(s, "gl"))
		;
	need_operands(p, s, 0, 0);
	s->ins.op = OP_NOP;
	return 1;
}

const struct opcode memory_opcodes[] = {
	{"ld", d_ld}, {"st", d_st}, {"atom", d_atom}, {"red", d_red}, {"cvta", d_cvta}, {"isspacep", d_isspacep},
	{"prefetch", d_prefetch}, {"membar", d_fence}, {"fence", d_fence}, {0, 0},
};
