package ldcache

import (
	"reflect"
	"strings"
	"testing"
)

// counted counts what it is asked for.
type counted struct {
	memory
	asked map[string]int
}

func (c counted) Lstat(p string) (Info, error) {
	c.asked["lstat "+p]++
	return c.memory.Lstat(p)
}

func (c counted) ReadDir(p string) ([]string, error) {
	c.asked["readdir "+p]++
	return c.memory.ReadDir(p)
}

func (c counted) ReadFile(p string) ([]byte, error) {
	c.asked["read "+p]++
	return c.memory.ReadFile(p)
}

func TestMemo(t *testing.T) {
	root := counted{memory{"/lib/liba.so.1": "no library", "/lib/libb.so": "neither"}, map[string]int{}}
	m := NewMemo(root)
	want := Build(root.memory, []string{"/lib"})
	for range 2 {
		if got := Build(m, []string{"/lib"}); !reflect.DeepEqual(got, want) {
			t.Fatalf("Build of a Memo = %+v, want %+v", got, want)
		}
	}
	for what, n := range root.asked {
		if n != 1 {
			t.Errorf("%s: asked %d times", what, n)
		}
	}
	root.memory["/lib/libc.so"] = "new"
	if got, _ := m.ReadDir("/lib"); len(got) != 2 {
		t.Errorf("the folder is read again: %v", got)
	}
	m.Forget("/lib/libc.so")
	if got, _ := m.ReadDir("/lib"); len(got) != 3 {
		t.Errorf("the folder is not read again: %v", got)
	}
}

func TestAMemoKeepsNoMoreThanItsRoom(t *testing.T) {
	root := counted{memory{"/big": strings.Repeat("x", maxRemembered), "/small": "x"}, map[string]int{}}
	m := NewMemo(root)
	for range 2 {
		for _, p := range []string{"/small", "/big"} {
			if data, err := m.ReadFile(p); err != nil || string(data) != root.memory[p] {
				t.Fatalf("ReadFile(%q): %d bytes, %v", p, len(data), err)
			}
		}
	}
	if root.asked["read /small"] != 1 || root.asked["read /big"] != 2 {
		t.Errorf("asked %v; want the small file once and the big one each time", root.asked)
	}
}
