/* Integer arithmetic. */
#include "alu.h"

FN2(add16, uint16_t, uint16_t, a + b)
FN2(add32, uint32_t, uint32_t, a + b)
FN2(add64, uint64_t, uint64_t, a + b)
FN2(sub16, uint16_t, uint16_t, a - b)
FN2(sub32, uint32_t, uint32_t, a - b)
FN2(sub64, uint64_t, uint64_t, a - b)

static int64_t clamp32(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v; }
FN2(adds32, int32_t, uint32_t, clamp32((int64_t)a + b))
FN2(subs32, int32_t, uint32_t, clamp32((int64_t)a - b))

#define CARRY(bits, T) \
	static void addc##bits##_out(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b], sum; \
		r[i->e] = __builtin_add_overflow(a, b, &sum); \
		r[i->d] = sum; \
	} \
	static void subc##bits##_out(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b], rest; \
		r[i->e] = !__builtin_sub_overflow(a, b, &rest); \
		r[i->d] = rest; \
	} \
	static void addc##bits(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b], sum; \
		int out = __builtin_add_overflow(a, b, &sum); \
		out |= __builtin_add_overflow(sum, (T)r[i->e], &sum); \
		if (i->n) \
			r[i->e] = out; \
		r[i->d] = sum; \
	} \
	static void subc##bits(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b], rest; \
		int borrow = __builtin_sub_overflow(a, b, &rest); \
		borrow |= __builtin_sub_overflow(rest, (T)!r[i->e], &rest); \
		if (i->n) \
			r[i->e] = !borrow; \
		r[i->d] = rest; \
	}
CARRY(32, uint32_t)
CARRY(64, uint64_t)

FN2(mullo16, uint16_t, uint16_t, (uint32_t)a * b)
FN2(mullo32, uint32_t, uint32_t, a * b)
FN2(mullo64, uint64_t, uint64_t, a * b)
FN2(mulhiu16, uint16_t, uint16_t, (uint32_t)a * b >> 16)
FN2(mulhis16, int16_t, uint16_t, (int32_t)a * b >> 16)
FN2(mulhiu32, uint32_t, uint32_t, (uint64_t)a * b >> 32)
FN2(mulhis32, int32_t, uint32_t, (int64_t)a * b >> 32)
FN2(mulhiu64, uint64_t, uint64_t, (unsigned __int128)a * b >> 64)
FN2(mulhis64, int64_t, uint64_t, (__int128)a * b >> 64)
FN2(mulwideu16, uint16_t, uint32_t, (uint32_t)a * b)
FN2(mulwides16, int16_t, uint32_t, (int32_t)a * b)
FN2(mulwideu32, uint32_t, uint64_t, (uint64_t)a * b)
FN2(mulwides32, int32_t, uint64_t, (int64_t)a * b)

#define MAD(name, T, U, product) \
	static void name(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b]; \
		r[i->d] = (U)((U)(product) + (U)r[i->c]); \
	}
MAD(madlo16, uint16_t, uint16_t, (uint32_t)a *b)
MAD(madlo32, uint32_t, uint32_t, a *b)
MAD(madlo64, uint64_t, uint64_t, a *b)
MAD(madhiu16, uint16_t, uint16_t, (uint32_t)a *b >> 16)
MAD(madhis16, int16_t, uint16_t, (int32_t)a *b >> 16)
MAD(madhiu32, uint32_t, uint32_t, (uint64_t)a *b >> 32)
MAD(madhis32, int32_t, uint32_t, (int64_t)a *b >> 32)
MAD(madhiu64, uint64_t, uint64_t, (unsigned __int128)a *b >> 64)
MAD(madhis64, int64_t, uint64_t, (__int128)a *b >> 64)
MAD(madwideu16, uint16_t, uint32_t, (uint32_t)a *b)
MAD(madwides16, int16_t, uint32_t, (int32_t)a *b)
MAD(madwideu32, uint32_t, uint64_t, (uint64_t)a *b)
MAD(madwides32, int32_t, uint64_t, (int64_t)a *b)

/* The lower 24 bits; .hi is bits 16 to 47 of the product. */
static uint32_t u24(uint32_t v) { return v & 0xffffff; }
static int32_t s24(int32_t v) { return (int32_t)((uint32_t)v << 8) >> 8; }
FN2(mul24lou, uint32_t, uint32_t, (uint64_t)u24(a) * u24(b))
FN2(mul24los, int32_t, uint32_t, (int64_t)s24(a) * s24(b))
FN2(mul24hiu, uint32_t, uint32_t, (uint64_t)u24(a) * u24(b) >> 16)
FN2(mul24his, int32_t, uint32_t, (int64_t)s24(a) * s24(b) >> 16)
MAD(mad24lou, uint32_t, uint32_t, (uint64_t)u24(a) * u24(b))
MAD(mad24los, int32_t, uint32_t, (int64_t)s24(a) * s24(b))
MAD(mad24hiu, uint32_t, uint32_t, (uint64_t)u24(a) * u24(b) >> 16)
MAD(mad24his, int32_t, uint32_t, (int64_t)s24(a) * s24(b) >> 16)

/* What a division by zero gives is not specified; the chip gives all ones, and
 * the dividend as remainder. The quotient that does not fit is the dividend. */
#define DIVISION(suffix, T, U) \
	FN2(divu##suffix, U, U, b ? a / b : (U)-1) \
	FN2(remu##suffix, U, U, b ? a % b : a) \
	FN2(divs##suffix, T, U, b == 0 ? -1 : b == -1 ? (T)(0 - (U)a) : a / b) \
	FN2(rems##suffix, T, U, b == 0 ? a : b == -1 ? 0 : a % b)
DIVISION(16, int16_t, uint16_t)
DIVISION(32, int32_t, uint32_t)
DIVISION(64, int64_t, uint64_t)

#define ORDER(suffix, T, U) \
	FN2(minu##suffix, U, U, a < b ? a : b) \
	FN2(mins##suffix, T, U, a < b ? a : b) \
	FN2(maxu##suffix, U, U, a > b ? a : b) \
	FN2(maxs##suffix, T, U, a > b ? a : b) \
	FN1(neg##suffix, U, U, 0 - a) \
	FN1(abs##suffix, T, U, a < 0 ? (U)(0 - (U)a) : (U)a) \
	FN3(sadu##suffix, U, U, (U)(a < b ? (U)(b - a) : (U)(a - b)) + c) \
	FN3(sads##suffix, T, U, (U)(a < b ? (U)((U)b - (U)a) : (U)((U)a - (U)b)) + (U)c)
ORDER(16, int16_t, uint16_t)
ORDER(32, int32_t, uint32_t)
ORDER(64, int64_t, uint64_t)

static void dp4a(uint64_t *r, const struct ins *i)
{
	uint32_t sum = (uint32_t)r[i->c];
	for (int n = 0; n < 32; n += 8) {
		uint8_t a = (uint8_t)(r[i->a] >> n), b = (uint8_t)(r[i->b] >> n);
		int32_t x = i->how & 1 ? (int8_t)a : a, y = i->how & 2 ? (int8_t)b : b;
		sum += (uint32_t)(x * y);
	}
	r[i->d] = sum;
}

#define SAME(name, fn) {name, "us", 16, fn##16}, {name, "us", 32, fn##32}, {name, "us", 64, fn##64}
#define SIGNED(name, fn) \
	{name, "u", 16, fn##u16}, {name, "s", 16, fn##s16}, {name, "u", 32, fn##u32}, {name, "s", 32, fn##s32}
#define SIGNED64(name, fn) SIGNED(name, fn), {name, "u", 64, fn##u64}, {name, "s", 64, fn##s64}

const struct alu_row alu_integers[] = {
	SAME("add", add), SAME("sub", sub), {"adds", "s", 32, adds32}, {"subs", "s", 32, subs32},
	{"addc", "us", 32, addc32}, {"addc", "us", 64, addc64}, {"subc", "us", 32, subc32}, {"subc", "us", 64, subc64},
	{"addcc", "us", 32, addc32_out}, {"addcc", "us", 64, addc64_out}, {"subcc", "us", 32, subc32_out}, {"subcc", "us", 64, subc64_out},
	SAME("mullo", mullo), SIGNED64("mulhi", mulhi), SIGNED("mulwide", mulwide),
	SAME("madlo", madlo), SIGNED64("madhi", madhi), SIGNED("madwide", madwide),
	{"mul24lo", "u", 32, mul24lou}, {"mul24lo", "s", 32, mul24los}, {"mul24hi", "u", 32, mul24hiu}, {"mul24hi", "s", 32, mul24his},
	{"mad24lo", "u", 32, mad24lou}, {"mad24lo", "s", 32, mad24los}, {"mad24hi", "u", 32, mad24hiu}, {"mad24hi", "s", 32, mad24his},
	SIGNED64("div", div), SIGNED64("rem", rem), SIGNED64("min", min), SIGNED64("max", max), SIGNED64("sad", sad),
	SAME("neg", neg), SAME("abs", abs), {"dp4a", "us", 32, dp4a}, {0, 0, 0, 0},
};
