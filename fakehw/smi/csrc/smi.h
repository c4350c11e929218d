/*
 * What the parts of the program share. It is one-shot and single-threaded: what
 * it says is written as it goes, and a function's result is an exit code.
 */
#ifndef GPURIG_SMI_H
#define GPURIG_SMI_H

#include "nvml.h"

#include <stdio.h>

enum { TEXT = 160, MAX_GPUS = 256, MAX_IDS = 64 };

/* A GPU that was chosen. */
struct gpu {
	device d;
	unsigned index;
	char bus[32]; /* "00000000:07:00.0", or "N/A" */
};

/* The machine, once start() has returned 0. */
struct machine {
	char driver[TEXT]; /* of the kernel */
	char smi[TEXT];	   /* of the libraries, and so of this program */
	char nvml[TEXT];   /* its first two numbers: "550.54" */
	char cuda[TEXT];   /* "12.4", or "N/A" */
	int branch;	   /* 550 of "550.54.14": what output looks like goes by it */
	struct gpu gpu[MAX_GPUS];
	int n;
	unsigned count; /* of all GPUs */
};

extern struct machine machine;

/* start loads NVML and says what is wrong when it cannot. */
int start(void);

/* choose fills machine.gpu with the GPUs that ids name: indices, UUIDs, serial
 * numbers or bus addresses, divided by commas; 0 takes all. A GPU whose handle
 * cannot be had is complained about, and its code is the result, but the others
 * are there. */
int choose(const char *ids);

/* why is NVML's word for a code. */
const char *why(unsigned code);

/* title copies a text of a device, or "N/A". */
void title(unsigned (*call)(device, char *, unsigned), device d, char out[TEXT]);

/* mig_on says whether the GPU's MIG mode is enabled now. */
int mig_on(device d);

/* after_mig returns the profile in a MIG device's name. */
const char *after_mig(const char *name);

/* number reads an unsigned number that is all of the text. */
int number(const char *text, unsigned *out);

/* The commands, one a file or so. */
int list(void);
int table(void);
int query(const char *sections);
int xml(void);
int topo(int argc, char **argv);
int nvlink(int argc, char **argv);
int monitor(int processes, int argc, char **argv); /* dmon and pmon */
int csv(const char *fields, const char *format);
int csv_apps(const char *fields, const char *format);
int csv_help(void);
int version(void);
int help(void);
int mig_help(void);
int mig(int argc, char **argv);
int set_mig(const char *mode);
int set_persistence(const char *mode);
int set_power(const char *watts);
int reset(const char *ids);

/* bad prints how to get help and returns BAD_ARGUMENT. */
int bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* memory fills in used, free and reserved bytes; an NVML code. */
unsigned memory_of(device d, struct memory_v2 *out);

/* get writes the value of a field of --query-gpu without its unit; *unit is "" or
 * "MiB". It returns an NVML code; BAD_ARGUMENT: there is no such field. */
unsigned get(const struct gpu *g, const char *field, char out[TEXT], const char **unit);

#endif
