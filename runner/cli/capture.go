package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/spf13/cobra"

	"gpurig/core/host"
	"gpurig/core/host/osroot"
	"gpurig/core/show"
	"gpurig/fakehw/capture"
	"gpurig/fixtures/hosts"
	"gpurig/reports"
)

type captureFlags struct {
	file, root, machine, date string
	noNVML                    bool
}

func newHostCapture(s Streams) *cobra.Command {
	var f captureFlags
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Record this machine as a host that can be replayed",
		Long: `Capture records the GPUs of this machine, and what programs that look for GPUs
read, in one text file: PCI functions, drivers, device nodes, the names of
driver files, what NVIDIA's management library says. Every command that takes a
host accepts the file.

It only reads: it changes nothing, runs no program and opens no device. NVIDIA's
library opens devices; it is called only if all its nodes exist, since it would
create missing ones. No privileges are needed; the file lists what could not be
read without them. Serial numbers, UUIDs, MAC addresses and
the machine's name are replaced. Look through the file before you pass it on.

To record a fake host with its faults, run the command inside it:
gpurig host enter HOST --fault FAULT -- gpurig host capture -o FILE.txtar`,
		Example: "  gpurig host capture -o dgx.txtar",
		Args:    takes(0, 0),
		RunE:    func(*cobra.Command, []string) error { return captureHost(s, f) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.file, "out", "o", "", "write to `FILE`, which ends in .txtar; none: standard output")
	fl.StringVar(&f.root, "root", "/", "record the machine whose files are in `DIR`; other than /, without NVIDIA's library")
	fl.BoolVar(&f.noNVML, "no-nvml", false, "do not ask NVIDIA's library, which opens device nodes")
	fl.StringVar(&f.machine, "machine", "", "`WORDS` that say what the machine is (default the product name in its firmware)")
	fl.StringVar(&f.date, "date", "", "`DATE` of the recording, YYYY-MM-DD (default today)")
	return cmd
}

func captureHost(s Streams, f captureFlags) error {
	if f.file != "" && !isRecording(f.file) {
		return hint(fmt.Errorf("-o %q: want a name that ends in .txtar", f.file), "by that ending a recording is told from a profile")
	}
	if info, err := os.Stat(f.file); f.file != "" && err == nil && !info.Mode().IsRegular() {
		return hint(fmt.Errorf("-o %q: there is something that is no regular file", f.file), "without -o the recording goes to standard output")
	}
	if f.date == "" {
		f.date = time.Now().UTC().Format(time.DateOnly)
	}
	rec, err := recordRoot(f.root, !f.noNVML, capture.Options{Machine: f.machine, Date: f.date})
	if err != nil {
		return err
	}
	rec.LeaveOut()
	text, err := rec.Marshal()
	if err != nil {
		return err
	}
	for _, n := range rec.Notes {
		show.Fprintf(s.Err, "note: %s\n", n)
	}
	if f.file == "" {
		_, err = s.Out.Write(text)
		return err
	}
	return reports.WriteFile(f.file, text)
}

// recordRoot records the machine in a directory. NVIDIA's library is asked, if it
// may be, on the machine itself alone.
func recordRoot(dir string, ask bool, opts capture.Options) (hosts.File, error) {
	root, err := osroot.New(dir)
	if err != nil {
		return hosts.File{}, err
	}
	defer root.Close()
	var lib host.NVML
	note := ""
	if dir == "/" && ask {
		if note, err = nodeThatNVMLWouldMake(root); err != nil {
			return hosts.File{}, err
		}
		if note == "" {
			lib = discoverable(nvml.New())
		}
	}
	rec, err := capture.Record(root, lib, opts)
	if silent, ok := errors.AsType[*capture.LibraryError](err); ok {
		// A machine with a GPU that is lost is one to record.
		note = "without what NVIDIA's library says, since it failed: " + silent.Error()
		rec, err = capture.Record(root, nil, opts)
	} else if note != "" {
		note = "NVIDIA's library was not asked, since it would make " + note
	}
	if err != nil {
		return hosts.File{}, err
	}
	if note != "" {
		rec.Notes = append(rec.Notes, note)
	}
	if !knowsOthers() {
		rec.Notes = append(rec.Notes, "owners and groups are not known: this user namespace has only one user, so all are 0 or 65534")
	}
	return rec, nil
}

// nodeThatNVMLWouldMake returns a device node that is missing and that the
// library would make when it starts; empty: none, or no driver is loaded.
func nodeThatNVMLWouldMake(root host.Root) (string, error) {
	const gpus = "/proc/driver/nvidia/gpus"
	names, err := root.ReadDir(gpus)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // the library will not start
	}
	if err != nil {
		return "", err
	}
	want := []string{"/dev/nvidiactl"}
	for _, name := range names {
		text, err := root.ReadFile(gpus + "/" + name + "/information")
		if err != nil {
			return "", err
		}
		info, err := host.ParseGPUInfo(string(text))
		if err != nil {
			continue // which node is its nobody can say, nor keep the others for that
		}
		want = append(want, fmt.Sprintf("/dev/nvidia%d", info.Minor))
	}
	for _, p := range want {
		if there, err := host.Exists(root, p); err != nil || !there {
			return p, err
		}
	}
	return "", nil
}
