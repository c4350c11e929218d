package inroot

import (
	"golang.org/x/sys/unix"

	"gpurig/hook/calls"
)

// An object is a file or directory, by whatever path and mount it is reached.
type object struct{ dev, ino uint64 }

// admitted are the objects of the host that the plan mounts into the container.
type admitted struct {
	objects map[object]bool
	dirs    []string        // where directories of them are mounted
	mounts  map[uint64]bool // on which those directories were found; nil: not looked for yet
}

// Admit lets reads cross the mount at p if what is mounted there is the object
// that st is of, and nothing else of that name. Below a directory its mount is
// read as well.
func (r *Root) Admit(p string, st unix.Stat_t) {
	if r.admitted.objects == nil {
		r.admitted.objects = map[object]bool{}
	}
	r.admitted.objects[object{st.Dev, st.Ino}] = true
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		r.admitted.dirs = append(r.admitted.dirs, p)
	}
}

// look opens what is at p, by O_PATH, for reading: on the root's own mount, on the
// container's own /dev, or admitted.
func (r *Root) look(p string, flags int) (int, error) {
	a, q, err := r.anchor(p)
	if err != nil {
		return -1, err
	}
	fd, err := a.find(q, flags, sameMount)
	if err != unix.EXDEV || a != r || len(r.admitted.objects) == 0 {
		return fd, err
	}
	// Whatever else is said of a path that crosses a mount, EXDEV stays the answer.
	if fd, err = r.find(p, flags, anyMount); err != nil {
		return -1, unix.EXDEV
	}
	if !r.isAdmitted(fd) {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, nil
}

func (r *Root) isAdmitted(fd int) bool {
	if r.isObject(fd) {
		return true
	}
	if r.admitted.mounts == nil {
		r.admitted.mounts = map[uint64]bool{}
		for _, p := range r.admitted.dirs {
			r.admitMount(p)
		}
	}
	id, err := mountID(fd)
	return err == nil && r.admitted.mounts[id]
}

func (r *Root) isObject(fd int) bool {
	var st unix.Stat_t
	return calls.Fstat(fd, &st) == nil && r.admitted.objects[object{st.Dev, st.Ino}]
}

// admitMount notes the mount of a directory that is admitted.
func (r *Root) admitMount(p string) {
	fd, err := r.find(p, unix.O_DIRECTORY, anyMount)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !r.isObject(fd) {
		return
	}
	if id, err := mountID(fd); err == nil && id != r.mount {
		r.admitted.mounts[id] = true
	}
}
