package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// library is the reference implementation, by which containerd and CRI-O apply Specs.
type library struct{ dir string }

// module is where the library is.
const module = "tags.cncf.io/container-device-interface"

// Library returns it. It needs no privilege.
func Library() (Consumer, error) {
	dir, err := os.MkdirTemp("", "gpurig-conformance-")
	return library{dir}, err
}

func (library) Name() string { return "CDI library" }

func (library) Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				return strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return "of this build"
}

func (l library) Configure(_ context.Context, c Case) ([]byte, error) {
	at := filepath.Join(l.dir, "case.yaml")
	if err := os.WriteFile(at, []byte(c.Spec), 0o644); err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(l.dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	if errs := cache.GetErrors()[at]; len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	spec := &rspec.Spec{}
	if _, err := cache.InjectDevices(spec, c.Device); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	return json.Marshal(spec)
}

func (l library) Close() error { return os.RemoveAll(l.dir) }
