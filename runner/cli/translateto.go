package cli

import (
	"io"
	"strings"

	rspec "github.com/opencontainers/runtime-spec/specs-go"

	"gpurig/core/emit/lxc"
	"gpurig/core/emit/lxd"
	"gpurig/core/emit/oci"
	"gpurig/core/emit/pve"
	"gpurig/core/plan"
	"gpurig/runner/lxdapi"
)

// emitOCI writes a plan for an OCI runtime.
func (f translateFlags) emitOCI(p plan.Plan, idmap []plan.IDMap) (translation, error) {
	e, err := oci.Emit(p, oci.Options{IDMap: idmap, NodesDir: f.nodesDir, HookPath: f.hookPath, HookFile: f.hookFile, Container: f.name})
	if err != nil {
		return translation{}, err
	}
	spec := rspec.Spec{Version: "1.0.2"}
	e.Apply(&spec)
	t := translation{OCI: &spec, HookFile: f.hookFile, Hook: e.Hook, Make: e.Make, Notes: p.Notes, Plan: p}
	if e.Hooks == nil {
		t.Clean = []string{f.hookPath, "--stage", "clean", "--root", "ROOTFS", f.hookFile}
	}
	return t, nil
}

// emitPVE writes a plan for Proxmox VE.
func (f translateFlags) emitPVE(p plan.Plan, idmap []plan.IDMap, version lxc.Version) (translation, error) {
	c, err := pve.Emit(p, pve.Options{IDMap: idmap, HookPath: f.hookPath, HookFile: f.hookFile, Container: f.name, LXCVersion: version})
	if err != nil {
		return translation{}, err
	}
	t := translation{LXC: known(version), Configuration: c.Lines(), HookFile: f.hookFile, Hook: c.Hook, Notes: append(p.Notes, c.Notes...), Plan: p, managed: true}
	if !c.Hooked {
		t.Clean = []string{f.hookPath, "--stage", "clean", "--root", "ROOTFS", f.hookFile}
	}
	return t, nil
}

// emitLXD writes the plan for an LXD or Incus instance: both read the same.
func (f translateFlags) emitLXD(p plan.Plan, idmap []plan.IDMap, version lxc.Version) (translation, error) {
	c, err := lxd.Emit(p, lxd.Options{Manager: lxdapi.Flavour(f.to).Title(), IDMap: idmap, HookPath: f.hookPath, HookFile: f.hookFile, ApplyIn: f.applyIn, Container: f.name, LXCVersion: version})
	if err != nil {
		return translation{}, err
	}
	lines := strings.Split(strings.TrimSuffix(c.Text(), "\n"), "\n")
	t := translation{LXC: known(version), Configuration: lines, HookFile: f.hookFile, Hook: c.Hook, Notes: append(p.Notes, c.Notes...), Plan: p, managed: true}
	if !c.Hooked {
		t.Clean = []string{f.hookPath, "--stage", "clean", "--root", "ROOTFS", f.hookFile}
	}
	return t, nil
}

// ociText writes what is added to config.json, and nothing else: it is read by
// programs. What a person should know besides is in --output json.
func (t translation) ociText(w io.Writer) error {
	part := map[string]any{"linux": map[string]any{"resources": map[string]any{"devices": t.OCI.Linux.Resources.Devices}, "devices": t.OCI.Linux.Devices}}
	process := map[string]any{}
	if len(t.OCI.Process.Env) > 0 {
		process["env"] = t.OCI.Process.Env
	}
	if g := t.OCI.Process.User.AdditionalGids; len(g) > 0 {
		process["user"] = map[string]any{"additionalGids": g}
	}
	part["process"], part["mounts"] = process, t.OCI.Mounts
	if t.OCI.Hooks != nil {
		part["hooks"] = t.OCI.Hooks
	}
	return writeJSON(w, part)
}
