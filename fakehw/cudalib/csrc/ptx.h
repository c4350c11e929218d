/*
 * PTX text, parsed strictly into code that exec.c interprets.
 *
 * A module is parsed once and never changed afterwards, but for the addresses of
 * its variables. Everything of it lives in one arena.
 */
#ifndef GPURIG_PTX_H
#define GPURIG_PTX_H

#include <stddef.h>
#include <stdint.h>

enum space { GENERIC, GLOBAL, SHARED, LOCAL, CONSTANT, PARAM };

/* A type of PTX: kind b, u, s, f or p (predicate), and its width. */
struct type {
	char kind;
	uint8_t bits; /* 1 for predicates */
};

/* Memory that is freed as a whole. */
struct arena {
	struct chunk *first;
	size_t used; /* in all */
};
void *arena_get(struct arena *a, size_t n); /* zeroed; 0 without memory */
char *arena_text(struct arena *a, const char *s, size_t n);
void arena_free(struct arena *a);

/* A variable of a module or of a function. */
struct var {
	struct var *next;
	const char *name;
	enum space space;
	struct type type;
	uint32_t align;
	uint64_t size;   /* bytes; 0: an array without size (extern) */
	int external;    /* defined elsewhere */
	uint64_t offset; /* in the module's block, the parameters or the local memory */
	char *init;      /* size bytes, or 0 */
	struct reloc *relocs;
};

/* An initial value that is an address: of a variable, plus a number. */
struct reloc {
	struct reloc *next;
	uint64_t at;
	uint8_t bytes;
	const struct var *of;
	int64_t plus;
};

struct ins;
typedef void (*alu)(uint64_t *r, const struct ins *i);

/* What ins.op says when ins.fn is 0. */
enum op {
	OP_EXIT, OP_BRA, OP_LD, OP_ST, OP_ATOM, OP_BAR, OP_ARRIVE, OP_WARPBAR, OP_SHFL, OP_VOTE, OP_MATCH, OP_REDUX,
	OP_TRAP, OP_TOGENERIC, OP_FROMGENERIC, OP_ISSPACE, OP_CLOCK, OP_NOP,
};

/* Modifiers of arithmetic. */
enum { MOD_FTZ = 1, MOD_SAT = 2 };
enum round { RN, RZ, RM, RP };

/* Addresses that an instruction reached last: [lo, hi), and where they are here. */
struct seen {
	uint64_t lo, hi;
	char *at; /* of lo */
	int writable;
};

/* One instruction. Operands are slots of the thread's file: registers, constants
 * and special registers alike. */
struct ins {
	alu fn;
	uint8_t op, guard; /* guard: 0 none, 1 @p, 2 @!p */
	uint8_t space, mods, round, how; /* how: comparison, atomic operation, mode … */
	uint8_t n;         /* elements of a vector, operands that are there */
	struct type type, from;
	uint8_t wide;      /* bits of the register that is written */
	uint32_t p, d, d2, a, b, c, e;
	uint32_t v[4];
	int64_t imm;
	uint32_t target;
	int line;
	struct seen seen;
};

/* A special register that a function reads, and its slot. */
struct special {
	uint8_t which;
	uint32_t slot;
};
enum special_register {
	SR_TID_X, SR_TID_Y, SR_TID_Z, SR_NTID_X, SR_NTID_Y, SR_NTID_Z, SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_NCTAID_X,
	SR_NCTAID_Y, SR_NCTAID_Z, SR_LANEID, SR_WARPID, SR_NWARPID, SR_SMID, SR_NSMID, SR_GRIDID, SR_WARPSZ, SR_LANEMASK_EQ,
	SR_LANEMASK_LE, SR_LANEMASK_LT, SR_LANEMASK_GE, SR_LANEMASK_GT, SR_DYNAMIC_SMEM, SR_TOTAL_SMEM, SR_CLOCK, SR_CLOCK64,
	SR_CLOCK_HI, SR_GLOBALTIMER, SR_COUNT,
};

struct func {
	struct func *next;
	const char *name;
	int is_entry;
	struct var *params; /* in order; offsets set */
	int nparams;
	uint32_t param_size;
	struct ins *code; /* ends with OP_EXIT */
	uint32_t ncode;
	uint64_t *file; /* what a thread's file begins as */
	uint32_t nslots;
	uint32_t nregs; /* declared and used, of 32 bits */
	struct special *specials;
	int nspecials;
	struct fixup *fixups; /* slots that hold addresses of module variables */
	uint32_t shared, local; /* bytes */
	uint32_t *dynamic; /* slots that hold addresses after the static shared memory */
	uint64_t *dynamic_plus;
	int ndynamic;
	uint32_t dynamic_align;
	int waits; /* has barriers or warp operations */
	uint32_t maxntid[3], reqntid[3]; /* 0: not given */
	const char *unsupported; /* what this library has not: it cannot be launched */
	int unsupported_line;
};

/* A slot that is the address of a module's variable, plus a number. */
struct fixup {
	struct fixup *next;
	uint32_t slot;
	const struct var *of;
	int64_t plus;
};

struct program {
	struct arena arena;
	int version; /* 78: PTX 7.8 */
	int target;  /* 80: sm_80 */
	char variant; /* a, f or 0 */
	struct var *globals, *constants;
	uint64_t global_size, constant_size;
	struct func *funcs;
	uint64_t base[2]; /* of the globals' and the constants' block, once they have one */
};

/* What the device and driver allow. */
struct limits {
	int version, target; /* newest PTX; 80 for compute capability 8.0 */
	uint32_t shared;     /* static bytes of one block */
};

/* What is wrong with a text, and where. */
struct mistake {
	int code; /* of CUDA */
	int line; /* 0: the whole */
	char text[200];
};

/* ptx_parse returns 0 and the mistake, or the program, to be freed. The text ends
 * with a NUL. */
struct program *ptx_parse(const char *text, const struct limits *limits, struct mistake *m);
void ptx_free(struct program *p);
struct func *ptx_entry(struct program *p, const char *name);
struct var *ptx_variable(struct program *p, const char *name);

/* ptx_place tells a program where its blocks of variables are. */
void ptx_place(struct program *p, uint64_t globals, uint64_t constants);

#endif
