/* Lists the devices as any C program does, linked to the library by its SONAME.
 * It declares the few calls that it makes itself. */
#include <stdio.h>

typedef struct device *dev;
int nvmlInit_v2(void), nvmlShutdown(void);
const char *nvmlErrorString(int);
int nvmlSystemGetDriverVersion(char *, unsigned), nvmlDeviceGetCount_v2(unsigned *);
int nvmlDeviceGetHandleByIndex_v2(unsigned, dev *), nvmlDeviceGetName(dev, char *, unsigned), nvmlDeviceGetUUID(dev, char *, unsigned);
int nvmlDeviceGetMaxMigDeviceCount(dev, unsigned *), nvmlDeviceGetMigDeviceHandleByIndex(dev, unsigned, dev *);
int nvmlDeviceGetTemperature(dev, int, unsigned *), nvmlDeviceGetNumFans(dev, unsigned *);

int nvmlInternalGetExportTable(const void *const **, const unsigned char *), nvmlDeviceGetPciInfo_v3(dev, void *);

/* What NVIDIA's nvidia-smi asks besides: a table's places are functions. */
static void private(void)
{
	static const unsigned char id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4}, none[16];
	const void *const *table;
	struct {
		char head[36], id[32];
	} pci;
	dev d = 0, same = 0;
	unsigned n = 7, level = 9;
	int r = nvmlInternalGetExportTable(&table, none), places;
	printf("no table: %d, a table: %d", r, nvmlInternalGetExportTable(&table, id));
	places = (int)((unsigned long)table[0] / sizeof *table);
	nvmlDeviceGetHandleByIndex_v2(0, &d);
	nvmlDeviceGetPciInfo_v3(d, &pci);
	r = ((int (*)(unsigned, dev *))table[81])(0, &same);
	printf(" of %d, handle: %d %d", places, r, same == d);
	r = ((int (*)(dev, unsigned *))table[214])(d, &n);
	printf(", processes: %d %u, another place: %d", r, n, ((int (*)(void))table[places - 1])());
	printf(", no handle: %d, no way to itself: %d\n", ((int (*)(void *, unsigned *))table[72])(&n, &n), ((int (*)(char *, char *, unsigned *))table[23])(pci.id, pci.id, &level));
}

static void print(const char *indent, dev d)
{
	char name[96], uuid[96];
	int a = nvmlDeviceGetName(d, name, sizeof name), b = nvmlDeviceGetUUID(d, uuid, sizeof uuid);
	printf("%s%d %s, %d %s\n", indent, a, name, b, uuid);
}

int main(void)
{
	char driver[80];
	unsigned n, migs, celsius;
	dev d, m;
	int r = nvmlInit_v2();
	if (r) {
		printf("init: %s\n", nvmlErrorString(r));
		return 1;
	}
	nvmlSystemGetDriverVersion(driver, sizeof driver);
	nvmlDeviceGetCount_v2(&n);
	printf("driver %s, %u GPUs, a short buffer: %d\n", driver, n, nvmlSystemGetDriverVersion(driver, 3));
	for (unsigned i = 0; i < n; i++) {
		nvmlDeviceGetHandleByIndex_v2(i, &d);
		print("", d);
		nvmlDeviceGetMaxMigDeviceCount(d, &migs);
		for (unsigned j = 0; j < migs; j++)
			if (!nvmlDeviceGetMigDeviceHandleByIndex(d, j, &m))
				print("  ", m);
		if (i == 0)
			printf("temperature: %d, fans: %s, no handle: %d, null: %d\n", nvmlDeviceGetTemperature(d, 0, &celsius), nvmlErrorString(nvmlDeviceGetNumFans(d, &n)),
			       nvmlDeviceGetUUID((dev)&driver, driver, sizeof driver), nvmlDeviceGetUUID(d, 0, 0));
	}
	private();
	return nvmlShutdown();
}
