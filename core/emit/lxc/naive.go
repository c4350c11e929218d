//go:build naive

package lxc

import "gpurig/core/place"

// The negative control: a writer that puts a plan's text on lines as it stands,
// and has liblxc make every mount point. The tests of the attacks must fail with
// it; no program is built of it.

func check(Entry) error                { return nil }
func escape(s string) string           { return s }
func madeByLXC(string) bool            { return true }
func allowed(place.Mount, string) bool { return true }
func plain(string) bool                { return true }
