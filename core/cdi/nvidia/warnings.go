package nvidia

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/refuse"
)

// A Warning is something that whoever uses the Spec should know.
type Warning struct {
	Reason refuse.Reason `json:"reason"`
	Path   string        `json:"path,omitempty"` // the file it is about, as the generator named it
	Msg    string        `json:"msg"`            // one line
}

// String returns "path: msg", or msg alone.
func (w Warning) String() string {
	if w.Path == "" || strings.Contains(w.Msg, w.Path) {
		return w.Msg
	}
	return w.Path + ": " + w.Msg
}

// A collector is the logger that nvcdi gets. It keeps warnings and errors, and
// drops what is for debugging.
type collector struct{ all []Warning }

func (*collector) Debugf(string, ...any) {}
func (*collector) Tracef(string, ...any) {}
func (*collector) Infof(string, ...any)  {}

func (c *collector) Errorf(format string, args ...any) { c.Warningf(format, args...) }

// Warningf sorts what nvcdi says in words: "Could not locate PATH: why" and
// "Missing PATH" are about one file.
func (c *collector) Warningf(format string, args ...any) {
	w := Warning{Reason: ReasonGeneratorSays, Msg: strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "; ")}
	for _, prefix := range []string{"Could not locate ", "Missing ", "Failed to evaluate symlink "} {
		if rest, ok := strings.CutPrefix(w.Msg, prefix); ok {
			w.Path, _, _ = strings.Cut(rest, ": ")
			w.Path, _, _ = strings.Cut(w.Path, ";")
			w.Reason, w.Msg = ReasonNotFound, "not on this host"
		}
	}
	if strings.HasPrefix(w.Path, "/dev/nvidia-uvm") {
		w.Reason = ReasonUVMMissing
		w.Msg = "not there yet: it is made when nvidia-modprobe -u or nvidia-smi first runs, and CUDA does not start without it"
	}
	c.all = append(c.all, w)
}

// warnings returns all, sorted, each once.
func (c *collector) warnings() []Warning {
	out := slices.Clone(c.all)
	slices.SortFunc(out, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(out)
}
