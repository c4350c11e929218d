package request

import (
	"strings"
)

// mig reads mig.uuid, mig.gi and mig.ci where no CDI name overrides them.
func (p *parser) mig() {
	set := p.migSet()
	if p.r.Type != MIG {
		for _, name := range set {
			if p.r.Type == Physical {
				p.refuse(ReasonMIGOnPhysical, name, "Write gputype=mig.", "is for MIG devices, and gputype is physical")
			} else {
				p.refuse(ReasonNotForType, name, "Take the option out.", "is for gputype=mig, not for %s", p.r.Type)
			}
		}
		return
	}
	if p.idSeen {
		return // a bad CDI name was meant to say it
	}
	byIDs := p.o.MIGGI != "" || p.o.MIGCI != ""
	switch {
	case len(set) == 0:
		p.refuse(ReasonMissingOption, "gputype", "Write id=nvidia.com/mig=GPU:MIG, or mig.uuid, or both mig.gi and mig.ci.", "mig needs to know which MIG device")
	case p.o.MIGUUID != "" && byIDs:
		p.refuse(ReasonConflicting, "mig.uuid", "Write mig.uuid, or mig.gi and mig.ci.", "cannot be given together with mig.gi and mig.ci")
	case p.o.MIGUUID != "":
		p.migUUID()
	case p.o.MIGGI == "":
		p.refuse(ReasonMissingOption, "mig.gi", "Write mig.gi too: the id of the GPU instance as nvidia-smi mig -lgi prints it.", "is needed with mig.ci")
	case p.o.MIGCI == "":
		p.refuse(ReasonMissingOption, "mig.ci", "Write mig.ci too: the id of the compute instance as nvidia-smi mig -lci prints it.", "is needed with mig.gi")
	default:
		gi, okGI := p.instance("mig.gi", p.o.MIGGI)
		ci, okCI := p.instance("mig.ci", p.o.MIGCI)
		if okGI && okCI {
			p.r.MIG = &MIGSelector{GI: gi, CI: ci}
		}
	}
}

func (p *parser) migSet() []string {
	var set []string
	for _, o := range []option{{"mig.gi", &p.o.MIGGI}, {"mig.ci", &p.o.MIGCI}, {"mig.uuid", &p.o.MIGUUID}} {
		if *o.text != "" {
			set = append(set, o.name)
		}
	}
	return set
}

// instance reads the id of a GPU instance or compute instance. Zero is an id.
func (p *parser) instance(name, s string) (int, bool) {
	v, ok := decimal(s, 127)
	if !ok {
		p.refuse(ReasonBadOption, name, "Write the id as nvidia-smi mig -lgi and -lci print it.", "%s is not a number from 0 to 127", quote(s))
	}
	return int(v), ok
}

// migUUID reads "MIG-<uuid>", "<uuid>", and the name that drivers before 470
// gave: "MIG-GPU-<uuid>/<gi>/<ci>" (mig-uuid-format).
func (p *parser) migUUID() {
	bad := func() {
		p.refuse(ReasonBadOption, "mig.uuid", "Write it as nvidia-smi -L prints it: MIG-<uuid>, or with drivers before 470 MIG-GPU-<uuid>/<gi>/<ci>.",
			"%s is no UUID of a MIG device", quote(p.o.MIGUUID))
	}
	s := strings.TrimPrefix(p.o.MIGUUID, "MIG-")
	if gpu, ok := strings.CutPrefix(s, "GPU-"); ok {
		parts := strings.Split(gpu, "/")
		if len(parts) != 3 || !isUUID(parts[0]) || s == p.o.MIGUUID {
			bad()
			return
		}
		gi, okGI := decimal(parts[1], 127)
		ci, okCI := decimal(parts[2], 127)
		if !okGI || !okCI {
			bad()
			return
		}
		p.r.MIG = &MIGSelector{GPU: "GPU-" + strings.ToLower(parts[0]), GI: int(gi), CI: int(ci)}
		return
	}
	if !isUUID(s) {
		bad()
		return
	}
	p.r.MIG = &MIGSelector{UUID: "MIG-" + strings.ToLower(s)}
}

// isUUID reports whether s is 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])) {
			return false
		}
	}
	return true
}
