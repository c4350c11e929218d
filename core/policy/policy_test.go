package policy_test

import (
	"errors"
	"testing"

	"gpurig/core/policy"
)

func TestDriver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		tegra bool
		want  bool
	}{
		{name: "nvidia", want: true},
		{name: "nvidia-caps", want: true},
		{name: "nvidia-caps-imex-channels", want: true},
		{name: "nvidia-capsx"}, // names are matched whole
		{name: "nvidi"},
		{name: "mem"}, // A29
		{name: "input"},
		{name: "vfio"},
		{name: "fb"},
		{name: "fb", tegra: true, want: true},
		{name: "17000000.ga10b", tegra: true, want: true},
		{name: "17000000.ga10b"},
		{name: ""},
	} {
		if _, ok := (policy.Policy{}).Driver(tc.name, tc.tegra); ok != tc.want {
			t.Errorf("Driver(%q, tegra %v) = %v, want %v", tc.name, tc.tegra, ok, tc.want)
		}
	}
	if _, ok := (policy.Policy{Drivers: []string{"vfio"}}).Driver("vfio", false); !ok {
		t.Error("a driver named by the policy is not allowed")
	}
}

// A31 and B51: prefixes are whole components, and what holds a power is not
// allowed because a part of it is.
func TestSourceA31B51(t *testing.T) {
	p := policy.Policy{Sources: []string{"/srv/vendor", "/run/nvidia/driver"}, Writable: []string{"/srv/pipe"}}
	for _, tc := range []struct {
		path      string
		ok, write bool
	}{
		{path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", ok: true},
		{path: "/usr/lib"}, // the whole directory
		{path: "/usr"},
		{path: "/"},
		{path: "/etc/shadow"},
		{path: "/root/.ssh/id"},
		{path: "/proc/1/root/etc/shadow"},
		{path: "/sys"},
		{path: "/dev/sda"},
		{path: "/dev/dri/by-path", ok: true},
		{path: "/run/nvidia-persistenced/socket", ok: true, write: true},
		{path: "/run/nvidia-persistenced-evil/socket"},
		{path: "/run/docker.sock"},
		{path: "/var/lib/lxd/unix.socket"},
		{path: "/srv/vendor/lib", ok: true},
		{path: "/srv/vendor-evil"},
		{path: "/run/nvidia/driver", ok: true},
		{path: "/run/nvidia/driver/usr/lib/libcuda.so.1", ok: true},
		{path: "/run/nvidia/driver-evil/x"},
		{path: "/run/nvidia/drive"},
		{path: "/run/nvidia/driver.sock"},
		{path: "/srv/pipe", ok: true, write: true},
	} {
		_, write, ok := p.Source(tc.path)
		if ok != tc.ok || write != tc.write {
			t.Errorf("Source(%q) = write %v, ok %v; want %v, %v", tc.path, write, ok, tc.write, tc.ok)
		}
	}
}

func TestTargetA31(t *testing.T) {
	for _, tc := range []struct {
		path   string
		denied bool
	}{
		{"/", true}, {"/proc", true}, {"/proc/driver", true}, {"/sys/x", true}, {"/dev", true}, {"/dev/dri/by-path", false},
		{"/etc/passwd", true}, {"/etc", true}, {"/sbin/init", true}, {"/sbin", true}, {"/usr/lib", true}, {"/usr", true},
		{"/usr/lib/x86_64-linux-gnu", true}, {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", false},
		{"/etc/vulkan/icd.d/nvidia_icd.json", false}, {"/lib/firmware/nvidia/550/gsp.bin", false},
		{"/run/nvidia-persistenced/socket", false}, {"/run", true}, {"/etc/ld.so.preload", true}, {"/etc/passwdx", false},
	} {
		if _, denied := (policy.Policy{}).Target(tc.path); denied != tc.denied {
			t.Errorf("Target(%q) denied = %v, want %v", tc.path, denied, tc.denied)
		}
	}
}

func TestEnvA8B33(t *testing.T) {
	p := policy.Policy{Environment: []string{"VENDOR_MODE"}}
	for name, want := range map[string]bool{
		"NVIDIA_VISIBLE_DEVICES": true, "CUDA_CACHE_PATH": true, "VENDOR_MODE": true,
		"LD_PRELOAD": false, "LD_LIBRARY_PATH": false, "LD_AUDIT": false, "BASH_ENV": false, "ENV": false,
		"GODEBUG": false, "PATH": false, "LXC_ROOTFS_MOUNT": false, "FOO": false, "nvidia_x": false,
	} {
		if _, ok := p.Env(name); ok != want {
			t.Errorf("Env(%q) = %v, want %v", name, ok, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, field string
		p           policy.Policy
	}{
		{"a loader variable", "environment[0]", policy.Policy{Environment: []string{"LD_PRELOAD"}}},
		{"a pattern", "drivers[1]", policy.Policy{Drivers: []string{"vfio", "*"}}},
		{"the whole host", "sources[0]", policy.Policy{Sources: []string{"/"}}},
		{"a relative path", "writable[0]", policy.Policy{Writable: []string{"x"}}},
		{"A29 memory of the host", "drivers[0]", policy.Policy{Drivers: []string{"mem"}}},
		{"A29 memory of the host, as a block driver", "block-drivers[0]", policy.Policy{BlockDrivers: []string{"mem"}}},
		{"A31 what holds a manager's socket", "sources[0]", policy.Policy{Sources: []string{"/run"}}},
		{"A31 below a forbidden path", "writable[1]", policy.Policy{Writable: []string{"/srv", "/root/.ssh"}}},
		{"A20 links of procfs", "sources[0]", policy.Policy{Sources: []string{"/proc/1/root/srv"}}},
		{"A23 a line break", "sources[0]", policy.Policy{Sources: []string{"/srv\n/x"}}},
		{"A31 a tmpfs over accounts", "tmpfs[0]", policy.Policy{Tmpfs: []string{"/etc/passwd"}}},
		{"an empty hook kind", "leave-out[0]", policy.Policy{LeaveOut: []string{""}}},
	} {
		fe, ok := errors.AsType[*policy.FieldError](tc.p.Validate())
		if !ok || fe.Field != tc.field {
			t.Errorf("%s: Validate() = %v, want a FieldError for %s", tc.name, fe, tc.field)
		}
	}
	if err := (policy.Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy is refused: %v", err)
	}
}

func TestHook(t *testing.T) {
	if r, ok := (policy.Policy{}).Hook("apply-cuda-memory-limits"); !ok || r.Hook != policy.LeftOut || r.Reason != "no-memory-limit" {
		t.Errorf("a memory limit is %v, %v; want left out: nothing asks for one", r, ok)
	}
	if _, ok := (policy.Policy{}).Hook("create-symlink"); ok {
		t.Error("a hook kind is matched by prefix")
	}
}

func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range policy.Table() {
		if r.Match == "" || r.Why == "" || r.Kind == "" {
			t.Errorf("rule %+v lacks something", r)
		}
		if seen[r.Name()] {
			t.Errorf("rule %q is there twice", r.Name())
		}
		seen[r.Name()] = true
	}
}

func TestLineA29A31(t *testing.T) {
	for _, tc := range []struct{ key, name, want string }{
		{"drivers", "vfio", "drivers: [vfio]"},
		{"block-drivers", "sd", "block-drivers: [sd]"},
		{"drivers", "mem", ""},
		{"sources", "/srv/a b", `sources: ["/srv/a b"]`},
		{"sources", "/etc", ""},
		{"environment", "LD_PRELOAD", ""},
		{"environment", "FOO", "environment: [FOO]"},
		{"tmpfs", "/tmp/data", "tmpfs: [/tmp/data]"},
		{"tmpfs", "/proc", ""},
		{"leave-out", "vendor-hook", "leave-out: [vendor-hook]"},
	} {
		if got := policy.Line(tc.key, tc.name); got != tc.want {
			t.Errorf("Line(%s, %q) = %q, want %q", tc.key, tc.name, got, tc.want)
		}
	}
}

// What no policy allows, none of the table's own rules allows either.
func TestTheDefaultsAreNotForbidden(t *testing.T) {
	for _, r := range policy.Table() {
		if r.Kind == policy.KindSource && policy.Line("sources", r.Match) == "" {
			t.Errorf("%s cannot be allowed by a policy", r.Name())
		}
	}
}

func TestInForce(t *testing.T) {
	p := policy.Policy{Drivers: []string{"vfio"}, Writable: []string{"/srv"}, Tmpfs: []string{"/tmp/x"}, LeaveOut: []string{"h"}}
	rules := p.InForce()
	if len(rules) != len(policy.Table())+4 || rules[0].Name() != "driver vfio" || !rules[1].Write || rules[2].Name() != "tmpfs /tmp/x" || rules[3].Hook != policy.LeftOut {
		t.Errorf("the rules begin with %+v", rules[:4])
	}
	if _, ok := p.Tmp("/tmp/xy"); ok {
		t.Error("a tmpfs path is compared by letters, not by components")
	}
	if _, ok := (policy.Policy{}).Block("sd"); ok {
		t.Error("the table allows a block device")
	}
}
