package cudalib_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// loadCodes are what a text that is no good may give; a good one gives 0.
var loadCodes = map[uint32]bool{0: true, 2: true, 218: true, 222: true, 801: true}

// launchCodes are what a kernel of a stranger may end with.
var launchCodes = map[uint32]bool{0: true, 1: true, 2: true, 500: true, 700: true, 702: true, 715: true, 716: true, 719: true, 801: true}

// FuzzPTX loads any text in a child process and runs its kernel "k", if it has one,
// with a few steps: every text has a code, and none ends the child.
func FuzzPTX(f *testing.F) {
	for _, dir := range []string{"testdata/ptx", "testdata/clang", "testdata/bad"} {
		files, err := filepath.Glob(dir + "/*.ptx")
		if err != nil || len(files) == 0 {
			f.Fatalf("%s has no files: %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	for _, o := range append(special32(), integers()[:40]...) {
		f.Add(o.text())
	}
	m := onHost(f, "dgx-a100")
	r := newRunner(f, m, "GPURIG_CUDA_STEPS=20000", "GPURIG_CUDA_LOG=/dev/null")
	f.Fuzz(func(t *testing.T, text string) {
		buffer := make([]byte, 256)
		k := kernel{text: text, name: "k", block: [3]uint32{33}, grid: [3]uint32{2}, params: []any{buffer, buffer, buffer, uint64(0), uint64(0)}}
		c, alive := r.try(k)
		if !alive {
			said, err := r.stop()
			if err := r.start(); err != nil {
				t.Fatal(err)
			}
			t.Fatalf("the child ended, %v, on %q: %s", err, text, said)
		}
		if !loadCodes[c[0]] || !launchCodes[c[1]] || !launchCodes[c[2]] || !launchCodes[c[3]] {
			t.Errorf("codes %v for %q", c, text)
		}
	})
}

// words cuts a text into what a mutation exchanges.
var words = regexp.MustCompile(`[\w$%]+|\.[\w:]+|\s+|.`)

// Kernels with a few words of other kernels in the place of their own: most of them
// parse further than random bytes do. MUTATIONS in the environment asks for more.
func TestMutatedKernels(t *testing.T) {
	rounds := 3000
	if s := os.Getenv("MUTATIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	files, err := filepath.Glob("testdata/[pc]*/*.ptx") // ours, and the compiler's
	if err != nil || len(files) < 10 {
		t.Fatalf("%d kernels, %v", len(files), err)
	}
	var texts [][]string
	var pool []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w := words.FindAllString(string(text), -1)
		texts, pool = append(texts, w), append(pool, w...)
	}
	for _, o := range append(special32(), append(integers(), floats()...)...) {
		pool = append(pool, words.FindAllString(o.ins+" d, x0, 1;", -1)...)
	}
	r := newRunner(t, onHost(t, "dgx-a100"), "GPURIG_CUDA_STEPS=20000", "GPURIG_CUDA_LOG=/dev/null")
	rnd := rand.New(rand.NewPCG(11, 12))
	loaded := 0
	for range rounds {
		w := slices.Clone(texts[rnd.IntN(len(texts))])
		for range 1 + rnd.IntN(3) {
			at := rnd.IntN(len(w))
			switch rnd.IntN(4) {
			case 0:
				w = slices.Delete(w, at, at+1)
			case 1:
				w = slices.Insert(w, at, pool[rnd.IntN(len(pool))])
			default:
				w[at] = pool[rnd.IntN(len(pool))]
			}
		}
		text := strings.Join(w, "")
		name := ""
		if m := entry.FindStringSubmatch(text); m != nil {
			name = m[1]
		}
		buffer := make([]byte, 4096)
		c, alive := r.try(kernel{text: text, name: name, block: [3]uint32{64}, params: []any{buffer, buffer, buffer, buffer}})
		if !alive {
			said, err := r.stop()
			t.Fatalf("the child ended, %v: %s on\n%s", err, said, text)
		}
		if !loadCodes[c[0]] || !launchCodes[c[1]] || !launchCodes[c[2]] || !launchCodes[c[3]] {
			t.Errorf("codes %v for\n%s", c, text)
		}
		loaded += int(bool64(c[0] == 0))
	}
	if loaded < rounds/20 {
		t.Errorf("%d of %d mutated kernels load: they test little", loaded, rounds)
	}
}

var entry = regexp.MustCompile(`\.entry\s+(\w+)`)
