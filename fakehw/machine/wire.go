package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A message is one line of JSON on the socket between the caller and the first
// process of the machine. Exactly one field is set, but for Warn.
type message struct {
	Setup  *setup   `json:"setup,omitempty"`  // to the machine: set yourself up, then run this
	NoDev  []string `json:"noDev,omitempty"`  // to it: these nodes must not open
	Signal int      `json:"signal,omitempty"` // to it: send the command this signal
	Ready  *ready   `json:"ready,omitempty"`  // from it, after the descriptors
	Up     bool     `json:"up,omitempty"`     // from it: set up, the command is started
	Warn   string   `json:"warn,omitempty"`   // with Up: what it lacks
	Done   bool     `json:"done,omitempty"`   // from it: NoDev is carried out
	Exit   *int     `json:"exit,omitempty"`   // from it: the command has ended
	Failed *failure `json:"failed,omitempty"` // from it: no command was run
}

// A ready says what the namespace allows.
type ready struct {
	Mknod bool `json:"mknod"` // device nodes can be made
}

// A setup is what the first process has to do. Paths of the staging area are
// relative to it.
type setup struct {
	Overlays []string `json:"overlays,omitempty"` // real directories that get files: "/usr", from "upper/usr"
	Annexes  []annex  `json:"annexes,omitempty"`
	Binds    []bind   `json:"binds,omitempty"`
	NoDev    []string `json:"noDev,omitempty"`   // nodes that must not open: the real machine has their number
	Release  string   `json:"release,omitempty"` // of the host's kernel
	Live     string   `json:"live,omitempty"`    // folder of the staging area that is /run/gpurig
	Tree     string   `json:"tree,omitempty"`    // the whole tree is mounted here, and nothing else is done
	Command  []string `json:"command"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Terminal bool     `json:"terminal,omitempty"` // the command's process group gets the terminal on its stdin
}

// An annex is a real directory that is shown with further entries, none of which
// the real directory gets.
type annex struct {
	Dir   string `json:"dir"`   // without links
	Stage string `json:"stage"` // folder of the staging area that has the entries
}

// A bind shows something of the FUSE mount in a real place.
type bind struct {
	From string `json:"from"` // below the mount: "sys"
	To   string `json:"to"`   // "/sys"
}

// A failure is an error on its way to the caller.
type failure struct {
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
	Start int    `json:"start,omitempty"` // the command could not be started: the exit code that says so
	Proc  bool   `json:"proc,omitempty"`  // there can be no process namespace: do without
}

// A wire carries messages, and descriptors beside the first byte.
type wire struct {
	f   *os.File
	in  *json.Decoder
	mu  sync.Mutex // for out
	out *json.Encoder
}

func newWire(f *os.File) *wire { return &wire{f: f, in: json.NewDecoder(f), out: json.NewEncoder(f)} }

func (w *wire) send(m message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(m)
}

func (w *wire) receive() (m message, err error) { err = w.in.Decode(&m); return m, err }

// sendFDs sends descriptors with a line break, which JSON skips. Without any, a
// message follows that says why.
func (w *wire) sendFDs(fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return w.control(func(fd int) error { return unix.Sendmsg(fd, []byte{'\n'}, rights, nil, 0) })
}

// receiveFDs is for before the first message; no descriptors and no error say
// that a message follows that tells why.
func (w *wire) receiveFDs(want int) (fds []int, err error) {
	buf, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*want))
	var cn int
	err = w.control(func(fd int) (err error) {
		_, cn, _, _, err = unix.Recvmsg(fd, buf, control, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	if cn == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%w: %d control messages, %v", ErrLost, len(messages), err)
	}
	fds, err = unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != want {
		return nil, fmt.Errorf("%w: %d descriptors, %v", ErrLost, len(fds), err)
	}
	return fds, nil
}

// control calls f with the descriptor until it does not have to wait.
func (w *wire) control(f func(fd int) error) error {
	raw, err := w.f.SyscallConn()
	if err != nil {
		return err
	}
	call := func(fd uintptr) bool {
		err = f(int(fd))
		return err != unix.EAGAIN && err != unix.EINTR
	}
	wait := raw.Write
	if len(w.f.Name()) > 0 && w.f.Name() == parentEnd {
		wait = raw.Read
	}
	if again := wait(call); again != nil {
		return again
	}
	return err
}

// Names of the two ends.
const (
	parentEnd = "machine"
	childEnd  = "caller"
)
