package scenarios

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"gpurig/core/pci"
	"gpurig/core/strictdoc"
)

// expectations checks what is expected at the end, and that the whole scenario
// expects something: one that cannot fail is no check.
func (c *checker) expectations(root strictdoc.Path) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(c.s.Expect)) {
		c.expect(name, c.s.Expect[name], root.Key("expect").Key(name))
		n++
	}
	for _, st := range c.s.Steps {
		n += len(st.Expect)
		if st.Run != nil {
			n++
		}
	}
	if n == 0 {
		c.At(root.Key("expect"), "Say what the container must see, or which refusal must come.", "the scenario expects nothing, so it could never fail")
	}
}

func (c *checker) expect(name string, e Expect, w strictdoc.Path) {
	if c.noContainer(name) {
		known := slices.Sorted(maps.Keys(c.s.Containers))
		c.AtKey(w, "Known: "+strings.Join(known, ", ")+".", "no container %q%s", name, strictdoc.Meant(name, known))
	}
	if !c.Failed(w) && !c.FailedBelow(w) && !effective(reflect.ValueOf(e)) {
		c.At(w, "Say what must be true of it, or leave it out.", "nothing is expected of %q", name)
	}
	if e.Refused != "" {
		c.reasons([]string{e.Refused}, w.Key("refused"))
	}
	c.reasons(e.Warns, w.Key("warns"))
	c.reasons(e.Noted, w.Key("noted"))
	for i, s := range e.Says {
		if strings.TrimSpace(s) == "" {
			c.At(w.Key("says").Item(i), "", "an empty text is in every message")
		}
	}
	if e.SameAs != "" {
		c.container(e.SameAs, w.Key("same-as"))
		if e.SameAs == name {
			c.At(w.Key("same-as"), "", "%q is always the same as itself", name)
		}
	}
	c.patterns(e.Spec.NoDevices, w.Key("spec").Key("no-devices"), false)
	c.inside(e, w)
	c.planned(e.Plan, w.Key("plan"))
	c.hosted(e.Host, w.Key("host"))
}

// effective reports whether any field has something to judge by. An empty list
// that was written means "exactly nothing" where a list must match exactly.
func effective(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range form.Fields(v.Type()) {
			if slices.Contains(exactLists, f.Key) && f.Of(v).Kind() == reflect.Slice && !f.Of(v).IsNil() {
				return true
			}
			if effective(f.Of(v)) {
				return true
			}
		}
		return false
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	}
	return !v.IsZero()
}

// exactLists are the keys whose list must match exactly, so that an empty one
// expects something. "devices" is exact in a plan; in spec it is not, but an
// empty list there would be odd enough to be seen.
var exactLists = []string{"only-nodes", "groups", "folders"}

func (c *checker) reasons(words []string, w strictdoc.Path) {
	for i, r := range words {
		at := w
		if c.Has(w.Item(i)) {
			at = w.Item(i)
		}
		if c.opts.Reasons != nil && !slices.Contains(c.opts.Reasons, r) {
			c.At(at, "gpurig explain --reasons prints them all.", "unknown reason %q%s", r, strictdoc.Meant(r, c.opts.Reasons))
		} else if !wordForm(r) {
			c.At(at, "", "reason %q: want small letters, digits and \"-\"", r)
		}
	}
}

func (c *checker) inside(e Expect, w strictdoc.Path) {
	pathKeys(c, e.Nodes, w.Key("nodes"))
	for p, n := range e.Nodes {
		at := w.Key("nodes").Key(p)
		c.number(n.Number, at.Key("number"))
		c.mode(n.Mode, at.Key("mode"))
		c.oneOf("open", list(n.Open), openList, at.Key("open"))
		c.oneOf("type", list(n.Type), typeList, at.Key("type"))
	}
	c.patterns(e.OnlyNodes, w.Key("only-nodes"), true)
	c.patterns(e.Absent, w.Key("absent"), true)
	pathKeys(c, e.Links, w.Key("links"))
	pathKeys(c, e.Resolves, w.Key("resolves"))
	pathKeys(c, e.Mounts, w.Key("mounts"))
	for p, options := range e.Mounts {
		if options != "" {
			c.oneOf("mount option", strings.Split(options, ","), mountWords, w.Key("mounts").Key(p))
		}
	}
	pathKeys(c, e.Files, w.Key("files"))
	for p, typ := range e.Files {
		c.oneOf("type of file", []string{typ}, fileList, w.Key("files").Key(p))
	}
	pathKeys(c, e.Contents, w.Key("contents"))
	c.unique(e.Nowhere, w.Key("nowhere"))
	for i, text := range e.Nowhere {
		if len(text) < 8 {
			c.At(w.Key("nowhere").Item(i), "", "%q is found by chance: want 8 bytes or more", text)
		}
	}
	for soname, v := range e.Library {
		at := w.Key("library").Key(soname)
		if strings.ContainsRune(soname, '/') || !strings.Contains(soname, ".so") {
			c.AtKey(at, "", "%q is not a SONAME such as libcuda.so.1", soname)
		}
		if !slices.Contains(libraryWords, v) && !unbound(v) && !versionForm(v) {
			c.At(at, `Give the end of the library's file name, such as 550.163.01, a driver branch, "host", "image" or "none".`, "version %q of %s: want digits and dots", v, soname)
		}
	}
	if s := e.Smoke; s != nil {
		at := w.Key("smoke")
		c.oneOf("kernel", list(s.Kernels), smokeKernels, at.Key("kernels"))
		c.oneOf("step", list(s.Step), smokeSteps, at.Key("step"))
		c.oneOf("cause", list(s.Cause), smokeCauses, at.Key("cause"))
		if s.Step == "" && (s.Cause != "" || s.Code != 0) {
			c.At(at, "Name the step that fails, too.", "a cause or a code of no step")
		}
		if s.Step != "" && (s.Kernels != "" || s.Devices != nil || s.UUIDs != nil) {
			c.At(at, "Expect either a step that fails or devices that compute.", "devices or kernels together with a step that fails")
		}
	}
	for name := range e.Env {
		if name == "" || strings.ContainsRune(name, '=') {
			c.AtKey(w.Key("env").Key(name), "", "%q is not the name of a variable", name)
		}
	}
}

func (c *checker) planned(p PlanExpect, w strictdoc.Path) {
	pathKeys(c, p.Links, w.Key("links"))
	pathKeys(c, p.Mounts, w.Key("mounts"))
	for target, src := range p.Mounts {
		if src != "" {
			c.path(src, w.Key("mounts").Key(target))
		}
	}
	c.patterns(p.NoMounts, w.Key("no-mounts"), true)
	c.paths(p.Folders, w.Key("folders"))
	c.unique(p.Devices, w.Key("devices"))
	c.linePatterns(p.Lines, w.Key("lines"))
	c.linePatterns(p.NoLines, w.Key("no-lines"))
	c.linePatterns(p.NoWrites, w.Key("no-writes"))
	for i, pattern := range p.Writes {
		if strings.Trim(pattern, "* ") == "" {
			c.At(w.Key("writes").Item(i), "", "pattern %q matches every write", pattern)
		}
	}
	for dev, at := range p.Ports {
		if !portForm(at) {
			c.At(w.Key("ports").Key(dev), "", "%q: want the number of the port and that of the function, such as 0.1", at)
		}
	}
}

// linePatterns checks patterns for lines: "*" stands for anything, slashes too.
func (c *checker) linePatterns(ps []string, w strictdoc.Path) {
	for i, p := range ps {
		if strings.Trim(p, "* ") == "" {
			c.At(w.Item(i), "", "pattern %q matches every line", p)
		}
	}
	c.unique(ps, w)
}

func (c *checker) hosted(h HostExpect, w strictdoc.Path) {
	for a := range h.Functions {
		at := w.Key("functions").Key(a)
		if b, err := pci.ParseBDF(a); !unbound(a) && (err != nil || b.String() != a) {
			c.AtKey(at, "", "%q is no address such as 0000:41:00.0", a)
		}
		if !c.Failed(at) && h.Functions[a] == (FunctionExpect{}) {
			c.At(at, "Say which driver it has, or leave it out.", "nothing is expected of %s", a)
		}
	}
	for typ := range h.MDevs {
		at := w.Key("mdevs").Key(typ)
		if strings.ContainsAny(typ, "/ ") {
			c.AtKey(at, "", "%q is no type such as nvidia-468", typ)
		}
		if !c.Failed(at) && h.MDevs[typ] == (MDevExpect{}) {
			c.At(at, "Say how many are made, or left.", "nothing is expected of %s", typ)
		}
	}
}
