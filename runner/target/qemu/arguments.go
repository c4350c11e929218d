package qemu

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A device is one device of a machine, as QEMU reads it in JSON.
type device map[string]any

// devices reads the arguments that core/vfio writes for a plan: root ports, which stay as
// they are, and the devices below them in the order of the plan, each without what names
// a device of the host. What is not understood is an error.
func devices(arguments []string) (ports []string, passed []device, err error) {
	for i := 0; i+1 < len(arguments); i += 2 {
		flag, text := arguments[i], arguments[i+1]
		driver, rest, _ := strings.Cut(text, ",")
		switch {
		case flag == "-device" && driver == "pcie-root-port":
			ports = append(ports, text)
			continue
		case flag == "-object" && driver == "iommufd":
			continue // the host's side: no device of this machine is behind vfio-user
		case flag != "-device" || driver != "vfio-pci":
			return nil, nil, fmt.Errorf("argument %s %s of the plan: nothing is known of it", flag, text)
		}
		d := device{"driver": "vfio-user-pci"}
		for word := range strings.SplitSeq(rest, ",") {
			k, v, _ := strings.Cut(word, "=")
			switch k {
			case "id", "bus", "addr":
				d[k] = v
			case "multifunction":
				d[k] = v == "on"
			case "host", "iommufd": // the host's side
			default:
				return nil, nil, fmt.Errorf("argument %s of device %s: nothing is known of it", word, text)
			}
		}
		passed = append(passed, d)
	}
	return ports, passed, nil
}

// text is the device as an argument of -device.
func (d device) text() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts, numbers and booleans
	}
	return string(b)
}
