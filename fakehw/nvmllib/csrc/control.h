/*
 * The channel to the host that this machine is part of. See package control for
 * what is said on it.
 */
#ifndef GPURIG_CONTROL_H
#define GPURIG_CONTROL_H

enum { MAX_LINE = 256 };

/* control_ask sends a request, a line without its newline, and returns an NVML
 * code. On success values has the n numbers of the reply. A machine that no host
 * listens to is one that cannot change: NOT_SUPPORTED. */
unsigned control_ask(const char *request, unsigned *values, int n);

#endif
