package cudalib_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compiled are the texts that a compiler made of testdata/clang/kernels.cu, by name.
// The first line of each says which compiler, and with which options.
func compiled(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/clang/*.ptx")
	if err != nil || len(files) < 6 {
		t.Fatalf("testdata/clang has %d files, %v", len(files), err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "// clang-14 ") {
			t.Errorf("%s does not say how it was made", file)
		}
		texts[strings.TrimSuffix(filepath.Base(file), ".ptx")] = string(text)
	}
	return texts
}

// eachCompiled runs a check on the text of every choice of options but the one whose kernels
// call functions.
func eachCompiled(t *testing.T, check func(t *testing.T, r *runner, name, text string)) {
	m := onHost(t, "dgx-a100")
	for name, text := range compiled(t) {
		if name == "calls" {
			continue
		}
		t.Run(name, func(t *testing.T) { check(t, newRunner(t, m), name, text) })
	}
}

func floats32(rnd *rand.Rand, n int) (data []byte, v []float32) {
	for range n {
		f := float32(rnd.NormFloat64())
		data, v = append(data, u32s(math.Float32bits(f))...), append(v, f)
	}
	return data, v
}

func TestCompiledVectorAdd(t *testing.T) {
	eachCompiled(t, func(t *testing.T, r *runner, _, text string) {
		const n = 1000
		rnd := rand.New(rand.NewPCG(1, 2))
		a, va := floats32(rnd, n)
		b, vb := floats32(rnd, n)
		for _, k := range []kernel{
			{name: "vadd", grid: [3]uint32{(n + 127) / 128}, block: [3]uint32{128}, params: []any{nil, a, b, uint32(n)}},
			{name: "vadd4", grid: [3]uint32{4}, block: [3]uint32{64}, params: []any{nil, a, b, uint32(n / 4)}},
		} {
			out := make([]byte, 4*n)
			k.text, k.params[0] = text, out
			r.run(k)
			for i := range n {
				if got, want := math.Float32frombits(at32(out, i)), va[i]+vb[i]; got != want {
					t.Fatalf("%s: element %d is %v; want %v", k.name, i, got, want)
				}
			}
		}
	})
}

func TestCompiledSaxpy(t *testing.T) {
	eachCompiled(t, func(t *testing.T, r *runner, _, text string) {
		const n = 5000
		rnd := rand.New(rand.NewPCG(3, 4))
		x, vx := floats32(rnd, n)
		y, vy := floats32(rnd, n)
		const a = float32(-2.3)
		r.run(kernel{text: text, name: "saxpy", grid: [3]uint32{5}, block: [3]uint32{96}, params: []any{y, x, a, uint32(n)}})
		for i := range n {
			want := uint32(fused(32, "rn", float64(a), float64(vx[i]), float64(vy[i])))
			if at32(y, i) != want {
				t.Fatalf("element %d is %#x; want %#x", i, at32(y, i), want)
			}
		}
	})
}

func TestCompiledReductions(t *testing.T) {
	eachCompiled(t, func(t *testing.T, r *runner, _, text string) {
		for _, n := range []int{1, 255, 256, 10000} {
			const blocks = 6
			rnd := rand.New(rand.NewPCG(5, uint64(n)))
			var in []byte
			sum, top := uint32(0), int32(math.MinInt32)
			for range n {
				v := rnd.Uint32()
				in = append(in, u32s(v)...)
				sum += v
				top = max(top, int32(v))
			}
			out := make([]byte, 4*blocks)
			r.run(kernel{text: text, name: "reduce", grid: [3]uint32{blocks}, block: [3]uint32{256}, params: []any{out, in, uint32(n)}})
			got := uint32(0)
			for i := range blocks {
				got += at32(out, i)
			}
			if got != sum {
				t.Errorf("the sum of %d is %d; want %d", n, got, sum)
			}
			most := u32s(1 << 31)
			r.run(kernel{text: text, name: "largest", grid: [3]uint32{blocks}, block: [3]uint32{128}, dynamic: 4 * 128, params: []any{most, in, uint32(n)}})
			if got := int32(at32(most, 0)); got != top {
				t.Errorf("the largest of %d is %d; want %d", n, got, top)
			}
		}
	})
}

func TestCompiledBranchesAndWidths(t *testing.T) {
	eachCompiled(t, func(t *testing.T, r *runner, name, text string) {
		const n = 3000
		rnd := rand.New(rand.NewPCG(7, 8))
		var op, a, b []byte
		for range n {
			op = append(op, byte(rnd.Uint32()))
			a = binary.LittleEndian.AppendUint16(a, uint16(rnd.Uint32()))
			b = binary.LittleEndian.AppendUint64(b, rnd.Uint64()>>rnd.IntN(60))
		}
		out := make([]byte, 8*n)
		r.run(kernel{text: text, name: "mixed", grid: [3]uint32{(n + 63) / 64}, block: [3]uint32{64}, params: []any{out, op, a, b, uint32(n)}})
		for i := range n {
			x, y := int16(binary.LittleEndian.Uint16(a[2*i:])), int64(binary.LittleEndian.Uint64(b[8*i:]))
			var want float64
			switch op[i] % 6 {
			case 0:
				want = float64(x)
			case 1:
				want = float64(y)
			case 2:
				want = float64(int64(x) * y)
			case 3:
				d := int64(x)
				if d == 0 {
					d = 1
				}
				want = float64(y / d)
			case 4:
				want = float64(x) / 3
				if name == "fast" { // times the reciprocal, as its options allow
					want = float64(x) * (1.0 / 3)
				}
			default:
				want = float64(uint16(x) % 7)
			}
			if got := math.Float64frombits(binary.LittleEndian.Uint64(out[8*i:])); got != want {
				t.Fatalf("element %d, way %d of %d and %d, is %v; want %v", i, op[i]%6, x, y, got, want)
			}
		}
	})
}

// Functions that are not inlined are not interpreted: the launch says so, and
// nothing is written.
func TestCompiledCallsAreNamed(t *testing.T) {
	m := onHost(t, "dgx-a100")
	r := newRunner(t, m)
	text := compiled(t)["calls"]
	if !strings.Contains(text, "call.uni") {
		t.Fatal("calls.ptx has no call")
	}
	out := u32s(7)
	c, alive := r.try(kernel{text: text, name: "vadd", params: []any{out, u32s(1), u32s(1), uint32(1)}})
	if !alive || c != (codes{0, 0, 801, 0}) || at32(out, 0) != 7 || !strings.Contains(m.log(t), "not supported here: ") {
		t.Errorf("codes %v, alive %v, out %d, log %s", c, alive, at32(out, 0), m.log(t))
	}
	t.Log(m.log(t))
}
