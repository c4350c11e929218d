/*
 * Which of the devices a program sees, and in which order: CUDA_DEVICE_ORDER,
 * CUDA_VISIBLE_DEVICES, and the rule of the MIG guide that one MIG device is all
 * that a process gets, and no full GPU beside it.
 *
 * Not verified: the speed that "fastest first" compares; that a device named twice
 * leaves none.
 */
#define _GNU_SOURCE
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Sorts by what is faster, then by PCI address; MIG devices stay in order. */
static int before(const struct device *a, const struct device *b, int fastest)
{
	if (fastest && product_speed(a) != product_speed(b))
		return product_speed(a) > product_speed(b);
	if (a->domain != b->domain)
		return a->domain < b->domain;
	return a->bus != b->bus ? a->bus < b->bus : a->slot < b->slot;
}

static void in_order(struct device *d, int *gpu_of, int n)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	int fastest = !order || strcmp(order, "PCI_BUS_ID");
	for (int i = 1; i < n; i++)
		for (int k = i; k > 0 && gpu_of[k] != gpu_of[k - 1] && before(&d[k], &d[k - 1], fastest && !d[k].is_mig && !d[k - 1].is_mig); k--) {
			struct device t = d[k];
			int g = gpu_of[k];
			d[k] = d[k - 1];
			gpu_of[k] = gpu_of[k - 1];
			d[k - 1] = t;
			gpu_of[k - 1] = g;
		}
}

/* The first device of the GPU with a number, counting GPUs that are there; -1. */
static int by_index(const int *gpu_of, int n, long index)
{
	long gpu = -1;
	for (int i = 0; i < n; i++) {
		gpu += i == 0 || gpu_of[i] != gpu_of[i - 1];
		if (gpu == index)
			return i;
	}
	return -1;
}

/* The one device whose UUID begins with a text; -1: none, or several. */
static int by_uuid(const struct device *d, int n, const char *text)
{
	int found = -1;
	for (int i = 0; i < n; i++)
		if (!strncasecmp(d[i].uuid, text, strlen(text))) {
			if (found >= 0)
				return -1;
			found = i;
		}
	return found;
}

static int named(const struct device *d, const int *gpu_of, int n, char *text)
{
	char *end;
	while (*text == ' ')
		text++;
	for (end = text + strlen(text); end > text && end[-1] == ' ';)
		*--end = 0;
	if (!strncasecmp(text, "GPU-", 4) || !strncasecmp(text, "MIG-", 4))
		return strlen(text) > 4 ? by_uuid(d, n, text) : -1;
	long index = strtol(text, &end, 10);
	return *text && !*end && index >= 0 ? by_index(gpu_of, n, index) : -1;
}

/* visible copies the devices of a list until the first that is wrong. */
static void visible(const struct device *d, const int *gpu_of, int n, const char *list)
{
	char *copy = strdup(list), *rest = copy, *word;
	int taken[MAX_DEVICES] = {0};
	ndevices = 0;
	while (copy && (word = strsep(&rest, ","))) {
		int i = named(d, gpu_of, n, word);
		if (i < 0)
			break;
		if (taken[i]) {
			say(0, "CUDA_VISIBLE_DEVICES names a device twice");
			ndevices = 0;
			break;
		}
		taken[i] = 1;
		devices[ndevices++] = d[i];
	}
	free(copy);
}

CUresult choose_visible(struct device *found, int n, const int *gpu_of)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	int order[MAX_DEVICES];
	memcpy(order, gpu_of, (size_t)n * sizeof *order);
	in_order(found, order, n);
	if (list) {
		visible(found, order, n, list);
	} else {
		memcpy(devices, found, (size_t)n * sizeof *devices);
		ndevices = n;
	}
	for (int i = 0; i < ndevices; i++)
		if (devices[i].is_mig) {
			devices[0] = devices[i];
			ndevices = 1;
		}
	return ndevices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
