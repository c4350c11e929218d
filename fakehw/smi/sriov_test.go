package smi_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpurig/fakehw/smi"
)

// sysfs is a folder with one GPU that has room for two virtual functions, beside a
// network card that has some too. Plain files stand for attributes: each has what
// was written to it last.
func sysfs(t *testing.T, num string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"devices/0000:41:00.0/vendor": "0x10de\n", "devices/0000:41:00.0/class": "0x030200\n", "devices/0000:41:00.0/device": "0x20b5\n",
		"devices/0000:41:00.0/sriov_totalvfs": "2\n", "devices/0000:41:00.0/sriov_numvfs": num + "\n",
		"devices/0000:41:00.4/vendor": "0x10de\n", "devices/0000:41:00.5/vendor": "0x10de\n",
		"devices/0000:42:00.0/vendor": "0x10de\n", "devices/0000:42:00.0/class": "0x030200\n", // it knows no virtual functions
		"devices/0000:51:00.0/vendor": "0x15b3\n", "devices/0000:51:00.0/class": "0x020000\n", "devices/0000:51:00.0/sriov_numvfs": "0\n",
		"drivers/nvidia/bind": "", "drivers/nvidia/unbind": "", "drivers/vfio-pci/unbind": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, vf := range []string{"0000:41:00.4", "0000:41:00.5"} {
		for link, to := range map[string]string{fmt.Sprintf("devices/0000:41:00.0/virtfn%d", i): "../" + vf, "devices/" + vf + "/physfn": "../0000:41:00.0"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("../../drivers/vfio-pci", filepath.Join(dir, "devices/0000:41:00.5/driver")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSRIOVManage(t *testing.T) {
	const usage = "Usage:\n    sriov-manage <-e|-d> <ssss:bb:dd.f|ALL>\n"
	on := map[string]string{"devices/0000:41:00.0/sriov_numvfs": "2", "drivers/nvidia/bind": "0000:41:00.5", "drivers/vfio-pci/unbind": "0000:41:00.5"}
	off := map[string]string{"devices/0000:41:00.0/sriov_numvfs": "0", "drivers/nvidia/bind": "", "drivers/vfio-pci/unbind": "0000:41:00.5"}
	for _, tc := range []struct {
		args, num string
		out       string // begins with it
		code      int
		want      map[string]string
	}{
		{args: "-e 0000:41:00.0", num: "0", out: "Enabling VFs on 0000:41:00.0\n", want: on},
		{args: "-e 41:0.0", num: "0", out: "Enabling VFs on 0000:41:00.0\n", want: on},
		{args: "-e ALL", num: "0", out: "Enabling VFs on 0000:41:00.0\n", want: on},
		{args: "-e all", num: "2", out: "GPU at 0000:41:00.0 already has VFs enabled.\n", want: map[string]string{"drivers/nvidia/bind": ""}},
		{args: "-d 0000:41:00.0", num: "2", out: "Disabling VFs on 0000:41:00.0\n", want: off},
		{args: "-d ALL", num: "0", out: "GPU at 0000:41:00.0 already has VFs disabled.\n"},
		{args: "-e 0000:42:00.0", num: "0", want: map[string]string{"devices/0000:41:00.0/sriov_numvfs": "0"}},
		{args: "-e 0000:51:00.0", num: "0", code: 1, want: map[string]string{"devices/0000:51:00.0/sriov_numvfs": "0"}},
		{args: "-e 0000:99:00.0", num: "0", code: 1},
		{args: "-e ../../etc", num: "0", out: usage, code: 1},
		{args: "-h", num: "0", out: usage},
		{args: "", num: "0", out: usage, code: 1},
		{args: "-x", num: "0", code: 1},
	} {
		t.Run(tc.args+" of "+tc.num, func(t *testing.T) {
			dir := sysfs(t, tc.num)
			script := strings.Replace(string(smi.SRIOVManage()), "\npci=/sys/bus/pci\n", "\npci="+dir+"\n", 1)
			if !strings.Contains(script, dir) {
				t.Fatal("the script names no /sys/bus/pci")
			}
			path := filepath.Join(t.TempDir(), "sriov-manage")
			if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{path}, strings.Fields(tc.args)...)...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			cmd.Run()
			got := strings.ReplaceAll(out.String(), path, "sriov-manage")
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.HasPrefix(got, tc.out) {
				t.Errorf("= %d, want %d\n%swant\n%s", code, tc.code, got, tc.out)
			}
			for file, want := range tc.want {
				if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || strings.TrimSpace(string(text)) != want {
					t.Errorf("%s has %q, %v, want %q", file, text, err, want)
				}
			}
		})
	}
}
