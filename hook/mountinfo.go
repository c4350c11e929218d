package hook

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// local are file systems whose answer does not depend on another machine or
// program: a call on them comes back. All others may leave a process waiting in
// the kernel, where nothing can end it.
var local = []string{
	"bcachefs", "binfmt_misc", "bpf", "btrfs", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
	"erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore", "ramfs", "rootfs",
	"securityfs", "squashfs", "sysfs", "tmpfs", "tracefs", "vfat", "xfs", "zfs",
}

// A mountLine is one line of mountinfo, proc_pid_mountinfo(5).
type mountLine struct {
	point, kind string
	options     []string // of the file system
}

const maxMountinfo = 16 << 20

func readMounts(name string) ([]mountLine, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMountinfo+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxMountinfo {
		return nil, fmt.Errorf("%s: more than %d bytes", name, maxMountinfo)
	}
	return parseMounts(string(data))
}

func parseMounts(text string) ([]mountLine, error) {
	var out []mountLine
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			return nil, fmt.Errorf("mountinfo: line %q", line)
		}
		out = append(out, mountLine{point: unescape(left[4]), kind: right[0], options: strings.Split(right[2], ",")})
	}
	return out, nil
}

// unescape reads the four characters that mountinfo writes in octal.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mayHang reports whether the job leads to a file system that may never answer:
// the one that the hook file is on, the one of the root, or one mounted below
// it. What cannot be found out counts as yes.
func mayHang(j Job) bool {
	own, err := readMounts("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	if _, ok := leads(own, j.File); !ok {
		return true
	}
	inside, root, ok := own, "/", true
	if j.PID != 0 {
		inside, err = readMounts(fmt.Sprintf("/proc/%d/mountinfo", j.PID))
		ok = err == nil && responds(inside, own, root)
	} else {
		root, ok = leads(own, j.Root)
	}
	return !ok || slices.ContainsFunc(inside, func(m mountLine) bool { return below(m.point, root) && !m.responds(own, 0) })
}

// leads follows the links on the way to p and returns where it leads. It is false
// if that way, or p, is on a file system that may not answer: nothing on such a
// one is touched.
func leads(own []mountLine, p string) (string, bool) {
	at, rest := "/", split(p)
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if !responds(own, own, next) {
			return "", false
		}
		text, err := os.Readlink(next)
		if err != nil { // no link, or not there: whoever opens it will tell
			at = next
			continue
		}
		if links++; links > 40 {
			return "", false
		}
		if path.IsAbs(text) {
			at = "/"
		}
		rest = append(split(text), rest...)
	}
	return at, responds(own, own, at)
}

func below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// responds reports whether the file system that p is on comes back.
func responds(mounts, own []mountLine, p string) bool {
	m := covering(mounts, p)
	return m != nil && m.responds(own, 0)
}

// covering is the mount that p is on: of the deepest the last, which lies on top.
func covering(mounts []mountLine, p string) *mountLine {
	var best *mountLine
	for i := range mounts {
		if m := &mounts[i]; below(p, m.point) && (best == nil || len(m.point) >= len(best.point)) {
			best = m
		}
	}
	return best
}

// maxLayers bounds how deep overlays of overlays are looked into.
const maxLayers = 4

// responds is true of a local file system, and of an overlay whose layers, which
// lie in the host's tree, are on such.
func (m mountLine) responds(own []mountLine, depth int) bool {
	if m.kind != "overlay" {
		return slices.Contains(local, m.kind)
	}
	if depth == maxLayers {
		return false
	}
	found := false
	for _, o := range m.options {
		name, value, _ := strings.Cut(o, "=")
		if !strings.HasPrefix(name, "lowerdir") && name != "upperdir" {
			continue
		}
		for dir := range strings.SplitSeq(unescape(value), ":") {
			if dir == "" {
				continue
			}
			layer := covering(own, path.Clean(dir))
			if !path.IsAbs(dir) || layer == nil || !layer.responds(own, depth+1) {
				return false
			}
			found = true
		}
	}
	return found
}
