package ldcache

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// memory is a View of regular files, and of their directories.
type memory map[string]string

func (t memory) Lstat(p string) (Info, error) {
	if data, ok := t[p]; ok {
		return Info{Size: int64(len(data))}, nil
	}
	for name := range t {
		if strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") {
			return Info{Mode: fs.ModeDir}, nil
		}
	}
	return Info{}, fs.ErrNotExist
}

func (t memory) Readlink(string) (string, error)   { return "", fs.ErrInvalid }
func (t memory) ReadFile(p string) ([]byte, error) { return []byte(t[p]), nil }

func (t memory) ReadDir(p string) ([]string, error) {
	var out []string
	for name := range t {
		if path.Dir(name) == p {
			out = append(out, path.Base(name))
		}
	}
	return slices.Sorted(slices.Values(out)), nil
}

// A folder that the image has keeps its place: host-vs-image-ldconfig.
func TestAddedAndOrder(t *testing.T) {
	const own = "/etc/ld.so.conf.d/00-own.conf"
	for _, tc := range []struct {
		name         string
		v            memory
		added, order string
		unreached    int
	}{
		{"an image that has one of the two", memory{
			"/etc/ld.so.conf": "include ld.so.conf.d/*.conf\n", own: "/opt/gpu\n/usr/lib/gpu\n",
			"/etc/ld.so.conf.d/libc.conf": "/usr/local/lib\n/usr/lib/gpu\n",
		}, "/opt/gpu", "/opt/gpu /usr/lib/gpu /usr/local/lib /lib /usr/lib", 0},
		{"a configuration that does not include the drop-in", memory{"/etc/ld.so.conf": "/usr/local/lib\n", own: "/opt/gpu\n"},
			"/opt/gpu /usr/lib/gpu", "/opt/gpu /usr/lib/gpu /usr/local/lib /lib /usr/lib", 2},
		{"no configuration", memory{}, "/opt/gpu /usr/lib/gpu", "/opt/gpu /usr/lib/gpu /lib /usr/lib", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ours := []string{"/opt/gpu", "/usr/lib/gpu"}
			if got := strings.Join(Added(tc.v, own, ours), " "); got != tc.added {
				t.Errorf("Added = %s, want %s", got, tc.added)
			}
			order, unreached, _ := Order(tc.v, ours)
			if got := strings.Join(order, " "); got != tc.order || unreached != tc.unreached {
				t.Errorf("Order = %s, %d; want %s, %d", got, unreached, tc.order, tc.unreached)
			}
		})
	}
}
