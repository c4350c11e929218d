package reports

import "html/template"

// What page/page.html is filled with. Its texts are clean, not escaped: that is
// the template's work.
type (
	page struct {
		Policy             template.HTMLAttr
		Style              template.CSS
		Script             template.JS
		Headline, Started  string
		State              Verdict // the worst there is, and what colours the top
		CutShort, Compared bool
		Notes, Degraded    []string
		Warnings           []cause
		Targets            []pageTarget
		Pairs              []pagePair
		Differ             bool // some result does: there is a column for it
		Regression         bool
		Since              []pagePart
		Bad                []pageCases
		Skipped            int
		Skips              []pageSkip
		Filters            []pageFilter
		Results            int
		Data               template.JS
		Took, Base         string
		Commit, Link       string
		Machine            []pageFact
	}
	pageTarget struct {
		Name         string
		All          int
		Counts, Bars []pageCount // by verdict; bars are the counts that are not zero
	}
	pageCount struct {
		Verdict     Verdict
		From, Count int
	}
	pagePair struct {
		Pair
		Differ int
	}
	pagePart struct { // of a comparison
		Title string
		Open  bool
		Count int // of results
		Items []pageItem
	}
	pageItem struct {
		Head, Change string
		Number       int // of the result that is told in full; 0: none is
		Detail       []string
	}
	pageCases struct {
		ID, Title string
		Verdict   Verdict
		Count     int
		Causes    []cause // where there are many cases
		More      int     // causes that are not listed
	}
	pageSkip struct {
		Target, Reason string
		Count, More    int // results, and those of them that are not in IDs
		IDs            []string
	}
	pageFilter struct {
		Name   string
		Column int // of the table of results
		Values []string
	}
	// pageData is what the script makes rows and cases of.
	pageData struct {
		Strings  []string          `json:"strings"`
		Columns  []string          `json:"columns"`  // of rows
		Rows     [][]int           `json:"rows"`     // a number of Strings for each column but tenths and group
		Groups   []pageGroup       `json:"groups"`   // of results that did not pass, each told once
		Stations map[int]string    `json:"stations"` // digests of those, by row
		Values   map[string]string `json:"values"`
		Open     int               `json:"open"` // groups of a verdict that are unfolded at first
	}
	pageGroup struct {
		Verdict  Verdict       `json:"verdict"`
		Scenario string        `json:"scenario"`
		Targets  string        `json:"targets"`
		Reason   string        `json:"reason"`
		Evidence string        `json:"evidence"`
		Findings []pageFinding `json:"findings"`
		Next     []string      `json:"next"`
		Values   []Value       `json:"values"`
		Rows     []int         `json:"rows"`
	}
	pageFinding struct {
		Where string `json:"where"`
		What  string `json:"what"`
		Want  string `json:"want"`
		Got   string `json:"got"`
	}
	pageFact struct{ Name, Value string }
)
