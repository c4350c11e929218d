package cudalib_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactInteger is an integer as a value without rounding.
func exactInteger(t typ, v uint64) *big.Float {
	f := new(big.Float).SetPrec(64)
	if t.kind == "s" {
		return f.SetInt64(signed(t.bits, v))
	}
	return f.SetUint64(v)
}

// toInteger clamps, and gives for what is no number 0, or the top bit alone where 64
// bits are involved: the PTX manual, "cvt".
func toInteger(from, to typ, how string, v uint64) uint64 {
	f := value(from.bits, v)
	if math.IsNaN(f) {
		if from.bits == 64 || to.bits == 64 {
			return 1 << (to.bits - 1)
		}
		return 0
	}
	switch how {
	case "rni":
		f = math.RoundToEven(f)
	case "rzi":
		f = math.Trunc(f)
	case "rmi":
		f = math.Floor(f)
	case "rpi":
		f = math.Ceil(f)
	}
	if math.IsInf(f, 0) {
		f = math.Copysign(1e300, f)
	}
	i, _ := big.NewFloat(f).Int(nil)
	return clamped(to, i)
}

func TestConversionsAreThoseOfGo(t *testing.T) {
	t.Parallel()
	r := newRunner(t, onHost(t, "dgx-a100"))
	rnd := rand.New(rand.NewPCG(3, 4))
	ints := []typ{ty("u16"), ty("s16"), ty("u32"), ty("s32"), ty("u64"), ty("s64")}
	var ops []operation
	for _, from := range ints {
		for _, to := range ints {
			if from != to {
				ops = append(ops, operation{fmt.Sprintf("cvt.%v.%v", to, from), to, []typ{from}, func(v []uint64) uint64 {
					if from.kind == "s" {
						return uint64(signed(from.bits, v[0]))
					}
					return v[0]
				}}, operation{fmt.Sprintf("cvt.sat.%v.%v", to, from), to, []typ{from}, func(v []uint64) uint64 {
					f := exactInteger(from, v[0])
					i, _ := f.Int(nil)
					return clamped(to, i)
				}})
			}
		}
		for _, n := range []int{32, 64} {
			f := typ{"f", n}
			for _, mode := range []direction{"rn", "rz", "rm", "rp"} {
				ops = append(ops, operation{fmt.Sprintf("cvt.%s.%v.%v", mode, f, from), f, []typ{from}, func(v []uint64) uint64 {
					if v[0] == 0 {
						return 0
					}
					return nearest(exactInteger(from, v[0]), n, mode)
				}}, operation{fmt.Sprintf("cvt.%si.%v.%v", mode, from, f), from, []typ{f}, func(v []uint64) uint64 {
					return toInteger(f, from, string(mode)+"i", v[0])
				}})
			}
		}
	}
	f32, f64 := ty("f32"), ty("f64")
	for _, mode := range []direction{"rn", "rz", "rm", "rp"} {
		ops = append(ops, operation{fmt.Sprintf("cvt.%s.f32.f64", mode), f32, []typ{f64}, func(v []uint64) uint64 {
			x := value(64, v[0])
			if special(x) || x == 0 {
				return bitsOf(32, x)
			}
			return nearest(wide(x), 32, mode)
		}})
	}
	ops = append(ops,
		operation{"cvt.f64.f32", f64, []typ{f32}, func(v []uint64) uint64 { return math.Float64bits(value(32, v[0])) }},
		operation{"cvt.rni.f32.f32", f32, []typ{f32}, func(v []uint64) uint64 { return bitsOf(32, math.RoundToEven(value(32, v[0]))) }},
		operation{"cvt.rmi.f64.f64", f64, []typ{f64}, func(v []uint64) uint64 { return bitsOf(64, math.Floor(value(64, v[0]))) }},
		operation{"{ .reg .b16 h; cvt.rn.f16.f32 h, x0; cvt.f32.f16 d, h; } // ", f32, []typ{f32}, func(v []uint64) uint64 { return throughHalf(value(32, v[0])) }})
	for _, o := range ops {
		o.check(t, r, rnd)
	}
}

// clamped is an integer, or the end of the type that is next to it.
func clamped(to typ, i *big.Int) uint64 {
	least, most := new(big.Int), new(big.Int).SetUint64(mask(to.bits))
	if to.kind == "s" {
		least.Neg(new(big.Int).Lsh(big.NewInt(1), uint(to.bits-1)))
		most.SetUint64(mask(to.bits) >> 1)
	}
	if i.Cmp(most) > 0 {
		i = most
	}
	if i.Cmp(least) < 0 {
		i = least
	}
	if i.Sign() < 0 {
		return uint64(i.Int64())
	}
	return i.Uint64()
}

// throughHalf rounds to 11 bits, or fewer below 2^-14.
func throughHalf(f float64) uint64 {
	if special(f) || f == 0 {
		return bitsOf(32, f)
	}
	_, e := math.Frexp(f)
	unit := math.Ldexp(1, max(e, -13)-11)
	f = math.RoundToEven(f/unit) * unit
	if math.Abs(f) > 65504 {
		f = math.Copysign(math.Inf(1), f)
	}
	return bitsOf(32, f)
}

// Comparisons, with a second result, a combination and an operand that is none.
func TestComparisonsAreThoseOfGo(t *testing.T) {
	t.Parallel()
	r := newRunner(t, onHost(t, "dgx-a100"))
	rnd := rand.New(rand.NewPCG(5, 6))
	u32 := ty("u32")
	compare := map[string]func(less, equal, nan bool) bool{
		"eq": func(_, e, n bool) bool { return e && !n }, "ne": func(_, e, n bool) bool { return !e && !n },
		"lt": func(l, _, n bool) bool { return l && !n }, "le": func(l, e, n bool) bool { return (l || e) && !n },
		"gt": func(l, e, n bool) bool { return !l && !e && !n }, "ge": func(l, _, n bool) bool { return !l && !n },
		"equ": func(_, e, n bool) bool { return e || n }, "neu": func(_, e, n bool) bool { return !e || n },
		"ltu": func(l, _, n bool) bool { return l || n }, "geu": func(l, _, n bool) bool { return !l || n },
		"num": func(_, _, n bool) bool { return !n }, "nan": func(_, _, n bool) bool { return n },
	}
	for _, in := range []typ{ty("u16"), ty("s16"), u32, ty("s32"), ty("u64"), ty("s64"), ty("f32"), ty("f64")} {
		for name, f := range compare {
			if in.kind != "f" && len(name) == 3 {
				continue
			}
			truth := func(a, b uint64) bool {
				switch in.kind {
				case "u":
					return f(a < b, a == b, false)
				case "s":
					return f(signed(in.bits, a) < signed(in.bits, b), a == b, false)
				}
				x, y := value(in.bits, a), value(in.bits, b)
				return f(x < y, x == y, math.IsNaN(x) || math.IsNaN(y))
			}
			for _, o := range []operation{
				{fmt.Sprintf("{ .reg .pred p; setp.%s.%v p, x0, x1; selp.u32 d, 1, 0, p; } //", name, in), u32, []typ{in, in},
					func(v []uint64) uint64 { return bool64(truth(v[0], v[1])) }},
				{fmt.Sprintf("{ .reg .pred p, q, c; setp.ge.u32 c, x2, 100; setp.%s.and.%v p|q, x0, x1, !c; selp.u32 d, 1, 0, p; @q add.u32 d, d, 2; } //", name, in),
					u32, []typ{in, in, u32}, func(v []uint64) uint64 {
						p, c := truth(v[0], v[1]), v[2] < 100
						return bool64(p && c) + 2*bool64(!p && c)
					}},
				{fmt.Sprintf("{ .reg .s32 m; set.%s.s32.%v m, x0, x1; mov.b32 d, m; } //", name, in), u32, []typ{in, in},
					func(v []uint64) uint64 { return -bool64(truth(v[0], v[1])) }},
			} {
				o.check(t, r, rnd)
			}
		}
	}
}

// Approximations are within the bounds that the PTX manual gives, in units of the
// last place or as an absolute error.
func TestApproximationsAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	r := newRunner(t, onHost(t, "dgx-a100"))
	rnd := rand.New(rand.NewPCG(7, 8))
	f32 := ty("f32")
	const n = 512
	for _, tc := range []struct {
		ins   string
		bound float64 // relative, or absolute for sine, cosine and the logarithm
		f     func(x float64) float64
		least float64
		most  float64
	}{
		{"rcp.approx.f32", 0x1p-23, func(x float64) float64 { return 1 / x }, 1e-30, 1e30},
		{"sqrt.approx.f32", 0x1p-23, math.Sqrt, 0, 1e30},
		{"rsqrt.approx.f32", 0x1p-22, func(x float64) float64 { return 1 / math.Sqrt(x) }, 1e-30, 1e30},
		{"sin.approx.f32", 0x1p-20, math.Sin, -3, 3},
		{"cos.approx.f32", 0x1p-20, math.Cos, -3, 3},
		{"lg2.approx.f32", 0x1p-22, math.Log2, 0.01, 100},
		{"ex2.approx.ftz.f32", 0x1p-22, math.Exp2, -100, 100},
		{"tanh.approx.f32", 0x1p-11, math.Tanh, -5, 5},
	} {
		in := make([]uint64, n)
		for i := range in {
			in[i] = bitsOf(32, tc.least+rnd.Float64()*(tc.most-tc.least))
		}
		out := make([]byte, 4*n)
		o := operation{ins: tc.ins, out: f32, in: []typ{f32}}
		r.run(kernel{text: o.text(), name: "k", block: [3]uint32{n}, params: []any{out, encode(in, 32), uint64(0), uint64(0)}})
		for i, v := range in {
			got, want := value(32, decode(out, 32, i)), tc.f(value(32, v))
			if off := math.Abs(got - want); off > tc.bound*math.Max(1, math.Abs(want)) && off > tc.bound*math.Abs(want) {
				t.Errorf("%s %v = %v; want %v", tc.ins, value(32, v), got, want)
				break
			}
		}
	}
}
