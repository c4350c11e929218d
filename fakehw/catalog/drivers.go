package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// A Driver is one release of NVIDIA's driver.
type Driver struct {
	Branch  string // "550"
	Version string // "550.163.01"
	CUDA    string // newest CUDA that it supports
	Built   string // date in /proc/driver/nvidia/version; days are unverified
	Tegra   bool   // shipped with Jetson Linux, not for discrete GPUs alone
}

// Drivers are the releases that profiles and scenarios may name, oldest first.
// The first of a branch is what the bare branch stands for. Version and CUDA
// are from captures, distribution packages and release notes.
var Drivers = []Driver{
	{Branch: "450", Version: "450.248.02", CUDA: "11.0", Built: "Thu Jun  1 13:54:07 UTC 2023"},
	{Branch: "470", Version: "470.256.02", CUDA: "11.4", Built: "Thu May  2 14:37:44 UTC 2024"},
	{Branch: "510", Version: "510.54", CUDA: "11.6", Built: "Tue Feb  8 04:42:21 UTC 2022"},
	{Branch: "510", Version: "510.47.03", CUDA: "11.6", Built: "Mon Jan 24 22:58:54 UTC 2022"},
	{Branch: "515", Version: "515.105.01", CUDA: "11.7", Built: "Thu Mar  9 21:05:34 UTC 2023"},
	{Branch: "525", Version: "525.60.11", CUDA: "12.0", Built: "Wed Nov 23 23:04:03 UTC 2022"},
	{Branch: "535", Version: "535.113.01", CUDA: "12.2", Built: "Tue Sep 12 19:41:24 UTC 2023"},
	{Branch: "540", Version: "540.4.0", CUDA: "12.6", Built: "Fri Aug 30 18:27:58 UTC 2024", Tegra: true},
	{Branch: "540", Version: "540.3.0", CUDA: "12.2", Built: "Mon Apr 29 23:18:26 UTC 2024", Tegra: true},
	{Branch: "550", Version: "550.163.01", CUDA: "12.4", Built: "Tue Apr  8 12:41:17 UTC 2025"},
	{Branch: "550", Version: "550.78", CUDA: "12.4", Built: "Sun Apr 14 06:35:45 UTC 2024"},
	{Branch: "565", Version: "565.57.01", CUDA: "12.7", Built: "Thu Oct 10 12:29:05 UTC 2024"},
	{Branch: "570", Version: "570.153.02", CUDA: "12.8", Built: "Tue May 13 17:14:10 UTC 2025"},
	{Branch: "570", Version: "570.148.08", CUDA: "12.8", Built: "Thu May  8 03:45:14 UTC 2025"},
	{Branch: "580", Version: "580.105.08", CUDA: "13.0", Built: "Wed Oct 29 23:15:11 UTC 2025"},
	{Branch: "580", Version: "580.173.02", CUDA: "13.0", Built: "Tue Jun 16 09:12:40 UTC 2026"},
	{Branch: "580", Version: "580.00", CUDA: "13.0", Built: "Fri Aug 22 00:34:06 UTC 2025", Tegra: true},
	{Branch: "590", Version: "590.48.01", CUDA: "13.1", Built: "Mon Dec  8 13:05:00 UTC 2025"},
	{Branch: "595", Version: "595.91.07", CUDA: "13.2", Built: "Mon Jun 22 14:05:31 UTC 2026"},
}

// FindDriver returns the release that a version ("550.163.01") or a branch
// ("550") names. A version of a known branch that is not in the table is taken
// as it is, with the CUDA version of the branch. The error is an *UnknownError.
func FindDriver(name string) (Driver, error) {
	for _, d := range Drivers {
		if d.Version == name || d.Branch == name {
			return d, nil
		}
	}
	branch, rest, ok := strings.Cut(name, ".")
	if ok && digits(rest) {
		for _, d := range Drivers {
			if d.Branch == branch {
				d.Version = name
				return d, nil
			}
		}
	}
	var known []string
	for _, d := range Drivers {
		known = append(known, d.Version)
	}
	slices.Sort(known)
	return Driver{}, &UnknownError{Kind: "driver", Name: name, Known: known}
}

// digits reports whether s is "163.01" or "00": decimal groups with dots.
func digits(s string) bool {
	for _, part := range strings.Split(s, ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" || len(part) > 4 {
			return false
		}
	}
	return true
}

// BranchNumber returns the branch of a driver version as a number: 550 of
// "550.163.01"; zero if there is none.
func BranchNumber(version string) int {
	b, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(b)
	if err != nil {
		return 0
	}
	return n
}
