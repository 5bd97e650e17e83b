/* Open files: each has a descriptor below the folder, to which its locks belong. */

#include "caching.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/file.h>

static void open_file(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file) {
    char path[PATH_BYTES];
    int fd = open(path_of(id, path), (file->flags & ~O_NOFOLLOW) | O_CLOEXEC);
    if (fd == -1)
        return answer(req, -1);
    file->fh = fd;
    if (fuse_reply_open(req, file) == -ENOENT)
        close(fd);
}

static void read_file(fuse_req_t req, fuse_ino_t id, size_t size, off_t at,
                      struct fuse_file_info *file) {
    (void)id;
    char *data = malloc(size);
    ssize_t count = pread(file->fh, data, size, at);
    if (count == -1)
        answer(req, -1);
    else
        fuse_reply_buf(req, data, count);
    free(data);
}

static void write_file(fuse_req_t req, fuse_ino_t id, const char *data, size_t size, off_t at,
                       struct fuse_file_info *file) {
    (void)id;
    ssize_t count = pwrite(file->fh, data, size, at);
    if (count == -1)
        return answer(req, -1);
    fuse_reply_write(req, count);
}

static void sync_file(fuse_req_t req, fuse_ino_t id, int only_data, struct fuse_file_info *file) {
    (void)id;
    answer(req, only_data ? fdatasync(file->fh) : fsync(file->fh));
}

static void close_file(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file) {
    (void)id;
    answer(req, close(file->fh));
}

/* Nobody waits for a lock here: MQ never waits in the kernel. */

static void lock_file(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file, int operation) {
    (void)id;
    answer(req, flock(file->fh, operation | LOCK_NB));
}

static void lock_bytes(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file,
                       struct flock *lock, int waits) {
    (void)id, (void)waits;
    lock->l_pid = 0;
    answer(req, fcntl(file->fh, F_OFD_SETLK, lock));
}

static void look_for_lock(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file,
                          struct flock *lock) {
    (void)id;
    lock->l_pid = 0;
    if (fcntl(file->fh, F_OFD_GETLK, lock) == -1)
        return answer(req, -1);
    fuse_reply_lock(req, lock);
}

/* Folders are listed from where the reader is. */
static void list_folder(fuse_req_t req, fuse_ino_t id, size_t size, off_t at,
                        struct fuse_file_info *file) {
    (void)id;
    char *page = malloc(size);
    size_t used = 0;
    int own = openat(file->fh, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = own == -1 ? NULL : fdopendir(own);
    if (!folder) {
        answer(req, -1);
    } else {
        seekdir(folder, at);
        for (struct dirent *each; (each = readdir(folder));) {
            struct stat status = {.st_ino = each->d_ino, .st_mode = each->d_type << 12};
            size_t more = fuse_add_direntry(req, page + used, size - used, each->d_name, &status,
                                            each->d_off);
            if (more > size - used)
                break;
            used += more;
        }
        fuse_reply_buf(req, page, used);
        closedir(folder);
    }
    free(page);
}

void add_files(struct fuse_lowlevel_ops *operations) {
    operations->open = open_file;
    operations->read = read_file;
    operations->write = write_file;
    operations->fsync = sync_file;
    operations->release = close_file;
    operations->flock = lock_file;
    operations->setlk = lock_bytes;
    operations->getlk = look_for_lock;
    operations->opendir = open_file;
    operations->readdir = list_folder;
    operations->fsyncdir = sync_file;
    operations->releasedir = close_file;
}
