package hook_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// listing tells everything that matters of a tree: paths, modes, owners, link
// texts, contents.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			text, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %s", text)
		case unix.S_IFREG:
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if len(data) > 64 {
				fmt.Fprintf(&b, " %d bytes %x", len(data), sha256.Sum256(data))
			} else {
				fmt.Fprintf(&b, " %q", data)
			}
		}
		fmt.Fprintln(&b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// differing tells the lines that only one of two texts has.
func differing(want, got string) string {
	var out strings.Builder
	for _, side := range []struct{ sign, in, other string }{{"-", want, got}, {"+", got, want}} {
		for line := range strings.Lines(side.in) {
			if !strings.Contains("\n"+side.other, "\n"+line) {
				out.WriteString(side.sign + line)
			}
		}
	}
	if out.Len() == 0 {
		return "only in the order of lines:\n" + got
	}
	return out.String()
}
