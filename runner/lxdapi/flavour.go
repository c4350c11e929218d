package lxdapi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Flavour is which of the two programs answers.
type Flavour string

// The flavours.
const (
	LXD   Flavour = "lxd"
	Incus Flavour = "incus"
)

// words are all that differs between the two on the wire.
type words struct {
	header string   // prefix of HTTP headers
	busy   []string // what is said of a container that is about to start or stop: to be asked again
}

var flavours = map[Flavour]struct {
	words
	title   string
	daemon  string   // program
	places  []string // folders that packages have it in, beside those of the path
	dirVar  string   // environment variable that names the state directory
	hint    string   // how to get it
	sockets []string // where a daemon of the machine listens
}{
	LXD: {words{"X-LXD-", []string{"Instance is busy running a "}},
		"LXD", "lxd", nil, "LXD_DIR", "install LXD: apt-get install lxd",
		[]string{"/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"}},
	// After a start that failed Incus says "Stopped" a moment before liblxc has
	// ended: it refuses to delete the container, then finds no process of it.
	Incus: {words{"X-Incus-", []string{"Instance is busy running a ", "Instance is running", "Invalid PID "}},
		"Incus", "incusd", []string{"/usr/libexec/incus", "/opt/incus/bin"}, "INCUS_DIR", "install Incus: apt-get install incus-base, on Debian 12 from bookworm-backports",
		[]string{"/run/incus/unix.socket", "/var/lib/incus/unix.socket"}},
}

// flavourOf reads what a server calls itself.
func flavourOf(server string) (Flavour, words, error) {
	f, ok := flavours[Flavour(server)]
	if !ok {
		return "", words{}, fmt.Errorf("the daemon calls itself %q, which is neither lxd nor incus", server)
	}
	return Flavour(server), f.words, nil
}

// Daemon is the program that serves, as exec.LookPath finds it: its name, or its
// absolute path where a package has it off the path.
func (f Flavour) Daemon() string {
	name := flavours[f].daemon
	if _, err := exec.LookPath(name); err == nil {
		return name
	}
	for _, dir := range flavours[f].places {
		if at, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return at
		}
	}
	return name
}

// Title is the name as people write it.
func (f Flavour) Title() string { return flavours[f].title }

// DirVariable is the environment variable that names the state directory.
func (f Flavour) DirVariable() string { return flavours[f].dirVar }

// Hint says how to get the program, one sentence.
func (f Flavour) Hint() string { return flavours[f].hint }

// Sockets are where a daemon of the machine listens, that are there.
func (f Flavour) Sockets() []string {
	var out []string
	for _, s := range flavours[f].sockets {
		if st, err := os.Stat(s); err == nil && st.Mode()&os.ModeSocket != 0 {
			out = append(out, s)
		}
	}
	return out
}
