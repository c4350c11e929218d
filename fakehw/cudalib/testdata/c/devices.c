/* devices: what there is, a line each, or the code of cuInit. */
#include "cuda.h"

static void uuid(const CUuuid *u)
{
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u->bytes[i]);
}

int main(void)
{
	int n, version, major, minor, sms, integrated;
	const char *name = "?";
	CUresult code = cuInit(0);
	if (code) {
		cuGetErrorName(code, &name);
		printf("cuInit: %d %s\n", code, name);
		return 0;
	}
	must(cuDeviceGetCount(&n));
	must(cuDriverGetVersion(&version));
	printf("CUDA %d, %d devices\n", version, n);
	for (int i = 0; i < n; i++) {
		CUdevice dev, same;
		CUuuid id, parent;
		size_t memory;
		char text[128], bus[32];
		must(cuDeviceGet(&dev, i));
		must(cuDeviceGetName(text, sizeof text, dev));
		must(cuDeviceGetUuid_v2(&id, dev));
		must(cuDeviceGetUuid(&parent, dev));
		must(cuDeviceTotalMem_v2(&memory, dev));
		must(cuDeviceGetPCIBusId(bus, sizeof bus, dev));
		must(cuDeviceGetByPCIBusId(&same, bus));
		must(cuDeviceGetAttribute(&major, 75, dev));
		must(cuDeviceGetAttribute(&minor, 76, dev));
		must(cuDeviceGetAttribute(&sms, 16, dev));
		must(cuDeviceGetAttribute(&integrated, 18, dev));
		printf("%d: %s ", i, text);
		uuid(&id);
		if (memcmp(&id, &parent, sizeof id)) {
			printf(" of ");
			uuid(&parent);
		}
		printf(" %s cc %d.%d, %d SMs", bus, major, minor, sms);
		if (integrated)
			printf(", integrated%s\n", memory ? "" : " without memory");
		else
			printf(", %zu MiB\n", memory >> 20);
	}
	return 0;
}
