package mntns_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gpurig/fakehw/mntns"
)

func TestTheFakeMachineIsTheRootDirectory(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		s := session(t, opts)
		for _, name := range []string{"first", "second"} { // one child, two trees
			got := do(t, s, "look", name+" 2")
			for _, want := range []string{
				"wd /\n",
				"\n/etc/name -rw-r----- 0:0 0:0 " + fmt.Sprintf("%q", name),
				"\n/lib Lrwxrwxrwx ",
				"\n/dev/nvidia0 Dcrw-rw-rw- 0:0 195:0\n",
				"\n/dev/nvidia-caps/nvidia-cap300 Dcr--r--r-- 0:0 236:300\n",
				"\n/dev/dri/card0 Dcrw-rw---- 0:",
				"\n/run/nvidia-persistenced/socket Srw-rw-rw- ",
				"\n/sys/bus/pci/devices/01/1 -r--r--r-- ",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: want %q in\n%s", name, want, got)
				}
			}
			if lines := strings.Count(got, "\n/"); lines > 30 {
				t.Errorf("%s: %d paths: more than the fake machine has\n%s", name, lines, got)
			}
			// A foreign group is true or reported, never just wrong.
			if !strings.Contains(got, "/dev/dri/card0 Dcrw-rw---- 0:44 ") &&
				!strings.Contains(got, "missing /dev/dri/card0: owner 0:44: ") {
				t.Errorf("%s: the group of /dev/dri/card0 is wrong and not reported\n%s", name, got)
			}
		}
	})
}

func TestA41NothingIsSeenOutside(t *testing.T) {
	both(t, func(t *testing.T, opts mntns.Options) {
		before := mountTable(t)
		s := session(t, opts)
		do(t, s, "look", "name 0")
		if during := mountTable(t); before != during {
			t.Errorf("the mount table changed from\n%s to\n%s", before, during)
		}
	})
}

func TestRefusalsReachTheCaller(t *testing.T) {
	s := session(t, mntns.Options{})
	_, err := s.Do(t.Context(), "refuse", []byte("name 0"))
	e, ok := errors.AsType[*mntns.Error](err)
	if !ok || !errors.Is(err, mntns.ErrRemote) || e.Hint != "try tomorrow" || !strings.Contains(err.Error(), "refuse: ") {
		t.Errorf("a refusing Run: %#v (%v)", err, err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("nonsense")); !errors.Is(err, mntns.ErrRemote) {
		t.Errorf("a refusing Build: %v; want ErrRemote", err)
	}
	if _, err := s.Do(t.Context(), "nobody", nil); !errors.Is(err, mntns.ErrUnknownKind) {
		t.Errorf("an unknown kind: %v; want ErrUnknownKind", err)
	}
	if got := do(t, s, "look", "after 0"); !strings.Contains(got, `"after"`) {
		t.Errorf("after refusals the child sees\n%s", got)
	}
}

func TestSessionServesManyCallers(t *testing.T) {
	s := session(t, mntns.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("caller%d", i)
			reply, err := s.Do(t.Context(), "look", []byte(name+" 0"))
			if err != nil || !strings.Contains(string(reply), name) {
				t.Errorf("%s: %v\n%s", name, err, reply)
			}
		})
	}
	all.Wait()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Do(t.Context(), "look", []byte("name 0")); !errors.Is(err, mntns.ErrClosed) {
		t.Errorf("after Close: %v; want ErrClosed", err)
	}
}

func TestAbleAgreesWithTrying(t *testing.T) {
	able := mntns.Able()
	_, err := mntns.Once(t.Context(), "look", []byte("name 0"))
	if (able == nil) != (err == nil) {
		t.Errorf("Able() = %v, but Once: %v", able, err)
	}
	if able != nil {
		e, ok := errors.AsType[*mntns.Error](able)
		if !ok || !errors.Is(able, mntns.ErrUnable) || e.Hint == "" || strings.Contains(able.Error(), "\n") {
			t.Errorf("Able() = %#v; want one line with a hint", able)
		}
	}
}

func BenchmarkOnce700Entries(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mntns.Once(b.Context(), "refuse", []byte("name 700")); !errors.Is(err, mntns.ErrRemote) {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest700Entries(b *testing.B) {
	s := mntns.NewSession(mntns.Options{})
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Do(b.Context(), "refuse", []byte("name 700")); !errors.Is(err, mntns.ErrRemote) {
			b.Fatal(err)
		}
	}
}
