/* Arithmetic: modifiers and operands; the functions are in alu*.c. */
#include "asm.h"

#include <stdio.h>
#include <string.h>

static const struct type pred = {'p', 1}, u32 = {'u', 32};

static int is_float(struct type t) { return t.kind == 'f'; }

/* take_round takes a rounding mode; 0: there is none. */
static int take_round(struct stmt *s)
{
	static const char *const modes[] = {"rn", "rz", "rm", "rp"};
	for (int i = 0; i < 4; i++)
		if (mod(s, modes[i])) {
			s->ins.round = i;
			return 1;
		}
	return 0;
}

static void take_ftz_sat(struct stmt *s)
{
	if (mod(s, "ftz"))
		s->ins.mods |= MOD_FTZ;
	if (mod(s, "sat"))
		s->ins.mods |= MOD_SAT;
}

/* The function for a name and type. With modifiers, floating-point operations are
 * the slower one, "name~". */
static int pick(struct parser *p, struct stmt *s, const char *name, struct type type)
{
	char slow[24];
	if (is_float(type) && (s->ins.mods || s->ins.round)) {
		snprintf(slow, sizeof slow, "%s~", name);
		name = slow;
	}
	s->ins.type = type;
	s->ins.fn = alu_find(name, type);
	return s->ins.fn ? 1 : !!not_here(p, s, "");
}

static void sources(struct parser *p, struct stmt *s, int n, struct type type)
{
	uint32_t *const to[] = {&s->ins.a, &s->ins.b, &s->ins.c};
	need_operands(p, s, n + 1, n + 1);
	for (int i = 0; i < n; i++)
		*to[i] = source(p, s, i + 1, type, 0);
}

/* add, sub, min, max, div, rem …: d, a, b and so on, all of one type. */
static const struct plain {
	const char *name, *kinds;
	int n;
} plain[] = {
	{"add", "usf", 2}, {"sub", "usf", 2}, {"min", "usf", 2}, {"max", "usf", 2}, {"rem", "us", 2}, {"and", "bp", 2}, {"or", "bp", 2},
	{"xor", "bp", 2}, {"not", "bp", 1}, {"cnot", "b", 1}, {"neg", "sf", 1}, {"abs", "sf", 1}, {"sad", "us", 3}, {"copysign", "f", 2},
	{"brev", "b", 1}, {0, 0, 0},
};

static int d_plain(struct parser *p, struct stmt *s)
{
	const struct plain *x = plain;
	char name[16];
	while (!is(&s->name, TK_WORD, x->name))
		x++;
	snprintf(name, sizeof name, "%s", x->name);
	int additive = !strcmp(name, "add") || !strcmp(name, "sub"), rounded = additive && take_round(s);
	take_ftz_sat(s);
	int carry = additive && mod(s, "cc");
	if ((!strcmp(name, "min") || !strcmp(name, "max")) && mod(s, "NaN"))
		strcat(name, "n");
	struct type type = need_type(p, s, x->kinds);
	if (!type.bits || type.bits == 8)
		return !!not_here(p, s, "");
	if (is_float(type) ? carry : rounded || (s->ins.mods & MOD_FTZ))
		bad_at(p, s->line, "a modifier that is not of that type");
	if (!is_float(type) && s->ins.mods) /* .sat */
		strcat(name, "s");
	if (carry) {
		strcat(name, "cc");
		s->ins.e = carry_slot(p);
	}
	sources(p, s, x->n, type);
	s->ins.d = destination(p, s, 0, type, 0);
	if (!strcmp(name, "copysign")) { /* its first operand is the sign */
		uint32_t a = s->ins.a;
		s->ins.a = s->ins.b;
		s->ins.b = a;
	}
	return pick(p, s, name, type);
}

/* addc, subc: with the carry of what came before. */
static int d_carried(struct parser *p, struct stmt *s)
{
	int out = mod(s, "cc");
	struct type type = need_type(p, s, "us");
	sources(p, s, 2, type);
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.e = carry_slot(p);
	s->ins.n = out;
	return pick(p, s, is(&s->name, TK_WORD, "addc") ? "addc" : "subc", type);
}

/* mul, mad, mul24, mad24 and fma. */
static int d_product(struct parser *p, struct stmt *s)
{
	int fma = is(&s->name, TK_WORD, "fma"), mad = fma || !strncmp(s->name.s, "mad", 3), short_ = s->name.n == 5;
	int half = mod(s, "lo") ? 1 : mod(s, "hi") ? 2 : !short_ && mod(s, "wide") ? 3 : 0;
	int rounded = !half && take_round(s);
	take_ftz_sat(s);
	if (mod(s, "cc"))
		return !!not_here(p, s, "");
	struct type type = need_type(p, s, fma ? "f" : short_ ? "us" : "usf"), wide = type;
	if (!type.bits || type.bits == 8)
		return !!not_here(p, s, "");
	if (is_float(type)) {
		if (half || (mad && type.bits != 32 && !rounded) || (fma && !rounded) || (mad && !fma && p->program->target >= 20 && !rounded))
			bad_at(p, s->line, "Rounding modifier required for instruction '%.*s'", shown(&s->name), s->name.s);
		sources(p, s, 2 + mad, type);
		s->ins.d = destination(p, s, 0, type, 0);
		return pick(p, s, mad ? "fma" : "mul", type);
	}
	if (!half || rounded || (s->ins.mods && !(half == 2 && mad && type.kind == 's' && type.bits == 32)))
		bad_at(p, s->line, "'%.*s' of integers has .lo, .hi or .wide", shown(&s->name), s->name.s);
	if (s->ins.mods || (half == 3 && type.bits == 64))
		return !!not_here(p, s, "");
	if (half == 3)
		wide.bits *= 2;
	need_operands(p, s, 3 + mad, 3 + mad);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, type, 0);
	if (mad)
		s->ins.c = source(p, s, 3, wide, 0);
	s->ins.d = destination(p, s, 0, wide, 0);
	static const char *const names[2][2][4] = {{{0, "mullo", "mulhi", "mulwide"}, {0, "madlo", "madhi", "madwide"}},
	                                           {{0, "mul24lo", "mul24hi", 0}, {0, "mad24lo", "mad24hi", 0}}};
	return pick(p, s, names[short_][mad][half], type);
}

static int d_div(struct parser *p, struct stmt *s)
{
	int approx = mod(s, "approx") ? 1 : mod(s, "full") ? 2 : 0, rounded = !approx && take_round(s);
	take_ftz_sat(s);
	struct type type = need_type(p, s, "usf");
	if (is_float(type) ? !approx && !rounded : approx || rounded || s->ins.mods)
		bad_at(p, s->line, "Rounding modifier required for instruction 'div'");
	if (type.bits == 8 || (approx && type.bits != 32))
		return !!not_here(p, s, "");
	sources(p, s, 2, type);
	s->ins.d = destination(p, s, 0, type, 0);
	return pick(p, s, approx == 1 ? "divapprox" : "div", type);
}

/* rcp, sqrt with a rounding or .approx; the others approximate only. */
static int d_function(struct parser *p, struct stmt *s)
{
	char name[16];
	snprintf(name, sizeof name, "%.*s", s->name.n < 15 ? s->name.n : 15, s->name.s);
	int exact = !strcmp(name, "rcp") || !strcmp(name, "sqrt");
	int approx = mod(s, "approx"), rounded = !approx && exact && take_round(s);
	if (!approx && !rounded)
		bad_at(p, s->line, "'%s' needs .approx%s", name, exact ? " or a rounding" : "");
	take_ftz_sat(s);
	struct type type = need_type(p, s, "f");
	if (!type.bits || type.bits == 16 || (s->ins.mods & MOD_SAT) || (approx && type.bits == 64 && strcmp(name, "rsqrt")))
		return !!not_here(p, s, "");
	if (type.bits == 64 && s->ins.mods)
		return !!not_here(p, s, "");
	sources(p, s, 1, type);
	s->ins.d = destination(p, s, 0, type, 0);
	return pick(p, s, name, type);
}

/* Shifts and bit operations whose operands are of several types. */
static int d_shift(struct parser *p, struct stmt *s)
{
	int left = is(&s->name, TK_WORD, "shl");
	struct type type = need_type(p, s, left ? "b" : "bus");
	need_operands(p, s, 3, 3);
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, u32, 0);
	return pick(p, s, left ? "shl" : "shr", type);
}

static int d_count(struct parser *p, struct stmt *s)
{
	int amount = is(&s->name, TK_WORD, "bfind") && mod(s, "shiftamt");
	char name[16];
	struct type type = need_type(p, s, is(&s->name, TK_WORD, "bfind") ? "us" : "b");
	snprintf(name, sizeof name, "%.*s%s", s->name.n, s->name.s, amount ? "a" : "");
	need_operands(p, s, 2, 2);
	s->ins.d = destination(p, s, 0, u32, 0);
	s->ins.a = source(p, s, 1, type, 0);
	return pick(p, s, name, type);
}

static int d_bitfield(struct parser *p, struct stmt *s)
{
	int insert = is(&s->name, TK_WORD, "bfi");
	struct type type = need_type(p, s, insert ? "b" : "us");
	need_operands(p, s, 4 + insert, 4 + insert);
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.a = source(p, s, 1, type, 0);
	if (insert)
		s->ins.e = source(p, s, 2, type, 0);
	s->ins.b = source(p, s, 2 + insert, u32, 0);
	s->ins.c = source(p, s, 3 + insert, u32, 0);
	return pick(p, s, insert ? "bfi" : "bfe", type);
}

static int d_funnel(struct parser *p, struct stmt *s)
{
	int right = mod(s, "r"), wrap;
	if (!right && !mod(s, "l"))
		bad_at(p, s->line, "shf has .l or .r");
	wrap = mod(s, "wrap");
	if (!wrap && !mod(s, "clamp"))
		bad_at(p, s->line, "shf has .wrap or .clamp");
	struct type type = need_type(p, s, "b");
	s->ins.how = right | wrap << 1;
	sources(p, s, 3, type);
	s->ins.d = destination(p, s, 0, type, 0);
	return pick(p, s, "shf", type);
}

static int d_lop3(struct parser *p, struct stmt *s)
{
	struct type type = need_type(p, s, "b");
	if (s->n > 5)
		return !!not_here(p, s, "a predicate");
	need_operands(p, s, 5, 5);
	if (s->o[4].kind != O_INT || s->o[4].value > 255)
		bad_at(p, s->line, "lop3 needs a table from 0 to 255");
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, type, 0);
	s->ins.c = source(p, s, 3, type, 0);
	s->ins.how = s->o[4].value;
	return pick(p, s, "lop3", type);
}

static int d_prmt(struct parser *p, struct stmt *s)
{
	struct type type = need_type(p, s, "b");
	sources(p, s, 3, type);
	s->ins.d = destination(p, s, 0, type, 0);
	return pick(p, s, "prmt", type);
}

static int d_dp4a(struct parser *p, struct stmt *s)
{
	struct type a = need_type(p, s, "us"), b = need_type(p, s, "us");
	struct type sum = {a.kind == 's' || b.kind == 's' ? 's' : 'u', 32};
	need_operands(p, s, 4, 4);
	s->ins.d = destination(p, s, 0, sum, 0);
	s->ins.a = source(p, s, 1, a, 0);
	s->ins.b = source(p, s, 2, b, 0);
	s->ins.c = source(p, s, 3, sum, 0);
	s->ins.how = (a.kind == 's') | (b.kind == 's') << 1;
	return pick(p, s, "dp4a", a);
}

/* selp d, a, b, p; slct.type.s32 d, a, b, c */
static int d_select(struct parser *p, struct stmt *s)
{
	int slct = is(&s->name, TK_WORD, "slct");
	if (slct && mod(s, "ftz"))
		s->ins.mods = MOD_FTZ;
	struct type type = need_type(p, s, "busf"), by = slct ? need_type(p, s, "sf") : pred;
	need_operands(p, s, 4, 4);
	if (slct && by.bits != 32)
		bad_at(p, s->line, "slct chooses by .s32 or .f32");
	s->ins.d = destination(p, s, 0, type, 0);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, type, 0);
	s->ins.c = slct ? source(p, s, 3, by, 0) : predicate(p, s, 3, 0);
	if (!slct && s->o[3].negated)
		bad_at(p, s->line, "selp takes no '!'");
	s->ins.type = type;
	s->ins.fn = alu_find(slct ? "slct" : "selp", by);
	return 1;
}

static int d_testp(struct parser *p, struct stmt *s)
{
	static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
	s->ins.how = 6;
	for (int i = 0; i < 6; i++)
		if (s->ins.how == 6 && mod(s, tests[i]))
			s->ins.how = i;
	struct type type = need_type(p, s, "f");
	need_operands(p, s, 2, 2);
	if (s->ins.how == 6)
		bad_at(p, s->line, "testp needs what to test");
	s->ins.d = predicate(p, s, 0, 1);
	s->ins.a = source(p, s, 1, type, 0);
	return pick(p, s, "testp", type);
}

const struct opcode arithmetic_opcodes[] = {
	{"add", d_plain}, {"sub", d_plain}, {"min", d_plain}, {"max", d_plain}, {"rem", d_plain}, {"and", d_plain}, {"or", d_plain},
	{"xor", d_plain}, {"not", d_plain}, {"cnot", d_plain}, {"neg", d_plain}, {"abs", d_plain}, {"sad", d_plain}, {"copysign", d_plain},
	{"brev", d_plain}, {"addc", d_carried}, {"subc", d_carried}, {"mul", d_product}, {"mad", d_product}, {"fma", d_product},
	{"mul24", d_product}, {"mad24", d_product}, {"div", d_div}, {"rcp", d_function}, {"sqrt", d_function}, {"rsqrt", d_function},
	{"sin", d_function}, {"cos", d_function}, {"lg2", d_function}, {"ex2", d_function}, {"tanh", d_function}, {"shl", d_shift},
	{"shr", d_shift}, {"popc", d_count}, {"clz", d_count}, {"bfind", d_count}, {"bfe", d_bitfield}, {"bfi", d_bitfield},
	{"shf", d_funnel}, {"lop3", d_lop3}, {"prmt", d_prmt}, {"dp4a", d_dp4a}, {"selp", d_select}, {"slct", d_select},
	{"testp", d_testp}, {"setp", d_setp}, {"set", d_set}, {"mov", d_mov}, {"cvt", d_cvt}, {0, 0},
};
