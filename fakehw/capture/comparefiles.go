package capture

import (
	"fmt"
	"regexp"
	"strings"

	"gpurig/core/host"
	"gpurig/fixtures/hosts"
)

// compared are the parts of /proc and /sys whose files are compared one by one.
var compared = regexp.MustCompile(`^(/proc/driver/nvidia/params|/sys/module/[^/]+/parameters/.*)$`)

// elsewhere are files that models or other parts of the comparison have.
var elsewhere = regexp.MustCompile(`^(/dev/|/sys/|/proc/)|^/etc/os-release$|^/usr/lib/os-release$|\.pid$`)

// lent are files that an entered host has from the machine that plays it: the loader, its
// settings and its cache, and how the file system is laid out.
var lent = regexp.MustCompile(`/ld-(linux|musl)[^/]*$|-linux-musl/|^/(bin|sbin|lib|lib64)$|^/etc/ld\.so\.(cache|conf|conf\.d(/.*)?)$|/ldconfig(\.real)?$`)

// fileThings returns what is on disk, and the parameters of modules. The
// driver's version and the folder of its libraries are told once, by the facts,
// and not with each file. Where one machine is played, what it is lent is left out of both.
func fileThings(m Machine, model host.Model, played bool) (libs, links, rest map[string]thing) {
	libs, links, rest = map[string]thing{}, map[string]thing{}, map[string]thing{}
	plain := placeless(model)
	for _, e := range m.File.Entries {
		if elsewhere.MatchString(e.Path) && !compared.MatchString(e.Path) || e.Kind == hosts.Dir && topFolder(e.Path) || played && lent.MatchString(e.Path) {
			continue
		}
		name := plain(e.Path)
		owner := []fact{{"mode", fmt.Sprintf("%04o", e.Mode)}, {"owner", fmt.Sprintf("%d:%d", e.UID, e.GID)}}
		switch e.Kind {
		case hosts.Library:
			libs[name] = thing{is: "the library", facts: append(owner, fact{"SONAME", plain(e.SONAME)})}
		case hosts.Symlink:
			to := plain(e.Target)
			links[name] = thing{is: "a link to " + to, facts: []fact{{"target", to}}}
		case hosts.Regular, hosts.Cache:
			rest[name] = thing{is: "the file", facts: append(owner, fact{"kind", "file"}, fact{"content", content(plain(string(e.Data)))})}
		default:
			rest[name] = thing{is: "the " + kindWord(e.Kind), facts: append(owner, fact{"kind", kindWord(e.Kind)}, fact{"content", ""})}
		}
	}
	return libs, links, rest
}

// kindWord makes no difference of what a stand-in can be taken for.
func kindWord(k hosts.Kind) string {
	if k == hosts.Bytes || k == hosts.Program {
		return "file"
	}
	return string(k)
}

// topFolder reports whether a folder is one that machines have in any case.
func topFolder(p string) bool { return strings.Count(p, "/") <= 3 }

// content tells two contents apart in a line: the first words, and how much.
func content(data string) string {
	text := strings.Join(strings.Fields(data), " ")
	if len(text) > 60 {
		sum := 0
		for _, b := range []byte(data) {
			sum = (sum*31 + int(b)) & 0xffffff
		}
		text = fmt.Sprintf("%s… (%d bytes, sum %06x)", strings.ToValidUTF8(text[:40], ""), len(data), sum)
	}
	if text == "" {
		return "nothing"
	}
	return fmt.Sprintf("%q", text)
}

// placeless returns a function that writes (version) for the driver's version
// and (library folder) for where its libraries are.
func placeless(m host.Model) func(string) string {
	var old []string
	if u := m.Userspace; u != nil {
		if u.LibDir != "" {
			old = append(old, u.DriverRoot+u.LibDir, "(library folder)")
		}
		if u.Version != "" {
			old = append(old, u.Version, "(version)")
		}
	}
	if m.Driver != nil {
		old = append(old, m.Driver.Version, "(version)")
	}
	return strings.NewReplacer(old...).Replace
}
