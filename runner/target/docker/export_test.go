package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"golang.org/x/sys/unix"

	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/observe/inside"
	"gpurig/runner/target"
	"gpurig/runner/target/sandbox"
)

// Answer and Ask are for tests without an engine.
var (
	Answer  = answer
	Ask     = ask
	Injects = injects
	TooOld  = tooOld
)

// InjectVendors starts a container of docker-cdi with what the engine makes of the
// Specs as they are, and the program that their hooks run.
func InjectVendors(ctx context.Context, c target.Container, h target.Host, in target.Injection, p plan.Plan, program string) error {
	return c.(named).inject(ctx, h, in, p, program)
}

// EngineOf is the engine of a container.
func EngineOf(c target.Container) *engine {
	if n, ok := c.(named); ok {
		return n.engine
	}
	return c.(*Container).engine
}

// Version is that of the engine.
func (e *engine) Version() string { return e.version }

// Kill ends the daemon for good. Its containers stay.
func (e *engine) Kill() error { return e.stop(unix.SIGKILL) }

// RemoveSocket takes away the socket of the engine of c, and the connections that
// were made through it.
func RemoveSocket(c target.Container) error {
	own := c.(*Container)
	if s, ok := own.engine.tc.Client().(shared); ok {
		if err := s.APIClient.Close(); err != nil {
			return err
		}
	}
	return os.Remove(EngineOf(c).Outside(socketName))
}

// RemoveImage takes away the image of c.
func RemoveImage(ctx context.Context, c target.Container) error {
	own := c.(*Container)
	_, err := own.engine.tc.Client().ImageRemove(ctx, own.image, client.ImageRemoveOptions{Force: true})
	return err
}

// TakeName gives the name of c to another container.
func TakeName(ctx context.Context, c target.Container) error {
	own := c.(*Container)
	r := own.base()
	r.Host.Mounts = nil
	_, err := own.engine.tc.Client().ContainerCreate(ctx, client.ContainerCreateOptions{Config: r.Config, HostConfig: r.Host, Name: own.name})
	return err
}

// Fill leaves the engine of c a few pages to store in.
func Fill(ctx context.Context, c target.Container) error {
	w := c.(*Container).engine.Sandbox
	var st unix.Statfs_t
	if err := unix.Statfs(w.Outside(""), &st); err != nil {
		return err
	}
	used := int64(st.Blocks-st.Bfree)*st.Bsize + 64<<10
	return w.Output(ctx, nil, "/bin/mount", "-o", fmt.Sprintf("remount,size=%d", used), w.Inside(""))
}

// Stored counts the containers and images that the engine of c has.
func Stored(ctx context.Context, c target.Container) (containers, images int, err error) {
	api := EngineOf(c).tc.Client()
	l, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return 0, 0, err
	}
	i, err := api.ImageList(ctx, client.ImageListOptions{})
	return len(l.Items), len(i.Items), err
}

// Inner imports a root of busybox and the probe into the engine at socket, which
// lies below root, and starts a container with nodes and files of root in it.
func Inner(ctx context.Context, socket, root string, nodes, files []string, probe string) (*sandbox.Line, error) {
	p, err := newProvider(socket)
	if err != nil {
		return nil, err
	}
	e := &engine{tc: p}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/", "usr/lib/x86_64-linux-gnu/"} {
		if err := image.AddTar(w, tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := e.importTar(ctx, &b, "gpurig/inner:latest"); err != nil {
		return nil, err
	}
	own := filepath.Join(root, "inner/own")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(probe)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(own, "probe"), data, 0o755); err != nil {
		return nil, err
	}
	at := filepath.Join(own, inside.SocketName)
	if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := os.Chmod(at, 0o666); err != nil {
		return nil, err
	}
	host := &container.HostConfig{NetworkMode: noNetwork, Mounts: []mount.Mount{{Type: mount.TypeBind, Source: "/inner/own", Target: observe.OwnDir, ReadOnly: true}}}
	for _, n := range nodes {
		host.Devices = append(host.Devices, container.DeviceMapping{PathOnHost: n, PathInContainer: n, CgroupPermissions: "rw"})
	}
	for _, f := range files {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: f, Target: f, ReadOnly: true})
	}
	c, err := p.CreateContainer(ctx, tc.ContainerRequest{
		Image: "gpurig/inner:latest", Cmd: []string{observe.OwnDir + "/probe", "init", observe.OwnDir},
		ConfigModifier: func(to *container.Config) {
			to.Env = []string{"container=docker", "PATH=/sbin:/usr/sbin:/bin:/usr/bin"}
		},
		HostConfigModifier: func(to *container.HostConfig) { *to = *host },
	})
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	line, err := sandbox.Accept(ctx, l, nil)
	return &line, err
}
