package ldcache

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// reported is a view whose file system reports one size for every file.
type reported struct {
	files
	size int64
}

func (v reported) Lstat(p string) (Info, error) {
	i, err := v.files.Lstat(p)
	i.Size = v.size
	return i, err
}

func (v reported) Open(p string) (Reader, error) {
	data, err := v.ReadFile(p)
	return opened{bytes.NewReader(data)}, err
}

type opened struct{ *bytes.Reader }

func (opened) Close() error { return nil }

// A file system may report 0, or anything, for what it has (A59).
func TestA59SizesThatFileSystemsReport(t *testing.T) {
	root := files{"/d/libx.so.1.5": lib(t, "libx.so.1", "1.5"), "/d/libempty.so.1": "", "/d/libtext.so.1": "text"}
	for _, size := range []int64{0, 10, 100, 1 << 40} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			got := Build(reported{root, size}, []string{"/d"})
			if want := []string{"libx.so.1 /d/libx.so.1"}; !slices.Equal(paths(got.Cache), want) || len(got.Skipped) != 2 {
				t.Errorf("entries %q, want %q; skipped %v", paths(got.Cache), want, got.Skipped)
			}
		})
	}
	for _, n := range []int{0, 1, 2, 3, 1000, 1024, 1025} {
		if got := length(bytes.NewReader(make([]byte, n))); got != int64(n) {
			t.Errorf("length of %d bytes: %d", n, got)
		}
	}
}
