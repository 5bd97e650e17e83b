/* The file calls of the server in a loop, and nothing around them: what no server on the same files
   can do better.

       filecalls FOLDER OPERATION MESSAGES ROUND BYTES SYNC DEPTH

   prints a line for each phase: its name, messages a second, and the median seconds of a round.

       single   publish, receive, remove; one sync a round
       batch    publish in sets of up to 100 messages; two syncs a round, as a set needs
       file     create, write, fsync, close: the least that is durable at all

   SYNC says how a round is synced, as the server does it:

       each     a single message by an fsync of its file and folders, more by one syncfs
       log      by an fsync of what changed last, more than a few new files by one syncfs: ext4 with
                a journal, and xfs

   DEPTH messages are in the queue before it begins, and as many when it ends.

   tests/benchmarks/test_ceilings.py compares these calls with those of the server, one by one. */

#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define SET 100
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define MESSAGE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int root, new_, queues, queue, delay_, remove_;
static int *fds;
static char *body;
static size_t bytes;
static int has_log;
static unsigned char seal[32];

static int must(int result, const char *call) {
    if (result < 0) err(1, "%s", call);
    return result;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Names as long as the server's, and as far apart: uuids of version 7. */
static const char *id_of(long number) {
    static char id[37];
    uint64_t mixed = (uint64_t)number * 0x9e3779b97f4a7c15u;
    snprintf(id, sizeof id, "01a20140-%04lx-7%03lx-8%03lx-%012lx", (number >> 12) & 0xffff,
             number & 0xfff, (long)(mixed >> 52), (long)(mixed & 0xffffffffffff));
    return id;
}

static const char *flat(long number) {
    static char name[64];
    snprintf(name, sizeof name, "bench:%s", id_of(number));
    return name;
}

static void sync_folder(int folder) {
    struct stat status;
    struct statfs kind;
    must(fstat(folder, &status), "fstat");
    must(fstatfs(folder, &kind), "fstatfs");
    must(fsync(folder), "fsync");
}

/* A round of moves, each into `to`. */
static void sync_moves(int from, int to, long count) {
    if (!has_log && count > 1) {
        must(syncfs(root), "syncfs");
        return;
    }
    sync_folder(to);
    if (!has_log) sync_folder(from);
}

/* publish, up to the sync: an unnamed file with body and seal, locked, linked into `new` */
static int write_message(void) {
    int fd = must(openat(new_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), "openat unnamed");
    if (write(fd, body, bytes) != (ssize_t)bytes) err(1, "write");
    must(fsetxattr(fd, "user.mq", seal, sizeof seal, 0), "fsetxattr");
    return fd;
}

static void link_as(int fd, int folder, const char *name) {
    char path[32];
    if (!linkat(fd, "", folder, name, AT_EMPTY_PATH)) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    must(linkat(AT_FDCWD, path, folder, name, AT_SYMLINK_FOLLOW), "linkat");
}

static void find_queue(void) {
    struct stat status;
    must(fstatat(queues, "bench", &status, AT_SYMLINK_NOFOLLOW), "fstatat queue");
}

/* Share the lock of the queue's folder, so that nobody deletes it meanwhile. */
static void hold_queue(void) {
    must(flock(queue, LOCK_SH | LOCK_NB), "flock");
    find_queue();
}

static void let_queue_go(void) {
    must(flock(queue, LOCK_UN), "flock");
}

static void publish(long first, long count) {
    struct stat status;
    struct statfs space;
    hold_queue();
    must(fstatfs(new_, &space), "fstatfs");
    for (long i = 0; i < count; i++) {
        fds[i] = write_message();
        must(flock(fds[i], LOCK_EX | LOCK_NB), "flock");
        link_as(fds[i], new_, flat(first + i));
    }
    let_queue_go();
    if (count == 1) {
        must(fstat(fds[0], &status), "fstat");
        must(fsync(fds[0]), "fsync");
        if (!has_log) sync_folder(new_);
    } else {
        must(syncfs(root), "syncfs");
    }
    if (count == 1)
        hold_queue();
    for (long i = 0; i < count; i++) {
        const char *name = flat(first + i);
        if (count > 1)
            find_queue();
        must(renameat2(new_, name, queue, id_of(first + i), RENAME_NOREPLACE), "deliver");
        close(fds[i]);
    }
    if (count == 1)
        let_queue_go();
}

static void take(long number) {
    struct stat status;
    char found[sizeof seal], type[128], read[bytes + 1];
    const char *from = id_of(number);
    int fd = must(openat(queue, from, MESSAGE), "openat message");
    must(flock(fd, LOCK_EX | LOCK_NB), "flock");
    must(fstat(fd, &status), "fstat");
    must(fstatat(queue, from, &status, AT_SYMLINK_NOFOLLOW), "fstatat");
    must(fgetxattr(fd, "user.mq", found, sizeof found), "fgetxattr");
    must(pread(fd, read, bytes, 0), "pread");
    fgetxattr(fd, "user.mime_type", type, sizeof type);
    fgetxattr(fd, "user.mq.dead", type, sizeof type);
    must(fsetxattr(fd, "user.mq", seal, sizeof seal, 0), "fsetxattr");
    struct timespec due[2];
    clock_gettime(CLOCK_REALTIME, &due[0]);
    due[0].tv_sec += 3600;
    due[1] = due[0];
    must(futimens(fd, due), "futimens");
    must(renameat2(queue, from, delay_, flat(number), RENAME_NOREPLACE), "receive");
    close(fd);
}

static void receive(long first, long count) {
    hold_queue();
    for (long i = 0; i < count; i++) take(first + i);
    let_queue_go();
    sync_moves(queue, delay_, count);
}

static void discard(long first, long count) {
    find_queue();
    for (long i = 0; i < count; i++) {
        const char *name = flat(first + i);
        must(renameat2(delay_, name, remove_, name, RENAME_NOREPLACE), "remove");
    }
    sync_moves(delay_, remove_, count);
}

/* publish a batch: fill an open set, sync, seal it by a rename, sync, roll it forward */
static void set_name(char *name, long set, const char *suffix) {
    sprintf(name, ".bench:%08lx-939a-4510-a4ab-df483eca08be%s", set, suffix);
}

static void fill_set(long set, long first, long count) {
    char open_[64], name[128];
    struct stat status;
    set_name(open_, set, ".open");
    must(mkdirat(new_, open_, 0700), "mkdirat");
    int folder = must(openat(new_, open_, FOLDER), "openat set");
    must(flock(folder, LOCK_EX | LOCK_NB), "flock");
    must(fstatat(new_, open_, &status, AT_SYMLINK_NOFOLLOW), "fstatat");
    must(fstat(folder, &status), "fstat");
    for (long i = 0; i < count; i++) {
        int fd = write_message();
        snprintf(name, sizeof name, "%s/%s", open_, flat(first + i));
        link_as(fd, new_, name);
        close(fd);
    }
    fds[set % SET] = folder;
}

static void seal_set(long set) {
    char open_[64], sealed[64];
    set_name(open_, set, ".open");
    set_name(sealed, set, "");
    must(renameat2(new_, open_, new_, sealed, RENAME_NOREPLACE), "seal");
}

static void roll_set_forward(long set, long first, long count) {
    char sealed[64], name[128];
    set_name(sealed, set, "");
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%s", sealed, flat(first + i));
        must(renameat2(new_, name, queue, id_of(first + i), RENAME_NOREPLACE), "deliver");
    }
    must(unlinkat(new_, sealed, AT_REMOVEDIR), "unlinkat");
    close(fds[set % SET]);
}

static void publish_sets(long first, long count) {
    static long sets;
    long begin = sets;
    for (long at = 0; at < count; at += SET, sets++)
        fill_set(sets, first + at, count - at < SET ? count - at : SET);
    must(syncfs(root), "syncfs");
    hold_queue();
    for (long set = begin; set < sets; set++) seal_set(set);
    let_queue_go();
    /* One folder changed since: a sync of it is enough, as for the server. */
    sync_folder(new_);
    hold_queue();
    for (long at = 0; at < count; at += SET)
        roll_set_forward(begin + at / SET, first + at, count - at < SET ? count - at : SET);
    let_queue_go();
}

static void write_file(long first, long count) {
    (void)count;
    int fd = must(openat(queue, id_of(first), O_CREAT | O_EXCL | O_WRONLY, 0600), "create");
    if (write(fd, body, bytes) != (ssize_t)bytes) err(1, "write");
    must(fsync(fd), "fsync");
    close(fd);
}

/* measuring */
static void fill(long depth) {
    for (long i = 0; i < depth; i++) {
        int fd = write_message();
        link_as(fd, queue, id_of(i));
        close(fd);
    }
    must(syncfs(root), "syncfs");
}

static int by_length(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(const char *name, void (*phase)(long, long), long from, long messages, long round) {
    double *took = malloc(sizeof *took * (messages / round + 1));
    long rounds = 0;
    double started = now();
    for (long at = 0; at < messages; at += round) {
        double begun = now();
        phase(from + at, messages - at < round ? messages - at : round);
        took[rounds++] = now() - begun;
    }
    double seconds = now() - started;
    qsort(took, rounds, sizeof *took, by_length);
    printf("%s %.1f %.9f\n", name, messages / seconds, took[rounds / 2]);
    free(took);
}

static int folder(const char *name) {
    must(mkdirat(root, name, 0700), "mkdirat");
    return must(openat(root, name, FOLDER), "openat");
}

int main(int count, char **words) {
    if (count != 8)
        errx(2, "usage: filecalls FOLDER single|batch|file MESSAGES ROUND BYTES each|log DEPTH");
    long messages = atol(words[3]), round = atol(words[4]);
    bytes = atol(words[5]);
    has_log = !strcmp(words[6], "log");
    long depth = atol(words[7]);
    if (messages < 1 || round < 1 || depth < 0)
        errx(2, "MESSAGES and ROUND are at least 1, DEPTH at least 0");
    fds = calloc(round > SET ? round : SET, sizeof *fds);
    body = malloc(bytes + 1);
    memset(body, 'x', bytes);
    root = must(open(words[1], FOLDER), words[1]);
    new_ = folder("new"), queues = folder("queues");
    delay_ = folder("delay"), remove_ = folder("remove");
    must(mkdirat(queues, "bench", 0700), "mkdirat");
    queue = must(openat(queues, "bench", FOLDER), "openat");
    if (!strcmp(words[2], "file")) {
        run("file", write_file, 0, messages, 1);
    } else {
        if (depth) fill(depth);
        run("publish", strcmp(words[2], "batch") ? publish : publish_sets, depth, messages, round);
        run("receive", receive, 0, messages, round);
        run("remove", discard, 0, messages, round);
    }
    return 0;
}
