package vfio

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/runner/observe"
)

// hidden is the argument that makes this program an agent.
const hidden = "--gpurig-vfio-agent"

// Init must be called first of all in main, and in TestMain, of a program that uses
// this package. In an agent it does not return.
func Init() {
	if len(os.Args) == 2 && os.Args[1] == hidden {
		os.Exit(serve(os.Stdin, os.Stdout))
	}
}

// A call is one thing that an agent is to do, and a reply what came of it.
type call struct {
	Op   string `json:"op"`
	Path string `json:"path,omitempty"`
	Data []byte `json:"data,omitempty"`
	ID   int    `json:"id,omitempty"` // of what is open
}

type reply struct {
	Err   *failure      `json:"err,omitempty"`
	Info  *host.Info    `json:"info,omitempty"`
	Text  string        `json:"text,omitempty"`
	Data  []byte        `json:"data,omitempty"`
	Names []string      `json:"names,omitempty"`
	ID    int           `json:"id,omitempty"`
	Host  *observe.Host `json:"host,omitempty"`
}

// A failure is an error that keeps the kernel's number on its way.
type failure struct {
	Op, Path, Text string
	Errno          syscall.Errno // 0: it is none of the kernel's
}

func failed(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		f.Op, f.Path, f.Text = pe.Op, pe.Path, pe.Err.Error()
	}
	errors.As(err, &f.Errno)
	return f
}

// error is the error that failed was given, as far as that matters.
func (f *failure) error() error {
	if f == nil {
		return nil
	}
	err := errors.New(f.Text)
	if f.Errno != 0 {
		err = f.Errno
	}
	if f.Op == "" {
		return err
	}
	return &fs.PathError{Op: f.Op, Path: f.Path, Err: err}
}

// serve does what it is told until nobody tells it more.
func serve(in io.Reader, out io.Writer) int {
	root, err := osroot.New("/")
	if err != nil {
		return 1
	}
	a := hands{root: Here{root}, open: map[int]io.Closer{}}
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c call
		if err := dec.Decode(&c); err != nil {
			return 0
		}
		if err := enc.Encode(a.do(c)); err != nil {
			return 1
		}
	}
}

// hands are an agent's: the host is what it sees.
type hands struct {
	root Here
	open map[int]io.Closer
	last int
}

func (a *hands) do(c call) (r reply) {
	var err error
	switch c.Op {
	case "lstat":
		var i host.Info
		i, err = a.root.Lstat(c.Path)
		r.Info = &i
	case "readlink":
		r.Text, err = a.root.Readlink(c.Path)
	case "readfile":
		r.Data, err = a.root.ReadFile(c.Path)
	case "readdir":
		r.Names, err = a.root.ReadDir(c.Path)
	case "write":
		err = a.root.Write(c.Path, c.Data)
	case "open":
		var f io.Closer
		if f, err = a.root.Open(c.Path); err == nil {
			a.last++
			r.ID, a.open[a.last] = a.last, f
		}
	case "close":
		if f := a.open[c.ID]; f != nil {
			err = f.Close()
			delete(a.open, c.ID)
		}
	case "look":
		var h observe.Host
		h, err = observe.LookHost(a.root)
		r.Host = &h
	default:
		err = errors.New("unknown operation " + c.Op)
	}
	r.Err = failed(err)
	return r
}
