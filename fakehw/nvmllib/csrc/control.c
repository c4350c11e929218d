#define _GNU_SOURCE
#include "control.h"
#include "codes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef GPURIG_CONTROL
#define GPURIG_CONTROL "/run/gpurig/control"
#endif
#define IN_CONTAINERS "/proc/driver/.gpurig/control" /* of a host that was entered */

/* call opens the channel; on failure it returns -1 and the code. */
static int call(unsigned *code)
{
	const char *path = secure_getenv("GPURIG_CONTROL");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = 60};
	if (!path || !*path)
		path = access(GPURIG_CONTROL, F_OK) ? IN_CONTAINERS : GPURIG_CONTROL;
	*code = UNKNOWN;
	if (strlen(path) >= sizeof to.sun_path)
		return -1;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (!connect(fd, (struct sockaddr *)&to, sizeof to))
		return fd;
	if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
		*code = NOT_SUPPORTED;
	else if (errno == EACCES || errno == EPERM)
		*code = NO_PERMISSION;
	close(fd);
	return -1;
}

static unsigned send_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return errno == EAGAIN ? TIMEOUT : UNKNOWN;
		data += n;
		size -= n;
	}
	return SUCCESS;
}

/* receive reads one line and cuts its newline off. */
static unsigned receive(int fd, char line[MAX_LINE])
{
	size_t have = 0;
	while (have < MAX_LINE) {
		ssize_t n = recv(fd, line + have, MAX_LINE - have, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN ? TIMEOUT : UNKNOWN;
		have += n;
		char *end = memchr(line, '\n', have);
		if (end) {
			*end = 0;
			return SUCCESS;
		}
	}
	return UNKNOWN;
}

/* number reads one decimal number and moves on behind it. */
static int number(char **s, unsigned *out)
{
	char *rest;
	if (**s < '0' || **s > '9')
		return 0;
	errno = 0;
	unsigned long n = strtoul(*s, &rest, 10);
	if (errno || n > 0xffffffffUL)
		return 0;
	*out = n;
	*s = rest;
	return 1;
}

static unsigned read_reply(char *s, unsigned *values, int n)
{
	unsigned code;
	if (!strncmp(s, "error ", 6)) {
		s += 6;
		return number(&s, &code) && code && (!*s || *s == ' ') ? code : (unsigned)UNKNOWN;
	}
	if (strncmp(s, "ok", 2))
		return UNKNOWN;
	s += 2;
	for (int i = 0; i < n; i++)
		if (*s++ != ' ' || !number(&s, &values[i]))
			return UNKNOWN;
	return *s ? (unsigned)UNKNOWN : (unsigned)SUCCESS;
}

unsigned control_ask(const char *request, unsigned *values, int n)
{
	char line[MAX_LINE];
	unsigned r;
	int fd = call(&r);
	if (fd < 0)
		return r;
	r = send_all(fd, request, strlen(request));
	if (!r)
		r = send_all(fd, "\n", 1);
	if (!r)
		r = receive(fd, line);
	close(fd);
	return r ? r : read_reply(line, values, n);
}
