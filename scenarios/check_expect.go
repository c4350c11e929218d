package scenarios

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// expectations checks what is expected at the end, and that the whole scenario
// expects something: one that cannot fail is no check.
func (c *checker) expectations(root where) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(c.s.Expect)) {
		c.expect(name, c.s.Expect[name], root.at("expect").at(name))
		n++
	}
	for _, st := range c.s.Steps {
		n += len(st.Expect)
	}
	if n == 0 {
		c.at(root.at("expect"), "Say what the container must see, or which refusal must come.", "the scenario expects nothing, so it could never fail")
	}
}

func (c *checker) expect(name string, e Expect, w where) {
	if c.noContainer(name) {
		known := slices.Sorted(maps.Keys(c.s.Containers))
		c.atKey(w, "Known: "+strings.Join(known, ", ")+".", "no container %q%s", name, meant(name, known))
	}
	if !c.failed[w.id()] && !effective(reflect.ValueOf(e)) {
		c.at(w, "Say what must be true of it, or leave it out.", "nothing is expected of %q", name)
	}
	if e.Refused != "" {
		c.reasons([]string{e.Refused}, w.at("refused"))
	}
	c.reasons(e.Warns, w.at("warns"))
	c.reasons(e.Noted, w.at("noted"))
	for i, s := range e.Says {
		if strings.TrimSpace(s) == "" {
			c.at(w.at("says").item(i), "", "an empty text is in every message")
		}
	}
	if e.SameAs != "" {
		c.container(e.SameAs, w.at("same-as"))
		if e.SameAs == name {
			c.at(w.at("same-as"), "", "%q is always the same as itself", name)
		}
	}
	c.patterns(e.Spec.NoDevices, w.at("spec").at("no-devices"), false)
	c.inside(e, w)
	c.planned(e.Plan, w.at("plan"))
}

// effective reports whether any field has something to judge by. An empty list
// that was written means "exactly nothing" where a list must match exactly.
func effective(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if slices.Contains(exactLists, f.key) && v.Field(f.index).Kind() == reflect.Slice && !v.Field(f.index).IsNil() {
				return true
			}
			if effective(v.Field(f.index)) {
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

func (c *checker) reasons(words []string, w where) {
	for i, r := range words {
		at := w
		if _, ok := c.spots[w.item(i).id()]; ok {
			at = w.item(i)
		}
		if c.opts.Reasons != nil && !slices.Contains(c.opts.Reasons, r) {
			c.at(at, "gpurig explain --reasons prints them all.", "unknown reason %q%s", r, meant(r, c.opts.Reasons))
		} else if !wordForm.MatchString(r) {
			c.at(at, "", "reason %q: want small letters, digits and \"-\"", r)
		}
	}
}

func (c *checker) inside(e Expect, w where) {
	pathKeys(c, e.Nodes, w.at("nodes"))
	for p, n := range e.Nodes {
		at := w.at("nodes").at(p)
		c.number(n.Number, at.at("number"))
		c.mode(n.Mode, at.at("mode"))
		c.oneOf(list(n.Open), openList, at.at("open"))
		c.oneOf(list(n.Type), typeList, at.at("type"))
	}
	c.patterns(e.OnlyNodes, w.at("only-nodes"), true)
	c.patterns(e.Absent, w.at("absent"), true)
	pathKeys(c, e.Links, w.at("links"))
	pathKeys(c, e.Resolves, w.at("resolves"))
	pathKeys(c, e.Mounts, w.at("mounts"))
	for p, options := range e.Mounts {
		if options != "" {
			c.oneOf(strings.Split(options, ","), mountWords, w.at("mounts").at(p))
		}
	}
	pathKeys(c, e.Files, w.at("files"))
	for p, typ := range e.Files {
		c.oneOf([]string{typ}, fileList, w.at("files").at(p))
	}
	for soname, v := range e.Library {
		at := w.at("library").at(soname)
		if strings.ContainsRune(soname, '/') || !strings.Contains(soname, ".so") {
			c.atKey(at, "", "%q is not a SONAME such as libcuda.so.1", soname)
		}
		if v != "none" && !unbound(v) && !versionForm.MatchString(v) {
			c.at(at, `Give the end of the library's file name, such as 550.163.01, a driver branch, or "none".`, "version %q of %s: want digits and dots", v, soname)
		}
	}
	if s := e.Smoke; s != nil {
		at := w.at("smoke")
		c.oneOf(list(s.Kernels), smokeKernels, at.at("kernels"))
		c.oneOf(list(s.Step), smokeSteps, at.at("step"))
		c.oneOf(list(s.Cause), smokeCauses, at.at("cause"))
		if s.Step == "" && (s.Cause != "" || s.Code != 0) {
			c.at(at, "Name the step that fails, too.", "a cause or a code of no step")
		}
		if s.Step != "" && (s.Kernels != "" || s.Devices != nil || s.UUIDs != nil) {
			c.at(at, "Expect either a step that fails or devices that compute.", "devices or kernels beside a step that fails")
		}
	}
	for name := range e.Env {
		if name == "" || strings.ContainsRune(name, '=') {
			c.atKey(w.at("env").at(name), "", "%q is not the name of a variable", name)
		}
	}
}

func (c *checker) planned(p PlanExpect, w where) {
	pathKeys(c, p.Links, w.at("links"))
	pathKeys(c, p.Mounts, w.at("mounts"))
	for target, src := range p.Mounts {
		if src != "" {
			c.path(src, w.at("mounts").at(target))
		}
	}
	c.patterns(p.NoMounts, w.at("no-mounts"), true)
	c.paths(p.Folders, w.at("folders"))
	c.unique(p.Devices, w.at("devices"))
	c.unique(p.Lines, w.at("lines"))
	c.linePatterns(p.NoLines, w.at("no-lines"))
}

// linePatterns checks patterns for lines: "*" stands for anything, slashes too.
func (c *checker) linePatterns(ps []string, w where) {
	for i, p := range ps {
		if strings.Trim(p, "* ") == "" {
			c.at(w.item(i), "", "pattern %q matches every line", p)
		}
	}
	c.unique(ps, w)
}
