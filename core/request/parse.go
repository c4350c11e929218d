package request

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"gpurig/core/cdi"
	"gpurig/core/pci"
	"gpurig/core/refuse"
)

// Parse reads the options of one GPU device.
//
// A CDI name as id overrides vendorid, productid, pci and mig.*: each of them
// that is set is named in a warning, or, when c.Strict is set, in a refusal. The
// error joins every refusal; there is no Request then.
func Parse(o Options, c Context) (Request, []Warning, error) {
	p := &parser{o: o, c: c, r: Request{VM: c.VM}}
	p.gpuType()
	p.id()
	if p.r.CDI != nil {
		p.overridden()
	} else {
		p.selectors()
		p.mig()
	}
	p.mdev()
	p.owner()
	if c.Strict {
		for _, w := range p.warnings {
			p.refusals = append(p.refusals, w.Refusal())
		}
		p.warnings = nil
	}
	if len(p.refusals) > 0 {
		return Request{}, p.warnings, refuse.Join(p.refusals...)
	}
	return p.r, p.warnings, nil
}

type parser struct {
	o        Options
	c        Context
	r        Request
	idSeen   bool // id is a CDI name, good or bad
	warnings []Warning
	refusals []*refuse.Error
}

// refuse adds a refusal of an option.
func (p *parser) refuse(r refuse.Reason, option, hint, format string, args ...any) {
	p.refusals = append(p.refusals, refuse.New(r, option, format, args...).WithHint("%s", hint))
}

func (p *parser) gpuType() {
	switch t := GPUType(p.o.GPUType); t {
	case "":
		p.r.Type = Physical
	case Physical:
		p.r.Type = t
	case MIG:
		p.r.Type = t
		if p.c.VM {
			p.refuse(ReasonContainersOnly, "gputype", "Write gputype=physical, mdev or sriov for a virtual machine.", "%q is for containers only", string(t))
		}
	case MDev, SRIOV:
		p.r.Type = t
		if !p.c.VM {
			p.refuse(ReasonVMOnly, "gputype", "Write gputype=physical or mig for a container.", "%q is for virtual machines only", string(t))
		}
	default:
		p.r.Type = Physical
		p.refuse(ReasonBadOption, "gputype", "Write physical, mig, mdev or sriov.", "there is no type %s", quote(p.o.GPUType))
	}
}

// id reads a DRM card number or a CDI name.
func (p *parser) id() {
	s := p.o.ID
	if s == "" {
		return
	}
	if !cdi.IsName(s) {
		n, ok := decimal(s, 1<<20-1)
		if !ok {
			p.refuse(ReasonBadOption, "id", "Write the N of /dev/dri/cardN, or a CDI name such as nvidia.com/gpu=0."+uuidHint(s),
				"%s is neither a DRM card number nor a CDI name", quote(s))
			return
		}
		card := int(n)
		p.r.Card = &card
		return
	}
	p.idSeen = true
	name, err := cdi.ParseName(s)
	if err != nil {
		p.nameRefused(err)
		return
	}
	p.r.CDI = &name
	if p.c.VM {
		p.refuse(ReasonCDIOnVM, "id", "Write the DRM card number, or pci=<address>, for a virtual machine.", "%s: CDI names are for containers only", quote(s))
		return
	}
	if p.r.Type == MDev || p.r.Type == SRIOV {
		p.refuse(ReasonCDIOnMDev, "id", "Select the parent by DRM card number or by pci=<address>.", "%s: a CDI name cannot be given with gputype=%s", quote(s), p.r.Type)
		return
	}
	asked, err := name.Ask()
	if err != nil {
		p.nameRefused(err)
		return
	}
	p.formMatchesType(asked)
}

// nameRefused gives refusals of a name the option that it stood in.
func (p *parser) nameRefused(err error) {
	for _, e := range refuse.As(err) {
		c := *e
		c.Where = "id"
		p.refusals = append(p.refusals, &c)
	}
}

// uuidHint helps with a UUID alone as id.
func uuidHint(s string) string {
	switch {
	case strings.HasPrefix(s, "MIG-"):
		return " For a MIG device write nvidia.com/mig=" + cut(s) + "."
	case strings.HasPrefix(s, "GPU-"), len(s) == 36:
		return " For a GPU by UUID write nvidia.com/gpu=" + cut(s) + "."
	}
	return ""
}

func cut(s string) string { return strings.Trim(quote(s), `"`) }

func (p *parser) formMatchesType(a cdi.Asked) {
	isMIG := a.Form == cdi.FormMIG || a.Form == cdi.FormOther && a.Name.Vendor == cdi.NVIDIA && a.Name.Class == cdi.ClassMIG
	switch {
	case p.r.Type == Physical && isMIG:
		p.refuse(ReasonMIGOnPhysical, "id", "Write gputype=mig.", "%s is a MIG device, and gputype is physical", quote(a.Name.String()))
	case p.r.Type == MIG && !isMIG:
		p.refuse(cdi.ReasonFullGPUOnMIG, "id", "Write nvidia.com/mig=GPU:MIG, for instance nvidia.com/mig=0:1, or gputype=physical.",
			"%s is no MIG device, and gputype is mig", quote(a.Name.String()))
	}
}

// overridden warns of options that the CDI name makes idle. Their values are not
// looked at.
func (p *parser) overridden() {
	for _, o := range p.o.all() {
		switch o.name {
		case "pci", "vendorid", "productid", "mig.gi", "mig.ci", "mig.uuid":
			if *o.text != "" {
				p.warnings = append(p.warnings, Warning{Option: o.name, Reason: ReasonOverridden,
					Msg:  "has no effect, because id=" + p.r.CDI.String() + " overrides it",
					Hint: "Take the option out."})
			}
		}
	}
}

// selectors reads pci, vendorid and productid.
func (p *parser) selectors() {
	if p.o.PCI != "" {
		p.pci()
	}
	p.r.Vendor = p.hexID("vendorid", p.o.VendorID, "10de")
	p.r.Product = p.hexID("productid", p.o.ProductID, "20b2")
	one, by := "", ""
	switch {
	case p.o.ID != "" && !p.idSeen:
		one, by = "id", "the DRM card number is one GPU's already"
	case p.o.PCI != "":
		one, by = "pci", "the PCI address is one GPU's already"
	}
	for _, other := range []option{{"pci", &p.o.PCI}, {"vendorid", &p.o.VendorID}, {"productid", &p.o.ProductID}} {
		if one != "" && other.name != one && *other.text != "" {
			p.refuse(ReasonConflicting, other.name, "Take one of the two out.", "cannot be given together with %s: %s", one, by)
		}
	}
}

func (p *parser) pci() {
	b, err := pci.ParseBDF(p.o.PCI)
	if err == nil {
		p.r.PCI = &b
		return
	}
	why := "is no PCI address"
	if syntax, ok := errors.AsType[*pci.SyntaxError](err); ok {
		why += ": " + syntax.Why
	}
	if isPlatform(p.o.PCI) {
		p.refuse(ReasonIGPUByPCI, "pci", "Write id=nvidia.com/igpu=0.", "%s is a platform device: an integrated GPU has no PCI address", quote(p.o.PCI))
		return
	}
	p.refuse(ReasonBadOption, "pci", "Write it as 0000:65:00.0; an integrated GPU is id=nvidia.com/igpu=0.", "%s %s", quote(p.o.PCI), why)
}

// isPlatform reports whether s is the sysfs name of a platform device,
// "17000000.gpu" or "17000000.ga10b": an address, a dot, a word.
func isPlatform(s string) bool {
	addr, word, ok := strings.Cut(s, ".")
	if !ok || len(addr) < 5 || len(word) < 2 || word[0] < 'a' || word[0] > 'z' {
		return false
	}
	return strings.Trim(addr, "0123456789abcdef") == ""
}

// hexID reads four hexadecimal digits.
func (p *parser) hexID(name, s, example string) *uint16 {
	if s == "" {
		return nil
	}
	v, err := strconv.ParseUint(s, 16, 16)
	if err != nil || len(s) != 4 {
		p.refuse(ReasonBadOption, name, "Write four hexadecimal digits as lspci -nn prints them, for instance "+example+".", "%s is not four hexadecimal digits", quote(s))
		return nil
	}
	u := uint16(v)
	return &u
}

func (p *parser) mdev() {
	switch {
	case p.r.Type == MDev && p.o.MDev == "":
		p.refuse(ReasonMissingOption, "mdev", "Write the type as mdevctl types prints it, for instance mdev=nvidia-468.", "is needed with gputype=mdev")
	case p.r.Type != MDev && p.o.MDev != "":
		p.refuse(ReasonNotForType, "mdev", "Write gputype=mdev, for a virtual machine.", "is for gputype=mdev, not for %s", p.r.Type)
	case p.o.MDev != "" && !isWord(p.o.MDev):
		p.refuse(ReasonBadOption, "mdev", "Write the type as mdevctl types prints it, for instance nvidia-468.", "%s is no name of a type", quote(p.o.MDev))
	default:
		p.r.MDev = p.o.MDev
	}
}

// isWord reports whether s can be a name in sysfs: it becomes part of a path.
func isWord(s string) bool {
	ok := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r)
	}
	return len(s) <= 128 && strings.Trim(s, ".") != "" && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
}

// owner reads uid, gid and mode.
func (p *parser) owner() {
	for _, o := range []option{{"uid", &p.o.UID}, {"gid", &p.o.GID}, {"mode", &p.o.Mode}} {
		if *o.text != "" && p.c.VM {
			p.refuse(ReasonContainersOnly, o.name, "Take the option out.", "is for containers only: a virtual machine gets no device nodes")
		}
	}
	p.r.UID = p.ownerID("uid", p.o.UID)
	p.r.GID = p.ownerID("gid", p.o.GID)
	p.mode()
}

// ownerID reads a user or group id. The highest number of 32 bits means "none"
// to the kernel.
func (p *parser) ownerID(name, s string) *uint32 {
	if s == "" {
		return nil
	}
	v, ok := decimal(s, 1<<32-2)
	if !ok {
		p.refuse(ReasonBadOption, name, "Write the number; names of users and groups mean something else in each container.", "%s is not a number from 0 to %d", quote(s), uint64(1<<32-2))
		return nil
	}
	u := uint32(v)
	return &u
}

// mode reads permission bits: always octal, with or without leading zeros
// (octal-vs-decimal).
func (p *parser) mode() {
	s := p.o.Mode
	if s == "" {
		return
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
	if err != nil || len(s) > 6 {
		hint := "Write octal digits, for instance mode=0660."
		if d, ok := decimal(s, 0o777); ok {
			hint = "If " + s + " is meant as a decimal number, write mode=0" + strconv.FormatUint(d, 8) + "."
		}
		p.refuse(ReasonBadMode, "mode", hint, "%s is no octal number", quote(s))
		return
	}
	if v == 0 || v > 0o777 {
		p.refuse(ReasonBadMode, "mode", "Write 0001 to 0777, for instance mode=0660.", "%s is not from 0001 to 0777", quote(s))
		return
	}
	m := fs.FileMode(v)
	p.r.Mode = &m
}

// decimal reads a decimal number without sign or leading zeros.
func decimal(s string, most uint64) (uint64, bool) {
	if len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	v, err := strconv.ParseUint(s, 10, 64)
	return v, err == nil && v <= most
}
