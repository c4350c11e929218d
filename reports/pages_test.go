package reports_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"gpurig/reports"
)

// requireChromium returns a browser. The test takes a minute, so it is skipped where
// nobody asked for it.
func requireChromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("GPURIG_REQUIRE_PAGES") == "" {
		t.Skip("make pages shows pages in Chromium")
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("GPURIG_REQUIRE_PAGES: %v", err)
	}
	return path
}

// A browser shows pages of one folder.
type browser struct {
	t       *testing.T
	program string
	dir     string
}

func newBrowser(t *testing.T) *browser { return &browser{t, requireChromium(t), t.TempDir()} }

func (b *browser) run(page []byte, hash string, flags ...string) []byte {
	b.t.Helper()
	file := filepath.Join(b.dir, "page.html")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		b.t.Fatal(err)
	}
	flags = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + b.dir, "--virtual-time-budget=5000"}, flags...)
	out, err := exec.CommandContext(b.t.Context(), b.program, append(flags, "file://"+file+hash)...).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// dom is the page after its script has run.
func (b *browser) dom(page []byte, hash string, flags ...string) string {
	b.t.Helper()
	dom := string(b.run(page, hash, append(flags, "--dump-dom")...))
	if !strings.Contains(dom, `data-ready="yes"`) {
		b.t.Fatalf("the script of the page did not come to its end:\n%.3000s", dom[strings.LastIndex(dom, "<body"):])
	}
	return dom
}

// large has n results of which two thirds fail, each in a way of its own.
func large(n int) reports.Report {
	r := reports.Report{Tool: "gpurig test", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i := range n {
		res := reports.Result{Scenario: fmt.Sprintf("area%d/scenario-%d", i%9, i/8), Title: fmt.Sprintf("Scenario %d says so.", i/8), Host: "t4-server",
			Variant: map[string]string{"cgroup": fmt.Sprint("v", i%4), "idmap": "none"}, Target: []string{"lxc", "sim"}[i/4%2], Verdict: reports.Pass, DurationMS: float64(i % 977),
			File: fmt.Sprintf("area%d/scenario-%d.yaml", i%9, i/8), Line: 1 + i%30, Run: fmt.Sprintf("gpurig run 'area%d/scenario-%d[cgroup=v%d,idmap=none]'", i%9, i/8, i%4)}
		if i%3 > 0 {
			res.Verdict = reports.Fail
			for k := range 4 {
				res.Findings = append(res.Findings, reports.Finding{Station: "plan", Container: "c1", Step: "end", What: fmt.Sprintf("/dev/nvidia%d", i+k), Want: "/a, /b, /c", Got: "/a, /c, /d", Line: 3})
			}
		}
		r.Results = append(r.Results, res)
	}
	r.Finish(true)
	return r
}

func TestTheBrowserMakesRowsAsTheyAreLookedAt(t *testing.T) {
	b := newBrowser(t)
	r := large(3000)
	page := render(t, r, nil)
	rows := func(dom string) int { return strings.Count(dom, "<tr data-row=") }
	shown := func(dom string) string {
		return regexp.MustCompile(`id="shown">([^<]*)<`).FindStringSubmatch(dom)[1]
	}
	all := b.dom(page, "")
	if n := rows(all); n < 200 || n > 1000 || shown(all) != "3000" {
		t.Errorf("%d rows were made of %s", n, shown(all))
	}
	if n := strings.Count(all, `<details class="case"`); n < 200 || n > 600 {
		t.Errorf("%d cases were made", n)
	}
	if n := strings.Count(all, `<table class="findings"`); n != 5 {
		t.Errorf("the findings of %d cases were made; want those of 5 that are open", n)
	}
	if dom := b.dom(page, "#verdict=pass&target=sim&name=scenario-37"); shown(dom) == "3000" || rows(dom) == 0 || strings.Contains(dom[strings.Index(dom, "<tbody><tr data-row"):], `href="#r1">fail`) {
		t.Errorf("the filter of the address shows %s, %d rows", shown(dom), rows(dom))
	}
	if dom := b.dom(page, "#verdict=pass&name=no such name"); shown(dom) != "0 of 3000" || rows(dom) != 0 {
		t.Errorf("a filter that fits nothing shows %s, %d rows", shown(dom), rows(dom))
	}
	last := len(r.Results)
	for r.Results[last-1].Verdict != reports.Fail {
		last--
	}
	dom := b.dom(page, fmt.Sprintf("#r%d", last))
	if !strings.Contains(dom, fmt.Sprintf(`<li id="r%d">`, last)) || !strings.Contains(dom, strings.ReplaceAll(r.Results[last-1].Run, "&", "&amp;")) {
		t.Errorf("the address of result %d does not open it", last)
	}
	if !strings.Contains(dom, "<del>/b</del>") || !strings.Contains(dom, "<ins>/d</ins>") {
		t.Error("what differs between expected and seen is not marked")
	}
}

// In the browser, too, texts of hosts are text: no element comes of them, and no script.
func TestA37TheBrowserKeepsEveryTextAText(t *testing.T) {
	b := newBrowser(t)
	r := sample()
	for i := range r.Results {
		res := &r.Results[i]
		res.Title, res.Host, res.Run = poison, poison, poison
		for j := range res.Findings {
			res.Findings[j].Want, res.Findings[j].Got, res.Findings[j].Next = poison, poison, poison
		}
		for j := range res.Values {
			res.Values[j].Name = poison
		}
	}
	dom := b.dom(render(t, r, nil), "")
	if strings.Contains(dom, "<img") || strings.Count(dom, "<script") != 2 || strings.Count(dom, "alert(1)") < 10 {
		t.Errorf("%d scripts, %d times the poison", strings.Count(dom, "<script"), strings.Count(dom, "alert(1)"))
	}
	if !strings.Contains(dom, "- /dev/x &lt;/script&gt;") {
		t.Error("the plan of the failure is not on the page")
	}
}

// TestThePageFitsItsWindow measures it in a frame, with its policy taken away so that a
// script can, and keeps what it looks like in the folder that GPURIG_PAGES names.
func TestThePageFitsItsWindow(t *testing.T) {
	b := newBrowser(t)
	base, r := sample(), sample()
	r.Notes = append(r.Notes, strings.Repeat("a-long-word", 30))
	r.Results = append(r.Results, large(300).Results...)
	r.Finish(true)
	c := reports.Compare(base, r)
	pages := map[string][]byte{"report": render(t, r, nil), "compare": render(t, r, &c)}
	trend, err := reports.NewHistory([]reports.Report{base, r, large(300)}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	pages["history"] = trend
	for name, page := range pages {
		policy := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
		inner := html.EscapeString(string(policy.ReplaceAll(page, nil)))
		for _, width := range []int{390, 1280} {
			size := fmt.Sprintf("--window-size=%d,2000", width)
			frame := fmt.Sprintf(`<!DOCTYPE html><body><iframe id="f" width="%d" height="2000" style="border: 0" srcdoc="%s"></iframe><script>
				f.onload = () => { document.body.dataset.wide = f.contentDocument.documentElement.scrollWidth; document.body.dataset.ready = "yes"; };</script>`, width, inner)
			wide := regexp.MustCompile(`data-wide="(\d+)"`).FindStringSubmatch(b.dom([]byte(frame), "", "--window-size=1400,2000"))
			if wide == nil || wide[1] != fmt.Sprint(width) {
				t.Errorf("%s: in a window of %d pixels the page has %v", name, width, wide)
			}
			if dir := os.Getenv("GPURIG_PAGES"); dir != "" {
				b.run(page, "", size, "--screenshot="+filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, width)))
			}
		}
	}
}
