package tree_test

import (
	"errors"
	"slices"
	"testing"

	"gpurig/core/device"
	"gpurig/fakehw/tree"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// shared is a tree that has files of its own beside those of a frozen one.
func shared(t *testing.T) (own, base *tree.Tree) {
	base = tree.New()
	must(t, base.WriteFile("/sys/cpu/online", []byte("0-1\n"), 0o444), base.WriteFile("/sys/bus/a", []byte("theirs"), 0o444), base.WriteFile("/sys/bus/b", nil, 0o444))
	own = tree.New()
	must(t, own.WriteFile("/sys/bus/a", []byte("mine"), 0o644))
	own.Share(base.Freeze())
	return own, base
}

func TestShareAddsWhatIsNotThere(t *testing.T) {
	own, _ := shared(t)
	for p, want := range map[string]string{"/sys/cpu/online": "0-1\n", "/sys/bus/a": "mine", "/sys/bus/b": ""} {
		if got, err := own.ReadFile(p); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", p, got, err, want)
		}
	}
	more := tree.New()
	must(t, more.WriteFile("/sys/cpu/isolated", []byte("\n"), 0o444))
	own.Share(more.Freeze()) // below what is shared already
	for _, p := range []string{"/sys/cpu/online", "/sys/cpu/isolated"} {
		if _, err := own.Lstat(p); err != nil {
			t.Error(err)
		}
	}
	if got := own.Clone(); got.Sum() != own.Sum() {
		t.Error("a copy is another")
	}
}

// Whatever is done to a tree, what it shares does not change.
func TestNothingSharedIsChanged(t *testing.T) {
	for name, change := range map[string]func(*tree.Tree) error{
		"file":   func(t *tree.Tree) error { return t.WriteFile("/sys/cpu/online", nil, 0o444) },
		"deeper": func(t *tree.Tree) error { return t.WriteFile("/sys/cpu/x/y", nil, 0o444) },
		"link":   func(t *tree.Tree) error { return t.Symlink("/sys/cpu/link", "x") },
		"node": func(t *tree.Tree) error {
			return t.Mknod(device.Node{Path: "/sys/cpu/node", Type: device.Char, Num: device.Num{Major: 1, Minor: 3}})
		},
		"folder":  func(t *tree.Tree) error { return t.Mkdir("/sys/cpu", 0o700) },
		"below":   func(t *tree.Tree) error { return t.Mkdir("/sys/cpu/x", 0o755) },
		"owner":   func(t *tree.Tree) error { return t.Chown("/sys/bus/b", 1, 1) },
		"mode":    func(t *tree.Tree) error { return t.Chmod("/sys/cpu/online", 0o600) },
		"removal": func(t *tree.Tree) error { return t.Remove("/sys/cpu/online") },
		"all":     func(t *tree.Tree) error { return t.Remove("/sys/cpu") },
		"rename":  func(t *tree.Tree) error { return t.Rename("/sys/cpu/online", "/sys/bus/c") },
		"content": func(t *tree.Tree) error { return t.SetData("/sys/cpu/online", nil) },
		"twice": func(t *tree.Tree) error {
			return errors.Join(t.WriteFile("/sys/cpu/a", nil, 0o444), t.WriteFile("/sys/cpu/b", nil, 0o444))
		},
	} {
		t.Run(name, func(t *testing.T) {
			own, base := shared(t)
			was, sum := own.Sum(), base.Sum()
			must(t, change(own))
			if own.Sum() == was {
				t.Error("nothing has changed")
			}
			if base.Freeze().Clone().Sum() != sum {
				t.Error("the frozen tree has changed")
			}
		})
	}
}

// A tree that becomes another one keeps what is shared where the other has the same, and
// replaces what it has not.
func TestUpdateReplacesWhatIsShared(t *testing.T) {
	own, base := shared(t)
	next, _ := shared(t)
	if changes := own.Update(next); len(changes) != 0 {
		t.Errorf("%v where both have the same", changes)
	}
	other := tree.New()
	must(t, other.WriteFile("/sys/cpu/online", []byte("0\n"), 0o444), other.WriteFile("/sys/bus/b", nil, 0o444))
	next = tree.New()
	must(t, next.WriteFile("/sys/bus/a", []byte("mine"), 0o644))
	next.Share(other.Freeze())
	sum := base.Sum()
	changes := own.Update(next)
	if own.Sum() != next.Sum() || base.Sum() != sum {
		t.Error("the trees differ, or the frozen one has changed")
	}
	want := []tree.Change{{Path: "/sys/cpu", Kind: tree.Removed}, {Path: "/sys/cpu/online", Kind: tree.Removed}, {Path: "/sys/cpu", Kind: tree.Added}, {Path: "/sys/cpu/online", Kind: tree.Added}}
	if !slices.Equal(changes, want) {
		t.Errorf("%v, want %v", changes, want)
	}
}
