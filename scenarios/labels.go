package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// AllLabels returns what a scenario can be selected by: its area (the folder),
// its labels, "bug" and the bug's name, "twin" for a negative twin. Sorted.
func (s *Scenario) AllLabels() []string {
	all := slices.Clone(s.Labels)
	if area, _, ok := strings.Cut(s.Name, "/"); ok {
		all = append(all, area)
	}
	if s.Bug != "" {
		all = append(all, "bug", s.Bug)
	}
	if s.Twin != "" {
		all = append(all, "twin")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// markup is what Ginkgo's messages have for colours.
var markup = regexp.MustCompile(`\{\{[^}]*\}\}`)

// ParseLabels reads a label expression as Ginkgo does: "mig && !slow",
// "/^dynamic-/". An empty one selects everything.
func ParseLabels(expr string) (func(labels []string) bool, error) {
	filter, err := types.ParseLabelFilter(expr)
	if err != nil {
		why := err.Error()
		if ge, ok := err.(types.GinkgoError); ok {
			why = ge.Message
		}
		why = markup.ReplaceAllString(why, "")
		return nil, fmt.Errorf("label expression %q: %s", expr, strings.Join(strings.Fields(why), " "))
	}
	return filter, nil
}
