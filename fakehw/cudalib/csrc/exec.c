/* One thread, and a launch. */
#include "exec.h"

#include "cu.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void failed(struct exec *x, const struct ins *i, int code, const char *format, ...)
{
	va_list args;
	if (x->fault->code)
		return;
	x->fault->code = code;
	x->fault->line = i ? i->line : 0;
	va_start(args, format);
	vsnprintf(x->fault->text, sizeof x->fault->text, format, args);
	va_end(args);
}

static void read_clock(struct exec *x, struct thread *t, const struct ins *i)
{
	uint64_t now = x->clock += 16; /* a clock that only says that time went on */
	t->r[i->d] = i->how == SR_CLOCK ? (uint32_t)now : i->how == SR_CLOCK_HI ? now >> 32 : now;
}

static void wait_at(struct exec *x, struct thread *t, const struct ins *i)
{
	uint32_t id = (uint32_t)t->r[i->a], n = i->n == 2 ? (uint32_t)t->r[i->b] : 0;
	if (id > 15 || (i->n == 2 && (n == 0 || n % WARP))) {
		failed(x, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a barrier %u of %u threads", id, n);
		return;
	}
	if (i->op == OP_ARRIVE) {
		x->arrived[id]++;
		return;
	}
	t->state = AT_BARRIER;
	t->barrier = id;
	t->expected = n;
}

/* run_thread goes on until the thread waits, ends, fails, or used up its slice. */
void run_thread(struct exec *x, struct thread *t, uint32_t slice)
{
	struct ins *const code = x->code;
	uint64_t *const r = t->r;
	uint32_t pc = t->pc, n;
	for (n = 0; n < slice && t->state == RUNNING && !x->fault->code; n++) {
		struct ins *i = &code[pc++];
		if (i->guard && (r[i->p] & 1) == (i->guard == 2))
			continue;
		if (i->fn) {
			i->fn(r, i);
			continue;
		}
		switch ((enum op)i->op) {
		case OP_LD: load(x, t, i); break;
		case OP_ST: store(x, t, i); break;
		case OP_BRA: pc = i->target; break;
		case OP_EXIT: t->state = DONE; break;
		case OP_ATOM: atomic(x, t, i); break;
		case OP_BAR:
		case OP_ARRIVE: wait_at(x, t, i); break;
		case OP_WARPBAR:
		case OP_SHFL:
		case OP_VOTE:
		case OP_MATCH:
		case OP_REDUX:
			t->state = AT_WARP;
			pc--; /* warp.c looks at the instruction */
			break;
		case OP_TOGENERIC: to_generic(x, t, i); break;
		case OP_FROMGENERIC: from_generic(x, t, i); break;
		case OP_ISSPACE: is_space(x, t, i); break;
		case OP_CLOCK: read_clock(x, t, i); break;
		case OP_TRAP: failed(x, i, CUDA_ERROR_LAUNCH_FAILED, "trap"); break;
		case OP_NOP: break;
		}
	}
	t->pc = pc;
	if (x->l->steps && x->left < n)
		failed(x, 0, CUDA_ERROR_LAUNCH_TIMEOUT, "more than %llu instructions", (unsigned long long)x->l->steps);
	x->left -= n;
}

static void set_specials(struct exec *x, struct thread *t, const uint32_t block[3])
{
	const struct launch *l = x->l;
	uint32_t lane = t->index % WARP, warps = (x->n + WARP - 1) / WARP, eq = 1u << lane;
	uint64_t at = block[0] + (uint64_t)l->grid[0] * (block[1] + (uint64_t)l->grid[1] * block[2]);
	for (int k = 0; k < x->f->nspecials; k++) {
		uint64_t v = 0;
		switch ((enum special_register)x->f->specials[k].which) {
		case SR_TID_X: v = t->index % l->block[0]; break;
		case SR_TID_Y: v = t->index / l->block[0] % l->block[1]; break;
		case SR_TID_Z: v = t->index / l->block[0] / l->block[1]; break;
		case SR_NTID_X: v = l->block[0]; break;
		case SR_NTID_Y: v = l->block[1]; break;
		case SR_NTID_Z: v = l->block[2]; break;
		case SR_CTAID_X: v = block[0]; break;
		case SR_CTAID_Y: v = block[1]; break;
		case SR_CTAID_Z: v = block[2]; break;
		case SR_NCTAID_X: v = l->grid[0]; break;
		case SR_NCTAID_Y: v = l->grid[1]; break;
		case SR_NCTAID_Z: v = l->grid[2]; break;
		case SR_LANEID: v = lane; break;
		case SR_WARPID: v = t->index / WARP; break;
		case SR_NWARPID: v = warps; break;
		case SR_SMID: v = at % l->sms; break;
		case SR_NSMID: v = l->sms; break;
		case SR_GRIDID: v = l->gridid; break;
		case SR_WARPSZ: v = WARP; break;
		case SR_LANEMASK_EQ: v = eq; break;
		case SR_LANEMASK_LE: v = eq | (eq - 1); break;
		case SR_LANEMASK_LT: v = eq - 1; break;
		case SR_LANEMASK_GE: v = (uint32_t)~(eq - 1); break;
		case SR_LANEMASK_GT: v = (uint32_t)~(eq | (eq - 1)); break;
		case SR_DYNAMIC_SMEM: v = l->dynamic; break;
		case SR_TOTAL_SMEM: v = x->shared_size; break;
		default: break;
		}
		t->r[x->f->specials[k].slot] = v;
	}
}

/* begin makes a thread what it is at the start of its kernel. */
static void begin(struct exec *x, struct thread *t, uint32_t index, const uint32_t block[3])
{
	if (x->f->nslots)
		memcpy(t->r, x->f->file, x->f->nslots * sizeof *t->r);
	if (x->f->local)
		memset(t->local, 0, x->f->local);
	t->pc = 0;
	t->state = RUNNING;
	t->index = index;
	set_specials(x, t, block);
}

/* Threads that never wait run one by one, in the same memory. */
static void one_block(struct exec *x, const uint32_t block[3])
{
	memset(x->shared, 0, x->shared_size);
	memset(x->arrived, 0, sizeof x->arrived);
	if (x->f->waits) {
		for (uint32_t n = 0; n < x->n; n++)
			begin(x, &x->threads[n], n, block);
		run_block(x);
		return;
	}
	for (uint32_t n = 0; n < x->n && !x->fault->code; n++) {
		begin(x, x->threads, n, block);
		while (x->threads->state == RUNNING && !x->fault->code)
			run_thread(x, x->threads, 1 << 20);
	}
}

static void all_blocks(struct exec *x)
{
	const uint32_t *g = x->l->grid;
	uint32_t b[3];
	for (b[2] = 0; b[2] < g[2]; b[2]++)
		for (b[1] = 0; b[1] < g[1]; b[1]++)
			for (b[0] = 0; b[0] < g[0]; b[0]++) {
				if (x->fault->code)
					return;
				one_block(x, b);
			}
}

int exec_launch(const struct launch *l, struct fault *fault)
{
	struct func *f = l->f;
	struct exec x = {.l = l, .f = f, .fault = fault, .n = l->block[0] * l->block[1] * l->block[2], .left = l->steps};
	uint32_t files = f->waits ? x.n : 1;
	size_t local = (f->local + 15) & ~15u;
	*fault = (struct fault){0};
	x.shared_size = f->shared + l->dynamic;
	x.shared = calloc(1, x.shared_size + 16);
	x.threads = calloc(files, sizeof *x.threads);
	x.code = malloc(f->ncode * sizeof *x.code);
	uint64_t *r = malloc((size_t)files * (f->nslots + 1) * sizeof *r);
	char *stack = malloc(files * local + 1);
	if (x.shared && x.threads && x.code && r && stack) {
		fenv_t before;
		feholdexcept(&before); /* also what a program with -ffast-math set */
		fesetenv(FE_DFL_ENV);
		memcpy(x.code, f->code, f->ncode * sizeof *x.code);
		for (uint32_t n = 0; n < files; n++) {
			x.threads[n].r = r + (size_t)n * (f->nslots + 1);
			x.threads[n].local = stack + n * local;
		}
		all_blocks(&x);
		fesetenv(&before);
	} else {
		failed(&x, 0, CUDA_ERROR_OUT_OF_MEMORY, "no memory for %u threads", x.n);
	}
	free(stack);
	free(r);
	free(x.code);
	free(x.threads);
	free(x.shared);
	return fault->code;
}
