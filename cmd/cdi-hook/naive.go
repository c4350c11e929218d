//go:build naive

package main

// The naive build is for tests that must fail with it: no program is made of it.
var _ = the_naive_build_is_for_tests_only
