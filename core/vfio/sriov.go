package vfio

import "gpurig/core/refuse"

func (d *making) virtual(c choice) error {
	return refuse.New(NoSRIOV, "", "virtual functions are not planned yet")
}
