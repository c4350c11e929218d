package hook_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// B34: a link's name may have all of the 255 bytes that the kernel gives it: the
// temporary that becomes it has a name of its own length. The same of a mount
// point.
func TestLongNamesB34(t *testing.T) {
	each(t, func(t *testing.T, walk bool) {
		s := newStand(t)
		s.walk = walk
		for _, n := range []int{229, 230, 231, 255} {
			s.spec.Links = append(s.spec.Links, hookspec.Link{Path: "/opt/" + strings.Repeat("l", n), Target: strings.Repeat("t", n)})
			s.spec.MountPoints = append(s.spec.MountPoints, hookspec.MountPoint{Path: "/opt/" + strings.Repeat("m", n)})
		}
		before := s.tree()
		for range 2 {
			s.run(hook.Prepare, hook.Apply)
			for _, l := range s.spec.Links {
				if text, err := os.Readlink(s.path(l.Path)); err != nil || text != l.Target {
					t.Errorf("%d bytes: %q, %v", len(l.Path)-5, text, err)
				}
			}
		}
		// Another text: the link is replaced, by way of the temporary.
		for i := range s.spec.Links {
			s.spec.Links[i].Target = "new"
		}
		s.run(hook.Prepare, hook.Apply)
		for _, l := range s.spec.Links {
			if text, err := os.Readlink(s.path(l.Path)); err != nil || text != "new" {
				t.Errorf("%d bytes, again: %q, %v", len(l.Path)-5, text, err)
			}
		}
		s.run(hook.Finish, hook.Clean)
		if got := s.tree(); got != before {
			t.Errorf("taken back:\n%s", differing(before, got))
		}
		s.canary()
	})
}

// B34: of 10,001 links none is made, and the file is refused by its field.
func TestTooManyLinksB34(t *testing.T) {
	s := newStand(t)
	for i := range hookspec.MaxEntries {
		s.spec.Links = append(s.spec.Links, hookspec.Link{Path: fmt.Sprintf("/opt/%d", i), Target: "x"})
	}
	s.write()
	data, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	one := `{"path":"/opt/more","target":"x"},`
	text := strings.Replace(string(data), `"links": [`, `"links": [`+one, 1)
	if text == string(data) {
		t.Fatal("no place for one more link")
	}
	if err := os.WriteFile(s.file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	before := s.tree()
	_, err = s.try(hook.Apply)
	if err == nil || !strings.Contains(err.Error(), "more than 10000 entries") {
		t.Errorf("10,001 links: %v", err)
	}
	if s.tree() != before {
		t.Error("some of them were made")
	}
	s.canary()
}
