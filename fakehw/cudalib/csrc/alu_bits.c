/* Operations on bits. */
#include "alu.h"

#define LOGIC(suffix, U) \
	FN2(and##suffix, U, U, a & b) \
	FN2(or##suffix, U, U, a | b) \
	FN2(xor##suffix, U, U, a ^ b) \
	FN1(not##suffix, U, U, ~a) \
	FN1(cnot##suffix, U, U, a == 0)
LOGIC(16, uint16_t)
LOGIC(32, uint32_t)
LOGIC(64, uint64_t)
FN1(not1, uint64_t, uint64_t, !a)

/* Amounts above the width are the width: nothing is left, or the sign alone. */
#define SHIFT(suffix, T, U, bits) \
	static void shl##suffix(uint64_t *r, const struct ins *i) \
	{ \
		uint32_t n = (uint32_t)r[i->b]; \
		r[i->d] = n >= bits ? 0 : (U)((uint64_t)(U)r[i->a] << n); \
	} \
	static void shru##suffix(uint64_t *r, const struct ins *i) \
	{ \
		uint32_t n = (uint32_t)r[i->b]; \
		r[i->d] = n >= bits ? 0 : (U)((U)r[i->a] >> n); \
	} \
	static void shrs##suffix(uint64_t *r, const struct ins *i) \
	{ \
		uint32_t n = (uint32_t)r[i->b]; \
		r[i->d] = (U)((T)r[i->a] >> (n >= bits ? bits - 1 : n)); \
	}
SHIFT(16, int16_t, uint16_t, 16)
SHIFT(32, int32_t, uint32_t, 32)
SHIFT(64, int64_t, uint64_t, 64)

FN1(popc32, uint32_t, uint32_t, __builtin_popcount(a))
FN1(popc64, uint64_t, uint32_t, __builtin_popcountll(a))
FN1(clz32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
FN1(clz64, uint64_t, uint32_t, a ? __builtin_clzll(a) : 64)

/* The highest bit that differs from the sign, or -1. */
static uint32_t highest(uint64_t v) { return v ? (uint32_t)(63 - __builtin_clzll(v)) : 0xffffffff; }
static uint32_t to_top(uint32_t at, int bits) { return at == 0xffffffff ? at : (uint32_t)(bits - 1) - at; }
FN1(bfindu32, uint32_t, uint32_t, highest(a))
FN1(bfinds32, int32_t, uint32_t, highest((uint32_t)(a < 0 ? ~a : a)))
FN1(bfindu64, uint64_t, uint32_t, highest(a))
FN1(bfinds64, int64_t, uint32_t, highest((uint64_t)(a < 0 ? ~a : a)))
FN1(bfindau32, uint32_t, uint32_t, to_top(highest(a), 32))
FN1(bfindas32, int32_t, uint32_t, to_top(highest((uint32_t)(a < 0 ? ~a : a)), 32))
FN1(bfindau64, uint64_t, uint32_t, to_top(highest(a), 64))
FN1(bfindas64, int64_t, uint32_t, to_top(highest((uint64_t)(a < 0 ? ~a : a)), 64))

static uint64_t reversed(uint64_t v, int bits)
{
	uint64_t out = 0;
	for (int n = 0; n < bits; n++)
		out |= (v >> n & 1) << (bits - 1 - n);
	return out;
}
FN1(brev32, uint32_t, uint32_t, reversed(a, 32))
FN1(brev64, uint64_t, uint64_t, reversed(a, 64))

/* Bits [at, at+n) of a; above them the sign: that of the field's last bit. */
static uint64_t field(uint64_t a, uint32_t at, uint32_t n, uint32_t bits, int is_signed)
{
	uint64_t out = 0, last = at + n - 1 < bits - 1 ? at + n - 1 : bits - 1;
	uint64_t sign = is_signed && n && (a >> last & 1);
	for (uint32_t k = 0; k < bits; k++)
		out |= (k < n && at + k < bits ? a >> (at + k) & 1 : sign) << k;
	return out;
}

static void bfe(uint64_t *r, const struct ins *i)
{
	r[i->d] = field(r[i->a], (uint32_t)r[i->b] & 255, (uint32_t)r[i->c] & 255, i->type.bits, i->type.kind == 's');
}

static void bfi(uint64_t *r, const struct ins *i)
{
	uint32_t at = (uint32_t)r[i->b] & 255, n = (uint32_t)r[i->c] & 255;
	uint64_t from = r[i->a], into = r[i->e];
	for (uint32_t k = 0; k < n && at + k < i->type.bits; k++)
		into = (into & ~((uint64_t)1 << (at + k))) | (from >> k & 1) << (at + k);
	r[i->d] = into;
}

/* Of the 64 bits b:a, the upper or lower half after a shift by c. */
static void shf(uint64_t *r, const struct ins *i)
{
	uint64_t both = (uint64_t)(uint32_t)r[i->b] << 32 | (uint32_t)r[i->a];
	uint32_t n = (uint32_t)r[i->c];
	n = i->how & 2 ? n & 31 : n > 32 ? 32 : n;
	r[i->d] = i->how & 1 ? (uint32_t)(both >> n) : (uint32_t)(both << n >> 32);
}

static void lop3(uint64_t *r, const struct ins *i)
{
	uint32_t a = (uint32_t)r[i->a], b = (uint32_t)r[i->b], c = (uint32_t)r[i->c], out = 0;
	for (int k = 0; k < 8; k++)
		if (i->how >> k & 1)
			out |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
	r[i->d] = out;
}

/* Four of the eight bytes b:a, chosen by the nibbles of c; bit 3 takes the sign. */
static void prmt(uint64_t *r, const struct ins *i)
{
	uint64_t both = (uint64_t)(uint32_t)r[i->b] << 32 | (uint32_t)r[i->a];
	uint32_t out = 0;
	for (int k = 0; k < 4; k++) {
		uint32_t by = (uint32_t)(r[i->c] >> (4 * k)) & 15, byte = (uint32_t)(both >> (8 * (by & 7))) & 255;
		out |= (by & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * k);
	}
	r[i->d] = out;
}

#define ALL(name, fn) {name, "b", 16, fn##16}, {name, "b", 32, fn##32}, {name, "b", 64, fn##64}
#define BIT(name, fn) ALL(name, fn), {name, "p", 1, fn##64}

const struct alu_row alu_bits[] = {
	BIT("and", and), BIT("or", or), BIT("xor", xor), ALL("not", not), {"not", "p", 1, not1}, ALL("cnot", cnot), ALL("shl", shl),
	{"shr", "bu", 16, shru16}, {"shr", "bu", 32, shru32}, {"shr", "bu", 64, shru64}, {"shr", "s", 16, shrs16}, {"shr", "s", 32, shrs32},
	{"shr", "s", 64, shrs64}, {"popc", "b", 32, popc32}, {"popc", "b", 64, popc64}, {"clz", "b", 32, clz32}, {"clz", "b", 64, clz64},
	{"bfind", "u", 32, bfindu32}, {"bfind", "s", 32, bfinds32}, {"bfind", "u", 64, bfindu64}, {"bfind", "s", 64, bfinds64},
	{"bfinda", "u", 32, bfindau32}, {"bfinda", "s", 32, bfindas32}, {"bfinda", "u", 64, bfindau64}, {"bfinda", "s", 64, bfindas64},
	{"brev", "b", 32, brev32}, {"brev", "b", 64, brev64}, {"bfe", "us", 32, bfe}, {"bfe", "us", 64, bfe}, {"bfi", "b", 32, bfi},
	{"bfi", "b", 64, bfi}, {"shf", "b", 32, shf}, {"lop3", "b", 32, lop3}, {"prmt", "b", 32, prmt}, {0, 0, 0, 0},
};
