/* Moves, comparisons, selections and conversions. */
#include "alu.h"

#include <fenv.h>
#include <math.h>

static void mov(uint64_t *r, const struct ins *i) { r[i->d] = r[i->a]; }

static void pack(uint64_t *r, const struct ins *i)
{
	uint64_t v = 0;
	for (int k = i->n; k-- > 0;)
		v = v << i->type.bits | r[i->v[k]];
	r[i->d] = v;
}

static void unpack(uint64_t *r, const struct ins *i)
{
	uint64_t v = r[i->a];
	for (int k = 0; k < i->n; k++, v >>= i->type.bits)
		r[i->v[k]] = v & (((uint64_t)1 << i->type.bits) - 1);
}

FN3(selp, uint64_t, uint64_t, c ? a : b)
static void slct_s32(uint64_t *r, const struct ins *i) { r[i->d] = (int32_t)r[i->c] >= 0 ? r[i->a] : r[i->b]; }
static void slct_f32(uint64_t *r, const struct ins *i)
{
	float c = float_of(r[i->c]); /* a subnormal that is flushed is -0, which is >= 0 */
	int flush = (i->mods & MOD_FTZ) && fpclassify(c) == FP_SUBNORMAL;
	r[i->d] = flush || c >= 0 ? r[i->a] : r[i->b];
}

#define INTEGER(how, a, b) \
	((how) == 0 ? (a) == (b) : (how) == 1 ? (a) != (b) : (how) == 2 ? (a) < (b) : (how) == 3 ? (a) <= (b) : (how) == 4 ? (a) > (b) : (a) >= (b))

static int compare_floats(int how, double a, double b)
{
	int unordered = a != a || b != b;
	switch (how) {
	case 0: return a == b;
	case 1: return !unordered && a != b;
	case 2: return a < b;
	case 3: return a <= b;
	case 4: return a > b;
	case 5: return a >= b;
	case 10: return unordered || a == b;
	case 11: return a != b;
	case 12: return unordered || a < b;
	case 13: return unordered || a <= b;
	case 14: return unordered || a > b;
	case 15: return unordered || a >= b;
	case 16: return !unordered;
	default: return unordered;
	}
}

static float maybe_flushed(const struct ins *i, uint64_t v)
{
	float f = float_of(v);
	return (i->mods & MOD_FTZ) && fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f;
}

/* The second result is computed from the opposite comparison. */
static void combine(uint64_t *r, const struct ins *i, int t)
{
	int c = i->n ? (int)(r[i->c] & 1) ^ (int)i->e : 0, p, q;
	int other = !t;
	switch (i->n) {
	case 1: p = t & c; q = other & c; break;
	case 2: p = t | c; q = other | c; break;
	case 3: p = t ^ c; q = other ^ c; break;
	default: p = t; q = other;
	}
	r[i->d] = p;
	if (i->wide)
		r[i->d2] = q;
}

#define COMPARE(suffix, T, read, test) \
	static void setp##suffix(uint64_t *r, const struct ins *i) \
	{ \
		T a = read(i, r[i->a]), b = read(i, r[i->b]); \
		r[i->d] = test(i->how, a, b); \
	} \
	static void setp2##suffix(uint64_t *r, const struct ins *i) \
	{ \
		T a = read(i, r[i->a]), b = read(i, r[i->b]); \
		combine(r, i, test(i->how, a, b)); \
	} \
	static void set##suffix(uint64_t *r, const struct ins *i) \
	{ \
		T a = read(i, r[i->a]), b = read(i, r[i->b]); \
		r[i->d] = test(i->how, a, b) ? (i->n ? 0x3f800000 : 0xffffffff) : 0; \
	}
#define AS_U16(i, v) (uint16_t)(v)
#define AS_S16(i, v) (int16_t)(v)
#define AS_U32(i, v) (uint32_t)(v)
#define AS_S32(i, v) (int32_t)(v)
#define AS_U64(i, v) (v)
#define AS_S64(i, v) (int64_t)(v)
#define AS_F64(i, v) double_of(v)
COMPARE(u16, uint16_t, AS_U16, INTEGER)
COMPARE(s16, int16_t, AS_S16, INTEGER)
COMPARE(u32, uint32_t, AS_U32, INTEGER)
COMPARE(s32, int32_t, AS_S32, INTEGER)
COMPARE(u64, uint64_t, AS_U64, INTEGER)
COMPARE(s64, int64_t, AS_S64, INTEGER)
COMPARE(f32, float, maybe_flushed, compare_floats)
COMPARE(f64, double, AS_F64, compare_floats)

static double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h & 0x8000 ? -v : v;
}

/* The nearest half, or the one towards zero. A double holds what is rounded
 * exactly, so it is rounded once. */
static uint16_t half(double d, int toward_zero)
{
	uint16_t sign = signbit(d) ? 0x8000 : 0;
	if (d != d)
		return 0x7fff;
	d = fabs(d);
	if (isinf(d))
		return sign | 0x7c00;
	int e;
	frexp(d, &e);
	if (e < -13)
		e = -13; /* subnormals have the exponent of the least normal */
	double units = ldexp(d, 11 - e), whole = floor(units), rest = units - whole;
	if (!toward_zero && (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) == 1)))
		whole++;
	double rounded = ldexp(whole, e - 11);
	if (rounded > 65504)
		return sign | (toward_zero ? 0x7bff : 0x7c00);
	if (rounded < 0x1p-14)
		return sign | (uint16_t)ldexp(rounded, 24);
	frexp(rounded, &e);
	return sign | (uint16_t)((e + 14) << 10) | ((uint16_t)ldexp(rounded, 11 - e) & 1023);
}

static double integral(double d, int round)
{
	switch (round) {
	case 0: return nearbyint(d);
	case 1: return trunc(d);
	case 2: return floor(d);
	default: return ceil(d);
	}
}

/* What a floating-point value is as an integer of a type: clamped, and for what is
 * no number zero, or the top bit alone where 64 bits are involved. */
static uint64_t to_integer(const struct ins *i, double d)
{
	int bits = i->type.bits, is_signed = i->type.kind == 's';
	if (d != d)
		return i->from.bits == 64 || bits == 64 ? (uint64_t)1 << (bits - 1) : 0;
	d = integral(d, i->round);
	double top = ldexp(1, bits - is_signed), bottom = is_signed ? -top : 0;
	if (d >= top)
		return ((uint64_t)1 << (bits - 1)) - 1 + (is_signed ? 0 : (uint64_t)1 << (bits - 1));
	if (d <= bottom)
		return is_signed ? (uint64_t)1 << (bits - 1) : 0;
	return is_signed ? (uint64_t)(int64_t)d : (uint64_t)d;
}

static const int directions[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

static uint64_t to_float(const struct ins *i, double d)
{
	if (i->n)
		d = integral(d, i->round);
	if ((i->mods & MOD_SAT))
		d = d > 0 ? (d < 1 ? d : 1) : 0;
	if (i->type.bits == 64)
		return of_double(d);
	if (i->type.bits == 16)
		return half(d, i->round == RZ);
	volatile double x = d;
	fesetround(directions[i->n ? RN : i->round]);
	volatile float f = (float)x;
	fesetround(FE_TONEAREST);
	if ((i->mods & MOD_FTZ) && fpclassify(f) == FP_SUBNORMAL)
		f = copysignf(0, f);
	return f != f ? 0x7fffffff : of_float(f);
}

static uint64_t integer_to_float(const struct ins *i, uint64_t u, int is_signed)
{
	volatile int64_t s = (int64_t)u;
	volatile uint64_t v = u;
	if (i->type.bits == 16)
		return half(is_signed ? (double)s : (double)v, i->round == RZ);
	fesetround(directions[i->round]);
	volatile float f = 0;
	volatile double d = 0;
	if (i->type.bits == 32)
		f = is_signed ? (float)s : (float)v;
	else
		d = is_signed ? (double)s : (double)v;
	fesetround(FE_TONEAREST);
	if (i->mods & MOD_SAT) {
		f = f > 0 ? (f < 1 ? f : 1) : 0;
		d = d > 0 ? (d < 1 ? d : 1) : 0;
	}
	return i->type.bits == 32 ? of_float(f) : of_double(d);
}

/* An integer in its type, with its sign in all 64 bits. */
static uint64_t extended(uint64_t v, int bits, int is_signed)
{
	int above = 64 - bits;
	return is_signed ? (uint64_t)((int64_t)(v << above) >> above) : v << above >> above;
}

static uint64_t clamped(const struct ins *i, uint64_t v)
{
	int bits = i->type.bits, from_signed = i->from.kind == 's';
	int64_t s = (int64_t)v;
	if (i->type.kind == 's') {
		int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
		if (from_signed)
			return (uint64_t)(s > top ? top : s < -top - 1 ? -top - 1 : s);
		return v > (uint64_t)top ? (uint64_t)top : v;
	}
	uint64_t top = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
	return from_signed && s < 0 ? 0 : v > top ? top : v;
}

static void cvt(uint64_t *r, const struct ins *i)
{
	uint64_t v = r[i->a];
	int in = i->from.kind == 'f', out = i->type.kind == 'f';
	if (in) {
		double d = i->from.bits == 32 ? maybe_flushed(i, v) : i->from.bits == 64 ? double_of(v) : half_value((uint16_t)v);
		v = out ? to_float(i, d) : to_integer(i, d);
	} else {
		v = extended(v, i->from.bits, i->from.kind == 's');
		if (out)
			v = integer_to_float(i, v, i->from.kind == 's');
		else if (i->mods & MOD_SAT)
			v = clamped(i, v);
	}
	if (!out) {
		v = extended(v, i->type.bits, i->type.kind == 's');
		v = extended(v, i->wide, 0);
	}
	r[i->d] = v;
}

alu alu_find(const char *name, struct type type)
{
	const struct alu_row *const tables[] = {alu_integers, alu_bits, alu_floats, alu_moves};
	for (size_t n = 0; n < sizeof tables / sizeof *tables; n++)
		for (const struct alu_row *row = tables[n]; row->name; row++)
			if (!strcmp(row->name, name) && (!row->bits || row->bits == type.bits) && strchr(row->kinds, type.kind))
				return row->fn;
	return 0;
}

#define TYPES(name, fn) \
	{name, "bu", 16, fn##u16}, {name, "s", 16, fn##s16}, {name, "bu", 32, fn##u32}, {name, "s", 32, fn##s32}, \
	{name, "bu", 64, fn##u64}, {name, "s", 64, fn##s64}, {name, "f", 32, fn##f32}, {name, "f", 64, fn##f64}

const struct alu_row alu_moves[] = {
	{"mov", "busfp", 0, mov}, {"pack", "b", 0, pack}, {"unpack", "b", 0, unpack}, {"selp", "p", 0, selp}, {"slct", "s", 32, slct_s32},
	{"slct", "f", 32, slct_f32}, TYPES("setp", setp), TYPES("setp2", setp2), TYPES("set", set), {"cvt", "usf", 0, cvt}, {0, 0, 0, 0},
};
