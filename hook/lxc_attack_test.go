package hook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/core/hookspec"
)

// An lxcAttack is an attack by the image, the configuration and the container's
// own root.
type lxcAttack struct {
	attack
	lines  []string // more configuration
	script string   // what the container does while it runs
	in     string   // the one hook that it is for; empty: both
}

// lxcAttacks need more than an image.
var lxcAttacks = []lxcAttack{
	{attack{"A4 /etc leads through procfs to the host", []string{"link etc /proc/1/root$H/etc", "dir usr/lib/gpu"}, cacheAttackFolder, "cdi-hook: ", nil}, nil, "", ""},
	{attack{"A5 a host directory is mounted there", []string{"dir usr/lib/gpu"}, oneLink("/usr/lib/gpu/b", "a"), "a mount is in the way", nil},
		[]string{"lxc.mount.entry = $H usr/lib/gpu none bind 0 0"}, "", ""},
	{attack{"A5 the libraries are in a directory of the host", []string{"dir usr/lib/gpu"}, cacheAttackFolder, "a mount is in the way", []string{"!etc/ld.so.cache"}},
		[]string{"lxc.mount.entry = $H/d usr/lib/gpu none bind 0 0"}, "", ""},
	{attack{"A5 the cache is a file of the host", []string{"file etc/ld.so.cache x", "dir usr/lib/gpu"}, cacheAttackFolder, "a mount is in the way", nil},
		[]string{"lxc.mount.entry = $H/canary etc/ld.so.cache none bind 0 0"}, "", ""},
	{attack{"A5 /etc is a directory of the host", []string{"dir etc", "dir usr/lib/gpu"}, cacheAttackFolder, "a mount is in the way", nil},
		[]string{"lxc.mount.entry = $H/etc etc none bind 0 0"}, "", ""},
	{attack{"A13 a mount point below a link to the host", []string{"dir usr/lib", "link usr/lib/gpu $H"}, onePoint("/usr/lib/gpu/x", false), "dangling link", nil},
		[]string{"lxc.mount.entry = $H/canary usr/lib/gpu/x none bind,ro 0 0"}, "", ""},
	{attack{"A15 the environment names another root", []string{"dir usr/lib/gpu"}, oneLink("/d/x", "y"), "nothing is mounted there", []string{"!d/x"}},
		[]string{"lxc.environment = LXC_ROOTFS_MOUNT=$H"}, "", "mount"},
	{attack{"A15 and in start-host", []string{"dir usr/lib/gpu"}, oneLink("/d/x", "y"), "", []string{"d/x"}},
		[]string{"lxc.environment = LXC_ROOTFS_MOUNT=$H"}, "", "start-host"},
	{attack{"A17 procfs is the image's", []string{"dir usr/lib/gpu", "file proc/self/mountinfo x", "file proc/self/uid_map 0 0 4294967295", "link proc/self/fd/3 $H/canary"},
		cacheAttackFolder, "", []string{"etc/ld.so.cache"}}, []string{"lxc.mount.auto ="}, "", ""},
	{attack{"A19 /dev/dri is a link to the host", []string{"dir dev", "link dev/dri $H"}, oneLink("/dev/dri/by-path/x", "../card0"), "", nil},
		nil, "", ""}, // LXC mounts its own /dev over it
	{attack{"A36 the libraries' folder is the host's by the end", []string{"dir usr/lib/gpu"}, oneLink("/usr/lib/gpu/l", "libcuda.so.1"), "", []string{"usr/lib/gpu"}},
		nil, "rm -r /usr/lib/gpu; ln -s $H /usr/lib/gpu", ""},
	{attack{"A36 a mount point's folder is the host's by the end", []string{"dir usr/lib/gpu"}, onePoint("/usr/lib/gpu/empty", false), "", []string{"usr/lib/gpu"}},
		nil, "rm -r /usr/lib/gpu; ln -s $H /usr/lib/gpu", ""},
}

// TestLXCAttacks holds hostile images against real containers, privileged ones and
// with an id map, with the hook as mount and as start-host hook, with openat2 and
// on a machine without.
func TestLXCAttacks(t *testing.T) {
	all := lxcAttacks
	for _, a := range attacks {
		l := lxcAttack{attack: a}
		if strings.Contains(strings.Join(a.image, "\n"), " dev") { // or LXC mounts its own /dev over it
			l.lines = []string{"lxc.autodev = 0"}
			if l.fails != "" { // by LXC itself, by us, or since a mapped mount hook has no note of what is below /dev
				l.fails = "The container failed to start"
			}
		}
		all = append(all, l)
	}
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			for _, applyIn := range []string{"mount", "start-host"} {
				for _, idmap := range []bool{false, true} {
					if a.in != "" && a.in != applyIn {
						continue
					}
					for _, old := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/idmap=%v/old=%v", applyIn, idmap, old), func(t *testing.T) {
							t.Parallel()
							a.inLXC(t, applyIn, idmap, old)
						})
					}
				}
			}
		})
	}
}

func (a lxcAttack) inLXC(t *testing.T, applyIn string, idmap, old bool) {
	var image []string
	for _, line := range a.image {
		image = append(image, strings.ReplaceAll(line, "$F", "3"))
	}
	s := newLXC(t, idmap, image...)
	if old && liblxc(t).Major >= 7 {
		s.photo()
		t.Skip("LXC 7 itself starts nothing on a machine without openat2")
	}
	s.old, s.script = old, strings.ReplaceAll(a.script, "$H", s.host)+"\ntrue"
	for _, l := range a.lines {
		s.lines = append(s.lines, strings.ReplaceAll(l, "$H", s.host))
	}
	a.want(&s.spec)
	err := s.start(applyIn)
	a.judge(t, s.stand, err)
	if a.fails == "" {
		if out, err := hookCommand(t, s.args("clean")...).CombinedOutput(); err != nil {
			t.Errorf("clean: %v, %s", err, out)
		}
		s.canary()
	}
}

// A14: what ends as the root is a link to the host, a file or a FIFO.
func TestLXCRootsThatAreNone(t *testing.T) {
	for name, inode := range map[string]string{"link": "link root $H", "file": "file root x", "FIFO": "fifo root"} {
		t.Run(name, func(t *testing.T) {
			s := newLXC(t, false)
			oneLink("/x", "y")(&s.spec)
			s.elsewhere = func() {
				if err := os.Rename(s.root, s.root+".moved"); err != nil {
					t.Fatal(err)
				}
				s.plant(filepath.Dir(s.root), inode)
			}
			if err := s.start("start-host"); err == nil || !strings.Contains(err.Error(), "not a directory") {
				t.Errorf("%v; want it refused", err)
			}
			s.canary()
		})
	}
}

// F8: a mapped mount hook has no journal to write to, so the stage before the start
// notes its links: without that hook they are not made, with it they are, and
// taken back by clean.
func TestLXCMappedMountHookNeedsTheStageBefore(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("pre-start=%v", before), func(t *testing.T) {
			s := newLXC(t, true, "dir usr/lib/gpu")
			s.spec.Links = []hookspec.Link{{Path: "/usr/lib/gpu/libcuda.so", Target: "libcuda.so.1"}, {Path: "/opt/gpu/l", Target: "x"}}
			s.script = "readlink /usr/lib/gpu/libcuda.so > /tmp/seen"
			s.noPrepare = !before
			err := s.start("mount")
			s.canary()
			if !before {
				if err == nil || !strings.Contains(err.Error(), "journal") {
					t.Errorf("%v; want it to say that nobody noted", err)
				}
				if tree := s.tree(); strings.Contains(tree, "\nusr/lib/gpu/libcuda") || strings.Contains(tree, "\nopt") {
					t.Errorf("made, and noted nowhere:\n%s", tree)
				}
				return
			}
			if err != nil || s.read("tmp/seen") != "libcuda.so.1\n" {
				t.Fatalf("%v; seen %q", err, s.read("tmp/seen"))
			}
			if out, err := hookCommand(t, s.args("clean")...).CombinedOutput(); err != nil {
				t.Fatalf("clean: %s", out)
			}
			if tree := s.tree(); strings.Contains(tree, "\nusr/lib/gpu/libcuda") || strings.Contains(tree, "\nopt") {
				t.Errorf("taken back:\n%s", tree)
			}
		})
	}
}
