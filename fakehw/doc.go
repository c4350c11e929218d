// Package fakehw makes a machine from a host model: the tree of /sys, /proc,
// /dev and the driver's files that such a host has.
//
// Build turns a model into a tree. Load, Bind and the With… functions turn a
// model into another one, as an administrator, a driver or a reboot would; they
// do not modify their argument. Products are in package catalog, whole hosts in
// package profiles, driver libraries in package driverfs.
package fakehw
