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
		Results            []pageRow
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
		Items []pageItem
	}
	pageItem struct {
		Head, Change string
		Number       int // of the result that is told in full; 0: none is
		Detail       []string
	}
	pageCases struct {
		ID, Title string
		Count     int
		Causes    []cause // where there are many cases
		More      int     // causes that are not listed
		Cases     []pageCase
	}
	pageCase struct { // results of one scenario that say the same
		pageRow
		Title, Reason, Evidence string
		Targets                 string
		Open                    bool
		Findings                []pageFinding
		Next                    []string
		Results                 []pageResult
	}
	pageResult struct {
		pageRow
		ID       string
		Place    string // of the scenario
		Run      string // the command that runs it again
		Stations []pageStation
	}
	pageFinding struct{ Where, What, Want, Got string }
	pageStation struct{ Name, Digest string }
	pageSkip    struct {
		Target, Reason string
		IDs            []string
	}
	pageFilter struct {
		Name   string
		Column int // of the table of results
		Values []string
	}
	pageRow struct {
		Number                   int // from 1, in the order of the report
		Verdict                  Verdict
		Area, Name, Host, Target string
		Took                     string // milliseconds
		Linked                   bool   // it is told in full
	}
	pageFact struct{ Name, Value string }
)
