package seen

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpurig/core/host"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fixtures/records"
)

// migColumns are what nvidia-smi mig -lgip and -lgipp print of a profile.
var migColumns = map[string]func(d nvml.Device, p *nvml.GpuInstanceProfileInfo) string{
	"id":        func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.Id) },
	"instances": func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.InstanceCount) },
	"memory": func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string {
		return fmt.Sprintf("%.2f GiB", float64(p.MemorySizeMB)/1024)
	},
	"SM":   func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.MultiprocessorCount) },
	"DEC":  func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.DecoderCount) },
	"ENC":  func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.EncoderCount) },
	"CE":   func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.CopyEngineCount) },
	"JPEG": func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.JpegCount) },
	"OFA":  func(_ nvml.Device, p *nvml.GpuInstanceProfileInfo) string { return fmt.Sprint(p.OfaCount) },
	"placements": func(d nvml.Device, p *nvml.GpuInstanceProfileInfo) string {
		places, r := d.GetGpuInstancePossiblePlacements(p)
		if r != nvml.SUCCESS {
			return answered("", r)
		}
		var out []string
		for _, at := range places {
			out = append(out, fmt.Sprintf("%d:%d", at.Start, at.Size))
		}
		return strings.Join(out, " ")
	},
}

// mig says "PROFILE/COLUMN" of a GPU.
func mig(d nvml.Device, g host.GPU, field string) string {
	name, column, _ := strings.Cut(field, "/")
	say, ok := migColumns[column]
	if !ok || d == nil {
		return records.Absent
	}
	for n := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		if p, r := d.GetGpuInstanceProfileInfo(n); r == nvml.SUCCESS && nvmlfake.ProfileName(g, int(p.Id)) == name {
			return say(d, &p)
		}
	}
	return records.Absent
}
