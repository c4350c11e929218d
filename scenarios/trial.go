package scenarios

import (
	"slices"

	"gpurig/core/strictdoc"
)

// A Trial is a host that is broken and healed as its scenario says.
type Trial interface {
	Fault(text string) error // why the host cannot have one fault more
	Heal(text string) error  // why it cannot be without one
}

// trials reports drivers and faults that hosts of the scenario cannot have, each once.
// Of a file that has other mistakes it says nothing.
func (c *checker) trials(root strictdoc.Path) {
	if c.opts.Try == nil || c.Err() != nil {
		return
	}
	var told []strictdoc.Path
	for _, v := range Expand(Scenario{Host: c.s.Host, Driver: c.s.Driver, Matrix: Matrix{Host: c.s.Matrix.Host, Driver: c.s.Matrix.Driver}}) {
		c.trial(v.Host, v.Driver, root, func(at strictdoc.Path, err error) {
			if !slices.Contains(told, at) {
				told = append(told, at)
				c.At(at, "gpurig host show "+v.Host+" tells what the host has.", "%s: %v", v.Host, err)
			}
		})
	}
}

// trial goes through a scenario on one host as long as it is known what the host has:
// until it is changed, or a virtual machine takes a part of it.
func (c *checker) trial(host, driver string, root strictdoc.Path, tell func(strictdoc.Path, error)) {
	breaks := func(st Step) bool { return st.Fault != "" || st.Heal != "" }
	if driver == "" && len(c.s.Faults) == 0 && !slices.ContainsFunc(c.s.Steps, breaks) {
		return
	}
	t, err := c.opts.Try(host, c.s.File, driver)
	if err != nil {
		at := root.Key("driver")
		if !c.Has(at) {
			at = root.Key("matrix").Key("driver").Item(slices.Index(c.s.Matrix.Driver, driver))
		}
		tell(at, err)
		return
	}
	if len(c.s.Changes) > 0 {
		return
	}
	for i, text := range c.s.Faults {
		if err := t.Fault(text); err != nil {
			tell(root.Key("faults").Item(i), err)
			return
		}
	}
	for i, st := range c.s.Steps {
		at := root.Key("steps").Item(i)
		var err error
		switch {
		case st.Change != nil || st.Reboot || st.Crash || c.s.Containers[st.Start].VM || c.s.Containers[st.Restart].VM:
			return
		case st.Fault != "":
			at, err = at.Key("fault"), t.Fault(st.Fault)
		case st.Heal != "":
			at, err = at.Key("heal"), t.Heal(st.Heal)
		}
		if err != nil {
			tell(at, err)
			return
		}
	}
}
