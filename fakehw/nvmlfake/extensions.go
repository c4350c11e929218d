package nvmlfake

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ErrNoSymbol marks a function that the fake library does not have.
var ErrNoSymbol = errors.New("symbol not found")

type extensions struct{}

// Extensions tells which functions of the C library there are. It works before Init.
func (l *Library) Extensions() nvml.ExtendedInterface { return extensions{} }

// LookupSymbol takes C names, "nvmlDeviceGetMigMode". A version suffix counts
// as the call without it. The handlers are not there: one of ours would call the
// real C library, which ends the process where there is none.
func (extensions) LookupSymbol(name string) error {
	call, ok := strings.CutPrefix(name, "nvml")
	if i := strings.LastIndex(call, "_v"); i > 0 && !known(call) {
		call = call[:i]
	}
	if !ok || !known(call) || slices.Contains(handlers, call) {
		return fmt.Errorf("look up %s in libnvidia-ml.so.1: %w", name, ErrNoSymbol)
	}
	return nil
}

func known(call string) bool {
	_, ok := slices.BinarySearch(calls, call)
	return ok
}
