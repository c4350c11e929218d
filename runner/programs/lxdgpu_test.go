package programs

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/profiles"
	"gpurig/fixtures/golden"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/specgen"
	"gpurig/runner/target"
	"gpurig/runner/target/lxd"
	"gpurig/runner/target/targettest"
	"gpurig/scenarios"
)

// instanceName is a container's, which has our process id.
var instanceName = regexp.MustCompile(`gpurig-\d+-\d+-c\d+`)

// requireLXD skips where no daemon of LXD can run on a fake machine.
func requireLXD(t *testing.T) {
	t.Helper()
	requireMachine(t)
	requireProgram(t, "lxd", "lxd")
	if os.Geteuid() != 0 {
		missing(t, "a daemon of LXD needs root")
	}
}

// lxdTargets returns the target that carries our plan out and the one whose GPUs
// LXD passes by itself.
func lxdTargets(t *testing.T) (translated *lxd.LXD, native *lxd.Native) {
	t.Helper()
	requireLXD(t)
	dir, err := targettest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	opts := lxd.Options{Socket: lxd.Private, Images: image.NewSet(nil), Probe: filepath.Join(dir, "gpurig-probe"), Hook: filepath.Join(dir, "cdi-hook")}
	translated, native = lxd.New(opts), lxd.NewNative(opts)
	t.Cleanup(func() {
		for _, x := range []target.Target{native, translated} {
			if err := x.Close(context.Background()); err != nil {
				t.Errorf("close %s: %v", x.Name(), err)
			}
		}
	})
	return translated, native
}

// told runs scenarios on targets and returns their results.
func told(t *testing.T, pattern string, targets ...target.Target) []reports.Result {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d scenarios, %v", pattern, len(files), err)
	}
	words := scenarios.Options{Hosts: profiles.Names(), Images: image.Kinds(), Fault: fault.Check}
	for _, m := range runner.AllReasons() {
		words.Reasons = append(words.Reasons, string(m.Reason))
	}
	all, err := scenarios.Load(words, files...)
	if err != nil {
		t.Fatal(err)
	}
	specs := specgen.New(specgen.Options{})
	defer specs.Close()
	report, err := runner.Run(t.Context(), runner.Options{Targets: targets, Specs: specs, Hosts: runner.Profiles{}, Jobs: 2}, scenarios.ExpandAll(all))
	if err != nil {
		t.Fatal(err)
	}
	return report.Results
}

// LXD's own GPU device gives a container what our plan does, and what is written in
// the golden file of its version: each line there is something that an engineer of
// LXD would want to know. GPURIG_LXD_DAEMON names the daemon of another version.
func TestLXDGPUDeviceDoesAsThePlanOrAsWritten(t *testing.T) {
	translated, native := lxdTargets(t)
	results := told(t, "testdata/lxdgpu/*.yaml", translated, native)
	version := native.Versions()
	if len(version) != 1 {
		t.Fatalf("versions of LXD: %q; want one", version)
	}
	minor := strings.Join(strings.SplitN(version[0], ".", 3)[:2], ".")
	file := "testdata/lxdgpu/lxd-" + minor + ".txt"
	if _, err := os.Stat(file); err != nil && !golden.Updating() {
		missing(t, fmt.Sprintf("what LXD %s does is not written down: %v", minor, err))
	}
	var b strings.Builder
	for _, r := range results {
		if r.Target != native.Name() {
			if r.Verdict != reports.Pass {
				t.Errorf("%s: %s %s %v", r.Key(), r.Verdict, r.Reason, r.Findings)
			}
			continue
		}
		if r.Verdict == reports.Broken || r.Verdict == reports.Fail {
			t.Errorf("%s: %s: %s %v", r.Key(), r.Verdict, r.Reason, r.Findings)
		}
		fmt.Fprintf(&b, "%s: %s\n  %s\n", r.ID(), r.Verdict, r.Title)
		if r.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", instanceName.ReplaceAllString(r.Reason, "NAME"))
		}
		for _, a := range r.Across {
			fmt.Fprintf(&b, "  %d of %d entries agree\n", a.Agree, a.Entries)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "  %s\n", instanceName.ReplaceAllString(f.Text(), "NAME"))
		}
	}
	golden.Equal(t, file, []byte(b.String()))
}

// Where a scenario says that LXD's own device agrees with the plan, a difference is
// a failure.
func TestLXDGPUDeviceThatMustAgreeFails(t *testing.T) {
	translated, native := lxdTargets(t)
	verdicts := map[string]reports.Verdict{}
	for _, r := range told(t, "testdata/lxdagrees/*.yaml", translated, native) {
		if r.Target == native.Name() {
			verdicts[r.Scenario] = r.Verdict
		}
	}
	want := map[string]reports.Verdict{"must-agree": reports.Fail, "may-differ": reports.Differ}
	if !maps.Equal(verdicts, want) {
		t.Errorf("verdicts %v, want %v", verdicts, want)
	}
}

// Daemons end with the target, and with them the machines.
func TestLXDOnFakeMachinesLeavesNothing(t *testing.T) {
	requireLXD(t)
	if os.Getenv(ownMounts) == "" {
		withOwnMounts(t)
		return
	}
	before := mountPoints(t)
	translated, native := lxdTargets(t)
	told(t, "testdata/lxdagrees/*.yaml", translated, native)
	if native.Daemons() == 0 {
		t.Error("no daemon ran on a fake machine: nothing is shown by this test")
	}
	for _, x := range []target.Target{native, translated} {
		if err := x.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range mountPoints(t) {
		if !slices.Contains(before, at) {
			t.Errorf("a mount of ours is left: %s", at)
		}
	}
	cgroups, err := filepath.Glob("/sys/fs/cgroup/*/gpurig-" + fmt.Sprint(os.Getpid()) + "-*")
	if err != nil {
		t.Fatal(err)
	}
	if native.Daemons() > 0 || len(cgroups) > 0 {
		t.Errorf("%d daemons, cgroups %q", native.Daemons(), cgroups)
	}
}

// ownMounts is set where a test has a table of mounts that no other run changes.
const ownMounts = "GPURIG_TEST_OWN_MOUNTS"

// withOwnMounts runs this test once more, by itself, with mounts of its own that are
// shared with its children: what one leaves comes back here, and nobody else's does.
func withOwnMounts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --make-rshared / && exec "$0" "$@"`,
		self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("with mounts of its own: %v\n%s", err, out)
	}
}

func mountPoints(t *testing.T) []string {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := observe.ParseMountinfo(string(table))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range lines {
		out = append(out, m.Target)
	}
	return out
}
