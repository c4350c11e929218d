package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"golang.org/x/sys/unix"

	"gpurig/core/hookspec"
	"gpurig/core/plan"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/agent"
	"gpurig/runner/target/sandbox"
)

// A Container is one of the engine.
type Container struct {
	engine  *engine
	config  target.Config
	name    string // as the engine knows it
	dir     string // of ours, below the scratch directory
	image   string // what it is created from
	content *image.Image
	own     []string // images of its root
	removed bool
	leave   func() error // the engine, when it was removed

	ctr    tc.Container  // nil: the engine has none
	given  string        // what it was created with, as text
	line   *sandbox.Line // nil: not running
	hooked bool          // a hook file was written
	specs  []string      // CDI Specs for it, outside
}

var _ target.Container = (*Container)(nil)

func (c *Container) inside(p string) string  { return c.engine.Inside(c.dir + "/" + p) }
func (c *Container) outside(p string) string { return c.engine.Outside(c.dir + "/" + p) }

// Start is part of target.Container. An error that is not target.ErrBroken is
// the answer of the engine, of its runtime or of the hook.
func (c *Container) Start(ctx context.Context, h target.Host, p plan.Plan) error {
	if err := target.Startable(c.line != nil, c.removed); err != nil {
		return err
	}
	if err := c.start(ctx, h, p); err != nil {
		return fmt.Errorf("start %s: %w", c.config.Name, err)
	}
	return nil
}

func (c *Container) start(ctx context.Context, h target.Host, p plan.Plan) error {
	r, err := c.emit(ctx, h, p)
	if err != nil {
		return err
	}
	return c.launch(ctx, r)
}

// launch has the engine start what r asks for.
func (c *Container) launch(ctx context.Context, r request) error {
	if err := c.prepare(r); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	l, err := c.engine.Listen(c.dir + "/own")
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	defer l.Close()
	if err := c.created(ctx, r); err != nil {
		return err
	}
	if err := c.writeAmendment(r.amend); err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if err := c.startCreated(ctx); err != nil {
		return c.engine.answer(err)
	}
	ended, stop := c.ended()
	defer stop()
	line, err := sandbox.Accept(ctx, l, ended)
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	c.line = &line
	return nil
}

// created makes the engine's container one that was created with r.
func (c *Container) created(ctx context.Context, r request) error {
	text, err := r.text()
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	if c.ctr != nil && text == c.given {
		return nil
	}
	api := c.engine.tc.Client()
	if c.ctr != nil {
		if err := c.keep(ctx, api); err != nil {
			return errors.Join(target.ErrBroken, err)
		}
	}
	if _, err := api.ImageInspect(ctx, c.image); err != nil {
		return fmt.Errorf("image %s: %w: %w", c.image, target.ErrBroken, c.engine.why(err)) // else it would be looked for in a registry
	}
	r.Config.Image = c.image
	ctr, err := c.engine.tc.CreateContainer(ctx, tc.ContainerRequest{
		Image: c.image, Name: c.name,
		ConfigModifier: func(to *container.Config) {
			labels := to.Labels
			*to = *r.Config
			to.Labels = labels
		},
		HostConfigModifier: func(to *container.HostConfig) { *to = *r.Host },
	})
	if err != nil {
		return c.engine.answer(err)
	}
	c.ctr, c.given = ctr, text
	dir, err := c.engine.rootDir(c.ctr.GetContainerID())
	if err == nil {
		err = c.content.MakeSockets(dir, func(id uint32) uint32 { return sandbox.OnHost(c.config.IDMap, id) })
	}
	if err != nil {
		return errors.Join(target.ErrBroken, err)
	}
	return nil
}

// keep makes an image of the container's root to create it anew from, and removes
// it. A commit would keep its environment too.
func (c *Container) keep(ctx context.Context, api client.APIClient) error {
	root, err := api.ContainerExport(ctx, c.ctr.GetContainerID(), client.ContainerExportOptions{})
	if err != nil {
		return err
	}
	defer root.Close()
	name := fmt.Sprintf("%s:%d", c.name, len(c.own)+1)
	if err := c.engine.importTar(ctx, root, name); err != nil {
		return err
	}
	c.own = append(c.own, name)
	if err := c.remove(ctx); err != nil {
		return err
	}
	c.image = name
	return nil
}

// remove takes the engine's container away, running or not.
func (c *Container) remove(ctx context.Context) error {
	if c.ctr == nil {
		return nil
	}
	amendment := c.amendment()
	_, err := c.engine.tc.Client().ContainerRemove(ctx, c.ctr.GetContainerID(), client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	c.ctr, c.given = nil, ""
	if err := os.Remove(amendment); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// ended is closed when the container is not running; stop ends the watch.
func (c *Container) ended() (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan struct{})
	wait := c.engine.tc.Client().ContainerWait(ctx, c.ctr.GetContainerID(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	go func() {
		select {
		case <-wait.Result:
			close(out)
		case <-wait.Error: // the watch has ended, or the engine
			if ctx.Err() == nil {
				close(out)
			}
		}
	}()
	return out, cancel
}

// answer is answer of an error of this engine.
func (e *engine) answer(err error) error { return e.why(answer(err)) }

// why adds to an error of a request that got no answer how the engine ended. Where its
// containerd did not answer, nobody asks it any more.
func (e *engine) why(err error) error {
	if below(err.Error()) {
		e.sick.Store(true)
	}
	if !noAnswer(err) {
		return err
	}
	if ended := e.life.Why(); ended != nil {
		return fmt.Errorf("no answer from the engine: %w", ended)
	}
	return err
}

func noAnswer(err error) bool {
	var refused net.Error
	return client.IsErrConnectionFailed(err) || errors.As(err, &refused) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// answer sorts an error of the engine: what it says of the configuration is its
// answer, with the hook's own words where it only says that something failed. A
// lost engine, a name that is taken or a full disk is no answer.
func answer(err error) error {
	text := err.Error()
	if said := target.HookSaid(text); said != "" {
		err = errors.New(said)
	}
	lost := noAnswer(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if below(text) {
		return fmt.Errorf("containerd, below the engine, does not answer: %w: %w", target.ErrBroken, err)
	}
	if strings.Contains(text, "failed to start shim") && (strings.Contains(text, "signal: killed") || strings.Contains(text, "connection refused")) {
		return errors.Join(&target.EndedError{Program: "containerd's shim", How: "killed"}, err)
	}
	if lost || cerrdefs.IsConflict(err) || cerrdefs.IsNotFound(err) || strings.Contains(text, unix.ENOSPC.Error()) || strings.Contains(text, unix.EDQUOT.Error()) {
		return errors.Join(target.ErrBroken, err)
	}
	return err
}

// below reports whether an engine says that its containerd, or the shim of a container,
// did not answer: in the words of their protocols' clients.
//
// Reference: grpc-go internal/transport and containerd/ttrpc client.go
func below(text string) bool {
	return slices.ContainsFunc([]string{"connection error: desc = ", "error reading from server: EOF", "transport is closing", "did not receive an exit event", "ttrpc: closed", "connection closed: unavailable", "containerd.sock: connect: "},
		func(s string) bool { return strings.Contains(text, s) })
}

// Plug is part of target.Container, Unplug too.
func (c *Container) Plug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

// Unplug is part of target.Container.
func (c *Container) Unplug(context.Context, target.Host, plan.Plan) error { return errNoPlug() }

func errNoPlug() error {
	return &target.CannotError{Target: "docker",
		Why:  "not applicable: Docker fixes a container's devices and mounts when it creates it",
		Hint: "use a target of system containers, such as lxc"}
}

// Warnings is part of target.Container.
func (c *Container) Warnings() ([]hookspec.Warning, error) {
	return target.HookWarnings(c.outside("hook/file.json"))
}

// Observe is part of target.Container.
func (c *Container) Observe(_ context.Context, r observe.Request) (observe.Observation, error) {
	if c.line == nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, target.ErrNotRunning)
	}
	r.Manager = observe.Docker
	o, err := c.line.Look(r)
	if err != nil {
		return observe.Observation{}, fmt.Errorf("observe %s: %w", c.config.Name, sandbox.Judged(errors.Join(target.ErrBroken, err), c.line.Lost))
	}
	c.engine.Identify(&o)
	return o, nil
}

// Run is part of target.Runner.
func (c *Container) Run(_ context.Context, p observe.Program) (observe.Ran, error) {
	if c.line == nil {
		return observe.Ran{}, fmt.Errorf("run %s in %s: %w", p.Command[0], c.config.Name, target.ErrNotRunning)
	}
	ran, err := c.line.RunProgram(p)
	return ran, sandbox.Judged(err, c.line.Lost)
}

// Stop is part of target.Container.
func (c *Container) Stop(ctx context.Context) error {
	if c.line == nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, target.ErrNotRunning)
	}
	line := c.line
	c.line = nil
	defer line.Close()
	limit := stopSeconds * time.Second
	if err := c.ctr.Stop(ctx, &limit); err != nil {
		return fmt.Errorf("stop %s: %w", c.config.Name, c.engine.answer(err))
	}
	return nil
}

// Crash is part of target.Container. The first process dies, and the runtime
// forgets the container instead of cleaning up after it.
func (c *Container) Crash(ctx context.Context) error {
	if c.line == nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, target.ErrNotRunning)
	}
	if err := c.crash(ctx); err != nil {
		return fmt.Errorf("crash %s: %w", c.config.Name, errors.Join(target.ErrBroken, err))
	}
	return nil
}

func (c *Container) crash(ctx context.Context) error {
	line := c.line
	c.line = nil
	defer line.Close()
	if err := c.writeAmendment(agent.Amendment{Lost: true}); err != nil {
		return err
	}
	ended, stop := c.ended()
	defer stop()
	if err := unix.Kill(line.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.engine.RemoveCgroups(c.ctr.GetContainerID())
}

// Running is part of target.Container.
func (c *Container) Running() bool { return c.line != nil }

// Configuration is part of target.Container: what the engine was asked to create.
func (c *Container) Configuration() string { return c.given }

// Remove is part of target.Container.
func (c *Container) Remove(ctx context.Context) error {
	if c.removed {
		return nil
	}
	c.removed = true
	if c.engine.dead() { // it goes, with all that is in it
		if c.line != nil {
			c.line.Close()
			c.line = nil
		}
		return c.leave()
	}
	err := c.remove(ctx)
	if c.line != nil {
		c.line.Close() // not before: the container would end by itself meanwhile
		c.line = nil
	}
	for i := len(c.own) - 1; i >= 0 && err == nil; i-- {
		_, err = c.engine.tc.Client().ImageRemove(ctx, c.own[i], client.ImageRemoveOptions{Force: true})
	}
	err = errors.Join(err, c.removeSpecs(), os.RemoveAll(c.outside("")), c.leave())
	if err != nil {
		return fmt.Errorf("remove %s: %w", c.config.Name, errors.Join(target.ErrBroken, c.engine.why(err)))
	}
	return nil
}
