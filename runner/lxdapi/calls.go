package lxdapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A Device is one instance device: its options by name, among them "type".
type Device map[string]string

// An Instance is the part of a container's configuration that we set.
type Instance struct {
	Config  map[string]string `json:"config"`
	Devices map[string]Device `json:"devices"`
}

// A State is what a container does.
type State struct {
	Status string `json:"status"` // "Running", "Stopped", "Error"
	PID    int64  `json:"pid"`    // of its first process, in the daemon's process namespace
}

// CreatePool makes a storage pool of driver "dir". source is an empty folder, as
// the daemon sees it.
func (c *Client) CreatePool(ctx context.Context, name, source string) error {
	return c.do(ctx, "create storage pool "+name, http.MethodPost, "/1.0/storage-pools", map[string]any{
		"name": name, "driver": "dir", "config": map[string]string{"source": source},
	})
}

// DeletePool removes a storage pool. None is as good.
func (c *Client) DeletePool(ctx context.Context, name string) error {
	return absent(c.do(ctx, "delete storage pool "+name, http.MethodDelete, "/1.0/storage-pools/"+url.PathEscape(name), nil))
}

// Pools lists the names of storage pools.
func (c *Client) Pools(ctx context.Context) ([]string, error) {
	return c.list(ctx, "/1.0/storage-pools")
}

// ImportImage imports a unified image, a tar file, under an alias.
func (c *Client) ImportImage(ctx context.Context, alias string, tar io.Reader) error {
	op := "import image " + alias
	r, err := c.send(ctx, op, http.MethodPost, "/1.0/images", map[string]string{
		"Content-Type": "application/octet-stream", c.words.header + "public": "false", c.words.header + "filename": alias + ".tar",
	}, tar)
	if err != nil {
		return err
	}
	o, err := c.finish(ctx, op, r)
	if err != nil {
		return err
	}
	print, _ := o.Meta["fingerprint"].(string)
	if print == "" {
		return &Error{Op: op, Text: "the server named no fingerprint"}
	}
	return c.do(ctx, op, http.MethodPost, "/1.0/images/aliases", map[string]any{"name": alias, "target": print})
}

// Aliases lists the aliases of images.
func (c *Client) Aliases(ctx context.Context) ([]string, error) {
	return c.list(ctx, "/1.0/images/aliases")
}

// DeleteImage removes the image of an alias. None is as good.
func (c *Client) DeleteImage(ctx context.Context, alias string) error {
	var a struct {
		Target string `json:"target"`
	}
	op := "delete image " + alias
	if err := c.get(ctx, op, "/1.0/images/aliases/"+url.PathEscape(alias), &a); err != nil {
		return absent(err)
	}
	return absent(c.do(ctx, op, http.MethodDelete, "/1.0/images/"+url.PathEscape(a.Target), nil))
}

// Create makes a container of the image with that alias; it has no profile.
func (c *Client) Create(ctx context.Context, name, alias string, i Instance) error {
	return c.do(ctx, "create "+name, http.MethodPost, "/1.0/instances", map[string]any{
		"name": name, "type": "container", "profiles": []string{}, "config": i.Config, "devices": i.Devices,
		"source": map[string]any{"type": "image", "alias": alias},
	})
}

// Update replaces a container's configuration, also while it runs: devices are
// plugged and unplugged then.
func (c *Client) Update(ctx context.Context, name string, i Instance) error {
	var now struct {
		Architecture string            `json:"architecture"`
		Config       map[string]string `json:"config"`
	}
	op := "update " + name
	if err := c.get(ctx, op, instance(name), &now); err != nil {
		return err
	}
	config := map[string]string{}
	for k, v := range now.Config { // what the server keeps for itself is not ours to drop
		if strings.HasPrefix(k, "volatile.") || strings.HasPrefix(k, "image.") {
			config[k] = v
		}
	}
	for k, v := range i.Config {
		config[k] = v
	}
	return c.do(ctx, op, http.MethodPut, instance(name), map[string]any{
		"architecture": now.Architecture, "profiles": []string{}, "config": config, "devices": i.Devices,
	})
}

// Start starts a container.
func (c *Client) Start(ctx context.Context, name string) error {
	return c.do(ctx, "start "+name, http.MethodPut, instance(name)+"/state", map[string]any{"action": "start", "timeout": -1})
}

// Stop stops a container in good order within seconds, or by force.
func (c *Client) Stop(ctx context.Context, name string, seconds int, force bool) error {
	return c.do(ctx, "stop "+name, http.MethodPut, instance(name)+"/state", map[string]any{"action": "stop", "timeout": seconds, "force": force})
}

// Exec runs a program in a running container to its end, with standard streams
// that lead nowhere.
func (c *Client) Exec(ctx context.Context, name string, command ...string) error {
	op := "exec in " + name
	data, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	r, err := c.send(ctx, op, http.MethodPost, instance(name)+"/exec", map[string]string{"Content-Type": "application/json"}, bytes.NewReader(data))
	if err != nil {
		return err
	}
	done, err := c.finish(ctx, op, r)
	if err != nil {
		return err
	}
	if code, ok := done.Meta["return"].(float64); !ok || code != 0 {
		return &Error{Op: op, Text: fmt.Sprintf("%s: exit code %v", command[0], done.Meta["return"])}
	}
	return nil
}

// State returns what a container does.
func (c *Client) State(ctx context.Context, name string) (State, error) {
	var s State
	op := "state of " + name
	err := c.patiently(ctx, op, func() error { return c.get(ctx, op, instance(name)+"/state", &s) })
	return s, err
}

// Delete removes a container that does not run. None is as good.
func (c *Client) Delete(ctx context.Context, name string) error {
	return absent(c.do(ctx, "delete "+name, http.MethodDelete, instance(name), nil))
}

// Instances lists the names of all containers.
func (c *Client) Instances(ctx context.Context) ([]string, error) {
	return c.list(ctx, "/1.0/instances")
}

// Log returns one of a container's log files, "lxc.log" or "lxc.conf".
func (c *Client) Log(ctx context.Context, name, file string) (string, error) {
	op := fmt.Sprintf("log %s of %s", file, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon"+instance(name)+"/logs/"+url.PathEscape(file), nil)
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", c.lost(ctx, op, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", c.lost(ctx, op, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", &Error{Op: op, Status: resp.StatusCode, Text: strings.TrimSpace(string(data))}
	}
	return string(data), nil
}

func instance(name string) string { return "/1.0/instances/" + url.PathEscape(name) }

// absent takes "not found" for success.
func absent(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// list returns the names at the end of the addresses that the server lists.
func (c *Client) list(ctx context.Context, path string) ([]string, error) {
	var at []string
	if err := c.get(ctx, "list "+path, path, &at); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(at))
	for _, a := range at {
		a, _, _ = strings.Cut(a, "?")
		name, err := url.PathUnescape(a[strings.LastIndexByte(a, '/')+1:])
		if err != nil {
			return nil, &Error{Op: "list " + path, Text: err.Error()}
		}
		out = append(out, name)
	}
	return out, nil
}
