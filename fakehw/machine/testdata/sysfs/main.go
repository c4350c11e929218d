// Lists NVIDIA's GPUs as container managers do: by sysfs, procfs and the nodes,
// without any library. Built without cgo it is static.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	dirs, _ := filepath.Glob("/sys/bus/pci/devices/*")
	for _, d := range dirs {
		vendor, _ := os.ReadFile(d + "/vendor")
		class, _ := os.ReadFile(d + "/class")
		if string(vendor) != "0x10de\n" || !strings.HasPrefix(string(class), "0x03") {
			continue
		}
		driver, _ := os.Readlink(d + "/driver")
		info, _ := os.ReadFile("/proc/driver/nvidia/gpus/" + filepath.Base(d) + "/information")
		minor := -1
		for line := range strings.Lines(string(info)) {
			fmt.Sscanf(line, "Device Minor: %d", &minor)
		}
		var st syscall.Stat_t
		err := syscall.Stat(fmt.Sprintf("/dev/nvidia%d", minor), &st)
		fmt.Println(filepath.Base(d), filepath.Base(driver), minor, st.Rdev>>8, st.Rdev&0xff, err)
	}
}
