/* The threads of a block that wait for each other. */
#include "cu.h"
#include "exec.h"

/* open_barriers lets go on whoever waits at a barrier that is complete: all threads
 * that have not ended, or as many as they say, counting those that arrived only. */
static int open_barriers(struct exec *x)
{
	uint32_t waiting[16] = {0}, expected[16] = {0}, live = 0;
	int opened = 0;
	for (uint32_t n = 0; n < x->n; n++) {
		struct thread *t = &x->threads[n];
		live += t->state != DONE;
		if (t->state != AT_BARRIER)
			continue;
		waiting[t->barrier]++;
		if (t->expected)
			expected[t->barrier] = t->expected;
	}
	for (int id = 0; id < 16; id++) {
		if (!waiting[id] || waiting[id] + x->arrived[id] < (expected[id] ? expected[id] : live))
			continue;
		for (uint32_t n = 0; n < x->n; n++)
			if (x->threads[n].state == AT_BARRIER && x->threads[n].barrier == (uint32_t)id)
				x->threads[n].state = RUNNING;
		x->arrived[id] = 0;
		opened = 1;
	}
	return opened;
}

/* run_block runs all threads to their end. A slice is long enough for what does not
 * spin, and short enough for what does. */
void run_block(struct exec *x)
{
	for (;;) {
		uint32_t done = 0;
		int ran = 0;
		for (uint32_t n = 0; n < x->n && !x->fault->code; n++) {
			struct thread *t = &x->threads[n];
			if (t->state == RUNNING) {
				run_thread(x, t, 1 << 14);
				ran = 1;
			}
			done += t->state == DONE;
		}
		if (x->fault->code || done == x->n)
			return;
		if (!(step_warps(x) | open_barriers(x)) && !ran) {
			failed(x, 0, CUDA_ERROR_LAUNCH_TIMEOUT, "threads wait for each other for ever");
			return;
		}
	}
}
