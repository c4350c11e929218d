package capture

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/host"
	"gpurig/fakehw"
	"gpurig/fakehw/tree"
)

// A change to a recorded host does to its files what it does to those of a fake
// one, and leaves alone what is the recorded host's own.
func TestChangesToARecordedHost(t *testing.T) {
	for _, tc := range []struct {
		name, host string
		change     func(host.Model) (host.Model, error)
	}{
		{"another geometry", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) {
			return fakehw.WithMIG(m, 0, []string{"1g.5gb", "1g.5gb"}, false)
		}},
		{"MIG mode off", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) { return fakehw.WithMIG(m, 0, nil, true) }},
		{"another minor", "a100-mig-2g-3g", func(m host.Model) (host.Model, error) { return fakehw.WithMinors(m, map[int]int{0: 5}) }},
		{"another driver", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithDriver(m, "570") }},
		{"half an upgrade", "t4-server", func(m host.Model) (host.Model, error) { return fakehw.WithUserspace(m, "550") }},
		{"no driver", "dgx-a100", func(m host.Model) (host.Model, error) { return fakehw.Unloaded(m), nil }},
		{"a GPU less", "dgx-a100", func(m host.Model) (host.Model, error) { return fakehw.WithoutGPU(m, 3) }},
		{"another major", "dgx-h100", func(m host.Model) (host.Model, error) {
			return fakehw.WithMajors(m, map[string]uint32{"nvidia-uvm": 345})
		}},
		{"a reboot", "jetson-agx-orin", func(m host.Model) (host.Model, error) { return fakehw.Rebooted(m), nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := profile(t, tc.host)
			recorded := built(t, m)
			own := "/etc/nvidia-container-runtime/config.toml"
			if err := recorded.WriteFile(own, []byte("the host's own\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			replayed, _ := again(t, record(t, recorded, nvmlOf(m)))
			was, err := replayed.Model()
			if err != nil {
				t.Fatal(err)
			}
			want, err := tc.change(was)
			if err != nil {
				t.Fatal(err)
			}
			sum := replayed.Tree.Sum()
			got, err := Changed(replayed.Tree, built(t, was), built(t, want))
			if err != nil {
				t.Fatal(err)
			}
			sameModel(t, want, got)
			if text, err := got.ReadFile(own); err != nil || string(text) != "the host's own\n" {
				t.Errorf("%s has %q, %v", own, text, err)
			}
			if replayed.Tree.Sum() != sum {
				t.Error("the recorded tree was changed")
			}
		})
	}
}

// sameModel compares what is discovered of a tree with a model.
func sameModel(t *testing.T, want host.Model, got *tree.Tree) {
	t.Helper()
	n := nvmlOf(want)
	a, err := host.Discover(built(t, want), n)
	if err != nil {
		t.Fatal(err)
	}
	b, err := host.Discover(got, n)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the changed recording differs (-changed profile +changed recording):\n%s", diff)
	}
}

// What stands in a change's way is an error, not a guess.
func TestChangeThatDoesNotFit(t *testing.T) {
	base, before, after := tree.New(), tree.New(), tree.New()
	for _, err := range []error{
		base.WriteFile("/dev/dri", nil, 0o644),
		after.WriteFile("/dev/dri/card0", nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Changed(base, before, after); err == nil || !strings.Contains(err.Error(), "/dev/dri") {
		t.Errorf("a folder where the recorded host has a file: %v", err)
	}
}
