/*
 * The lexer: comments, identifiers, directives, numbers and marks as the PTX
 * manual, chapter 4, has them. C preprocessor lines are not known, but for
 * "# line", which nobody writes into a text that is handed to the driver.
 */
#include "lex.h"

#include "cu.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void give_up(struct lexer *l, int line, int code, const char *format, va_list args)
{
	l->mistake->code = code;
	l->mistake->line = line;
	vsnprintf(l->mistake->text, sizeof l->mistake->text, format, args);
	longjmp(l->out, 1);
}

void wrong(struct lexer *l, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	give_up(l, l->t.line, code, format, args);
}

void wrong_at(struct lexer *l, int line, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	give_up(l, line, code, format, args);
}

int shown(const struct token *t) { return t->n > 60 ? 60 : t->n; }

int is(const struct token *t, enum token_kind kind, const char *text)
{
	return t->kind == kind && (size_t)t->n == strlen(text) && !memcmp(t->s, text, t->n);
}

int is_mark(const struct token *t, int mark) { return t->kind == TK_MARK && t->mark == mark; }

int accept(struct lexer *l, int mark)
{
	if (!is_mark(&l->t, mark))
		return 0;
	advance(l);
	return 1;
}

void expect(struct lexer *l, int mark)
{
	if (!accept(l, mark))
		wrong(l, CUDA_ERROR_INVALID_PTX, "'%c' is missing before '%.*s'", mark, shown(&l->t), l->t.s);
}

int accept_dot(struct lexer *l, const char *text)
{
	if (!is(&l->t, TK_DOT, text))
		return 0;
	advance(l);
	return 1;
}

static void skip_blanks(struct lexer *l)
{
	for (;;) {
		const char *p = l->at;
		if (*p == '\n') {
			l->line++;
			l->at++;
		} else if (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\f' || *p == '\v') {
			l->at++;
		} else if (p[0] == '/' && p[1] == '/') {
			l->at += strcspn(p, "\n");
		} else if (p[0] == '/' && p[1] == '*') {
			const char *end = strstr(p + 2, "*/");
			if (!end)
				wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "a comment does not end");
			for (; l->at < end + 2; l->at++)
				l->line += *l->at == '\n';
		} else {
			return;
		}
	}
}

static int follows(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static void word(struct lexer *l, const char *s)
{
	const char *p = s + 1;
	while (follows(*p))
		p++;
	if (p == s + 1 && (*s == '%' || *s == '$'))
		wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "'%c' alone is no name", *s);
	l->t.kind = TK_WORD;
	l->t.s = s;
	l->t.n = p - s;
	l->at = p;
}

/* A directive or a modifier: .b32, .L2::128B, .1d. */
static void dot(struct lexer *l, const char *s)
{
	const char *p = s + 1;
	while (follows(*p) || (p[0] == ':' && p[1] == ':' && p > s + 1))
		p += *p == ':' ? 2 : 1;
	l->t.kind = p > s + 1 ? TK_DOT : TK_MARK;
	l->t.mark = '.';
	l->t.s = p > s + 1 ? s + 1 : s;
	l->t.n = p > s + 1 ? p - s - 1 : 1;
	l->at = p;
}

static uint64_t hexadecimal(struct lexer *l, const char *s, int digits)
{
	uint64_t v = 0;
	for (int i = 0; i < digits; i++) {
		if (!isxdigit((unsigned char)s[i]))
			wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "a floating-point constant needs %d hexadecimal digits", digits);
		v = v << 4 | (unsigned)(isdigit((unsigned char)s[i]) ? s[i] - '0' : (s[i] | 32) - 'a' + 10);
	}
	return v;
}

static int is_fraction(const char *s)
{
	const char *p = s;
	while (isdigit((unsigned char)*p))
		p++;
	if (*p == '.')
		return isdigit((unsigned char)p[1]) || !follows(p[1]);
	if ((*p | 32) != 'e')
		return 0;
	p += p[1] == '+' || p[1] == '-' ? 2 : 1;
	return isdigit((unsigned char)*p);
}

static void number(struct lexer *l, const char *s)
{
	char *end;
	int digits = s[0] == '0' && (s[1] | 32) == 'f' ? 8 : s[0] == '0' && (s[1] | 32) == 'd' ? 16 : 0;
	l->t.s = s;
	if (digits) {
		l->t.kind = digits == 8 ? TK_F32 : TK_F64;
		l->t.value = hexadecimal(l, s + 2, digits);
		end = (char *)s + 2 + digits;
	} else if (is_fraction(s)) {
		double d = strtod(s, &end);
		l->t.kind = TK_F64;
		memcpy(&l->t.value, &d, sizeof d);
	} else {
		int binary = s[0] == '0' && (s[1] | 32) == 'b';
		errno = 0;
		l->t.kind = TK_INT;
		l->t.value = strtoull(binary ? s + 2 : s, &end, binary ? 2 : 0);
		if (errno || (binary && end == s + 2))
			wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "an integer does not fit 64 bits");
		l->t.is_unsigned = *end == 'U';
		end += *end == 'U';
	}
	if (follows(*end))
		wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "'%.*s' is no number", (int)(end - s + 1), s);
	l->t.n = end - s;
	l->at = end;
}

static void string(struct lexer *l, const char *s)
{
	const char *p = s + 1;
	while (*p && *p != '"' && *p != '\n')
		p += *p == '\\' && p[1] && p[1] != '\n' ? 2 : 1;
	if (*p != '"')
		wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, "a string does not end");
	l->t.kind = TK_STRING;
	l->t.s = s + 1;
	l->t.n = p - s - 1;
	l->at = p + 1;
}

static void mark(struct lexer *l, const char *s)
{
	l->t.kind = TK_MARK;
	l->t.s = s;
	l->t.n = 1;
	l->t.mark = *s;
	if ((s[0] == '<' || s[0] == '>') && s[1] == s[0]) {
		l->t.n = 2;
		l->t.mark = *s == '<' ? MARK_SHL : MARK_SHR;
	} else if (!strchr("{}()[]<>,;:@!+-*/%&|^~=?", *s)) {
		wrong_at(l, l->line, CUDA_ERROR_INVALID_PTX, isprint((unsigned char)*s) ? "unexpected '%c'" : "unexpected byte %#x",
		         (unsigned char)*s);
	}
	l->at = s + l->t.n;
}

void advance(struct lexer *l)
{
	skip_blanks(l);
	const char *s = l->at;
	l->t = (struct token){.line = l->line, .s = s};
	if (!*s) {
		l->t.s = "end of text";
		l->t.n = strlen(l->t.s);
	} else if (isalpha((unsigned char)*s) || *s == '_' || *s == '$' || (*s == '%' && follows(s[1]) && !isdigit((unsigned char)s[1]))) {
		word(l, s);
	} else if (*s == '.') {
		dot(l, s);
	} else if (isdigit((unsigned char)*s)) {
		number(l, s);
	} else if (*s == '"') {
		string(l, s);
	} else {
		mark(l, s);
	}
}
