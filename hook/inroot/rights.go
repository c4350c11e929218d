package inroot

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// overrides are the capabilities that pass over a file's mode.
const overrides = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// enter gives the calling thread the file system ids of the container's root and
// takes the capabilities away by which modes would not count.
func (r *Root) enter() error {
	setEffective(0, overrides)
	if effective()&overrides != 0 {
		return fmt.Errorf("give up rights over modes: %w", unix.EPERM)
	}
	if !r.mapped || r.owner == (Owner{}) {
		return nil
	}
	unix.Setfsgid(int(r.owner.GID))
	unix.Setfsuid(int(r.owner.UID)) // and the kernel takes what else goes with files
	if now, _ := unix.SetfsuidRetUid(-1); now != int(r.owner.UID) {
		return fmt.Errorf("files as user %d, the container's root: %w", r.owner.UID, unix.EPERM)
	}
	return nil
}

// leave takes back what enter did. A capability that was given up for good does
// not come back.
func (r *Root) leave() {
	if r.mapped && r.owner != (Owner{}) {
		unix.Setfsuid(os.Geteuid())
		unix.Setfsgid(os.Getegid())
	}
	setEffective(overrides, 0)
}

// Enter has the calling thread do everything in the root as the container's root
// would, until leave: with its ids, and without the host's rights over modes. The
// goroutine stays on its thread.
//
// It is less than the container's root has: its own CAP_DAC_OVERRIDE counts for
// all files whose ids it knows, and which those are is not known here.
func (r *Root) Enter() (leave func(), err error) {
	runtime.LockOSThread()
	leave = func() {
		r.leave()
		runtime.UnlockOSThread()
	}
	if err := r.enter(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// Outside runs f, which is about files of the host, with the ids from before
// Enter.
func (r *Root) Outside(f func() error) error {
	r.leave()
	err := f()
	if back := r.enter(); err == nil {
		err = back
	}
	return err
}

// changing makes one change in the directory dir. A directory that belongs to the
// container's root is its own to change whatever its mode, 0555 on some
// distributions, and so is every one where no ids are mapped.
func (r *Root) changing(dir int, change func() error) error {
	r.unpin()
	err := calls.Again(change)
	if err != unix.EACCES {
		return err
	}
	var st unix.Stat_t
	if calls.Fstat(dir, &st) != nil || r.mapped && st.Uid != r.owner.UID {
		return err
	}
	if !setEffective(1<<unix.CAP_DAC_OVERRIDE, 0) {
		return err
	}
	defer setEffective(0, overrides)
	return calls.Again(change)
}

// giveTo makes a file, one of ours, another user's.
func giveTo(f *os.File, o Owner) error {
	if setEffective(1<<unix.CAP_CHOWN, 0) {
		defer setEffective(0, 1<<unix.CAP_CHOWN)
	}
	return f.Chown(int(o.UID), int(o.GID))
}

func (r *Root) unlink(dir int, name string, flags int) error {
	return r.changing(dir, func() error { return unix.Unlinkat(dir, name, flags) })
}

// setEffective adds capabilities that are permitted to those in effect and takes
// others out, of the calling thread. It reports whether anything changed.
func setEffective(add, remove uint32) bool {
	head, now, err := capabilities()
	want := now[0].Effective&^remove | add&now[0].Permitted
	if err != nil || want == now[0].Effective {
		return false
	}
	now[0].Effective = want
	return unix.Capset(&head, &now[0]) == nil
}

func effective() uint32 {
	_, now, _ := capabilities()
	return now[0].Effective
}

func capabilities() (head unix.CapUserHeader, now [2]unix.CapUserData, err error) {
	head.Version = unix.LINUX_CAPABILITY_VERSION_3
	err = unix.Capget(&head, &now[0])
	return head, now, err
}
