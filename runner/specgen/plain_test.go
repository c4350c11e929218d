package specgen

import (
	"context"
	"encoding/json"
	"time"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform"

	"gpurig/fakehw/mntns"
	"gpurig/fakehw/nvmlfake"
)

// plain is nvcdi alone, on the same tree and with the same options, as a
// measure: its reply is the time that it took.
const plain = "plain nvcdi"

// whole is our generator with the whole of mig-minors.
const whole = "specgen, mig-minors not trimmed"

func registerPlain() {
	w := &worker{}
	mntns.Register(plain, mntns.Handler{Build: w.build, Run: runPlain})
	mntns.Register(whole, mntns.Handler{Build: w.build, Run: w.run})
}

func runPlain(_ context.Context, _ mntns.View, data []byte) ([]byte, error) {
	var r Request
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	var namers []nvcdi.DeviceNamer
	for _, s := range []string{nvcdi.DeviceNameStrategyIndex, nvcdi.DeviceNameStrategyTypeIndex, nvcdi.DeviceNameStrategyUUID} {
		n, err := nvcdi.NewDeviceNamer(s)
		if err != nil {
			return nil, err
		}
		namers = append(namers, n)
	}
	start := time.Now()
	lib, err := nvcdi.New(nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithNvmlLib(nvmlfake.New(r.Model, r.NVML)), nvcdi.WithLogger(quiet{}),
		nvcdi.WithDeviceNamers(namers...), nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
		nvcdi.WithMergedDeviceOptions(transform.WithName("all")))
	if err != nil {
		return nil, err
	}
	spec, err := lib.GetSpec()
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(spec.Raw())
	if err != nil {
		return nil, err
	}
	return json.Marshal(measure{Took: time.Since(start), Bytes: len(out)})
}

type measure struct {
	Took  time.Duration
	Bytes int
}

type quiet struct{}

func (quiet) Debugf(string, ...any)   {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Tracef(string, ...any)   {}
