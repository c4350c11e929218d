/*
 * A module: header, variables, functions. Reference: the PTX manual of CUDA,
 * chapters 4 to 11. What is PTX but not known here is CUDA_ERROR_NOT_SUPPORTED:
 * in the body of a function only that function cannot be launched, elsewhere the
 * module does not load.
 */
#include "asm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Targets, and the first PTX version that has each. */
static const struct {
	int sm, version;
} targets[] = {
	{20, 20}, {21, 20}, {30, 30}, {32, 40}, {35, 31}, {37, 41}, {50, 40}, {52, 41}, {53, 42}, {60, 50}, {61, 50},
	{62, 50}, {70, 60}, {72, 61}, {75, 63}, {80, 70}, {86, 71}, {87, 74}, {88, 90}, {89, 78}, {90, 78}, {100, 86},
	{101, 86}, {103, 88}, {110, 90}, {120, 87}, {121, 88},
};

static void version(struct parser *p)
{
	if (!accept_dot(&p->lex, "version"))
		bad(p, "a module begins with .version, not '%.*s'", shown(&p->lex.t), p->lex.t.s);
	struct token *t = &p->lex.t;
	int major, minor, n = 0;
	char text[16] = "";
	if (t->kind == TK_F64 && t->n < (int)sizeof text)
		memcpy(text, t->s, t->n);
	if (sscanf(text, "%2d.%1d%n", &major, &minor, &n) != 2 || n != t->n)
		bad(p, "'%.*s' is no version", shown(t), t->s);
	p->program->version = major * 10 + minor;
	if (p->program->version > p->limits->version)
		wrong(&p->lex, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "Unsupported .version %d.%d; current version is '%d.%d'", major, minor,
		      p->limits->version / 10, p->limits->version % 10);
	if (p->program->version < 20)
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".version %d.%d", major, minor);
	advance(&p->lex);
}

static void one_target(struct parser *p)
{
	struct token *t = &p->lex.t;
	int sm = 0, n = 0;
	char text[24] = "", variant = 0;
	if (t->kind == TK_WORD && t->n < (int)sizeof text)
		memcpy(text, t->s, t->n);
	if (!strcmp(text, "texmode_unified") || !strcmp(text, "texmode_independent") || !strcmp(text, "debug"))
		return;
	if (!strcmp(text, "map_f64_to_f32"))
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".target %s", text);
	if (sscanf(text, "sm_%3d%n", &sm, &n) == 1 && n == t->n - 1 && (text[n] == 'a' || text[n] == 'f'))
		variant = text[n++];
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		if (targets[i].sm == sm && n == t->n && !p->program->target) {
			if (p->program->version < targets[i].version)
				bad(p, "PTX .version %d.%d does not support .target %s", p->program->version / 10, p->program->version % 10, text);
			p->program->target = sm;
			p->program->variant = variant;
			return;
		}
	bad(p, "'%.*s' is no target", shown(t), t->s);
}

/* A plain target runs on every later device, sm_90a on its own only, sm_100f on
 * the later ones of its family. */
static void target(struct parser *p)
{
	if (!accept_dot(&p->lex, "target"))
		bad(p, ".target is missing after .version");
	do {
		one_target(p);
		advance(&p->lex);
	} while (accept(&p->lex, ','));
	struct program *x = p->program;
	int device = p->limits->target;
	if (!x->target)
		bad(p, ".target names no architecture");
	if (x->target > device || (x->variant == 'a' && x->target != device) || (x->variant == 'f' && x->target / 10 != device / 10))
		bad(p, "SM version specified by .target is not that of this device: sm_%d%.1s, not sm_%d", x->target,
		    x->variant ? &x->variant : "", device);
}

void skip_line(struct parser *p)
{
	int line = p->lex.t.line;
	while (p->lex.t.kind != TK_END && p->lex.t.line == line)
		advance(&p->lex);
}

static void skip_braces(struct parser *p)
{
	int depth = 0, line = p->lex.t.line;
	do {
		depth += is_mark(&p->lex.t, '{') - is_mark(&p->lex.t, '}');
		if (p->lex.t.kind == TK_END)
			bad_at(p, line, "a block does not end");
		advance(&p->lex);
	} while (depth > 0);
}

static void parameters(struct parser *p)
{
	struct func *f = p->f;
	struct var **last = &f->params;
	uint64_t at = 0;
	if (!accept(&p->lex, '('))
		return;
	while (!is_mark(&p->lex.t, ')')) {
		if (!accept_dot(&p->lex, "param"))
			bad(p, "'%.*s' where a .param should be", shown(&p->lex.t), p->lex.t.s);
		struct var *v = parse_variable(p, PARAM, 0);
		v->offset = at = (at + v->align - 1) / v->align * v->align;
		at += v->size;
		if (v->size > 32764 || at > 32764)
			bad(p, "Entry function '%s' uses too much parameter space (%#llx bytes)", f->name, (unsigned long long)at);
		*last = v;
		last = &v->next;
		f->nparams++;
		if (!accept(&p->lex, ','))
			break;
	}
	expect(&p->lex, ')');
	f->param_size = at;
}

static void three(struct parser *p, uint32_t *dim)
{
	dim[1] = dim[2] = 1;
	for (int i = 0; i < 3; i++) {
		if ((dim[i] = small_number(p, "number of threads")) == 0)
			bad(p, "no threads at all");
		if (i < 2 && !accept(&p->lex, ','))
			break;
	}
}

static void tuning(struct parser *p)
{
	while (p->lex.t.kind == TK_DOT) {
		struct token t = p->lex.t;
		advance(&p->lex);
		if (is(&t, TK_DOT, "maxntid")) {
			three(p, p->f->maxntid);
		} else if (is(&t, TK_DOT, "reqntid")) {
			three(p, p->f->reqntid);
		} else if (is(&t, TK_DOT, "minnctapersm") || is(&t, TK_DOT, "maxnctapersm") || is(&t, TK_DOT, "maxnreg")) {
			small_number(p, "number");
		} else if (is(&t, TK_DOT, "pragma")) {
			if (p->lex.t.kind != TK_STRING)
				bad(p, "'%.*s' where a string should be", shown(&p->lex.t), p->lex.t.s);
			advance(&p->lex);
			expect(&p->lex, ';');
		} else if (is(&t, TK_DOT, "noreturn")) {
			continue;
		} else {
			wrong_at(&p->lex, t.line, CUDA_ERROR_NOT_SUPPORTED, ".%.*s of a function", shown(&t), t.s);
		}
	}
}

static void function(struct parser *p, int is_entry)
{
	if (!is_entry && accept(&p->lex, '(')) /* what it returns */
		for (; !accept(&p->lex, ')'); advance(&p->lex))
			if (p->lex.t.kind == TK_END)
				bad(p, "a list does not end");
	struct token t = p->lex.t;
	if (t.kind != TK_WORD)
		bad(p, "'%.*s' is no name of a function", shown(&t), t.s);
	struct name *known = find(p, t.s, t.n);
	if (!known)
		declare(p, &t, N_FUNC);
	else if (known->kind != N_FUNC || (is_entry && ptx_entry(p->program, arena_text(&p->program->arena, t.s, t.n))))
		bad(p, "'%.*s' is declared twice", shown(&t), t.s);
	advance(&p->lex);
	struct func *f = p->f = get(p, sizeof *f);
	f->name = arena_text(&p->program->arena, t.s, t.n);
	f->is_entry = is_entry;
	p->room_code = p->room_file = 0;
	memset(p->numbers, 0, sizeof p->numbers);
	memset(p->special_slot, 0, sizeof p->special_slot);
	p->shared = 0;
	p->carry = 0;
	p->shared_used = p->local_used = 0;
	push_scope(p);
	if (is_entry) {
		parameters(p);
		tuning(p);
	} else {
		while (!is_mark(&p->lex.t, '{') && !is_mark(&p->lex.t, ';') && p->lex.t.kind != TK_END)
			advance(&p->lex);
	}
	if (accept(&p->lex, ';')) {
		p->f = 0; /* declared only */
	} else if (!is_mark(&p->lex.t, '{')) {
		bad(p, "'%.*s' where the body of '%s' should be", shown(&p->lex.t), p->lex.t.s, f->name);
	} else if (is_entry) {
		parse_body(p);
	} else {
		skip_braces(p); /* calls are not known, so nobody gets there */
		p->f = 0;
	}
	if (p->f) {
		f->next = p->program->funcs;
		p->program->funcs = f;
		pop_scope(p);
		p->f = 0;
	} else {
		p->scope = p->scope->up;
		p->depth--;
	}
}

static void variables(struct parser *p, enum space space, int external)
{
	struct program *x = p->program;
	if (space != SHARED && external)
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".extern variables");
	struct var *v = parse_variable(p, space, external);
	if (space != SHARED) {
		uint64_t *size = space == GLOBAL ? &x->global_size : &x->constant_size;
		struct var **list = space == GLOBAL ? &x->globals : &x->constants;
		v->offset = (*size + v->align - 1) / v->align * v->align;
		*size = v->offset + v->size;
		v->next = *list;
		*list = v;
		if (space == CONSTANT && *size > 65536)
			bad(p, "file uses too much global constant data (%#llx bytes, 0x10000 max)", (unsigned long long)*size);
	}
	expect(&p->lex, ';');
}

static void directive(struct parser *p)
{
	int external = 0;
	for (;;) {
		if (accept_dot(&p->lex, "extern"))
			external = 1;
		else if (!accept_dot(&p->lex, "visible") && !accept_dot(&p->lex, "weak"))
			break;
	}
	struct token t = p->lex.t;
	if (t.kind != TK_DOT)
		bad(p, "'%.*s' where a directive should be", shown(&t), t.s);
	if (is(&t, TK_DOT, "file") || is(&t, TK_DOT, "loc")) {
		skip_line(p);
		return;
	}
	advance(&p->lex);
	if (is(&t, TK_DOT, "entry"))
		function(p, 1);
	else if (is(&t, TK_DOT, "func"))
		function(p, 0);
	else if (is(&t, TK_DOT, "global"))
		variables(p, GLOBAL, external);
	else if (is(&t, TK_DOT, "const"))
		variables(p, CONSTANT, external);
	else if (is(&t, TK_DOT, "shared"))
		variables(p, SHARED, external);
	else if (is(&t, TK_DOT, "section"))
		skip_braces((advance(&p->lex), p));
	else if (is(&t, TK_DOT, "pragma"))
		wrong_at(&p->lex, t.line, CUDA_ERROR_NOT_SUPPORTED, ".pragma of a module");
	else if (is(&t, TK_DOT, "alias") || is(&t, TK_DOT, "common") || is(&t, TK_DOT, "tex") || is(&t, TK_DOT, "reg") || is(&t, TK_DOT, "local"))
		wrong_at(&p->lex, t.line, CUDA_ERROR_NOT_SUPPORTED, ".%.*s of a module", shown(&t), t.s);
	else
		bad_at(p, t.line, "'.%.*s' is no directive", shown(&t), t.s);
}

static int whole(struct parser *p)
{
	if (setjmp(p->lex.out))
		return 0;
	push_scope(p);
	p->module = p->scope;
	advance(&p->lex);
	version(p);
	target(p);
	if (accept_dot(&p->lex, "address_size") && small_number(p, "size of addresses") != 64)
		wrong(&p->lex, CUDA_ERROR_NOT_SUPPORTED, ".address_size other than 64");
	while (p->lex.t.kind != TK_END)
		directive(p);
	return 1;
}

struct program *ptx_parse(const char *text, const struct limits *limits, struct mistake *m)
{
	struct program *x = calloc(1, sizeof *x);
	struct parser *p = calloc(1, sizeof *p);
	int ok = 0;
	*m = (struct mistake){.code = CUDA_ERROR_OUT_OF_MEMORY, .text = "out of memory"};
	if (x && p) {
		p->program = x;
		p->limits = limits;
		p->lex.mistake = m;
		p->lex.at = text;
		p->lex.line = 1;
		ok = whole(p);
	}
	free(p);
	if (ok)
		return x;
	ptx_free(x);
	return 0;
}

void ptx_free(struct program *p)
{
	if (p)
		arena_free(&p->arena);
	free(p);
}

struct func *ptx_entry(struct program *p, const char *name)
{
	for (struct func *f = p->funcs; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	return 0;
}

struct var *ptx_variable(struct program *p, const char *name)
{
	for (int i = 0; i < 2; i++)
		for (struct var *v = i ? p->constants : p->globals; v; v = v->next)
			if (!strcmp(v->name, name))
				return v;
	return 0;
}

void ptx_place(struct program *p, uint64_t globals, uint64_t constants)
{
	p->base[0] = globals;
	p->base[1] = constants;
	for (struct func *f = p->funcs; f; f = f->next)
		for (struct fixup *x = f->fixups; x; x = x->next)
			f->file[x->slot] = (x->of->space == GLOBAL ? globals : constants) + x->of->offset + (uint64_t)x->plus;
}
