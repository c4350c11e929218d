package machine

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/mountcall"
)

// bind is mount(2) of what is mounted already: what is made of a part of procfs
// keeps what stands there for the host's, whether it is recursive or not. Where the
// part is mounted on itself, as runtimes do that then make it read-only, what it
// covers is taken off: as on a real machine, each path is mounted once.
func (k *containers) bind(call mountcall.Call, who mountcall.Caller) error {
	source, err := who.String(call.Args[0])
	if err != nil {
		return err
	}
	target, err := who.String(call.Args[1])
	if err != nil {
		return err
	}
	if err := who.Enter(); err != nil {
		return err
	}
	from, err := who.Path(source, 0)
	if err != nil {
		return errNotOurs
	}
	defer unix.Close(from)
	var st, to unix.Stat_t
	if k.kindOf(unix.Gettid(), from) != "proc" || unix.Fstat(from, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return errNotOurs
	}
	ours := k.below(from)
	at, err := who.Path(target, 0)
	if err != nil {
		return errNotOurs
	}
	itself := unix.Fstat(at, &to) == nil && st.Dev == to.Dev && st.Ino == to.Ino
	unix.Close(at)
	if len(ours) == 0 || !itself && call.Args[3]&unix.MS_REC != 0 {
		return errNotOurs
	}
	mnt, err := unix.OpenTree(from, "", openTreeClone|atRecursive|unix.AT_EMPTY_PATH|unix.O_CLOEXEC)
	if err != nil {
		return errNotOurs
	}
	defer unix.Close(mnt)
	if itself {
		if err := unix.Fchdir(from); err != nil {
			return err
		}
		for _, rel := range ours {
			_ = unix.Unmount(rel, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // one that is locked stays
		}
	}
	return k.put(call, who, mnt, target)
}

// below lists what we mounted below a directory of procfs, wherever that is.
func (k *containers) below(dir int) []string {
	var fuse, st unix.Stat_t
	if unix.Fstat(k.fuse, &fuse) != nil {
		return nil
	}
	var out []string
	for _, f := range k.fakes {
		rel, ok := strings.CutPrefix(f.To, "/proc/")
		for ; ok; _, rel, ok = strings.Cut(rel, "/") {
			if unix.Fstatat(dir, rel, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Dev == fuse.Dev && mountRoot(dir, rel) {
				out = append(out, rel)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}
