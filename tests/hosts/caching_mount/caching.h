/* What the parts share: files that the kernel knows, and answers. */

#define _GNU_SOURCE
#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define PATH_BYTES 64

/* A file that the kernel knows. Its descriptor follows it wherever it is moved, and keeps its inode
   number from being used again. */
struct node {
    ino_t inode;
    int fd;
    uint64_t lookups;
};

extern struct node top;       /* the folder that is mounted */
extern double cached_seconds; /* how long the kernel keeps a name or an attribute */
extern long lost;             /* how many changes of names come on each lost reply; 0 for none */

static inline struct node *node_of(fuse_ino_t id) {
    return id == FUSE_ROOT_ID ? &top : (struct node *)(uintptr_t)id;
}

static inline int fd_of(fuse_ino_t id) { return node_of(id)->fd; }

static inline const char *path_of(fuse_ino_t id, char *path) {
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d", fd_of(id));
    return path;
}

/* 0 for success, -1 for what is in errno, as system calls have it. */
static inline void answer(fuse_req_t req, int result) {
    fuse_reply_err(req, result == -1 ? errno : 0);
}

void add_names(struct fuse_lowlevel_ops *);
void add_attributes(struct fuse_lowlevel_ops *);
void add_files(struct fuse_lowlevel_ops *);
