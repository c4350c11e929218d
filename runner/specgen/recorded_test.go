package specgen

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"gpurig/core/host"
	"gpurig/core/refuse"
	"gpurig/fakehw"
	"gpurig/fakehw/capture"
	"gpurig/fakehw/profiles"
)

// recorded is the request of the recording of a fake host, and the UUIDs of both
// hosts, in the same order.
func recorded(t *testing.T, m host.Model) (r Request, old, new []string) {
	t.Helper()
	f, err := capture.Of(m, capture.Options{Machine: "a fake"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := capture.Replay(f)
	if err != nil {
		t.Fatal(err)
	}
	model, err := again.Model()
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: model, Recording: string(text)}, uuids(t, m), uuids(t, model)
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// uuids returns the UUIDs of a host's GPUs and MIG devices.
func uuids(t *testing.T, m host.Model) []string {
	t.Helper()
	data, err := json.Marshal(m.GPUs)
	if err != nil {
		t.Fatal(err)
	}
	return uuid.FindAllString(string(data), -1)
}

// plain returns a Spec's text with the UUIDs of one host replaced by those of
// another, its devices sorted again.
func plainSpec(t *testing.T, s *specs.Spec, old, new []string) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for i := range old {
		pairs = append(pairs, old[i], new[i])
	}
	var out specs.Spec
	if err := json.Unmarshal([]byte(strings.NewReplacer(pairs...).Replace(string(data))), &out); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out.Devices, func(a, b specs.Device) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range out.Devices {
		if d.Name == "all" { // the parts of all devices, in the order of their names
			slices.SortFunc(d.ContainerEdits.DeviceNodes, func(a, b *specs.DeviceNode) int { return strings.Compare(a.Path, b.Path) })
		}
	}
	data, err = json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// NVIDIA's generator makes of a recorded host what it makes of the host itself,
// or refuses it for the same reason.
func TestSpecOfARecordedHostIsThatOfTheHost(t *testing.T) {
	g := shared(t)
	for _, name := range profiles.Names() {
		t.Run(name, func(t *testing.T) {
			m := profile(t, name)
			r, old, new := recorded(t, m)
			if fmt.Sprint(len(old)) != fmt.Sprint(len(new)) {
				t.Fatalf("%d UUIDs of the host, %d of its recording", len(old), len(new))
			}
			want, wantErr := g.Generate(t.Context(), Request{Model: m})
			got, err := g.Generate(t.Context(), r)
			if wantErr != nil || err != nil {
				a, b := refuse.As(wantErr), refuse.As(err)
				if len(a) == 0 || len(b) != len(a) || a[0].Reason != b[0].Reason {
					t.Fatalf("the host: %v; its recording: %v", wantErr, err)
				}
				return
			}
			if diff := cmp.Diff(plainSpec(t, want.Spec, old, new), plainSpec(t, got.Spec, nil, nil)); diff != "" {
				t.Errorf("the Spec differs (-host +recording):\n%s", diff)
			}
			if diff := cmp.Diff(texts(want.Warnings), texts(got.Warnings)); diff != "" {
				t.Errorf("warnings differ (-host +recording):\n%s", diff)
			}
		})
	}
}

// magic is what the generator says of a file that is no library; a recording has
// another content of it.
var magic = regexp.MustCompile(`bad magic number '[^']*'`)

func texts[T fmt.Stringer](all []T) []string {
	var out []string
	for _, x := range all {
		out = append(out, magic.ReplaceAllString(x.String(), "bad magic number"))
	}
	slices.Sort(out)
	return out
}

// A recorded host that changes gets a Spec of what it became, with its own files.
func TestSpecOfAChangedRecording(t *testing.T) {
	g := shared(t)
	r, _, _ := recorded(t, profile(t, "a100-mig-2g-3g"))
	own := r
	own.Recording = strings.Replace(r.Recording, "libnvidia-opencl.so", "libnvidia-opencl-ours.so", -1)
	var err error
	if own.Model, err = fakehw.WithMIG(r.Model, 0, []string{"1g.5gb"}, false); err != nil {
		t.Fatal(err)
	}
	res := generate(t, g, own)
	if got := names(res); !strings.Contains(got, "0:0") || strings.Contains(got, "0:1") {
		t.Errorf("devices %s; want one part", got)
	}
	for _, m := range res.Spec.ContainerEdits.Mounts {
		if strings.Contains(m.HostPath, "libnvidia-opencl.so") {
			t.Errorf("the Spec has %s, which the recorded host has not", m.HostPath)
		}
	}
}

func TestARecordingThatIsNone(t *testing.T) {
	if _, err := (Request{Recording: "nonsense"}).Tree(); err == nil || !strings.Contains(err.Error(), "recorded host:1:") {
		t.Errorf("Tree() = %v", err)
	}
}
