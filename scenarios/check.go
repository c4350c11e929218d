package scenarios

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gpurig/core/policy"
)

// Limits of one scenario: a slip of the finger must not make a million
// containers (threat model B47).
const (
	MaxVariants   = 256
	maxContainers = 64
	maxDevices    = 64 // of one container, as GPUs of one host
	maxSteps      = 256
	maxEntries    = 4096 // of any list or map: files, nodes, expectations
	maxText       = 64 << 10
)

// NativeAgrees, as Scenario.Native, makes a difference a failure.
const NativeAgrees = "agrees"

// The closed lists of words.
var (
	Targets    = []string{"sim", "lxc", "sim-lxd", "lxd", "lxd-native", "incus", "incus-native", "docker", "docker-cdi", "sim-docker", "sim-oci", "oci", "vfio"}
	CgroupList = []string{"v1", "v2"}
	IDMapList  = []string{"none", "default"}
	openList   = []string{"allowed", "denied", "no-mode", "nodev"}
	typeList   = []string{"c", "b"}
	fileList   = []string{"file", "empty", "dir", "socket"}
	mountWords = []string{"ro", "rw", "nosuid", "nodev", "noexec"}
)

// A checker looks at the values of one decoded scenario. What could not be
// decoded has been reported already and is not looked at again.
type checker struct {
	*decoder
	s    *Scenario
	opts Options
}

func check(d *decoder, s *Scenario, opts Options) {
	c := checker{decoder: d, s: s, opts: opts}
	var root where
	c.sizes(reflect.ValueOf(*s), root)
	c.host(s.Host, root.at("host"), true)
	c.needs(s.Needs, root.at("needs"))
	c.placeholders(root)
	c.driver(s.Driver, root.at("driver"))
	c.labels(root)
	if s.Bug != "" && !bugForm.MatchString(s.Bug) {
		c.at(root.at("bug"), "", "%q: want small letters, digits, \"-\" and \"_\", at most 64", s.Bug)
	}
	c.oneOf(s.Targets, Targets, root.at("targets"))
	c.oneOf(list(s.Native), []string{NativeAgrees}, root.at("native"))
	c.matrix(root.at("matrix"))
	c.files(s.Specs, root.at("specs"))
	c.policy(s.Policy, root.at("policy"))
	for i := range s.Changes {
		c.change(&s.Changes[i], root.at("changes").item(i))
	}
	for i, f := range s.Faults {
		if f == "" {
			c.at(root.at("faults").item(i), "Leave the entry out.", "an empty fault")
		}
		c.fault(f, root.at("faults").item(i))
	}
	c.containers(root)
	c.steps(root)
	c.expectations(root)
}

// sizes bounds every list, map and text, wherever it is.
func (c *checker) sizes(v reflect.Value, w where) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.sizes(v.Elem(), w)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			c.sizes(v.Field(f.index), w.at(f.key))
		}
	case reflect.Map:
		if v.Len() > maxEntries {
			c.at(w, "", "%s has %d entries; at most %d", w.name(), v.Len(), maxEntries)
			return
		}
		for it := v.MapRange(); it.Next(); {
			c.sizes(it.Value(), w.at(fmt.Sprint(it.Key())))
		}
	case reflect.Slice:
		if v.Len() > maxEntries {
			c.at(w, "", "%s has %d entries; at most %d", w.name(), v.Len(), maxEntries)
			return
		}
		for i := range v.Len() {
			c.sizes(v.Index(i), w.item(i))
		}
	case reflect.String:
		if v.Len() > maxText {
			c.at(w, "", "%s has %d bytes; at most %d", w.name(), v.Len(), maxText)
		}
	}
}

func (c *checker) labels(root where) {
	for i, l := range c.s.Labels {
		c.wordAt(l, root.at("labels").item(i))
	}
	c.unique(c.s.Labels, root.at("labels"))
}

func (c *checker) matrix(w where) {
	m := c.s.Matrix
	n := 1
	for _, dim := range m.dimensions() {
		if dim.values == nil {
			continue
		}
		at := w.at(dim.key)
		if len(dim.values) == 0 {
			c.at(at, "Leave the key out.", "%q has no value to vary over", dim.key)
		}
		c.unique(dim.values, at)
		n = min(n*max(len(dim.values), 1), 1<<20)
	}
	if n > MaxVariants {
		c.at(w, "Split the scenario, or vary less.", "the matrix has more than %d variants", MaxVariants)
	}
	for i, h := range m.Host {
		c.host(h, w.at("host").item(i), false)
	}
	for i, v := range m.Driver {
		c.driver(v, w.at("driver").item(i))
	}
	c.oneOf(m.Cgroup, CgroupList, w.at("cgroup"))
	c.oneOf(m.IDMap, IDMapList, w.at("idmap"))
	c.oneOf(m.Image, c.opts.Images, w.at("image"))
	if c.s.Host != "" && m.Host != nil {
		c.at(w.at("host"), "Keep the one in the matrix.", "the host is given twice: host and matrix.host")
	}
	if c.s.Driver != "" && m.Driver != nil {
		c.at(w.at("driver"), "Keep the one in the matrix.", "the driver is given twice: driver and matrix.driver")
	}
}

func (c *checker) containers(root where) {
	at := root.at("containers")
	if len(c.s.Containers) == 0 {
		c.at(at, "Add containers: {c1: {devices: {gpu0: {id: \"nvidia.com/gpu=0\"}}}}.", "no container")
	}
	if len(c.s.Containers) > maxContainers {
		c.at(at, "", "%d containers; at most %d", len(c.s.Containers), maxContainers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.s.Containers)) {
		w := at.at(name)
		ctr := c.s.Containers[name]
		if !isName(name, "-", 32) {
			c.atKey(w, "", "container name %q: want at most 32 letters, digits and \"-\"", name)
		}
		c.oneOf(list(ctr.Image), c.opts.Images, w.at("image"))
		c.oneOf(list(ctr.Cgroup), CgroupList, w.at("cgroup"))
		c.oneOf(list(ctr.IDMap), IDMapList, w.at("idmap"))
		if len(ctr.Devices) > maxDevices {
			c.at(w.at("devices"), "", "%d devices; at most %d", len(ctr.Devices), maxDevices)
		}
		for dev := range ctr.Devices {
			c.deviceName(dev, w.at("devices").at(dev), true)
		}
		for dim, own := range map[string]string{"cgroup": ctr.Cgroup, "idmap": ctr.IDMap, "image": ctr.Image} {
			if own != "" && c.s.Matrix.has(dim) {
				c.at(w.at(dim), "Leave it to the matrix.", "%s is given twice: here and in matrix.%s", dim, dim)
			}
		}
	}
}

func (c *checker) deviceName(name string, w where, key bool) {
	if isName(name, "-._", 64) {
		return
	}
	report := c.at
	if key {
		report = c.atKey
	}
	report(w, "", "device name %q: want at most 64 letters, digits, \"-\", \".\" and \"_\"", name)
}

func (c *checker) container(name string, w where) {
	if c.noContainer(name) {
		known := slices.Sorted(maps.Keys(c.s.Containers))
		c.at(w, "Known: "+strings.Join(known, ", ")+".", "no container %q%s", name, meant(name, known))
	}
}

func (c *checker) noContainer(name string) bool {
	_, ok := c.s.Containers[name]
	return !ok && !c.failed[where{"containers"}.id()]
}

func (c *checker) steps(root where) {
	at := root.at("steps")
	if c.s.Steps != nil && len(c.s.Steps) == 0 {
		c.at(at, "Leave the key out: then every container is started.", "no step")
	}
	if len(c.s.Steps) > maxSteps {
		c.at(at, "", "%d steps; at most %d", len(c.s.Steps), maxSteps)
	}
	for i := range c.s.Steps {
		c.step(&c.s.Steps[i], at.item(i))
	}
}

func (c *checker) step(st *Step, w where) {
	c.exactlyOne(reflect.ValueOf(*st), w, "step")
	for key, name := range map[string]string{"start": st.Start, "stop": st.Stop, "restart": st.Restart} {
		if name != "" {
			c.container(name, w.at(key))
		}
	}
	for key, p := range map[string]*Plug{"plug": st.Plug, "unplug": st.Unplug} {
		if p == nil {
			continue
		}
		at := w.at(key)
		c.container(p.Container, at.at("container"))
		c.deviceName(p.Name, at.at("name"), false)
		if key == "unplug" && p.Device != (Device{}) {
			c.at(at.at("device"), "Name the device; its options are known.", "unplug takes no device options")
		}
	}
	if st.Change != nil {
		c.change(st.Change, w.at("change"))
	}
	c.fault(st.Fault, w.at("fault"))
	c.fault(st.Heal, w.at("heal"))
	for _, name := range slices.Sorted(maps.Keys(st.Expect)) {
		c.expect(name, st.Expect[name], w.at("expect").at(name))
	}
}

// fault reports text that names no fault.
func (c *checker) fault(text string, w where) {
	if text == "" || c.opts.Fault == nil {
		return
	}
	if err := c.opts.Fault(text); err != nil {
		c.at(w, "", "%v", err)
	}
}

// exactlyOne reports a step or change that says nothing, or two things at once.
// "expect" is not a thing that happens.
func (c *checker) exactlyOne(v reflect.Value, w where, what string) {
	var set, all []string
	for _, f := range fieldsOf(v.Type()) {
		if f.key == "expect" {
			continue
		}
		all = append(all, f.key)
		if !v.Field(f.index).IsZero() {
			set = append(set, f.key)
		}
	}
	written := slices.DeleteFunc(slices.Clone(all), func(k string) bool { _, ok := c.spots[w.at(k).id()]; return !ok })
	switch {
	case len(written) == 1 && len(set) == 1:
	case len(written) > 1:
		c.at(w, "Make it a list of several.", "a %s does one thing; this one has %s", what, strings.Join(written, " and "))
	case len(written) == 1:
		c.at(w.at(written[0]), "", "%q does nothing with this value", written[0])
	default:
		c.at(w, "One of: "+strings.Join(all, ", ")+".", "a %s that does nothing", what)
	}
}

func (c *checker) change(ch *Change, w where) {
	c.exactlyOne(reflect.ValueOf(*ch), w, "change")
	c.driver(ch.Driver, w.at("driver"))
	c.driver(ch.DriverUser, w.at("driver-user"))
	for name, major := range ch.Majors {
		if major == 0 || major > 4095 {
			c.at(w.at("majors").at(name), "", "major %d: want 1 to 4095", major)
		}
	}
	c.drivers(ch.Drivers, w.at("drivers"))
	c.drivers(ch.BlockDrivers, w.at("block-drivers"))
	if m := ch.MIG; m != nil {
		c.index(m.GPU, w.at("mig").at("gpu"))
		if m.Off && len(m.Profiles) > 0 {
			c.at(w.at("mig").at("off"), "", "MIG mode off and profiles exclude each other")
		}
	}
	if ch.RemoveGPU != nil {
		c.index(*ch.RemoveGPU, w.at("remove-gpu"))
	}
	for gpu, minor := range ch.Minors {
		at := w.at("minors").at(strconv.Itoa(gpu))
		c.index(gpu, at)
		if minor < 0 || minor > 254 {
			c.at(at, "", "minor %d: want 0 to 254", minor)
		}
	}
	c.paths(ch.RemoveNodes, w.at("remove-nodes"))
	c.paths(ch.Remove, w.at("remove"))
	c.files(ch.Files, w.at("files"))
	c.files(ch.Links, w.at("links"))
	for i, n := range ch.Nodes {
		at := w.at("nodes").item(i)
		c.path(n.Path, at.at("path"))
		c.number(n.Number, at.at("number"))
		c.oneOf(list(n.Type), typeList, at.at("type"))
		c.mode(n.Mode, at.at("mode"))
		if n.Number == "" && n.Mode == "" && n.UID == nil && n.GID == nil {
			c.at(at, "Give a number, mode, uid or gid.", "nothing of node %q is changed", n.Path)
		}
	}
}

func (c *checker) drivers(list map[string]uint32, w where) {
	for name, major := range list {
		at := w.at(name)
		if major == 0 || major > 4095 {
			c.at(at, "", "major %d: want 1 to 4095", major)
		}
		if !driverName.MatchString(name) {
			c.at(at, "", "driver %q: want one word, as in /proc/devices", name)
		}
	}
}

// policy reports what no policy file can allow.
func (c *checker) policy(p policy.Policy, w where) {
	err := p.Validate()
	if err == nil {
		return
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		if f, ok := errors.AsType[*policy.FieldError](e); ok {
			key, index, _ := strings.Cut(strings.TrimSuffix(f.Field, "]"), "[")
			c.at(w.at(key).at(index), "", "%s: %s", f.Field, f.Why)
		}
	}
}
