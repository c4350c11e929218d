/* The kernels of the smoke workload. kernels.ptx is what clang made of this; its first
 * line says how. */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define FIRST (__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + THREAD)

extern "C" __global__ void vadd(float *out, const float *a, const float *b, unsigned n)
{
	unsigned i = FIRST;
	if (i < n)
		out[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float *y, const float *x, float a, unsigned n)
{
	unsigned i = FIRST;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

/* One sum for each block of 256. */
extern "C" __global__ void reduce(unsigned *out, const unsigned *in, unsigned n)
{
	__shared__ unsigned part[256];
	unsigned i = FIRST;
	part[THREAD] = i < n ? in[i] : 0;
	__syncthreads();
#pragma clang loop unroll(disable)
	for (unsigned half = 128; half > 0; half /= 2) {
		if (THREAD < half)
			part[THREAD] += part[THREAD + half];
		__syncthreads();
	}
	if (THREAD == 0)
		out[__nvvm_read_ptx_sreg_ctaid_x()] = part[0];
}
