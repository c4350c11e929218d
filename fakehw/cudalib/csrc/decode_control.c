/* Branches, barriers, and operations of a warp. */
#include "asm.h"

#include <string.h>

static int d_bra(struct parser *p, struct stmt *s)
{
	mod(s, "uni");
	need_operands(p, s, 1, 1);
	struct operand *o = &s->o[0];
	if (o->kind != O_LABEL)
		bad_at(p, s->line, "a branch to what is no label");
	struct name *x = find(p, o->name, o->length);
	s->ins.op = OP_BRA;
	if (x && x->kind == N_LABEL) {
		s->ins.target = x->at;
		return 1;
	}
	struct jump *j = get(p, sizeof *j);
	j->s = o->name;
	j->n = o->length;
	j->line = s->line;
	j->at = p->f->ncode;
	j->next = p->scope->jumps;
	p->scope->jumps = j;
	return 1;
}

static int d_exit(struct parser *p, struct stmt *s)
{
	mod(s, "uni");
	need_operands(p, s, 0, 0);
	s->ins.op = OP_EXIT;
	return 1;
}

static int d_trap(struct parser *p, struct stmt *s)
{
	need_operands(p, s, 0, 0);
	s->ins.op = OP_TRAP;
	return 1;
}

static int d_nothing(struct parser *p, struct stmt *s)
{
	if (s->nmods) { /* nanosleep.u32 t */
		struct type type = need_type(p, s, "u");
		need_operands(p, s, 1, 1);
		source(p, s, 0, type.bits ? type : (struct type){'u', 32}, 0);
	} else { /* pmevent n */
		need_operands(p, s, 1, 1);
	}
	s->ins.op = OP_NOP;
	return 1;
}

/* bar.sync a{, b}; bar.arrive a, b; barrier.sync; bar.warp.sync mask */
static int d_bar(struct parser *p, struct stmt *s)
{
	const struct type u32 = {'u', 32};
	p->f->waits = 1;
	if (mod(s, "warp")) {
		if (!mod(s, "sync"))
			return !!not_here(p, s, "");
		need_operands(p, s, 1, 1);
		s->ins.op = OP_WARPBAR;
		s->ins.b = source(p, s, 0, u32, 0);
		return 1;
	}
	mod(s, "cta");
	int arrive = !mod(s, "sync");
	if (arrive && !mod(s, "arrive"))
		return !!not_here(p, s, "");
	mod(s, "aligned");
	need_operands(p, s, 1 + arrive, 2);
	s->ins.op = arrive ? OP_ARRIVE : OP_BAR;
	s->ins.n = s->n;
	s->ins.a = source(p, s, 0, u32, 0);
	if (s->o[0].kind == O_INT && s->o[0].value > 15)
		bad_at(p, s->line, "a barrier above 15");
	if (s->n == 2)
		s->ins.b = source(p, s, 1, u32, 0);
	if (s->n == 2 && s->o[1].kind == O_INT && (s->o[1].value == 0 || s->o[1].value % 32))
		bad_at(p, s->line, "a barrier's number of threads is no multiple of the warp size");
	return 1;
}

/* Before .sync these worked on whichever threads ran together. */
static int old(struct parser *p, struct stmt *s)
{
	if (mod(s, "sync")) {
		p->f->waits = 1;
		return 0;
	}
	s->at = s->nmods;
	if (p->program->target >= 70 && p->program->version >= 64)
		bad_at(p, s->line, "'%.*s' without '.sync' is not supported on .target sm_70 and higher from PTX ISA version 6.4", shown(&s->name),
		       s->name.s);
	not_here(p, s, "without .sync");
	return 1;
}

/* shfl.sync.mode.b32 d|p, a, b, c, mask */
static int d_shfl(struct parser *p, struct stmt *s)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	const struct type b32 = {'b', 32};
	if (old(p, s))
		return 0;
	s->ins.how = 4;
	for (int i = 0; i < 4; i++)
		if (s->ins.how == 4 && mod(s, modes[i]))
			s->ins.how = i;
	struct type type = need_type(p, s, "b");
	if (s->ins.how == 4 || type.bits != 32)
		bad_at(p, s->line, "shfl.sync has a mode and .b32");
	need_operands(p, s, 5, 5);
	s->ins.op = OP_SHFL;
	s->ins.n = s->o[0].has_pair;
	s->ins.d2 = s->o[0].has_pair ? (s->o[0].pair_sink ? new_slot(p, 0) : s->o[0].pair) : 0;
	s->o[0].has_pair = 0;
	s->ins.d = destination(p, s, 0, b32, 0);
	s->ins.a = source(p, s, 1, b32, 0);
	s->ins.c = source(p, s, 2, b32, 0);
	s->ins.e = source(p, s, 3, b32, 0);
	s->ins.b = source(p, s, 4, b32, 0);
	return 1;
}

/* vote.sync.mode.pred p, {!}a, mask; vote.sync.ballot.b32 d, {!}a, mask */
static int d_vote(struct parser *p, struct stmt *s)
{
	static const char *const modes[] = {"all", "any", "uni", "ballot"};
	if (old(p, s))
		return 0;
	s->ins.how = 4;
	for (int i = 0; i < 4; i++)
		if (s->ins.how == 4 && mod(s, modes[i]))
			s->ins.how = i;
	struct type type = need_type(p, s, "pb");
	if (s->ins.how == 4 || (type.kind == 'b') != (s->ins.how == 3) || (type.kind == 'b' && type.bits != 32))
		bad_at(p, s->line, "vote.sync has a mode and its type");
	need_operands(p, s, 3, 3);
	s->ins.op = OP_VOTE;
	s->ins.d = type.kind == 'p' ? predicate(p, s, 0, 1) : destination(p, s, 0, type, 0);
	s->ins.a = predicate(p, s, 1, 0);
	s->ins.n = s->o[1].negated;
	s->ins.b = source(p, s, 2, (struct type){'b', 32}, 0);
	return 1;
}

/* match.any.sync.b32 d, a, mask; match.all.sync.b32 d|p, a, mask */
static int d_match(struct parser *p, struct stmt *s)
{
	int all = !mod(s, "any");
	if ((all && !mod(s, "all")) || !mod(s, "sync"))
		bad_at(p, s->line, "match has .any or .all, and .sync");
	struct type type = need_type(p, s, "b");
	need_operands(p, s, 3, 3);
	if (type.bits < 32)
		bad_at(p, s->line, "match has .b32 or .b64");
	p->f->waits = 1;
	s->ins.op = OP_MATCH;
	s->ins.how = all;
	s->ins.n = s->o[0].has_pair;
	s->ins.d2 = s->o[0].has_pair ? (s->o[0].pair_sink ? new_slot(p, 0) : s->o[0].pair) : 0;
	if (s->o[0].has_pair && !all)
		bad_at(p, s->line, "match.any has one result");
	s->o[0].has_pair = 0;
	s->ins.d = destination(p, s, 0, (struct type){'b', 32}, 0);
	s->ins.a = source(p, s, 1, type, 0);
	s->ins.b = source(p, s, 2, (struct type){'b', 32}, 0);
	return 1;
}

/* redux.sync.op.type d, a, mask */
static int d_redux(struct parser *p, struct stmt *s)
{
	static const char *const ops[] = {"add", "min", "max", "and", "or", "xor"};
	if (!mod(s, "sync"))
		bad_at(p, s->line, "redux has .sync");
	s->ins.how = 6;
	for (int i = 0; i < 6; i++)
		if (s->ins.how == 6 && mod(s, ops[i]))
			s->ins.how = i;
	s->ins.type = need_type(p, s, "usbf");
	if (!s->ins.type.bits || s->ins.type.kind == 'f')
		return !!not_here(p, s, "");
	if (s->ins.how == 6 || s->ins.type.bits != 32 || (s->ins.type.kind == 'b') != (s->ins.how > 2))
		bad_at(p, s->line, "redux.sync has an operation and its type");
	if (p->program->target < 80)
		bad_at(p, s->line, "redux needs .target sm_80 or higher");
	need_operands(p, s, 3, 3);
	p->f->waits = 1;
	s->ins.op = OP_REDUX;
	s->ins.d = destination(p, s, 0, s->ins.type, 0);
	s->ins.a = source(p, s, 1, s->ins.type, 0);
	s->ins.b = source(p, s, 2, (struct type){'b', 32}, 0);
	return 1;
}

const struct opcode control_opcodes[] = {
	{"bra", d_bra}, {"ret", d_exit}, {"exit", d_exit}, {"trap", d_trap}, {"nanosleep", d_nothing}, {"pmevent", d_nothing},
	{"bar", d_bar}, {"barrier", d_bar}, {"shfl", d_shfl}, {"vote", d_vote}, {"match", d_match}, {"redux", d_redux}, {0, 0},
};
