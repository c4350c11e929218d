package lxd

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"

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
	if err := image.AddTar(w, tar.Header{Typeflag: tar.TypeReg, Name: "metadata.yaml", Mode: 0o644}, []byte(meta)); err != nil {
		return nil, err
	}
	if err := img.WriteTar(w, "rootfs"); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &b, nil
}
