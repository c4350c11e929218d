package driverfs

import (
	"path"
	"regexp"

	"gpurig/fakehw/elfgen"
)

var versionEnd = regexp.MustCompile(`\.so\.([0-9]+(?:\.[0-9]+)*)$`)

// Library returns the stand-in for a library of the driver of which only the
// file name ("libcuda.so.550.163.01") and the SONAME are known, such as one of a
// recorded machine. The version is for files whose name has none.
func Library(arch, version, file, soname string) ([]byte, error) {
	o := elfgen.Object{Arch: arch, Name: file, Version: version, SONAME: soname, Needed: "libc.so.6"}
	if m := versionEnd.FindStringSubmatch(file); m != nil {
		o.Name, o.Version = file[:len(file)-len(m[1])-1], m[1]
	}
	o.Functions = functions[o.Name]
	return memo(o, elfgen.Library)
}

// Program is Library for an executable.
func Program(arch, version, file string) ([]byte, error) {
	return memo(elfgen.Object{Arch: arch, Name: path.Base(file), Version: version}, elfgen.Program)
}
