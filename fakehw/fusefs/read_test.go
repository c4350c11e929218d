package fusefs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// turnsEnv has this program read two files by turns instead of running tests: who
// reads must not be who answers.
const turnsEnv = "GPURIG_READ_BY_TURNS" // a directory and two paths, with blanks between

func init() {
	if paths := os.Getenv(turnsEnv); paths != "" {
		dir, paths, _ := strings.Cut(paths, " ")
		if err := os.Chdir(dir); err != nil { // a machine has it mounted: the way there costs nothing
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ours, theirs, _ := strings.Cut(paths, " ")
		fmt.Println(byTurns(ours, theirs))
		os.Exit(0)
	}
}

// byTurns opens, reads and closes one file and another, and returns the least time
// of each in microseconds, the ratio of these and the median ratio of neighbours.
func byTurns(ours, theirs string) (us, them, least, median float64) {
	buf := make([]byte, 4096)
	const each, turns = 5, 2000 // few, so that now and then nobody interrupts
	batch := func(path string) float64 {
		start := time.Now()
		for range each {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				_, err = unix.Read(fd, buf)
				unix.Close(fd)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, path, err)
				os.Exit(1)
			}
		}
		return time.Since(start).Seconds() * 1e6 / each
	}
	var a, b, ratios []float64
	for range turns {
		x, y := batch(ours), batch(theirs)
		a, b, ratios = append(a, x), append(b, y), append(ratios, x/y)
	}
	slices.Sort(ratios)
	us, them = slices.Min(a), slices.Min(b)
	return us, them, us / them, ratios[turns/2]
}

// BenchmarkRead is opening, reading and closing an attribute that was read before,
// against one of the machine's own sysfs, in another process.
func BenchmarkRead(b *testing.B) {
	for _, bc := range []struct {
		name string
		most int
	}{{"kernel", 100}, {"server", 0}} {
		b.Run(bc.name, func(b *testing.B) {
			m := mountSys(b, map[string]string{"vendor": "0x10de\n"}, 0o444)
			m.PassAtMost(bc.most)
			if _, may := m.Passes(); bc.most > 0 && !may {
				b.Skip("no FUSE passthrough here")
			}
			var us, them, least, median float64
			for b.Loop() {
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), turnsEnv+"="+filepath.Join(m.dir, "sys")+" vendor /sys/devices/system/cpu/possible")
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fmt.Sscan(string(out), &us, &them, &least, &median); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(us, "us/read")
			b.ReportMetric(them, "us/sysfs")
			b.ReportMetric(least, "ratio-of-least")
			b.ReportMetric(median, "median-ratio")
		})
	}
}
