package cudalib_test

import (
	"math"
	"math/big"
)

// A direction is how PTX names a rounding.
type direction string

// nearest returns the float of 32 or 64 bits next to an exact value in a direction,
// as bits. The sign of an exact zero is for the caller.
func nearest(exact *big.Float, bits int, to direction) uint64 {
	if bits == 32 {
		f, _ := exact.Float32() // nearest, ties to even, subnormals too
		for f != 0 || exact.Sign() != 0 {
			next := f
			switch c := compare(float64(f), exact); {
			case to == "rp" && c < 0, to == "rz" && exact.Sign() < 0 && c < 0:
				next = math.Nextafter32(f, float32(math.Inf(1)))
			case to == "rm" && c > 0, to == "rz" && exact.Sign() > 0 && c > 0:
				next = math.Nextafter32(f, float32(math.Inf(-1)))
			}
			if next == f {
				break
			}
			f = next
		}
		if f == 0 && exact.Sign() < 0 {
			f = float32(math.Copysign(0, -1))
		}
		return uint64(math.Float32bits(f))
	}
	f, _ := exact.Float64()
	for f != 0 || exact.Sign() != 0 {
		next := f
		switch c := compare(f, exact); {
		case to == "rp" && c < 0, to == "rz" && exact.Sign() < 0 && c < 0:
			next = math.Nextafter(f, math.Inf(1))
		case to == "rm" && c > 0, to == "rz" && exact.Sign() > 0 && c > 0:
			next = math.Nextafter(f, math.Inf(-1))
		}
		if next == f {
			break
		}
		f = next
	}
	if f == 0 && exact.Sign() < 0 {
		f = math.Copysign(0, -1)
	}
	return math.Float64bits(f)
}

// compare says on which side of an exact value a float is.
func compare(f float64, exact *big.Float) int {
	if math.IsInf(f, 0) {
		return int(math.Copysign(1, f))
	}
	return new(big.Float).SetFloat64(f).Cmp(exact)
}

// wide is a value with room for any sum or product of doubles.
func wide(f float64) *big.Float { return new(big.Float).SetPrec(4400).SetFloat64(f) }

func value(bits int, v uint64) float64 {
	if bits == 32 {
		return float64(math.Float32frombits(uint32(v)))
	}
	return math.Float64frombits(v)
}

func bitsOf(bits int, f float64) uint64 {
	if bits == 32 {
		return uint64(math.Float32bits(float32(f)))
	}
	return math.Float64bits(f)
}

func special(fs ...float64) bool {
	for _, f := range fs {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return true
		}
	}
	return false
}

// signedZero is an exact zero of a sum: negative if all parts are, or, towards
// minus infinity, if any is.
func signedZero(bits int, to direction, parts ...float64) uint64 {
	negative, positive := 0, 0
	for _, p := range parts {
		if math.Signbit(p) {
			negative++
		} else {
			positive++
		}
	}
	if positive == 0 || (to == "rm" && negative > 0) {
		return bitsOf(bits, math.Copysign(0, -1))
	}
	return 0
}

func sum(bits int, to direction, a, b float64) uint64 {
	if special(a, b) {
		return bitsOf(bits, a+b)
	}
	exact := new(big.Float).SetPrec(4400).Add(wide(a), wide(b))
	if exact.Sign() == 0 {
		return signedZero(bits, to, a, b)
	}
	return nearest(exact, bits, to)
}

func fused(bits int, to direction, a, b, c float64) uint64 {
	if special(a, b, c) {
		return bitsOf(bits, math.FMA(a, b, c))
	}
	product := new(big.Float).SetPrec(4400).Mul(wide(a), wide(b))
	exact := new(big.Float).SetPrec(4400).Add(product, wide(c))
	if exact.Sign() == 0 {
		sign := 1.0
		if math.Signbit(a) != math.Signbit(b) {
			sign = -1
		}
		return signedZero(bits, to, math.Copysign(1, sign), c)
	}
	return nearest(exact, bits, to)
}

func product(bits int, to direction, a, b float64) uint64 {
	if special(a, b) || a == 0 || b == 0 {
		return bitsOf(bits, a*b)
	}
	return nearest(new(big.Float).SetPrec(4400).Mul(wide(a), wide(b)), bits, to)
}

func quotient(bits int, to direction, a, b float64) uint64 {
	if special(a, b) || a == 0 || b == 0 {
		return bitsOf(bits, a/b)
	}
	return nearest(new(big.Float).SetPrec(4400).Quo(wide(a), wide(b)), bits, to)
}

func root(bits int, to direction, a float64) uint64 {
	if special(a) || a <= 0 {
		return bitsOf(bits, math.Sqrt(a))
	}
	return nearest(new(big.Float).SetPrec(4400).Sqrt(wide(a)), bits, to)
}
