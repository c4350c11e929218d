package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gpurig/fakehw/tree"
)

// MakeSockets makes the image's sockets in its root, the folder dir, each owned by id of
// its own ids: what a container's id is called on the host.
func (i *Image) MakeSockets(dir string, id func(uint32) uint32) error {
	return i.Tree.Walk(func(p string, e *tree.Entry) error {
		if e.Mode&fs.ModeSocket == 0 {
			return nil
		}
		at := filepath.Join(dir, p) // no link is on the way
		err := unix.Mknod(at, unix.S_IFSOCK|uint32(e.Mode.Perm()), 0)
		if err == nil {
			err = errors.Join(unix.Chmod(at, uint32(e.Mode.Perm())), unix.Lchown(at, int(id(e.UID)), int(id(e.GID))))
		}
		if err != nil {
			return &fs.PathError{Op: "make the socket", Path: p, Err: err}
		}
		return nil
	})
}

// WriteTar writes all files of the image, their paths below prefix ("" or
// "rootfs"). Equal images give equal bytes. No archive has sockets: MakeSockets
// makes them in the root that came of it.
func (i *Image) WriteTar(w *tar.Writer, prefix string) error {
	return i.Tree.Walk(func(p string, e *tree.Entry) error {
		h := tar.Header{Name: strings.TrimPrefix(prefix+p, "/"), Mode: int64(e.Mode.Perm()), Uid: int(e.UID), Gid: int(e.GID)}
		switch {
		case p == "/" && prefix == "":
			return nil
		case p == "/":
			h.Typeflag = tar.TypeDir
			return AddTar(w, h, nil)
		case e.Mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			return AddTar(w, h, nil)
		case e.IsLink():
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
			return AddTar(w, h, nil)
		case e.Mode.IsRegular():
			h.Typeflag = tar.TypeReg
			return AddTar(w, h, e.Data)
		case e.Mode&fs.ModeNamedPipe != 0:
			h.Typeflag = tar.TypeFifo
			return AddTar(w, h, nil)
		case e.Mode&fs.ModeSocket != 0:
			return nil
		}
		return fmt.Errorf("%s: %v in an image", p, e.Mode.Type())
	})
}

// AddTar writes one file, at the time that every file of an image has.
func AddTar(w *tar.Writer, h tar.Header, data []byte) error {
	h.Size, h.ModTime, h.Format = int64(len(data)), time.Unix(1, 0), tar.FormatPAX
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
