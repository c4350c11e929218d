// Package sim is the target that makes containers in memory: it carries out a
// plan as liblxc and cdi-hook would, on a copy of the image's tree, and lets
// package observe look at the result. It needs no privileges and changes nothing.
//
// It must agree with real containers. So it starts from the same
// configuration text that target/lxc gives to liblxc, and reproduces liblxc's
// peculiarities (flags that are lost, groups that are not set); see
// package liblxc. A test in target/lxc compares the two. Where versions of liblxc
// differ, As says which one is simulated.
//
// NewOCI makes containers as an OCI runtime does; see oci.go. A
// test in target/oci compares those.
package sim

import (
	"context"
	"fmt"
	"slices"

	"gpurig/core/emit/lxc"
	"gpurig/core/memo"
	"gpurig/fakehw/tree"
	"gpurig/hook/stage"
	"gpurig/runner/image"
	"gpurig/runner/observe"
	"gpurig/runner/target"
	"gpurig/runner/target/liblxc"
)

// A Sim is the simulated target. It is safe for use by several goroutines; each
// of its containers belongs to one at a time.
type Sim struct {
	images *image.Set
	dev    *tree.Tree // what a fresh /dev has
	oci    string     // "runc" or "crun": as that runtime does; empty: as liblxc
	lxd    bool       // LXD stands between the plan and liblxc
	engine string     // observe.Docker or observe.Podman: that stands between the plan and runc; empty: none

	version lxc.Version // of the liblxc that it stands for

	scans memo.Map[string, stage.Scan] // by what libraries are where
}

var _ target.Target = (*Sim)(nil)

// New returns a target that starts containers from images; nil: the machine's.
func New(images *image.Set) (*Sim, error) {
	if images == nil {
		images = image.NewSet(nil)
	}
	dev, err := freshDev()
	if err != nil {
		return nil, fmt.Errorf("target sim: %w", err)
	}
	s := &Sim{images: images, dev: dev, version: liblxc.Stated}
	s.scans.Limit = 512
	return s, nil
}

// As says which liblxc it stands for, before it makes a container;
// liblxc.Stated otherwise.
func (s *Sim) As(v lxc.Version) { s.version = v }

// Liblxc is the version that As said; ok is false where no liblxc is simulated.
func (s *Sim) Liblxc() (v lxc.Version, ok bool) { return s.version, s.oci == "" }

// NewOCI is New for containers as an OCI runtime makes them: "runc" or "crun".
func NewOCI(images *image.Set, runtime string) (*Sim, error) {
	s, err := New(images)
	if err == nil {
		s.oci = runtime
	}
	return s, err
}

// NewLXD is New for containers as LXD has liblxc make them.
func NewLXD(images *image.Set) (*Sim, error) {
	s, err := New(images)
	if err == nil {
		s.lxd = true
	}
	return s, err
}

// NewEngine is New for containers as an engine has runc make them: observe.Docker or
// observe.Podman.
func NewEngine(images *image.Set, engine string) (*Sim, error) {
	s, err := NewOCI(images, "runc")
	if err == nil {
		s.engine = engine
	}
	return s, err
}

// Name is part of target.Target.
func (s *Sim) Name() string {
	switch {
	case s.engine != "":
		return "sim-" + s.engine
	case s.oci != "":
		return "sim-oci"
	case s.lxd:
		return "sim-lxd"
	}
	return "sim"
}

// Capabilities is part of target.Target: those of what is simulated.
func (s *Sim) Capabilities() target.Capabilities {
	switch {
	case s.engine != "":
		return target.Capabilities{Simulated: true, Family: s.engine}
	case s.oci != "":
		return target.Capabilities{Simulated: true, Family: "oci-" + s.oci}
	case s.lxd:
		return target.Capabilities{Simulated: true, Family: "lxd", Manager: "LXD", Nesting: true, PlainDisks: true, RootOpensNodes: true}
	}
	return target.Capabilities{Simulated: true, Family: "lxc", LXCLines: true}
}

// Can is part of target.Target. Everything can be simulated that what is simulated
// can do; an unknown image is an error of the scenario.
func (s *Sim) Can(_ context.Context, c target.Config) error {
	if !slices.Contains([]string{"v1", "v2"}, c.Cgroup) {
		return fmt.Errorf("container %s: cgroup version %q: want v1 or v2", c.Name, c.Cgroup)
	}
	if _, err := s.images.With(c.Image, c.Content); err != nil {
		return err
	}
	if s.oci == "" {
		if cannot := liblxc.Can(s.Name(), c.Cgroup, s.version); cannot != nil {
			return cannot
		}
	}
	return nil
}

// Create is part of target.Target.
func (s *Sim) Create(ctx context.Context, c target.Config) (target.Container, error) {
	if err := s.Can(ctx, c); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	img, err := s.images.With(c.Image, c.Content)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	root := img.Tree.Clone()
	if s.engine == observe.Docker {
		if err := image.DockerRoot(root); err != nil {
			return nil, fmt.Errorf("create %s: %w", c.Name, err)
		}
	}
	ctr := &Container{
		// An engine's read-only root is one to the container alone, not to the runtime and its hooks.
		sim: s, config: c, image: img, root: root, readOnly: img.ReadOnly && s.engine == "", fresh: true,
		journal: journal{of: c.Name},
	}
	if s.lxd {
		return lxdContainer{ctr}, nil
	}
	return ctr, nil
}

// Close is part of target.Target: nothing is shared.
func (s *Sim) Close(context.Context) error { return nil }
