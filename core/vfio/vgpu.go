package vfio

import "gpurig/core/refuse"

func (d *making) vgpu(c choice) error {
	return refuse.New(NoVGPU, "", "vGPUs are not planned yet")
}
