// Lists NVIDIA's GPUs by go-nvml, which finds the library by the loader's cache.
package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func main() {
	fmt.Println(nvml.Init())
	n, _ := nvml.DeviceGetCount()
	for i := range n {
		d, _ := nvml.DeviceGetHandleByIndex(i)
		name, _ := d.GetName()
		pci, _ := d.GetPciInfo()
		fmt.Printf("%s %04x:%02x:%02x\n", name, pci.Domain, pci.Bus, pci.Device)
	}
}
