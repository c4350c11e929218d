package cudalib_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"testing"
)

// A runner is a child process that runs kernels, one after the other.
type runner struct {
	t    testing.TB
	m    machine
	what *exec.Cmd // never started: a copy is
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.Reader
	err  bytes.Buffer
}

// A kernel is what a runner is asked to run. Buffers come back changed.
type kernel struct {
	text, name  string
	grid, block [3]uint32
	dynamic     uint32
	params      []any // []byte: a buffer on the device; anything else: a value
}

// codes are what load, finding the kernel, launch and synchronisation returned.
type codes [4]uint32

func newRunner(t testing.TB, m machine, env ...string) *runner {
	t.Helper()
	r := &runner{t: t, m: m, what: m.command(t, env, "runner")}
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if said, err := r.stop(); err != nil {
			t.Errorf("the runner ended: %v: %s", err, said)
		}
	})
	return r
}

func (r *runner) start() error {
	r.err.Reset()
	r.cmd = &exec.Cmd{Path: r.what.Path, Args: r.what.Args, Env: r.what.Env, Stderr: &r.err}
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.in, r.out = in, out
	return r.cmd.Start()
}

// stop ends the child and returns what it said and how it ended.
func (r *runner) stop() (string, error) {
	r.in.Close()
	err := r.cmd.Wait()
	return r.err.String(), err
}

func (k kernel) request() []byte {
	var b bytes.Buffer
	number := func(v int) { b.Write(binary.LittleEndian.AppendUint32(nil, uint32(v))) }
	piece := func(data []byte) { number(len(data)); b.Write(data) }
	piece([]byte(k.text))
	piece([]byte(k.name))
	for _, v := range k.grid {
		number(int(max(v, 1)))
	}
	for _, v := range k.block {
		number(int(max(v, 1)))
	}
	number(int(k.dynamic))
	number(len(k.params))
	for _, p := range k.params {
		if data, ok := p.([]byte); ok {
			number(1)
			piece(data)
			continue
		}
		var v bytes.Buffer
		if err := binary.Write(&v, binary.LittleEndian, p); err != nil {
			panic(fmt.Sprintf("parameter %T: %v", p, err))
		}
		number(0)
		piece(v.Bytes())
	}
	return b.Bytes()
}

// try runs a kernel and returns the codes, and whether the runner still lives.
func (r *runner) try(k kernel) (c codes, alive bool) {
	if _, err := r.in.Write(k.request()); err != nil {
		return c, false
	}
	if err := binary.Read(r.out, binary.LittleEndian, &c); err != nil {
		return c, false
	}
	if k.name == "" || c != (codes{}) {
		return c, true
	}
	for _, p := range k.params {
		if data, ok := p.([]byte); ok {
			if _, err := io.ReadFull(r.out, data); err != nil {
				return c, false
			}
		}
	}
	return c, true
}

// run is try that must go well.
func (r *runner) run(k kernel) {
	r.t.Helper()
	if c, alive := r.try(k); c != (codes{}) || !alive {
		r.t.Fatalf("kernel %s: codes %v, alive %v\n%s\n%s", k.name, c, alive, r.m.log(r.t), k.text)
	}
}
