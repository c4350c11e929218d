package host_test

import (
	"errors"
	"strings"
	"testing"

	"gpurig/core/device"
	"gpurig/core/host"
	"gpurig/core/pci"
)

// Texts as real drivers print them; serials and UUIDs are made up.
const (
	closedVersion = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.98  Thu Oct 26 15:16:01 PDT 2017\nGCC version:  gcc version 7.2.0 (Ubuntu 7.2.0-8ubuntu3) \n"
	openVersion   = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (dvs-builder@U16-A24-9-2)  Thu Oct 10 12:15:00 UTC 2024\n"
	l4tVersion    = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  35.3.1  Release Build  (buildbrain@mobile-u64-6289-d7000)  Sun Mar 19 08:09:33 PDT 2023\n"
	information   = "Model: \t\t NVIDIA L4\nIRQ:   \t\t 16\nGPU UUID: \t GPU-00000000-1111-2222-3333-444444444444\nVideo BIOS: \t 95.04.65.00.13\n" +
		"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t 0000:70:00.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n"
)

// wantMalformed checks that an error is a ParseError that says why.
func wantMalformed(t *testing.T, err error, why string) {
	t.Helper()
	e, ok := errors.AsType[*host.ParseError](err)
	if !ok || !errors.Is(err, host.ErrMalformed) || !strings.Contains(e.Why, why) {
		t.Errorf("got %v; want a ParseError that says %q", err, why)
	}
}

type versionText struct {
	name, in, version string
	open              bool
	why               string
}

// versionTexts are the cases of TestB44ParseDriverVersion, which the fuzz target begins with.
func versionTexts() []versionText {
	return []versionText{
		{name: "closed", in: closedVersion, version: "384.98"},
		{name: "open", in: openVersion, version: "565.57.01", open: true},
		{name: "Jetson Linux number", in: l4tVersion, version: "35.3.1", open: true},
		{name: "local date, one space", in: "NVRM version: NVIDIA UNIX x86_64 Kernel Module 550.90.07 Сб 29 июн 2024 14:36:22 MSK", version: "550.90.07"},
		{name: "no date", in: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  525.60.11  Release Build  (archlinux-builder@archlinux)  \n", version: "525.60.11", open: true},
		{name: "empty", in: "", why: "NVRM version"},
		{name: "no number", in: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  new\n", why: "no version"},
		{name: "no module", in: "NVRM version: 550.1\n", why: "Module"},
		{name: "not UTF-8", in: "NVRM version: \xff", why: "UTF-8"},
		{name: "a megabyte", in: strings.Repeat("x", 1<<20), why: "longer"},
	}
}

func TestB44ParseDriverVersion(t *testing.T) {
	for _, tc := range versionTexts() {
		t.Run(tc.name, func(t *testing.T) {
			version, open, err := host.ParseDriverVersion(tc.in)
			if tc.why != "" {
				wantMalformed(t, err, tc.why)
			} else if err != nil || version != tc.version || open != tc.open {
				t.Errorf("got %s, %v, %v; want %s, %v", version, open, err, tc.version, tc.open)
			}
		})
	}
}

type gpuText struct {
	name, in string
	want     host.GPUInfo
	why      string
}

// gpuTexts are the cases of TestB44ParseGPUInfo, which the fuzz target begins with.
func gpuTexts() []gpuText {
	with := func(old, new string) string { return strings.Replace(information, old, new, 1) }
	whole := host.GPUInfo{Model: "NVIDIA L4", UUID: "GPU-00000000-1111-2222-3333-444444444444", VBIOS: "95.04.65.00.13", BDF: pci.BDF{Bus: 0x70}, HasBDF: true}
	edit := func(f func(*host.GPUInfo)) host.GPUInfo {
		i := whole
		f(&i)
		return i
	}
	return []gpuText{
		{name: "real", in: information, want: whole},
		{name: "no final newline", in: strings.TrimSuffix(information, "\n"), want: whole},
		{name: "a key of a newer driver", in: information + "GPU Mood: good\n", want: whole},
		{name: "UUID of question marks", in: with("GPU-00000000-1111-2222-3333-444444444444", "GPU-????????-????-????-????-????????????"), want: edit(func(i *host.GPUInfo) { i.UUID = "" })},
		{name: "BIOS of question marks", in: with("95.04.65.00.13", "??.??.??.??.??"), want: edit(func(i *host.GPUInfo) { i.VBIOS = "" })},
		{name: "no UUID line", in: with("GPU UUID: \t GPU-00000000-1111-2222-3333-444444444444\n", ""), want: edit(func(i *host.GPUInfo) { i.UUID = "" })},
		{name: "model unknown", in: with("NVIDIA L4", "Unknown"), want: edit(func(i *host.GPUInfo) { i.Model = "" })},
		{name: "five-digit domain", in: with("0000:70:00.0", "10000:70:00.0"), want: edit(func(i *host.GPUInfo) { i.BDF.Domain = 0x10000 })},
		{name: "empty", in: "", why: "no such line"},
		{name: "no colon", in: with("IRQ:", "IRQ"), why: "no colon"},
		{name: "key twice", in: information + "Device Minor: 1\n", why: "twice"},
		{name: "no minor", in: with("Device Minor: \t 0\n", ""), why: "no such line"},
		{name: "minor -1", in: with("Minor: \t 0", "Minor: \t -1"), why: "0 to 247"},
		{name: "minor 300", in: with("Minor: \t 0", "Minor: \t 300"), why: "0 to 247"},
		{name: "minor of modeset", in: with("Minor: \t 0", "Minor: \t 254"), why: "0 to 247"},
		{name: "minor empty", in: with("Minor: \t 0", "Minor: \t "), why: "0 to 247"},
		{name: "address that is none", in: with("0000:70:00.0", "70"), why: "PCI address"},
		{name: "not UTF-8", in: with("NVIDIA L4", "\xc3\x28"), why: "UTF-8"},
		{name: "a megabyte", in: with("NVIDIA L4", strings.Repeat("4", 1<<20)), why: "longer"},
	}
}

func TestB44ParseGPUInfo(t *testing.T) {
	for _, tc := range gpuTexts() {
		t.Run(tc.name, func(t *testing.T) {
			got, err := host.ParseGPUInfo(tc.in)
			if tc.why != "" {
				wantMalformed(t, err, tc.why)
			} else if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

var badProcDevices = map[string]string{
	"511 nvidia\n":                              "before the first section",
	"Character devices:\nnvidia 511\n":          "a number and a name",
	"Character devices:\n511\n":                 "a number and a name",
	"Character devices:\n-1 x\n":                "a number and a name",
	"Character devices:\n99999 x\n":             "beyond",
	"Character devices:\n99999999999999999 x\n": "a number and a name",
}

func TestParseProcDevices(t *testing.T) {
	got, err := host.ParseProcDevices("Character devices:\n  1 mem\n  5 /dev/tty\n234 nvidia-caps-imex-channels\n511 nvidia-caps\n\nBlock devices:\n  7 loop\n")
	want := []host.Major{{1, "mem", device.Char}, {5, "/dev/tty", device.Char}, {234, "nvidia-caps-imex-channels", device.Char}, {511, "nvidia-caps", device.Char}, {7, "loop", device.Block}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v; want %v", got, err, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d is %v; want %v", i, got[i], want[i])
		}
	}
	for in, why := range badProcDevices {
		_, err := host.ParseProcDevices(in)
		wantMalformed(t, err, why)
	}
}

var badCapabilities = map[string]string{
	"DeviceFileMode: 292\nDeviceFileModify: 1\n":        "no such line",
	"DeviceFileMinor: 3\nDeviceFileMode: 9999\n":        "not a number",
	"DeviceFileMinor: -3\nDeviceFileMode: 292\n":        "not a number",
	"DeviceFileMinor: 3 4\nDeviceFileMode: 292\n":       "not a number",
	"DeviceFileMinor: 9999999\nDeviceFileMode: 292\n":   "not a number",
	"DeviceFileMinor: 3\nDeviceFileMinor: 4\nx: y\n":    "twice",
	"DeviceFileMinor 3\nDeviceFileMode 292\n":           "no colon",
	"DeviceFileMinor: 0x3\nDeviceFileMode: 292\nm: 1\n": "not a number",
}

func TestB46ParseCapability(t *testing.T) {
	got, err := host.ParseCapability("DeviceFileMinor: 3\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	if want := (host.Capability{Minor: 3, Mode: 0o444}); err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for in, why := range badCapabilities {
		_, err := host.ParseCapability(in)
		wantMalformed(t, err, why)
	}
}

var badMIGMinors = map[string]string{
	"config":                     "one space",
	"config  1":                  "one space",
	"config 1 2":                 "one space",
	"config one":                 "one space",
	"config 1\nconfig 2\n":       "the name occurs",
	"config 1\nmonitor 1\n":      "belongs to config",
	"config 99999999\n":          "one space",
	" 1\n":                       "one space",
	strings.Repeat("a 1\n", 9e5): "longer",
}

func TestB46ParseMIGMinors(t *testing.T) {
	got, err := host.ParseMIGMinors("config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu7/gi1/ci0/access 958")
	if err != nil || len(got) != 4 || got["gpu0/gi1/access"] != 12 || got["gpu7/gi1/ci0/access"] != 958 {
		t.Errorf("got %v, %v; want the four, gaps allowed", got, err)
	}
	for in, why := range badMIGMinors {
		_, err := host.ParseMIGMinors(in)
		wantMalformed(t, err, why)
	}
}

func TestParseTegraRelease(t *testing.T) {
	release, revision, err := host.ParseTegraRelease("# R39 (release), REVISION: 2.0, GCID: 45755727, BOARD: generic, EABI: aarch64, DATE: Mon Jun  1 09:28:48 PM UTC 2026\n# KERNEL_VARIANT: oot\n")
	if release != "R39" || revision != "2.0" || err != nil {
		t.Errorf("got %s, %s, %v; want R39, 2.0", release, revision, err)
	}
	for _, in := range []string{"", "R36", "# R36 (release)\n", "# Rx (release), REVISION: 1,"} {
		_, _, err := host.ParseTegraRelease(in)
		wantMalformed(t, err, "R36")
	}
}

// nothing checks what every parser owes: no value beside an error, and an error
// of the right kind.
func nothing[T comparable](t *testing.T, got T, err error) {
	t.Helper()
	var zero T
	if err != nil && (got != zero || !errors.Is(err, host.ErrMalformed)) {
		t.Fatalf("got %v along with %v", got, err)
	}
}

// badKFDNodes are properties that no node has.
var badKFDNodes = []string{"drm_render_minor x\n", "drm_render_minor -1\n", "drm_render_minor 99999999\n", "location_id\n", "domain 4294967296\n"}

func TestParseKFDNode(t *testing.T) {
	// As amdkfd writes it for partition 1 of a GPU at 0001:c3:05.2; other rows do not matter.
	render, at, err := host.ParseKFDNode("simd_count 152\nlocation_id 268485418\ndomain 1\ndrm_render_minor 137\nunique_id 16402109845641701171\n")
	if want := (pci.BDF{Domain: 1, Bus: 0xc3, Device: 5, Function: 2}); err != nil || render != 137 || at != want {
		t.Errorf("render %d at %s, %v; want 137 at %s", render, at, err, want)
	}
	for _, text := range badKFDNodes {
		if render, _, err := host.ParseKFDNode(text); render != 0 || !errors.Is(err, host.ErrMalformed) {
			t.Errorf("ParseKFDNode(%q) = %d, %v", text, render, err)
		}
	}
}

func FuzzParseKFDNode(f *testing.F) {
	f.Add("location_id 1280\ndomain 0\ndrm_render_minor 128\n")
	for _, text := range badKFDNodes {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		render, at, err := host.ParseKFDNode(text)
		if err != nil && render != 0 || render < 0 || at.Device > 31 || at.Function > 7 {
			t.Fatalf("render %d at %v, %v", render, at, err)
		}
	})
}

func FuzzB44ParseGPUInfo(f *testing.F) {
	f.Add(information)
	f.Add("Device Minor: 0")
	for _, tc := range gpuTexts() {
		if len(tc.in) < 1<<16 {
			f.Add(tc.in)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := host.ParseGPUInfo(text)
		nothing(t, got, err)
		if err == nil && (got.Minor < 0 || got.Minor > 247) {
			t.Fatalf("minor %d", got.Minor)
		}
	})
}

func FuzzB44ParseDriverVersion(f *testing.F) {
	for _, seed := range []string{closedVersion, openVersion, l4tVersion, ""} {
		f.Add(seed)
	}
	for _, tc := range versionTexts() {
		if len(tc.in) < 1<<16 {
			f.Add(tc.in)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _, err := host.ParseDriverVersion(text)
		nothing(t, got, err)
		if err == nil && !strings.Contains(text, got) {
			t.Fatalf("version %q is not in %q", got, text)
		}
	})
}

func FuzzParseProcDevices(f *testing.F) {
	f.Add("Character devices:\n195 nvidia\n\nBlock devices:\n  7 loop\n")
	for text := range badProcDevices {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := host.ParseProcDevices(text)
		nothing(t, len(got), err)
		for _, x := range got {
			if x.Major > device.MaxMajor || x.Name == "" || x.Type == "" {
				t.Fatalf("line %v of %q", x, text)
			}
		}
	})
}

func FuzzB46ParseMIGMinors(f *testing.F) {
	f.Add("config 1\nmonitor 2\ngpu0/gi0/access 3\n")
	for text := range badMIGMinors {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := host.ParseMIGMinors(text)
		nothing(t, len(got), err)
		seen := map[uint32]bool{}
		for name, minor := range got {
			if seen[minor] || name == "" {
				t.Fatalf("%q: %q has %d", text, name, minor)
			}
			seen[minor] = true
		}
	})
}

func FuzzB46ParseCapability(f *testing.F) {
	f.Add("DeviceFileMinor: 3\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	for text := range badCapabilities {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := host.ParseCapability(text)
		nothing(t, got, err)
		if got.Mode > 0o777 || got.Minor > device.MaxMinor {
			t.Fatalf("%q is %v", text, got)
		}
	})
}
