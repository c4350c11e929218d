package workload

import "bytes"

// Spoil replaces a word of the kernels: what then runs is not what the CPU does.
func Spoil(from, to string) { ptx = bytes.Replace(ptx, []byte(from), []byte(to), 1) }
