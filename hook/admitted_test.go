package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/ldcache"
	"gpurig/hook"
)

// TestA47OnlyThePlansOwnMountsAreRead: a mount is crossed where it has the very file
// or folder that the plan mounts, and nowhere else.
func TestA47OnlyThePlansOwnMountsAreRead(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	const point = "/usr/lib/gpu/libcuda.so.550.1"
	for name, tc := range map[string]struct {
		mounted func(t *testing.T, s *stand)
		points  []hookspec.MountPoint // sources below the host tree
		fails   string
		cached  string // the cache has it, or, after a "!", has not
	}{
		"a file": {func(t *testing.T, s *stand) { mountFile(t, s.hostFile("libs/lib"), s.path(point)) },
			[]hookspec.MountPoint{{Path: point, Source: "libs/lib"}}, "", "libcuda.so.1"},
		"a source that is a link": {func(t *testing.T, s *stand) { mountFile(t, s.hostFile("libs/lib"), s.path(point)) },
			[]hookspec.MountPoint{{Path: point, Source: "link-to-lib"}}, "", "libcuda.so.1"},
		"another file of the host": {func(t *testing.T, s *stand) { mountFile(t, s.hostFile("libs/libsecret.so"), s.path(point)) },
			[]hookspec.MountPoint{{Path: point, Source: "libs/lib"}}, "which the plan mounts there", ""},
		"a file that no plan has": {func(t *testing.T, s *stand) { mountFile(t, s.hostFile("libs/lib"), s.path(point)) },
			[]hookspec.MountPoint{{Path: point}}, "a mount is in the way", ""},
		"a source that is gone": {func(t *testing.T, s *stand) {},
			[]hookspec.MountPoint{{Path: point, Source: "none"}}, "no such file", ""},
		"something over the folder": {func(t *testing.T, s *stand) {
			mountFile(t, s.hostFile("libs/lib"), s.path(point))
			mount(t, filepath.Join(s.host, "libs"), s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
		}, []hookspec.MountPoint{{Path: point, Source: "libs/lib"}}, "which the plan mounts there", ""},
		"a folder": {func(t *testing.T, s *stand) {
			mount(t, filepath.Join(s.host, "libs"), s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
		}, []hookspec.MountPoint{{Path: "/usr/lib/gpu", Dir: true, Source: "libs"}}, "", "libsecret.so"},
		"another folder of the host": {func(t *testing.T, s *stand) {
			mount(t, filepath.Join(s.host, "libs"), s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
		}, []hookspec.MountPoint{{Path: "/usr/lib/gpu", Dir: true, Source: "etc"}}, "which the plan mounts there", ""},
		"a folder with a foreign file mounted in it": {func(t *testing.T, s *stand) {
			mount(t, filepath.Join(s.host, "libs"), s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
			mountFile(t, s.hostFile("foreign"), s.path("usr/lib/gpu/libsecret.so"))
		}, []hookspec.MountPoint{{Path: "/usr/lib/gpu", Dir: true, Source: "libs"}}, "", "!libsecret.so"},
		"a folder, and a file of the plan in it": {func(t *testing.T, s *stand) {
			mount(t, filepath.Join(s.host, "libs"), s.path("usr/lib/gpu"), "", unix.MS_BIND, "")
			mountFile(t, s.hostFile("foreign"), s.path("usr/lib/gpu/libsecret.so"))
		}, []hookspec.MountPoint{{Path: "/usr/lib/gpu", Dir: true, Source: "libs"}, {Path: "/usr/lib/gpu/libsecret.so", Source: "foreign", Nested: true}}, "", "libsecret.so"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, walk bool) {
				s := newStand(t, "dir usr/lib/gpu", "file usr/lib/gpu/libcuda.so.550.1 ")
				s.plant(s.host, "library libs/lib libcuda.so.1", "library libs/libsecret.so libsecret.so", "library foreign libsecret.so", "link link-to-lib libs/lib")
				s.walk = walk
				s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
				for _, m := range tc.points {
					if m.Source != "" {
						m.Source = filepath.Join(s.host, m.Source)
					}
					s.spec.MountPoints = append(s.spec.MountPoints, m)
				}
				tc.mounted(t, s)
				s.write()
				s.photo()
				_, err := s.try(hook.Apply)
				s.canary()
				if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("%v; want %q", err, tc.fails)
				}
				if tc.fails != "" {
					return
				}
				want, not := strings.CutPrefix(tc.cached, "!")
				if has := strings.Contains(s.read("etc/ld.so.cache"), want+"\x00"); has == not {
					t.Errorf("is %s in the cache: %v", want, has)
				}
			})
		})
	}
}

func (s *stand) hostFile(p string) string { return filepath.Join(s.host, p) }

// What the container's own cache has of a folder that is not read, since it is on a
// volume, stays in it.
func TestAVolumeKeepsItsEntries(t *testing.T) {
	if !inMountNamespace(t) {
		return
	}
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t, "file etc/ld.so.conf /opt/volume\n/opt/gone\n", "dir opt/volume", "dir usr/lib/gpu", "library usr/lib/gpu/libx.so.1 libx.so.1")
		s.walk = walk
		own := ldcache.Cache{Entries: []ldcache.Entry{
			{SONAME: "libv.so.1", Path: "/opt/volume/libv.so.1", Flags: ldcache.FlagsX8664}, {SONAME: "libgone.so.1", Path: "/opt/gone/libgone.so.1", Flags: ldcache.FlagsX8664},
		}}
		own.Sort()
		if err := os.WriteFile(s.path("etc/ld.so.cache"), own.Marshal(), 0o644); err != nil {
			t.Fatal(err)
		}
		s.plant(s.host, "library volume/libv.so.1 libv.so.1")
		mount(t, filepath.Join(s.host, "volume"), s.path("opt/volume"), "", unix.MS_BIND, "")
		s.photo()
		s.spec.LibraryDirs = []string{"/usr/lib/gpu"}
		for range 3 {
			s.run(hook.Apply)
			cache, err := ldcache.Parse([]byte(s.read("etc/ld.so.cache")))
			if err != nil || len(cache.Lookup("libv.so.1")) != 1 || len(cache.Lookup("libx.so.1")) != 1 || len(cache.Lookup("libgone.so.1")) != 0 {
				t.Errorf("the cache has %v, %v", cache.Entries, err)
			}
		}
		s.canary()
	})
}
