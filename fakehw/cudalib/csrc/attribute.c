/* cuDeviceGetAttribute: numbers by the attribute's number. */
#include "rt.h"

#include <stdlib.h>

/* The same on every device that is modelled. */
static const struct {
	int which, value;
} fixed[] = {
	{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, /* threads and grids */
	{8, 49152}, {9, 65536}, {10, 32}, {11, 0x7fffffff}, {12, 65536}, {14, 512}, {15, 1}, {17, 0}, {19, 1}, {20, 0},
	{21, 131072}, {22, 131072}, {23, 65536}, {24, 16384}, {25, 16384}, {26, 16384}, {27, 32768}, {28, 32768}, {29, 2048}, /* textures */
	{30, 512}, {31, 1}, {35, 0}, {40, 3}, {41, 1}, {42, 32768}, {43, 2048}, {44, 1}, {45, 32768}, {46, 32768}, {47, 8192},
	{48, 8192}, {49, 32768}, {51, 32}, {52, 32768}, {53, 32768}, {54, 2046}, {55, 32768}, {56, 131072}, {57, 65536}, {58, 16384},
	{59, 16384}, {60, 16384}, {61, 32768}, {62, 2048}, {63, 32768}, {64, 32768}, {65, 2048}, {66, 32768}, {67, 32768}, {68, 2046},
	{69, 268435456}, {70, 131072}, {71, 65000}, {72, 2097120}, {73, 32768}, {74, 32768}, {77, 32768},
	{78, 1}, {79, 1}, {80, 1}, {82, 65536}, {83, 1}, {84, 0}, {86, 0}, {90, 1}, {91, 1},
	/* What calls of this library do not do is not offered. */
	{92, 0}, {93, 0}, {94, 0}, {95, 0}, {96, 0}, {98, 0}, {99, 1}, {100, 0}, {102, 0}, {103, 0}, {104, 0}, {105, 0}, {107, 0}, {110, 0},
	{112, 0}, {113, 0}, {114, 0}, {115, 0}, {116, 0}, {117, 0}, {118, 0}, {119, 0}, {120, 0}, {121, 0}, {122, 0}, {123, 0}, {124, 0},
	{125, 0}, {126, 1}, {127, 0}, {128, 0}, {129, 0}, {130, 0}, {131, -1}, {132, 0}, {134, -1}, {135, 0}, {136, 0}, {137, 0}, {138, 0},
	{141, 0}, {142, 0}, {143, 0}, {145, 0}, {146, 0}, {147, 0},
};

static int of_device(const struct device *d, int which, int *out)
{
	const struct product *p = &d->product;
	switch (which) {
	case 13: *out = p->clock_khz; break;
	case 16: *out = p->sms; break;
	case 18: *out = d->integrated; break;
	case 32: *out = !d->integrated && (p->bus_bits >= 4096 || p->threads_sm == 1024); break; /* ECC: data-centre memory */
	case 33: *out = (int)d->bus; break;
	case 34: *out = (int)d->slot; break;
	case 36: *out = p->memory_khz; break;
	case 37: *out = p->bus_bits; break;
	case 38: *out = p->l2_bytes; break;
	case 39: *out = p->threads_sm; break;
	case 50: *out = (int)d->domain; break;
	case 75: *out = d->major; break;
	case 76: *out = d->minor; break;
	case 81: *out = p->shared_sm; break;
	case 85: *out = (int)(d - devices); break;
	case 87: *out = d->minor == 0 && d->major >= 8 && d->major <= 10 ? 2 : d->major == 7 && !d->minor ? 2 : 64; break;
	case 88: *out = 0; break;
	case 89: *out = !d->integrated; break;
	case 97: *out = p->shared_optin; break;
	case 101: *out = 0; break;
	case 106: *out = p->blocks_sm; break;
	case 108: *out = 0; break;
	case 109: *out = 0; break;
	case 111: *out = p->shared_sm - p->shared_optin; break;
	case 139: *out = (int)d->pci_id; break;
	case 140: *out = (int)d->subsystem_id; break;
	default: return 0;
	}
	return 1;
}

API CUresult cuDeviceGetAttribute(int *out, int which, CUdevice dev)
{
	CUresult code = enter("cuDeviceGetAttribute");
	if (code)
		return code;
	struct device *d = device_of(dev);
	if (!out || which <= 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!d)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (of_device(d, which, out))
		return leave(CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		if (fixed[i].which == which) {
			*out = fixed[i].value;
			return leave(CUDA_SUCCESS);
		}
	return leave(CUDA_ERROR_INVALID_VALUE);
}

/* The old structure of fourteen numbers. */
API CUresult cuDeviceGetProperties(int *out, CUdevice dev)
{
	static const int which[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
	for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
		CUresult code = cuDeviceGetAttribute(out ? out + i : 0, which[i], dev);
		if (code)
			return code;
	}
	return CUDA_SUCCESS;
}
