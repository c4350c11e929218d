/*
 * runner: runs kernels for a test, one request after the other, from standard input
 * to standard output. Numbers are little-endian, of 32 bits.
 *
 * Request: length of the text, the text; of the kernel's name, the name; the grid's
 * and the block's three numbers, dynamic shared memory; number of parameters; of
 * each its kind and length and bytes. Kind 0 is a value, kind 1 a buffer on the
 * device, whose address is the parameter and which comes back.
 *
 * Answer: the codes of load, of finding the kernel, of the launch and of waiting for
 * it; if all are 0, the buffers. A name of length 0 only loads.
 */
#include "cuda.h"

enum { MOST = 16, LARGEST = 32768 };

/* A kernel may have more and larger parameters than the request gives: zeros. */
static char zeros[LARGEST];
static void *params[LARGEST];

static void take(void *to, size_t n)
{
	if (fread(to, 1, n, stdin) != n)
		exit(0);
}

static uint32_t number(void)
{
	uint32_t v;
	take(&v, sizeof v);
	return v;
}

static void *piece(uint32_t *n)
{
	*n = number();
	char *p = calloc(1, *n + LARGEST);
	take(p, *n);
	return p;
}

int main(void)
{
	CUdevice dev;
	CUcontext ctx;
	must(cuInit(0));
	must(cuDeviceGet(&dev, 0));
	for (;;) {
		uint32_t n, shape[7], length[MOST], kind[MOST], codes[4] = {0};
		char *text = piece(&n), *name = piece(&n), *data[MOST];
		CUdeviceptr addr[MOST];
		CUmodule module = 0;
		CUfunction f = 0;
		take(shape, sizeof shape);
		uint32_t count = number();
		if (count > MOST)
			return 1;
		for (uint32_t i = 0; i < count; i++) {
			kind[i] = number();
			data[i] = piece(&length[i]);
		}
		must(cuCtxCreate_v2(&ctx, 0, dev));
		for (int i = 0; i < LARGEST; i++)
			params[i] = zeros;
		for (uint32_t i = 0; i < count; i++) {
			params[i] = data[i];
			if (kind[i] == 1) {
				must(cuMemAlloc_v2(&addr[i], length[i]));
				must(cuMemcpyHtoD_v2(addr[i], data[i], length[i]));
				memcpy(data[i] + length[i], &addr[i], sizeof addr[i]);
				params[i] = data[i] + length[i];
			}
		}
		codes[0] = cuModuleLoadData(&module, text);
		if (!codes[0] && *name) {
			codes[1] = cuModuleGetFunction(&f, module, name);
			if (!codes[1])
				codes[2] = cuLaunchKernel(f, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], shape[6], 0, params, 0);
			if (!codes[1] && !codes[2])
				codes[3] = cuCtxSynchronize();
		}
		fwrite(codes, sizeof codes, 1, stdout);
		int ok = *name && !codes[0] && !codes[1] && !codes[2] && !codes[3];
		for (uint32_t i = 0; i < count; i++) {
			if (ok && kind[i] == 1) {
				must(cuMemcpyDtoH_v2(data[i], addr[i], length[i]));
				fwrite(data[i], 1, length[i], stdout);
			}
			free(data[i]);
		}
		fflush(stdout);
		must(cuCtxDestroy_v2(ctx));
		free(text);
		free(name);
	}
}
