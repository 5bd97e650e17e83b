/* Loaded into each process of a soak run, in front of libc: a clock that can be set, and a disk that
   can fail. The file that SOAK_CONTROL names says how, and tests/soak/control.py writes it.

   The clock is that of the whole machine. The kernel's own does not change, so the times that it
   writes into files are told as they would be if it had: `steps` says from which true time on the
   clock was how far ahead. A time that a process writes into a file itself is an absolute one and
   stays what it is: it is stored MARK seconds later, by which it is known. Only files on the device
   of the run are told of in that way. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MARK (INT64_C(1) << 33)
#define BILLION INT64_C(1000000000)

struct control {
    int64_t device;
    int64_t sync_errno, write_errno; /* 0 for none */
    int64_t steps;
    struct {
        int64_t true_ns, ahead_seconds;
    } step[]; /* in the order of time; the first from 0 on */
};

static const volatile struct control *control;

__attribute__((constructor)) static void open_control(void) {
    const char *path = getenv("SOAK_CONTROL");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat st;
    if (fd < 0 || syscall(SYS_fstat, fd, &st)) abort();
    void *memory = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) abort();
    control = memory;
    close(fd);
}

/* The clock */

static int64_t ahead_now(void) { return control->step[control->steps - 1].ahead_seconds; }

static int64_t ahead_at(int64_t seconds, int64_t nanoseconds) {
    int64_t index = control->steps - 1, true_ns = seconds * BILLION + nanoseconds;
    while (index > 0 && control->step[index].true_ns > true_ns) index--;
    return control->step[index].ahead_seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (!result && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += ahead_now();
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int result = syscall(SYS_gettimeofday, time, zone);
    if (!result && control) time->tv_sec += ahead_now();
    return result;
}

time_t time(time_t *target) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (target) *target = now.tv_sec;
    return now.tv_sec;
}

/* The times of files */

static int64_t told(int64_t seconds, int64_t nanoseconds) {
    return seconds >= MARK ? seconds - MARK : seconds + ahead_at(seconds, nanoseconds);
}

static int tell(int result, struct stat *st) {
    if (!result && control && (int64_t)st->st_dev == control->device) {
        st->st_atim.tv_sec = told(st->st_atim.tv_sec, st->st_atim.tv_nsec);
        st->st_mtim.tv_sec = told(st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
        st->st_ctim.tv_sec = told(st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
    }
    return result;
}

/* Each under two names; on a machine of 64 bits they are the same. */
#define STAT(name, parameters, ...)                                                                \
    int name parameters { return tell(syscall(__VA_ARGS__), st); }                                 \
    int name##_64 parameters __asm__(#name "64");                                                  \
    int name##_64 parameters { return tell(syscall(__VA_ARGS__), st); }

STAT(stat, (const char *restrict path, struct stat *restrict st), SYS_newfstatat, AT_FDCWD, path,
     st, 0)
STAT(lstat, (const char *restrict path, struct stat *restrict st), SYS_newfstatat, AT_FDCWD, path,
     st, AT_SYMLINK_NOFOLLOW)
STAT(fstat, (int fd, struct stat *st), SYS_fstat, fd, st)
STAT(fstatat, (int fd, const char *restrict path, struct stat *restrict st, int flags),
     SYS_newfstatat, fd, path, st, flags)

int statx(int fd, const char *restrict path, int flags, unsigned mask, struct statx *restrict st) {
    int result = syscall(SYS_statx, fd, path, flags, mask, st);
    dev_t device = makedev(st->stx_dev_major, st->stx_dev_minor);
    if (!result && (int64_t)device == control->device) {
        st->stx_btime.tv_sec = told(st->stx_btime.tv_sec, st->stx_btime.tv_nsec);
        st->stx_mtime.tv_sec = told(st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec);
        st->stx_ctime.tv_sec = told(st->stx_ctime.tv_sec, st->stx_ctime.tv_nsec);
    }
    return result;
}

static int set_times(int fd, const char *path, const struct timespec times[2], int flags) {
    struct timespec marked[2];
    struct stat st;
    int is_ours = times && !syscall(SYS_newfstatat, fd, path ? path : "", &st,
                                    path ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH) &&
                  (int64_t)st.st_dev == control->device;
    for (int index = 0; is_ours && index < 2; index++) {
        marked[index] = times[index];
        if (times[index].tv_nsec < BILLION) marked[index].tv_sec += MARK; /* else UTIME_NOW */
    }
    return syscall(SYS_utimensat, fd, path, is_ours ? marked : times, flags);
}

int futimens(int fd, const struct timespec times[2]) { return set_times(fd, NULL, times, 0); }

int utimensat(int fd, const char *path, const struct timespec times[2], int flags) {
    return set_times(fd, path, times, flags);
}

/* The disk */

static int fails(int fd, int64_t code) {
    struct stat st;
    if (!code || syscall(SYS_fstat, fd, &st) || (int64_t)st.st_dev != control->device) return 0;
    errno = code;
    return 1;
}

#define SYNC(name)                                                                                 \
    int name(int fd) { return fails(fd, control->sync_errno) ? -1 : syscall(SYS_##name, fd); }

SYNC(fsync)
SYNC(fdatasync)
SYNC(syncfs)

ssize_t write(int fd, const void *data, size_t length) {
    if (control->write_errno && fails(fd, control->write_errno)) return -1;
    return syscall(SYS_write, fd, data, length);
}
