package observe

import "testing"

// What every /proc and /sys has on an entered fake machine is no edit of a plan; what a
// plan binds there is.
func TestMountsOfAnEnteredMachine(t *testing.T) {
	for _, tc := range []struct {
		m    MountLine
		want bool
	}{
		{MountLine{Root: "/sys", Target: "/sys", Type: "fuse.gpurig"}, true},
		{MountLine{Root: "/driver", Target: "/proc/driver", Type: "fuse.gpurig"}, true},
		{MountLine{Root: "/annex/0/gpurig", Target: "/proc/driver/.gpurig", Type: "tmpfs"}, true},
		{MountLine{Root: "/proc.sys.kernel.osrelease", Target: "/proc/sys/kernel/osrelease", Type: "fuse.gpurig"}, true},
		{MountLine{Root: "/proc.config.gz", Target: "/proc/config.gz", Type: "fuse.gpurig"}, true},
		{MountLine{Root: "/class/net", Target: "/sys/class/net", Type: "sysfs"}, true},
		{MountLine{Root: "/driver/nvidia/gpus/0000:00:1e.0", Target: "/proc/driver/nvidia/gpus/0000:00:1e.0", Type: "fuse.gpurig"}, false},
		{MountLine{Root: "/driver/nvidia", Target: "/proc/driver", Type: "fuse.gpurig"}, false},
		{MountLine{Root: "/proc.devices", Target: "/proc/driver/nvidia/params", Type: "fuse.gpurig"}, false},
		{MountLine{Root: "/sys", Target: "/mnt", Type: "fuse.gpurig"}, false},
		{MountLine{Root: "/", Target: "/proc/driver/nvidia", Type: "tmpfs"}, false},
		{MountLine{Root: "/", Target: "/sys/kernel/debug", Type: "debugfs"}, false},
	} {
		if got := isEntered(tc.m); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.m, got, tc.want)
		}
	}
}
