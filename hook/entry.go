//go:build amd64 || arm64

package hook

// entry is where the shipped program begins, by the linker's flag -E: before Go has
// started a thread, each of which has a bounding set of its own. There is nothing left
// for again then.
func entry()
