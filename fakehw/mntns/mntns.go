// Package mntns runs a function of this program in a child process whose root
// directory is a fake machine, so that code which opens "/sys", "/dev" and
// "/etc/ld.so.cache" by those names sees the fake ones.
//
// There are three steps. A package registers its requests in an init function or a
// variable; main (and each TestMain) calls Init first; and a Session sends
// requests:
//
//	mntns.Register("generate", mntns.Handler{
//		Build: func(request []byte) (*tree.Tree, error) { … }, // the fake machine
//		Run:   func(ctx context.Context, v mntns.View, request []byte) ([]byte, error) { … },
//	})
//
//	func main() { mntns.Init(); … }
//
//	s := mntns.NewSession(mntns.Options{})
//	defer s.Close()
//	reply, err := s.Do(ctx, "generate", request)
//
// The child is this program, started again (/proc/self/exe). It serves
// any number of requests, one at a time, each for its own tree. Build makes
// the tree from the request in the child, so that little data crosses the pipe; the
// tree is written to a tmpfs, the child changes its root directory to it, and Run
// sees it as "/". The child keeps its last eight trees: if Build
// returns the same *tree.Tree as before, it is not written again.
//
// The child has a mount namespace of its own, whose propagation is checked to be
// private before the first mount. For root that is enough; otherwise it has a user
// namespace too, in which it is root and the only known user: other owners show as
// 65534, and device nodes come from a FUSE mount of the tree's device directories.
// All other files are on tmpfs in both cases. View.Missing lists where the
// fake machine differs from the tree. The mounts disappear when the child ends,
// and the child ends with its parent, however that ends.
//
// Able says whether this machine can do it. Reading the tree's files through a
// host.Root needs none of this.
package mntns

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gpurig/fakehw/disk"
	"gpurig/fakehw/tree"
)

// A Handler answers one kind of request, in the child.
type Handler struct {
	// Build makes the fake machine, before the root directory is changed: it
	// sees the real machine's files.
	Build func(request []byte) (*tree.Tree, error)
	// Run does the work on the fake machine. Its working directory is "/". The
	// context ends with the child.
	Run func(ctx context.Context, v View, request []byte) ([]byte, error)
}

// A View is what Run may know of the fake machine besides its files.
type View struct {
	Tree *tree.Tree
	// Missing lists what of Tree the files do not have: as a rule only owners
	// that the child's user namespace does not know, which show as Overflow.
	// Whoever reports owners from the files must put Tree's in their place.
	Missing []disk.Missing
}

// Overflow is the owner that the kernel shows for one it cannot express
// (/proc/sys/kernel/overflowuid).
const Overflow = 65534

// Sentinels; all errors of this package wrap one of them or the context's.
var (
	ErrNotInit     = errors.New("mntns.Init was not called at the start of main")
	ErrUnknownKind = errors.New("no such kind of request is registered")
	ErrUnable      = errors.New("this machine does not allow a fake root directory")
	ErrLost        = errors.New("the child process was lost")
	ErrClosed      = errors.New("the session is closed")
	ErrRemote      = errors.New("refused in the child process")
)

// An Error says why a request has no reply.
type Error struct {
	Kind string // of the request; empty when the child did not start
	Err  error
	Hint string // what the user can do, one sentence
}

func (e *Error) Error() string {
	if e.Kind == "" {
		return fmt.Sprintf("fake root directory: %v", e.Err)
	}
	return fmt.Sprintf("fake root directory: %s: %v", e.Kind, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A remoteError is the text of an error that happened in the child.
type remoteError struct{ text string }

func (e remoteError) Error() string        { return e.text }
func (e remoteError) Is(target error) bool { return target == ErrRemote }

var registry struct {
	sync.Mutex
	handlers map[string]Handler
	ready    bool
}

// Register adds a kind of request. Call it before Init, in every run of the
// program. A kind that is taken, or a half-empty handler, is a programming
// error: Register panics.
func Register(kind string, h Handler) {
	registry.Lock()
	defer registry.Unlock()
	if h.Build == nil || h.Run == nil || kind == "" {
		panic(fmt.Sprintf("mntns: handler %q is incomplete", kind))
	}
	if _, ok := registry.handlers[kind]; ok {
		panic(fmt.Sprintf("mntns: handler %q is registered twice", kind))
	}
	if registry.handlers == nil {
		registry.handlers = map[string]Handler{}
	}
	registry.handlers[kind] = h
}

func handler(kind string) (Handler, bool) {
	registry.Lock()
	defer registry.Unlock()
	h, ok := registry.handlers[kind]
	return h, ok
}
