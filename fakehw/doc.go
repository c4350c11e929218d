// Package fakehw makes a machine out of a host model: the tree of /sys, /proc,
// /dev and the driver's files that such a host would show.
//
// Build turns a model into a tree. Load, Bind and the With… functions turn a
// model into another one, as an administrator, a driver or a reboot would; they
// are pure, and the model they are given stays as it was. The products behind
// the models are in package catalog, whole hosts in package profiles, driver
// libraries in package driverfs.
package fakehw
