package vfio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"gpurig/core/host"
	"gpurig/runner/observe"
	"gpurig/runner/target"
)

// An entered is an agent on a fake machine: what is done with it is done there, by
// system calls of a process that sees nothing else.
type entered struct {
	host target.Sys // that it is on
	used int        // by machines that are not removed

	mu    sync.Mutex // one call at a time
	enc   *json.Encoder
	dec   *json.Decoder
	in    io.Closer
	ended chan struct{}
	err   error // how it ended
}

var _ target.Sys = (*entered)(nil)

// enter starts an agent on h.
func enter(ctx context.Context, h target.Host) (*entered, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	e := &entered{host: h.Sys, enc: json.NewEncoder(inW), dec: json.NewDecoder(outR), in: inW, ended: make(chan struct{})}
	// It serves more than the call that it is started by.
	ctx = context.WithoutCancel(ctx)
	go func() {
		e.err = h.Enter(ctx, []string{self, hidden}, inR, outW, os.Stderr)
		inR.Close()
		outW.Close() // who waits for a reply hears of it
		close(e.ended)
	}()
	if _, err := e.Lstat("/"); err != nil {
		return nil, errors.Join(err, e.leave())
	}
	return e, nil
}

// leave ends the agent and waits until the machine is gone.
func (e *entered) leave() error {
	err := e.in.Close()
	<-e.ended
	return errors.Join(err, e.err)
}

// do has the agent do one thing.
func (e *entered) do(c call) (reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var r reply
	err := e.enc.Encode(c)
	if err == nil {
		err = e.dec.Decode(&r)
	}
	if err != nil {
		select {
		case <-e.ended:
			err = errors.Join(err, e.err)
		default:
		}
		return reply{}, fmt.Errorf("the fake machine is lost: %w: %w", target.ErrBroken, err)
	}
	return r, r.Err.error()
}

// Lstat is part of host.Root, and so are the next three.
func (e *entered) Lstat(path string) (host.Info, error) {
	r, err := e.do(call{Op: "lstat", Path: path})
	if err != nil {
		return host.Info{}, err
	}
	return *r.Info, nil
}

func (e *entered) Readlink(path string) (string, error) {
	r, err := e.do(call{Op: "readlink", Path: path})
	return r.Text, err
}

func (e *entered) ReadFile(path string) ([]byte, error) {
	r, err := e.do(call{Op: "readfile", Path: path})
	return r.Data, err
}

func (e *entered) ReadDir(path string) ([]string, error) {
	r, err := e.do(call{Op: "readdir", Path: path})
	return r.Names, err
}

// Write is part of core/vfio.Sys.
func (e *entered) Write(path string, data []byte) error {
	_, err := e.do(call{Op: "write", Path: path, Data: data})
	return err
}

// Open is part of target.Sys.
func (e *entered) Open(path string) (io.Closer, error) {
	r, err := e.do(call{Op: "open", Path: path})
	if err != nil {
		return nil, err
	}
	return held{e, r.ID}, nil
}

// A held is a node that the agent has open.
type held struct {
	on *entered
	id int
}

// Close is part of io.Closer.
func (h held) Close() error {
	_, err := h.on.do(call{Op: "close", ID: h.id})
	return err
}

// LookHost has the agent look at the host: a thousand files in one call.
func (e *entered) LookHost() (observe.Host, error) {
	r, err := e.do(call{Op: "look"})
	if err != nil {
		return observe.Host{}, err
	}
	return *r.Host, nil
}
