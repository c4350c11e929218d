package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// docker is a private engine of the dockerd and containerd on the path.
type docker struct {
	dir, program string
	cmd          *exec.Cmd
	client       *http.Client
	ended        chan error
	log          *os.File
}

// startTime is how long an engine may take to answer, readTime to read a Spec.
const (
	startTime = 60 * time.Second
	readTime  = 2 * time.Second
)

// Docker starts it, or returns a *Missing.
func Docker(ctx context.Context) (_ Consumer, err error) {
	at, err := program("docker", "dockerd", "apt-get install docker.io")
	if err != nil {
		return nil, err
	}
	d := &docker{program: at, ended: make(chan error, 1)}
	if d.dir, err = os.MkdirTemp("", "gpurig-conformance-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	runtime, err := stub(d.dir)
	if err == nil {
		err = errors.Join(os.Mkdir(d.dir+"/cdi", 0o755), os.WriteFile(d.dir+"/config", fmt.Appendf(nil,
			`{"runtimes": {"stub": {"path": %q}}, "features": {"cdi": true}, "cdi-spec-dirs": [%q], "deprecated-key-path": %q}`, runtime, d.dir+"/cdi", d.dir+"/key"), 0o600))
	}
	if err == nil {
		d.log, err = os.Create(d.dir + "/log")
	}
	if err != nil {
		return nil, err
	}
	// containerd's shims have their sockets in /run/containerd, which no option moves.
	d.cmd = exec.Command("unshare", "--mount", "--propagation", "private", "--mount-proc",
		"sh", "-c", `{ mkdir -p /run/containerd && mount -t tmpfs gpurig /run/containerd; } && "$0" "$@"; exit $?`,
		d.program, "--config-file", d.dir+"/config", "--host", "unix://"+d.socket(), "--data-root", d.dir+"/data", "--exec-root", d.dir+"/exec",
		"--pidfile", d.dir+"/pid", "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "vfs", "--exec-opt", "native.cgroupdriver=cgroupfs")
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { d.ended <- d.cmd.Wait() }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}
	d.client = &http.Client{Transport: &http.Transport{DialContext: dial}}
	for end := time.Now().Add(startTime); ; time.Sleep(50 * time.Millisecond) {
		if _, err = d.ask(ctx, "GET", "/_ping", nil); err == nil {
			break
		}
		select {
		case werr := <-d.ended:
			d.ended <- werr
			text, _ := os.ReadFile(d.dir + "/log")
			return nil, fmt.Errorf("dockerd ended: %v: %s", werr, text)
		default:
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("dockerd does not answer after %s: %w", startTime, err)
		}
	}
	_, err = d.ask(ctx, "POST", "/images/create?fromSrc=-&repo=conformance&tag=latest", image())
	return d, err
}

func (d *docker) socket() string { return d.dir + "/s" }

// image is an empty root with one file.
func image() io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "true", Mode: 0o755, Typeflag: tar.TypeReg}) // to memory
	_ = w.Close()
	return &b
}

// ask returns the engine's answer. The error is its own message, or ErrBroken.
func (d *docker) ask(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	if method == "POST" && !strings.HasPrefix(path, "/images/") {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := d.client.Do(r)
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	if a.StatusCode >= 400 {
		var said struct{ Message string }
		if json.Unmarshal(data, &said) != nil || said.Message == "" {
			said.Message = string(data)
		}
		return nil, errors.New(said.Message)
	}
	return data, nil
}

func (d *docker) Name() string    { return "docker" }
func (d *docker) Version() string { return versionOf(d.program) }

func (d *docker) Configure(ctx context.Context, c Case) ([]byte, error) {
	// A name of its own: the engine hears of a change a moment later.
	if err := os.WriteFile(filepath.Join(d.dir, "cdi", c.Name+".yaml"), []byte(c.Spec), 0o644); err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	request, err := json.Marshal(map[string]any{"Image": "conformance", "Cmd": []string{"/true"}, "HostConfig": map[string]any{
		"Runtime": "stub", "NetworkMode": "none", "DeviceRequests": []any{map[string]any{"Driver": "cdi", "DeviceIDs": []string{c.Device}}}}})
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	data, err := d.ask(ctx, "POST", "/containers/create", bytes.NewReader(request))
	var made struct{ ID string }
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(readTime); ; time.Sleep(50 * time.Millisecond) {
		_, err = d.ask(ctx, "POST", "/containers/"+made.ID+"/start", nil)
		if err == nil || !strings.Contains(err.Error(), "unresolvable CDI devices") || time.Now().After(end) {
			break
		}
	}
	if _, rerr := d.ask(ctx, "DELETE", "/containers/"+made.ID+"?force=1", nil); rerr != nil {
		return nil, errors.Join(ErrBroken, rerr)
	}
	return taken(d.dir, err)
}

// Close ends the engine, and all processes of its namespace.
func (d *docker) Close() error {
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Kill() // an error means that it has ended
		<-d.ended
	}
	if d.log != nil {
		d.log.Close()
	}
	return os.RemoveAll(d.dir)
}
