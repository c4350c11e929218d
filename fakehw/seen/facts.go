package seen

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpurig/fakehw/catalog"
	"gpurig/fixtures/records"
)

// A Mark says what stands behind a fact of a fake host.
type Mark string

const (
	Recorded   Mark = "recorded"   // a real machine said the same
	Differs    Mark = "differs"    // a real machine said something else, for a known reason
	Wrong      Mark = "wrong"      // a real machine said something else; it is to be mended
	Derived    Mark = "derived"    // it follows from other facts
	Unverified Mark = "unverified" // no record is known
)

// A Fact is what a host says, and what is known about it.
type Fact struct {
	Board  string `json:"board,omitempty"` // empty: of the machine
	Field  string `json:"field"`
	Says   string `json:"says"`
	Mark   Mark   `json:"mark"`
	Record string `json:"record,omitempty"` // what the real machine said, where that is another thing
	Source string `json:"source,omitempty"` // with the driver's version
	Why    string `json:"why,omitempty"`    // it differs, or is derived
}

// derived are the fields that follow from others, and how.
var derived = map[string]string{
	"product_brand":                                          "follows from the name",
	"product_architecture":                                   "follows from the compute capability",
	"gsp_firmware_version":                                   "the driver's own version",
	"fb_memory_usage/free":                                   "total less reserved and used",
	"bar1_memory_usage/free":                                 "total less used",
	"gpu_power_readings/current_power_limit":                 "the default limit until it is set",
	"gpu_power_readings/requested_power_limit":               "the default limit until it is set",
	"gpu_power_readings/power_state":                         "the performance state",
	"clocks/sm_clock":                                        "the graphics clock",
	"pci/pci_gpu_link_info/pcie_gen/device_current_link_gen": "the current generation",
}

// Facts are all that a host of this profile says of its boards, and what records
// have of its machine, each with its mark.
func (h *Host) Facts(profile string, files []*records.File) []Fact {
	var out []Fact
	known := map[string]bool{}
	add := func(r records.Result) {
		f := Fact{Board: r.Board, Field: r.Field, Says: r.Says, Mark: Recorded, Source: strings.TrimSpace(r.File.Source + " " + r.File.Driver)}
		if !r.Equal {
			f.Mark, f.Record = Wrong, r.Text()
			if r.Why != nil {
				f.Why = r.Why.Reason
				if !r.Why.Wrong {
					f.Mark = Differs
				}
			}
		}
		known[r.Board+" "+r.Field] = true
		out = append(out, f)
	}
	for _, f := range files {
		if f.About(profile) {
			for _, r := range f.Compare("", profile, h.Machine) {
				add(r)
			}
		}
	}
	for _, board := range h.Boards() {
		says, _ := h.Board(board)
		for _, f := range h.Records(files, board) {
			for _, r := range f.Compare(board, profile, says) {
				add(r)
			}
		}
		for _, field := range fields(board) {
			if known[board+" "+field] {
				continue
			}
			f := Fact{Board: board, Field: field, Says: says(field), Mark: Unverified}
			if f.Says == records.Absent { // not a thing that the board can be asked
				continue
			}
			if why, ok := derived[field]; ok {
				f.Mark, f.Why = Derived, why
			}
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Board, b.Board), cmp.Compare(a.Field, b.Field))
	})
	return out
}

// fields are what a board can be asked.
func fields(board string) []string {
	out := slices.Collect(maps.Keys(answers))
	p, err := catalog.Find(board)
	if err != nil {
		return out
	}
	for _, m := range p.MIG {
		for column := range migColumns {
			out = append(out, "mig/"+m.Name+"/"+column)
		}
	}
	return out
}
