package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/live"
	"gpurig/fakehw/tree"
)

// A kobjects sends the uevents of a host's devices: the kernel itself broadcasts them
// in our network namespace, to udevadm monitor -k and libudev, and numbers them.
//
// Reference: uevent_net_rcv_skb in lib/kobject_uevent.c (Linux 4.18)
type kobjects struct {
	socket int
	of     map[string]kobject // by path of the device
}

// A kobject is what is said of a device, also when it has gone.
type kobject struct {
	subsystem, driver string
	env               []string
}

// errOwnNetwork is why no uevents are sent: the real machine's udev would take the fake
// devices for its own.
var errOwnNetwork = errors.New("uevents would reach this machine's own udev: gpurig has the network namespace of the processes that it descends from")

// ownNetwork reports whether a process that we descend from has another network
// namespace than we: then ours was made for this.
func ownNetwork() bool {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return false
	}
	for pid := os.Getppid(); pid > 0; {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err != nil || its != own {
			return err == nil
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // PID (NAME) STATE PPID
		if n, _ := fmt.Sscanf(rest, "%1s %d", new(string), &pid); n != 2 {
			return false
		}
	}
	return false
}

// sendUevents returns what sends them.
func sendUevents(h *live.Host) (*kobjects, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	k := &kobjects{socket: fd, of: map[string]kobject{}}
	h.Locker().Lock()
	defer h.Locker().Unlock()
	err = h.Tree().Walk(func(p string, e *tree.Entry) error {
		if strings.HasPrefix(p, "/sys/devices/") && path.Base(p) == "uevent" {
			k.of[path.Dir(p)] = look(h.Tree(), path.Dir(p))
		}
		return nil
	})
	return k, err
}

func (k *kobjects) close() { unix.Close(k.socket) }

// look reads what is said of a device that is there.
func look(t *tree.Tree, dev string) kobject {
	var k kobject
	base := func(name string) string {
		to, err := t.Readlink(dev + "/" + name)
		if err != nil {
			return ""
		}
		return path.Base(to)
	}
	k.subsystem, k.driver = base("subsystem"), base("driver")
	if text, err := t.ReadFile(dev + "/uevent"); err == nil {
		k.env = strings.Fields(string(text))
	}
	return k
}

// changed sends what has become of devices: those that have gone first, from the
// innermost on, then new ones, and those that have another driver.
func (k *kobjects) changed(h *live.Host, changes []tree.Change) error {
	h.Locker().Lock()
	defer h.Locker().Unlock()
	var removed, present []string
	for _, c := range changes {
		name := path.Base(c.Path)
		if !strings.HasPrefix(c.Path, "/sys/devices/") || name != "uevent" && name != "driver" {
			continue
		}
		dev := path.Dir(c.Path)
		if _, err := h.Tree().Lstat(dev + "/uevent"); err != nil {
			removed = append(removed, dev)
		} else {
			present = append(present, dev)
		}
	}
	slices.Sort(removed)
	slices.Reverse(removed)
	slices.Sort(present)
	var errs []error
	for _, dev := range slices.Compact(removed) {
		was, known := k.of[dev]
		if !known {
			continue
		}
		delete(k.of, dev)
		if was.driver != "" {
			errs = append(errs, k.send("unbind", dev, was))
		}
		errs = append(errs, k.send("remove", dev, was))
	}
	var bound []string
	for _, dev := range slices.Compact(present) {
		was, known := k.of[dev]
		is := look(h.Tree(), dev)
		k.of[dev] = is
		if was.driver != "" && was.driver != is.driver {
			errs = append(errs, k.send("unbind", dev, was))
		}
		if !known {
			errs = append(errs, k.send("add", dev, is))
		}
		if is.driver != "" && was.driver != is.driver {
			bound = append(bound, dev)
		}
	}
	for _, dev := range slices.Backward(bound) { // a driver has made its devices by then
		errs = append(errs, k.send("bind", dev, k.of[dev]))
	}
	return errors.Join(errs...)
}

func (k *kobjects) send(action, dev string, o kobject) error {
	at := strings.TrimPrefix(dev, "/sys")
	lines := append([]string{action + "@" + at, "ACTION=" + action, "DEVPATH=" + at, "SUBSYSTEM=" + o.subsystem}, o.env...)
	text := strings.Join(lines, "\x00") + "\x00"
	m := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(text))
	binary.NativeEndian.PutUint32(m, uint32(unix.SizeofNlMsghdr+len(text)))
	binary.NativeEndian.PutUint16(m[4:], unix.NLMSG_MIN_TYPE)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
	if err := unix.Sendto(k.socket, append(m, text...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("uevent %s: %w", lines[0], err)
	}
	return nil
}
