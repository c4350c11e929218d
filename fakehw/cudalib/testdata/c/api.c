/* api PTX: calls that go wrong, and those that must not. Says nothing if all codes
 * are as they should be. The machine has two GPUs or more. */
#include "cuda.h"

static const char *text;

static void before_init(void)
{
	int n;
	CUdevice d;
	void *p;
	CUcontext c;
	expect(3, cuDeviceGetCount(&n));
	expect(3, cuDeviceGet(&d, 0));
	expect(3, cuCtxGetCurrent(&c));
	expect(3, cuMemFree_v2(0));
	expect(0, cuDriverGetVersion(&n));
	expect(1, cuDriverGetVersion(0));
	expect(0, cuGetProcAddress_v2("cuInit", &p, 12000, 0, 0));
	expect(1, cuInit(1));
	expect(0, cuInit(0));
	expect(0, cuInit(0));
}

static void devices(void)
{
	CUdevice d;
	int v;
	char bus[8], name[4] = "";
	expect(101, cuDeviceGet(&d, 1000));
	expect(101, cuDeviceGet(&d, -1));
	expect(1, cuDeviceGet(0, 0));
	expect(1, cuDeviceGetCount(0));
	expect(101, cuDeviceGetName(name, 4, 77));
	expect(1, cuDeviceGetName(name, 0, 0));
	expect(0, cuDeviceGetName(name, sizeof name, 0));
	if (strlen(name) != 3)
		expect(0, 1);
	expect(1, cuDeviceGetAttribute(&v, 0, 0));
	expect(1, cuDeviceGetAttribute(&v, 100000, 0));
	expect(101, cuDeviceGetAttribute(&v, 1, 99));
	expect(1, cuDeviceGetPCIBusId(bus, sizeof bus, 0));
	expect(1, cuDeviceGetByPCIBusId(&d, "nonsense"));
	expect(101, cuDeviceGetByPCIBusId(&d, "0042:42:42.0"));
	expect(0, cuDeviceCanAccessPeer(&v, 0, 1));
}

static void contexts(void)
{
	CUcontext a, b, c;
	CUdevice d;
	unsigned flags;
	int active;
	expect(201, cuCtxSynchronize());
	expect(201, cuCtxGetDevice(&d));
	expect(201, cuCtxPopCurrent_v2(&c));
	expect(0, cuCtxGetCurrent(&c));
	if (c)
		expect(0, 1);
	expect(101, cuCtxCreate_v2(&a, 0, 99));
	expect(1, cuCtxCreate_v2(&a, 3, 0));
	expect(0, cuCtxCreate_v2(&a, 0, 0));
	expect(0, cuCtxCreate_v2(&b, 4, 1));
	expect(0, cuCtxGetDevice(&d));
	expect(1, d);
	expect(0, cuCtxPopCurrent_v2(&c));
	if (c != b)
		expect(0, 1);
	expect(0, cuCtxGetDevice(&d));
	expect(0, d);
	expect(0, cuCtxPushCurrent_v2(b));
	expect(0, cuCtxDestroy_v2(a));
	expect(201, cuCtxPushCurrent_v2(a));
	expect(201, cuCtxDestroy_v2(a));
	expect(0, cuCtxDestroy_v2(b));
	expect(709, cuCtxSynchronize()); /* a is still there, and destroyed */
	expect(0, cuCtxSetCurrent(0));
	expect(201, cuCtxSynchronize());
	expect(201, cuDevicePrimaryCtxRelease_v2(0));
	expect(0, cuDevicePrimaryCtxGetState(0, &flags, &active));
	expect(0, active);
	expect(0, cuDevicePrimaryCtxRetain(&a, 0));
	expect(0, cuDevicePrimaryCtxRetain(&b, 0));
	if (a != b)
		expect(0, 1);
	expect(0, cuDevicePrimaryCtxGetState(0, &flags, &active));
	expect(1, active);
	expect(201, cuCtxDestroy_v2(a));
	expect(0, cuDevicePrimaryCtxRelease_v2(0));
	expect(0, cuCtxSetCurrent(a));
}

static void memory(void)
{
	CUdeviceptr p, q;
	size_t free_, total, again;
	void *host;
	char here[64] = "0123456789";
	expect(1, cuMemAlloc_v2(&p, 0));
	expect(1, cuMemAlloc_v2(0, 4));
	expect(0, cuMemGetInfo_v2(&free_, &total));
	expect(2, cuMemAlloc_v2(&p, total + 1));
	expect(0, cuMemAlloc_v2(&q, total / 2)); /* nobody touches it */
	expect(2, cuMemAlloc_v2(&p, total / 2 + (2 << 20)));
	expect(0, cuMemFree_v2(q));
	expect(1, cuMemFree_v2(q));
	expect(0, cuMemFree_v2(0));
	expect(0, cuMemGetInfo_v2(&again, &total));
	if (again != free_)
		expect(0, 1);
	expect(0, cuMemAlloc_v2(&p, 64));
	expect(0, cuMemAlloc_v2(&q, 64));
	expect(1, cuMemFree_v2(p + 4));
	expect(0, cuMemcpyHtoD_v2(p, here, 64));
	expect(1, cuMemcpyHtoD_v2(p, here, 65));
	expect(1, cuMemcpyHtoD_v2(p, 0, 8));
	expect(1, cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)here, here, 8));
	expect(0, cuMemcpyDtoD_v2(q + 8, p, 10));
	expect(0, cuMemcpyDtoH_v2(here + 20, q + 8, 10));
	if (memcmp(here + 20, "0123456789", 10))
		expect(0, 1);
	expect(0, cuMemsetD32_v2(p, 0x01020304, 16));
	expect(1, cuMemsetD32_v2(p, 1, 17));
	expect(1, cuMemsetD32_v2(p + 2, 1, 2));
	expect(0, cuMemcpy((CUdeviceptr)(uintptr_t)here, p, 8));
	if (here[0] != 4 || here[7] != 1)
		expect(0, 1);
	expect(0, cuMemHostAlloc(&host, 100, 0));
	strcpy(host, "pinned");
	expect(0, cuMemcpyHtoD_v2(p, host, 7));
	expect(0, cuMemFreeHost(host));
	expect(1, cuMemFreeHost(host));
	expect(0, cuMemFree_v2(p));
	expect(1, cuMemcpyDtoH_v2(here, p, 1));
	expect(0, cuMemFree_v2(q));
	expect(0, cuMemAllocManaged(&p, 4096, 1));
	((char *)(uintptr_t)p)[4095] = 1;
	expect(0, cuMemFree_v2(p));
}

static void modules(void)
{
	CUmodule m;
	CUfunction f;
	CUdeviceptr p;
	size_t n;
	int v;
	char log[200] = "";
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof log};
	expect(218, cuModuleLoadData(&m, "this is no PTX"));
	expect(218, cuModuleLoadDataEx(&m, ".version 7.0\n.target sm_70\n.visible .entry k() { add.u32 %r1, 1, 2; }", 2, options, values));
	if (!strstr(log, "line 3") || (size_t)values[1] != strlen(log))
		printf("the log is %zu bytes: %s\n", (size_t)values[1], log), wrong = 1;
	expect(222, cuModuleLoadData(&m, ".version 99.9\n.target sm_70\n"));
	expect(218, cuModuleLoadData(&m, ".version 7.8\n.target sm_90\n"));
	expect(801, cuModuleLoadData(&m, "\177ELF\2\1\1\0\0\0\0\0"));
	expect(301, cuModuleLoad(&m, "testdata/none.ptx"));
	expect(1, cuModuleLoadData(&m, 0));
	expect(801, cuModuleLoadFatBinary(&m, text));
	expect(0, cuModuleLoadData(&m, text));
	expect(500, cuModuleGetFunction(&f, m, "none"));
	expect(400, cuModuleGetFunction(&f, (CUmodule)&m, "add"));
	expect(500, cuModuleGetGlobal_v2(&p, &n, m, "none"));
	expect(0, cuModuleGetFunction(&f, m, "add"));
	expect(0, cuFuncGetAttribute(&v, 0, f));
	expect(1024, v);
	expect(0, cuFuncGetAttribute(&v, 6, f));
	expect(80, v);
	expect(1, cuFuncGetAttribute(&v, 99, f));
	expect(0, cuFuncSetAttribute(f, 8, 100000));
	expect(1, cuFuncSetAttribute(f, 8, 1000000));
	unsigned zero = 0;
	CUdeviceptr none = 0;
	void *params[] = {&none, &none, &none, &zero}, *holes[] = {&none, 0, 0, 0};
	expect(0, cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 100000, 0, params, 0));
	expect(1, cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, 0, params, 0));
	expect(1, cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, 0, params, 0));
	expect(1, cuLaunchKernel(f, 1, 1, 1, 512, 4, 1, 0, 0, params, 0));
	expect(1, cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, 0, params, 0));
	expect(1, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 200000, 0, params, 0));
	expect(1, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
	expect(1, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, holes, 0));
	expect(400, cuLaunchKernel(0, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
	expect(400, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (CUstream)&f, params, 0));
	char buffer[28] = "";
	size_t size = sizeof buffer;
	void *extra[] = {(void *)1, buffer, (void *)2, &size, 0};
	expect(0, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, extra));
	size = 20;
	expect(1, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, extra));
	expect(0, cuModuleUnload(m));
	expect(400, cuModuleUnload(m));
	expect(400, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
}

/* The same text as a library: kernels that belong to no context. */
static void libraries(void)
{
	CUlibrary l, of;
	CUkernel k, all[4];
	CUfunction f;
	CUmodule m;
	CUcontext first, second;
	CUdeviceptr p;
	const char *name = "";
	size_t offset, size;
	unsigned n;
	int v, w;
	expect(218, cuLibraryLoadData(&l, "this is no PTX", 0, 0, 0, 0, 0, 0));
	expect(801, cuLibraryLoadData(&l, "\177ELF\2\1\1\0\0\0\0\0", 0, 0, 0, 0, 0, 0));
	expect(1, cuLibraryLoadData(0, text, 0, 0, 0, 0, 0, 0));
	expect(301, cuLibraryLoadFromFile(&l, "testdata/none.ptx", 0, 0, 0, 0, 0, 0));
	expect(0, cuCtxGetCurrent(&first));
	expect(0, cuCtxSetCurrent(0));
	expect(0, cuLibraryLoadData(&l, text, 0, 0, 0, 0, 0, 0)); /* without a context */
	expect(500, cuLibraryGetKernel(&k, l, "none"));
	expect(400, cuLibraryGetKernel(&k, (CUlibrary)&l, "add"));
	expect(0, cuLibraryGetKernel(&k, l, "add"));
	expect(0, cuLibraryGetKernelCount(&n, l));
	expect(1, n);
	expect(0, cuLibraryEnumerateKernels(all, 4, l));
	if (all[0] != k)
		expect(0, 1);
	expect(0, cuKernelGetName(&name, k));
	expect(0, strcmp(name, "add"));
	expect(0, cuKernelGetLibrary(&of, k));
	if (of != l)
		expect(0, 1);
	expect(0, cuKernelGetParamInfo(k, 1, &offset, &size));
	expect(8, (int)offset);
	expect(8, (int)size);
	expect(1, cuKernelGetParamInfo(k, 4, &offset, &size));
	expect(201, cuLibraryGetModule(&m, l));
	expect(201, cuKernelGetFunction(&f, k));
	expect(201, cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, k, 128, 0));
	expect(0, cuKernelSetAttribute(8, 90000, k, 1));
	expect(101, cuKernelSetAttribute(8, 90000, k, 99));
	expect(1, cuKernelSetAttribute(8, 1000000, k, 1));
	expect(0, cuKernelGetAttribute(&v, 8, k, 0));
	expect(48 << 10, v);

	unsigned zero = 0;
	CUdeviceptr none = 0;
	void *params[] = {&none, &none, &none, &zero};
	expect(0, cuCtxSetCurrent(first));
	expect(1, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 80000, 0, params, 0));
	expect(0, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
	expect(0, cuKernelGetFunction(&f, k));
	expect(0, cuLibraryGetModule(&m, l));
	expect(400, cuModuleUnload(m)); /* it goes with the library */
	expect(500, cuLibraryGetGlobal(&p, &size, l, "none"));
	expect(500, cuLibraryGetManaged(&p, &size, l, "none"));
	expect(0, cuCtxCreate_v2(&second, 0, 1));
	expect(0, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 80000, 0, params, 0)); /* of its attribute there */
	expect(400, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));    /* that is the first context's */
	expect(0, cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, k, 128, 0));
	expect(0, cuKernelGetFunction(&f, k));
	expect(0, cuOccupancyMaxActiveBlocksPerMultiprocessor(&w, f, 128, 0));
	if (v != w || v < 1)
		expect(v, w);
	expect(0, cuCtxDestroy_v2(second));
	expect(0, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
	expect(0, cuLibraryUnload(l));
	expect(400, cuLibraryUnload(l));
	expect(400, cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, 0, params, 0));
	expect(400, cuKernelGetName(&name, k));
}

static void streams(void)
{
	CUstream s;
	CUevent a, b;
	float ms = -1;
	expect(0, cuStreamCreate(&s, 1));
	expect(1, cuStreamCreate(&s, 2));
	expect(0, cuEventCreate(&a, 0));
	expect(0, cuEventCreate(&b, 0));
	expect(0, cuEventQuery(a));
	expect(400, cuEventElapsedTime(&ms, a, b));
	expect(0, cuEventRecord(a, s));
	expect(0, cuEventRecord(b, 0));
	expect(0, cuStreamWaitEvent(s, b, 0));
	expect(0, cuEventSynchronize(b));
	expect(0, cuEventElapsedTime(&ms, a, b));
	if (!(ms >= 0 && ms < 60000))
		printf("%f ms\n", ms), wrong = 1;
	expect(0, cuStreamQuery(s));
	expect(0, cuStreamDestroy_v2(s));
	expect(400, cuStreamDestroy_v2(s));
	expect(400, cuStreamSynchronize(s));
	expect(0, cuEventDestroy_v2(a));
	expect(400, cuEventDestroy_v2(a));
	expect(0, cuEventDestroy_v2(b));
}

/* An error of a kernel stays until the context goes. */
static void sticky(void)
{
	static const char fault[] = ".version 7.0\n.target sm_70\n.visible .entry k() { .reg .u32 r; ld.global.u32 r, [8]; ret; }";
	CUmodule m;
	CUfunction f;
	CUdeviceptr p;
	CUcontext c;
	CUdevice d;
	expect(0, cuModuleLoadData(&m, fault));
	expect(0, cuModuleGetFunction(&f, m, "k"));
	expect(0, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
	expect(700, cuCtxSynchronize());
	expect(700, cuMemAlloc_v2(&p, 4));
	expect(700, cuStreamSynchronize(0));
	expect(0, cuDevicePrimaryCtxReset_v2(0));
	expect(709, cuCtxGetDevice(&d));
	expect(0, cuDevicePrimaryCtxRetain(&c, 0));
	expect(0, cuCtxSetCurrent(c));
	expect(0, cuMemAlloc_v2(&p, 4));
	expect(0, cuMemFree_v2(p));
}

static void addresses(void)
{
	void *p = 0, *q = 0;
	int status;
	expect(0, cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, &status));
	if (p != (void *)cuMemAlloc_v2 || status != 0)
		expect(0, 1);
	expect(0, cuGetProcAddress_v2("cuMemAlloc", &q, 2000, 0, &status));
	if (q == p)
		expect(0, 1);
	expect(500, cuGetProcAddress_v2("cuNothing", &p, 12000, 0, &status));
	expect(1, status);
	expect(1, cuGetProcAddress_v2(0, &p, 12000, 0, &status));
	expect(0, cuGetProcAddress_v2("cuGraphCreate", &p, 12000, 2, &status));
	expect(801, ((CUresult(*)(void *, unsigned))p)(0, 0));
	const char *s;
	expect(0, cuGetErrorName(700, &s));
	if (strcmp(s, "CUDA_ERROR_ILLEGAL_ADDRESS"))
		expect(0, 1);
	expect(1, cuGetErrorName(12345, &s));
	expect(0, cuGetErrorString(100, &s));
	if (strcmp(s, "no CUDA-capable device is detected"))
		expect(0, 1);
}

int main(int argc, char **argv)
{
	text = contents(argv[argc - 1], 0);
	before_init();
	devices();
	contexts();
	memory();
	modules();
	libraries();
	streams();
	addresses();
	sticky();
	return wrong;
}
