// Package driverfs puts NVIDIA's user-space driver into the tree of a fake
// machine: libraries with their links, tools, firmware, configuration, sockets,
// the CSV files of Jetson Linux, and what of the system itself tools look at to
// find all that (merged usr, ld.so.conf, the loader cache).
//
// Names and places follow the driver's release, the distribution's layout and
// the architecture of the model. Libraries and tools are real ELF files that do
// nothing, from package elfgen; a library that works replaces them later.
// Kernel interfaces (/sys, /proc, /dev) are package fakehw's.
//
// Sources: the file lists of packaged drivers 535, 550, 570, 580 (RPM spec,
// Ubuntu and Debian packages) and the CSV files of Jetson Linux R35, R36, R38.
// What could not be tied to a source says "unverified".
package driverfs
