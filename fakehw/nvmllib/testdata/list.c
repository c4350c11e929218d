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
	return nvmlShutdown();
}
