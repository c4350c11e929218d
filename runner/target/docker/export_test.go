package docker

import (
	"context"
	"fmt"
	"os"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"gpurig/runner/target"
	"gpurig/runner/target/world"
)

// Answer and Ask are for tests without an engine.
var (
	Answer = answer
	Ask    = ask
)

// EngineOf is the engine of a container.
func EngineOf(c target.Container) *engine { return c.(*Container).engine }

// Version is that of the engine.
func (e *engine) Version() string { return e.version }

// Kill ends the daemon for good. Its containers stay.
func (e *engine) Kill() error {
	pid, err := world.Listener(e.Outside(socketName))
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err == nil {
		<-e.ended
	}
	return err
}

// Reboot ends the engine and everything that it started as the end of the machine
// does, takes away what lay in /run, and starts the engine on what it had stored.
func Reboot(ctx context.Context, d *Docker, c target.Container) error {
	own := c.(*Container)
	e := own.engine
	p, cerr := d.able()
	if cerr != nil {
		return cerr
	}
	if err := e.nest.Close(); err != nil {
		return err
	}
	<-e.ended
	own.line.Close()
	own.line = nil
	for _, gone := range []string{execDir, socketName, engineDir + "/pid"} {
		if err := os.RemoveAll(e.Outside(gone)); err != nil {
			return err
		}
	}
	if err := e.RemoveCgroups("*"); err != nil {
		return err
	}
	var err error
	if e.nest, err = e.Nest(p.unshare, remapped, subids); err != nil {
		return err
	}
	return e.start(ctx)
}

// RemoveSocket takes away the socket of the engine of c.
func RemoveSocket(c target.Container) error { return os.Remove(EngineOf(c).Outside(socketName)) }

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
	w := c.(*Container).engine.World
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
