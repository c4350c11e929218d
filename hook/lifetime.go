package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gpurig/hook/stage"
)

// maxBy bounds how far up the monitor is looked for: what is above the monitor says
// nothing about it.
const maxBy = 16

// thisLifetime is the one that has us run.
func thisLifetime() (*stage.Lifetime, error) {
	boot, err := readProcText("/proc/sys/kernel/random/boot_id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("which start of the container this is: %w", err)
	}
	l := &stage.Lifetime{Boot: string(bytes.TrimSpace(boot))}
	for pid := os.Getppid(); pid > 1 && len(l.By) < maxBy; {
		p, parent, err := processAt(pid)
		if err != nil {
			break // it ended, or is hidden: what is known says enough, or nothing
		}
		l.By = append(l.By, p)
		pid = parent
	}
	return l, nil
}

// runs reports whether a process that was noted is still there.
func runs(p stage.Process) bool {
	now, _, err := processAt(p.PID)
	return err == nil && now == p
}

// processAt reads what a running process is, and its parent: proc_pid_stat(5).
func processAt(pid int) (stage.Process, int, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := readProcText(name)
	if err != nil {
		return stage.Process{}, 0, err
	}
	return parseStat(name, pid, text)
}

// parseStat reads "PID (NAME) STATE PPID …", where NAME can have anything in it.
// A process that is dead and only not yet waited for is none.
func parseStat(name string, pid int, text []byte) (stage.Process, int, error) {
	const state, parent, start = 0, 1, 19 // fields 3, 4 and 22, counted after the name
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) <= start {
		return stage.Process{}, 0, fmt.Errorf("%s: %d fields after the name", name, len(f))
	}
	if slices.Contains([]string{"Z", "X", "x"}, string(f[state])) {
		return stage.Process{}, 0, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	var ppid int
	p := stage.Process{PID: pid}
	if _, err := fmt.Sscan(string(f[parent])+" "+string(f[start]), &ppid, &p.Start); err != nil {
		return stage.Process{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	return p, ppid, nil
}

func readProcText(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}
