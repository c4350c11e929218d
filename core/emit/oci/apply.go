package oci

import (
	"slices"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

// Apply adds the edits to a configuration. As with the CDI reference
// implementation, a mount, device or variable that the configuration has
// already gives way to one of the same destination, path or name.
func (e Edits) Apply(s *rspec.Spec) {
	if s.Process == nil {
		s.Process = &rspec.Process{}
	}
	if s.Linux == nil {
		s.Linux = &rspec.Linux{}
	}
	if s.Linux.Resources == nil {
		s.Linux.Resources = &rspec.LinuxResources{}
	}
	s.Mounts = replace(s.Mounts, e.Mounts, func(m rspec.Mount) string { return m.Destination })
	s.Linux.Devices = replace(s.Linux.Devices, e.Devices, func(d rspec.LinuxDevice) string { return d.Path })
	s.Linux.Resources.Devices = append(slices.Clip(s.Linux.Resources.Devices), e.Rules...)
	s.Process.Env = replace(s.Process.Env, e.Env, func(v string) string {
		name, _, _ := strings.Cut(v, "=")
		return name
	})
	for _, g := range e.Groups {
		if !slices.Contains(s.Process.User.AdditionalGids, g) {
			s.Process.User.AdditionalGids = append(slices.Clip(s.Process.User.AdditionalGids), g)
		}
	}
	if e.Hooks == nil {
		return
	}
	if s.Hooks == nil {
		s.Hooks = &rspec.Hooks{}
	}
	s.Hooks.CreateContainer = append(slices.Clip(s.Hooks.CreateContainer), e.Hooks.CreateContainer...)
	s.Hooks.Poststop = append(slices.Clip(s.Hooks.Poststop), e.Hooks.Poststop...)
}

// replace returns list with those of added at its end, and without those that
// have the key of one of them.
func replace[T any](list, added []T, key func(T) string) []T {
	out := make([]T, 0, len(list)+len(added))
	for _, x := range list {
		if !slices.ContainsFunc(added, func(a T) bool { return key(a) == key(x) }) {
			out = append(out, x)
		}
	}
	return append(out, added...)
}
