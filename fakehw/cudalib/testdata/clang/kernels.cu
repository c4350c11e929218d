/*
 * Kernels of the common kind, without a header of the CUDA toolkit. The .ptx files
 * beside this one are what a compiler made of it; "sh make.sh" makes them again.
 */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#ifdef CALLS /* without optimisation these stay functions of their own */
#define INLINE
#else
#define INLINE __attribute__((always_inline))
#endif

static __device__ INLINE int thread(void) { return __nvvm_read_ptx_sreg_tid_x(); }

static __device__ INLINE int first(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

static __device__ INLINE int stride(void) { return __nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x(); }

extern "C" __global__ void vadd(float *out, const float *a, const float *b, int n)
{
	int i = first();
	if (i < n)
		out[i] = a[i] + b[i];
}

/* Four elements of each thread at a time, as one vector. */
typedef float float4 __attribute__((ext_vector_type(4)));
extern "C" __global__ void vadd4(float4 *out, const float4 *a, const float4 *b, int n)
{
	int i = first();
	if (i < n)
		out[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float *y, const float *x, float a, int n)
{
	for (int i = first(); i < n; i += stride())
		y[i] = a * x[i] + y[i];
}

/* One sum for each block of 256. */
extern "C" __global__ void reduce(unsigned *out, const unsigned *in, int n)
{
	__shared__ unsigned part[256];
	unsigned sum = 0;
	for (int i = first(); i < n; i += stride())
		sum += in[i];
	part[thread()] = sum;
	__syncthreads();
	for (int half = 128; half > 0; half /= 2) {
		if (thread() < half)
			part[thread()] += part[thread() + half];
		__syncthreads();
	}
	if (thread() == 0)
		out[__nvvm_read_ptx_sreg_ctaid_x()] = part[0];
}

/* The largest of all, signed: shared memory whose size the launch says, and an
 * atomic operation for each block. */
extern __shared__ int row[];
extern "C" __global__ void largest(int *out, const int *in, int n)
{
	int top = -2147483647 - 1;
	for (int i = first(); i < n; i += stride())
		top = in[i] > top ? in[i] : top;
	row[thread()] = top;
	__syncthreads();
	for (int half = __nvvm_read_ptx_sreg_ntid_x() / 2; half > 0; half >>= 1) {
		if (thread() < half && row[thread() + half] > row[thread()])
			row[thread()] = row[thread() + half];
		__syncthreads();
	}
	if (thread() == 0)
		__nvvm_atom_max_gen_i(out, row[0]);
}

/* A branch of many ways, 8 and 16 bits, 64 bits and double precision. */
extern "C" __global__ void mixed(double *out, const unsigned char *op, const short *a, const long long *b, int n)
{
	int i = first();
	if (i >= n)
		return;
	double r;
	switch (op[i] % 6) {
	case 0: r = a[i]; break;
	case 1: r = (double)b[i]; break;
	case 2: r = (double)(a[i] * b[i]); break;
	case 3: r = b[i] / (a[i] ? a[i] : 1); break;
	case 4: r = (double)a[i] / 3; break;
	default: r = (unsigned short)a[i] % 7; break;
	}
	out[i] = r;
}
