package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/fakehw/tree"
	"gpurig/hook/inroot"
	"gpurig/hook/stage"
	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/targettest"
)

// TestRootAnswersAsInroot makes the same calls on a tree in memory and on one of the
// disk, by system calls, and wants the same answers and the same trees.
func TestRootAnswersAsInroot(t *testing.T) {
	names := []string{"a", "b", "c", "libx.so.1"}
	texts := []string{"a", "../b", "/c", "..", "nowhere", "/a/b", "../../..", "b/../c", "libx.so.1"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		path := func() string {
			p := ""
			for range 1 + r.IntN(3) {
				p += "/" + names[r.IntN(len(names))]
			}
			return p
		}
		dir := t.TempDir()
		disk, err := inroot.Open(dir, inroot.Options{Owner: inroot.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
		if err != nil {
			t.Skipf("the disk cannot be worked on: %v", err)
		}
		memory := root{mountNS: newMountNS(tree.New(), nil), uid: uint32(os.Geteuid())}
		var calls []string
		for range 60 {
			p, text, data, yes := path(), texts[r.IntN(len(texts))], []byte(texts[r.IntN(3)]), r.IntN(2) == 0
			call, f := call(r.IntN(10), p, text, data, yes)
			calls = append(calls, call)
			got, want := f(memory), f(disk)
			if got != want {
				t.Fatalf("seed %d: %s\nin memory: %s\non disk:   %s", seed, strings.Join(calls, "\n"), got, want)
			}
		}
		if got, want := listed(t, memory, "/"), onDisk(t, dir); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s\nin memory: %q\non disk:   %q", seed, strings.Join(calls, "\n"), got, want)
		}
		disk.Close()
	}
}

// call is one call of a root, and what it answers in words.
func call(n int, p, text string, data []byte, yes bool) (string, func(stage.Root) string) {
	change := func(res inroot.Result, err error) string {
		if err != nil {
			return class(err)
		}
		return fmt.Sprint(res.Change)
	}
	answer := func(v any, err error) string {
		if err != nil {
			return class(err)
		}
		return fmt.Sprint(v)
	}
	name := func(s string) string { return fmt.Sprintf("%s %s %q %q %v", s, p, text, data, yes) }
	switch n {
	case 0:
		return name("mount point"), func(r stage.Root) string {
			res, err := r.MountPoint(p, yes)
			if err == nil && yes { // whether it is new is in the tree
				return "made"
			}
			return change(res, err)
		}
	case 1, 2:
		return name("symlink"), func(r stage.Root) string { return change(r.Symlink(p, text)) }
	case 3:
		return name("write"), func(r stage.Root) string { return change(r.WriteFile(p, data, inroot.Attr{})) }
	case 4:
		return name("remove empty"), func(r stage.Root) string { return answer(r.RemoveEmpty(p, yes)) }
	case 5:
		return name("remove link"), func(r stage.Root) string { return answer(r.RemoveLink(p, text)) }
	case 6:
		return name("remove file"), func(r stage.Root) string {
			return answer(r.RemoveFile(p, 2, func(d []byte) bool { return string(d) == string(data) }))
		}
	case 7:
		return name("missing"), func(r stage.Root) string { return answer(r.Missing(p)) }
	case 8:
		return name("readlink"), func(r stage.Root) string { return answer(r.Readlink(p)) }
	}
	return name("read"), func(r stage.Root) string {
		data, err := r.ReadFile(p, 3)
		return answer(string(data), err)
	}
}

// class is what callers can tell of an error.
func class(err error) string {
	for _, e := range []error{inroot.ErrInTheWay, inroot.ErrMount, inroot.ErrLimit, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "an error"
}

func listed(t *testing.T, r root, p string) (out []string) {
	names, err := r.ReadDir(p, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		at := filepath.Join(p, n)
		i, err := r.Lstat(at)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := r.Readlink(at)
		data, _ := r.ReadFile(at, 100)
		if i.Mode.Type() != 0 {
			data = nil
		}
		out = append(out, fmt.Sprint(at, i.Mode, text, string(data)))
		if i.Mode.IsDir() {
			out = append(out, listed(t, r, at)...)
		}
	}
	return out
}

func onDisk(t *testing.T, dir string) (out []string) {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		text, data := "", []byte(nil)
		switch {
		case i.Mode()&fs.ModeSymlink != 0:
			text, err = os.Readlink(p)
		case i.Mode().IsRegular():
			data, err = os.ReadFile(p)
		}
		out = append(out, fmt.Sprint(strings.TrimPrefix(p, dir), i.Mode(), text, string(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAForeignContainersFile: the hook file of another container is refused by each
// hook that is told the name, and nothing is made.
func TestAForeignContainersFile(t *testing.T) {
	for _, at := range []stage.Stage{stage.Prepare, stage.Apply, stage.Finish, stage.Clean} {
		s, err := New(image.NewSet(image.Bare{}))
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(context.Background(), target.Config{Name: "copy", Image: "glibc", Cgroup: "v2"})
		if err != nil {
			t.Fatal(err)
		}
		c := made.(*Container)
		c.file = hookspec.File{Version: hookspec.Version, Container: "original", Links: []hookspec.Link{{Path: "/etc/made", Target: "x"}}}
		if err := c.hook(c.space(), at, ""); err == nil || !strings.Contains(err.Error(), `for container "original", and this is "copy"`) {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := c.space().Lstat("/etc/made"); err == nil || c.journal.data != nil {
			t.Errorf("%s: something was made", at)
		}
	}
}

// TestWhatStartsLeave: after the last device went, the root is the image's, however
// the starts before it ended.
func TestWhatStartsLeave(t *testing.T) {
	ctx := context.Background()
	h, err := targettest.Host(targettest.Version)
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range []string{"glibc", "musl"} {
		s, err := New(image.NewSet(image.Bare{}))
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(ctx, target.Config{Name: "c1", Image: img, Cgroup: "v2"})
		if err != nil {
			t.Fatal(err)
		}
		c := made.(*Container)
		was := c.root.Clone()
		for n, end := range []func(context.Context) error{c.Stop, c.Crash, c.Stop} {
			if err := c.Start(ctx, h, targettest.Plan(targettest.Version, n > 0)); err != nil {
				t.Fatal(err)
			}
			if err := end(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if c.root.Sum() == was.Sum() {
			t.Errorf("%s: the starts left nothing: there is nothing to take back", img)
		}
		if err := c.Start(ctx, h, plan.Plan{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if err := was.Mkdir("/dev", 0o755); err != nil { // liblxc's own
			t.Fatal(err)
		}
		list := func(of *tree.Tree) []string { // the cache is made anew, of the same libraries
			return slices.DeleteFunc(listed(t, root{mountNS: newMountNS(of, nil)}, "/"), func(l string) bool { return strings.HasPrefix(l, "/etc/ld.so.cache") })
		}
		if diff := cmp.Diff(list(was), list(c.root)); diff != "" {
			t.Errorf("%s: the root is not as it was (-was +is):\n%s", img, diff)
		}
	}
}
