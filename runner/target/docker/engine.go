package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"

	"gpurig/runner/image"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// Where things are: the sockets of containerd's shims, which no option moves, and,
// below the scratch directory, all of the engine.
const (
	shimDir    = "/run/containerd"
	engineDir  = "docker"
	socketName = engineDir + "/s"
	dataDir    = engineDir + "/data"
	execDir    = engineDir + "/exec"
	amendDir   = engineDir + "/amend"
	cdiDir     = engineDir + "/cdi"
	configFile = engineDir + "/daemon.json"
	runtime    = "gpurig"
)

// remapped is a user and group of every system. Docker maps no ids of root's.
const remapped = "daemon"

// startTime is how long an engine may take to answer. It takes a second.
const startTime = 60 * time.Second

// An engine is one private daemon and what its containers share.
type engine struct {
	*sandbox.Sandbox
	kind    kind
	program string
	path    string           // of programs that the daemon starts
	unshare string           // of util-linux
	pidns   *sandbox.PIDNS   // nil: a reboot failed
	life    *sandbox.Service // of the daemon; nil: never started
	sick    atomic.Bool      // its containerd did not answer
	tc      *tc.DockerProvider
	version string // "20.10.24+dfsg1"

	alone    string // Config.Alone of its containers
	mayServe bool   // containers of such a name
	has      int    // containers

	mu     sync.Mutex
	count  int
	images map[string]func() error // by name: imports it, once
}

// startEngine starts an engine. What was made is removed when it fails.
func startEngine(ctx context.Context, k kind, p programs) (_ *engine, err error) {
	w, err := sandbox.Open(k.cgroup, shimDir, p.Programs)
	if err != nil {
		return nil, err
	}
	e := &engine{Sandbox: w, kind: k, program: p.daemon, unshare: p.unshare, path: pathOf(p), images: map[string]func() error{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.pidns, err = w.NewPIDNS(p.unshare, remapped, subids); err != nil {
		return nil, err
	}
	for _, dir := range []string{engineDir, amendDir, cdiDir} {
		if err := os.Mkdir(w.Outside(dir), 0o711); err != nil {
			return nil, err
		}
	}
	if err := e.configure(p); err != nil {
		return nil, err
	}
	return e, e.start(ctx)
}

// configure writes what there is no flag for in every version. The engine's key
// would else be written to /etc/docker of the machine.
func (e *engine) configure(p programs) error {
	said, err := exec.Command(p.daemon, "--version").Output() // "Docker version 20.10.24+dfsg1, build 5d6db84"
	if err != nil {
		return fmt.Errorf("%s --version: %w", p.daemon, err)
	}
	config := map[string]any{
		"deprecated-key-path": e.Inside(engineDir + "/key.json"),
		"runtimes": map[string]any{runtime: map[string]any{
			"path": e.Inside(sandbox.ProbePath), "runtimeArgs": []string{"amend", e.Inside(amendDir), p.runc},
		}},
	}
	if injects(strings.TrimPrefix(string(said), "Docker version ")) {
		config["features"] = map[string]bool{"cdi": true}
		config["cdi-spec-dirs"] = []string{e.Inside(cdiDir)}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(e.Outside(configFile), text, 0o600)
}

// pathOf has the daemon start the containerd that was found: one that lies
// elsewhere may be of another version.
func pathOf(p programs) string {
	return strings.Join([]string{filepath.Dir(p.daemon), filepath.Dir(p.containerd), sandbox.Path}, ":")
}

// start starts the daemon and waits until it answers.
func (e *engine) start(ctx context.Context) error {
	args := []string{
		"--config-file", e.Inside(configFile), "--host", "unix://" + e.Inside(socketName),
		"--data-root", e.Inside(dataDir), "--exec-root", e.Inside(execDir), "--pidfile", e.Inside(engineDir + "/pid"),
		"--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "vfs",
		"--exec-opt", "native.cgroupdriver=cgroupfs",
	}
	if e.kind.mapped {
		args = append(args, "--userns-remap", remapped)
	}
	cmd := e.pidns.Command(context.Background(), e.program, args...)
	cmd.Env = append(cmd.Env, "PATH="+e.path)
	life, err := e.Serve("dockerd", cmd)
	if err != nil {
		return err
	}
	e.life = life
	e.sick.Store(false)
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	for {
		err := e.answers(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errNoAnswer) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-life.Ended():
			return fmt.Errorf("the engine ended: %s", life.LastWords())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("the engine does not answer after %s: %w", startTime, err)
		}
	}
}

var errNoAnswer = errors.New("no answer")

// answers asks the engine who it is.
func (e *engine) answers(ctx context.Context) error {
	version, err := ask(ctx, e.Outside(socketName))
	if err != nil || e.tc != nil {
		return err
	}
	e.version = version
	e.tc, err = newProvider(e.Outside(socketName))
	return err
}

// ask returns the version of the engine at a socket. The error is errNoAnswer, or
// what the engine cannot be used for: it is too old.
func ask(ctx context.Context, socket string) (string, error) {
	api, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return "", err
	}
	defer api.Close()
	var v client.ServerVersionResult
	_, err = api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil {
		v, err = api.ServerVersion(ctx, client.ServerVersionOptions{})
	}
	if client.IsErrConnectionFailed(err) {
		err = fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return v.Version, err
}

func (e *engine) close() error {
	var errs []error
	if e.tc != nil {
		errs = append(errs, e.tc.Close())
	}
	if e.pidns != nil {
		errs = append(errs, e.pidns.Close())
		if e.life != nil {
			<-e.life.Ended()
		}
	}
	return errors.Join(append(errs, e.Sandbox.Close())...)
}

// create makes a container's directory, and has its image imported. The engine
// hears of it when it is first started: only then is known what it is given.
func (e *engine) create(ctx context.Context, c target.Config, img *image.Image) (*Container, error) {
	if err := e.imported(ctx, img); err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.count++
	name := fmt.Sprintf("%s-c%d", e.Prefix(), e.count)
	e.mu.Unlock()
	ctr := &Container{engine: e, config: c, name: name, dir: e.Prefix() + "/" + name, image: imageName(img), content: img}
	return ctr, os.MkdirAll(e.Outside(ctr.dir), 0o755)
}

// imageName is what an image of ours is called.
func imageName(img *image.Image) string { return "gpurig/" + img.Name + ":latest" }

// imported imports an image when it is first asked for. Who asks meanwhile waits.
func (e *engine) imported(ctx context.Context, img *image.Image) error {
	e.mu.Lock()
	once := e.images[img.Name]
	if once == nil {
		once = sync.OnceValue(func() error {
			// Not the context of one of those who wait for it.
			if err := e.importImage(context.WithoutCancel(ctx), img); err != nil {
				return fmt.Errorf("image %s: %w", img.Name, err)
			}
			return nil
		})
		e.images[img.Name] = once
	}
	e.mu.Unlock()
	return once()
}

// importImage is "docker import".
func (e *engine) importImage(ctx context.Context, img *image.Image) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := img.WriteTar(w, ""); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return e.importTar(ctx, &b, imageName(img))
}

func (e *engine) importTar(ctx context.Context, root io.Reader, name string) error {
	name, tag, _ := strings.Cut(name, ":")
	answer, err := e.tc.Client().ImageImport(ctx, client.ImageImportSource{Source: root, SourceName: "-"}, name, client.ImageImportOptions{Tag: tag})
	if err != nil {
		return err
	}
	defer answer.Close()
	for dec := json.NewDecoder(answer); ; {
		var line struct{ Error string }
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
	}
}
