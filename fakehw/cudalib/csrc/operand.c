/* Operands, as they are written. What they mean is for the decoders. */
#include "asm.h"

#include <string.h>

static const struct {
	const char *name, *part;
	uint8_t which, bits;
} specials[] = {
	{"%tid", "x", SR_TID_X, 32}, {"%tid", "y", SR_TID_Y, 32}, {"%tid", "z", SR_TID_Z, 32},
	{"%ntid", "x", SR_NTID_X, 32}, {"%ntid", "y", SR_NTID_Y, 32}, {"%ntid", "z", SR_NTID_Z, 32},
	{"%ctaid", "x", SR_CTAID_X, 32}, {"%ctaid", "y", SR_CTAID_Y, 32}, {"%ctaid", "z", SR_CTAID_Z, 32},
	{"%nctaid", "x", SR_NCTAID_X, 32}, {"%nctaid", "y", SR_NCTAID_Y, 32}, {"%nctaid", "z", SR_NCTAID_Z, 32},
	{"%laneid", 0, SR_LANEID, 32}, {"%warpid", 0, SR_WARPID, 32}, {"%nwarpid", 0, SR_NWARPID, 32},
	{"%smid", 0, SR_SMID, 32}, {"%nsmid", 0, SR_NSMID, 32}, {"%gridid", 0, SR_GRIDID, 64}, {"WARP_SZ", 0, SR_WARPSZ, 32},
	{"%lanemask_eq", 0, SR_LANEMASK_EQ, 32}, {"%lanemask_le", 0, SR_LANEMASK_LE, 32}, {"%lanemask_lt", 0, SR_LANEMASK_LT, 32},
	{"%lanemask_ge", 0, SR_LANEMASK_GE, 32}, {"%lanemask_gt", 0, SR_LANEMASK_GT, 32},
	{"%dynamic_smem_size", 0, SR_DYNAMIC_SMEM, 32}, {"%total_smem_size", 0, SR_TOTAL_SMEM, 32},
	{"%clock", 0, SR_CLOCK, 32}, {"%clock64", 0, SR_CLOCK64, 64}, {"%clock_hi", 0, SR_CLOCK_HI, 32},
	{"%globaltimer", 0, SR_GLOBALTIMER, 64},
};

/* Special registers that exist and are not modelled. */
static const char *const foreign[] = {
	"%pm0", "%pm1", "%pm2", "%pm3", "%pm4", "%pm5", "%pm6", "%pm7", "%globaltimer_lo", "%globaltimer_hi", "%reserved_smem_offset_begin",
	"%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%aggr_smem_size", "%is_explicit_cluster", "%clusterid", "%nclusterid",
	"%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank", "%cluster_nctarank", "%current_graph_exec", "%envreg0", "%envreg1",
	"%envreg2",
};

int find_special(const struct token *t, const struct token *part)
{
	for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
		if (is(t, TK_WORD, specials[i].name) && (specials[i].part ? part && is(part, TK_DOT, specials[i].part) : !part))
			return specials[i].which;
	return -1;
}

struct type special_type(int which)
{
	for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
		if (specials[i].which == which)
			return (struct type){'u', specials[i].bits};
	return (struct type){'u', 32};
}

static int is_foreign(const struct token *t)
{
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
		if (is(t, TK_WORD, foreign[i]))
			return 1;
	return 0;
}

/* %tid.x, and the name of something that is declared. */
static void word(struct parser *p, struct operand *o)
{
	struct token t = p->lex.t;
	struct name *x = find(p, t.s, t.n);
	advance(&p->lex);
	o->name = t.s;
	o->length = t.n;
	if (is(&t, TK_WORD, "_")) {
		o->kind = O_SINK;
	} else if (find_register(p, &t, &o->slot, &o->type)) {
		o->kind = O_REG;
		if (p->lex.t.kind == TK_DOT)
			bad(p, "'%.*s' has no part '.%.*s'", shown(&t), t.s, shown(&p->lex.t), p->lex.t.s);
	} else if (x && x->kind == N_VAR) {
		o->kind = O_VAR;
		o->var = x->var;
	} else if (!x && p->lex.t.kind == TK_DOT && (o->special = find_special(&t, &p->lex.t)) >= 0) {
		o->kind = O_SPECIAL;
		advance(&p->lex);
	} else if (!x && (o->special = find_special(&t, 0)) >= 0) {
		o->kind = O_SPECIAL;
	} else if (!x && is_foreign(&t)) {
		unsupported(p, t.line, "%.*s", shown(&t), t.s);
		if (p->lex.t.kind == TK_DOT)
			advance(&p->lex);
		o->kind = O_SPECIAL;
		o->special = SR_LANEID; /* never read: the function is not launched */
	} else if (*t.s == '%') {
		bad_at(p, t.line, "'%.*s' is not declared", shown(&t), t.s);
	} else {
		o->kind = O_LABEL; /* or a function; who wants another thing says so */
	}
	if (o->kind == O_SPECIAL) {
		o->type = special_type(o->special);
		o->slot = special_slot(p, o->special);
	}
}

static void number(struct parser *p, struct operand *o)
{
	int minus = 0;
	if (is_mark(&p->lex.t, '-')) {
		const char *s = p->lex.at;
		s += strspn(s, " \t");
		int fraction = s[0] == '0' && strchr("fFdD", s[1]) && s[1];
		size_t digits = strspn(s, "0123456789");
		fraction |= digits && (s[digits] == '.' || (s[digits] | 32) == 'e');
		if (fraction) {
			minus = 1;
			advance(&p->lex);
		}
	}
	if (p->lex.t.kind == TK_F32 || p->lex.t.kind == TK_F64) {
		o->kind = O_FLOAT;
		o->is_f32 = p->lex.t.kind == TK_F32;
		o->value = p->lex.t.value ^ (minus ? (uint64_t)1 << (o->is_f32 ? 31 : 63) : 0);
		advance(&p->lex);
		return;
	}
	o->kind = O_INT;
	o->value = constant_expression(p);
}

static void vector(struct parser *p, struct operand *o)
{
	o->kind = O_VECTOR;
	do {
		struct operand e = {0};
		if (o->n == 4)
			wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "a vector of more than 4 elements");
		advance(&p->lex);
		if (p->lex.t.kind == TK_WORD)
			word(p, &e);
		else
			number(p, &e);
		if (e.kind != O_REG && e.kind != O_SINK && e.kind != O_INT && e.kind != O_FLOAT)
			bad(p, "an element of a vector is no register");
		o->v[o->n].slot = e.slot;
		o->v[o->n].type = e.type;
		o->v[o->n].sink = e.kind == O_SINK;
		o->v[o->n].constant = e.kind == O_INT ? 1 : e.kind == O_FLOAT ? 2 : 0;
		o->v[o->n++].value = e.value;
	} while (is_mark(&p->lex.t, ','));
	expect(&p->lex, '}');
}

/* [register + number], [variable + number], [number]; also [a, b] is PTX, but not
 * of any instruction that is known here. */
static void address(struct parser *p, struct operand *o)
{
	advance(&p->lex);
	if (p->lex.t.kind == TK_WORD) {
		word(p, o);
		if (o->kind != O_REG && o->kind != O_VAR)
			bad(p, "'%.*s' is no address", o->length > 60 ? 60 : o->length, o->name);
		if (is_mark(&p->lex.t, '+') || is_mark(&p->lex.t, '-'))
			o->plus = (int64_t)constant_expression(p);
		if (o->kind == O_REG && o->type.kind != 'p' && o->type.kind != 'f' && o->type.bits >= 32)
			o->var = 0;
		else if (o->kind == O_REG)
			bad(p, "'%.*s' holds no address", o->length > 60 ? 60 : o->length, o->name);
	} else {
		o->plus = (int64_t)constant_expression(p);
		o->slot = number_slot(p, 0);
		o->type = (struct type){'u', 64};
	}
	o->kind = O_ADDRESS;
	if (is_mark(&p->lex.t, ','))
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "an operand in brackets with a comma");
	expect(&p->lex, ']');
}

void parse_operand(struct parser *p, struct operand *o)
{
	struct token t = p->lex.t;
	if (is_mark(&t, '{')) {
		vector(p, o);
	} else if (is_mark(&t, '[')) {
		address(p, o);
	} else if (is_mark(&t, '!')) {
		advance(&p->lex);
		if (p->lex.t.kind != TK_WORD)
			bad(p, "'!' before '%.*s'", shown(&p->lex.t), p->lex.t.s);
		word(p, o);
		o->negated = 1;
		if (o->kind != O_REG || o->type.kind != 'p')
			bad(p, "'!' before what is no predicate");
	} else if (t.kind == TK_WORD) {
		word(p, o);
		if ((is_mark(&p->lex.t, '+') || is_mark(&p->lex.t, '-')) && o->kind == O_VAR)
			o->plus = (int64_t)constant_expression(p);
	} else if (t.kind == TK_INT || t.kind == TK_F32 || t.kind == TK_F64 || is_mark(&t, '-') || is_mark(&t, '+') || is_mark(&t, '~') ||
	           is_mark(&t, '(')) {
		number(p, o);
	} else {
		bad(p, "'%.*s' is no operand", shown(&t), t.s);
	}
	if (!accept(&p->lex, '|'))
		return;
	struct operand second = {0};
	if (p->lex.t.kind != TK_WORD)
		bad(p, "'|' before '%.*s'", shown(&p->lex.t), p->lex.t.s);
	word(p, &second);
	if ((second.kind != O_REG || second.type.kind != 'p') && second.kind != O_SINK)
		bad(p, "what follows '|' is no predicate");
	o->has_pair = 1;
	o->pair = second.slot;
	o->pair_sink = second.kind == O_SINK;
}
