package machine

import (
	"maps"
	"os"
	"path/filepath"
	"strings"

	"gpurig/core/host"
)

// withShell makes the command a shell whose prompt names the host.
func withShell(o Options) Options {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	prompt := "(" + o.Name + ") "
	o.Command = []string{shell}
	if filepath.Base(shell) == "bash" {
		// The user's own settings, then the prompt, which they would set again.
		rc := "[ -f ~/.bashrc ] && . ~/.bashrc\nPS1=" + quote(prompt) + "\"$PS1\"\n"
		o.Live = withFile(o.Live, "bashrc", rc)
		o.Command = []string{shell, "--rcfile", "/run/gpurig/bashrc", "-i"}
		return o
	}
	env := []string{}
	for _, v := range o.Env {
		if !strings.HasPrefix(v, "PS1=") {
			env = append(env, v)
		}
	}
	o.Env = append(env, "PS1="+prompt+"\\w \\$ ")
	return o
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// withFile adds a file that does not change.
func withFile(live map[string]func(host.Model) []byte, name, text string) map[string]func(host.Model) []byte {
	out := maps.Clone(live)
	if out == nil {
		out = map[string]func(host.Model) []byte{}
	}
	out[name] = func(host.Model) []byte { return []byte(text) }
	return out
}
