/* -L, --version. */
#include "smi.h"

#include <string.h>

static void mig_devices(device d)
{
	unsigned most;
	if (!mig_on(d) || nvml.DeviceGetMaxMigDeviceCount(d, &most))
		return;
	for (unsigned i = 0; i < most; i++) {
		char name[TEXT], uuid[TEXT];
		device m;
		if (nvml.DeviceGetMigDeviceHandleByIndex(d, i, &m))
			continue;
		title(nvml.DeviceGetName, m, name);
		title(nvml.DeviceGetUUID, m, uuid);
		/* before 470 a name was that of its instances, and not padded */
		if (!strncmp(uuid, "MIG-GPU-", 8))
			printf("  MIG %s Device %u: (UUID: %s)\n", after_mig(name), i, uuid);
		else
			printf("  MIG %-11s Device %2u: (UUID: %s)\n", after_mig(name), i, uuid);
	}
}

int list(void)
{
	for (int i = 0; i < machine.n; i++) {
		char name[TEXT], uuid[TEXT];
		title(nvml.DeviceGetName, machine.gpu[i].d, name);
		title(nvml.DeviceGetUUID, machine.gpu[i].d, uuid);
		printf("GPU %u: %s (UUID: %s)\n", machine.gpu[i].index, name, uuid);
		mig_devices(machine.gpu[i].d);
	}
	return OK;
}

int version(void)
{
	printf("NVIDIA-SMI version  : %s\n", machine.smi);
	printf("NVML version        : %s\n", machine.nvml);
	printf("DRIVER version      : %s\n", machine.driver);
	printf("CUDA Version        : %s\n", machine.cuda);
	return OK;
}
