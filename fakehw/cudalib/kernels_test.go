package cudalib_test

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// ptx reads testdata/ptx/NAME.ptx.
func ptx(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "ptx", name+".ptx"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func u32s(v ...uint32) []byte {
	var out []byte
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, x)
	}
	return out
}

func at32(data []byte, i int) uint32 { return binary.LittleEndian.Uint32(data[4*i:]) }

func TestSaxpyIsFusedAndGoesOverTheGrid(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	const n = 10000
	rnd := rand.New(rand.NewPCG(1, 1))
	var x, y []byte
	for range n {
		x = append(x, u32s(math.Float32bits(rnd.Float32()))...)
		y = append(y, u32s(math.Float32bits(rnd.Float32()))...)
	}
	before := append([]byte{}, y...)
	const a = float32(1.7)
	r.run(kernel{text: ptx(t, "saxpy"), name: "saxpy", grid: [3]uint32{7}, block: [3]uint32{256}, params: []any{uint32(n), a, x, y}})
	for i := range n {
		want := uint32(fused(32, "rn", float64(a), value(32, uint64(at32(x, i))), value(32, uint64(at32(before, i)))))
		if at32(y, i) != want {
			t.Fatalf("element %d is %#x; want %#x", i, at32(y, i), want)
		}
	}
}

func TestReductionsAgree(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	for _, name := range []string{"reduce", "shuffled"} {
		for _, n := range []uint32{1, 255, 256, 1000, 12345} {
			var in []byte
			want := uint32(0)
			for i := range n {
				in = append(in, u32s(i*i+7)...)
				want += i*i + 7
			}
			out := u32s(0)
			r.run(kernel{text: ptx(t, "reduce"), name: name, grid: [3]uint32{(n + 255) / 256}, block: [3]uint32{256}, params: []any{in, out, n}})
			if got := at32(out, 0); got != want {
				t.Errorf("%s of %d = %d; want %d", name, n, got, want)
			}
		}
	}
}

func TestThreadsDiverge(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	out := make([]byte, 4*1000)
	r.run(kernel{text: ptx(t, "diverge"), name: "collatz", block: [3]uint32{1000}, params: []any{out}})
	for i := range 1000 {
		want := uint32(0)
		for n := uint32(i + 1); n != 1; want++ {
			if n%2 == 1 {
				n = 3*n + 1
			} else {
				n /= 2
			}
		}
		if got := at32(out, i); got != want {
			t.Errorf("%d takes %d steps; want %d", i+1, got, want)
		}
	}
}

func TestDynamicSharedMemoryIsReachedByGenericAddresses(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	const n = 64
	var in []byte
	for i := range uint32(n * n) {
		in = append(in, u32s(i)...)
	}
	out := make([]byte, len(in))
	k := kernel{text: ptx(t, "transpose"), name: "transpose", grid: [3]uint32{n / 16, n / 16}, block: [3]uint32{16, 16}, dynamic: 16 * 17 * 4,
		params: []any{in, out, uint32(n)}}
	r.run(k)
	for row := range n {
		for column := range n {
			if at32(out, column*n+row) != at32(in, row*n+column) {
				t.Fatalf("element %d,%d is %d", row, column, at32(out, column*n+row))
			}
		}
	}
	k.dynamic -= 8 // the last element of the last row no longer fits
	if c, _ := r.try(k); c != (codes{0, 0, 0, 700}) {
		t.Errorf("a tile that is too small: codes %v; want 700 at the end", c)
	}
}

func TestLocalConstantAndModuleMemory(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	out := make([]byte, 16*5)
	r.run(kernel{text: ptx(t, "local"), name: "local", block: [3]uint32{5}, params: []any{out}})
	for i := range 5 {
		x := uint32(i)
		sum := x + 10*(x+1) + 100*(x+2) + 1000*(x+3)
		if got, want := [4]uint32{at32(out, 4*i), at32(out, 4*i+1), at32(out, 4*i+2), at32(out, 4*i+3)}, [4]uint32{sum, sum / 2, 0xffffffff, 4}; got != want {
			t.Errorf("thread %d: %v; want %v", i, got, want)
		}
	}
}

func TestOperationsOfAWarp(t *testing.T) {
	r := newRunner(t, onHost(t, "dgx-a100"))
	out := make([]byte, 32*32)
	r.run(kernel{text: ptx(t, "warp"), name: "warp", block: [3]uint32{32}, params: []any{out}})
	for i := range 32 {
		lane := uint32(i)
		up := lane + 1000
		if lane >= 3 {
			up = lane - 3
		}
		same := bits.RotateLeft32(0x11111111, i%4)
		turned := uint32(0)
		if lane < 10 {
			turned = lane ^ 1
		}
		want := [8]uint32{0x3ff, 2, up, lane&^7 + 5, same, 0, 3, turned}
		for k, w := range want {
			if got := at32(out, 8*i+k); got != w {
				t.Errorf("lane %d, result %d: %#x; want %#x", i, k, got, w)
			}
		}
	}
}

// What goes wrong inside a kernel is heard from the next call on.
func TestKernelsThatGoWrong(t *testing.T) {
	m := onHost(t, "dgx-a100")
	r := newRunner(t, m, "GPURIG_CUDA_STEPS=1000000")
	const head = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 out) {\n.reg .u64 p; .reg .u32 r; .reg .pred q;\nld.param.u64 p, [out];\n"
	for _, tc := range []struct {
		name, body string
		want       uint32
		threads    uint32
	}{
		{"one element past the end", "ld.global.u32 r, [p+16];", 700, 1},
		{"one element before", "ld.global.u32 r, [p+-4];", 700, 1},
		{"across the end", "add.u64 p, p, 8; ld.global.v4.u32 {r, r, r, r}, [p+8];", 700, 1},
		{"address zero", "mov.u64 p, 0; st.global.u32 [p], 1;", 700, 1},
		{"not aligned", "ld.global.u32 r, [p+2];", 716, 1},
		{"shared memory that is not there", "st.shared.u32 [0], r;", 700, 1},
		{"trap", "trap;", 719, 1},
		{"for ever", "L: bra L;", 702, 1},
		{"waiting for ever", "mov.u32 r, %tid.x; setp.eq.u32 q, r, 0; @q bar.sync 1; bar.sync 2;", 702, 64},
		{"a mask without oneself", "mov.u32 r, 2; bar.warp.sync r;", 715, 1},
		{"a store to the parameters' neighbour", "ld.param.u32 r, [out+8];", 700, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := kernel{text: head + tc.body + "\nret;\n}\n", name: "k", block: [3]uint32{tc.threads}, params: []any{make([]byte, 16)}}
			if c, alive := r.try(k); !alive || c != (codes{0, 0, 0, tc.want}) {
				t.Errorf("codes %v, alive %v; want %d from cuCtxSynchronize\n%s", c, alive, tc.want, m.log(t))
			}
		})
	}
}
