package smi_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/nvmllib"
	"gpurig/fakehw/profiles"
)

// words are what argument lists are made of; "" stands for the end of one.
var words = strings.Fields(`-h --help --version -L --list-gpus -q -i --id= --id=0 0 1 9,9 -d --display=MEMORY CLOCK,ECC -f --query-gpu
	--query-gpu= --query-gpu=index,name --query-gpu=,, --format=csv --format=csv,noheader,nounits --format= --query-compute-apps=pid
	--help-query-gpu -pm -mig -pl -r --gpu-reset mig -lgip -lgipp -lcip -lgi -lci -cgi -cci -dgi -dci -C -gi -ci 9 19 3g.20gb 9:4 :
	9,19:0,MIG, %s%n -1 4294967296 99999999999999999999 GPU- MIG-x 00000000:07:00.0 :: , = -- - topo vgpu`)

// crashes reports an end by a signal, or a sanitizer's.
func crashes(out string, code int) bool {
	return code < 0 || code > 128 && code != 255 || strings.Contains(out, "runtime error:") || strings.Contains(out, "AddressSanitizer")
}

func (r *rig) abuse(args []string) {
	r.t.Helper()
	if out, code := r.run(args...); crashes(out, code) {
		r.t.Errorf("nvidia-smi %q = %d\n%s", args, code, out)
	}
}

func FuzzArguments(f *testing.F) {
	r := newRig(f, profile(f, "a100-mig-mixed"), nvmlfake.Options{})
	f.Add("-q -i 0 -d MEMORY")
	f.Add("mig -cgi 9,19:0 -C")
	f.Add(strings.Repeat("x", 5000))
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		for _, a := range args {
			if strings.ContainsRune(a, 0) || strings.HasPrefix(a, "-l") || strings.HasPrefix(a, "--loop") || strings.HasPrefix(a, "-f") || strings.HasPrefix(a, "--file") {
				return // no argument of a program, one that never ends, or one that writes a file
			}
		}
		r := *r
		r.t = t
		r.abuse(args)
	})
}

// The program and the library, compiled to stop at the first misstep, go through
// every host and through arguments that make no sense.
func TestSanitizersFindNothing(t *testing.T) {
	t.Setenv("CFLAGS", "-g1 -fsanitize=address,undefined -fno-sanitize-recover=all")
	t.Setenv("ASAN_OPTIONS", "detect_leaks=0") // it runs once and ends
	try := filepath.Join(t.TempDir(), "try")
	if err := os.WriteFile(try+".c", []byte("int main(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", append(strings.Fields(os.Getenv("CFLAGS")), "-o", try, try+".c")...).CombinedOutput(); err != nil {
		t.Skipf("no sanitizers: %v %s", err, out)
	}
	if err := exec.CommandContext(t.Context(), try).Run(); err != nil {
		t.Skipf("sanitizers do not run: %v", err)
	}
	r := newRig(t, profile(t, "no-gpu"), nvmlfake.Options{})
	r.env = append(r.env, "ASAN_OPTIONS="+os.Getenv("ASAN_OPTIONS"))
	for _, name := range profiles.Names() {
		m := profile(t, name)
		r.become(m, nvmlfake.Options{})
		for _, c := range commands {
			r.abuse(strings.Fields(c.args))
		}
	}
	r.become(profile(t, "a100-mig-mixed"), nvmlfake.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var args []string
		for range 1 + rng.IntN(5) {
			args = append(args, words[rng.IntN(len(words))])
		}
		if !strings.Contains(strings.Join(args, " "), "-f") {
			r.abuse(args)
		}
	}
	good := nvmllib.State(profile(t, "a100-mig-mixed"))
	for range 100 { // a state cut short, or with one byte changed
		bad := append([]byte(nil), good[:1+rng.IntN(len(good))]...)
		bad[rng.IntN(len(bad))] = byte(rng.IntN(256))
		if err := os.WriteFile(r.state(), bad, 0o644); err != nil {
			t.Fatal(err)
		}
		r.abuse(nil)
	}
}

func BenchmarkStart(b *testing.B) {
	for _, name := range []string{"t4-server", "dgx-a100"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, profile(b, name), nvmlfake.Options{})
			b.ReportAllocs()
			for b.Loop() {
				if _, code := r.run("-L"); code != 0 {
					b.Fatalf("exit code %d", code)
				}
			}
		})
	}
}
