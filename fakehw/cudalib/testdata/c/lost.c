/* lost: for each line read, what calls on two devices say: the context that it has,
 * memory of it, a copy to it; a new context and the primary one. */
#include "cuda.h"

int main(void)
{
	CUcontext ctx[2], other;
	CUdeviceptr at[2], more;
	must(cuInit(0));
	for (int i = 0; i < 2; i++) {
		must(cuCtxCreate_v2(&ctx[i], 0, i));
		must(cuMemAlloc_v2(&at[i], 4));
	}
	while (getchar() == '\n') {
		for (int i = 0; i < 2; i++) {
			must(cuCtxSetCurrent(ctx[i]));
			printf("%s%d: %d", i ? "; " : "", i, cuCtxSynchronize());
			printf(" %d", cuMemAlloc_v2(&more, 4));
			printf(" %d", cuMemcpyHtoD_v2(at[i], "abc", 4));
			printf(", new %d", cuCtxCreate_v2(&other, 0, i));
			printf(" %d", cuDevicePrimaryCtxRetain(&other, i));
		}
		puts("");
		fflush(stdout);
	}
	return 0;
}
