//go:build naive

package lxc

import "strings"

// The negative control: a writer that puts a plan's text on lines as it stands,
// and has liblxc make every mount point. The tests of the attacks must fail with
// it; no program is built of it.

func (e *emitter) mount(source, target, fstype string, options []string) {
	e.line("lxc.mount.entry", source+" "+strings.TrimPrefix(target, "/")+" "+fstype+" "+strings.Join(options, ",")+" 0 0")
}

func writeLine(key, value string) (string, error) { return key + " = " + value, nil }

func madeByLXC(string) bool  { return true }
func known(string) bool      { return true }
func knownTmpfs(string) bool { return true }
func plain(string) bool      { return true }
