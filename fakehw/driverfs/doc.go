// Package driverfs adds NVIDIA's user-space driver to the tree of a fake
// machine: libraries with their links, tools, firmware, configuration, sockets,
// the CSV files of Jetson Linux, and the parts of the system that tools use to
// find all this (merged /usr, ld.so.conf, the loader's cache).
//
// Names and places follow the driver's release, the distribution's layout and
// the architecture of the model. Libraries and tools are real ELF files that do
// nothing, from package elfgen; package userspace replaces some by working ones.
// Kernel interfaces (/sys, /proc, /dev) are made by package fakehw.
//
// Sources: the file lists of packaged drivers 535, 550, 570, 580 (RPM spec,
// Ubuntu and Debian packages) and the CSV files of Jetson Linux R35, R36, R38.
// What has no source is marked "unverified".
package driverfs
