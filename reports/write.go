package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrFormat marks a report file whose name says no known format.
var ErrFormat = errors.New("no such report format")

// Formats are the file name extensions that Write knows.
var Formats = []string{".json", ".xml", ".md"}

// Render returns the report in the format that the file's extension names.
func Render(file string, r Report) ([]byte, error) {
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".json":
		return JSON(r)
	case ".xml":
		return JUnit(r)
	case ".md":
		return Markdown(r), nil
	default:
		return nil, fmt.Errorf("%s: %w: name it %s", file, ErrFormat, strings.Join(Formats, ", "))
	}
}

// CheckFile says, before a run, whether Write could write the file: the format
// is known, the folder is there, nothing but a regular file is in the way.
func CheckFile(file string) error {
	if _, err := Render(file, Report{}); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s: not a folder", filepath.Dir(file))
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: there is something that is no regular file", file)
	}
	return nil
}

// Write writes the report, in the format of the extension: the old file or the
// new one, never a part.
func Write(file string, r Report) error {
	if err := CheckFile(file); err != nil {
		return err
	}
	data, err := Render(file, r)
	if err != nil {
		return err
	}
	return WriteFile(file, data)
}

// WriteFile writes data as the file name, 0644: the old file or the new one,
// never a part, whenever it is killed. Its folder must be there.
func WriteFile(name string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".gpurig-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
