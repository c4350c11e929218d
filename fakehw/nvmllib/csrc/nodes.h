/*
 * What of the host a program may reach: the device nodes that it can open.
 */
#ifndef GPURIG_NODES_H
#define GPURIG_NODES_H

#include "host.h"

/* nodes_reach takes away from a host, that was just read, the GPUs and MIG devices
 * whose nodes the program may not open, as in a container that was given some, and
 * numbers those that are left. It returns what nvmlInit then returns. A host whose
 * state file the environment names is taken as it is, unless GPURIG_DEV_ROOT, for
 * tests, says where its nodes are. */
unsigned nodes_reach(struct host *h);

#endif
