package stage

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func FuzzMuslText(f *testing.F) {
	f.Add("/lib:/usr/lib\n", "/opt/gpu")
	f.Add("", "/lib")
	f.Add("\n\n::\n/a b\n", "/a")
	f.Fuzz(func(t *testing.T, was, ours string) {
		if ours == "" || strings.ContainsAny(ours, ":\n") {
			return // a hook file has no such folder
		}
		text := muslText([]byte(was), nil, []string{ours})
		got := splitMusl(string(text))
		if !slices.Contains(got, ours) {
			t.Fatalf("%q is not in %q", ours, text)
		}
		if old := splitMusl(was); !slices.Equal(got[:len(old)], old) {
			t.Fatalf("%q became %q: folders of the image are lost or moved", was, text)
		}
		if again := muslText(text, nil, []string{ours}); !bytes.Equal(again, text) {
			t.Fatalf("%q, once more, is %q", text, again)
		}
	})
}
