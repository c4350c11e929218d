package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpurig/core/host"
	"gpurig/fakehw/capture"
	"gpurig/scenarios"
)

// splitHosts takes --host apart: names of profiles, and one recording at most.
func (x *selection) splitHosts() (names []string, recording string, err error) {
	for _, h := range x.hosts {
		switch {
		case !isRecording(h):
			names = append(names, h)
		case recording != "":
			return nil, "", fmt.Errorf("--host %s and --host %s: want one recording", recording, h)
		default:
			recording = h
		}
	}
	return names, recording, nil
}

// onRecording returns the variants that can be judged on a recorded host, and
// the hosts that it stands for.
//
// A scenario says what is true of the host that it names: which nodes there are,
// with which numbers, which driver. So a recording stands for a host only if it
// has all that a scenario can name: the same GPUs at the same addresses and
// numbers, the same nodes, driver, and libraries' place. What differs then is
// what the scenario is run again for: the machine's real files.
func onRecording(all []scenarios.Variant, file string) ([]scenarios.Variant, map[string]string, error) {
	rec, err := openRecording(file)
	if err != nil {
		return nil, nil, err
	}
	models := map[string]host.Model{}
	instead := map[string]string{}
	var nearest string
	least := -1
	for _, v := range all {
		if _, done := models[v.Host]; done || isRecording(v.Host) || strings.Contains(v.Host, "/") {
			continue
		}
		_, m, err := loadHost(v.Host)
		if err != nil {
			return nil, nil, err
		}
		models[v.Host] = m
		n := len(differences(m, rec.request.Model))
		if n == 0 {
			instead[v.Host] = file
		}
		if least < 0 || n < least || n == least && v.Host < nearest {
			nearest, least = v.Host, n
		}
	}
	var out []scenarios.Variant
	named := 0
	for _, v := range all {
		switch {
		case instead[v.Host] == "":
		case namesUUID(v.Scenario, models[v.Host]):
			named++
		default:
			out = append(out, v)
		}
	}
	if len(out) > 0 {
		return out, instead, nil
	}
	why := fmt.Errorf("no scenario that is selected can be judged on the recorded host %s", file)
	switch {
	case nearest == "":
		return nil, nil, errors.New("no scenario is selected")
	case named > 0:
		return nil, nil, hint(why, "they name UUIDs, which recordings replace; a scenario of its own says \"host: ./FILE\" and the numbers in gpurig host show %s", file)
	}
	return nil, nil, hint(why, "the nearest host is %s, %d differences away: gpurig host diff %s %s; a scenario beside the file can say \"host: ./FILE\"", nearest, least, nearest, file)
}

// incidental are facts that no scenario names.
var incidental = []string{"kernel", "command line", "UUID", "VBIOS", "NUMA node", "BARs", "revision", "IOMMU"}

// differences lists what differs between a profile and a recorded host that a
// scenario can name.
func differences(profile, recorded host.Model) []capture.Difference {
	return slices.DeleteFunc(capture.CompareModels(profile, recorded), func(d capture.Difference) bool {
		what := d.What[strings.LastIndex(d.What, ": ")+1:]
		return slices.Contains(incidental, strings.TrimSpace(what))
	})
}

// namesUUID reports whether a scenario names a UUID of its host.
func namesUUID(s scenarios.Scenario, m host.Model) bool {
	text, err := json.Marshal(s)
	if err != nil {
		return false // plain data always has a JSON form
	}
	has := func(u string) bool {
		u = strings.TrimPrefix(strings.TrimPrefix(u, "GPU-"), "MIG-")
		return u != "" && strings.Contains(string(text), u)
	}
	for _, g := range m.GPUs {
		if has(g.UUID) {
			return true
		}
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.Instances {
			if slices.ContainsFunc(gi.Compute, func(c host.ComputeInstance) bool { return has(c.UUID) }) {
				return true
			}
		}
	}
	return false
}
