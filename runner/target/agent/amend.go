package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// RootArg stands for the path of the container's root file system, where it is
// an argument.
const RootArg = "{root}"

// An Amendment is what the configuration of a container gets beyond what its
// engine can say, and what is done before each start.
type Amendment struct {
	// Before is a program that is run, and its arguments; empty: none.
	Before []string `json:"before,omitempty"`
	// Hooks are added to those that the configuration has, by stage
	// ("createContainer"), as config.json has them.
	Hooks map[string][]Hook `json:"hooks,omitempty"`
	// Options are those of mounts, by destination, in place of the engine's.
	Options map[string][]string `json:"options,omitempty"`
	// Lost says that the machine has lost power: what the runtime has of the
	// container is forgotten, and no hook runs.
	Lost bool `json:"lost,omitempty"`
}

// A Hook is one of config.json.
type Hook struct {
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"` // the first is the program's name
}

// Amend stands between an engine and its OCI runtime, as runtimes that inject
// devices do: it amends config.json before the runtime creates a container, and
// is that runtime then. dir has the amendments, NAME.json for the container NAME;
// args are the runtime's own.
//
// Reference: https://github.com/opencontainers/runc/blob/v1.1.5/man/runc-create.8.md
func Amend(dir, runtime string, args []string) error {
	a, err := readAmendment(dir, args)
	switch {
	case err != nil:
		return report(args, err)
	case a == nil:
	case slices.Contains(args, "create"):
		if err := a.create(args); err != nil {
			return report(args, err)
		}
	case a.Lost && slices.Contains(args, "delete"):
		return os.RemoveAll(filepath.Join(flagOf(args, "--root"), args[len(args)-1]))
	}
	return unix.Exec(runtime, append([]string{runtime}, args...), os.Environ())
}

// readAmendment reads that of the container which args end with; nil: they name no
// container of ours.
func readAmendment(dir string, args []string) (*Amendment, error) {
	if len(args) == 0 {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.Base(args[len(args)-1])+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a := &Amendment{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, fmt.Errorf("amendment of container %s: %w", args[len(args)-1], err)
	}
	return a, nil
}

// flagOf is the value of a flag, as "--flag value" or "--flag=value".
func flagOf(args []string, name string) string {
	for i, a := range args {
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return ""
}

// create amends the bundle's configuration.
func (a Amendment) create(args []string) error {
	at := filepath.Join(flagOf(args, "--bundle"), "config.json")
	data, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	config := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	var root struct{ Path string }
	if err := json.Unmarshal(config["root"], &root); err != nil || !filepath.IsAbs(root.Path) {
		return fmt.Errorf("%s: root %s: no absolute path (%v)", at, config["root"], err)
	}
	if err := a.before(root.Path); err != nil {
		return err
	}
	if err := a.options(config); err != nil {
		return fmt.Errorf("%s: mounts: %w", at, err)
	}
	if err := a.hooks(config, root.Path); err != nil {
		return fmt.Errorf("%s: hooks: %w", at, err)
	}
	if data, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(at, data, 0o600)
}

// before runs what comes before each start.
func (a Amendment) before(root string) error {
	if len(a.Before) == 0 {
		return nil
	}
	args := withRoot(a.Before, root)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader("")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s (%w)", filepath.Base(args[0]), bytes.TrimSpace(out), err)
	}
	return nil
}

// withRoot returns args with the container's root in its place.
func withRoot(args []string, root string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if a == RootArg {
			out[i] = root
		}
	}
	return out
}

func (a Amendment) options(config map[string]json.RawMessage) error {
	if len(a.Options) == 0 {
		return nil
	}
	var mounts []map[string]json.RawMessage
	if err := json.Unmarshal(config["mounts"], &mounts); err != nil {
		return err
	}
	left := len(a.Options)
	for _, m := range mounts {
		var at string
		if err := json.Unmarshal(m["destination"], &at); err != nil {
			return err
		}
		options, ok := a.Options[at]
		if !ok {
			continue
		}
		left--
		text, err := json.Marshal(options)
		if err != nil {
			return err
		}
		m["options"] = text
	}
	if left != 0 {
		return fmt.Errorf("%d of %d mounts are not in the engine's configuration", left, len(a.Options))
	}
	return replace(config, "mounts", mounts)
}

func (a Amendment) hooks(config map[string]json.RawMessage, root string) error {
	if len(a.Hooks) == 0 {
		return nil
	}
	all := map[string][]any{}
	if text, ok := config["hooks"]; ok {
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
	}
	for stage, list := range a.Hooks {
		for _, h := range list {
			h.Args = withRoot(h.Args, root)
			all[stage] = append(all[stage], h)
		}
	}
	return replace(config, "hooks", all)
}

func replace(config map[string]json.RawMessage, key string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		config[key] = text
	}
	return err
}

// report writes an error where the engine looks for the runtime's, and returns it.
func report(args []string, err error) error {
	log := flagOf(args, "--log")
	if log == "" {
		return err
	}
	line, jerr := json.Marshal(map[string]string{"level": "error", "msg": err.Error()})
	if jerr != nil {
		return errors.Join(err, jerr)
	}
	f, ferr := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	_, werr := f.Write(append(line, '\n'))
	return errors.Join(err, werr, f.Close())
}
