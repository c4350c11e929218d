package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpurig/core/elf"
	"gpurig/core/host"
	"gpurig/runner/image"
	"gpurig/scenarios"
)

// all has content of every kind.
var all = scenarios.Content{
	Remove:    []string{"/etc/hostname"},
	Move:      map[string]string{"/etc": "/data/etc"},
	Links:     map[string]string{"/etc": "data/etc", "/opt/link": "/etc/group"},
	Dirs:      []string{"/opt/dir"},
	Files:     map[string]string{"/etc/group": "root:x:0:\n"},
	Libraries: map[string]scenarios.Library{"/opt/liba.so.1": {SONAME: "liba.so.1", Version: "9"}, "/opt/lib32/liba.so.1": {SONAME: "liba.so.1", Machine: "i386"}},
	Sockets:   []string{"/run/socket"},
	FIFOs:     []string{"/run/fifo"},
	Modes:     map[string]string{"/opt/dir": "0700"},
	Owners:    map[string]string{"/opt/dir": "1000:44"},
}

func TestContentIsPutOnTopOfAnImage(t *testing.T) {
	for i := range reflect.TypeFor[scenarios.Content]().NumField() {
		if reflect.ValueOf(all).Field(i).IsZero() {
			t.Errorf("the test has no %s", reflect.TypeFor[scenarios.Content]().Field(i).Name)
		}
	}
	set := image.NewSet(image.Bare{})
	base, err := set.Image("glibc")
	if err != nil {
		t.Fatal(err)
	}
	before := base.Tree.Sum()
	img, err := set.With("glibc", all)
	if err != nil {
		t.Fatal(err)
	}
	if base.Tree.Sum() != before || img.Tree.Sum() == before {
		t.Errorf("sums: the kind's was %s and is %s, the image's is %s", before, base.Tree.Sum(), img.Tree.Sum())
	}
	if !regexp.MustCompile("^glibc-[0-9a-f]{8}$").MatchString(img.Name) || img.Kind != "glibc" || base.Name != "glibc" {
		t.Errorf("names %q of kind %q, and %q", img.Name, img.Kind, base.Name)
	}
	if again, err := set.With("", all); err != nil || again != img {
		t.Errorf("made twice: %p, %p, %v", img, again, err)
	}
	for p, want := range map[string]string{"/etc": "Lrwxrwxrwx 0:0", "/opt/dir": "drwx------ 1000:44", "/run/socket": "Srw-rw-rw- 0:0", "/run/fifo": "prw-rw-rw- 0:0", "/data/etc/group": "-rw-r--r-- 0:0"} {
		info, err := img.Tree.Lstat(p)
		if got := describe(info); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", p, got, err, want)
		}
	}
	if text, err := img.Tree.ReadFile("/opt/link"); err != nil || string(text) != "root:x:0:\n" {
		t.Errorf("/opt/link leads to %q, %v", text, err)
	}
	if _, err := img.Tree.Lstat("/data/etc/hostname"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/etc/hostname is there: %v", err)
	}
	for p, class := range map[string]elf.Class{"/opt/liba.so.1": elf.Class64, "/opt/lib32/liba.so.1": elf.Class32} {
		data, err := img.Tree.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := elf.Parse(data); err != nil || f.Class != class || f.SONAME != "liba.so.1" {
			t.Errorf("%s: %+v, %v", p, f, err)
		}
	}
}

func describe(i host.Info) string { return fmt.Sprintf("%v %d:%d", i.Mode, i.UID, i.GID) }

// Sockets are in no archive, and are made after.
func TestAnArchiveHasAllButSockets(t *testing.T) {
	img, err := image.NewSet(image.Bare{}).With("none", scenarios.Content{FIFOs: []string{"/a"}, Sockets: []string{"/b"}})
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	if err := errors.Join(img.WriteTar(w, ""), w.Close()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, string(h.Typeflag)+h.Name)
	}
	if !slices.Contains(names, string(rune(tar.TypeFifo))+"a") || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, "b") }) {
		t.Errorf("the archive has %q", names)
	}
}

func TestContentThatAnImageCannotHave(t *testing.T) {
	for _, tc := range []struct {
		kind string
		c    scenarios.Content
		want string
	}{
		{"", scenarios.Content{Remove: []string{"/nothing"}}, "content: remove: /nothing: the image has nothing there"},
		{"", scenarios.Content{Move: map[string]string{"/nothing": "/a"}}, "content: move: /nothing: the image has nothing there"},
		{"", scenarios.Content{Move: map[string]string{"/etc": "/usr"}}, "content: move: /etc: the image has something else there: move or remove it first"},
		{"", scenarios.Content{Move: map[string]string{"/usr": "/usr/local/usr"}}, "content: move: /usr: it cannot be moved below itself"},
		{"", scenarios.Content{Links: map[string]string{"/etc": "x"}}, "content: links: /etc: the image has a folder there: move or remove it first"},
		{"", scenarios.Content{Files: map[string]string{"/etc/group/x": ""}}, "content: files: /etc/group/x: a file or link of the image is on the way"},
		{"", scenarios.Content{Files: map[string]string{"/x/y": ""}, Links: map[string]string{"/x": "nowhere"}}, "content: files: /x/y: the image has nothing there"},
		{"", scenarios.Content{Dirs: []string{"/etc/group"}}, "content: dirs: /etc/group: the image has something else there: move or remove it first"},
		{"musl", scenarios.Content{Modes: map[string]string{"/lib64": "0700"}}, "content: modes: /lib64: the image has nothing there"},
		{"musl", scenarios.Content{Owners: map[string]string{"/lib64": "0:0"}}, "content: owners: /lib64: the image has nothing there"},
		{"glibc", scenarios.Content{Owners: map[string]string{"/lib64": "0:0"}}, ""},
		{"no such kind", scenarios.Content{Remove: []string{"/nothing"}}, ""},
	} {
		err := image.Check(tc.kind, tc.c)
		if got := ""; err != nil || tc.want != "" {
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("Check(%q, %+v):\n%s\nwant:\n%s", tc.kind, tc.c, got, tc.want)
			}
		}
	}
}

func TestWhoHasLdconfig(t *testing.T) {
	for kind, want := range map[string]bool{"glibc": true, "glibc-unmerged": true, "readonly": true, "hostile-lib": true, "glibc-old": false, "musl": false, "none": false, "no such kind": false} {
		if got := image.HasLdconfig(kind); got != want {
			t.Errorf("HasLdconfig(%q) = %v", kind, got)
		}
	}
}
