/* What changes a GPU as a whole: -mig, -pm, -pl, --gpu-reset. */
#include "smi.h"
#include "control.h"

#include <string.h>

static int done(int code)
{
	printf(code ? "Terminating early due to previous errors.\n" : "All done.\n");
	return code > 255 ? 255 : code;
}

/* switch_of reads 0 or 1, or ENABLED or DISABLED. */
static int switch_of(const char *text, unsigned *out)
{
	if (!strcmp(text, "1") || !strcasecmp(text, "enabled"))
		return *out = 1;
	*out = 0;
	return !strcmp(text, "0") || !strcasecmp(text, "disabled");
}

/* moved_on says that what a GPU does not know is no failure of the others. */
static int moved_on(unsigned r)
{
	if (r == NOT_SUPPORTED)
		printf("Treating as warning and moving on.\n");
	return r == NOT_SUPPORTED;
}

static void warn_of_persistence(const struct gpu *g)
{
	unsigned on = 1;
	if (!nvml.DeviceGetPersistenceMode(g->d, &on) && !on)
		printf("\nWarning: persistence mode is disabled on device %s. See the Known Issues section of the nvidia-smi(1) man page for more information. "
		       "Run with [--help | -h] switch to get more information on how to enable persistence mode.\n", g->bus);
}

/* pending says why a mode has to wait for a reset. */
static void pending(const struct gpu *g, unsigned on, unsigned status)
{
	printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n", on ? "enable" : "disable", g->bus, why(status));
	if (status == IN_USE)
		printf("%s is currently being used by one or more other processes (e.g. CUDA application or a monitoring application such as another instance of nvidia-smi). "
		       "Please first kill all processes using the device and retry the command or reboot the system to make MIG mode effective.\n", g->bus);
	else
		printf("Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU %s\n", g->bus);
}

int set_mig(const char *mode)
{
	unsigned on, r;
	if (!switch_of(mode, &on))
		return bad("Invalid combination of input arguments.");
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		unsigned status = 0;
		r = nvml.DeviceSetMigMode(g->d, on, &status);
		if (r) {
			printf("Unable to %s MIG Mode for GPU %s: %s\n", on ? "enable" : "disable", g->bus, why(r));
			if (!moved_on(r))
				return done(r);
			continue;
		}
		if (status)
			pending(g, on, status);
		else
			printf("%s MIG Mode for GPU %s\n", on ? "Enabled" : "Disabled", g->bus);
		warn_of_persistence(g);
	}
	return done(OK);
}

int set_persistence(const char *mode)
{
	unsigned on, now, r;
	if (!switch_of(mode, &on))
		return bad("Invalid combination of input arguments.");
	for (int i = 0; i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		if (!nvml.DeviceGetPersistenceMode(g->d, &now) && now == on) {
			printf("Persistence mode is already %s for GPU %s.\n", on ? "Enabled" : "Disabled", g->bus);
			continue;
		}
		r = nvml.DeviceSetPersistenceMode(g->d, on);
		if (r) {
			printf("Unable to set persistence mode for GPU %s: %s\n", g->bus, why(r));
			if (!moved_on(r))
				return done(r);
		} else {
			printf("%s persistence mode for GPU %s.\n", on ? "Enabled Legacy" : "Disabled", g->bus);
		}
	}
	return done(OK);
}

int set_power(const char *watts)
{
	unsigned n, r;
	if (!number(watts, &n))
		return bad("Invalid combination of input arguments.");
	for (int i = 0; i < machine.n; i++) {
		r = nvml.DeviceSetPowerManagementLimit(machine.gpu[i].d, n * 1000);
		if (r == NOT_SUPPORTED)
			printf("Changing power management limit is not supported for GPU: %s.\n", machine.gpu[i].bus);
		else if (r)
			printf("Failed to set power management limit for GPU %s: %s\n", machine.gpu[i].bus, why(r));
		else
			printf("Power limit for GPU %s was set to %u.00 W.\n", machine.gpu[i].bus, n);
		if (r && !moved_on(r))
			return done(r);
	}
	return done(OK);
}

/* NVML has no call for a reset: the real program asks the kernel driver. */
int reset(const char *ids)
{
	int code = choose(ids);
	for (int i = 0; !code && i < machine.n; i++) {
		const struct gpu *g = &machine.gpu[i];
		char request[MAX_LINE];
		snprintf(request, sizeof request, "reset %s", g->bus);
		unsigned r = strcmp(g->bus, "N/A") ? control_ask(request, 0, 0) : (unsigned)NOT_SUPPORTED;
		if (r == NOT_SUPPORTED) {
			printf("Resetting GPU %s is not supported.\n", g->bus);
		} else if (r == IN_USE) {
			printf("GPU %s is currently in use by another process.\n\n"
			       "1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, "
			       "or a monitoring application such as another instance of nvidia-smi). Please first kill all processes using this device and all compute applications running in the system.\n", g->bus);
		} else if (r) {
			printf("Unable to reset GPU %s: %s\n", g->bus, why(r)); /* unverified */
		} else {
			printf("GPU %s was successfully reset.\n", g->bus);
			continue;
		}
		return r > 255 ? 255 : r;
	}
	if (!code)
		printf("All done.\n");
	return code;
}
