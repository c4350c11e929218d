package request_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gpurig/core/cdi"
	"gpurig/core/refuse"
	"gpurig/core/request"
)

const (
	gpuUUID  = "11111111-2222-3333-4444-aaaaaaaaaaaa"
	gpuUUID2 = "11111111-2222-3333-4444-cccccccccccc"
	migUUID  = "99999999-8888-5777-6666-bbbbbbbbbbbb"
	orinUUID = "33333333-2222-3333-4444-dddddddddddd"
)

// options reads "gputype=mig id=nvidia.com/mig=0:1".
func options(t *testing.T, s string) request.Options {
	t.Helper()
	m := map[string]string{}
	for _, f := range strings.Fields(s) {
		k, v, _ := strings.Cut(f, "=")
		m[k] = v
	}
	o, err := request.FromMap(m)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		vm       bool
		strict   bool
		want     string // the Request as JSON
		warns    string // options warned of
	}{
		{name: "nothing: every GPU", want: `{"gputype":"physical"}`},
		{name: "the default type written out", in: "gputype=physical", want: `{"gputype":"physical"}`},
		{name: "a DRM card", in: "id=0", want: `{"gputype":"physical","card":0}`},
		{name: "a DRM card in a virtual machine", in: "id=1", vm: true, want: `{"gputype":"physical","card":1,"vm":true}`},
		{name: "a full GPU by CDI", in: "id=nvidia.com/gpu=0", want: `{"gputype":"physical","cdi":"nvidia.com/gpu=0"}`},
		{name: "another vendor's class", in: "id=vendor.com/class=name", want: `{"gputype":"physical","cdi":"vendor.com/class=name"}`},
		{name: "an integrated GPU", in: "id=nvidia.com/igpu=0", want: `{"gputype":"physical","cdi":"nvidia.com/igpu=0"}`},
		{name: "a MIG device by CDI", in: "gputype=mig id=nvidia.com/mig=0:1", want: `{"gputype":"mig","cdi":"nvidia.com/mig=0:1"}`},
		{name: "a MIG device by CDI's class gpu", in: "gputype=mig id=nvidia.com/gpu=mig0:1", want: `{"gputype":"mig","cdi":"nvidia.com/gpu=mig0:1"}`},
		{name: "pci in the short form", in: "pci=65:00.0", want: `{"gputype":"physical","pci":"0000:65:00.0"}`},
		{name: "pci in upper case", in: "pci=0000:C1:00.0", want: `{"gputype":"physical","pci":"0000:c1:00.0"}`},
		{name: "pci as NVML prints it", in: "pci=00000000:C1:00.0", want: `{"gputype":"physical","pci":"0000:c1:00.0"}`},
		{name: "pci with a long domain (pci-32bit-domain)", in: "pci=3e3f8e05:00:00.0", want: `{"gputype":"physical","pci":"3e3f8e05:00:00.0"}`},
		{name: "vendor and product", in: "vendorid=10DE productid=20b2", want: `{"gputype":"physical","vendorid":4318,"productid":8370}`},
		{name: "owner and mode", in: "id=0 uid=1000 gid=44 mode=0660", want: `{"gputype":"physical","card":0,"uid":1000,"gid":44,"mode":432}`},
		{name: "owner zero is an owner", in: "uid=0 gid=0", want: `{"gputype":"physical","uid":0,"gid":0}`},
		{name: "owner with CDI (cdi-owner-ignored)", in: "id=nvidia.com/gpu=0 uid=1000", want: `{"gputype":"physical","cdi":"nvidia.com/gpu=0","uid":1000}`},
		{name: "mode without leading zero is octal (octal-vs-decimal)", in: "mode=660", want: `{"gputype":"physical","mode":432}`},
		{name: "mode in four digits", in: "mode=0o777", want: `{"gputype":"physical","mode":511}`},
		{name: "the highest owner", in: "uid=4294967294", want: `{"gputype":"physical","uid":4294967294}`},
		{name: "mig by ids; zero is an id", in: "gputype=mig mig.gi=0 mig.ci=0", want: `{"gputype":"mig","mig":{"gi":0,"ci":0}}`},
		{name: "mig by ids within a GPU", in: "gputype=mig mig.gi=1 mig.ci=0 pci=65:00.0", want: `{"gputype":"mig","pci":"0000:65:00.0","mig":{"gi":1,"ci":0}}`},
		{name: "mig by UUID (mig-uuid-format)", in: "gputype=mig mig.uuid=MIG-" + migUUID, want: `{"gputype":"mig","mig":{"uuid":"MIG-` + migUUID + `","gi":0,"ci":0}}`},
		{name: "mig by bare UUID in upper case (mig-uuid-format)", in: "gputype=mig mig.uuid=" + strings.ToUpper(migUUID), want: `{"gputype":"mig","mig":{"uuid":"MIG-` + migUUID + `","gi":0,"ci":0}}`},
		{name: "mig by the name of old drivers (mig-uuid-format)", in: "gputype=mig mig.uuid=MIG-GPU-" + gpuUUID + "/3/1", want: `{"gputype":"mig","mig":{"gpu":"GPU-` + gpuUUID + `","gi":3,"ci":1}}`},
		{name: "mdev", in: "gputype=mdev mdev=nvidia-468 pci=65:00.0", vm: true, want: `{"gputype":"mdev","pci":"0000:65:00.0","mdev":"nvidia-468","vm":true}`},
		{name: "sriov", in: "gputype=sriov vendorid=10de", vm: true, want: `{"gputype":"sriov","vendorid":4318,"vm":true}`},

		{name: "a CDI name overrides", in: "id=nvidia.com/gpu=0 pci=65:00.0 vendorid=10de productid=20b2", want: `{"gputype":"physical","cdi":"nvidia.com/gpu=0"}`, warns: "pci vendorid productid"},
		{name: "and does not look at what it overrides", in: "id=nvidia.com/gpu=0 pci=nonsense mig.gi=x", want: `{"gputype":"physical","cdi":"nvidia.com/gpu=0"}`, warns: "pci mig.gi"},
		{name: "a MIG name overrides mig.*", in: "gputype=mig id=nvidia.com/mig=0:1 mig.gi=1 mig.ci=0 mig.uuid=" + migUUID, want: `{"gputype":"mig","cdi":"nvidia.com/mig=0:1"}`, warns: "mig.gi mig.ci mig.uuid"},
		{name: "nothing overridden, strictly", in: "id=nvidia.com/gpu=0 uid=1", strict: true, want: `{"gputype":"physical","cdi":"nvidia.com/gpu=0","uid":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, warnings, err := request.Parse(options(t, tc.in), request.Context{VM: tc.vm, Strict: tc.strict})
			text, _ := json.Marshal(got)
			var warned []string
			for _, w := range warnings {
				warned = append(warned, w.Option)
				if w.Reason != request.ReasonOverridden || w.Hint == "" || !strings.Contains(w.String(), "overrides") {
					t.Errorf("warning %+v; want the reason %q, a hint and what overrides it", w, request.ReasonOverridden)
				}
			}
			if err != nil || string(text) != tc.want || strings.Join(warned, " ") != tc.warns {
				t.Errorf("Parse(%s) = %s, warns of %q, %v;\nwant %s, %q", tc.in, text, warned, err, tc.want, tc.warns)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		vm       bool
		strict   bool
		want     string // "option reason", in order
		hint     string // in the first hint
	}{
		{name: "an unknown type", in: "gputype=virtual", want: "gputype bad-option", hint: "physical, mig, mdev or sriov"},
		{name: "a negative card (B48)", in: "id=-1", want: "id bad-option"},
		{name: "a word as id", in: "id=all", want: "id bad-option", hint: "nvidia.com/gpu=0"},
		{name: "a UUID as id", in: "id=GPU-" + gpuUUID, want: "id bad-option", hint: "nvidia.com/gpu=GPU-" + gpuUUID},
		{name: "a MIG UUID as id", in: "id=MIG-" + migUUID, want: "id bad-option", hint: "nvidia.com/mig=MIG-" + migUUID},
		{name: "a bad CDI name (B48)", in: "id=nvidia.com/gpu=", want: "id bad-name"},
		{name: "mig=all (mig-ambiguous)", in: "gputype=mig id=nvidia.com/mig=all", want: "id mig-all", hint: "nvidia.com/mig=0:1"},
		{name: "mig=all on physical", in: "id=nvidia.com/mig=all", want: "id mig-all"},
		{name: "a MIG name on physical", in: "id=nvidia.com/mig=0:1", want: "id mig-on-physical", hint: "Write gputype=mig"},
		{name: "a MIG device of class gpu on physical", in: "id=nvidia.com/gpu=0:1", want: "id mig-on-physical"},
		{name: "any name of class mig on physical", in: "id=nvidia.com/mig=x", want: "id mig-on-physical"},
		{name: "a full GPU on mig (mig-ambiguous)", in: "gputype=mig id=nvidia.com/gpu=0", want: "id full-gpu-on-mig", hint: "gputype=physical"},
		{name: "all GPUs on mig", in: "gputype=mig id=nvidia.com/gpu=all", want: "id full-gpu-on-mig"},
		{name: "an integrated GPU on mig", in: "gputype=mig id=nvidia.com/igpu=0", want: "id full-gpu-on-mig"},
		{name: "another vendor on mig (mig-ambiguous)", in: "gputype=mig id=amd.com/gpu=0", want: "id full-gpu-on-mig"},
		{name: "a full GPU of class mig", in: "gputype=mig id=nvidia.com/mig=GPU-" + gpuUUID, want: "id full-gpu-on-mig", hint: "nvidia.com/gpu=GPU-"},
		{name: "the MIG name of old drivers as CDI name", in: "gputype=mig id=nvidia.com/mig=MIG-GPU-" + gpuUUID + "/1/0", want: "id bad-name", hint: "mig.gi"},
		{name: "a CDI name on a virtual machine", in: "id=nvidia.com/gpu=0", vm: true, want: "id cdi-on-vm", hint: "pci="},
		{name: "a CDI name on sriov", in: "gputype=sriov id=nvidia.com/gpu=0", want: "gputype vm-only, id cdi-on-mdev-or-sriov"},
		{name: "mig on a virtual machine", in: "gputype=mig mig.gi=1 mig.ci=0", vm: true, want: "gputype container-only"},
		{name: "mdev on a container", in: "gputype=mdev mdev=nvidia-468", want: "gputype vm-only"},
		{name: "sriov on a container", in: "gputype=sriov", want: "gputype vm-only"},
		{name: "mdev without a type", in: "gputype=mdev", vm: true, want: "mdev missing-option"},
		{name: "mdev on physical", in: "mdev=nvidia-468", want: "mdev option-not-for-type"},
		{name: "mdev as a path", in: "gputype=mdev mdev=../x", vm: true, want: "mdev bad-option"},
		{name: "mdev as dots", in: "gputype=mdev mdev=..", vm: true, want: "mdev bad-option"},
		{name: "an iGPU by platform name", in: "pci=17000000.gpu", want: "pci igpu-by-pci", hint: "id=nvidia.com/igpu=0"},
		{name: "an iGPU by platform name of R35", in: "pci=17000000.ga10b", want: "pci igpu-by-pci"},
		{name: "pci with a colon before the function", in: "pci=0000:65:00:0", want: "pci bad-option", hint: "0000:65:00.0"},
		{name: "pci with spaces", in: "pci=x", want: "pci bad-option"},
		{name: "vendorid with 0x", in: "vendorid=0x10de", want: "vendorid bad-option", hint: "10de"},
		{name: "vendorid too short", in: "vendorid=10d", want: "vendorid bad-option"},
		{name: "productid with a sign", in: "productid=+20b", want: "productid bad-option"},
		{name: "card and pci", in: "id=0 pci=65:00.0", want: "pci conflicting-options"},
		{name: "card and ids", in: "id=0 vendorid=10de productid=20b2", want: "vendorid conflicting-options, productid conflicting-options"},
		{name: "pci and ids", in: "pci=65:00.0 vendorid=10de", want: "vendorid conflicting-options"},
		{name: "mig without a device", in: "gputype=mig", want: "gputype missing-option"},
		{name: "gi without ci", in: "gputype=mig mig.gi=1", want: "mig.ci missing-option"},
		{name: "ci without gi", in: "gputype=mig mig.ci=1", want: "mig.gi missing-option"},
		{name: "UUID and ids", in: "gputype=mig mig.uuid=" + migUUID + " mig.gi=1 mig.ci=0", want: "mig.uuid conflicting-options"},
		{name: "mig.* on physical", in: "mig.gi=1 mig.ci=0", want: "mig.gi mig-on-physical, mig.ci mig-on-physical", hint: "gputype=mig"},
		{name: "mig.* on sriov", in: "gputype=sriov mig.gi=1", vm: true, want: "mig.gi option-not-for-type"},
		{name: "gi out of range", in: "gputype=mig mig.gi=128 mig.ci=-1", want: "mig.gi bad-option, mig.ci bad-option"},
		{name: "a GPU's UUID as mig.uuid", in: "gputype=mig mig.uuid=GPU-" + gpuUUID, want: "mig.uuid bad-option"},
		{name: "a short UUID", in: "gputype=mig mig.uuid=MIG-1", want: "mig.uuid bad-option"},
		{name: "the old form without ids", in: "gputype=mig mig.uuid=MIG-GPU-" + gpuUUID, want: "mig.uuid bad-option"},
		{name: "the old form without MIG", in: "gputype=mig mig.uuid=GPU-" + gpuUUID + "/1/0", want: "mig.uuid bad-option"},
		{name: "uid by name", in: "uid=root", want: "uid bad-option"},
		{name: "uid none", in: "uid=4294967295", want: "uid bad-option"},
		{name: "gid negative", in: "gid=-1", want: "gid bad-option"},
		{name: "uid in octal", in: "uid=0100", want: "uid bad-option"},
		{name: "mode in decimal (octal-vs-decimal)", in: "mode=438", want: "mode bad-mode", hint: "mode=0666"},
		{name: "mode with set-id", in: "mode=4755", want: "mode bad-mode"},
		{name: "mode of nothing (device-mode-000)", in: "mode=0000", want: "mode bad-mode"},
		{name: "mode in letters", in: "mode=rw", want: "mode bad-mode"},
		{name: "mode with a sign", in: "mode=+660", want: "mode bad-mode"},
		{name: "owner on a virtual machine", in: "uid=0 gid=0 mode=0660", vm: true, want: "uid container-only, gid container-only, mode container-only"},
		{name: "overridden, strictly", in: "id=nvidia.com/gpu=0 pci=65:00.0 productid=20b2", strict: true, want: "pci overridden-option, productid overridden-option", hint: "Take the option out"},
		{name: "everything at once", in: "gputype=x id=y vendorid=z uid=q mode=9", want: "gputype bad-option, id bad-option, vendorid bad-option, vendorid conflicting-options, uid bad-option, mode bad-mode"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _, err := request.Parse(options(t, tc.in), request.Context{VM: tc.vm, Strict: tc.strict})
			if got != (request.Request{}) {
				t.Errorf("Parse(%s) = %+v along with %v", tc.in, got, err)
			}
			checkRefusals(t, err, tc.want, tc.hint)
		})
	}
}

// checkRefusals wants "option reason" for each refusal, and part of the first hint.
func checkRefusals(t *testing.T, err error, want, hint string) {
	t.Helper()
	known := map[refuse.Reason]bool{}
	for _, m := range request.AllReasons() {
		known[m.Reason] = true
	}
	var got []string
	for _, e := range refuse.As(err) {
		got = append(got, e.Where+" "+string(e.Reason))
		if e.Hint == "" || e.Msg == "" || strings.Contains(e.Error(), "\n") || !known[e.Reason] {
			t.Errorf("refusal %+v; want a message, a hint and a known reason", e)
		}
	}
	if strings.Join(got, ", ") != want {
		t.Fatalf("refused: %s (%v); want %s", strings.Join(got, ", "), err, want)
	}
	if first := refuse.As(err)[0].Hint; !strings.Contains(first, hint) {
		t.Errorf("the hint is %q; want it to say %q", first, hint)
	}
}

func TestFromMap(t *testing.T) {
	in := map[string]string{"gputype": "mig", "id": "a", "pci": "b", "vendorid": "c", "productid": "d", "mig.gi": "e", "mig.ci": "f", "mig.uuid": "g", "mdev": "h", "uid": "i", "gid": "j", "mode": "k"}
	o, err := request.FromMap(in)
	if err != nil || len(o.Map()) != len(in) {
		t.Fatalf("FromMap = %+v, %v", o, err)
	}
	for k, v := range in {
		if o.Map()[k] != v {
			t.Errorf("option %s comes back as %q; want %q", k, o.Map()[k], v)
		}
	}
	_, err = request.FromMap(map[string]string{"type": "gpu", "pic": "1", "mig": "2"})
	checkRefusals(t, err, `"mig" unknown-option, "pic" unknown-option`, "productid")
}

func TestReasonsAreAllExplained(t *testing.T) {
	seen := map[refuse.Reason]bool{}
	for _, m := range request.Reasons() {
		if seen[m.Reason] || !strings.HasSuffix(m.Meaning, ".") {
			t.Errorf("%+v: twice, or no sentence", m)
		}
		seen[m.Reason] = true
	}
	src := constants(t, "reason.go")
	if len(src) < 20 || len(src) != len(seen) {
		t.Errorf("%d constants, %d meanings", len(src), len(seen))
	}
	for _, r := range src {
		if !seen[r] {
			t.Errorf("the reason %q has no meaning in Reasons()", r)
		}
	}
	for _, m := range cdi.Reasons() {
		if seen[m.Reason] {
			t.Errorf("the word %q means two things", m.Reason)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("", "nvidia.com/gpu=0", "65:00.0", "10de", "20b2", "1", "0", migUUID, "", "0", "44", "0660", false, false)
	f.Add("mig", "nvidia.com/mig=0:1", "", "", "", "", "", "", "", "", "", "", false, true)
	f.Add("mdev", "0", "x", "zz", "", "-1", "999", "MIG-GPU-"+gpuUUID+"/1/0", "nvidia-1", "-1", "x", "438", true, false)
	f.Fuzz(func(t *testing.T, gputype, id, pci, vendor, product, gi, ci, uuid, mdev, uid, gid, mode string, vm, strict bool) {
		o := request.Options{gputype, id, pci, vendor, product, gi, ci, uuid, mdev, uid, gid, mode}
		r, warnings, err := request.Parse(o, request.Context{VM: vm, Strict: strict})
		if err != nil {
			if r != (request.Request{}) || len(refuse.As(err)) == 0 {
				t.Fatalf("Parse(%+v) = %+v, %v", o, r, err)
			}
			for _, e := range refuse.As(err) {
				if e.Hint == "" || len(e.Error()) > 600 {
					t.Fatalf("Parse(%+v): %q with the hint %q", o, e, e.Hint)
				}
			}
			return
		}
		if strict && len(warnings) > 0 {
			t.Fatalf("Parse(%+v) warns in strict mode: %v", o, warnings)
		}
		if r.Mode != nil && (*r.Mode == 0 || *r.Mode > 0o777) || r.Type == request.MIG && r.CDI == nil && r.MIG == nil || r.CDI != nil && (r.PCI != nil || r.Card != nil) {
			t.Fatalf("Parse(%+v) = %+v", o, r)
		}
		for _, m := range hosts() {
			if sel, err := request.Select(r, m); err == nil && len(sel.Names)+len(sel.GPUs) == 0 {
				t.Fatalf("Select(%+v) selects nothing without an error", r)
			}
		}
	})
}
