package request

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"gpurig/core/refuse"
)

// An option is a name with its place in Options.
type option struct {
	name string
	text *string
}

// all returns the options in the order in which they are documented.
func (o *Options) all() []option {
	return []option{
		{"gputype", &o.GPUType}, {"id", &o.ID}, {"pci", &o.PCI}, {"vendorid", &o.VendorID}, {"productid", &o.ProductID},
		{"mig.gi", &o.MIGGI}, {"mig.ci", &o.MIGCI}, {"mig.uuid", &o.MIGUUID}, {"mdev", &o.MDev},
		{"uid", &o.UID}, {"gid", &o.GID}, {"mode", &o.Mode},
	}
}

// FromMap reads options by their names. Names that there are not are refused,
// all at once, with the reason UnknownOption. The option "type" may be "gpu".
func FromMap(m map[string]string) (Options, error) {
	var o Options
	known := o.all()
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	var refusals []*refuse.Error
	for _, name := range names {
		if name == "type" && m[name] == "gpu" {
			continue
		}
		i := slices.IndexFunc(known, func(k option) bool { return k.name == name })
		if i < 0 {
			refusals = append(refusals, refuse.New(ReasonUnknownOption, quote(name), "a GPU device has no such option").
				WithHint("The options are %s.", strings.Join(optionNames(known), ", ")))
			continue
		}
		*known[i].text = m[name]
	}
	if len(refusals) > 0 {
		return Options{}, refuse.Join(refusals...)
	}
	return o, nil
}

func optionNames(all []option) []string {
	var names []string
	for _, o := range all {
		names = append(names, o.name)
	}
	return names
}

// Map returns the options that are set, by their names.
func (o Options) Map() map[string]string {
	m := map[string]string{}
	for _, opt := range o.all() {
		if *opt.text != "" {
			m[opt.name] = *opt.text
		}
	}
	return m
}

// quote quotes a user's text for a message: in ASCII and cut.
func quote(s string) string {
	if len(s) > 80 {
		return strconv.QuoteToASCII(s[:80]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.QuoteToASCII(s)
}
