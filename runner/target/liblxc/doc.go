// Package liblxc describes liblxc for the targets: the configuration that
// every test container has, and how liblxc reads the lines that a plan adds.
//
// It starts nothing. Package target/lxc gives the lines to the real library;
// package target/sim does what the library would do. Facts are from the sources
// of LXC 5.0.2 (src/lxc/confile.c, conf.c, cgroups/cgfsng.c) and were seen on it;
// differences of 6.0.4 and 7.0.0 were seen on those (make test-lxc-newer).
package liblxc
