package vfio_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gpurig/core/vfio"
)

// The script writes what Carry and Return write, in their order, and takes back what
// was done where a write fails.
func TestScriptDoesWhatCarryAndReturnDo(t *testing.T) {
	for _, s := range []story{
		{name: "a whole GPU", profile: "workstation", asks: []string{"pci=0a:00.0"}},
		{name: "a GPU that is marked already", profile: "workstation", asks: []string{"pci=0a:00.0"}, prepare: func(r *rig) {
			r.echo("vfio-pci", "/sys/bus/pci/devices/0000:0a:00.0/driver_override")
		}},
		{name: "vGPUs", profile: "vgpu-l40s", asks: []string{"gputype=mdev mdev=1148", "gputype=mdev mdev=1148"}, prepare: l40sVFs},
		{name: "mediated devices", profile: "vgpu-a40", asks: []string{"gputype=mdev mdev=nvidia-558"}, prepare: a40VFs},
		{name: "a virtual function", profile: "vgpu-a40", asks: []string{"gputype=sriov"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			was := r.discover()
			p := r.carry(s.asks...)
			carried := slices.Clone(r.writes)
			r.giveBack(p)
			returned := slices.Clone(r.writes[len(carried):])
			script, err := vfio.Script(p)
			if err != nil {
				t.Fatal(err)
			}
			run := func(how string, want []string, ok bool) {
				t.Helper()
				r.writes = nil
				if good := r.sh(script, how); good != ok || !slices.Equal(r.writes, want) {
					t.Fatalf("%s writes %q, %v; want %q, %v", how, r.writes, good, want, ok)
				}
			}
			run("start", carried, true)
			given := r.discover()
			if r.sh(script, "start") {
				t.Error("of two, the second starts too")
			}
			r.same(given, "After a second start")
			run("stop", returned, true)
			r.same(was, "After stop")
			run("stop", nil, true)
			for k := range carried {
				r.fails = map[int]error{k: syscall.EIO}
				run("start", slices.Concat(carried[:k+1], returned[len(returned)-k:]), false)
				r.fails, r.swallows = nil, map[int]bool{k: true}
				run("start", slices.Concat(carried[:k+1], returned[len(returned)-k:]), false)
				r.swallows = nil
				r.same(was, "After a failure")
				run("start", carried, true)
				r.fails = map[int]error{k: syscall.EIO}
				r.writes = nil
				if r.sh(script, "stop") {
					t.Errorf("stop ends well where its write %d failed", k+1)
				}
				r.fails = nil
				if !r.sh(script, "stop") {
					t.Errorf("stop after a stop whose write %d failed does not end well", k+1)
				}
				r.same(was, "After a stop that failed, and another")
			}
		})
	}
}

// Virtual functions that another machine has by then stay, as the note says.
func TestScriptLeavesVirtualFunctionsToOthers(t *testing.T) {
	r := start(t, load(t, "vgpu-a40"))
	p := r.carry("gputype=sriov")
	other, err := vfio.Make(r, r.discover(), asks(t, "gputype=sriov"), vfio.Options{Instance: "vm2"})
	if err != nil {
		t.Fatal(err)
	}
	theirs := other.Devices[0].BDF.String()
	for _, w := range other.Writes {
		r.echo(w.Text, w.Path)
	}
	script, err := vfio.Script(p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.sh(script, "stop") || r.function(theirs).Driver != "vfio-pci" {
		t.Errorf("stop took %s, which another machine has: %q", theirs, r.writes)
	}
}

// After a reboot nothing of a plan is left, and what looks like it is somebody else's.
func TestScriptAfterAReboot(t *testing.T) {
	r := start(t, load(t, "workstation"))
	r.boot = "2f0c8c6a-7d3e-4f6b-9a53-6f7b0a1c2d3e"
	p := r.carry("pci=0a:00.0")
	script, err := vfio.Script(p)
	if err != nil {
		t.Fatal(err)
	}
	r.boot, r.writes = "a1b2c3d4-7d3e-4f6b-9a53-6f7b0a1c2d3e", nil
	if !r.sh(script, "stop") || r.sh(script, "start") || len(r.writes) > 0 {
		t.Errorf("after a reboot the script writes %q", r.writes)
	}
}

// A plan that somebody edited makes no script of his, and no arguments.
func TestEditedPlan(t *testing.T) {
	r := start(t, load(t, "workstation"))
	p, err := r.plan("pci=0a:00.0")
	if err != nil {
		t.Fatal(err)
	}
	boot, mdev := p, p
	boot.Boot = "$(reboot)"
	mdev.Devices = slices.Clone(p.Devices)
	mdev.Devices[0].MDev = "../../../../dev/x,display=on"
	for _, p := range []vfio.Plan{boot, mdev} {
		_, err := vfio.Script(p)
		refused(t, err, vfio.ReasonBadPlan)
		refused(t, vfio.Carry(t.Context(), r, p), vfio.ReasonBadPlan)
		refused(t, vfio.Return(t.Context(), r, p), vfio.ReasonBadPlan)
	}
	_, err = mdev.Devices[0].Nodes(r)
	refused(t, err, vfio.ReasonBadPlan)
	if len(r.writes) > 0 {
		t.Errorf("writes %q", r.writes)
	}
}

// sh runs a script; ok says whether it ended well. The host answers its questions and
// gets its writes.
func (r *rig) sh(script, how string) (ok bool) {
	r.t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		r.t.Skip("there is no shell")
	}
	body := regexp.MustCompile(`echo (\S*) > (/sys\S+)`).ReplaceAllString(script, `put "$1" $2`)
	body = regexp.MustCompile(`\[ (! )?-e (/sys/bus/mdev\S+) \]`).ReplaceAllString(body, `$1 there $2`)
	body = strings.ReplaceAll(body, "$(cat /proc/sys", "$(tell /proc/sys")
	body = regexp.MustCompile(`(?m)^\tif command -v flock.*$`).ReplaceAllString(body, "\t:")
	var stubs strings.Builder
	stubs.WriteString("ask() { echo \"$*\" >&3; read -r reply <&4; [ \"$reply\" = yes ]; }\ntell() { echo \"tell $1\" >&3; read -r reply <&4; echo \"$reply\"; }\n")
	for _, name := range []string{"bound", "free", "text", "only", "any", "loose", "unused", "there", "put"} {
		fmt.Fprintf(&stubs, "%s() { ask %s \"$@\"; }\n", name, name)
	}
	body = strings.Replace(body, "lost() {", stubs.String()+"lost() {", 1)
	asked, write := pipe(r.t)
	read, answer := pipe(r.t)
	cmd := exec.Command("sh", "-c", body, "script", how)
	cmd.ExtraFiles = []*os.File{write, read}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	write.Close()
	for lines := bufio.NewScanner(asked); lines.Scan(); {
		if _, err := io.WriteString(answer, r.reply(lines.Text())+"\n"); err != nil {
			r.t.Fatal(err)
		}
	}
	return cmd.Wait() == nil
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// reply is the host's to one line of a script.
func (r *rig) reply(line string) string {
	f := strings.Split(line, " ")
	is := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	text := func(p string) string {
		data, err := r.ReadFile(p)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(data), "\n")
	}
	exists := func(p string) bool {
		_, err := r.Lstat(p)
		return err == nil
	}
	const devices = "/sys/bus/pci/devices/"
	driver := func(bdf string) string {
		link, err := r.Readlink(devices + bdf + "/driver")
		if errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return path.Base(link)
	}
	switch f[0] {
	case "bound":
		return is(driver(f[2]) == f[1])
	case "free":
		return is(exists(devices+f[2]) && driver(f[2]) != f[1])
	case "text":
		return is(text(f[2]) == f[1])
	case "only":
		return is(text(devices+f[2]+"/driver_override") == f[1])
	case "any":
		return is(exists(devices+f[1]) && text(devices+f[1]+"/driver_override") == "(null)")
	case "loose":
		return is(driver(f[1]) == "" || driver(f[1]) == "vfio-pci")
	case "there":
		return is(exists(f[1]))
	case "unused":
		for _, v := range r.Model().VFs {
			if v.Driver == "vfio-pci" {
				return "no"
			}
		}
		return "yes"
	case "put":
		return is(r.Write(f[2], []byte(f[1]+"\n")) == nil)
	case "tell":
		return text(f[1])
	}
	r.t.Fatalf("the script says %q", line)
	return ""
}
