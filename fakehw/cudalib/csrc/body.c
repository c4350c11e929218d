/* The body of a function: declarations, labels, statements. */
#include "asm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* unsupported marks the function: it is parsed to its end, but never launched. */
void unsupported(struct parser *p, int line, const char *format, ...)
{
	char text[120];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (p->f->unsupported)
		return;
	p->f->unsupported = arena_text(&p->program->arena, text, strlen(text));
	p->f->unsupported_line = line;
	if (!p->f->unsupported)
		wrong(&p->lex, CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
}

struct ins *emit(struct parser *p, const struct ins *i)
{
	struct func *f = p->f;
	f->code = grow(p, f->code, f->ncode, &p->room_code, sizeof *f->code);
	f->code[f->ncode] = *i;
	return &f->code[f->ncode++];
}

/* .reg .f32 %f<9>, x; */
static void registers(struct parser *p)
{
	struct type type;
	if (is(&p->lex.t, TK_DOT, "v2") || is(&p->lex.t, TK_DOT, "v4") || is(&p->lex.t, TK_DOT, "b128") ||
	    is(&p->lex.t, TK_DOT, "bf16") || is(&p->lex.t, TK_DOT, "f16x2") || is(&p->lex.t, TK_DOT, "bf16x2"))
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".reg .%.*s", shown(&p->lex.t), p->lex.t.s);
	if (!is_type(&p->lex.t, &type) || type.bits == 8)
		bad(p, "'%.*s' is no type for a register", shown(&p->lex.t), p->lex.t.s);
	do {
		advance(&p->lex);
		struct token t = p->lex.t;
		if (t.kind != TK_WORD)
			bad(p, "'%.*s' is no name", shown(&t), t.s);
		advance(&p->lex);
		uint32_t count = 1;
		int range = accept(&p->lex, '<');
		if (range) {
			count = small_number(p, "number of registers");
			expect(&p->lex, '>');
		}
		if (count > MAX_REGISTERS || (p->declared += count) > MAX_REGISTERS)
			wrong(&p->lex, CUDA_ERROR_OUT_OF_MEMORY, "more than %d registers", MAX_REGISTERS);
		struct name *x = declare(p, &t, range ? N_RANGE : N_REGISTER);
		x->type = type;
		x->count = count;
		x->slots = get(p, (count ? count : 1) * sizeof *x->slots);
	} while (is_mark(&p->lex.t, ','));
	expect(&p->lex, ';');
}

static void local_variable(struct parser *p, enum space space)
{
	struct var *v = parse_variable(p, space, 0);
	if (space == LOCAL) {
		v->offset = (p->local_used + v->align - 1) / v->align * v->align;
		p->local_used = v->offset + v->size;
		if (p->local_used > 512 << 10)
			bad(p, "local memory of more than 512 KiB");
	}
	expect(&p->lex, ';');
}

static void label(struct parser *p, const struct token *t)
{
	declare(p, t, N_LABEL)->at = p->f->ncode;
	if (p->lex.t.kind == TK_DOT && (is(&p->lex.t, TK_DOT, "branchtargets") || is(&p->lex.t, TK_DOT, "calltargets") ||
	                                is(&p->lex.t, TK_DOT, "callprototype"))) {
		unsupported(p, t->line, ".%.*s", shown(&p->lex.t), p->lex.t.s);
		while (!is_mark(&p->lex.t, ';') && p->lex.t.kind != TK_END)
			advance(&p->lex);
		expect(&p->lex, ';');
	}
}

static void skip_statement(struct parser *p)
{
	for (int depth = 0; !is_mark(&p->lex.t, ';');) {
		depth += is_mark(&p->lex.t, '{') - is_mark(&p->lex.t, '}');
		if (p->lex.t.kind == TK_END || depth < 0)
			bad(p, "';' is missing before '%.*s'", shown(&p->lex.t), p->lex.t.s);
		advance(&p->lex);
	}
}

static void guard(struct parser *p, struct stmt *s)
{
	if (!accept(&p->lex, '@'))
		return;
	s->ins.guard = accept(&p->lex, '!') ? 2 : 1;
	struct type type = {0};
	if (p->lex.t.kind != TK_WORD || !find_register(p, &p->lex.t, &s->ins.p, &type) || type.kind != 'p')
		bad(p, "'%.*s' is no predicate", shown(&p->lex.t), p->lex.t.s);
	advance(&p->lex);
}

static void operands(struct parser *p, struct stmt *s)
{
	while (!is_mark(&p->lex.t, ';')) {
		if (s->n == MAX_OPERANDS)
			bad(p, "too many operands");
		parse_operand(p, &s->o[s->n++]);
		if (!accept(&p->lex, ','))
			break;
		if (is_mark(&p->lex.t, ';'))
			bad(p, "an operand is missing after ','");
	}
	expect(&p->lex, ';');
}

static void instruction(struct parser *p)
{
	struct stmt s = {.line = p->lex.t.line};
	guard(p, &s);
	s.name = p->lex.t;
	if (s.name.kind != TK_WORD)
		bad(p, "'%.*s' where an instruction should be", shown(&s.name), s.name.s);
	if (!known_opcode(&s.name))
		bad(p, "'%.*s' is no instruction", shown(&s.name), s.name.s);
	advance(&p->lex);
	while (p->lex.t.kind == TK_DOT) {
		struct type type;
		if (!is_type(&p->lex.t, &type) && !known_modifier(&p->lex.t))
			bad(p, "'.%.*s' is no modifier", shown(&p->lex.t), p->lex.t.s);
		if (s.nmods == MAX_MODS)
			bad(p, "too many modifiers");
		s.mods[s.nmods++] = p->lex.t;
		advance(&p->lex);
	}
	if (!has_decoder(&s.name)) { /* perhaps with operands of a form of their own */
		unsupported(p, s.line, "%.*s", shown(&s.name), s.name.s);
		skip_statement(p);
		advance(&p->lex);
		return;
	}
	operands(p, &s);
	s.ins.line = s.line;
	decode(p, &s);
}

/* A word and a colon are a label; the lexer stands behind the word. */
static int is_label(struct parser *p)
{
	const char *s = p->lex.at;
	return s[strspn(s, " \t")] == ':';
}

static void block(struct parser *p)
{
	expect(&p->lex, '{');
	while (!accept(&p->lex, '}')) {
		struct token t = p->lex.t;
		if (t.kind == TK_END)
			bad(p, "the body of '%s' does not end", p->f->name);
		if (is_mark(&t, '{')) {
			push_scope(p);
			block(p);
			pop_scope(p);
		} else if (accept(&p->lex, ';')) {
			continue;
		} else if (is(&t, TK_DOT, "loc") || is(&t, TK_DOT, "file")) {
			skip_line(p);
		} else if (accept_dot(&p->lex, "reg")) {
			registers(p);
		} else if (accept_dot(&p->lex, "shared")) {
			local_variable(p, SHARED);
		} else if (accept_dot(&p->lex, "local")) {
			local_variable(p, LOCAL);
		} else if (accept_dot(&p->lex, "pragma")) {
			skip_statement(p);
		} else if (accept_dot(&p->lex, "param")) { /* of a call */
			unsupported(p, t.line, ".param inside a function");
			local_variable(p, PARAM);
		} else if (t.kind == TK_DOT && (is(&t, TK_DOT, "global") || is(&t, TK_DOT, "const"))) {
			unsupported(p, t.line, ".%.*s inside a function", shown(&t), t.s);
			skip_statement(p);
		} else if (t.kind == TK_WORD && is_label(p)) {
			advance(&p->lex);
			advance(&p->lex);
			label(p, &t);
		} else {
			instruction(p);
		}
	}
}

void parse_body(struct parser *p)
{
	struct func *f = p->f;
	block(p);
	struct ins end = {.op = OP_EXIT, .line = p->lex.t.line};
	emit(p, &end);
	f->shared = p->shared_used;
	f->local = p->local_used;
	uint32_t align = f->dynamic_align ? f->dynamic_align : 1;
	uint64_t start = (p->shared_used + align - 1) / align * align;
	for (int i = 0; i < f->ndynamic; i++)
		f->file[f->dynamic[i]] = start + f->dynamic_plus[i];
	if (f->ndynamic)
		f->shared = start;
}
