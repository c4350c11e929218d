// Package ctlsocket lets a user reach running fake machines from another terminal, to
// list and change what is broken on them.
//
// Each machine listens on a socket in the abstract name space (unix(7)), which has no
// file: nothing is left of it when its process ends, however that ends (F28, F29).
// It answers its user and root, and only sockets of that user are taken for
// machines. It is not visible in other network namespaces. A request and its
// reply are one line of JSON each. Package live carries out the changes.
package ctlsocket

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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

// errForeign is said of a socket that somebody else listens on.
var errForeign = errors.New("not of this user")

// A Refusal is what a machine says of a request that it does not carry out.
type Refusal struct{ Text, Hint string }

func (r *Refusal) Error() string { return r.Text }

const (
	maxLine  = 1 << 20
	patience = 3 * time.Second // for one exchange
)

// User names this user, whose machines are listed: by its id, and by its folder of
// temporary files, so that who sets TMPDIR has machines apart. It is the same inside
// a machine, also in the user namespace of one, where the user is root.
func User() string {
	text, _ := os.ReadFile("/proc/self/uid_map") // without it, no user has another id outside
	folder := sha256.Sum256([]byte(os.TempDir()))
	return fmt.Sprintf("%d-%x", outside(uint64(os.Geteuid()), string(text)), folder[:4])
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

// Serve lets h be reached as a machine of the user and of the host called name until
// stop is called.
func Serve(user, name string, h *live.Host) (stop func(), err error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: prefix(user) + rand.Text()})
	if err != nil {
		return nil, err
	}
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
		l.Close()
		all.Wait()
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

// List returns the user's machines that run, by process id.
func List(ctx context.Context, user string) ([]Machine, error) {
	names, err := sockets(user)
	if err != nil {
		return nil, err
	}
	var out []Machine
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			m, err := exchange(ctx, name, Request{})
			if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, errForeign) {
				return // it has ended meanwhile, or is none
			}
			m.Silent = err != nil
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
func Find(ctx context.Context, user, name string) (Machine, error) {
	all, err := List(ctx, user)
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
func Ask(ctx context.Context, m Machine, r Request) (Machine, error) {
	now, err := exchange(ctx, m.socket, r)
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
func exchange(ctx context.Context, socket string, r Request) (Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m := Machine{socket: socket}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return m, err
	}
	defer c.Close()
	cred := peer(c)
	if cred == nil || int(cred.Uid) != os.Geteuid() {
		return m, errForeign
	}
	m.PID = int(cred.Pid)
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
