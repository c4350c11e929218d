package specgen

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/cdi/nvidia"
	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/fakehw/mntns"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/golden"
)

// outcome is what the golden file of a profile holds.
func outcome(t testing.TB, g *Generator, r Request) reply {
	t.Helper()
	out, err := newReply(g.Generate(t.Context(), r))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The golden Specs are those that machines use which cannot make any, so they
// must be what the generator makes now.
func TestGoldenSpecsAreFresh(t *testing.T) {
	g := shared(t)
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			r := Request{Model: profile(t, name)}
			r = r.plain()
			f, err := newGolden(r, outcome(t, g, r))
			if err != nil {
				t.Fatal(err)
			}
			text, err := f.text()
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, filepath.Join("../../fixtures/specs", name+".json"), text)
		})
	}
}

// A machine without namespaces gets the same from the golden files; whatever
// they do not have is an error that a runner can tell from others.
func TestGoldenSpecsAnswerWhereNoneCanBeMade(t *testing.T) {
	if golden.Updating() {
		t.Skip("the golden files are being rewritten")
	}
	g := New(Options{NoChild: true})
	defer g.Close()
	for _, name := range profiles.Names() {
		r := Request{Model: profile(t, name)}
		if _, err := g.Generate(t.Context(), r); err != nil && len(refuse.As(err)) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := g.Stats(); s.Golden != int64(len(profiles.Names())) {
		t.Errorf("%+v", s)
	}
	for what, r := range map[string]Request{
		"another kernel": {Model: other(profile(t, "t4-server"))},
		"other options":  {Model: profile(t, "t4-server"), Options: nvidia.Options{Mode: "management"}},
		"another file":   {Model: profile(t, "t4-server"), Changes: []FileChange{{Path: "/dev/nvidia-uvm", Remove: true}}},
	} {
		_, err := g.Generate(t.Context(), r)
		if e, ok := errors.AsType[*NeedsSpecError](err); !ok || !errors.Is(err, ErrNeedsSpec) || !errors.Is(err, ErrNoGolden) || strings.Contains(e.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func other(m host.Model) host.Model {
	m.Kernel += "-other"
	return m
}

// A golden Spec must not answer for a host whose files have changed since.
func TestAStaleGoldenSpecIsNotTaken(t *testing.T) {
	if golden.Updating() {
		t.Skip("the golden files are being rewritten")
	}
	r := Request{Model: profile(t, "t4-server")}
	g := New(Options{NoChild: true})
	defer g.Close()
	key, err := r.hostDigest()
	if err != nil {
		t.Fatal(err)
	}
	g.trees.Store(key, "the sum of another tree")
	if _, err := g.Generate(t.Context(), r); !errors.Is(err, ErrStaleGolden) || !errors.Is(err, ErrNeedsSpec) {
		t.Errorf("Generate() = %v", err)
	}
}

// The CDI library must read every Spec, and our own reader too.
func TestSpecsAreValid(t *testing.T) {
	g := shared(t)
	for _, name := range profiles.Names() {
		res, err := g.Generate(t.Context(), Request{Model: profile(t, name)})
		if err != nil {
			continue // a refusal, which the golden file shows
		}
		data, err := json.Marshal(res.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cdi.Parse(data, name+".json"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if min, err := specs.MinimumRequiredVersion(res.Spec); err != nil || min != res.Spec.Version {
			t.Errorf("%s: version %s, minimum %s, %v", name, res.Spec.Version, min, err)
		}
	}
}

// Names by index, type and UUID, and "all": the table of device names.
func TestDeviceNames(t *testing.T) {
	g := shared(t)
	m := profile(t, "t4-server")
	res := generate(t, g, Request{Model: m})
	for _, gpu := range m.NVIDIAGPUs() {
		for _, want := range []string{gpu.UUID, "0", "gpu0", "all"} {
			if !slices.Contains(strings.Fields(names(res)), want) {
				t.Errorf("no device %q in %s", want, names(res))
			}
		}
	}
	m = profile(t, "a100-mig-2g-3g")
	res = generate(t, g, Request{Model: m})
	for _, want := range []string{"0:0", "0:1", "mig0:0", "mig0:1", m.NVIDIAGPUs()[0].MIG.Instances[0].Compute[0].UUID, "all"} {
		if !slices.Contains(strings.Fields(names(res)), want) {
			t.Errorf("no device %q in %s", want, names(res))
		}
	}
	if slices.Contains(strings.Fields(names(res)), "0") {
		t.Errorf("a GPU in MIG mode is offered whole: %s", names(res))
	}
}

// The trimmed list of MIG capabilities changes nothing but the time it takes.
func TestTrimmedMinorsMakeTheSameSpec(t *testing.T) {
	g := generator(t, Options{Children: 1})
	for _, name := range []string{"a100-mig-mixed", "t4-server"} {
		r := Request{Model: profile(t, name)}
		r = r.plain()
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out, err := g.sessions[0].Do(t.Context(), whole, data)
		if err != nil {
			t.Fatal(err)
		}
		full, err := parseReply(out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(full, outcome(t, shared(t), r)); diff != "" {
			t.Errorf("%s (-whole +trimmed):\n%s", name, diff)
		}
	}
	// And it is trimmed at all.
	m := profile(t, "a100-mig-uniform")
	tr, err := Request{Model: m}.Tree()
	if err != nil {
		t.Fatal(err)
	}
	if err := trimMinors(tr, m); err != nil {
		t.Fatal(err)
	}
	data, err := tr.ReadFile(migMinors)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\n"); n != 2+7*2 { // config, monitor, seven instances with one part each
		t.Errorf("%d lines:\n%s", n, data)
	}
}

func TestEqualHostsHaveEqualSpecs(t *testing.T) {
	r := Request{Model: profile(t, "igx-orin")}
	var texts []string
	for range 2 {
		g := generator(t, Options{Children: 1})
		data, err := json.Marshal(outcome(t, g, r))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	if texts[0] != texts[1] {
		t.Error("two children made different Specs:\n" + cmp.Diff(texts[0], texts[1]))
	}
}

// In a user namespace the kernel shows the host's groups as 65534; the Spec must
// have them all the same.
func TestAnOrdinaryUserGetsTheSameSpecAsRoot(t *testing.T) {
	for _, name := range []string{"dgx-a100", "igx-orin"} {
		r := Request{Model: profile(t, name)}
		root := outcome(t, generator(t, Options{Children: 1}), r)
		g := generator(t, Options{Children: 1, Session: mntns.Options{UserNamespace: true}})
		user, err := newReply(g.Generate(t.Context(), r))
		if errors.Is(err, mntns.ErrUnable) {
			t.Skip(err)
		}
		if diff := cmp.Diff(root, user); diff != "" || err != nil {
			t.Errorf("%s (-root +user): %v\n%s", name, err, diff)
		}
	}
}

func TestASpecIsMadeOnce(t *testing.T) {
	g := generator(t, Options{})
	r := Request{Model: profile(t, "no-gpu")} // a refusal is kept as well
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := g.Generate(t.Context(), r); !errors.Is(err, nvidia.ReasonNoLibrary) {
				t.Errorf("Generate() = %v", err)
			}
		})
	}
	wg.Wait()
	if s := g.Stats(); s.Made != 1 || s.Memory != 19 {
		t.Errorf("%+v", s)
	}
}

// NVML answers in the process, but only where its file is installed.
func TestWithoutItsFileNVMLIsNotThere(t *testing.T) {
	g := generator(t, Options{})
	for name, file := range map[string]string{
		"t4-server":  "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.113.01", // the link to it dangles
		"nixos-4090": "/run/opengl-driver",
		"snap-t4":    "/var/lib/snapd/hostfs/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
	} {
		r := Request{Model: profile(t, name), Changes: []FileChange{{Path: file, Remove: true}}}
		if _, err := g.Generate(t.Context(), r); !errors.Is(err, nvidia.ReasonNoLibrary) {
			t.Errorf("%s without %s: %v, want %s", name, file, err, nvidia.ReasonNoLibrary)
		}
	}
}

func TestWhoeverIsInterruptedDoesNotSpoilItForOthers(t *testing.T) {
	g := generator(t, Options{Children: 1})
	r := Request{Model: profile(t, "no-gpu")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Generate(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("Generate() = %v", err)
	}
	if _, err := g.Generate(t.Context(), r); !errors.Is(err, nvidia.ReasonNoLibrary) {
		t.Errorf("Generate() after it = %v", err)
	}
}

func TestSpecsAreKeptOnDisk(t *testing.T) {
	dir := t.TempDir()
	r := Request{Model: profile(t, "t4-server")}
	first := generator(t, Options{CacheDir: dir})
	want := outcome(t, first, r)
	files, err := filepath.Glob(filepath.Join(dir, "specs", "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	second := New(Options{CacheDir: dir, NoChild: true})
	defer second.Close()
	if diff := cmp.Diff(want, outcome(t, second, r)); diff != "" || second.Stats().Disk != 1 {
		t.Errorf("%+v (-made +kept):\n%s", second.Stats(), diff)
	}
	for _, bad := range []string{"", "{}", `{"result":{}}`, `{"result":`} { // F22: cut short or empty
		if err := os.WriteFile(files[0], []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		third := generator(t, Options{CacheDir: dir})
		if diff := cmp.Diff(want, outcome(t, third, r)); diff != "" || third.Stats().Made != 1 {
			t.Errorf("file %q: %+v, %s", bad, third.Stats(), diff)
		}
	}
}

// Specs of programs that were built before are not taken, and not kept for ever.
func TestOldBuildsLeaveTheDisk(t *testing.T) {
	dir := t.TempDir()
	for _, old := range []string{"a", "b", "c", "d", "e"} {
		if err := os.MkdirAll(filepath.Join(dir, "specs", old), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := newDiskCache(dir)
	c.open()
	entries, err := os.ReadDir(filepath.Join(dir, "specs"))
	if err != nil || len(entries) != builds {
		t.Errorf("%d builds are kept, %v", len(entries), err)
	}
	if c.dir == "" {
		t.Error("this build has no folder")
	}
}

// A43: Specs that another user could have written are not taken, and none are kept there.
func TestACacheThatIsOpenToAllIsNone(t *testing.T) {
	dir := t.TempDir()
	if c := newDiskCache(dir); c.open() == "" {
		t.Fatal("the control has no folder")
	}
	if err := os.Chmod(filepath.Join(dir, "specs"), 0o777); err != nil {
		t.Fatal(err)
	}
	if c := newDiskCache(dir); c.open() != "" {
		t.Errorf("Specs are kept in %s", c.dir)
	}
}

func TestBadRequests(t *testing.T) {
	g := generator(t, Options{Children: 1})
	m := profile(t, "no-gpu")
	for what, r := range map[string]Request{
		"a change that is none":           {Model: m, Changes: []FileChange{{Path: "/etc/a"}}},
		"a change of two kinds":           {Model: m, Changes: []FileChange{{Path: "/etc/a", Dir: true, Remove: true}}},
		"a path that cannot be removed":   {Model: m, Changes: []FileChange{{Path: "/no/such", Remove: true}}},
		"a relative path":                 {Model: m, Changes: []FileChange{{Path: "a", Dir: true}}},
		"a fault of a call there is none": {Model: m, NVML: nvmlfake.Options{Fail: map[string]nvml.Return{"nvmlInit": 1}}},
	} {
		res, err := g.Generate(t.Context(), r)
		if res != nil || err == nil || strings.Contains(err.Error(), "\n") || errors.Is(err, ErrNeedsSpec) {
			t.Errorf("%s: %v, %v", what, res, err)
		}
	}
}
