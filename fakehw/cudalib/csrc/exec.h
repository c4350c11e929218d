/*
 * Running a kernel on the CPU. Blocks run one after the other; the threads of a
 * block take turns wherever they wait for each other. Nothing else is promised by
 * the programming model, and the same launch always does the same.
 */
#ifndef GPURIG_EXEC_H
#define GPURIG_EXEC_H

#include "ptx.h"

enum { WARP = 32 };

enum state { RUNNING, AT_BARRIER, AT_WARP, DONE };

struct thread {
	uint64_t *r; /* its file of slots */
	char *local;
	uint32_t pc;
	enum state state;
	uint32_t barrier, expected; /* AT_BARRIER; expected 0: all threads */
	uint32_t index;             /* in its block */
};

struct launch {
	struct func *f;
	uint32_t grid[3], block[3];
	uint32_t dynamic;   /* bytes of shared memory besides the static ones */
	const char *params; /* f->param_size bytes */
	uint32_t sms;
	uint64_t gridid, steps; /* steps: most instructions in all; 0: no limit */
	/* Where generic addresses of shared and local memory begin. */
	uint64_t shared_window, local_window;
	/* find says where an address of global memory is here. 0: nowhere. */
	int (*find)(void *of, uint64_t addr, struct seen *out);
	void *of;
};

/* What went wrong: a code of CUDA and a line for the log. */
struct fault {
	int code;
	int line;
	char text[160];
};

struct exec {
	const struct launch *l;
	struct func *f;
	struct ins *code; /* a copy: instructions remember addresses */
	struct thread *threads;
	uint32_t n;
	char *shared;
	uint32_t shared_size;
	uint32_t arrived[16]; /* threads that arrived at a barrier without waiting */
	uint64_t left; /* instructions */
	uint64_t clock;
	struct fault *fault;
};

enum { WINDOW = 16 << 20 };

/* exec_launch runs all blocks. Returns 0, or a code with the fault filled in. */
int exec_launch(const struct launch *l, struct fault *fault);

/* Between exec.c, block.c and warp.c. */
void run_thread(struct exec *x, struct thread *t, uint32_t slice);
void run_block(struct exec *x);
int step_warps(struct exec *x); /* 1: a warp went on */
void failed(struct exec *x, const struct ins *i, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* memory.c */
char *reach(struct exec *x, struct thread *t, struct ins *i, uint64_t addr, uint32_t size, int write);
void load(struct exec *x, struct thread *t, struct ins *i);
void store(struct exec *x, struct thread *t, struct ins *i);
void atomic(struct exec *x, struct thread *t, struct ins *i);
void to_generic(struct exec *x, struct thread *t, const struct ins *i);
void from_generic(struct exec *x, struct thread *t, const struct ins *i);
void is_space(struct exec *x, struct thread *t, const struct ins *i);

#endif
