/*
 * Operations of a warp. The threads that a mask names meet at one instruction; who
 * has ended is not waited for. Each thread's instruction is done when all are there.
 */
#include "cu.h"
#include "exec.h"

#include <string.h>

struct meeting {
	struct thread *lane[WARP]; /* 0: not taking part */
	uint32_t mask;
	struct ins *i;
};

static uint64_t value(const struct meeting *m, int lane) { return m->lane[lane]->r[m->i->a]; }

/* shfl: PTX manual, "shfl.sync". c holds the clamp and the segment mask. */
static void shuffle(struct meeting *m)
{
	uint32_t results[WARP], from[WARP];
	for (int lane = 0; lane < WARP; lane++) {
		struct thread *t = m->lane[lane];
		if (!t)
			continue;
		uint32_t b = (uint32_t)t->r[m->i->c] & 31, c = (uint32_t)t->r[m->i->e], clamp = c & 31, segment = c >> 8 & 31;
		uint32_t most = ((uint32_t)lane & segment) | (clamp & ~segment), least = (uint32_t)lane & segment;
		int32_t j;
		int valid;
		switch (m->i->how) {
		case 0: j = lane - (int32_t)b; valid = j >= (int32_t)most; break;
		case 1: j = lane + (int32_t)b; valid = j <= (int32_t)most; break;
		case 2: j = lane ^ (int32_t)b; valid = j <= (int32_t)most; break;
		default: j = (int32_t)(least | (b & ~segment)); valid = j <= (int32_t)most;
		}
		if (!valid)
			j = lane;
		from[lane] = (uint32_t)valid;
		/* Who does not take part has no value: the own one stands in. */
		results[lane] = (uint32_t)value(m, j >= 0 && j < WARP && m->lane[j] ? j : lane);
	}
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane]) {
			m->lane[lane]->r[m->i->d] = results[lane];
			if (m->i->n)
				m->lane[lane]->r[m->i->d2] = from[lane];
		}
}

static void vote(struct meeting *m)
{
	uint32_t yes = 0, all = 0;
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane]) {
			all |= 1u << lane;
			yes |= (uint32_t)((value(m, lane) & 1) ^ m->i->n) << lane;
		}
	uint32_t out = m->i->how == 0 ? yes == all : m->i->how == 1 ? yes != 0 : m->i->how == 2 ? yes == all || !yes : yes;
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane])
			m->lane[lane]->r[m->i->d] = out;
}

static void match(struct meeting *m)
{
	uint32_t same[WARP] = {0}, all = 0;
	for (int lane = 0; lane < WARP; lane++)
		for (int k = 0; m->lane[lane] && k < WARP; k++)
			if (m->lane[k] && value(m, k) == value(m, lane))
				same[lane] |= 1u << k;
	for (int lane = 0; lane < WARP; lane++)
		all |= m->lane[lane] ? 1u << lane : 0;
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane]) {
			uint64_t *r = m->lane[lane]->r;
			r[m->i->d] = m->i->how ? (same[lane] == all ? all : 0) : same[lane];
			if (m->i->n)
				r[m->i->d2] = same[lane] == all;
		}
}

static void reduce(struct meeting *m)
{
	uint32_t sign = m->i->type.kind == 's' ? 0x80000000u : 0, out = 0;
	int first = 1;
	for (int lane = 0; lane < WARP; lane++) {
		if (!m->lane[lane])
			continue;
		uint32_t v = (uint32_t)value(m, lane);
		switch (first ? -1 : m->i->how) {
		case -1: out = v; break;
		case 0: out += v; break;
		case 1: out = (v ^ sign) < (out ^ sign) ? v : out; break;
		case 2: out = (v ^ sign) > (out ^ sign) ? v : out; break;
		case 3: out &= v; break;
		case 4: out |= v; break;
		default: out ^= v;
		}
		first = 0;
	}
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane])
			m->lane[lane]->r[m->i->d] = out;
}

static void hold(struct meeting *m)
{
	switch ((enum op)m->i->op) {
	case OP_SHFL: shuffle(m); break;
	case OP_VOTE: vote(m); break;
	case OP_MATCH: match(m); break;
	case OP_REDUX: reduce(m); break;
	default: break; /* bar.warp.sync: meeting was all */
	}
	for (int lane = 0; lane < WARP; lane++)
		if (m->lane[lane]) {
			m->lane[lane]->pc++;
			m->lane[lane]->state = RUNNING;
		}
}

/* Whether all whom the mask of this thread's instruction names are there. */
static int gather(struct exec *x, struct thread *warp, uint32_t n, struct thread *t, struct meeting *m)
{
	memset(m, 0, sizeof *m);
	m->i = &x->code[t->pc];
	m->mask = (uint32_t)t->r[m->i->b];
	if (!(m->mask >> (t->index % WARP) & 1)) {
		failed(x, m->i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a thread that its own mask %#x does not name", m->mask);
		return 0;
	}
	for (uint32_t lane = 0; lane < n; lane++) {
		struct thread *o = &warp[lane];
		if (!(m->mask >> lane & 1) || o->state == DONE)
			continue;
		if (o->state != AT_WARP || o->pc != t->pc || (uint32_t)o->r[m->i->b] != m->mask)
			return 0;
		m->lane[lane] = o;
	}
	return 1;
}

int step_warps(struct exec *x)
{
	int went = 0;
	for (uint32_t first = 0; first < x->n; first += WARP) {
		uint32_t n = x->n - first < WARP ? x->n - first : WARP;
		struct thread *warp = &x->threads[first];
		struct meeting m;
		for (uint32_t lane = 0; lane < n && !x->fault->code; lane++)
			if (warp[lane].state == AT_WARP && gather(x, warp, n, &warp[lane], &m)) {
				hold(&m);
				went = 1;
			}
	}
	return went;
}
