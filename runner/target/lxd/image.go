package lxd

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"gpurig/fakehw/tree"
	"gpurig/runner/image"
)

// imageTar returns an image as LXD imports it: one tar file with metadata.yaml
// and the root file system below rootfs. The name is in the metadata, so that
// equal images of two runs have fingerprints of their own.
//
// Reference: https://documentation.ubuntu.com/lxd/en/latest/reference/image_format/
func imageTar(img *image.Image, name string) (io.Reader, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	meta := fmt.Sprintf("architecture: x86_64\ncreation_date: 1\nproperties:\n  description: %s\n  os: gpurig\n", name)
	if err := add(w, tar.Header{Typeflag: tar.TypeReg, Name: "metadata.yaml", Mode: 0o644}, []byte(meta)); err != nil {
		return nil, err
	}
	if err := add(w, tar.Header{Typeflag: tar.TypeDir, Name: "rootfs/", Mode: 0o755}, nil); err != nil {
		return nil, err
	}
	err := img.Tree.Walk(func(p string, e *tree.Entry) error {
		if p == "/" {
			return nil
		}
		h := tar.Header{Name: "rootfs" + p, Mode: int64(e.Mode.Perm()), Uid: int(e.UID), Gid: int(e.GID)}
		switch {
		case e.Mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
			return add(w, h, nil)
		case e.IsLink():
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
			return add(w, h, nil)
		case e.Mode.IsRegular():
			h.Typeflag = tar.TypeReg
			return add(w, h, e.Data)
		}
		return fmt.Errorf("%s: %v in an image", p, e.Mode.Type())
	})
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return strings.NewReader(b.String()), nil
}

func add(w *tar.Writer, h tar.Header, data []byte) error {
	h.Size, h.ModTime, h.Format = int64(len(data)), time.Unix(1, 0), tar.FormatPAX
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
