package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"gpurig/runner/peers"
)

// BenchmarkGenerateProcess is "gpurig cdi generate --host" against "nvidia-ctk
// cdi generate" on the same host, whole processes. nvidia-ctk finds its host
// ready. gpurig has to make it, "first", unless it has the Spec from a run
// before, "again". In "same" it finds the same files ready, as on a machine of
// its own.
func BenchmarkGenerateProcess(b *testing.B) {
	for _, name := range []string{"dgx-a100", "dgx-h100", "a100-mig-uniform", "t4-server", "jetson-agx-orin"} {
		m := profile(b, name)
		c := newChroot(b, m, peers.Path(b, "nvidia-ctk"))
		theirs := func(b *testing.B) func() { return func() { output(b, c.command(b, peers.CTKArgs(b, m, "yaml")...)) } }
		program, cache := ours(b, "gpurig"), b.TempDir()
		runs := 0
		gpurig := func(b *testing.B, kept bool) func() {
			return func() {
				dir := filepath.Join(cache, "kept")
				if !kept { // a folder that is not there yet
					runs++
					dir = filepath.Join(cache, strconv.Itoa(runs))
				}
				cmd := exec.Command(program, "cdi", "generate", "--quiet", "--host", name)
				cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
				output(b, cmd)
			}
		}
		own := newChroot(b, m, program)
		same := func(b *testing.B) func() {
			return func() { output(b, own.command(b, "cdi", "generate", "--quiet")) }
		}
		b.Run(name+"/same", func(b *testing.B) { turns(b, same(b), theirs(b)) })
		b.Run(name+"/first", func(b *testing.B) { turns(b, gpurig(b, false), theirs(b)) })
		b.Run(name+"/again", func(b *testing.B) { turns(b, gpurig(b, true), theirs(b)) })
	}
}
