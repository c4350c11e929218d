/* What the tables of arithmetic share. */
#ifndef GPURIG_ALU_H
#define GPURIG_ALU_H

#include "ptx.h"

#include <string.h>

/* A function for a name, kinds of types ("us") and a width. */
struct alu_row {
	const char *name, *kinds;
	uint8_t bits;
	alu fn;
};
extern const struct alu_row alu_integers[], alu_bits[], alu_floats[], alu_moves[];

/* FN defines a function: T are the operands, U what is stored. A 32-bit value has
 * zeros above it in its slot, always. */
#define FN1(name, T, U, expr) \
	static void name(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a]; \
		r[i->d] = (U)(expr); \
	}
#define FN2(name, T, U, expr) \
	static void name(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b]; \
		r[i->d] = (U)(expr); \
	}
#define FN3(name, T, U, expr) \
	static void name(uint64_t *r, const struct ins *i) \
	{ \
		T a = (T)r[i->a], b = (T)r[i->b], c = (T)r[i->c]; \
		r[i->d] = (U)(expr); \
	}

static inline float float_of(uint64_t v)
{
	uint32_t u = (uint32_t)v;
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint64_t of_float(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline double double_of(uint64_t v)
{
	double d;
	memcpy(&d, &v, sizeof d);
	return d;
}

static inline uint64_t of_double(double d)
{
	uint64_t u;
	memcpy(&u, &d, sizeof u);
	return u;
}

#endif
