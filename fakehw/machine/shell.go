package machine

import (
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpurig/core/host"
	"gpurig/fakehw/fusefs"
)

// withShell makes the command a shell, whose prompt names the host where somebody
// sits at a terminal.
func withShell(o Options) Options {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	prompt := "(" + plain(o.Name) + ") "
	o.Command, o.shell = []string{shell}, true
	if _, err := unix.IoctlGetTermios(int(o.Stdin.Fd()), unix.TCGETS); err != nil {
		return o // commands come from a file or a pipe: nobody is there to be prompted
	}
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
	o.Env = append(env, "PS1="+prompt+"# ")
	return o
}

// plain is a name without what a prompt would expand.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("$`\\!%", r) {
			return '_'
		}
		return r
	}, name)
}

// withTerminal gives a shell the terminal, as a process group of its own: the one
// that we are in has no number in its process namespace, and a shell could not
// give the terminal back to it in the end. The result takes it back.
func withTerminal(o Options) (foreground bool, back func()) {
	fd := int(o.Stdin.Fd())
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if !o.shell || err != nil || group != unix.Getpgrp() {
		return false, func() {}
	}
	return true, func() {
		signal.Ignore(unix.SIGTTOU) // which is sent to whoever is not in the foreground
		defer signal.Reset(unix.SIGTTOU)
		_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) // a terminal that is gone needs none
	}
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

// Inside reports whether this program runs on an entered host: its /sys is one of ours.
func Inside() bool {
	text, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(text), fusefs.Name+" /sys fuse."+fusefs.Name+" ")
}
