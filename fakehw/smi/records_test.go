package smi_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"gpurig/fakehw/catalog"
	"gpurig/fakehw/nvmlfake"
	"gpurig/fixtures/records"
)

// elements reads the first GPU of nvidia-smi -q -x: text by path.
func elements(t *testing.T, out string) map[string]string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(out))
	var path []string
	text, inside := "", -1
	found := map[string]string{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			path, text = append(path, e.Name.Local), ""
			if e.Name.Local == "gpu" {
				inside = len(path)
			}
		case xml.CharData:
			text += string(e)
		case xml.EndElement:
			if inside > 0 && len(path) > inside && strings.TrimSpace(text) != "" {
				found[strings.Join(path[inside:], "/")] = strings.TrimSpace(text)
			}
			if path, text = path[:len(path)-1], ""; e.Name.Local == "gpu" {
				return found
			}
		}
	}
}

// What nvidia-smi -q -x prints is what real machines' printed, but for what the records
// explain.
func TestXMLSaysWhatRealMachinesSaid(t *testing.T) {
	files, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	for host, board := range map[string]string{"dgx-b200": "b200", "gb200": "gb200", "l40s-server": "l40s", "dgx-h100": "h100-sxm5-80gb", "t4-server": "t4", "dgx-a100": "a100-sxm4-40gb", "workstation": "rtx-4090"} {
		t.Run(host, func(t *testing.T) {
			m := profile(t, host)
			out, code := newRig(t, m, nvmlfake.Options{}).run("-q", "-x")
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			got, n := elements(t, out), 0
			for _, f := range records.Nearest(files, board, catalog.BranchNumber(m.Driver.Version), false) {
				for _, r := range f.Compare(board, host, func(field string) string { return got[field] }) {
					if r.Says == "" { // a row that other branches have
						continue
					}
					if n++; !r.Equal && r.Why == nil {
						t.Error(r)
					}
				}
			}
			if n < 100 {
				t.Errorf("only %d facts were compared", n)
			}
		})
	}
}
