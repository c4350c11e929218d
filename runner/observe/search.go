package observe

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"syscall"
)

// maxFolders bounds the depth of a search.
const maxFolders = 64

// lookContents reads the files that are asked for.
func (l *looker) lookContents(paths []string) {
	for _, p := range paths {
		c := Content{Path: path.Clean(p)}
		data, err := l.v.ReadFile(p)
		switch {
		case err == nil:
			c.Text = string(data)
		case missing(err) || errors.Is(err, syscall.ELOOP):
			c.Problem = "no such file"
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENXIO):
			c.Problem = "cannot be read"
		default:
			l.problem(p, err)
			continue
		}
		l.o.Contents = append(l.o.Contents, c)
	}
}

// search looks for texts in every file that can be read, and in every link.
func (l *looker) search(texts []string) {
	if len(texts) > 0 {
		l.searchFolder("/", texts, 0)
	}
}

func (l *looker) searchFolder(dir string, texts []string, depth int) {
	names, err := l.v.ReadDir(dir)
	if missing(err) || errors.Is(err, fs.ErrPermission) {
		return
	}
	l.problem("folder "+dir, err)
	if depth == maxFolders {
		l.problem(dir, errors.New("too many folders deep to be searched"))
		return
	}
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := l.v.Lstat(p)
		if err != nil {
			if !missing(err) && !errors.Is(err, fs.ErrPermission) {
				l.problem(p, err)
			}
			continue
		}
		var data []byte
		switch {
		case info.Mode.IsDir():
			if !isUnsearched(p) {
				l.searchFolder(p, texts, depth+1)
			}
			continue
		case info.IsLink():
			var text string
			text, err = l.v.Readlink(p)
			data = []byte(text)
		case info.Mode.IsRegular():
			data, err = l.v.ReadFile(p)
		}
		if err != nil && !missing(err) && !errors.Is(err, fs.ErrPermission) {
			l.problem(p, err)
		}
		for _, t := range texts {
			if bytes.Contains(data, []byte(t)) {
				l.o.Found = append(l.o.Found, Found{Text: t, Path: p})
			}
		}
	}
}

// isUnsearched reports whether a folder is one of the kernel's own file systems, or ours:
// what those tell is not the root's.
func isUnsearched(p string) bool { return p == "/proc" || p == "/sys" || isBaseDir(p) }
