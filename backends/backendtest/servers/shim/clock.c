/* Steps a program's wall clock: added to every reading of it is the number of
   nanoseconds that the file FLOCKD_TEST_CLOCK holds, mapped, so that it may change at
   any time. Monotonic clocks are left alone. Nothing here allocates: redis-server's
   allocator reads the clock, and would be called from within itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t none = 0;
static const volatile int64_t *offset = &none;

__attribute__((constructor)) static void map_offset(void)
{
	const char *path = getenv("FLOCKD_TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *map = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		offset = map;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return failed;
	int64_t ns = now->tv_sec * SECOND + now->tv_nsec + *offset;
	now->tv_sec = ns / SECOND;
	now->tv_nsec = ns % SECOND;
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	(void)zone; /* obsolete */
	struct timespec t;
	int failed = clock_gettime(CLOCK_REALTIME, &t);
	if (!failed && now) {
		now->tv_sec = t.tv_sec;
		now->tv_usec = t.tv_nsec / 1000;
	}
	return failed;
}

time_t time(time_t *now)
{
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t))
		return -1;
	if (now)
		*now = t.tv_sec;
	return t.tv_sec;
}
