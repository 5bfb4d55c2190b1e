/* A wall clock that a test can move under one running server.
 *
 * Preloaded into the server. The file named by CLOCK_FILE begins with a 64-bit
 * number: by how many milliseconds the server's wall clock is ahead. Whoever
 * writes there moves the clock at once. The steady clock stays as it is.
 *
 * The clock is asked by the bare system call, and nothing here needs memory:
 * the server's own allocator asks for the time before it is ready. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_by;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("CLOCK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, sizeof *ahead_by, PROT_READ, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) ahead_by = memory;
  close(file);
}

static int64_t wall_micros(void) {
  struct timespec real;
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
  int64_t micros = (int64_t)real.tv_sec * 1000000 + real.tv_nsec / 1000;
  return micros + (ahead_by ? *ahead_by * 1000 : 0);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int64_t micros = wall_micros();
  (void)zone;
  now->tv_sec = micros / 1000000;
  now->tv_usec = micros % 1000000;
  return 0;
}

time_t time(time_t *now) {
  time_t seconds = wall_micros() / 1000000;
  if (now) *now = seconds;
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
    return (int)syscall(SYS_clock_gettime, clock, now);
  int64_t micros = wall_micros();
  now->tv_sec = micros / 1000000;
  now->tv_nsec = micros % 1000000 * 1000;
  return 0;
}
