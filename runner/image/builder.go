package image

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"strings"

	"gpurig/fakehw/elfgen"
	"gpurig/fakehw/tree"
)

// A builder fills one tree and keeps the first error.
type builder struct {
	t   *tree.Tree
	set *Set
	err error
}

func (b *builder) do(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *builder) dir(paths ...string) {
	for _, p := range paths {
		b.do(b.t.Mkdir(p, 0o755))
	}
}

func (b *builder) file(p, content string) { b.do(b.t.WriteFile(p, []byte(content), 0o644)) }

func (b *builder) link(p, target string) { b.do(b.t.Symlink(p, target)) }

// library puts a real, tiny library NAME.VERSION into dir. Its SONAME is NAME,
// or NAME.1 for a name that ends in ".so".
func (b *builder) library(dir, name, version string) {
	soname := name
	if strings.HasSuffix(name, ".so") {
		soname += ".1"
	}
	data, err := elfgen.Library(elfgen.Object{Arch: "x86_64", Name: name, Version: version, SONAME: soname})
	b.do(err)
	b.do(b.t.WriteFile(dir+"/"+name+"."+version, data, 0o644))
}

// program puts the machine's file src at p, executable. Where the machine has
// none, a marker takes its place: an ELF file without any content.
func (b *builder) program(p, src string) {
	data, err := b.set.read(src)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = marker(path.Base(p)), nil
	}
	b.do(err)
	b.do(b.t.WriteFile(p, data, 0o755))
}

// read reads a file of the machine once for all images.
func (s *Set) read(src string) ([]byte, error) {
	if data, ok := s.files[src]; ok {
		return data, nil
	}
	data, err := s.source.Read(src)
	if err != nil {
		return nil, err
	}
	s.files[src] = data
	return data, nil
}

// marker returns an ELF header of a 64-bit x86-64 shared object without any
// segment, followed by a name: enough for whoever asks what kind of file it is.
func marker(name string) []byte {
	h := make([]byte, 64, 64+len(name)+1)
	copy(h, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(h[16:], 3)  // e_type: ET_DYN
	binary.LittleEndian.PutUint16(h[18:], 62) // e_machine: EM_X86_64
	binary.LittleEndian.PutUint32(h[20:], 1)  // e_version
	binary.LittleEndian.PutUint16(h[52:], 64) // e_ehsize
	return append(append(h, name...), '\n')
}
