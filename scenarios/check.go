package scenarios

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpurig/core/policy"
	"gpurig/core/strictdoc"
)

// Limits of one scenario: a slip of the finger must not make a million
// containers (threat model B47).
const (
	MaxVariants   = 256
	maxContainers = 64
	maxDevices    = 64 // of one container, as GPUs of one host
	maxSteps      = 256
	maxFile       = 256 << 10 // bytes; the largest that people write has a few thousand
)

// NativeAgrees, as Scenario.Native, makes a difference a failure.
const NativeAgrees = "agrees"

// The closed lists of words.
var (
	Targets    = []string{"sim", "lxc", "sim-lxd", "lxd", "lxd-native", "incus", "incus-native", "docker", "docker-cdi", "sim-docker", "sim-oci", "oci", "podman", "sim-podman", "vfio", "qemu"}
	CgroupList = []string{"v1", "v2"}
	IDMapList  = []string{"none", "default"}
	openList   = []string{"allowed", "denied", "no-mode", "nodev"}
	typeList   = []string{"c", "b"}
	fileList   = []string{"file", "empty", "dir", "socket", "fifo"}
	configList = []string{"nvidia.runtime", "nvidia.driver.capabilities", "nvidia.require.cuda", "nvidia.require.driver"}
	mountWords = []string{"ro", "rw", "nosuid", "nodev", "noexec"}
)

// form is how a scenario file is written.
var form = strictdoc.New[Scenario](strictdoc.Options{
	What: "scenario", Bytes: maxFile, Entries: 4096, Text: 64 << 10, Words: true, Lines: true,
})

// A checker looks at the values of one decoded scenario. What could not be
// decoded has been reported already and is not looked at again.
type checker struct {
	*strictdoc.Doc
	s    *Scenario
	opts Options
}

func check(d *strictdoc.Doc, s *Scenario, opts Options) {
	c := checker{Doc: d, s: s, opts: opts}
	var root strictdoc.Path
	c.host(s.Host, root.Key("host"), true)
	c.needs(s.Needs, root.Key("needs"))
	c.placeholders(root)
	c.driver(s.Driver, root.Key("driver"))
	c.labels(root)
	if s.Bug != "" && !bugForm(s.Bug) {
		c.At(root.Key("bug"), "", "%q: want small letters, digits, \"-\" and \"_\", at most 64", s.Bug)
	}
	if d, err := time.ParseDuration(s.Timeout); s.Timeout != "" && (err != nil || d <= 0) {
		c.At(root.Key("timeout"), "", "%q: want a time that can pass, such as 5m", s.Timeout)
	}
	if s.Twin != "" && opts.Twin != nil && !opts.Twin(s.Twin, s.File) {
		c.At(root.Key("twin"), "A twin is the scenario that this one is the opposite of: AREA/NAME, or the name of a file beside this one.", "there is no scenario %q", s.Twin)
	}
	c.oneOf("target", s.Targets, Targets, root.Key("targets"))
	c.oneOf("native", list(s.Native), []string{NativeAgrees}, root.Key("native"))
	c.matrix(root.Key("matrix"))
	c.files(s.Specs, root.Key("specs"))
	c.policy(s.Policy, root.Key("policy"))
	for i := range s.Changes {
		c.change(&s.Changes[i], root.Key("changes").Item(i))
	}
	for i, f := range s.Faults {
		if f == "" {
			c.At(root.Key("faults").Item(i), "Leave the entry out.", "an empty fault")
		}
		c.fault(f, root.Key("faults").Item(i))
	}
	c.containers(root)
	c.steps(root)
	c.expectations(root)
	c.trials(root)
}

func (c *checker) labels(root strictdoc.Path) {
	for i, l := range c.s.Labels {
		c.wordAt(l, root.Key("labels").Item(i))
	}
	c.unique(c.s.Labels, root.Key("labels"))
}

func (c *checker) matrix(w strictdoc.Path) {
	m := c.s.Matrix
	n := 1
	for _, dim := range m.dimensions() {
		if dim.values == nil {
			continue
		}
		at := w.Key(dim.key)
		if len(dim.values) == 0 {
			c.At(at, "Leave the key out.", "%q has no value to vary over", dim.key)
		}
		c.unique(dim.values, at)
		n = min(n*max(len(dim.values), 1), 1<<20)
	}
	if n > MaxVariants {
		c.At(w, "Split the scenario, or vary less.", "the matrix has more than %d variants", MaxVariants)
	}
	for i, h := range m.Host {
		c.host(h, w.Key("host").Item(i), false)
	}
	for i, v := range m.Driver {
		c.driver(v, w.Key("driver").Item(i))
	}
	c.oneOf("cgroup", m.Cgroup, CgroupList, w.Key("cgroup"))
	c.oneOf("idmap", m.IDMap, IDMapList, w.Key("idmap"))
	c.oneOf("image", m.Image, c.opts.Images, w.Key("image"))
	if c.s.Host != "" && m.Host != nil {
		c.At(w.Key("host"), "Keep the one in the matrix.", "the host is given twice: host and matrix.host")
	}
	if c.s.Driver != "" && m.Driver != nil {
		c.At(w.Key("driver"), "Keep the one in the matrix.", "the driver is given twice: driver and matrix.driver")
	}
}

func (c *checker) containers(root strictdoc.Path) {
	at := root.Key("containers")
	if len(c.s.Containers) == 0 {
		c.At(at, "Add containers: {c1: {devices: {gpu0: {id: \"nvidia.com/gpu=0\"}}}}.", "no container")
	}
	if len(c.s.Containers) > maxContainers {
		c.At(at, "", "%d containers; at most %d", len(c.s.Containers), maxContainers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.s.Containers)) {
		w := at.Key(name)
		ctr := c.s.Containers[name]
		if !isName(name, "-", 32) {
			c.AtKey(w, "", "container name %q: want at most 32 letters, digits and \"-\"", name)
		}
		c.oneOf("image", list(ctr.Image), c.opts.Images, w.Key("image"))
		c.content(name, ctr, w.Key("content"))
		c.oneOf("cgroup", list(ctr.Cgroup), CgroupList, w.Key("cgroup"))
		c.oneOf("idmap", list(ctr.IDMap), IDMapList, w.Key("idmap"))
		if len(ctr.Devices) > maxDevices {
			c.At(w.Key("devices"), "", "%d devices; at most %d", len(ctr.Devices), maxDevices)
		}
		for dev := range ctr.Devices {
			c.deviceName(dev, w.Key("devices").Key(dev), true)
		}
		for i, config := range append(slices.Clone(ctr.Profiles), ctr.Config) {
			p := w.Key("profiles").Item(i)
			if i == len(ctr.Profiles) {
				p = w.Key("config")
			}
			for _, key := range slices.Sorted(maps.Keys(config)) {
				c.oneOf("instance option", list(key), configList, p.Key(key))
			}
			if ctr.VM && len(config) > 0 {
				c.At(p, "", "options of containers, and this is a virtual machine")
			}
		}
		for dim, own := range map[string]string{"cgroup": ctr.Cgroup, "idmap": ctr.IDMap, "image": ctr.Image} {
			if own != "" && c.s.Matrix.has(dim) {
				c.At(w.Key(dim), "Leave it to the matrix.", "%s is given twice: here and in matrix.%s", dim, dim)
			}
		}
	}
}

func (c *checker) deviceName(name string, w strictdoc.Path, key bool) {
	if isName(name, "-._", 64) {
		return
	}
	report := c.At
	if key {
		report = c.AtKey
	}
	report(w, "", "device name %q: want at most 64 letters, digits, \"-\", \".\" and \"_\"", name)
}

func (c *checker) container(name string, w strictdoc.Path) {
	if c.noContainer(name) {
		known := slices.Sorted(maps.Keys(c.s.Containers))
		c.At(w, "Known: "+strings.Join(known, ", ")+".", "no container %q%s", name, strictdoc.Meant(name, known))
	}
}

func (c *checker) noContainer(name string) bool {
	_, ok := c.s.Containers[name]
	return !ok && !c.Failed("containers")
}

func (c *checker) steps(root strictdoc.Path) {
	at := root.Key("steps")
	if c.s.Steps != nil && len(c.s.Steps) == 0 {
		c.At(at, "Leave the key out: then every container is started.", "no step")
	}
	if len(c.s.Steps) > maxSteps {
		c.At(at, "", "%d steps; at most %d", len(c.s.Steps), maxSteps)
	}
	for i := range c.s.Steps {
		c.step(&c.s.Steps[i], at.Item(i))
	}
}

func (c *checker) step(st *Step, w strictdoc.Path) {
	c.exactlyOne(reflect.ValueOf(*st), w, "step")
	for key, name := range map[string]string{"start": st.Start, "stop": st.Stop, "restart": st.Restart, "ldconfig": st.Ldconfig} {
		if name != "" {
			c.container(name, w.Key(key))
		}
	}
	c.ldconfig(st.Ldconfig, w.Key("ldconfig"))
	for key, p := range map[string]*Plug{"plug": st.Plug, "unplug": st.Unplug} {
		if p == nil {
			continue
		}
		at := w.Key(key)
		c.container(p.Container, at.Key("container"))
		c.deviceName(p.Name, at.Key("name"), false)
		if key == "unplug" && p.Device != (Device{}) {
			c.At(at.Key("device"), "Name the device; its options are known.", "unplug takes no device options")
		}
	}
	if r := st.Run; r != nil {
		at := w.Key("run")
		if r.In != "" {
			c.container(r.In, at.Key("in"))
		}
		switch {
		case len(r.Program) == 0 || r.Program[0] == "":
			c.At(at, "Add program: [/usr/bin/nvidia-smi, -L].", "no program")
		case !strings.HasPrefix(r.Program[0], "/"):
			c.At(at.Key("program"), "", "path %q is not absolute", r.Program[0])
		}
		if r.Nested && r.In == "" {
			c.At(at.Key("nested"), "Add in: the container.", "nested, and in no container")
		}
		if r.Exit < 0 || r.Exit > 255 {
			c.At(at.Key("exit"), "", "exit code %d: want 0 to 255", r.Exit)
		}
	}
	if st.Change != nil {
		c.change(st.Change, w.Key("change"))
	}
	c.fault(st.Fault, w.Key("fault"))
	c.fault(st.Heal, w.Key("heal"))
	for _, name := range slices.Sorted(maps.Keys(st.Expect)) {
		c.expect(name, st.Expect[name], w.Key("expect").Key(name))
	}
}

// fault reports text that names no fault.
func (c *checker) fault(text string, w strictdoc.Path) {
	if text == "" || c.opts.Fault == nil {
		return
	}
	if err := c.opts.Fault(text); err != nil {
		c.At(w, "", "%v", err)
	}
}

// exactlyOne reports a step or change that says nothing, or two things at once.
// "expect" is not a thing that happens.
func (c *checker) exactlyOne(v reflect.Value, w strictdoc.Path, what string) {
	var set, all []string
	for _, f := range form.Fields(v.Type()) {
		if f.Key == "expect" {
			continue
		}
		all = append(all, f.Key)
		if !f.Of(v).IsZero() {
			set = append(set, f.Key)
		}
	}
	written := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return !c.Has(w.Key(k)) })
	switch {
	case len(written) == 1 && len(set) == 1:
	case len(written) > 1:
		c.At(w, "Make it a list of several.", "a %s does one thing; this one has %s", what, strings.Join(written, " and "))
	case len(written) == 1:
		c.At(w.Key(written[0]), "", "%q does nothing with this value", written[0])
	default:
		c.At(w, "One of: "+strings.Join(all, ", ")+".", "a %s that does nothing", what)
	}
}

func (c *checker) change(ch *Change, w strictdoc.Path) {
	c.exactlyOne(reflect.ValueOf(*ch), w, "change")
	c.driver(ch.Driver, w.Key("driver"))
	c.driver(ch.DriverUser, w.Key("driver-user"))
	for name, major := range ch.Majors {
		if major == 0 || major > 4095 {
			c.At(w.Key("majors").Key(name), "", "major %d: want 1 to 4095", major)
		}
	}
	c.drivers(ch.Drivers, w.Key("drivers"))
	c.drivers(ch.BlockDrivers, w.Key("block-drivers"))
	if m := ch.MIG; m != nil {
		c.index(m.GPU, w.Key("mig").Key("gpu"))
		if m.Off && len(m.Profiles) > 0 {
			c.At(w.Key("mig").Key("off"), "", "MIG mode off and profiles exclude each other")
		}
	}
	if ch.RemoveGPU != nil {
		c.index(*ch.RemoveGPU, w.Key("remove-gpu"))
	}
	for gpu, minor := range ch.Minors {
		at := w.Key("minors").Key(strconv.Itoa(gpu))
		c.index(gpu, at)
		if minor < 0 || minor > 254 {
			c.At(at, "", "minor %d: want 0 to 254", minor)
		}
	}
	c.paths(ch.RemoveNodes, w.Key("remove-nodes"))
	c.paths(ch.Remove, w.Key("remove"))
	c.files(ch.Files, w.Key("files"))
	c.files(ch.Links, w.Key("links"))
	c.files(ch.Modes, w.Key("modes"))
	for p, m := range ch.Modes {
		c.mode(m, w.Key("modes").Key(p))
	}
	c.write(ch.Write, w.Key("write"))
	for i, n := range ch.Nodes {
		at := w.Key("nodes").Item(i)
		c.path(n.Path, at.Key("path"))
		c.number(n.Number, at.Key("number"))
		c.oneOf("type", list(n.Type), typeList, at.Key("type"))
		c.mode(n.Mode, at.Key("mode"))
		if n.Number == "" && n.Mode == "" && n.UID == nil && n.GID == nil {
			c.At(at, "Give a number, mode, uid or gid.", "nothing of node %q is changed", n.Path)
		}
	}
}

// write checks what is written to sysfs: one attribute, since the order matters.
func (c *checker) write(m map[string]string, w strictdoc.Path) {
	if len(m) > 1 {
		c.At(w, "Make it one change for each, in their order.", "%d attributes are written at once", len(m))
	}
	pathKeys(c, m, w)
	for p := range m {
		if !strings.HasPrefix(p, "/sys/") {
			c.AtKey(w.Key(p), "Files are changed with files.", "%q is no attribute of sysfs", p)
		}
	}
}

func (c *checker) drivers(list map[string]uint32, w strictdoc.Path) {
	for name, major := range list {
		at := w.Key(name)
		if major == 0 || major > 4095 {
			c.At(at, "", "major %d: want 1 to 4095", major)
		}
		if !driverName(name) {
			c.At(at, "", "driver %q: want one word, as in /proc/devices", name)
		}
	}
}

// policy reports what no policy file can allow.
func (c *checker) policy(p policy.Policy, w strictdoc.Path) {
	err := p.Validate()
	if err == nil {
		return
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		if f, ok := errors.AsType[*policy.FieldError](e); ok {
			c.At(w.Key(f.Field), "", "%s: %s", f.Field, f.Why)
		}
	}
}
