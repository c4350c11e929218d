// Package reach is how a user reaches the fake machines that run: from another
// terminal, to see what is broken on them and to break or heal more.
//
// Each machine listens on a socket in a folder that only its user can enter, and
// answers nobody else but root. A request and its reply are one line of JSON
// each. What a change does to the machine is package live's affair.
package reach

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpurig/fakehw/fault"
	"gpurig/fakehw/live"
)

// A Machine is one that runs.
type Machine struct {
	PID    int        `json:"pid"`  // of the process that serves it, as whoever asks knows it; 0: it has none there
	Host   string     `json:"host"` // the profile's or recording's name
	Faults fault.List `json:"faults"`
	Silent bool       `json:"silent,omitempty"` // it does not answer, and nothing else is known of it

	socket string
}

// A Request changes the faults of a machine: first Heal, then Add, or nothing at
// all where one of them cannot be.
type Request struct {
	Heal fault.List `json:"heal,omitempty"`
	Add  fault.List `json:"add,omitempty"`
}

type reply struct {
	Machine
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Errors of Find and Ask.
var (
	ErrNone    = errors.New("no such fake machine runs")
	ErrSeveral = errors.New("several fake machines are of this host")
	ErrSilent  = errors.New("does not answer: its process is stopped, or has no time")
)

// A Refusal is what a machine says of a request that it does not carry out.
type Refusal struct{ Text, Hint string }

func (r *Refusal) Error() string { return r.Text }

const (
	maxLine  = 1 << 20
	patience = 3 * time.Second // for one exchange
)

// Dir is the folder of this user's machines: gpurig in XDG_RUNTIME_DIR, else
// gpurig-UID in the folder of temporary files. It is the same inside a machine, also
// in the user namespace of one, where the user is root.
func Dir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "gpurig")
	}
	text, _ := os.ReadFile("/proc/self/uid_map") // without it, no user has another id outside
	return filepath.Join(os.TempDir(), fmt.Sprintf("gpurig-%d", outside(uint64(os.Geteuid()), string(text))))
}

// outside returns what a user is called in the namespace above, by uid_map
// (user_namespaces(7)).
func outside(uid uint64, uidMap string) uint64 {
	for line := range strings.Lines(uidMap) {
		var in, out, size uint64
		if _, err := fmt.Sscan(line, &in, &out, &size); err == nil && uid >= in && uid-in < size {
			return out + uid - in
		}
	}
	return uid
}

// ours makes sure that dir is a folder of ours that nobody else can enter.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of this user that is closed to others: %w", dir, fs.ErrPermission)
	}
	return nil
}

// Serve lets h be reached as a machine of the host called name until stop is
// called, which takes the socket away.
func Serve(dir, name string, h *live.Host) (stop func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketName())
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	go sweep(dir)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // closed
			}
			all.Go(func() {
				defer c.Close()
				if mayAsk(c) {
					serve(c, name, h)
				}
			})
		}
	})
	return func() {
		_ = os.Remove(path) // before nobody answers there
		l.Close()
		all.Wait()
		_ = os.Remove(dir) // if it was the last
	}, nil
}

// mayAsk reports whether the caller is our user or root.
func mayAsk(c *net.UnixConn) bool {
	cred := peer(c)
	return cred != nil && (cred.Uid == 0 || int(cred.Uid) == os.Geteuid())
}

func serve(c net.Conn, name string, h *live.Host) {
	_ = c.SetDeadline(time.Now().Add(patience))
	line, err := readLine(c)
	if err != nil {
		return
	}
	out := reply{Machine: Machine{Host: name}}
	if err := handle(line, h); err != nil {
		out.Error = err.Error()
		if f, ok := errors.AsType[*fault.Error](err); ok {
			out.Hint = f.Hint
		}
	}
	out.Faults = h.Faults()
	_ = c.SetDeadline(time.Now().Add(patience))
	_ = json.NewEncoder(c).Encode(out) // who does not wait for it has no use for it
}

func handle(line []byte, h *live.Host) error {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if len(r.Heal) == 0 && len(r.Add) == 0 {
		return nil
	}
	return h.ChangeFaults(func(now fault.List) (fault.List, error) {
		var err error
		for _, f := range r.Heal {
			if now, err = now.Without(f); err != nil {
				return nil, err
			}
		}
		for _, f := range r.Add {
			if now, err = now.With(f); err != nil {
				return nil, err
			}
		}
		return now, nil
	})
}

func readLine(c net.Conn) ([]byte, error) {
	s := bufio.NewScanner(c)
	s.Buffer(nil, maxLine)
	if !s.Scan() {
		return nil, cmp.Or(s.Err(), io.ErrUnexpectedEOF)
	}
	return s.Bytes(), nil
}

// List returns the machines that run, by process id. What lies in the folder and
// answers no more is taken away.
func List(ctx context.Context, dir string) ([]Machine, error) {
	names, err := sockets(dir)
	if err != nil {
		return nil, err
	}
	var out []Machine
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			m, err := exchange(ctx, dir, name, Request{})
			switch {
			case dead(err):
				_ = os.Remove(filepath.Join(dir, name))
				return
			case err != nil:
				m.Silent = true
			}
			mu.Lock()
			out = append(out, m)
			mu.Unlock()
		})
	}
	all.Wait()
	slices.SortFunc(out, func(a, b Machine) int { return cmp.Or(a.PID-b.PID, strings.Compare(a.socket, b.socket)) })
	return out, nil
}

// Find returns the machine of that process id, or the only one of that host.
func Find(ctx context.Context, dir, name string) (Machine, error) {
	all, err := List(ctx, dir)
	if err != nil {
		return Machine{}, err
	}
	var found []Machine
	var silent []string
	for _, m := range all {
		switch id := strconv.Itoa(m.PID); {
		case m.Silent && id == name:
			return Machine{}, fmt.Errorf("fake machine %s %w", name, ErrSilent)
		case m.Silent:
			silent = append(silent, id)
		case m.Host == name || id == name:
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Machine{}, fmt.Errorf("%s: %w", name, ErrSeveral)
	case len(silent) > 0:
		return Machine{}, fmt.Errorf("%s: no fake machine that answers is of this name, and %s %w", name, strings.Join(silent, ", "), ErrSilent)
	}
	return Machine{}, fmt.Errorf("%s: %w", name, ErrNone)
}

// Ask sends a request to a machine that List or Find returned, and returns what it
// is then. The error is a *Refusal where the machine says no.
func Ask(ctx context.Context, dir string, m Machine, r Request) (Machine, error) {
	now, err := exchange(ctx, dir, m.socket, r)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		err = ErrSilent
	}
	if _, refused := errors.AsType[*Refusal](err); err != nil && !refused {
		err = fmt.Errorf("fake machine %d %w", m.PID, err)
	}
	return now, err
}

// exchange is one request and its reply. What is known of a machine that does not
// answer is its process.
func exchange(ctx context.Context, dir, socket string, r Request) (Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m := Machine{socket: socket}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(dir, socket))
	if err != nil {
		return m, err
	}
	defer c.Close()
	m.PID = listener(c)
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return m, err
	}
	line, err := readLine(c)
	if err != nil {
		return m, err
	}
	var out reply
	if err := json.Unmarshal(line, &out); err != nil {
		return m, err
	}
	m.Host, m.Faults = out.Host, out.Faults
	if out.Error != "" {
		return m, &Refusal{out.Error, out.Hint}
	}
	return m, nil
}
