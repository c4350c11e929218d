package translate

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"

	"gpurig/core/plan"
)

const (
	groupFile = "/etc/group"

	// MaxGroups bounds a file of groups, in bytes.
	MaxGroups = 1 << 20
)

// A groupTable is a file of groups (group(5)). Of two lines with one name or number
// the first counts, as for getgrnam(3) and getgrgid(3).
type groupTable struct {
	names map[uint32]string
	ids   map[string]uint32
}

// parseGroups leaves out lines that are no groups.
func parseGroups(text []byte) groupTable {
	t := groupTable{map[uint32]string{}, map[string]uint32{}}
	for line := range bytes.Lines(text) {
		f := bytes.Split(bytes.TrimRight(line, "\n"), []byte(":"))
		if len(f) != 4 || len(f[0]) == 0 || len(f[0]) > maxName {
			continue
		}
		id, err := strconv.ParseUint(string(f[2]), 10, 32)
		if err != nil {
			continue
		}
		name := string(f[0])
		if _, known := t.names[uint32(id)]; !known {
			t.names[uint32(id)] = name
		}
		if _, known := t.ids[name]; !known {
			t.ids[name] = uint32(id)
		}
	}
	return t
}

// readGroups reads the groups of the host and of the image, where they matter.
func (w *work) readGroups() {
	switch {
	case len(w.opts.Groups) > MaxGroups:
		w.refuseAt("groups", ReasonOption, "%d bytes of groups, at most %d are read", len(w.opts.Groups), MaxGroups)
	case len(w.opts.Groups) > 0:
		text, err := w.look.root.ReadFile(groupFile)
		if err == nil && len(text) <= MaxGroups {
			w.onHost, w.inImage = parseGroups(text), parseGroups(w.opts.Groups)
		} else if w.opts.MapGroups {
			w.refuseAt("groups", ReasonOption, "groups cannot be mapped by name: those of the host are not known: %v", cmp.Or(err, fmt.Errorf("%s has more than %d bytes", groupFile, MaxGroups)))
		}
	case w.opts.MapGroups:
		w.refuseAt("groups", ReasonOption, "groups cannot be mapped by name: those of the image are not known")
	}
}

// group looks at a group of the host: onHost is its number there, and inside the number that
// the container has for it. It returns the number of the group of that name in the image
// where groups are mapped by name, and says where a number means another group there. It is
// false where that is refused.
func (p *part) group(edit, what string, onHost, inside uint32) (want *uint32, ok bool) {
	name := p.onHost.names[onHost]
	other := p.inImage.names[inside]
	if name == "" || name == other || onHost == 0 {
		return nil, true
	}
	if id, known := p.inImage.ids[name]; known && p.opts.MapGroups {
		if _, mapped := plan.HostID(p.opts.IDMap, id); mapped && id != 0 {
			p.note(edit, what, ReasonGroupMapped, true, "group %s has number %d on the host and %d in the image", quote(name), onHost, id)
			return &id, true
		}
	}
	if other == "" || inside == nobody {
		return nil, true
	}
	detail := fmt.Sprintf("group %d is %s on the host and %s in the image", inside, quote(name), quote(other))
	if p.opts.Strict {
		p.refuse(edit, ReasonOtherGroup, "Map groups by name, or set the device's gid.", "%s", detail)
		return nil, false
	}
	p.note(edit, what, string(ReasonOtherGroup), false, "%s; groups can be mapped by name", detail)
	return nil, true
}
