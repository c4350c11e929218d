package target

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"gpurig/core/hookspec"
)

// ForgetWarnings removes what cdi-hook left beside its file at an earlier start.
func ForgetWarnings(hookFile string) error {
	if err := os.Remove(hookspec.WarningsFile(hookFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// HookWarnings reads what cdi-hook left beside its file; nothing where there is no
// such file. The error is ErrBroken.
func HookWarnings(hookFile string) ([]hookspec.Warning, error) {
	f, err := os.Open(hookspec.WarningsFile(hookFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hookspec.MaxWarningsBytes+1))
	if err == nil {
		var list []hookspec.Warning
		if list, err = hookspec.ParseWarnings(data); err == nil {
			return list, nil
		}
	}
	return nil, errors.Join(ErrBroken, err)
}
