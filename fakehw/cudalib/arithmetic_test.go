package cudalib_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// A typ is a PTX type.
type typ struct {
	kind string // "u", "s", "b", "f"
	bits int
}

func (t typ) String() string { return fmt.Sprintf("%s%d", t.kind, t.bits) }

func ty(s string) typ {
	var t typ
	t.kind = s[:1]
	fmt.Sscanf(s[1:], "%d", &t.bits)
	return t
}

// An operation is one instruction, and what it gives for operands as bits.
type operation struct {
	ins  string // "add.s32"
	out  typ
	in   []typ
	want func(v []uint64) uint64
}

func mask(n int) uint64 { return ^uint64(0) >> (64 - n) }

func signed(n int, v uint64) int64 { return int64(v<<(64-n)) >> (64 - n) }

// inputs are edges of a type and random values.
func inputs(r *rand.Rand, t typ, n int) []uint64 {
	edges := []uint64{0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 255, mask(t.bits), mask(t.bits) - 1, 1 << (t.bits - 1), 1<<(t.bits-1) - 1, 1<<(t.bits-1) + 1}
	if t.kind == "f" {
		edges = nil
		for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1.5, 2.5, -2.5, 3, 1e10, -1e10, 1e-40, -1e-40, 1e38, -3e38, 1e-310, math.Pi,
			math.Inf(1), math.Inf(-1), math.NaN(), 2147483647, 2147483648, -2147483648, 4294967295, 9.3e18, 1.9e19, 1e300, 255.5, 65536.5, -0.5} {
			edges = append(edges, bitsOf(t.bits, f))
		}
	}
	out := make([]uint64, n)
	for i := range out {
		v := r.Uint64() >> r.IntN(60)
		if t.kind == "f" {
			v = r.Uint64()
			if r.IntN(2) == 0 { // of like size, so that sums are not one of the two
				v = bitsOf(t.bits, (r.Float64()-0.5)*math.Exp2(float64(r.IntN(12))))
			}
		}
		if r.IntN(3) == 0 {
			v = edges[r.IntN(len(edges))]
		}
		out[i] = v & mask(t.bits)
	}
	return out
}

// text is a kernel that does one instruction per thread.
func (o operation) text() string {
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in0, .param .u64 in1, .param .u64 in2)\n{\n")
	fmt.Fprintf(&b, ".reg .%v d;\n.reg .u32 i;\n.reg .u64 p, q;\n", o.out)
	b.WriteString("mov.u32 i, %tid.x;\n")
	args := "d"
	for n, t := range o.in {
		fmt.Fprintf(&b, ".reg .%v x%d;\nld.param.u64 p, [in%d];\nmad.wide.u32 p, i, %d, p;\nld.global.%v x%d, [p];\n", t, n, n, t.bits/8, t, n)
		args += fmt.Sprintf(", x%d", n)
	}
	fmt.Fprintf(&b, "%s %s;\nld.param.u64 q, [out];\nmad.wide.u32 q, i, %d, q;\nst.global.%v [q], d;\nret;\n}\n", o.ins, args, o.out.bits/8, o.out)
	return b.String()
}

func encode(values []uint64, bits int) []byte {
	out := make([]byte, 0, len(values)*bits/8)
	for _, v := range values {
		out = append(out, binary.LittleEndian.AppendUint64(nil, v)[:bits/8]...)
	}
	return out
}

func decode(data []byte, bits, i int) uint64 {
	var b [8]byte
	copy(b[:], data[i*bits/8:(i+1)*bits/8])
	return binary.LittleEndian.Uint64(b[:])
}

// keepsNaN: what only moves bits keeps those of what is no number.
func keepsNaN(ins string) bool {
	return strings.HasPrefix(ins, "neg") || strings.HasPrefix(ins, "abs") || strings.HasPrefix(ins, "copysign")
}

// check runs an operation on many inputs and compares with the reference.
func (o operation) check(t *testing.T, r *runner, rnd *rand.Rand) {
	t.Helper()
	const n = 512
	out := make([]byte, n*o.out.bits/8)
	params := []any{out}
	var in [][]uint64
	for _, ty := range o.in {
		v := inputs(rnd, ty, n)
		in = append(in, v)
		params = append(params, encode(v, ty.bits))
	}
	for len(params) < 4 {
		params = append(params, uint64(0))
	}
	r.run(kernel{text: o.text(), name: "k", block: [3]uint32{n}, params: params})
	bad := 0
	for i := range n {
		var v []uint64
		for _, x := range in {
			v = append(v, x[i])
		}
		got, want := decode(out, o.out.bits, i), o.want(v)&mask(o.out.bits)
		if o.out.kind == "f" && math.IsNaN(value(o.out.bits, got)) && math.IsNaN(value(o.out.bits, want)) {
			if o.out.bits == 32 && got != 0x7fffffff && !keepsNaN(o.ins) {
				t.Errorf("%s %#x = %#x; want the one NaN, 0x7fffffff", o.ins, v, got)
			}
			continue
		}
		if got != want && bad < 3 {
			t.Errorf("%s %#x = %#x; want %#x", o.ins, v, got, want)
			bad++
		}
	}
}

func bool64(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func integers() (out []operation) {
	for _, n := range []int{16, 32, 64} {
		for _, k := range []string{"u", "s"} {
			t := typ{k, n}
			s := k == "s"
			less := func(a, b uint64) bool {
				if s {
					return signed(n, a) < signed(n, b)
				}
				return a < b
			}
			high := func(a, b uint64) uint64 {
				if n < 64 {
					if s {
						return uint64(signed(n, a) * signed(n, b) >> n)
					}
					return a * b >> n
				}
				hi, _ := bits.Mul64(a, b)
				if s && signed(64, a) < 0 {
					hi -= b
				}
				if s && signed(64, b) < 0 {
					hi -= a
				}
				return hi
			}
			op := func(name string, args int, f func(v []uint64) uint64) {
				o := operation{ins: fmt.Sprintf("%s.%v", name, t), out: t, want: f}
				for range args {
					o.in = append(o.in, t)
				}
				out = append(out, o)
			}
			op("add", 2, func(v []uint64) uint64 { return v[0] + v[1] })
			op("sub", 2, func(v []uint64) uint64 { return v[0] - v[1] })
			op("mul.lo", 2, func(v []uint64) uint64 { return v[0] * v[1] })
			op("mul.hi", 2, func(v []uint64) uint64 { return high(v[0], v[1]) })
			op("mad.lo", 3, func(v []uint64) uint64 { return v[0]*v[1] + v[2] })
			op("mad.hi", 3, func(v []uint64) uint64 { return high(v[0], v[1]) + v[2] })
			op("min", 2, func(v []uint64) uint64 {
				if less(v[1], v[0]) {
					return v[1]
				}
				return v[0]
			})
			op("max", 2, func(v []uint64) uint64 {
				if less(v[0], v[1]) {
					return v[1]
				}
				return v[0]
			})
			op("sad", 3, func(v []uint64) uint64 {
				if less(v[0], v[1]) {
					return v[1] - v[0] + v[2]
				}
				return v[0] - v[1] + v[2]
			})
			op("div", 2, func(v []uint64) uint64 {
				switch {
				case v[1] == 0:
					return ^uint64(0)
				case s:
					return uint64(signed(n, v[0]) / signed(n, v[1]))
				}
				return v[0] / v[1]
			})
			op("rem", 2, func(v []uint64) uint64 {
				switch {
				case v[1] == 0:
					return v[0]
				case s:
					return uint64(signed(n, v[0]) % signed(n, v[1]))
				}
				return v[0] % v[1]
			})
			if s {
				op("neg", 1, func(v []uint64) uint64 { return -v[0] })
				op("abs", 1, func(v []uint64) uint64 {
					if signed(n, v[0]) < 0 {
						return -v[0]
					}
					return v[0]
				})
			}
			if n < 64 {
				w := typ{k, 2 * n}
				mul := func(v []uint64) uint64 {
					if s {
						return uint64(signed(n, v[0]) * signed(n, v[1]))
					}
					return v[0] * v[1]
				}
				out = append(out, operation{fmt.Sprintf("mul.wide.%v", t), w, []typ{t, t}, mul},
					operation{fmt.Sprintf("mad.wide.%v", t), w, []typ{t, t, w}, func(v []uint64) uint64 { return mul(v) + v[2] }})
			}
			out = append(out, operation{fmt.Sprintf("shr.%v", t), t, []typ{t, ty("u32")}, func(v []uint64) uint64 {
				if s {
					return uint64(signed(n, v[0]) >> min(v[1], 63))
				}
				return v[0] >> v[1]
			}})
		}
		b := typ{"b", n}
		out = append(out,
			operation{fmt.Sprintf("and.%v", b), b, []typ{b, b}, func(v []uint64) uint64 { return v[0] & v[1] }},
			operation{fmt.Sprintf("or.%v", b), b, []typ{b, b}, func(v []uint64) uint64 { return v[0] | v[1] }},
			operation{fmt.Sprintf("xor.%v", b), b, []typ{b, b}, func(v []uint64) uint64 { return v[0] ^ v[1] }},
			operation{fmt.Sprintf("not.%v", b), b, []typ{b}, func(v []uint64) uint64 { return ^v[0] }},
			operation{fmt.Sprintf("cnot.%v", b), b, []typ{b}, func(v []uint64) uint64 { return bool64(v[0] == 0) }},
			operation{fmt.Sprintf("shl.%v", b), b, []typ{b, ty("u32")}, func(v []uint64) uint64 { return v[0] << v[1] }})
	}
	return out
}

func special32() []operation {
	u, s, b := ty("u32"), ty("s32"), ty("b32")
	sx := func(v uint64) int64 { return signed(32, v) }
	s24 := func(v uint64) int64 { return signed(24, v&0xffffff) }
	clamp := func(v int64) uint64 { return uint64(max(math.MinInt32, min(math.MaxInt32, v))) }
	shift := func(right, wrap bool) func(v []uint64) uint64 {
		return func(v []uint64) uint64 {
			n := v[2] & 31
			if !wrap {
				n = min(v[2], 32)
			}
			both := v[1]<<32 | v[0]
			if right {
				return both >> n
			}
			return both << n >> 32
		}
	}
	table := func(code uint64) func(v []uint64) uint64 {
		return func(v []uint64) (out uint64) {
			for i := range 32 {
				at := v[0]>>i&1<<2 | v[1]>>i&1<<1 | v[2]>>i&1
				out |= code >> at & 1 << i
			}
			return out
		}
	}
	return []operation{
		{"add.sat.s32", s, []typ{s, s}, func(v []uint64) uint64 { return clamp(sx(v[0]) + sx(v[1])) }},
		{"sub.sat.s32", s, []typ{s, s}, func(v []uint64) uint64 { return clamp(sx(v[0]) - sx(v[1])) }},
		{"mul24.lo.u32", u, []typ{u, u}, func(v []uint64) uint64 { return (v[0] & 0xffffff) * (v[1] & 0xffffff) }},
		{"mul24.lo.s32", s, []typ{s, s}, func(v []uint64) uint64 { return uint64(s24(v[0]) * s24(v[1])) }},
		{"mad24.hi.s32", s, []typ{s, s, s}, func(v []uint64) uint64 { return uint64(s24(v[0])*s24(v[1])>>16) + v[2] }},
		{"popc.b32", u, []typ{b}, func(v []uint64) uint64 { return uint64(bits.OnesCount64(v[0])) }},
		{"popc.b64", u, []typ{ty("b64")}, func(v []uint64) uint64 { return uint64(bits.OnesCount64(v[0])) }},
		{"clz.b32", u, []typ{b}, func(v []uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(v[0]))) }},
		{"clz.b64", u, []typ{ty("b64")}, func(v []uint64) uint64 { return uint64(bits.LeadingZeros64(v[0])) }},
		{"brev.b32", b, []typ{b}, func(v []uint64) uint64 { return uint64(bits.Reverse32(uint32(v[0]))) }},
		{"brev.b64", ty("b64"), []typ{ty("b64")}, func(v []uint64) uint64 { return bits.Reverse64(v[0]) }},
		{"bfind.u32", u, []typ{u}, func(v []uint64) uint64 { return uint64(bits.Len32(uint32(v[0])) - 1) }},
		{"bfind.s32", u, []typ{s}, func(v []uint64) uint64 { return uint64(bits.Len32(uint32(sx(v[0])^sx(v[0])>>31)) - 1) }},
		{"bfind.shiftamt.u64", u, []typ{ty("u64")}, func(v []uint64) uint64 {
			if v[0] == 0 {
				return ^uint64(0)
			}
			return uint64(64 - bits.Len64(v[0]))
		}},
		{"bfe.u32", u, []typ{u, u, u}, func(v []uint64) uint64 {
			at, n := v[1]&255, v[2]&255
			return v[0] >> at & (1<<n - 1)
		}},
		{"bfe.s64", ty("s64"), []typ{ty("s64"), u, u}, func(v []uint64) uint64 {
			at, n := v[1]&255, v[2]&255
			if n == 0 {
				return 0
			}
			return uint64(int64(v[0]) >> min(at, 63) << (64 - min(n, 64)) >> (64 - min(n, 64)))
		}},
		{"shf.l.wrap.b32", b, []typ{b, b, b}, shift(false, true)},
		{"shf.l.clamp.b32", b, []typ{b, b, b}, shift(false, false)},
		{"shf.r.wrap.b32", b, []typ{b, b, b}, shift(true, true)},
		{"shf.r.clamp.b32", b, []typ{b, b, b}, shift(true, false)},
		{"{ .reg .b32 t; lop3.b32 t, x0, x1, x2, 0x96; mov.b32 d, t; } // ", b, []typ{b, b, b}, table(0x96)},
		{"{ .reg .b32 t; lop3.b32 t, x0, x1, x2, 0xe8; mov.b32 d, t; } // ", b, []typ{b, b, b}, table(0xe8)},
		{"{ .reg .b32 t; lop3.b32 t, x0, x1, x2, 0x1b; mov.b32 d, t; } // ", b, []typ{b, b, b}, table(0x1b)},
		{"prmt.b32", b, []typ{b, b, b}, func(v []uint64) (out uint64) {
			for i := range 4 {
				by := v[2] >> (4 * i) & 15
				x := (v[1]<<32 | v[0]) >> (8 * (by & 7)) & 255
				if by&8 != 0 {
					x = -(x >> 7) & 255
				}
				out |= x << (8 * i)
			}
			return out
		}},
		{"dp4a.s32.u32", s, []typ{s, u, s}, func(v []uint64) uint64 {
			out := int64(v[2])
			for i := 0; i < 32; i += 8 {
				out += int64(int8(v[0]>>i)) * int64(uint8(v[1]>>i))
			}
			return uint64(out)
		}},
		{"{ .reg .u32 h; add.cc.u32 d, x0, x1; addc.u32 h, x2, 0; mov.b32 d, h; } // ", u, []typ{u, u, u},
			func(v []uint64) uint64 { return v[2] + (v[0]+v[1])>>32 }},
		{"{ .reg .u32 h; sub.cc.u32 d, x0, x1; subc.u32 h, x2, 0; mov.b32 d, h; } // ", u, []typ{u, u, u},
			func(v []uint64) uint64 { return v[2] - bool64(v[0] < v[1]) }},
		{"{ .reg .b16 l, h; mov.b32 {l, h}, x0; mov.b32 d, {h, l}; } // ", b, []typ{b}, func(v []uint64) uint64 { return v[0]>>16 | v[0]<<16 }},
	}
}

func floats() (out []operation) {
	for _, n := range []int{32, 64} {
		t := typ{"f", n}
		val := func(v uint64) float64 { return value(n, v) }
		for _, to := range []direction{"rn", "rz", "rm", "rp"} {
			op := func(name string, args int, f func(v []float64) uint64) {
				o := operation{ins: fmt.Sprintf("%s.%s.%v", name, to, t), out: t}
				o.want = func(v []uint64) uint64 {
					var fs []float64
					for _, x := range v {
						fs = append(fs, val(x))
					}
					return f(fs)
				}
				for range args {
					o.in = append(o.in, t)
				}
				out = append(out, o)
			}
			op("add", 2, func(v []float64) uint64 { return sum(n, to, v[0], v[1]) })
			op("sub", 2, func(v []float64) uint64 { return sum(n, to, v[0], -v[1]) })
			op("mul", 2, func(v []float64) uint64 { return product(n, to, v[0], v[1]) })
			op("fma", 3, func(v []float64) uint64 { return fused(n, to, v[0], v[1], v[2]) })
			op("div", 2, func(v []float64) uint64 { return quotient(n, to, v[0], v[1]) })
			op("rcp", 1, func(v []float64) uint64 { return quotient(n, to, 1, v[0]) })
			op("sqrt", 1, func(v []float64) uint64 { return root(n, to, v[0]) })
		}
		lesser := func(a, b float64) float64 {
			switch {
			case math.IsNaN(a):
				return b
			case math.IsNaN(b):
				return a
			}
			return math.Min(a, b)
		}
		sign := uint64(1) << (n - 1)
		out = append(out,
			operation{fmt.Sprintf("min.%v", t), t, []typ{t, t}, func(v []uint64) uint64 { return bitsOf(n, lesser(val(v[0]), val(v[1]))) }},
			operation{fmt.Sprintf("max.%v", t), t, []typ{t, t}, func(v []uint64) uint64 { return bitsOf(n, -lesser(-val(v[0]), -val(v[1]))) }},
			operation{fmt.Sprintf("neg.%v", t), t, []typ{t}, func(v []uint64) uint64 { return v[0] ^ sign }},
			operation{fmt.Sprintf("abs.%v", t), t, []typ{t}, func(v []uint64) uint64 { return v[0] &^ sign }},
			operation{fmt.Sprintf("copysign.%v", t), t, []typ{t, t}, func(v []uint64) uint64 { return v[1]&^sign | v[0]&sign }})
	}
	return out
}

func TestArithmeticIsThatOfGo(t *testing.T) {
	t.Parallel()
	r := newRunner(t, onHost(t, "dgx-a100"))
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, o := range append(append(integers(), special32()...), floats()...) {
		o.check(t, r, rnd)
	}
}

// The twin: a reference that is off by one is noticed.
func TestADifferenceIsSeen(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	u := ty("u32")
	o := operation{"add.u32", u, []typ{u, u}, func(v []uint64) uint64 { return v[0] + v[1] + 1 }}
	out := make([]byte, 4)
	r.run(kernel{text: o.text(), name: "k", params: []any{out, encode([]uint64{1}, 32), encode([]uint64{2}, 32), uint64(0)}})
	if got := decode(out, 32, 0); got != 3 || got == o.want([]uint64{1, 2}) {
		t.Errorf("1 + 2 = %d", got)
	}
}
