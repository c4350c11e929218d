package containercli

import (
	"reflect"
	"strings"
	"testing"

	"gpurig/core/legacy"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"info --csv":   {command: "info", csv: true},
		"list":         {command: "list", libraries: true, binaries: true, sockets: true, firmware: true, request: legacy.Request{Devices: []string{"all"}}},
		"list -l -d 0": {command: "list", libraries: true, request: legacy.Request{Devices: []string{"0"}}},
		"--version":    {command: "version"},
		"--help":       {command: "help"},
		// as LXC's hook nvidia has it
		"--debug=/x/nvidia.log --user configure --no-cgroups --ldconfig=@/sbin/ldconfig --device=none --compute --utility --require=cuda>=12 /rootfs/": {
			command: "configure", debug: "/x/nvidia.log", noCgroups: true, rootfs: "/rootfs",
			request: legacy.Request{Devices: []string{"none"}, Capabilities: []legacy.Capability{legacy.Compute, legacy.Utility}, Require: []string{"cuda>=12"}}},
		// as NVIDIA's container runtime hook has it
		"--root=/run/nvidia/driver --load-kmods --no-create-imex-channels --no-pivot --user=root:video configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig.real --device=0,GPU-x --mig-config=all --mig-monitor=all --imex-channel=0,7 --compat32 --graphics --video --display --ngx --pid=12 /rootfs": {
			command: "configure", root: "/run/nvidia/driver", loadModules: true, pid: 12, rootfs: "/rootfs",
			request: legacy.Request{Devices: []string{"0", "GPU-x"}, MIGConfig: true, MIGMonitor: true, IMEX: []int{0, 7},
				Capabilities: []legacy.Capability{legacy.Compat32, legacy.Graphics, legacy.Video, legacy.Display, legacy.NGX}}},
		"-k configure -p 12 -d 0 -cu --no-devbind --no-gsp-firmware --no-persistenced --no-fabricmanager --no-cntlibs -l @/x /r": {},
	} {
		got, err := parse(strings.Fields(line))
		if want.command == "" {
			if err == nil {
				t.Errorf("%s: no error", line)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", line, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "no command",
		"frobnicate":                     "there is no such command",
		"--ldcache=/x info":              "--ldcache=/x: this option is not supported",
		"info --device=0":                "not supported",
		"info extra":                     "one argument too many",
		"configure":                      "want the absolute path",
		"configure /":                    "want the absolute path",
		"configure rootfs":               "want the absolute path",
		"configure --pid=0 /r":           "not a process id",
		"configure --mig-config=0 /r":    `only "all" is supported`,
		"configure --imex-channel=x /r":  "not a channel",
		"configure --no-cgroups=yes /r":  "this option has no value",
		"configure /r --device":          "the value is missing",
		"configure --cuda-compat-mode=x": "want disabled, ldconfig or mount",
		"configure /r /s":                "one argument too many",
	} {
		if got, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(got, options{}) {
			t.Errorf("%s: %+v, %v; want %s", line, got, err, want)
		}
	}
}

// FuzzParse: a command line is read, or refused with nothing read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"info", "list -l", "configure --device=0 /r", "-d", "-", "--", "-=", "--=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got, err := parse(strings.Split(line, " "))
		if err != nil && !reflect.DeepEqual(got, options{}) {
			t.Errorf("%q: %+v and %v", line, got, err)
		}
		if err == nil && got.command == "configure" && (got.rootfs == "/" || !strings.HasPrefix(got.rootfs, "/")) {
			t.Errorf("%q: root %q", line, got.rootfs)
		}
	})
}

func TestDeviceCgroup(t *testing.T) {
	const (
		v1 = "30 25 0:26 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		v2 = "32 25 0:28 /outer /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for name, tc := range map[string]struct {
		cgroup, mounts, want string
		v2                   bool
	}{
		"version 1":                 {"5:devices:/docker/x\n1:cpu:/y\n0::/z\n", v1, "/sys/fs/cgroup/devices/docker/x", false},
		"two controllers in one":    {"5:cpu,devices:/x\n", strings.Replace(v1, "rw,devices", "rw,cpu,devices", 1), "/sys/fs/cgroup/devices/x", false},
		"version 2, a part mounted": {"0::/outer/a.scope\n", v2, "/sys/fs/cgroup/a.scope", true},
		"not below what is mounted": {"0::/other\n", v2, "", false},
		"mounted nowhere":           {"5:devices:/x\n", v2, "", false},
		"nothing":                   {"", "", "", false},
	} {
		dir, isV2, err := deviceCgroup(tc.cgroup, tc.mounts)
		if dir != tc.want || isV2 != tc.v2 || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %t, %v; want %q", name, dir, isV2, err, tc.want)
		}
	}
}
