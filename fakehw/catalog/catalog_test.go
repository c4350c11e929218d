package catalog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gpurig/fakehw/catalog"
)

func find(t *testing.T, key string) catalog.Product {
	t.Helper()
	p, err := catalog.Find(key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlace(t *testing.T) {
	type at struct {
		profile   string
		start, id int
	}
	for _, tc := range []struct {
		name, product string
		in            []string
		want          []at
		why           string // of a GeometryError; empty: it fits
		fits          string
	}{
		{name: "seven equal parts", product: "a100-pcie-40gb", in: strings.Fields("1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb"),
			want: []at{{"1g.5gb", 0, 7}, {"1g.5gb", 1, 8}, {"1g.5gb", 2, 9}, {"1g.5gb", 3, 10}, {"1g.5gb", 4, 11}, {"1g.5gb", 5, 12}, {"1g.5gb", 6, 13}}},
		// These five are of the MIG user guide.
		{name: "one of three on an empty GPU", product: "a100-pcie-40gb", in: []string{"3g.20gb"}, want: []at{{"3g.20gb", 4, 2}}},
		{name: "two of three", product: "a100-pcie-40gb", in: []string{"3g.20gb", "3g.20gb"}, want: []at{{"3g.20gb", 0, 1}, {"3g.20gb", 4, 2}}},
		{name: "4-2-1", product: "a100-pcie-40gb", in: []string{"1g.5gb", "2g.10gb", "4g.20gb"}, want: []at{{"4g.20gb", 0, 1}, {"2g.10gb", 4, 5}, {"1g.5gb", 6, 13}}},
		{name: "3-2-1-1", product: "a100-pcie-40gb", in: []string{"3g.20gb", "1g.5gb", "2g.10gb", "1g.5gb"},
			want: []at{{"3g.20gb", 4, 2}, {"2g.10gb", 2, 4}, {"1g.5gb", 0, 7}, {"1g.5gb", 1, 8}}},
		{name: "2-1-1-1-1-1", product: "a100-pcie-40gb", in: strings.Fields("2g.10gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb"),
			want: []at{{"2g.10gb", 4, 5}, {"1g.5gb", 0, 7}, {"1g.5gb", 1, 8}, {"1g.5gb", 2, 9}, {"1g.5gb", 3, 10}, {"1g.5gb", 6, 13}}},
		{name: "two of one on a Hopper", product: "h100-sxm5-80gb", in: []string{"1g.10gb", "1g.10gb"}, want: []at{{"1g.10gb", 4, 11}, {"1g.10gb", 6, 13}}},
		{name: "double memory", product: "h100-sxm5-80gb", in: []string{"1g.20gb"}, want: []at{{"1g.20gb", 4, 5}}},
		{name: "every place fixed: as listed", product: "a100-pcie-40gb", in: []string{"2g.10gb:0", "3g.20gb:4"}, want: []at{{"2g.10gb", 0, 3}, {"3g.20gb", 4, 2}}},
		{name: "the place of the first is given up for the last", product: "a100-pcie-40gb", in: []string{"1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"},
			want: []at{{"3g.20gb", 4, 2}, {"2g.10gb", 2, 4}, {"1g.5gb", 0, 7}, {"1g.5gb", 1, 8}}},
		{name: "the whole", product: "a100-pcie-40gb", in: []string{"7g.40gb"}, want: []at{{"7g.40gb", 0, 0}}},
		{name: "a place asked for", product: "a100-pcie-40gb", in: []string{"3g.20gb:4"}, want: []at{{"3g.20gb", 4, 2}}},
		{name: "four slices, quarters", product: "a30", in: []string{"1g.6gb", "1g.6gb", "2g.12gb"}, want: []at{{"2g.12gb", 2, 2}, {"1g.6gb", 0, 3}, {"1g.6gb", 1, 4}}},
		{name: "empty", product: "a100-pcie-40gb"},
		{name: "media extensions are there once", product: "a100-pcie-40gb", in: []string{"1g.5gb+me", "1g.5gb+me"},
			why: "no room for 1g.5gb+me beside [1g.5gb+me]", fits: "1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb"},
		{name: "memory for eight, compute for seven", product: "a100-pcie-40gb", in: []string{"4g.20gb", "4g.20gb"},
			why: "no room for 4g.20gb beside [4g.20gb]", fits: "1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb"},
		{name: "a part that is too wide", product: "a100-pcie-40gb", in: []string{"3g.20gb/2c/2c"}, why: "compute instances of 3g.20gb have 4 slices together, it has 3", fits: "1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"},
		{name: "a place that is none", product: "a100-pcie-40gb", in: []string{"3g.20gb:1"}, why: "3g.20gb cannot start at slice \"1\", only at [0 4]", fits: "1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"},
		{name: "no MIG", product: "t4", in: []string{"1g.5gb"}, why: "this GPU has no MIG", fits: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := find(t, tc.product).Place(tc.in)
			if tc.why != "" {
				e, ok := errors.AsType[*catalog.GeometryError](err)
				if !ok || e.Why != tc.why || strings.Join(e.Fits, ", ") != tc.fits {
					t.Fatalf("Place(%v) = %v, %v\nwant %q, what fits: %s", tc.in, got, err, tc.why, tc.fits)
				}
				return
			}
			if err != nil || len(got) != len(tc.want) {
				t.Fatalf("Place(%v) = %v, %v; want %v", tc.in, got, err, tc.want)
			}
			for i, w := range tc.want {
				if got[i].Profile.Name != w.profile || got[i].Start != w.start || got[i].ID != w.id {
					t.Errorf("instance %d is %s at %d with id %d; want %v", i, got[i].Profile.Name, got[i].Start, got[i].ID, w)
				}
			}
		})
	}
}

// A profile's count is how many really fit on an empty GPU.
func TestEveryMIGProfileFitsAsOftenAsItSays(t *testing.T) {
	for _, p := range catalog.Products() {
		for _, m := range p.MIG {
			list := strings.Fields(strings.Repeat(m.Name+" ", m.Count))
			if _, err := p.Place(list); err != nil {
				t.Errorf("%s: %v", p.Key, err)
			}
			if _, err := p.Place(append(list, m.Name)); err == nil {
				t.Errorf("%s: %d of %s fit, its count is %d", p.Key, m.Count+1, m.Name, m.Count)
			}
			for _, start := range m.Starts {
				id := catalog.GPUInstanceID(start, m.Size, p.Slices)
				if s, n := catalog.GPUInstanceSpan(id, p.Slices); s != start || n != m.Size {
					t.Errorf("%s: %s at %d has id %d, which spans %d:%d", p.Key, m.Name, start, id, s, n)
				}
			}
		}
	}
}

func TestProductsAreToldApart(t *testing.T) {
	keys := map[string]bool{}
	for _, p := range catalog.Products() {
		if keys[p.Key] {
			t.Errorf("%s occurs twice in the catalogue", p.Key)
		}
		keys[p.Key] = true
		if p.ID.Vendor == 0 {
			continue
		}
		if got, ok := catalog.ByID(p.ID); !ok || got.Key != p.Key {
			t.Errorf("ByID(%v) = %s; want %s", p.ID, got.Key, p.Key)
		}
		for _, b := range p.BARs {
			if b.Size&(b.Size-1) != 0 {
				t.Errorf("%s: window %d has %d bytes, no power of two", p.Key, b.Index, b.Size)
			}
		}
	}
	if _, err := catalog.Find("a100"); !errors.Is(err, catalog.ErrUnknown) || !strings.Contains(err.Error(), "a100-sxm4-40gb, ") {
		t.Errorf("Find(a100) = %v; want ErrUnknown and what there is", err)
	}
}

func TestFindDriver(t *testing.T) {
	for _, tc := range []struct{ in, version, cuda string }{
		{"550", "550.163.01", "12.4"},
		{"550.163.01", "550.163.01", "12.4"},
		{"550.54.15", "550.54.15", "12.4"}, // a release that the table lacks
		{"540.3.0", "540.3.0", "12.2"},
		{"580", "580.105.08", "13.0"},
	} {
		if d, err := catalog.FindDriver(tc.in); err != nil || d.Version != tc.version || d.CUDA != tc.cuda {
			t.Errorf("FindDriver(%s) = %v, %v; want %s with CUDA %s", tc.in, d, err, tc.version, tc.cuda)
		}
	}
	for _, in := range []string{"", "900", "550.", "550.x", "550/../..", "550.1.2.3.99999"} {
		if d, err := catalog.FindDriver(in); !errors.Is(err, catalog.ErrUnknown) {
			t.Errorf("FindDriver(%q) = %v, %v; want ErrUnknown", in, d, err)
		}
	}
}

// One instance after the other and a whole list are put at the same places.
func TestChooseAgreesWithPlace(t *testing.T) {
	for _, tc := range []struct{ product, list string }{
		{"a100-pcie-40gb", "1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb"}, {"a100-pcie-40gb", "3g.20gb 1g.5gb 2g.10gb 1g.5gb"},
		{"a100-pcie-40gb", "1g.5gb 2g.10gb 4g.20gb"}, {"h100-sxm5-80gb", "1g.20gb 1g.20gb 1g.20gb 1g.20gb"}, {"a30", "1g.6gb 1g.6gb 2g.12gb"},
	} {
		p := find(t, tc.product)
		var done []catalog.Placement
		for _, name := range strings.Fields(tc.list) {
			m, _ := p.MIGProfile(name)
			start, ok := p.Choose(m, done)
			if !ok {
				t.Fatalf("%s: no room for %s beside %v", tc.product, name, done)
			}
			done = append(done, catalog.Placement{Profile: m, Start: start, ID: catalog.GPUInstanceID(start, m.Size, p.Slices)})
		}
		slices.SortFunc(done, func(a, b catalog.Placement) int { return a.ID - b.ID })
		placed, err := p.Place(strings.Fields(tc.list))
		if err != nil || !slices.EqualFunc(placed, done, func(a, b catalog.Placement) bool { return a.ID == b.ID && a.Start == b.Start }) {
			t.Errorf("%s, %s: Place %v, %v; one by one %v", tc.product, tc.list, placed, err, done)
		}
	}
}
