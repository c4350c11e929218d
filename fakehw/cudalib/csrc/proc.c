/* cuGetProcAddress, and what stubs do. */
#include "proc.h"

#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult unsupported_call(const char *call)
{
	CUresult code = enter(call);
	if (code)
		return code;
	say(1, "not supported here: %s", call);
	return leave(CUDA_ERROR_NOT_SUPPORTED);
}

static int by_name(const void *key, const void *row) { return strcmp(key, ((const struct named *)row)->name); }

static const struct named *named(const char *name)
{
	const struct named *x = bsearch(name, calls, (size_t)ncalls, sizeof *calls, by_name);
	return x && x->call ? x : 0;
}

/* The CUDA version in which a later form of a call came, where it is not 3.2, as
 * for the first great renaming. */
static const struct {
	const char *name;
	int since;
} later[] = {
	{"cuCtxCreate_v3", 11040}, {"cuCtxCreate_v4", 12050}, {"cuCtxDestroy_v2", 4000}, {"cuCtxGetDevice_v2", 13000},
	{"cuCtxPopCurrent_v2", 4000}, {"cuCtxPushCurrent_v2", 4000}, {"cuCtxSynchronize_v2", 13000}, {"cuDeviceGetUuid_v2", 11040},
	{"cuDevicePrimaryCtxRelease_v2", 11000}, {"cuDevicePrimaryCtxReset_v2", 11000}, {"cuDevicePrimaryCtxSetFlags_v2", 11000},
	{"cuEventDestroy_v2", 4000}, {"cuEventElapsedTime_v2", 12080}, {"cuGetProcAddress_v2", 12000}, {"cuIpcOpenMemHandle_v2", 11000},
	{"cuLinkAddData_v2", 6050}, {"cuLinkAddFile_v2", 6050}, {"cuLinkCreate_v2", 6050}, {"cuMemAdvise_v2", 12020},
	{"cuMemHostRegister_v2", 6050}, {"cuMemPrefetchAsync_v2", 12020}, {"cuStreamDestroy_v2", 4000}, {"cuStreamGetCtx_v2", 12050},
	{"cuGraphInstantiate_v2", 11000}, {"cuGraphAddKernelNode_v2", 12000}, {"cuGraphExecUpdate_v2", 12000}, {"cuStreamBeginCapture_v2", 10010},
	{"cuStreamGetCaptureInfo_v2", 11030}, {"cuStreamGetCaptureInfo_v3", 12030}, {"cuStreamBatchMemOp_v2", 11070},
	{"cuStreamWaitValue32_v2", 11070}, {"cuStreamWaitValue64_v2", 11070}, {"cuStreamWriteValue32_v2", 11070},
	{"cuStreamWriteValue64_v2", 11070}, {"cuGraphAddDependencies_v2", 12030}, {"cuGraphAddNode_v2", 12030}, {"cuGraphGetEdges_v2", 12030},
	{"cuMemcpy3DBatchAsync_v2", 13000}, {"cuMemcpyBatchAsync_v2", 13000}, {"cuTexRefSetAddress2D_v3", 4010},
};

static int since(const char *name)
{
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		if (!strcmp(later[i].name, name))
			return later[i].since;
	return 3020;
}

/* The newest form of a call that a program of a CUDA version knows. *newer: there
 * are only later ones. */
static const struct named *form(const char *symbol, int version, int *newer)
{
	const struct named *found = named(symbol);
	*newer = 0;
	for (int v = 2; v <= 4; v++) {
		char name[80];
		snprintf(name, sizeof name, "%s_v%d", symbol, v);
		const struct named *x = named(name);
		if (x && since(name) <= version)
			found = x;
		else if (x && !found)
			*newer = 1;
	}
	return found;
}

enum { FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT };

/* Flags choose the default stream; here all streams are alike. */
API CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status)
{
	int newer, ignored;
	if (!status)
		status = &ignored;
	if (!symbol || !out || flags > 2 || strlen(symbol) > 64)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 0;
	const struct named *x = form(symbol, version, &newer);
	*status = x ? FOUND : newer ? VERSION_NOT_SUFFICIENT : SYMBOL_NOT_FOUND;
	if (!x)
		return CUDA_ERROR_NOT_FOUND;
	*out = x->call;
	return CUDA_SUCCESS;
}

API CUresult cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(symbol, out, version, flags, 0);
}

/* The tables are for the CUDA runtime, which starts nothing without the one (d4082055-…) by
 * which it checks that the library is NVIDIA's own: those of 11.2, 11.8 and 12.4 do. This
 * library is not, so it has none of them, and says why. */
API CUresult cuGetExportTable(const void **out, const CUuuid *id)
{
	if (!out || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 0;
	enter_any();
	say(1, "not supported here: programs of the CUDA runtime, which works with NVIDIA's own libcuda alone; those of the driver API run");
	return leave(CUDA_ERROR_NOT_SUPPORTED);
}
