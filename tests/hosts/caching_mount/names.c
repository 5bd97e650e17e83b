/* Names: what the kernel is told of them, and how they change. */

#include "caching.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LATE_MICROSECONDS 20000

struct node top;
double cached_seconds;
long lost;

static void *nodes; /* a tree of them (tsearch(3)) */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int by_inode(const void *one, const void *other) {
    ino_t a = ((const struct node *)one)->inode, b = ((const struct node *)other)->inode;
    return (a > b) - (a < b);
}

static void forget_lookups(struct node *node, uint64_t count) {
    pthread_mutex_lock(&mutex);
    node->lookups -= count;
    if (node != &top && node->lookups == 0) {
        tdelete(node, &nodes, by_inode);
        close(node->fd);
        free(node);
    }
    pthread_mutex_unlock(&mutex);
}

static void forget(fuse_req_t req, fuse_ino_t id, uint64_t count) {
    forget_lookups(node_of(id), count);
    fuse_reply_none(req);
}

/* The entry of `name`, whose node counts one lookup more. Returns an errno. */
static int find(fuse_ino_t parent, const char *name, struct fuse_entry_param *entry) {
    memset(entry, 0, sizeof *entry);
    entry->attr_timeout = entry->entry_timeout = cached_seconds;
    int fd = openat(fd_of(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1)
        return errno;
    if (fstatat(fd, "", &entry->attr, AT_EMPTY_PATH) == -1) {
        int error = errno;
        close(fd);
        return error;
    }
    struct node wanted = {.inode = entry->attr.st_ino};
    pthread_mutex_lock(&mutex);
    struct node **found = tfind(&wanted, &nodes, by_inode), *node;
    if (found) {
        node = *found;
        close(fd);
    } else {
        node = calloc(1, sizeof *node);
        node->inode = entry->attr.st_ino, node->fd = fd;
        tsearch(node, &nodes, by_inode);
    }
    node->lookups++;
    pthread_mutex_unlock(&mutex);
    entry->ino = (uintptr_t)node;
    return 0;
}

static void answer_entry(fuse_req_t req, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry;
    int error = find(parent, name, &entry);
    if (error)
        fuse_reply_err(req, error);
    else if (fuse_reply_entry(req, &entry) == -ENOENT)
        forget_lookups(node_of(entry.ino), 1);
}

static void lookup(fuse_req_t req, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry;
    int error = find(parent, name, &entry);
    if (error && error != ENOENT)
        fuse_reply_err(req, error);
    else if (fuse_reply_entry(req, &entry) == -ENOENT && !error) /* inode 0: cached as missing */
        forget_lookups(node_of(entry.ino), 1);
}

static int is_lost(void) { return lost && random() % lost == 0; }

/* Answer to a change of names: if the reply is lost, what the same request gets later, when others
   may have gone on with what was changed. */
static void answer_change(fuse_req_t req, int result, int again) {
    if (result == 0 && is_lost()) {
        usleep(random() % LATE_MICROSECONDS);
        result = -1, errno = again;
    }
    answer(req, result);
}

static void make_folder(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode) {
    if (mkdirat(fd_of(parent), name, mode) == -1)
        return answer(req, -1);
    if (is_lost())
        return (void)fuse_reply_err(req, EEXIST);
    answer_entry(req, parent, name);
}

static void remove_folder(fuse_req_t req, fuse_ino_t parent, const char *name) {
    answer_change(req, unlinkat(fd_of(parent), name, AT_REMOVEDIR), ENOENT);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name) {
    answer_change(req, unlinkat(fd_of(parent), name, 0), ENOENT);
}

static void move(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t other,
                 const char *target, unsigned int flags) {
    answer_change(req, renameat2(fd_of(parent), name, fd_of(other), target, flags), ENOENT);
}

static void add_name(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent, const char *name) {
    char path[PATH_BYTES];
    if (linkat(AT_FDCWD, path_of(id, path), fd_of(parent), name, AT_SYMLINK_FOLLOW) == -1)
        return answer(req, -1);
    if (is_lost())
        return (void)fuse_reply_err(req, EEXIST);
    answer_entry(req, parent, name);
}

static void create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                   struct fuse_file_info *file) {
    struct fuse_entry_param entry;
    int fd = openat(fd_of(parent), name, file->flags | O_CREAT | O_CLOEXEC, mode);
    int error = fd == -1 ? errno : find(parent, name, &entry);
    if (!error && file->flags & O_EXCL && is_lost()) {
        forget_lookups(node_of(entry.ino), 1);
        error = EEXIST;
    }
    file->fh = fd;
    if (error) {
        fuse_reply_err(req, error);
    } else if (fuse_reply_create(req, &entry, file) == -ENOENT) {
        forget_lookups(node_of(entry.ino), 1);
        error = ENOENT;
    }
    if (error && fd != -1)
        close(fd);
}

void add_names(struct fuse_lowlevel_ops *operations) {
    operations->lookup = lookup;
    operations->forget = forget;
    operations->mkdir = make_folder;
    operations->rmdir = remove_folder;
    operations->unlink = remove_name;
    operations->rename = move;
    operations->link = add_name;
    operations->create = create;
}
