package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpurig/reports"
	"gpurig/runner"
	"gpurig/runner/target"
	"gpurig/scenarios"
)

// choices are all that a shard's run was given, by what a user calls it: shards whose
// choices differ are of different runs. Files count by what they say, since the shards
// of one run may be run on several machines, from folders of other names.
func (f runFlags) choices(variants []scenarios.Variant, shard runner.Shard, targets []target.Target, faults []string) (map[string]string, error) {
	text, hosts := sha256.New(), sha256.New()
	says, have := json.NewEncoder(text), json.NewEncoder(hosts)
	from := runner.Profiles{Instead: f.instead}
	seen := map[[2]string]bool{}
	var names, keys []string
	for _, t := range targets {
		names = append(names, t.Name())
	}
	for _, v := range variants {
		id, file := v.ID(), v.File
		v.File = ""
		if err := says.Encode([]any{id, v.Scenario}); err != nil {
			return nil, err
		}
		for _, name := range names {
			keys = append(keys, reports.Result{Scenario: v.Name, Variant: runner.WithFaults(v.Map(), faults), Target: name}.Key())
		}
		if f.hardware || seen[[2]string{v.Host, file}] {
			continue
		}
		seen[[2]string{v.Host, file}] = true
		// A host that cannot be loaded has its scenarios broken, in every shard alike.
		model, err := from.Host(v.Host, file)
		own, err2 := from.Faults(v.Host, file)
		recording, err3 := from.Recording(v.Host, file)
		if err := have.Encode([]any{v.Host, model, own.Texts(), recording, fmt.Sprint(err, err2, err3)}); err != nil {
			return nil, err
		}
	}
	out := map[string]string{
		"scenarios and what they say": hex.EncodeToString(text.Sum(nil))[:12],
		"hosts and what they have":    hex.EncodeToString(hosts.Sum(nil))[:12],
		"--target":                    strings.Join(names, ","),
		reports.ChosenResults:         reports.KeysDigest(slices.Values(keys)),
		"--fault":                     strings.Join(faults, ","),
		"--host":                      strings.Join(f.hosts, ","),
		"--label":                     f.label,
		"--lxc-version":               f.lxcVersion,
		"--lxd-daemon":                f.lxd.Daemon,
		"--lxd-socket":                f.lxd.Socket,
		"--timeout":                   f.timeout.String(),
		"--retries":                   strings.TrimPrefix(strconv.Itoa(f.lab.retries), "0"),
		"quarantine":                  f.lab.digest,
	}
	for name, given := range map[string]bool{"--hardware": f.hardware, "--allow-reconfigure": f.reconfigure} {
		if given {
			out[name] = "given"
		}
	}
	if shard.Took != nil { // shards of other durations have other variants
		ms := map[string]string{}
		for id, took := range shard.Took {
			ms[id] = fmt.Sprint(took)
		}
		out["durations"] = reports.Digest("", ms)
	}
	for name, value := range out {
		if value == "" {
			delete(out, name)
		}
	}
	return out, nil
}

// selected fills in of which run a shard is.
func (f runFlags) selected(r *reports.Report, variants []scenarios.Variant, shard runner.Shard, targets []target.Target, faults []string) (err error) {
	if r.Choices, err = f.choices(variants, shard, targets, faults); err == nil {
		r.Selection = reports.Digest(r.Tool, r.Choices)
	}
	return err
}
