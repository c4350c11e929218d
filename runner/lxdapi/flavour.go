package lxdapi

import (
	"fmt"
	"os"
)

// A Flavour is which of the two programs answers.
type Flavour string

// The flavours.
const (
	LXD   Flavour = "lxd"
	Incus Flavour = "incus"
)

// words are all that differs between the two on the wire and on disk.
type words struct {
	header string // prefix of HTTP headers
}

var flavours = map[Flavour]struct {
	words
	daemon  string   // program
	dirVar  string   // environment variable that names the state directory
	hint    string   // how to get it
	sockets []string // where a daemon of the machine listens
	guest   string   // folder of the guest API in a container
}{
	LXD: {words{"X-LXD-"}, "lxd", "LXD_DIR", "install LXD: apt-get install lxd",
		[]string{"/var/snap/lxd/common/lxd/unix.socket", "/var/lib/lxd/unix.socket"}, "/dev/lxd"},
	Incus: {words{"X-Incus-"}, "incusd", "INCUS_DIR", "install Incus: apt-get install incus",
		[]string{"/run/incus/unix.socket", "/var/lib/incus/unix.socket"}, "/dev/incus"},
}

// flavourOf reads what a server calls itself.
func flavourOf(server string) (Flavour, words, error) {
	f, ok := flavours[Flavour(server)]
	if !ok {
		return "", words{}, fmt.Errorf("the daemon calls itself %q, which is neither lxd nor incus", server)
	}
	return Flavour(server), f.words, nil
}

// Daemon is the program that serves; DirVariable the variable that tells it
// where to keep its state; Hint says how to get it.
func (f Flavour) Daemon() string { return flavours[f].daemon }

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
