package cudalib_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each file of testdata/bad begins with a comment: the code of cuModuleLoadData and
// a part of what the log says.
func TestBadPTX(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.ptx")
	if err != nil || len(files) < 3 {
		t.Fatalf("testdata/bad has %d files, %v", len(files), err)
	}
	m := onHost(t, "dgx-a100")
	r := newRunner(t, m)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var code uint32
			first, _, _ := strings.Cut(string(text), "\n")
			_, want, _ := strings.Cut(first, ": ")
			if _, err := fmt.Sscanf(first, "// %d", &code); err != nil || want == "" {
				t.Fatalf("the first line is %q", first)
			}
			m.expect(t, r, string(text), code, want)
		})
	}
}

// expect loads a text and looks at the code and at what the log says of it.
func (x machine) expect(t *testing.T, r *runner, text string, code uint32, want string) {
	t.Helper()
	before := len(x.log(t))
	c, alive := r.try(kernel{text: text})
	if said := x.log(t)[before:]; !alive || c[0] != code || !strings.Contains(said, want) {
		t.Errorf("load: code %d, alive %v, log %q; want %d and %q\n%s", c[0], alive, said, code, want, text)
	}
}

// One mistake in an otherwise good kernel.
func TestMistakesInABody(t *testing.T) {
	m := onHost(t, "dgx-a100")
	r := newRunner(t, m)
	const text = ".version 7.0\n.target sm_80\n.address_size 64\n.global .u32 g;\n.visible .entry k(.param .u64 in) {\n" +
		".reg .pred p; .reg .b16 h; .reg .b32 r; .reg .u32 u; .reg .s32 s; .reg .f32 f; .reg .b64 rd; .reg .f64 d; .shared .u32 sh[4];\n%s\nret;\n}\n"
	for _, tc := range []struct{ body, want string }{
		{"add.u32 r, r;", "add.u32 has 2 operands"},
		{"add.u32 r, r, r, r;", "add.u32 has 4 operands"},
		{"add r, r, r;", "add has no type"},
		{"add.u32 r, r, rd;", "operand 3"},
		{"add.u32 rd, r, r;", "operand 1"},
		{"add.f32 f, f, r; add.f32 f, f, u;", "operand 3"},
		{"add.f32 f, f, 1;", "operand 3"},
		{"add.u32 r, r, 1.5;", "operand 3"},
		{"add.u32 r, r, p;", "operand 3"},
		{"add.rn.u32 r, r, r;", "a modifier that is not of that type"},
		{"mul.u32 r, r, r;", "'mul' of integers has .lo, .hi or .wide"},
		{"mul.wide.u32 r, r, r;", "operand 1"},
		{"fma.f32 f, f, f, f;", "Rounding modifier required"},
		{"div.f32 f, f, f;", "Rounding modifier required"},
		{"sqrt.f32 f, f;", "'sqrt' needs .approx or a rounding"},
		{"cvt.f32.u32 f, r;", "Rounding modifier required"},
		{"cvt.rn.u32.f32 r, f;", "Rounding modifier not allowed"},
		{"cvt.u32.f32 r, f;", "Rounding modifier required"},
		{"cvt.rn.s32.u32 s, u;", "Rounding modifier not allowed"},
		{"setp.lt.b32 p, r, r;", "'.lt' does not compare that type"},
		{"setp.ltu.u32 p, r, r;", "'.ltu' does not compare that type"},
		{"setp.u32 p, r, r;", "without a comparison"},
		{"setp.eq.u32 r, r, r;", "operand 1"},
		{"shl.u32 u, u, u;", "not of that type"},
		{"and.u32 u, u, u;", "not of that type"},
		{"rem.f32 f, f, f;", "not of that type"},
		{"mov.u32 r, undeclared;", "'undeclared' is not declared"},
		{"mov.u32 %r1, 1;", "'%r1' is not declared"},
		{"mov.u32 r, %tid.w;", "'%tid' is not declared"},
		{"bra nowhere;", "'nowhere' is no label"},
		{"bra r;", "no label"},
		{"@r bra L; L:", "'r' is no predicate"},
		{"L: L: ret;", "'L' is declared twice"},
		{".reg .u32 r;", "'r' is declared twice"},
		{".reg .u33 x;", "no type for a register"},
		{".reg .u32 x<5;", "'>' is missing"},
		{"frobnicate.u32 r, r;", "'frobnicate' is no instruction"},
		{"add.q32 r, r, r;", "'.q32' is no modifier"},
		{"add.u32 r, r, 1", "';' is missing"},
		{"ld.global.u32 r, rd;", "operand 2 is no address"},
		{"ld.global.u32 r, [f];", "'f' holds no address"},
		{"ld.shared.u32 r, [g];", "'g' is not in that state space"},
		{"ld.global.f32 r, [rd]; ld.global.f32 u, [rd];", "operand 1"},
		{"ld.global.u64 r, [rd];", "operand 1"},
		{"st.const.u32 [rd], r;", "constant or parameter memory"},
		{"st.param.u32 [in], r;", "constant or parameter memory"},
		{"ld.global.v2.u32 r, [rd];", "no vector of 2"},
		{"ld.global.v4.u64 {rd, rd, rd, rd}, [rd];", "more than 128 bits"},
		{"atom.global.and.f32 f, [rd], f;", "no atomic operation of that type"},
		{"atom.global.inc.u64 rd, [rd], rd;", "no atomic operation of that type"},
		{"bar.sync 16;", "a barrier above 15"},
		{"bar.sync 0, 33;", "no multiple of the warp size"},
		{"shfl.down.b32 r, r, 1, 31;", "without '.sync'"},
		{"shfl.sync.b32 r, r, 1, 31, -1;", "a mode"},
		{"mov.b64 {r, r, r}, rd;", "a vector of 3"},
		{"lop3.b32 r, r, r, r, 256;", "0 to 255"},
		{"selp.u32 u, u, u, r;", "operand 4"},
		{"{", "does not end"},
		{".shared .u32 big[20000]; st.shared.u32 [big], r;", "too much shared data"},
		{"add.u32 r, r, 1 2;", "';' is missing"},
		{"add.u32 r, r, /;", "no operand"},
		{"mov.u32 r, 0f3F800000;", "operand 2"},
		{"mov.f32 f, 0f3F80000;", "8 hexadecimal digits"},
		{"mov.u32 r, 12abc;", "no number"},
		{"mov.u32 r, 99999999999999999999;", "does not fit 64 bits"},
	} {
		t.Run(tc.body, func(t *testing.T) { m.expect(t, r, fmt.Sprintf(text, tc.body), 218, tc.want) })
	}
}

// Instructions of PTX that are not interpreted: the module loads, its other kernel
// runs, and the launch names what is missing.
func TestWhatIsNotSupportedIsNamed(t *testing.T) {
	m := onHost(t, "hgx-h200")
	r := newRunner(t, m)
	const text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry good() { ret; }\n.func (.param .u32 x) f(.param .u32 y) { ret; }\n.visible .entry k(.param .u64 in) {\n" +
		".reg .pred p; .reg .b16 h; .reg .b32 r, r2; .reg .f32 f; .reg .b64 rd; .reg .f64 d;\n%s\nret;\n}\n"
	for _, tc := range []struct{ body, want string }{
		{"activemask.b32 r;", "activemask"},
		{"call.uni f, (r);", "call"},
		{"{ .param .u32 a; st.param.u32 [a], r; call (a), f, (a); }", ".param inside a function"},
		{"brx.idx r, T; T: .branchtargets A, B; A: B:", "brx"},
		{"tex.2d.v4.f32.f32 {f, f, f, f}, [rd, {f, f}];", "tex"},
		{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f}, {r}, {r}, {f};", "mma"},
		{"cp.async.ca.shared.global [r], [rd], 16;", "cp"},
		{"add.f16x2 r, r, r;", "add.f16x2"},
		{"fma.rn.f16 h, h, h, h;", "fma.rn.f16"},
		{"cvt.rn.bf16.f32 h, f;", "cvt.rn.bf16.f32"},
		{"rcp.approx.ftz.f64 d, d;", "rcp.approx.ftz.f64"},
		{"mad.lo.cc.u32 r, r, r, r;", "mad.lo.cc.u32"},
		{"st.global.L2::cache_hint.u32 [rd], r, rd;", "st.global.L2::cache_hint"},
		{"atom.global.add.noftz.f16x2 r, [rd], r;", "atom.global.add.noftz.f16x2"},
		{"mov.u32 r, %clusterid.x;", "%clusterid"},
		{"cvta.param.u64 rd, in;", "cvta.param.u64"},
		{"elect.sync r|p, -1;", "elect"},
		{"fence.proxy.async;", "fence.proxy.async"},
		{"mbarrier.init.shared.b64 [rd], r;", "mbarrier"},
		{"barrier.cluster.arrive;", "barrier.cluster.arrive"},
		{"add.u32 r, r, %clock;", "add.u32: a clock, not by mov"},
	} {
		t.Run(tc.body, func(t *testing.T) {
			k := kernel{text: fmt.Sprintf(text, tc.body), name: "k", params: []any{uint64(0)}}
			before := len(m.log(t))
			c, alive := r.try(k)
			if said := m.log(t)[before:]; !alive || c != (codes{0, 0, 801, 0}) || !strings.Contains(said, "not supported here: "+tc.want) || !strings.Contains(said, "line 8") && !strings.Contains(said, "line 7") {
				t.Errorf("codes %v, alive %v, log %q; want 801 for %q", c, alive, said, tc.want)
			}
			k.name, k.params = "good", nil
			r.run(k)
		})
	}
}

// Whole modules that are PTX, and more than is known here.
func TestModulesThatAreNotSupported(t *testing.T) {
	m := onHost(t, "dgx-a100")
	r := newRunner(t, m)
	for _, tc := range []struct{ text, want string }{
		{".version 7.0\n.target sm_80\n.address_size 32\n", ".address_size"},
		{".version 7.0\n.target sm_80\n.global .texref t;\n", ".texref"},
		{".version 7.0\n.target sm_80\n.extern .global .u32 g;\n", ".extern variables"},
		{".version 7.0\n.target sm_80\n.visible .entry k() .explicitcluster { ret; }\n", ".explicitcluster"},
		{".version 7.0\n.target sm_80\n.visible .entry k() { .reg .b128 x; ret; }\n", ".reg .b128"},
		{".version 7.0\n.target sm_80\n.alias a, b;\n", ".alias"},
	} {
		m.expect(t, r, tc.text, 801, tc.want)
	}
}
