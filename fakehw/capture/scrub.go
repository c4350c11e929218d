package capture

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"gpurig/fixtures/hosts"
)

// A scrubber replaces what names one machine among all: the same name by the
// same stand-in, numbered in the order in which they are met.
type scrubber struct {
	uuids, macs map[string]string
	host        *regexp.Regexp // nil: the machine's name is no name
}

var (
	uuidPattern = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
	macPattern  = regexp.MustCompile(`\b[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\b`)
	idPattern   = regexp.MustCompile(`PARTUUID=[0-9a-fA-F-]+`)
)

// common are machine names that name nothing.
var common = []string{"localhost", "localhost.localdomain", "ubuntu", "debian", "nvidia", "tegra", "tegra-ubuntu", "jetson", "nixos", "fedora", "linux", "host", "(none)"}

func newScrubber(hostname string) *scrubber {
	s := &scrubber{uuids: map[string]string{}, macs: map[string]string{}}
	for _, c := range common {
		if strings.EqualFold(hostname, c) {
			return s
		}
	}
	if len(hostname) >= 3 {
		// The device mapper writes each dash of a name as two.
		s.host = regexp.MustCompile(`(?i)(^|[^a-zA-Z0-9])` + strings.ReplaceAll(regexp.QuoteMeta(hostname), "-", "--?") + `($|[^a-zA-Z0-9])`)
	}
	return s
}

// uuid returns the stand-in of a UUID, the same for both of its spellings.
func (s *scrubber) uuid(old string) string {
	key := strings.ToLower(old)
	if s.uuids[key] == "" {
		s.uuids[key] = fmt.Sprintf("%08x-0000-4000-8000-000000000000", len(s.uuids)+1)
	}
	return s.uuids[key]
}

func (s *scrubber) mac(old string) string {
	key := strings.ToLower(old)
	if s.macs[key] == "" {
		n := len(s.macs) + 1
		s.macs[key] = fmt.Sprintf("02:00:00:00:%02x:%02x", n>>8&0xff, n&0xff)
	}
	return s.macs[key]
}

// text replaces UUIDs and MAC addresses.
func (s *scrubber) text(t string) string {
	t = uuidPattern.ReplaceAllStringFunc(t, s.uuid)
	return macPattern.ReplaceAllStringFunc(t, s.mac)
}

// name replaces the machine's own name, in what people write.
func (s *scrubber) name(t string) string {
	if s.host == nil {
		return t
	}
	for range 2 { // neighbours share the character between them
		t = s.host.ReplaceAllString(t, "${1}host${2}")
	}
	return t
}

// unanswered are the UUIDs of GPUs that the driver names and the library does not,
// by address: those of the GPUs that did not answer it.
func unanswered(f hosts.File) (out []string) {
	said := map[string]bool{}
	for _, d := range f.NVML.Devices {
		said[strings.ToLower(uuidPattern.FindString(d.UUID))] = true
	}
	for _, e := range f.Entries {
		if ok, _ := path.Match("/proc/driver/nvidia/gpus/*/information", e.Path); !ok {
			continue
		}
		if id := strings.ToLower(uuidPattern.FindString(string(e.Data))); id != "" && !said[id] {
			out = append(out, id)
		}
	}
	return out
}

// file replaces everything in a recording. The library's GPUs come first and in
// its order, so machines of equal structure get equal recordings.
func (s *scrubber) file(f *hosts.File) {
	if f.NVML != nil {
		silent := unanswered(*f)
		for i := range f.NVML.Devices {
			d := &f.NVML.Devices[i]
			if d.Error != "" && len(silent) > 0 {
				s.uuid(silent[0])
				silent = silent[1:]
			}
			d.UUID = s.text(d.UUID)
			if d.MIG == nil {
				continue
			}
			for _, gi := range d.MIG.Instances {
				for j := range gi.Compute {
					gi.Compute[j].UUID = s.text(gi.Compute[j].UUID)
				}
			}
		}
	}
	f.Machine = s.name(s.text(f.Machine))
	for i := range f.Entries {
		e := &f.Entries[i]
		e.Path, e.Target = s.text(e.Path), s.text(e.Target)
		switch kernel := strings.HasPrefix(e.Path, "/sys/") || strings.HasPrefix(e.Path, "/proc/"); {
		case len(e.Data) == 0:
		case !kernel:
			e.Data = []byte(s.name(s.text(string(e.Data))))
		case e.Path == "/proc/cmdline":
			e.Data = []byte(idPattern.ReplaceAllString(s.name(s.text(string(e.Data))), "PARTUUID=00000000"))
		case strings.HasSuffix(e.Path, "/config"): // bytes
		default:
			e.Data = []byte(s.text(string(e.Data)))
		}
	}
	for i := range f.Notes {
		f.Notes[i] = s.name(s.text(f.Notes[i]))
	}
	// What was met with dashes may stand without them elsewhere.
	bare := map[string]string{}
	for old, new := range s.uuids {
		bare[strings.ReplaceAll(old, "-", "")] = strings.ReplaceAll(new, "-", "")
	}
	for i := range f.Entries {
		e := &f.Entries[i]
		if len(e.Data) > 0 && !strings.HasSuffix(e.Path, "/config") {
			e.Data = barePattern.ReplaceAllFunc(e.Data, func(b []byte) []byte {
				if new, ok := bare[strings.ToLower(string(b))]; ok {
					return []byte(new)
				}
				return b
			})
		}
	}
}

var barePattern = regexp.MustCompile(`\b[0-9a-fA-F]{32}\b`)
