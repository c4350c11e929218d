package image

import (
	"archive/tar"
	"fmt"
	"strings"
	"time"

	"gpurig/fakehw/tree"
)

// WriteTar writes all files of the image, their paths below prefix ("" or
// "rootfs"). Equal images give equal bytes.
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
