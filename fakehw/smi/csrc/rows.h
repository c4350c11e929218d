/* The rows that -q prints; -x prints the same as XML. */
#ifndef GPURIG_SMI_ROWS_H
#define GPURIG_SMI_ROWS_H

#include "smi.h"

/* Sections, as -d names them. */
enum {
	ALL = 0, /* a row that only a query without -d shows */
	MEMORY = 1 << 0,
	UTILIZATION = 1 << 1,
	ECC = 1 << 2,
	TEMPERATURE = 1 << 3,
	POWER = 1 << 4,
	CLOCK = 1 << 5,
	COMPUTE = 1 << 6,
	PIDS = 1 << 7,
	PERFORMANCE = 1 << 8,
	PAGE_RETIREMENT = 1 << 9,
	ACCOUNTING = 1 << 10,
	ENCODER_STATS = 1 << 11,
	FBC_STATS = 1 << 12,
	ROW_REMAPPER = 1 << 13,
	VOLTAGE = 1 << 14,
	SUPPORTED_CLOCKS = 1 << 15,
	RESET_STATUS = 1 << 16,
	GSP = 1 << 17,
};

/* A row. value is a field; "=" and a text that is always printed; 0 for a heading;
 * "@" for rows of MIG devices. It is there from one branch on and until another; 0
 * sets no bound. tag is its element; a row without one is of the text alone, and one
 * without a label of XML alone. when says on which
 * GPUs it is, 0 on all: T and t, with and without thresholds as degrees to a limit; S
 * and s, with and without sources of errors in SRAM; R and r, that remap rows and that
 * do not. */
struct row {
	int depth;
	const char *label, *value;
	unsigned section;
	int from, until;
	const char *tag;
	char when;
};

/* rows ends with a row that has no label. */
extern const struct row rows[];

/* row_of returns whether a GPU has a row. */
int row_of(const struct gpu *g, const struct row *r);

#endif
