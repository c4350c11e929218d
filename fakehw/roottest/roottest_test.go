package roottest_test

import (
	"errors"
	"runtime"
	"testing"

	"gpurig/core/host"
	"gpurig/fakehw/roottest"
	"gpurig/fakehw/tree"
)

func TestTreeInMemory(t *testing.T) {
	roottest.Test(t, func(_ testing.TB, fake *tree.Tree) host.Root { return fake })
}

// A check that passes whatever the surface answers checks nothing.
func TestEveryCheckCanFail(t *testing.T) {
	for name, check := range roottest.Checks {
		t.Run(name, func(t *testing.T) {
			for _, wrong := range []host.Root{yes{}, no{}} {
				rec := &recorder{TB: t}
				done := make(chan struct{})
				go func() { // Fatal ends the goroutine
					defer close(done)
					check.Look(rec, wrong)
				}()
				<-done
				if rec.failed {
					return
				}
			}
			t.Error("it passes against roots that answer nonsense")
		})
	}
}

type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatal(...any) {
	r.failed = true
	runtime.Goexit()
}

// yes finds an empty thing everywhere, no finds nothing anywhere.
type (
	yes struct{}
	no  struct{}
)

var errNo = errors.New("no")

func (yes) Lstat(string) (host.Info, error)  { return host.Info{}, nil }
func (yes) Readlink(string) (string, error)  { return "", nil }
func (yes) ReadFile(string) ([]byte, error)  { return []byte{}, nil }
func (yes) ReadDir(string) ([]string, error) { return nil, nil }
func (no) Lstat(string) (host.Info, error)   { return host.Info{}, errNo }
func (no) Readlink(string) (string, error)   { return "", errNo }
func (no) ReadFile(string) ([]byte, error)   { return nil, errNo }
func (no) ReadDir(string) ([]string, error)  { return nil, errNo }
