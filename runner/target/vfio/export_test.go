package vfio

import (
	"context"

	"gpurig/runner/target"
)

// OnHost does something where the monitor of m is.
func OnHost(ctx context.Context, m target.VM, h target.Host, do func(target.Sys) error) error {
	s, err := m.(*machine).at(ctx, h)
	if err != nil {
		return err
	}
	return do(s)
}
