package image_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"gpurig/core/host"
	"gpurig/core/ldcache"
	"gpurig/runner/image"
)

func TestEveryImageIsMadeOnAMachineThatHasNothing(t *testing.T) {
	set := image.NewSet(image.Bare{})
	for _, kind := range image.Kinds() {
		img, err := set.Image(kind)
		if err != nil {
			t.Errorf("Image(%q): %v", kind, err)
			continue
		}
		for _, p := range []string{"/dev", "/proc", "/sys", "/etc", "/run"} {
			real, err := host.Resolve(img.Tree, p)
			if err != nil {
				t.Errorf("image %s: %v", kind, err)
				continue
			}
			if info, err := img.Tree.Lstat(real); err != nil || !info.Mode.IsDir() {
				t.Errorf("image %s: %s is no folder: %v, %v", kind, p, info.Mode, err)
			}
		}
		if image.About(kind) == "" {
			t.Errorf("About(%q) is empty", kind)
		}
	}
}

func TestImageIsTheSameTwice(t *testing.T) {
	for _, kind := range image.Kinds() {
		a, err := image.NewSet(image.Bare{}).Image(kind)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := image.NewSet(image.Bare{}).Image(kind); err != nil || a.Tree.Sum() != b.Tree.Sum() {
			t.Errorf("image %s: sums %s and %s, %v", kind, a.Tree.Sum(), b.Tree.Sum(), err)
		}
	}
}

func TestImageLayouts(t *testing.T) {
	const loader, muslLoader = "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"
	for _, tc := range []struct {
		kind     string
		ends     map[string]string // where a path ends
		absent   []string
		empty    []string // files of no size
		readOnly bool
	}{
		{kind: "", ends: map[string]string{loader: "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/lib": "/usr/lib", "/bin/sh": "/usr/bin/busybox"}},
		{kind: "glibc-unmerged", ends: map[string]string{loader: "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/lib": "/lib", "/usr/lib": "/usr/lib"}},
		{kind: "glibc-old", ends: map[string]string{loader: "/lib/x86_64-linux-gnu/ld-2.31.so", "/lib/x86_64-linux-gnu/libc.so.6": "/lib/x86_64-linux-gnu/libc-2.31.so"}},
		{kind: "hostile-etc", ends: map[string]string{"/etc": image.Outside + "/etc", "/etc/ld.so.cache": image.Outside + "/etc/ld.so.cache"}},
		{kind: "hostile-lib", ends: map[string]string{"/lib": image.Outside + "/lib", loader: image.Outside + "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"}},
		{kind: "musl", ends: map[string]string{muslLoader: muslLoader}, absent: []string{loader, "/etc/ld.so.cache", "/etc/ld-musl-x86_64.path"}},
		{kind: "none", absent: []string{loader, muslLoader, "/bin/sh", "/lib", "/usr/lib"}},
		{kind: "readonly", readOnly: true, ends: map[string]string{"/lib64": "/usr/lib64"}},
		{kind: "stale-libs", ends: map[string]string{"/lib/x86_64-linux-gnu/libcuda.so": "/usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02"},
			empty: []string{"/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01", "/usr/bin/nvidia-smi"}},
		{kind: "mesa-links", ends: map[string]string{"/usr/lib/x86_64-linux-gnu/libGLX_indirect.so.0": "/usr/lib/x86_64-linux-gnu/libGLX_mesa.so.0.0.0"}},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			img, err := image.NewSet(image.Bare{}).Image(tc.kind)
			if err != nil {
				t.Fatal(err)
			}
			for p, want := range tc.ends {
				if got, err := host.Resolve(img.Tree, p); err != nil || got != want {
					t.Errorf("%s ends at %q, %v; want %s", p, got, err, want)
				}
			}
			for _, p := range tc.absent {
				if _, err := img.Tree.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v; want it absent", p, err)
				}
			}
			for _, p := range tc.empty {
				if info, err := img.Tree.Lstat(p); err != nil || !info.Mode.IsRegular() || info.Size != 0 {
					t.Errorf("%s: %+v, %v; want an empty file", p, info, err)
				}
			}
			if img.ReadOnly != tc.readOnly {
				t.Errorf("ReadOnly = %v", img.ReadOnly)
			}
		})
	}
}

func TestUnknownImageNamesThoseThereAre(t *testing.T) {
	_, err := image.NewSet(image.Bare{}).Image("alpine")
	if !errors.Is(err, image.ErrUnknown) || !strings.Contains(err.Error(), "musl") {
		t.Errorf(`Image("alpine") = %v; want ErrUnknown and the list`, err)
	}
}

// Loaders up to 2.31 read either format; what they read is what a newer one does.
func TestTheOldCacheSaysTheSameTwice(t *testing.T) {
	img, err := image.NewSet(nil).Image("glibc-old")
	if err != nil {
		t.Fatal(err)
	}
	data, err := img.Tree.ReadFile(ldcache.File)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ldcache.Parse(data)
	if err != nil || !strings.HasPrefix(string(data), "ld.so-1.7.0\x00") {
		t.Fatalf("a cache that begins with %q: %v", data[:min(len(data), 12)], err)
	}
	i := strings.Index(string(data), "glibc-ld.so.cache1.1")
	if i < 0 || i%8 != 0 {
		t.Fatalf("the new format is at %d", i)
	}
	only, err := ldcache.Parse(data[i:])
	if err != nil || len(only.Entries) != len(whole.Entries) {
		t.Errorf("%d entries, of the new format alone %d, %v", len(whole.Entries), len(only.Entries), err)
	}
	n := int(binary.LittleEndian.Uint32(data[12:]))
	if n != len(only.Entries) {
		t.Fatalf("%d old entries, %d new ones", n, len(only.Entries))
	}
	text := func(at uint32) string {
		s, _, _ := strings.Cut(string(data[16+12*n+int(at):]), "\x00")
		return s
	}
	for i, e := range only.Entries {
		old := data[16+12*i:]
		if soname, at := text(binary.LittleEndian.Uint32(old[4:])), text(binary.LittleEndian.Uint32(old[8:])); soname != e.SONAME || at != e.Path {
			t.Errorf("old entry %d is %s => %s; want %s => %s", i, soname, at, e.SONAME, e.Path)
		}
	}
}
