// Package lxdapi is a small client of LXD's REST API over its unix socket, with
// only the calls that the harness needs. Incus has the same API; flavour.go has the
// differences.
//
// It starts no daemon and makes no decisions. Error keeps what a server says
// verbatim.
//
// Reference: https://documentation.ubuntu.com/lxd/en/latest/rest-api/
package lxdapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// ErrConnection marks a request that got no answer: no socket, no permission to
// use it, or a daemon that ended meanwhile.
var ErrConnection = errors.New("no answer from the daemon")

// An Error is a refusal of the server or the failure of one of its operations.
type Error struct {
	Op     string // what was asked: "start c1"
	Status int    // HTTP status, also of an operation that failed
	Text   string // the server's own words
}

func (e *Error) Error() string { return e.Op + ": " + e.Text }

// IsNotFound reports whether the server has no such thing.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsTaken reports whether a name is in use already.
func IsTaken(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusConflict || strings.Contains(e.Text, "already exists") || strings.Contains(e.Text, "already in use"))
}

// IsStopped reports whether a container was to be stopped that does not run.
func IsStopped(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && strings.Contains(e.Text, "already stopped")
}

// isBusy reports whether another operation on the same container is under way:
// one of the daemon's own, since nobody else knows of the container.
func (c *Client) isBusy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.ContainsFunc(c.words.busy, func(s string) bool { return strings.Contains(e.Text, s) })
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == status
}

// A Client talks to one server. It is safe for use by several goroutines.
type Client struct {
	http   *http.Client
	socket string
	server Server
	words  words
	why    func() error
}

// A Server is what a daemon says of itself.
type Server struct {
	Flavour    Flavour
	Version    string   // "5.0.2"
	Driver     string   // of containers: "lxc"
	DriverVer  string   // of liblxc: "5.0.2"
	Extensions []string // of the API
	PID        int      // in the daemon's own process namespace
	Kernel     string   // release of the kernel
}

// Has reports whether the server has an extension of the API, "gpu_cdi".
func (s Server) Has(extension string) bool { return slices.Contains(s.Extensions, extension) }

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 16 << 20

// Dial connects to the daemon that listens on socket and asks who it is. The
// error wraps ErrConnection where nobody answers.
func Dial(ctx context.Context, socket string) (*Client, error) {
	c := &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 8,
	}}}
	var info struct {
		Extensions  []string `json:"api_extensions"`
		Auth        string   `json:"auth"`
		Environment struct {
			Server        string `json:"server"`
			ServerVersion string `json:"server_version"`
			ServerPID     int    `json:"server_pid"`
			Driver        string `json:"driver"`
			DriverVersion string `json:"driver_version"`
			KernelVersion string `json:"kernel_version"`
		} `json:"environment"`
	}
	if err := c.get(ctx, "server", "/1.0", &info); err != nil {
		c.Close()
		return nil, err
	}
	if info.Auth != "trusted" {
		c.Close()
		return nil, &Error{Op: "server", Status: http.StatusForbidden, Text: fmt.Sprintf("the daemon at %s does not trust us: %s", socket, info.Auth)}
	}
	e := info.Environment
	flavour, words, err := flavourOf(e.Server)
	if err != nil {
		c.Close()
		return nil, &Error{Op: "server", Text: err.Error()}
	}
	c.words = words
	c.server = Server{Flavour: flavour, Version: e.ServerVersion, PID: e.ServerPID, Extensions: info.Extensions, Kernel: e.KernelVersion}
	c.server.Driver, _, _ = strings.Cut(e.Driver, " ")
	c.server.DriverVer, _, _ = strings.Cut(e.DriverVersion, " ")
	return c, nil
}

// Server returns what the daemon said of itself when it was dialled.
func (c *Client) Server() Server { return c.server }

// Explain has why say, of a request that got no answer, what became of the daemon;
// nil: nothing is known. It must be called before the client is used by others.
func (c *Client) Explain(why func() error) { c.why = why }

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A reply is the envelope of every answer.
type reply struct {
	Type      string          `json:"type"` // "sync", "async", "error"
	Operation string          `json:"operation"`
	ErrorCode int             `json:"error_code"`
	Error     string          `json:"error"`
	Metadata  json.RawMessage `json:"metadata"`
}

// send makes one request and returns the envelope of the answer.
func (c *Client) send(ctx context.Context, op, method, path string, header map[string]string, body io.Reader) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://daemon"+path, body)
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", op, err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, c.lost(ctx, op, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return reply{}, c.lost(ctx, op, err)
	}
	r, err := parseReply(data)
	if err != nil {
		return reply{}, &Error{Op: op, Status: resp.StatusCode, Text: err.Error()}
	}
	if r.Type == "error" {
		return reply{}, &Error{Op: op, Status: r.ErrorCode, Text: r.Error}
	}
	return r, nil
}

// lost says that no answer came, or that nobody wants it any more.
func (c *Client) lost(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	if c.why != nil {
		if why := c.why(); why != nil {
			return fmt.Errorf("%s: %w: %w", op, ErrConnection, why)
		}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fmt.Errorf("%s: %w: %w", op, ErrConnection, err)
}

// parseReply reads an envelope; anything else is an error that says what it is.
func parseReply(data []byte) (reply, error) {
	var r reply
	if len(data) > maxAnswer {
		return r, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return reply{}, fmt.Errorf("an answer that is not of the REST API: %w", err)
	}
	switch r.Type {
	case "sync", "async":
		return r, nil
	case "error":
		if r.Error == "" {
			r.Error = fmt.Sprintf("an error without a text, code %d", r.ErrorCode)
		}
		return r, nil
	}
	return reply{}, fmt.Errorf("an answer of unknown type %q", r.Type)
}

func (c *Client) get(ctx context.Context, op, path string, to any) error {
	r, err := c.send(ctx, op, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Metadata, to); err != nil {
		return &Error{Op: op, Text: fmt.Sprintf("an answer that is not as documented: %v", err)}
	}
	return nil
}

// busyTime is how long we wait for the daemon's own operations, such as what
// follows the end of a container.
const busyTime = 20 * time.Second

// do sends a JSON body and waits for the operation that the server makes of it.
func (c *Client) do(ctx context.Context, op, method, path string, body any) error {
	return c.patiently(ctx, op, func() error { return c.once(ctx, op, method, path, body) })
}

// patiently asks again while the server is busy with the same container.
func (c *Client) patiently(ctx context.Context, op string, ask func() error) error {
	began := time.Now()
	for {
		err := ask()
		if !c.isBusy(err) || time.Since(began) > busyTime {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", op, context.Cause(ctx))
		}
	}
}

func (c *Client) once(ctx context.Context, op, method, path string, body any) error {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		in = bytes.NewReader(data)
	}
	r, err := c.send(ctx, op, method, path, map[string]string{"Content-Type": "application/json"}, in)
	if err != nil {
		return err
	}
	_, err = c.finish(ctx, op, r)
	return err
}

// An operation is what the server does after it has answered.
type operation struct {
	Status string         `json:"status"`
	Code   int            `json:"status_code"` // 200 done, 400 failed, 401 cancelled
	Err    string         `json:"err"`
	Meta   map[string]any `json:"metadata"`
}

// finish waits for the end of the operation of r, if r has one.
func (c *Client) finish(ctx context.Context, op string, r reply) (operation, error) {
	if r.Type != "async" {
		return operation{}, nil
	}
	path, _, _ := strings.Cut(r.Operation, "?")
	if !strings.HasPrefix(path, "/1.0/operations/") {
		return operation{}, &Error{Op: op, Text: fmt.Sprintf("an operation at %q", r.Operation)}
	}
	for {
		var o operation
		if err := c.get(ctx, op, path+"/wait?timeout=60", &o); err != nil {
			return o, err
		}
		switch {
		case o.Code == http.StatusOK:
			return o, nil
		case o.Code >= 400:
			return o, &Error{Op: op, Status: o.Code, Text: o.Err}
		}
		select { // a server that does not wait as asked is not asked all the time
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return o, fmt.Errorf("%s: %w", op, context.Cause(ctx))
		}
	}
}
