/*
 * What the parts of the parser share: names and scopes (names.c), declarations
 * (parse.c), bodies of functions (body.c), operands (operand.c), and instructions
 * (decode*.c).
 */
#ifndef GPURIG_ASM_H
#define GPURIG_ASM_H

#include "cu.h"
#include "lex.h"

enum { BUCKETS = 61, MAX_MODS = 12, MAX_OPERANDS = 8, MAX_SLOTS = 1 << 20, MAX_REGISTERS = 1 << 20, MAX_DEPTH = 64 };

struct name {
	struct name *next;
	const char *s;
	int n;
	enum { N_REGISTER, N_RANGE, N_VAR, N_LABEL, N_FUNC } kind;
	struct type type;
	uint32_t count; /* of a range */
	uint32_t *slots; /* slot+1 of each register, 0: not used yet */
	struct var *var;
	uint32_t at; /* of a label: the instruction */
};

struct scope {
	struct scope *up;
	struct name *bucket[BUCKETS];
	struct jump *jumps; /* to labels that were not seen yet */
};

struct jump {
	struct jump *next;
	const char *s;
	int n, line;
	uint32_t at;
};

/* A slot that holds a number, found by it. */
struct number {
	struct number *next;
	uint64_t value;
	uint32_t slot;
};

/* A shared variable that a function uses, and where in its block. */
struct placed {
	struct placed *next;
	const struct var *var;
	uint64_t offset;
};

struct parser {
	struct lexer lex;
	struct program *program;
	const struct limits *limits;
	struct scope *scope, *module;
	int depth;
	uint32_t declared; /* registers */
	/* of the function at hand */
	struct func *f;
	uint32_t room_code, room_file;
	struct number *numbers[BUCKETS];
	struct placed *shared;
	uint64_t shared_used, local_used;
	uint32_t special_slot[SR_COUNT]; /* slot+1 */
	uint32_t carry; /* slot+1 of the carry flag */
	int room_specials;
};

struct operand {
	enum {
		O_NONE, O_REG, O_INT, O_FLOAT, O_VAR, O_LABEL, O_VECTOR, O_ADDRESS, O_SINK, O_SPECIAL
	} kind;
	int negated; /* !p */
	struct type type;
	uint32_t slot;
	uint64_t value;
	int is_f32;
	struct var *var;
	int64_t plus;
	const char *name;
	int length;
	int special;
	int n; /* elements */
	struct {
		uint32_t slot;
		struct type type;
		int sink, constant;
		uint64_t value;
	} v[4];
	int has_pair; /* p|q */
	int pair_sink;
	uint32_t pair;
	int space_known; /* of an address that a variable begins */
};

/* A statement, before it is an instruction. */
struct stmt {
	struct token name;
	struct token mods[MAX_MODS];
	int nmods, at; /* modifiers taken so far */
	struct operand o[MAX_OPERANDS];
	int n, line;
	struct ins ins;
};

#define bad(p, ...) wrong(&(p)->lex, CUDA_ERROR_INVALID_PTX, __VA_ARGS__)
#define bad_at(p, line, ...) wrong_at(&(p)->lex, line, CUDA_ERROR_INVALID_PTX, __VA_ARGS__)

/* names.c */
void *get(struct parser *p, size_t n);
void *grow(struct parser *p, void *have, uint32_t used, uint32_t *room, size_t size);
void push_scope(struct parser *p);
void pop_scope(struct parser *p);
struct name *find(struct parser *p, const char *s, int n);
struct name *declare(struct parser *p, const struct token *t, int kind);
uint32_t new_slot(struct parser *p, uint64_t initially);
uint32_t number_slot(struct parser *p, uint64_t value);
uint32_t var_slot(struct parser *p, struct var *v, int64_t plus, int line);
uint32_t special_slot(struct parser *p, int which);
uint32_t carry_slot(struct parser *p);
int find_register(struct parser *p, const struct token *t, uint32_t *slot, struct type *type);

/* parse.c */
int is_type(const struct token *t, struct type *type);
uint64_t constant_expression(struct parser *p);
uint32_t small_number(struct parser *p, const char *what);
struct var *parse_variable(struct parser *p, enum space space, int external);
void skip_line(struct parser *p);

/* body.c */
void parse_body(struct parser *p);
void unsupported(struct parser *p, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* operand.c */
void parse_operand(struct parser *p, struct operand *o);
int find_special(const struct token *t, const struct token *part);
struct type special_type(int which);

/* decode.c: what an instruction's name and modifiers say. */
void decode(struct parser *p, struct stmt *s);
int known_opcode(const struct token *t);
int has_decoder(const struct token *t);
int known_modifier(const struct token *t);
struct ins *emit(struct parser *p, const struct ins *i);

/* For the decoders: take a modifier if it is next. */
int mod(struct stmt *s, const char *text);
struct type need_type(struct parser *p, struct stmt *s, const char *kinds);
int take_type(struct stmt *s, struct type *type);
void need_operands(struct parser *p, struct stmt *s, int least, int most);
void no_more_mods(struct parser *p, struct stmt *s);
/* The slots of operands, checked against a type. */
uint32_t source(struct parser *p, struct stmt *s, int n, struct type want, int relaxed);
uint32_t destination(struct parser *p, struct stmt *s, int n, struct type want, int relaxed);
uint32_t predicate(struct parser *p, struct stmt *s, int n, int write);
struct stmt *not_here(struct parser *p, struct stmt *s, const char *why);

typedef int (*decoder)(struct parser *p, struct stmt *s);
extern const struct opcode {
	const char *name;
	decoder decode;
} memory_opcodes[], control_opcodes[], arithmetic_opcodes[];

/* decode_move.c */
int d_setp(struct parser *p, struct stmt *s);
int d_set(struct parser *p, struct stmt *s);
int d_mov(struct parser *p, struct stmt *s);
int d_cvt(struct parser *p, struct stmt *s);

/* alu*.c: functions for arithmetic, 0 where there is none for the type. */
alu alu_find(const char *name, struct type type);

#endif
