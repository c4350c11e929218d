/* vectoradd PTX N: adds two vectors of N floats and checks each sum. */
#include "cuda.h"

int main(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
	float *a = malloc(n * 4), *b = malloc(n * 4), *c = malloc(n * 4);
	char name[100], *text = contents(argv[1], 0);
	int count;
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	CUfunction add;
	CUdeviceptr da, db, dc;
	for (unsigned i = 0; i < n; i++)
		a[i] = (float)i * 0.5f, b[i] = (float)(n - i) / 3;
	must(cuInit(0));
	must(cuDeviceGetCount(&count));
	must(cuDeviceGet(&dev, 0));
	must(cuDeviceGetName(name, sizeof name, dev));
	must(cuCtxCreate_v2(&ctx, 0, dev));
	must(cuModuleLoadData(&module, text));
	must(cuModuleGetFunction(&add, module, "add"));
	must(cuMemAlloc_v2(&da, n * 4));
	must(cuMemAlloc_v2(&db, n * 4));
	must(cuMemAlloc_v2(&dc, n * 4));
	must(cuMemcpyHtoD_v2(da, a, n * 4));
	must(cuMemcpyHtoD_v2(db, b, n * 4));
	void *params[] = {&da, &db, &dc, &n};
	must(cuLaunchKernel(add, (n + 255) / 256, 1, 1, 256, 1, 1, 0, 0, params, 0));
	must(cuCtxSynchronize());
	must(cuMemcpyDtoH_v2(c, dc, n * 4));
	for (unsigned i = 0; i < n && !wrong; i++)
		if (c[i] != a[i] + b[i]) {
			printf("element %u is %g; want %g\n", i, c[i], a[i] + b[i]);
			wrong = 1;
		}
	must(cuMemFree_v2(da));
	must(cuMemFree_v2(db));
	must(cuMemFree_v2(dc));
	must(cuModuleUnload(module));
	must(cuCtxDestroy_v2(ctx));
	if (!wrong)
		printf("%d devices, %s: %u sums\n", count, name, n);
	free(a), free(b), free(c), free(text);
	return wrong;
}
