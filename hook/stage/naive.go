//go:build naive

package stage

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"gpurig/hook/inroot"
)

// writeCache is the negative control (see inroot/naive.go): the host's ldconfig,
// on a root whose links and SONAMEs it believes.
func (w *work) writeCache([]string) ([]loss, error) {
	ctx, cancel := context.WithTimeout(w.Context, 5*time.Second) // it opens FIFOs of the image
	defer cancel()
	out, err := exec.CommandContext(ctx, "/sbin/ldconfig", "-r", w.root.(*inroot.Root).Path()).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldconfig: %w: %s", err, out)
	}
	return nil, nil
}

func (s Scan) told(*work) ([]loss, error) { return nil, nil }
