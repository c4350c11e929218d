package translate_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/translate"
)

// P5: what a Spec of the size that is read can have the translator do is bounded
// by counts. Nothing here looks at the clock.

// An endless host has whatever is asked for: directories, links l0 to l39 that
// lead deep down to the next one each, and as many names in each directory as a
// translation may read in all. It counts what it is asked, and says nothing more
// when that is too much.
type endless struct{ asked int }

func (e *endless) ask() error {
	if e.asked++; e.asked > 2*translate.MaxLooks {
		return fs.ErrPermission
	}
	return nil
}

func (e *endless) Lstat(p string) (host.Info, error) {
	if err := e.ask(); err != nil {
		return host.Info{}, err
	}
	if name := path.Base(p); name[0] == 'l' {
		return host.Info{Mode: fs.ModeSymlink | 0o777}, nil
	} else if strings.Contains(name, ".so") {
		return host.Info{}, fs.ErrNotExist
	}
	return host.Info{Mode: fs.ModeDir | 0o755}, nil
}

func (e *endless) Readlink(p string) (string, error) {
	if err := e.ask(); err != nil {
		return "", err
	}
	n, _ := strconv.Atoi(path.Base(p)[1:])
	if n+1 == host.MaxLinks {
		return "/end", nil
	}
	return fmt.Sprintf("%s/l%d", strings.Repeat("/deep", translate.MaxDepth), n+1), nil
}

func (e *endless) ReadFile(string) ([]byte, error) { return nil, cmp.Or(e.ask(), fs.ErrNotExist) }

func (e *endless) ReadDir(string) ([]string, error) {
	return make([]string, translate.MaxLooks), e.ask()
}

func TestP5AHostIsAskedSoManyTimes(t *testing.T) {
	for name, source := range map[string]string{
		"long chains of links":     "/usr/share/nvidia/%d/l0/x",
		"links that never end":     "/usr/share/nvidia/%d/l-1000/x",
		"directories without end":  "/usr/share/nvidia/550.1/%d/x.so.550.1",
		"directories in the depth": "/usr/share/nvidia/%d" + strings.Repeat("/d", translate.MaxDepth-5) + "/x",
	} {
		t.Run(name, func(t *testing.T) {
			var e specs.ContainerEdits
			for i := range 10_000 {
				e.Mounts = append(e.Mounts, roMount(fmt.Sprintf(source, i), fmt.Sprintf("/opt/%d", i)))
			}
			h := &endless{}
			p, err := translate.Edits(h, editsOf(e), translate.Options{})
			if !errors.Is(err, translate.ReasonTooMany) || len(p.Mounts) > 0 {
				t.Errorf("%d mounts, %.300v", len(p.Mounts), err)
			}
			if h.asked > translate.MaxLooks {
				t.Errorf("the host was asked %d times", h.asked)
			}
		})
	}
}

func TestP5LinksOfAPlanAreFollowedSoManyTimes(t *testing.T) {
	deep := strings.Repeat("/d", translate.MaxDepth-2)
	links := []string{"create-symlinks", "--link", deep + "/l0::/l0"}
	for i := range host.MaxLinks - 1 {
		links = append(links, "--link", fmt.Sprintf("%s/l%d::%s/l%d", deep, i+1, deep, i))
	}
	for name, more := range map[string]string{"through a chain": "x::/l0/%d", "one path, many ends": "/l0/%d::/b"} {
		t.Run(name, func(t *testing.T) {
			args := links
			for i := range 9_900 {
				args = append(args, "--link", fmt.Sprintf(more, i))
			}
			if p, err := translate.Edits(newHost(t), editsOf(hooks(hook(args...))), translate.Options{}); !errors.Is(err, translate.ReasonTooMany) {
				t.Errorf("%d links, %.300v", len(p.Links), err)
			}
		})
	}
}

func TestP5PathsAreNotDeep(t *testing.T) {
	const links = "/usr/share"
	at := func(above string, n int) string { return above + strings.Repeat("/d", n-strings.Count(above, "/")) }
	for name, edit := range map[string]func(n int) specs.ContainerEdits{
		"mount": func(n int) specs.ContainerEdits { return mounts(roMount("/usr/bin/nvidia-smi", at(links, n))) },
		"link":  func(n int) specs.ContainerEdits { return hooks(hook("create-symlinks", "--link", "x::"+at(links, n))) },
		"link, target": func(n int) specs.ContainerEdits {
			return hooks(hook("create-symlinks", "--link", at(links, n)+"::/usr/x"))
		},
		"link, target beside it": func(n int) specs.ContainerEdits {
			return hooks(hook("create-symlinks", "--link", at("", n-2)[1:]+"::/usr/share/x"))
		},
		"folder": func(n int) specs.ContainerEdits { return hooks(hook("update-ldcache", "--folder", at("/usr/lib", n))) },
		"mode": func(n int) specs.ContainerEdits {
			return hooks(hook("chmod", "--mode", "755", "--path", at("/dev/dri", n)))
		},
		"node": func(n int) specs.ContainerEdits {
			return nodes(&specs.DeviceNode{Path: at("/dev/dri", n), HostPath: "/dev/nvidia0"})
		},
	} {
		if _, err := translate.Edits(newHost(t), editsOf(edit(translate.MaxDepth)), translate.Options{}); err != nil {
			t.Errorf("%s of %d names: %v", name, translate.MaxDepth, err)
		}
		if _, err := translate.Edits(newHost(t), editsOf(edit(translate.MaxDepth+1)), translate.Options{}); err == nil || !strings.Contains(err.Error(), "names deep") {
			t.Errorf("%s of %d names: %v", name, translate.MaxDepth+1, err)
		}
	}
	// By way of a link of the plan, a link can lie deeper than its own path says.
	e := hooks(hook("create-symlinks", "--link", at(links, translate.MaxDepth)+"::/opt/l", "--link", "x::/opt/l/x"))
	if _, err := translate.Edits(newHost(t), editsOf(e), translate.Options{}); !errors.Is(err, translate.ReasonLink) || !strings.Contains(err.Error(), "by way of other links") {
		t.Errorf("a link below a link: %v", err)
	}
}

// What thousands of devices share is not copied for each of them.
func TestP5MemoryIsInProportionToDevices(t *testing.T) {
	allocated := func(devices int) float64 {
		var edits []cdi.Edits
		for i := range devices {
			e := env("NVIDIA_A=1", "NVIDIA_B=1", "NVIDIA_C=1", "NVIDIA_D=1")
			edits = append(edits, cdi.Edits{Device: fmt.Sprintf("nvidia.com/gpu=%d", i), Kind: "nvidia.com/gpu", Edits: &e})
		}
		h := newHost(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := translate.Edits(h, edits, translate.Options{}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(devices)
	}
	few, many := allocated(cdi.MaxAsked/16), allocated(cdi.MaxAsked)
	if many > 2*few {
		t.Errorf("%.0f bytes for each of %d devices, %.0f for each of %d", many, cdi.MaxAsked, few, cdi.MaxAsked/16)
	}
}
