/* Words of a PTX text, one after the other. See lex.c. */
#ifndef GPURIG_LEX_H
#define GPURIG_LEX_H

#include "ptx.h"

#include <setjmp.h>

enum token_kind {
	TK_END,
	TK_WORD,   /* identifier, also %r1, $L and _ */
	TK_DOT,    /* .word, the text is without the dot */
	TK_INT,    /* value; is_unsigned after a U */
	TK_F32,    /* value: the bits of 0f… */
	TK_F64,    /* value: the bits of 0d… or of a decimal fraction */
	TK_STRING, /* the text is without its quotes */
	TK_MARK,   /* one character, or << and >>; mark has it */
};

enum { MARK_SHL = 256, MARK_SHR };

struct token {
	enum token_kind kind;
	const char *s;
	int n, mark, line;
	uint64_t value;
	int is_unsigned;
};

struct lexer {
	const char *at;
	int line;
	struct token t; /* the one that is looked at */
	struct mistake *mistake;
	jmp_buf out; /* where wrong() goes */
};

/* advance looks at the next token. */
void advance(struct lexer *l);

/* wrong ends the parse with a mistake at the token that is looked at. */
_Noreturn void wrong(struct lexer *l, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void wrong_at(struct lexer *l, int line, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* is says whether the token has a kind and a text. */
int is(const struct token *t, enum token_kind kind, const char *text);
int is_mark(const struct token *t, int mark);

/* accept takes a mark if it is next; expect insists. */
int accept(struct lexer *l, int mark);
void expect(struct lexer *l, int mark);
int accept_dot(struct lexer *l, const char *text);

/* shown returns a token's length for a message, "%.*s" with shown(t), t->s. */
int shown(const struct token *t);

#endif
