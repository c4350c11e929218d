package hookspec_test

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"testing"

	"gpurig/core/hookspec"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"container":"c1","owner":{"uid":0,"gid":0},"links":[{"path":"/usr/lib/l","target":"x"}],"libraryDirs":["/usr/lib"],"modes":[{"path":"/dev/dri","mode":493}]}`,
		`{"version":1,"container":"c1","owner":{},"mountPoints":[{"path":"/a","dir":true}],"spec":"` + strings.Repeat("0", 64) + `"}`,
		`{"version":2}`, `{"version":1,"container":"c1","owner":{},"links":[{"path":"../x","target":"/y"}]}`, `null`, `[]`, ``, `{"version":1}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := hookspec.Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*hookspec.ParseError](err); !ok || file.Version != 0 {
				t.Fatalf("%+v along with %v", file, err)
			}
			return
		}
		for _, l := range file.Links {
			if path.Clean(l.Path) != l.Path || l.Path[0] != '/' || l.Target[0] == '/' {
				t.Fatalf("link %+v", l)
			}
		}
		for _, m := range file.Modes {
			if !strings.HasPrefix(m.Path, "/dev/") || m.Mode&^0o777 != 0 {
				t.Fatalf("mode %+v", m)
			}
		}
		text, err := file.Marshal()
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", file, err)
		}
		again, err := hookspec.Parse(text)
		if err != nil {
			t.Fatalf("%s was written and cannot be read: %v", text, err)
		}
		if other, err := again.Marshal(); err != nil || !bytes.Equal(other, text) {
			t.Fatalf("%s became %s, %v", text, other, err)
		}
	})
}
