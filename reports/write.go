package reports

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrFormat marks a report file whose name says no known format.
var ErrFormat = errors.New("no such report format")

// Formats are the file name extensions that Write knows.
var Formats = []string{".json", ".xml", ".md", ".html"}

// Render returns the report in the format that the file's extension names.
func Render(file string, r Report) ([]byte, error) {
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".json":
		return JSON(r)
	case ".xml":
		return JUnit(r)
	case ".md":
		return Markdown(r), nil
	case ".html":
		return HTML(r, nil)
	default:
		return nil, fmt.Errorf("%s: %w: name it %s", cmp.Or(file, `""`), ErrFormat, strings.Join(Formats, ", "))
	}
}

// CheckFile says, before a run, whether Write could write the file: the format
// is known, the folder can be written to, or made, and nothing but a regular file is in
// the way.
func CheckFile(file string) error {
	if _, err := Render(file, Report{}); err != nil {
		return err
	}
	dir := filepath.Dir(file)
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir) // Write makes what is below
	}
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s: %s is no folder", file, dir)
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: there is something that is no regular file", file)
	}
	const write, search = 2, 1 // access(2)
	if err := syscall.Access(dir, write|search); err != nil {
		return fmt.Errorf("%s: nothing can be written to the folder: %w", file, err)
	}
	return nil
}

// Write writes the report, in the format of the extension: the old file or the
// new one, never a part. It makes the folder.
func Write(file string, r Report) error {
	if err := CheckFile(file); err != nil {
		return err
	}
	data, err := Render(file, r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return WriteFile(file, data)
}

// WriteFile writes data as the file name, 0644: the old file or the new one,
// never a part, whenever it is killed or the power goes. What a killed one left
// beside the file goes with the next. Its folder must be there.
func WriteFile(name string, data []byte) error {
	dir := filepath.Dir(name)
	sweep(name)
	f, err := temporary(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// temporary makes a file beside name that is locked as long as we live, so that
// sweep can tell it from one that a killed process left.
func temporary(name string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(name), tempPrefix(name)+"*")
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			return nil, &os.PathError{Op: "write", Path: name, Err: pe.Err} // the other name means nothing to anybody
		}
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			if _, gone := os.Lstat(f.Name()); gone == nil {
				return f, nil
			}
		}
		f.Close() // another's sweep came between
		if err != nil && err != syscall.EWOULDBLOCK {
			return nil, errors.Join(&os.PathError{Op: "lock", Path: f.Name(), Err: err}, os.Remove(f.Name()))
		}
	}
}

func tempPrefix(name string) string { return "." + filepath.Base(name) + ".gpurig-" }

// sweep removes the temporaries of name that nobody holds. It is no matter if it
// cannot: they are not the file.
func sweep(name string) {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), tempPrefix(name)) {
			continue
		}
		p := filepath.Join(filepath.Dir(name), e.Name())
		f, err := os.Open(p)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.Remove(p)
		}
		f.Close()
	}
}

// syncDir makes the entries of a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // a file system without it
		return err
	}
	return nil
}
