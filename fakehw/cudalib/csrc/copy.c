/* Copies and fills. A stream makes no difference: both are done at once. */
#define _GNU_SOURCE
#include "rt.h"

#include <stdint.h>
#include <string.h>

/* Which sides must be memory that is known here; the others may be any of the
 * program's. */
enum { DEVICE_TO = 1, DEVICE_FROM = 2 };

/* here returns where a piece is, or 0. */
static char *here(uint64_t p, size_t n, int known)
{
	char *at = memory_reach(p, n);
	if (at || known || memory_at(p) || memory_is_ours(p))
		return at;
	return (char *)(uintptr_t)p;
}

static CUresult copy(const char *call, uint64_t to, uint64_t from, size_t n, int sides)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!n)
		return leave(CUDA_SUCCESS);
	char *t = here(to, n, sides & DEVICE_TO), *f = here(from, n, sides & DEVICE_FROM);
	if (!t || !f)
		return leave(CUDA_ERROR_INVALID_VALUE);
	memmove(t, f, n);
	return leave(CUDA_SUCCESS);
}

static CUresult copy_in(const char *call, uint64_t to, uint64_t from, size_t n, int sides, CUstream s)
{
	CUresult code = check_stream(s);
	return code ? code : copy(call, to, from, n, sides);
}

#define HOST(p) (uint64_t)(uintptr_t)(p)

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) { return copy("cuMemcpyHtoD", to, HOST(from), n, DEVICE_TO); }
API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) { return copy("cuMemcpyDtoH", HOST(to), from, n, DEVICE_FROM); }
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy("cuMemcpyDtoD", to, from, n, DEVICE_TO | DEVICE_FROM); }
API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy("cuMemcpy", to, from, n, 0); }
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) { return copy_in("cuMemcpyHtoDAsync", to, HOST(from), n, DEVICE_TO, s); }
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) { return copy_in("cuMemcpyDtoHAsync", HOST(to), from, n, DEVICE_FROM, s); }
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return copy_in("cuMemcpyDtoDAsync", to, from, n, DEVICE_TO | DEVICE_FROM, s); }
API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return copy_in("cuMemcpyAsync", to, from, n, 0, s); }

/* Between two contexts; the current one need be neither. */
API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t n)
{
	CUresult code = enter("cuMemcpyPeer");
	if (code)
		return code;
	int bad = !alive(tc) || !alive(fc);
	leave(0);
	return bad ? CUDA_ERROR_INVALID_CONTEXT : copy("cuMemcpyPeer", to, from, n, DEVICE_TO | DEVICE_FROM);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t n, CUstream s)
{
	CUresult code = check_stream(s);
	return code ? code : cuMemcpyPeer(to, tc, from, fc, n);
}

/* Rows of width elements, pitch bytes apart. */
static CUresult fill(const char *call, uint64_t to, size_t pitch, unsigned value, int bytes, size_t width, size_t rows)
{
	struct ctx *c;
	CUresult code = enter_ctx(call, &c);
	if (code)
		return code;
	if (!width || !rows)
		return leave(CUDA_SUCCESS);
	if (width > SIZE_MAX / 8 || (rows > 1 && (pitch < width * bytes || pitch > SIZE_MAX / 8 / rows)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	char *t = to % bytes ? 0 : here(to, pitch * (rows - 1) + width * bytes, 1);
	if (!t)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t row = 0; row < rows; row++, t += pitch) {
		if (bytes == 1)
			memset(t, (int)value, width);
		else
			for (size_t i = 0; i < width; i++)
				memcpy(t + i * bytes, &value, bytes);
	}
	return leave(CUDA_SUCCESS);
}

static CUresult fill_in(const char *call, uint64_t to, size_t pitch, unsigned value, int bytes, size_t width, size_t rows, CUstream s)
{
	CUresult code = check_stream(s);
	return code ? code : fill(call, to, pitch, value, bytes, width, rows);
}

#define FILL(bits, T) \
	API CUresult cuMemsetD##bits##_v2(CUdeviceptr p, T v, size_t n) { return fill("cuMemsetD" #bits, p, 0, v, bits / 8, n, 1); } \
	API CUresult cuMemsetD##bits##Async(CUdeviceptr p, T v, size_t n, CUstream s) \
	{ \
		return fill_in("cuMemsetD" #bits "Async", p, 0, v, bits / 8, n, 1, s); \
	} \
	API CUresult cuMemsetD2D##bits##_v2(CUdeviceptr p, size_t pitch, T v, size_t w, size_t h) \
	{ \
		return fill("cuMemsetD2D" #bits, p, pitch, v, bits / 8, w, h); \
	} \
	API CUresult cuMemsetD2D##bits##Async(CUdeviceptr p, size_t pitch, T v, size_t w, size_t h, CUstream s) \
	{ \
		return fill_in("cuMemsetD2D" #bits "Async", p, pitch, v, bits / 8, w, h, s); \
	}
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
