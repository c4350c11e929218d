// Package translate turns CDI container edits into a plan for one container, or
// says why it cannot.
//
// Every field of an edit is carried out (it is in the plan), refused (it is in
// the error) or noted (in plan.Notes, with a reason); none is dropped. What a
// Spec may use is listed in package policy. Nothing of a Spec is ever executed:
// the hooks of NVIDIA's toolkit are parsed by the grammar of their flags, and
// their work becomes links, library folders and modes of the plan.
//
// The host is read through a host.Root and never changed. The emitters write the
// plan as configuration of a container manager, and cdi-hook does the part inside
// the root file system.
package translate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"

	"gpurig/core/cdi"
	"gpurig/core/host"
	"gpurig/core/plan"
	"gpurig/core/policy"
	"gpurig/core/refuse"
)

// Options adjust a translation. The zero value suits a privileged container on
// a host whose driver files are where they say they are.
type Options struct {
	// DriverRoot is where the host's file tree, or its driver's, is seen:
	// "/var/lib/snapd/hostfs", "/run/nvidia/driver". Paths below it, by whole
	// components, are looked at as if it were the root directory, links included.
	DriverRoot string
	// IDMap maps the container's users and groups; empty: it shares the host's.
	IDMap []plan.IDMap
	// UID, GID and Mode are the user's wish for every device node, in the
	// container's ids; nil: as the Spec says, else as on the host.
	UID, GID *uint32
	Mode     *fs.FileMode
	// Groups is the text of the image's /etc/group; empty: not known. Where the number of
	// a group of the host's means another group there, that is noted; with Strict, refused.
	Groups []byte
	// MapGroups gives nodes and the first process the group that has the same name in the
	// image in the place of the host's number.
	MapGroups bool
	// Policy widens what a Spec may use.
	Policy policy.Policy
	// Strict refuses what is otherwise noted as likely not to work: a node that
	// nobody in the container can open. The plan is as strict about libraries.
	Strict bool
}

// Limits of one plan, those of the hook file among them.
const (
	maxEntries = 10_000
	maxFolders = 256
	maxPath    = 4095
	maxName    = 255
	maxDepth   = 64 // names in one path
	maxOptions = 16
	maxValue   = 4096 // bytes of an environment variable's value
	maxHinted  = 100  // missing files beside which others are looked for
)

// maxLooks bounds what one translation asks of the host, and of the plan's own
// links: what a path costs is up to whoever made the links that it leads through.
// The 224 MIG devices of 32 GPUs take 700.
const maxLooks = 200_000

// Edits translates edits, looking up device nodes and mount sources on root.
// Edits of several devices go into one plan: what they share is merged when
// equal and refused when not. A device that is there twice counts once.
//
// It returns every refusal at once, joined (refuse.As takes them apart), and
// never a partial plan: an edit is in the plan or in the error. The reasons are
// those of Reasons.
func Edits(root host.Root, edits []cdi.Edits, opts Options) (plan.Plan, error) {
	w := &work{
		opts: opts, look: newLook(root, opts.DriverRoot),
		nodes: map[string]*entry[plan.Node]{}, mounts: map[string]*entry[plan.Mount]{},
		links: map[string]*entry[plan.Link]{}, modes: map[string]*entry[plan.Mode]{},
		env: map[string]*entry[plan.Var]{}, folders: map[string]plan.Owners{}, groups: map[uint32]plan.Owners{},
	}
	w.view = &limited{Root: linkView(w.links)}
	w.options()
	w.readGroups()
	for _, e := range edits {
		if e.Device != "" {
			w.devices = union(w.devices, plan.Owners{e.Device})
		}
	}
	if len(w.refusals) == 0 {
		for _, e := range edits {
			w.part(e, edits).translate()
		}
		w.resolve()
	}
	if w.look.root.spent() || w.view.spent() {
		return plan.Plan{}, refuse.New(ReasonTooMany, "containerEdits", "their paths lead through more than %d files and links", maxLooks)
	}
	if len(w.refusals) > 0 {
		return plan.Plan{}, refuse.Join(w.refusals...)
	}
	return w.plan(), nil
}

// work is one translation under way.
type work struct {
	opts     Options
	look     *look
	view     *limited // a container that has nothing but the plan's links
	devices  []string
	refusals []*refuse.Error

	nodes   map[string]*entry[plan.Node] // by path
	mounts  map[string]*entry[plan.Mount]
	links   map[string]*entry[plan.Link] // Target is absolute until settle
	modes   map[string]*entry[plan.Mode]
	env     map[string]*entry[plan.Var]
	folders map[string]plan.Owners
	groups  map[uint32]plan.Owners
	notes   []plan.Note
	missing []missing
	others  []otherLink

	onHost, inImage groupTable // empty: not known
}

// An otherLink is a link at a path that has one already, with another target.
type otherLink struct{ at, to, from string }

// An entry is something of the plan, and which edit brought it first.
type entry[T any] struct {
	v    T
	from string
}

// A part is the edits of one device, or the Spec-wide ones.
type part struct {
	*work
	e      cdi.Edits
	owners plan.Owners
}

func (w *work) part(e cdi.Edits, all []cdi.Edits) *part {
	p := &part{work: w, e: e}
	if e.Device != "" {
		p.owners = plan.Owners{e.Device}
		return p
	}
	for _, o := range all {
		if o.Device != "" && o.Kind == e.Kind && o.Spec == e.Spec {
			p.owners = union(p.owners, plan.Owners{o.Device})
		}
	}
	if p.owners == nil {
		p.owners = plan.Owners{e.Kind} // asked for without any device of the Spec
	}
	p.owners = slices.Clip(p.owners) // each entry adds to a copy of its own
	return p
}

// at names a place in the edits: "nvidia.com/gpu=0: deviceNodes[2]".
// at is the place of an edit, with the file of its Spec where it has one.
func (p *part) at(edit string) string {
	file := ""
	if !slices.Contains([]string{"", cdi.Generated, cdi.OnHost}, p.e.Spec) {
		file = p.e.Spec + ": "
	}
	if p.e.Device != "" {
		return file + p.e.Device + ": " + edit
	}
	return file + p.e.Kind + " containerEdits: " + edit
}

func (p *part) refuse(edit string, r refuse.Reason, hint, format string, args ...any) {
	p.refusals = append(p.refusals, refuse.New(r, p.at(edit), format, args...).WithHint("%s", hint))
}

func (p *part) note(edit, what string, reason string, done bool, format string, args ...any) {
	p.notes = append(p.notes, plan.Note{
		Device: p.e.Device, Edit: edit, What: what, Reason: reason, Done: done, Detail: fmt.Sprintf(format, args...),
	})
}

func (p *part) translate() {
	e := p.e.Edits
	if e == nil {
		p.refuse("containerEdits", ReasonNull, "", "there are no edits")
		return
	}
	if n := len(e.DeviceNodes) + len(e.Mounts) + len(e.Hooks) + len(e.Env); n > maxEntries {
		p.refuse("containerEdits", ReasonTooMany, "", "%d edits, at most %d are read", n, maxEntries)
		return
	}
	p.deviceNodes(e.DeviceNodes)
	p.bindMounts(e.Mounts)
	p.hooks(e.Hooks)
	p.environment(e.Env)
	p.additionalGroups(e.AdditionalGIDs)
	p.cannotExpress(e)
	for _, name := range sortedKeys(p.e.Annotations) {
		p.note("annotations", "annotation "+quote(name), ReasonAnnotation, false,
			"annotations are about the Spec and have no effect on a container")
	}
}

// options checks what the caller gave.
func (w *work) options() {
	bad := func(where, format string, args ...any) {
		w.refusals = append(w.refusals, refuse.New(ReasonOption, where, format, args...))
	}
	o := w.opts
	if o.DriverRoot != "" && (!path.IsAbs(o.DriverRoot) || path.Clean(o.DriverRoot) != o.DriverRoot) {
		bad("driver root", "%s is not an absolute, clean path", quote(o.DriverRoot))
	}
	if o.Mode != nil && *o.Mode&^0o777 != 0 {
		bad("mode", "%#o has more than permission bits, which are at most 0777", uint32(*o.Mode))
	}
	for i, m := range o.IDMap {
		if m.Count == 0 || uint64(m.Container)+uint64(m.Count) > 1<<32 || uint64(m.Host)+uint64(m.Count) > 1<<32 {
			bad(fmt.Sprintf("idmap[%d]", i), "%d ids from %d at host id %d do not fit into the range of ids", m.Count, m.Container, m.Host)
		}
	}
	for _, id := range []struct {
		name string
		id   *uint32
	}{{"uid", o.UID}, {"gid", o.GID}} {
		if id.id == nil {
			continue
		}
		if _, ok := plan.HostID(o.IDMap, *id.id); !ok {
			bad(id.name, "%d has no counterpart on the host in this container's id map", *id.id)
		}
	}
	if err := o.Policy.Validate(); err != nil {
		w.refusals = append(w.refusals, refuse.New(ReasonOption, "", "the policy cannot be used").WithErr(err))
	}
}

// union puts the names of b into a; both are sorted. What thousands of devices
// share is merged that often, so a is not copied each time.
func union(a, b []string) []string {
	if len(a) == 0 || slices.Equal(a, b) {
		return b
	}
	for _, name := range b {
		if i, there := slices.BinarySearch(a, name); !there {
			a = slices.Insert(a, i, name)
		}
	}
	return a
}
