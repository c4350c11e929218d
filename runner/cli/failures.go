package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"gpurig/fakehw/capture"
	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/doctor"
	"gpurig/runner/quarantine"
)

// labFlags are for machines on which something is known to be bad.
type labFlags struct {
	retries    int
	quarantine string
	digest     string // of the list
}

func (f *labFlags) flags(fl *pflag.FlagSet) {
	fl.IntVar(&f.retries, "retries", 0, "run what fails or is broken up to `N` times more; what passes then is marked flaky")
	fl.StringVar(&f.quarantine, "quarantine", "", "`FILE` with scenarios that are known to fail until a day")
}

// again are the flags of the same run elsewhere.
func (f *labFlags) again() []string {
	var out []string
	if f.retries > 0 {
		out = append(out, "--retries", fmt.Sprint(f.retries))
	}
	if f.quarantine != "" {
		out = append(out, "--quarantine", f.quarantine)
	}
	return out
}

func (f *labFlags) apply(o *runner.Options, now time.Time) error {
	if f.retries < 0 || f.retries > 10 {
		return fmt.Errorf("--retries %d: want 0 to 10", f.retries)
	}
	o.Retries = f.retries
	if f.quarantine == "" {
		return nil
	}
	data, err := os.ReadFile(f.quarantine)
	if err != nil {
		return err
	}
	f.digest = reports.Digest(string(data), nil)
	o.Quarantine, err = quarantine.Parse(f.quarantine, data, now)
	return err
}

// An archive keeps what shows of failures: a file FOLDER/SCENARIO-on-TARGET.tar.gz for
// each run that failed or is broken, with the result, all that explain shows of it, and
// what the machine was like.
type archive struct {
	dir      string
	hardware bool
	warn     func(error)
	names    map[string]int
}

func newArchive(dir string, hardware bool, warn func(error)) (*archive, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return &archive{dir, hardware, warn, map[string]int{}}, nil
}

// plainName matches what a file's name is not made of.
var plainName = regexp.MustCompile(`[^A-Za-z0-9._=-]+`)

// failed is runner.Options.Failed.
func (a *archive) failed(t runner.Trace) {
	name := strings.Trim(plainName.ReplaceAllString(t.Result.ID(), "_"), "_.") + "-on-" + t.Target
	if a.names[name]++; a.names[name] > 1 {
		name = fmt.Sprintf("%s-%d", name, a.names[name])
	}
	data, err := a.pack(t, name)
	if err == nil {
		err = reports.WriteFile(filepath.Join(a.dir, name+".tar.gz"), data)
	}
	if err != nil {
		a.warn(fmt.Errorf("nothing is kept of %s: %w", t.Result.Key(), err))
	}
}

func (a *archive) pack(t runner.Trace, folder string) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	var errs []error
	add := func(name, text string, err error) {
		if err != nil {
			name, text = name+".error", err.Error()+"\n"
		}
		errs = append(errs, w.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX}))
		_, err = w.Write([]byte(text))
		errs = append(errs, err)
	}
	result, err := valueText(t.Result)
	add("result.yaml", result, err)
	if text := scenarioText(t.Result.File); text != "" {
		add("scenario.yaml", text, nil)
	}
	for i, s := range sections(t) {
		text, err := s.text()
		add(fmt.Sprintf("%02d-%s.txt", i+1, s.station), "# "+s.title+"\n"+text, err)
	}
	if a.hardware {
		text, err := recordingText()
		add("host.txtar", text, err)
		text, err = driverMessages()
		add("dmesg.txt", text, err)
		text, err = valueText(append(doctor.Examine(context.Background()), hardwareCheck()))
		add("doctor.yaml", text, err)
	}
	errs = append(errs, w.Close(), z.Close())
	return b.Bytes(), errors.Join(errs...)
}

// recordingText records this machine, as host capture does.
func recordingText() (string, error) {
	rec, err := recordRoot("/", true, capture.Options{Date: time.Now().UTC().Format(time.DateOnly)})
	if err != nil {
		return "", err
	}
	rec.LeaveOut()
	text, err := rec.Marshal()
	return string(text), err
}

// ofDriver matches what GPU drivers and the IOMMU tell the kernel's log.
var ofDriver = regexp.MustCompile(`(?i)nvrm|nvidia|xid|amdgpu|i915|xe |vfio|iommu|pcieport|aer:`)

// driverMessages are those of the kernel's log that may be about GPUs, the last ones last.
func driverMessages() (string, error) {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL of syslog(2)
	buf := make([]byte, 16<<20)
	n, err := unix.Klogctl(readAll, buf)
	if err != nil {
		return "", fmt.Errorf("the kernel's log: %w", err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(buf[:n])) {
		if ofDriver.MatchString(line) {
			out.WriteString(line)
		}
	}
	return out.String(), nil
}
