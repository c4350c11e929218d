/*
 * Floating-point arithmetic. Rounding to nearest, without flushing and clamping,
 * has a fast function; every other modifier goes through one with "~" in its name.
 *
 * Single-precision results that are not numbers are 0x7fffffff, as on the chip.
 * What PTX calls an approximation is exact here, within its error bounds.
 */
#include "alu.h"

#include <fenv.h>
#include <math.h>

static uint64_t single(float f) { return f != f ? 0x7fffffff : of_float(f); }

static float flushed(float f) { return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f; }
static float in(const struct ins *i, uint64_t v) { return i->mods & MOD_FTZ ? flushed(float_of(v)) : float_of(v); }

static uint64_t out(const struct ins *i, float f)
{
	if (i->mods & MOD_FTZ)
		f = flushed(f);
	if (i->mods & MOD_SAT)
		f = f > 0 ? (f < 1 ? f : 1) : 0;
	return single(f);
}

static uint64_t out64(const struct ins *i, double d)
{
	if (i->mods & MOD_SAT)
		d = d > 0 ? (d < 1 ? d : 1) : 0;
	return of_double(d);
}

static const int directions[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/* A binary operation in both precisions and speeds. The volatile keeps it between
 * the changes of direction. */
#define ARITHMETIC(name, expr32, expr64) \
	static void name##32(uint64_t *r, const struct ins *i) \
	{ \
		float a = float_of(r[i->a]), b = float_of(r[i->b]), c = float_of(r[i->c]); \
		(void)b, (void)c; \
		r[i->d] = single(expr32); \
	} \
	static void name##64(uint64_t *r, const struct ins *i) \
	{ \
		double a = double_of(r[i->a]), b = double_of(r[i->b]), c = double_of(r[i->c]); \
		(void)b, (void)c; \
		r[i->d] = of_double(expr64); \
	} \
	static void name##32_slow(uint64_t *r, const struct ins *i) \
	{ \
		volatile float a = in(i, r[i->a]), b = in(i, r[i->b]), c = in(i, r[i->c]), x; \
		(void)b, (void)c; \
		fesetround(directions[i->round]); \
		x = expr32; \
		fesetround(FE_TONEAREST); \
		r[i->d] = out(i, x); \
	} \
	static void name##64_slow(uint64_t *r, const struct ins *i) \
	{ \
		volatile double a = double_of(r[i->a]), b = double_of(r[i->b]), c = double_of(r[i->c]), x; \
		(void)b, (void)c; \
		fesetround(directions[i->round]); \
		x = expr64; \
		fesetround(FE_TONEAREST); \
		r[i->d] = out64(i, x); \
	}
ARITHMETIC(add, a + b, a + b)
ARITHMETIC(sub, a - b, a - b)
ARITHMETIC(mul, a *b, a *b)
ARITHMETIC(fma, fmaf(a, b, c), fma(a, b, c))
ARITHMETIC(div, a / b, a / b)
ARITHMETIC(rcp, 1 / a, 1 / a)
ARITHMETIC(sqrt, sqrtf(a), sqrt(a))

/* A quotient by more than 2^126 is 0: the reciprocal is flushed on the way. */
static void divapprox(uint64_t *r, const struct ins *i)
{
	float a = in(i, r[i->a]), b = in(i, r[i->b]);
	int large = fabsf(b) > 0x1p126f && !isinf(b);
	r[i->d] = out(i, large ? (isinf(a) ? NAN : copysignf(0, a) * copysignf(1, b)) : a / b);
}

#define APPROXIMATION(name, expr) \
	static void name(uint64_t *r, const struct ins *i) \
	{ \
		float a = in(i, r[i->a]); \
		r[i->d] = out(i, expr); \
	}
APPROXIMATION(rsqrt32, (float)(1 / sqrt((double)a)))
APPROXIMATION(sin32, sinf(a))
APPROXIMATION(cos32, cosf(a))
APPROXIMATION(lg232, log2f(a))
APPROXIMATION(ex232, exp2f(a))
APPROXIMATION(tanh32, tanhf(a))

static void rsqrt64(uint64_t *r, const struct ins *i) { r[i->d] = of_double(1 / sqrt(double_of(r[i->a]))); }

/* The lesser or greater; a number before what is none, -0 before +0. The n forms
 * give what is no number instead. */
#define ORDER(name, less) \
	static double name##_of(double a, double b, int nan) \
	{ \
		if (a != a || b != b) \
			return nan || (a != a && b != b) ? (double)NAN : a != a ? b : a; \
		return a == b ? (signbit(a) == less ? a : b) : (a < b) == less ? a : b; \
	} \
	static void name##32(uint64_t *r, const struct ins *i) { r[i->d] = out(i, (float)name##_of(in(i, r[i->a]), in(i, r[i->b]), 0)); } \
	static void name##n32(uint64_t *r, const struct ins *i) { r[i->d] = out(i, (float)name##_of(in(i, r[i->a]), in(i, r[i->b]), 1)); } \
	static void name##64(uint64_t *r, const struct ins *i) \
	{ \
		r[i->d] = of_double(name##_of(double_of(r[i->a]), double_of(r[i->b]), 0)); \
	}
ORDER(min, 1)
ORDER(max, 0)

/* Signs are bits: what is no number keeps its own. */
static void neg32(uint64_t *r, const struct ins *i) { r[i->d] = of_float(in(i, r[i->a])) ^ 0x80000000u; }
static void abs32(uint64_t *r, const struct ins *i) { r[i->d] = of_float(in(i, r[i->a])) & 0x7fffffffu; }
static void neg64(uint64_t *r, const struct ins *i) { r[i->d] = r[i->a] ^ (uint64_t)1 << 63; }
static void abs64(uint64_t *r, const struct ins *i) { r[i->d] = r[i->a] & ~((uint64_t)1 << 63); }
static void copysign32(uint64_t *r, const struct ins *i) { r[i->d] = (r[i->a] & 0x7fffffffu) | (r[i->b] & 0x80000000u); }
static void copysign64(uint64_t *r, const struct ins *i)
{
	const uint64_t sign = (uint64_t)1 << 63;
	r[i->d] = (r[i->a] & ~sign) | (r[i->b] & sign);
}

static int tested(int class, int how)
{
	switch (how) {
	case 0: return class != FP_NAN && class != FP_INFINITE;
	case 1: return class == FP_INFINITE;
	case 2: return class != FP_NAN;
	case 3: return class == FP_NAN;
	case 4: return class == FP_NORMAL;
	default: return class == FP_SUBNORMAL;
	}
}
static void testp32(uint64_t *r, const struct ins *i) { r[i->d] = tested(fpclassify(float_of(r[i->a])), i->how); }
static void testp64(uint64_t *r, const struct ins *i) { r[i->d] = tested(fpclassify(double_of(r[i->a])), i->how); }

#define BOTH(name) \
	{#name, "f", 32, name##32}, {#name, "f", 64, name##64}, {#name "~", "f", 32, name##32_slow}, {#name "~", "f", 64, name##64_slow}
#define ONE(name, fn) {name, "f", 32, fn}, {name "~", "f", 32, fn}

const struct alu_row alu_floats[] = {
	BOTH(add), BOTH(sub), BOTH(mul), BOTH(fma), BOTH(div), BOTH(rcp), BOTH(sqrt), ONE("divapprox", divapprox), ONE("rsqrt", rsqrt32),
	ONE("sin", sin32), ONE("cos", cos32), ONE("lg2", lg232), ONE("ex2", ex232), ONE("tanh", tanh32), {"rsqrt", "f", 64, rsqrt64},
	ONE("min", min32), ONE("max", max32), ONE("minn", minn32), ONE("maxn", maxn32), {"min", "f", 64, min64}, {"max", "f", 64, max64},
	ONE("neg", neg32), ONE("abs", abs32), {"neg", "f", 64, neg64}, {"abs", "f", 64, abs64}, {"copysign", "f", 32, copysign32},
	{"copysign", "f", 64, copysign64}, {"testp", "f", 32, testp32}, {"testp", "f", 64, testp64}, {0, 0, 0, 0},
};
