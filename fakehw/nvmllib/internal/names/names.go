// Package names reads the names of functions from nvml.h and from our own C
// files. The generator of stubs uses it, and the test that the stubs are
// complete.
package names

import (
	"regexp"
	"slices"
)

var (
	declared = regexp.MustCompile(`\bDECLDIR\b[ *a-z]*\b(nvml[A-Z]\w*)\s*\(`)
	// Older names of a function, kept by a macro: nvmlInit for nvmlInit_v2.
	renamed = regexp.MustCompile(`(?m)^\s*#\s*define\s+(nvml[A-Z]\w*)\s+nvml[A-Z]\w*\s*$`)
	defined = regexp.MustCompile(`(?m)^(?:API [\w \*]+?\b(nvml[A-Z]\w*)\(|(TEXT_CALL|NUMBER_CALL|STUB|PLAIN|INDEXED|PAIR|LONG|STRUCT|VERSIONED|PROCESSES)\((\w+))`)
	typ     = regexp.MustCompile(`_t$`)
)

// Declared returns the functions that a header of NVML declares, sorted, with
// the older names that its macros replace.
func Declared(header []byte) []string {
	var out []string
	for _, re := range []*regexp.Regexp{declared, renamed} {
		for _, m := range re.FindAllSubmatch(header, -1) {
			if !typ.Match(m[1]) {
				out = append(out, string(m[1]))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Defined returns the functions that one of our C files defines, as they stand
// there.
func Defined(source []byte) []string {
	var out []string
	for _, m := range defined.FindAllSubmatch(source, -1) {
		switch {
		case len(m[1]) > 0:
			out = append(out, string(m[1]))
		case string(m[2]) == "PROCESSES": // every form of the call
			out = append(out, "nvml"+string(m[3]), "nvml"+string(m[3])+"_v2", "nvml"+string(m[3])+"_v3")
		default:
			out = append(out, "nvml"+string(m[3]))
		}
	}
	return out
}
