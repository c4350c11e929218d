/* threads PTX: eight threads at once, each with its own context or a shared one;
 * then a child of fork, which has nothing. */
#include "cuda.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *text;

static void *work(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	CUcontext ctx;
	if (id % 2)
		must(cuCtxCreate_v2(&ctx, 0, (CUdevice)(id % 4)));
	else
		must(cuDevicePrimaryCtxRetain(&ctx, (CUdevice)(id % 4)));
	must(cuCtxSetCurrent(ctx));
	for (int round = 0; round < 20; round++) {
		enum { N = 500 };
		float a[N], c[N];
		unsigned n = N;
		CUmodule m;
		CUfunction f;
		CUdeviceptr da, dc;
		for (int i = 0; i < N; i++)
			a[i] = (float)(i + round + (int)id);
		must(cuModuleLoadData(&m, text));
		must(cuModuleGetFunction(&f, m, "add"));
		must(cuMemAlloc_v2(&da, sizeof a));
		must(cuMemAlloc_v2(&dc, sizeof c));
		must(cuMemcpyHtoD_v2(da, a, sizeof a));
		void *params[] = {&da, &da, &dc, &n};
		must(cuLaunchKernel(f, 2, 1, 1, 256, 1, 1, 0, 0, params, 0));
		must(cuMemcpyDtoH_v2(c, dc, sizeof c));
		for (int i = 0; i < N; i++)
			if (c[i] != 2 * a[i])
				printf("thread %d: %g\n", (int)id, c[i]), exit(1);
		must(cuMemFree_v2(da));
		must(cuMemFree_v2(dc));
		must(cuModuleUnload(m));
	}
	if (id % 2)
		must(cuCtxDestroy_v2(ctx));
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	int n, status;
	text = contents(argv[argc - 1], 0);
	must(cuInit(0));
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], 0);
	pid_t child = fork();
	if (!child) {
		expect(3, cuDeviceGetCount(&n));
		expect(3, cuInit(0));
		exit(wrong);
	}
	waitpid(child, &status, 0);
	must(cuDeviceGetCount(&n));
	puts(status ? "the child differs" : "done");
	return 0;
}
