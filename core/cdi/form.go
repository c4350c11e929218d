package cdi

import (
	"strconv"
	"strings"

	"gpurig/core/refuse"
)

// A Form is what a name asks for.
type Form string

// The forms of names. Only nvidia.com's names have a form of their own: those
// of other vendors mean what their Specs say.
const (
	FormGPU   Form = "gpu"   // one full GPU
	FormMIG   Form = "mig"   // one MIG device
	FormIGPU  Form = "igpu"  // the integrated GPU
	FormAll   Form = "all"   // every device of the kind
	FormOther Form = "other" // whatever a Spec defines under that name
)

// Vendor and classes of NVIDIA's names. Specs generated for a host have one
// kind, nvidia.com/gpu; the other two classes are other words for its devices.
const (
	NVIDIA    = "nvidia.com"
	ClassGPU  = "gpu"
	ClassMIG  = "mig"
	ClassIGPU = "igpu"
)

// All is the device name that stands for every device of a kind.
const All = "all"

// An Asked is a Name with its meaning.
type Asked struct {
	Name Name // as written
	Form Form
	GPU  int    // index of the GPU as NVML counts; -1: not said
	MIG  int    // index of the MIG device within its GPU; -1: not said
	UUID string // lower case, with prefix; without one where none was written; empty: not said

	// Names are the names that Specs generated for a host can have for the same
	// device, the likeliest first. Name itself is not repeated.
	Names []Name
}

// Ask returns the meaning of n. It knows no host: whether the device exists is
// for Resolve or for package request.
//
// The names of nvidia.com mean, with <u> a UUID, in either case:
//
//	gpu=0, gpu=gpu0                        full GPU by index
//	gpu=GPU-<u>, gpu=<u>                   full GPU by UUID; Orin's has no prefix
//	gpu=all                                every GPU and MIG device
//	mig=0:1, mig=mig0:1, gpu=0:1, gpu=mig0:1  MIG device 1 of GPU 0
//	mig=MIG-<u>, mig=<u>, gpu=MIG-<u>      MIG device by UUID
//	igpu=0, igpu=igpu0, gpu=igpu0, igpu=all  the integrated GPU; a system on chip has one
//	igpu=<u>, igpu=GPU-<u>                 the integrated GPU by UUID
//
// AMD's and Intel's gpu=gpu0 also means gpu=0. mig=all is refused with the reason ReasonMIGAll, a full GPU of class mig with
// ReasonFullGPUOnMIG, a MIG device of class igpu and a second integrated GPU with
// ReasonNotFound. Anything else is a name that some Spec may define.
func (n Name) Ask() (Asked, error) {
	a := Asked{Name: n, Form: FormOther, GPU: -1, MIG: -1}
	if n.Device == All {
		a.Form = FormAll
	}
	if n.Vendor != NVIDIA {
		if i, ok := index(n.Device, "gpu"); ok && (n.Kind() == "amd.com/gpu" || n.Kind() == "intel.com/gpu") {
			a.Names = []Name{{Vendor: n.Vendor, Class: n.Class, Device: strconv.Itoa(i)}}
		}
		return a, nil
	}
	switch n.Class {
	case ClassGPU:
		a.readGPU()
	case ClassMIG:
		return a.readMIG()
	case ClassIGPU:
		return a.readIGPU()
	}
	return a, nil
}

func (a *Asked) readGPU() {
	d := a.Name.Device
	if a.asMIG(d) {
		return
	}
	if i, ok := index(d, "igpu"); ok && i == 0 {
		a.integrated()
		return
	}
	if i, ok := index(d, "", "gpu"); ok {
		a.Form, a.GPU = FormGPU, i
		a.also(strconv.Itoa(i), "gpu"+strconv.Itoa(i))
		return
	}
	if prefix, u, ok := uuid(d); ok {
		a.Form, a.UUID = FormGPU, prefix+u
		a.also("GPU-"+u, prefix+u)
	}
}

func (a Asked) readMIG() (Asked, error) {
	d := a.Name.Device
	refused := func(r refuse.Reason, why string) (Asked, error) {
		e := refuse.New(r, "", "CDI device name %s: %s", quote(a.Name.String()), why)
		return Asked{}, e.WithHint("%s", migHint(d))
	}
	if d == All {
		return refused(ReasonMIGAll, "MIG devices are named one by one")
	}
	if a.asMIG(d) {
		return a, nil
	}
	prefix, u, isUUID := uuid(d)
	if isUUID && prefix == "" {
		a.Form, a.UUID = FormMIG, "MIG-"+u
		a.also(a.UUID)
		return a, nil
	}
	if _, isIndex := index(d, "", "gpu", "igpu"); isIndex || isUUID {
		return refused(ReasonFullGPUOnMIG, "this is a full GPU, not a MIG device")
	}
	return a, nil
}

func migHint(d string) string {
	const mig = "Write nvidia.com/mig=GPU:MIG, for instance nvidia.com/mig=0:1, or nvidia.com/mig=MIG-<uuid>"
	if d == All {
		return mig + ", once for each device."
	}
	return mig + "; for the full GPU write nvidia.com/gpu=" + d + " with gputype=physical."
}

func (a Asked) readIGPU() (Asked, error) {
	d := a.Name.Device
	if d == All {
		a.integrated()
		return a, nil
	}
	if i, ok := index(d, "", "igpu"); ok && i == 0 {
		a.integrated()
		return a, nil
	}
	if prefix, u, ok := uuid(d); ok && prefix != "MIG-" {
		a.integrated()
		a.GPU, a.UUID = -1, prefix+u
		a.Names = nil
		a.also(prefix+u, "GPU-"+u)
		return a, nil
	}
	_, isIndex := index(d, "", "igpu", "gpu")
	if b := a; isIndex || b.asMIG(d) {
		e := refuse.New(ReasonNotFound, "", "CDI device name %s: a system on chip has one integrated GPU, number 0, without MIG devices", quote(a.Name.String()))
		return Asked{}, e.WithHint("Write nvidia.com/igpu=0; for a discrete GPU write nvidia.com/gpu=<index>.")
	}
	return a, nil
}

// integrated makes a mean the integrated GPU. NVIDIA's library counts it first,
// whatever discrete GPUs there are beside it.
func (a *Asked) integrated() {
	a.Form, a.GPU = FormIGPU, 0
	a.also("igpu0", "0", "gpu0")
}

// asMIG reads "0:1", "mig0:1" and "MIG-<uuid>".
func (a *Asked) asMIG(d string) bool {
	if prefix, u, ok := uuid(d); ok && prefix == "MIG-" {
		a.Form, a.UUID = FormMIG, prefix+u
		a.also(a.UUID)
		return true
	}
	g, m, ok := strings.Cut(strings.TrimPrefix(d, "mig"), ":")
	gpu, okG := index(g, "")
	mig, okM := index(m, "")
	if !ok || !okG || !okM {
		return false
	}
	a.Form, a.GPU, a.MIG = FormMIG, gpu, mig
	pair := strconv.Itoa(gpu) + ":" + strconv.Itoa(mig)
	a.also(pair, "mig"+pair)
	return true
}

// also adds devices of nvidia.com/gpu to the names, each once.
func (a *Asked) also(devices ...string) {
	for _, d := range devices {
		n := Name{Vendor: NVIDIA, Class: ClassGPU, Device: d}
		if n == a.Name {
			continue
		}
		if len(a.Names) == 0 || a.Names[len(a.Names)-1] != n {
			a.Names = append(a.Names, n)
		}
	}
}

// index reads a decimal number of at most three digits without leading zeros
// after one of the prefixes.
func index(s string, prefixes ...string) (int, bool) {
	for _, p := range prefixes {
		digits, ok := strings.CutPrefix(s, p)
		if !ok || digits == "" || len(digits) > 3 || len(digits) > 1 && digits[0] == '0' {
			continue
		}
		if i, err := strconv.ParseUint(digits, 10, 16); err == nil {
			return int(i), true
		}
	}
	return 0, false
}

// uuid splits a UUID from its prefix, "GPU-", "MIG-" or none. The hexadecimal
// digits come back in lower case, as drivers print them.
func uuid(s string) (prefix, u string, ok bool) {
	for _, p := range []string{"GPU-", "MIG-"} {
		if rest, has := strings.CutPrefix(s, p); has {
			prefix, s = p, rest
			break
		}
	}
	if len(s) != 36 {
		return "", "", false
	}
	for i := range len(s) {
		c := s[i]
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash && c != '-':
			return "", "", false
		case !dash && !isDigit(rune(c)) && !('a' <= c && c <= 'f') && !('A' <= c && c <= 'F'):
			return "", "", false
		}
	}
	return prefix, strings.ToLower(s), true
}
