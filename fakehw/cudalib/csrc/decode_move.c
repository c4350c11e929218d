/* mov, cvt, setp and set. */
#include "asm.h"

#include <stdio.h>
#include <string.h>

static const char *const comparisons[] = {
	"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
};

/* The comparison, and .and, .or or .xor. Unsigned names are the plain ones. */
static void take_comparison(struct parser *p, struct stmt *s, int *boolean)
{
	static const char *const combine[] = {"and", "or", "xor"};
	int how = -1;
	for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons && how < 0; i++)
		if (mod(s, comparisons[i]))
			how = i;
	if (how < 0)
		bad_at(p, s->line, "'%.*s' without a comparison", shown(&s->name), s->name.s);
	*boolean = 0;
	for (int i = 0; i < 3 && !*boolean; i++)
		if (mod(s, combine[i]))
			*boolean = i + 1;
	if (mod(s, "ftz"))
		s->ins.mods = MOD_FTZ;
	s->ins.how = how;
}

static void check_comparison(struct parser *p, struct stmt *s, struct type type)
{
	int how = s->ins.how;
	const char *allowed = how < 2 ? "busf" : how < 6 ? "usf" : how < 10 ? "u" : "f";
	if (!type.bits)
		return;
	if (!strchr(allowed, type.kind))
		bad_at(p, s->line, "'.%s' does not compare that type", comparisons[how]);
	if (how >= 6 && how < 10)
		s->ins.how = (const uint8_t[]){2, 3, 4, 5}[how - 6];
}

/* setp.cmp{.op}.type p{|q}, a, b{, {!}c} */
int d_setp(struct parser *p, struct stmt *s)
{
	int boolean;
	take_comparison(p, s, &boolean);
	struct type type = need_type(p, s, "busf");
	check_comparison(p, s, type);
	need_operands(p, s, 3 + !!boolean, 3 + !!boolean);
	if (type.bits == 8 || (type.kind == 'f' && type.bits == 16))
		return !!not_here(p, s, "");
	int pair = s->o[0].has_pair;
	s->ins.d2 = !pair ? 0 : s->o[0].pair_sink ? new_slot(p, 0) : s->o[0].pair;
	s->o[0].has_pair = 0;
	s->ins.d = predicate(p, s, 0, 1);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, type, 0);
	if (boolean)
		s->ins.c = predicate(p, s, 3, 0);
	s->ins.n = boolean;
	s->ins.e = boolean && s->o[3].negated;
	s->ins.wide = pair;
	s->ins.type = type;
	s->ins.fn = alu_find(boolean || pair ? "setp2" : "setp", type);
	return s->ins.fn ? 1 : !!not_here(p, s, "");
}

/* set.cmp.dtype.type d, a, b */
int d_set(struct parser *p, struct stmt *s)
{
	int boolean;
	take_comparison(p, s, &boolean);
	struct type to = need_type(p, s, "usf"), type = need_type(p, s, "busf");
	if (boolean || to.bits != 32 || !type.bits || (type.kind == 'f' && type.bits == 16))
		return !!not_here(p, s, "");
	check_comparison(p, s, type);
	need_operands(p, s, 3, 3);
	s->ins.d = destination(p, s, 0, to, 0);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, type, 0);
	s->ins.n = to.kind == 'f';
	s->ins.type = type;
	s->ins.fn = alu_find("set", type);
	return s->ins.fn ? 1 : !!not_here(p, s, "");
}

/* mov.b64 {a, b}, c and mov.b64 c, {a, b} */
static int packing(struct parser *p, struct stmt *s, struct type type)
{
	int pack = s->o[1].kind == O_VECTOR, n = s->o[pack].n;
	struct operand *v = &s->o[pack];
	if (type.kind != 'b' || (n != 2 && n != 4) || type.bits / n < 8)
		bad_at(p, s->line, "a vector of %d in .%c%d", n, type.kind, type.bits);
	if (type.bits / n == 8 || s->o[!pack].kind == O_VECTOR)
		return !!not_here(p, s, "");
	struct type part = {'b', type.bits / n};
	for (int i = 0; i < n; i++) {
		struct stmt one = *s;
		one.o[0] = (struct operand){.kind = v->v[i].sink ? O_SINK : v->v[i].constant == 1 ? O_INT : v->v[i].constant ? O_FLOAT : O_REG,
		                            .type = v->v[i].type, .slot = v->v[i].slot, .value = v->v[i].value, .is_f32 = part.bits == 32};
		s->ins.v[i] = pack ? source(p, &one, 0, part, 0) : destination(p, &one, 0, part, 0);
	}
	s->ins.n = n;
	s->ins.type = part;
	if (pack)
		s->ins.d = destination(p, s, 0, type, 0);
	else
		s->ins.a = source(p, s, 1, type, 0);
	s->ins.fn = alu_find(pack ? "pack" : "unpack", part);
	return 1;
}

int d_mov(struct parser *p, struct stmt *s)
{
	struct type type = need_type(p, s, "busfp");
	if (!type.bits)
		return 0;
	need_operands(p, s, 2, 2);
	if (type.bits == 8)
		bad_at(p, s->line, "mov of 8 bits");
	struct operand *o = &s->o[1];
	if (s->o[0].kind == O_VECTOR || o->kind == O_VECTOR)
		return packing(p, s, type);
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.type = type;
	if (o->kind == O_SPECIAL && o->special >= SR_CLOCK) {
		s->ins.op = OP_CLOCK;
		s->ins.how = o->special;
		if (o->type.bits != type.bits || type.kind == 'f')
			bad_at(p, s->line, "arguments mismatch for instruction 'mov'");
		return 1;
	}
	if (o->kind == O_LABEL) {
		struct name *x = find(p, o->name, o->length);
		if (x && x->kind == N_FUNC)
			return !!not_here(p, s, "the address of a function");
	}
	if (o->kind == O_VAR) {
		if (type.kind == 'f' || type.kind == 'p' || (type.bits != 64 && (type.bits != 32 || o->var->space == GLOBAL || o->var->space == CONSTANT)))
			bad_at(p, s->line, "arguments mismatch for instruction 'mov'");
		s->ins.a = var_slot(p, o->var, o->plus, s->line);
	} else if (type.kind == 'p') {
		s->ins.a = predicate(p, s, 1, 0);
		if (o->negated)
			bad_at(p, s->line, "mov takes no '!'");
	} else {
		s->ins.a = source(p, s, 1, type, 0);
	}
	s->ins.fn = alu_find("mov", type);
	return 1;
}

/* cvt{.round}{.ftz}{.sat}.dtype.atype d, a */
int d_cvt(struct parser *p, struct stmt *s)
{
	static const char *const modes[] = {"rn", "rz", "rm", "rp"}, *const whole[] = {"rni", "rzi", "rmi", "rpi"};
	int rounded = 0, integral = 0;
	for (int i = 0; i < 4 && !rounded && !integral; i++) {
		rounded = mod(s, modes[i]);
		integral = !rounded && mod(s, whole[i]);
		s->ins.round = rounded || integral ? i : 0;
	}
	if (mod(s, "ftz"))
		s->ins.mods |= MOD_FTZ;
	if (mod(s, "sat"))
		s->ins.mods |= MOD_SAT;
	struct type to = need_type(p, s, "usfb"), from = need_type(p, s, "usfb");
	if (!to.bits || !from.bits || to.kind == 'b' || from.kind == 'b')
		return !!not_here(p, s, "");
	int in = from.kind == 'f', out = to.kind == 'f';
	int narrower = in && out && to.bits < from.bits, same = in && out && to.bits == from.bits;
	if ((in && !out) ? !integral : (!in && out) || narrower ? !rounded : same ? rounded : rounded || integral)
		bad_at(p, s->line, "Rounding modifier %s for instruction 'cvt'", rounded || integral ? "not allowed" : "required");
	if ((s->ins.mods & MOD_FTZ) && !(in && from.bits == 32) && !(out && to.bits == 32))
		bad_at(p, s->line, "'.ftz' of what is no .f32");
	if (to.bits == 16 && out && (s->ins.round > RZ || s->ins.mods))
		return !!not_here(p, s, "");
	need_operands(p, s, 2, 2);
	s->ins.d = destination(p, s, 0, to, 1);
	s->ins.a = source(p, s, 1, from, 1);
	s->ins.type = to;
	s->ins.from = from;
	s->ins.n = integral;
	s->ins.fn = alu_find("cvt", to);
	return 1;
}
