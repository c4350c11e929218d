/* Declarations of variables: types, alignment, arrays, initial values. */
#include "asm.h"

#include <string.h>

static const struct {
	const char *name;
	struct type type;
} types[] = {
	{"b8", {'b', 8}}, {"b16", {'b', 16}}, {"b32", {'b', 32}}, {"b64", {'b', 64}}, {"u8", {'u', 8}}, {"u16", {'u', 16}},
	{"u32", {'u', 32}}, {"u64", {'u', 64}}, {"s8", {'s', 8}}, {"s16", {'s', 16}}, {"s32", {'s', 32}}, {"s64", {'s', 64}},
	{"f16", {'f', 16}}, {"f32", {'f', 32}}, {"f64", {'f', 64}}, {"pred", {'p', 1}},
};

int is_type(const struct token *t, struct type *type)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (is(t, TK_DOT, types[i].name)) {
			*type = types[i].type;
			return 1;
		}
	return 0;
}

static uint64_t unary(struct parser *p)
{
	struct token t = p->lex.t;
	if (++p->depth > MAX_DEPTH)
		bad(p, "an expression that is too deep");
	uint64_t v;
	if (accept(&p->lex, '-')) {
		v = -unary(p);
	} else if (accept(&p->lex, '+')) {
		v = unary(p);
	} else if (accept(&p->lex, '~')) {
		v = ~unary(p);
	} else if (accept(&p->lex, '!')) {
		v = !unary(p);
	} else if (accept(&p->lex, '(')) {
		v = constant_expression(p);
		expect(&p->lex, ')');
	} else {
		if (t.kind != TK_INT)
			bad(p, "'%.*s' where an integer should be", shown(&t), t.s);
		v = t.value;
		advance(&p->lex);
	}
	p->depth--;
	return v;
}

/* Operators from the loosest to the tightest, as in C. */
static int level(const struct token *t)
{
	static const int loose[][3] = {{'|', 0, 0}, {'^', 0, 0}, {'&', 0, 0}, {MARK_SHL, MARK_SHR, 0}, {'+', '-', 0}, {'*', '/', '%'}};
	for (int i = 0; t->kind == TK_MARK && i < 6; i++)
		for (int j = 0; j < 3; j++)
			if (loose[i][j] && t->mark == loose[i][j])
				return i + 1;
	return 0;
}

static uint64_t binary(struct parser *p, int least)
{
	uint64_t v = unary(p);
	for (int at; (at = level(&p->lex.t)) >= least && at;) {
		int mark = p->lex.t.mark;
		advance(&p->lex);
		uint64_t w = binary(p, at + 1);
		if ((mark == '/' || mark == '%') && (w == 0 || ((int64_t)v == INT64_MIN && (int64_t)w == -1)))
			bad(p, "a division that cannot be done");
		switch (mark) {
		case '|': v |= w; break;
		case '^': v ^= w; break;
		case '&': v &= w; break;
		case MARK_SHL: v = w < 64 ? v << w : 0; break;
		case MARK_SHR: v = (uint64_t)((int64_t)v >> (w < 64 ? w : 63)); break;
		case '+': v += w; break;
		case '-': v -= w; break;
		case '*': v *= w; break;
		case '/': v = (uint64_t)((int64_t)v / (int64_t)w); break;
		default: v = (uint64_t)((int64_t)v % (int64_t)w);
		}
	}
	return v;
}

uint64_t constant_expression(struct parser *p) { return binary(p, 1); }

uint32_t small_number(struct parser *p, const char *what)
{
	if (p->lex.t.kind != TK_INT || p->lex.t.value > 0x7fffffff)
		bad(p, "'%.*s' is no %s", shown(&p->lex.t), p->lex.t.s, what);
	uint32_t v = p->lex.t.value;
	advance(&p->lex);
	return v;
}

/* Where the lexer is, to go back there. */
struct place {
	const char *at;
	int line;
	struct token t;
};

static struct place here(struct parser *p) { return (struct place){p->lex.at, p->lex.line, p->lex.t}; }

static void back(struct parser *p, const struct place *to)
{
	p->lex.at = to->at;
	p->lex.line = to->line;
	p->lex.t = to->t;
}

/* One number of an initial value, in its type. */
static void number_value(struct parser *p, struct var *v, uint64_t at)
{
	int bytes = v->type.bits / 8, minus = 0;
	uint64_t x;
	if (is_mark(&p->lex.t, '-')) {
		struct place before = here(p);
		advance(&p->lex);
		minus = p->lex.t.kind == TK_F32 || p->lex.t.kind == TK_F64;
		if (!minus)
			back(p, &before);
	}
	struct token t = p->lex.t;
	if (t.kind == TK_F32 || t.kind == TK_F64) {
		if (v->type.kind != 'f' || bytes == 2)
			bad(p, "a floating-point value for '%s'", v->name);
		float f;
		double d;
		memcpy(&d, &t.value, sizeof d);
		if (t.kind == TK_F32) {
			uint32_t low = t.value;
			memcpy(&f, &low, sizeof f);
			d = f;
		}
		d = minus ? -d : d;
		f = (float)d;
		x = 0;
		memcpy(&x, bytes == 4 ? (void *)&f : (void *)&d, bytes);
		advance(&p->lex);
	} else {
		if (v->type.kind == 'f')
			bad(p, "an integer value for '%s'", v->name);
		x = constant_expression(p);
	}
	memcpy(v->init + at, &x, bytes);
}

/* An address: name, name+4, generic(name). */
static void address_value(struct parser *p, struct var *v, uint64_t at)
{
	int generic = is(&p->lex.t, TK_WORD, "generic");
	if (generic) {
		advance(&p->lex);
		expect(&p->lex, '(');
	}
	struct name *x = p->lex.t.kind == TK_WORD ? find(p, p->lex.t.s, p->lex.t.n) : 0;
	if (x && x->kind == N_FUNC)
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "the address of function '%.*s'", x->n, x->s);
	if (!x || x->kind != N_VAR || (x->var->space != GLOBAL && x->var->space != CONSTANT))
		bad(p, "'%.*s' has no address that is known now", shown(&p->lex.t), p->lex.t.s);
	if (v->type.bits != 64 || v->type.kind == 'f')
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "an address in fewer than 64 bits");
	advance(&p->lex);
	if (generic)
		expect(&p->lex, ')');
	struct reloc *r = get(p, sizeof *r);
	r->of = x->var;
	r->at = at;
	r->bytes = 8;
	if (is_mark(&p->lex.t, '+') || is_mark(&p->lex.t, '-'))
		r->plus = (int64_t)constant_expression(p);
	r->next = v->relocs;
	v->relocs = r;
}

static void value(struct parser *p, struct var *v, uint64_t at)
{
	if (p->lex.t.kind == TK_WORD)
		address_value(p, v, at);
	else
		number_value(p, v, at);
}

/* The braces of an array with dimensions dim[0..n); what is not there is zero. */
static void values(struct parser *p, struct var *v, uint64_t at, uint64_t size, const uint64_t *dim, int n)
{
	uint64_t step = size / (dim[0] ? dim[0] : 1), i = 0;
	expect(&p->lex, '{');
	while (!is_mark(&p->lex.t, '}')) {
		if (i >= dim[0])
			bad(p, "too many values for '%s'", v->name);
		if (n > 1)
			values(p, v, at + i * step, step, dim + 1, n - 1);
		else
			value(p, v, at + i * step);
		i++;
		if (!accept(&p->lex, ','))
			break;
	}
	expect(&p->lex, '}');
}

/* Counts the values of an array whose size its initial value gives. */
static uint64_t count_values(struct parser *p)
{
	struct place before = here(p);
	uint64_t n = 0;
	int depth = 0;
	do {
		if (is_mark(&p->lex.t, '{') || is_mark(&p->lex.t, '('))
			depth++;
		if (is_mark(&p->lex.t, '}') || is_mark(&p->lex.t, ')'))
			depth--;
		if (p->lex.t.kind == TK_END)
			bad(p, "an initial value does not end");
		if (depth == 1 && (is_mark(&p->lex.t, '{') || is_mark(&p->lex.t, ',')))
			n++;
		advance(&p->lex);
	} while (depth > 0);
	back(p, &before);
	return n;
}

/* The dimensions after a name; [] first only. Returns how many. */
static int dimensions(struct parser *p, uint64_t dim[4])
{
	int n = 0;
	while (accept(&p->lex, '[')) {
		if (n == 4)
			wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "an array of more than 4 dimensions");
		if (is_mark(&p->lex.t, ']') && n == 0)
			dim[n++] = 0;
		else if ((dim[n++] = constant_expression(p)) == 0 || dim[n - 1] > (uint64_t)1 << 40)
			bad(p, "an array of such a size");
		expect(&p->lex, ']');
	}
	return n;
}

static uint32_t alignment(struct parser *p)
{
	uint32_t align = small_number(p, "alignment");
	if (align == 0 || (align & (align - 1)) || align > 1 << 16)
		bad(p, "an alignment of %u", align);
	return align;
}

/* parse_variable reads ".align 4 .f32 name[16] = …", all but the state space and
 * what follows. The name is declared. */
struct var *parse_variable(struct parser *p, enum space space, int external)
{
	struct var *v = get(p, sizeof *v);
	uint64_t dim[4] = {1}, unit;
	int n, elements = 1;
	v->space = space;
	v->align = accept_dot(&p->lex, "align") ? alignment(p) : 0;
	if (is(&p->lex.t, TK_DOT, "attribute"))
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".attribute");
	if (accept_dot(&p->lex, "v2"))
		elements = 2;
	else if (accept_dot(&p->lex, "v4"))
		elements = 4;
	if (is(&p->lex.t, TK_DOT, "texref") || is(&p->lex.t, TK_DOT, "samplerref") || is(&p->lex.t, TK_DOT, "surfref") ||
	    is(&p->lex.t, TK_DOT, "b128") || is(&p->lex.t, TK_DOT, "bf16") || is(&p->lex.t, TK_DOT, "f16x2"))
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".%.*s", shown(&p->lex.t), p->lex.t.s);
	if (!is_type(&p->lex.t, &v->type) || v->type.kind == 'p')
		bad(p, "'%.*s' is no type for a variable", shown(&p->lex.t), p->lex.t.s);
	advance(&p->lex);
	unit = v->type.bits / 8 * elements;
	while (space == PARAM && p->lex.t.kind == TK_DOT) { /* .ptr .global .align 4: what it points to */
		struct token t = p->lex.t;
		advance(&p->lex);
		if (is(&t, TK_DOT, "align"))
			alignment(p);
		else if (!is(&t, TK_DOT, "ptr") && !is(&t, TK_DOT, "global") && !is(&t, TK_DOT, "shared") && !is(&t, TK_DOT, "const") &&
		         !is(&t, TK_DOT, "local"))
			bad(p, "'.%.*s' of a parameter", shown(&t), t.s);
	}
	if (p->lex.t.kind != TK_WORD)
		bad(p, "'%.*s' is no name", shown(&p->lex.t), p->lex.t.s);
	v->name = arena_text(&p->program->arena, p->lex.t.s, p->lex.t.n);
	struct name *x = declare(p, &p->lex.t, N_VAR);
	x->var = v;
	advance(&p->lex);
	n = dimensions(p, dim);
	int sized = is_mark(&p->lex.t, '=');
	if (sized) {
		if (external || (space != GLOBAL && space != CONSTANT))
			bad(p, "an initial value for '%s'", v->name);
		if (elements > 1)
			wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, "an initial value of vectors");
		advance(&p->lex);
		if (n && !dim[0])
			dim[0] = count_values(p);
	}
	v->size = unit;
	for (int i = 0; i < (n ? n : 1); i++)
		if (dim[i] && v->size > ((uint64_t)1 << 40) / dim[i])
			bad(p, "'%s' is too large", v->name);
		else
			v->size *= dim[i];
	if (!v->size && !external)
		bad(p, "'%s' has no size", v->name);
	v->align = v->align ? v->align : unit;
	v->external = external;
	if (sized) {
		v->init = get(p, v->size);
		if (n)
			values(p, v, 0, v->size, dim, n);
		else
			value(p, v, 0);
	}
	return v;
}
