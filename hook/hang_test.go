package hook_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"gpurig/core/hookspec"
	"gpurig/hook"
)

// A silent directory answers no lookup of a name.
type silent struct {
	fs.Inode
	until chan struct{}
}

func (s *silent) Lookup(context.Context, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	<-s.until
	return nil, syscall.EIO
}

// F24: a root on a file system whose server took the request and never answers.
// Nothing can end a process that waits there, so another one must return.
func TestF24AFileSystemThatNeverAnswers(t *testing.T) {
	s := newStand(t)
	s.spec.Links = []hookspec.Link{{Path: "/usr/lib/x", Target: "y"}}
	s.write()
	if err := os.RemoveAll(s.root); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.root, 0o755); err != nil {
		t.Fatal(err)
	}
	until := make(chan struct{})
	server, err := fs.Mount(s.root, &silent{until: until}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, AllowOther: os.Geteuid() == 0},
		UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	if err != nil {
		skip(t, "no FUSE file system can be mounted here: %v", err)
	}
	defer func() {
		close(until) // lets the worker end
		for range 100 {
			if server.Unmount() == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("the file system cannot be unmounted")
	}()
	cmd := hookCommand(t, s.args(hook.Apply)...)
	cmd.Args[0] = asHookQuick
	var out bytes.Buffer
	cmd.Stderr = &out
	started := time.Now()
	err = cmd.Run()
	if err == nil || cmd.ProcessState.ExitCode() != hook.ExitFailed || !strings.Contains(out.String(), "not done after") || !strings.Contains(out.String(), "the last step was: ") {
		t.Errorf("%v, %q", err, out.String())
	}
	if took := time.Since(started); took > 9*time.Second {
		t.Errorf("it returned after %s", took)
	}
	if strings.Contains(out.String(), "was: none") || strings.Contains(out.String(), filepath.Join(s.root, "usr")) {
		t.Errorf("the step is not named: %q", out.String())
	}
}
