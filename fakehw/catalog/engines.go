package catalog

import "strings"

// Engines are the parts of a GPU besides multiprocessors and memory that an
// instance has.
type Engines struct {
	Copy, Decoders, Encoders, JPEG, OFA int
}

// Engines returns what an instance of m has on p, as nvidia-smi mig -lgip prints
// it. A100's and A30's are from the MIG user guide and captures, Hopper's from a
// captures of H100 and H200, B200's and GB200's, with two copy engines a slice,
// from mig-parted's issues and the guide, RTX PRO 6000's from a public listing; other
// products are taken to be like Hopper (unverified).
func (p Product) Engines(m MIGProfile) Engines {
	_, attr, _ := strings.Cut(m.Name, "gb")
	whole := m.Size == p.Slices
	switch {
	case p.ComputeCap == "8.0" && p.Slices == 4:
		e := Engines{Copy: m.Compute, Decoders: m.Compute}
		if whole || attr == "+me" {
			e.JPEG, e.OFA = 1, 1
		}
		return e
	case p.ComputeCap == "8.0":
		e := Engines{Copy: m.Compute, Decoders: m.Size / 2}
		if whole {
			e.Decoders = 5
		}
		if whole || attr == "+me" {
			e.Decoders, e.JPEG, e.OFA = max(e.Decoders, 1), 1, 1
		}
		return e
	}
	e := Engines{Copy: m.Compute, Decoders: m.Compute, JPEG: m.Compute}
	if whole {
		e.Copy = p.Slices
	}
	if strings.HasPrefix(p.ComputeCap, "10.") {
		e.Copy *= 2
	}
	if p.Slices == 4 { // with outputs: it encodes too
		e.Encoders = m.Compute
	}
	if whole || attr == "+me" || attr == "+me.all" {
		e.OFA = 1
	}
	switch attr {
	case "-me":
		e.Decoders, e.Encoders, e.JPEG = 0, 0, 0
	case "+me.all":
		e.Decoders, e.Encoders, e.JPEG = p.Slices, p.Slices, p.Slices
	}
	return e
}
