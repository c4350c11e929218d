/* What instructions are called, and how their modifiers and operands are taken. */
#include "asm.h"

#include <stdio.h>
#include <string.h>

/* Instructions of PTX that are not known here. */
static const char *const others[] = {
	"activemask", "alloca", "applypriority", "bmsk", "brkpt", "brx", "call", "clusterlaunchcontrol",
	"cp", "createpolicy", "discard", "dp2a", "elect", "fabric", "fns", "getctarank", "griddepcontrol", "istypep", "ldmatrix",
	"ldu", "mapa", "mbarrier", "mma", "movmatrix", "multimem", "prefetchu", "setmaxnreg", "stackrestore", "stacksave",
	"stmatrix", "suld", "sured", "suq", "sust", "szext", "tcgen05", "tensormap", "tex", "tld4", "txq", "vabsdiff",
	"vabsdiff2", "vabsdiff4", "vadd", "vadd2", "vadd4", "vavrg2", "vavrg4", "vmad", "vmax", "vmax2", "vmax4", "vmin", "vmin2",
	"vmin4", "video", "vset", "vset2", "vset4", "vshl", "vshr", "vsub", "vsub2", "vsub4", "wgmma", "wmma", 0,
};

/* Modifiers of PTX, known to some decoder or not; types are apart. */
static const char *const modifiers[] = {
	"1d", "2d", "3d", "4d", "5d", "a1d", "a2d", "abs", "acq_rel", "acquire", "add", "aligned", "alias", "all", "alloc", "and", "any",
	"approx", "arrive", "async", "b128", "b4e", "ballot", "bf16", "bf16x2", "bfly", "bulk", "c", "ca", "cas", "cc", "cg", "clamp",
	"cluster", "const", "cooperative", "cs", "cta", "cube", "cv", "dec", "down", "e4m3x2", "e5m2x2", "ecl", "ecr", "eq", "equ", "exch",
	"exit", "f16x2", "f4e", "finite", "from", "ftz", "full", "ge", "geu", "gl", "global", "gpu", "gt", "gtu", "h0", "h1", "hi", "hs", "idx", "inc",
	"infinite", "invalidate", "l", "le", "leu", "lo", "local", "ls", "lt", "ltu", "lu", "m16n8k16", "m16n8k8", "m8n8k4", "max", "min",
	"mmio", "nan", "NaN", "nc", "ne", "neu", "noftz", "noinc", "normal", "notanumber", "num", "number", "or", "pack", "param", "popc", "r",
	"rc16", "rc8", "red", "relaxed", "release", "relu", "rm", "rmi", "rn", "rna", "rni", "rp", "rpi", "rs", "rz", "rzi", "sat", "satfinite",
	"sc", "shared", "shiftamt", "shr15", "shr7", "shuffle", "subnormal", "sync", "sys", "tensor", "tf32", "to", "trap", "u4", "uni", "unified",
	"up", "v2", "v4", "v8", "volatile", "wait", "warp", "wb", "weak", "wide", "wrap", "wt", "xor", "xorsign", "yield", "v2", "x1", "x2", "x4",
	"col", "row", "cond", "desc", "entry", "func", "shared::cta", "shared::cluster", "param::entry", "param::func", "to::shared",
	"L1::evict_last", "L1::evict_normal", "L1::evict_first", "L1::evict_unchanged", "L1::no_allocate", "L2::cache_hint", "L2::64B",
	"L2::128B", "L2::256B", "L2::evict_last", "L2::evict_normal", "L2::evict_first", "s4", "proxy", "proxy::alias", "proxy::async", "L1",
	"L2", "tensormap", "commit_group", "wait_group", "wait_all", "init", "inval", "try_wait", "test_wait", "expect_tx", "commit", "mbarrier", 0,
};

static int listed(const char *const *list, const struct token *t)
{
	for (; *list; list++)
		if (strlen(*list) == (size_t)t->n && !memcmp(*list, t->s, t->n))
			return 1;
	return 0;
}

static decoder decoder_of(const struct token *t)
{
	const struct opcode *const tables[] = {arithmetic_opcodes, memory_opcodes, control_opcodes};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct opcode *o = tables[i]; o->name; o++)
			if (is(t, TK_WORD, o->name))
				return o->decode;
	return 0;
}

int has_decoder(const struct token *t) { return decoder_of(t) != 0; }
int known_opcode(const struct token *t) { return has_decoder(t) || listed(others, t); }
int known_modifier(const struct token *t) { return listed(modifiers, t); }

int mod(struct stmt *s, const char *text)
{
	if (s->at == s->nmods || !is(&s->mods[s->at], TK_DOT, text))
		return 0;
	s->at++;
	return 1;
}

int take_type(struct stmt *s, struct type *type)
{
	if (s->at == s->nmods || !is_type(&s->mods[s->at], type))
		return 0;
	s->at++;
	return 1;
}

/* The instruction as it is written, for messages. */
static const char *written(const struct stmt *s, char *to, size_t size)
{
	size_t n = snprintf(to, size, "%.*s", shown(&s->name), s->name.s);
	for (int i = 0; i < s->nmods && n < size; i++)
		n += snprintf(to + n, size - n, ".%.*s", shown(&s->mods[i]), s->mods[i].s);
	return to;
}

struct stmt *not_here(struct parser *p, struct stmt *s, const char *why)
{
	char text[100];
	unsupported(p, s->line, "%s%s%s", written(s, text, sizeof text), *why ? ": " : "", why);
	return 0;
}

struct type need_type(struct parser *p, struct stmt *s, const char *kinds)
{
	struct type type;
	char text[100];
	if (s->at < s->nmods && !is_type(&s->mods[s->at], &type) && known_modifier(&s->mods[s->at])) {
		not_here(p, s, "");
		return (struct type){0};
	}
	if (!take_type(s, &type))
		bad_at(p, s->line, "%s has no type where one should be", written(s, text, sizeof text));
	if (!strchr(kinds, type.kind))
		bad_at(p, s->line, "%s: not of that type", written(s, text, sizeof text));
	return type;
}

void need_operands(struct parser *p, struct stmt *s, int least, int most)
{
	char text[100];
	if (s->n < least || s->n > most)
		bad_at(p, s->line, "%s has %d operands", written(s, text, sizeof text), s->n);
}

void no_more_mods(struct parser *p, struct stmt *s)
{
	if (s->at < s->nmods)
		not_here(p, s, "");
}

/* Whether a register of a type may hold a value of another: the table of the
 * manual, and the relaxed one for wider registers of ld, st and cvt. */
static int agrees(struct type reg, struct type want, int relaxed)
{
	if ((reg.kind == 'p') != (want.kind == 'p'))
		return 0;
	if (reg.bits != want.bits)
		return relaxed && reg.bits > want.bits && reg.kind != 'f' && want.kind != 'f';
	if (want.kind == 'f')
		return reg.kind == 'f' || reg.kind == 'b';
	return want.kind == 'b' || reg.kind != 'f';
}

static _Noreturn void mistyped(struct parser *p, struct stmt *s, int n)
{
	char text[100];
	bad_at(p, s->line, "arguments mismatch for instruction '%s': operand %d", written(s, text, sizeof text), n + 1);
}

static uint64_t truncated(uint64_t v, int bits) { return bits < 64 ? v & (((uint64_t)1 << bits) - 1) : v; }

/* A floating-point constant in the form that the instruction wants. */
static uint64_t float_bits(struct parser *p, struct stmt *s, int n, struct type want)
{
	struct operand *o = &s->o[n];
	uint32_t low = o->value;
	float f;
	double d;
	memcpy(&f, &low, sizeof f);
	memcpy(&d, &o->value, sizeof d);
	if (want.kind == 'f' && want.bits == 32 && !o->is_f32)
		f = (float)d, memcpy(&low, &f, sizeof low);
	else if (want.kind == 'f' && want.bits == 64 && o->is_f32)
		d = f;
	else if ((want.kind != 'f' && want.kind != 'b') || want.bits != (o->is_f32 ? 32 : 64))
		mistyped(p, s, n);
	if (want.bits == 32)
		return low;
	uint64_t bits;
	memcpy(&bits, &d, sizeof bits);
	return bits;
}

uint32_t source(struct parser *p, struct stmt *s, int n, struct type want, int relaxed)
{
	struct operand *o = &s->o[n];
	if (o->has_pair || o->negated)
		mistyped(p, s, n);
	switch (o->kind) {
	case O_REG:
	case O_SPECIAL:
		if (!agrees(o->type, want, relaxed))
			mistyped(p, s, n);
		if (o->kind == O_SPECIAL && o->special >= SR_CLOCK)
			not_here(p, s, "a clock, not by mov");
		return o->slot;
	case O_INT:
		if (want.kind == 'f' || want.kind == 'p')
			mistyped(p, s, n);
		return number_slot(p, truncated(o->value, want.bits));
	case O_FLOAT:
		return number_slot(p, float_bits(p, s, n, want));
	case O_LABEL:
		bad_at(p, s->line, "'%.*s' is not declared", o->length > 60 ? 60 : o->length, o->name);
	default:
		mistyped(p, s, n);
	}
}

uint32_t destination(struct parser *p, struct stmt *s, int n, struct type want, int relaxed)
{
	struct operand *o = &s->o[n];
	if (o->kind == O_LABEL)
		bad_at(p, s->line, "'%.*s' is not declared", o->length > 60 ? 60 : o->length, o->name);
	if (o->kind == O_SINK)
		return new_slot(p, 0); /* written, never read */
	if (o->kind != O_REG || o->has_pair || o->negated || !agrees(o->type, want, relaxed))
		mistyped(p, s, n);
	s->ins.wide = o->type.bits;
	return o->slot;
}

uint32_t predicate(struct parser *p, struct stmt *s, int n, int write)
{
	struct operand *o = &s->o[n];
	if (o->kind == O_SINK && write)
		return new_slot(p, 0);
	if (o->kind != O_REG || o->type.kind != 'p' || (write && o->negated))
		mistyped(p, s, n);
	return o->slot;
}

/* Whether a modifier is left that no decoder took; a type alone is none. */
static int strange(const struct stmt *s)
{
	struct type type;
	for (int i = s->at; i < s->nmods; i++)
		if (!is_type(&s->mods[i], &type))
			return 1;
	return 0;
}

/* decode emits one instruction. A mistake is one only if all modifiers were
 * understood: with others, the operands may be right. */
void decode(struct parser *p, struct stmt *s)
{
	jmp_buf out;
	memcpy(&out, &p->lex.out, sizeof out);
	if (!setjmp(p->lex.out)) {
		if (decoder_of(&s->name)(p, s))
			no_more_mods(p, s);
	} else if (!strange(s) || p->lex.mistake->code != CUDA_ERROR_INVALID_PTX) {
		memcpy(&p->lex.out, &out, sizeof out);
		longjmp(p->lex.out, 1);
	} else {
		not_here(p, s, "");
	}
	memcpy(&p->lex.out, &out, sizeof out);
	if (p->f->unsupported) /* nobody runs it: only its place matters, for labels */
		s->ins = (struct ins){.op = OP_NOP, .line = s->line};
	emit(p, &s->ins);
}
