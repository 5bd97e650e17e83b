/* Attributes: they are of the file itself, wherever it is now. */

#include "caching.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

static void answer_status(fuse_req_t req, fuse_ino_t id) {
    struct stat status;
    if (fstatat(fd_of(id), "", &status, AT_EMPTY_PATH) == -1)
        return answer(req, -1);
    fuse_reply_attr(req, &status, cached_seconds);
}

static void get_status(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file) {
    (void)file;
    answer_status(req, id);
}

static int change_status(const char *path, struct stat *to, int which) {
    if (which & FUSE_SET_ATTR_MODE && chmod(path, to->st_mode) == -1)
        return -1;
    if (which & FUSE_SET_ATTR_SIZE && truncate(path, to->st_size) == -1)
        return -1;
    if (which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
        struct timespec times[2] = {to->st_atim, to->st_mtim};
        if (!(which & FUSE_SET_ATTR_ATIME))
            times[0].tv_nsec = UTIME_OMIT;
        else if (which & FUSE_SET_ATTR_ATIME_NOW)
            times[0].tv_nsec = UTIME_NOW;
        if (!(which & FUSE_SET_ATTR_MTIME))
            times[1].tv_nsec = UTIME_OMIT;
        else if (which & FUSE_SET_ATTR_MTIME_NOW)
            times[1].tv_nsec = UTIME_NOW;
        return utimensat(AT_FDCWD, path, times, 0);
    }
    return 0;
}

static void set_status(fuse_req_t req, fuse_ino_t id, struct stat *to, int which,
                       struct fuse_file_info *file) {
    char path[PATH_BYTES];
    (void)file;
    if (change_status(path_of(id, path), to, which) == -1)
        return answer(req, -1);
    answer_status(req, id);
}

static void set_attribute(fuse_req_t req, fuse_ino_t id, const char *name, const char *value,
                          size_t size, int flags) {
    char path[PATH_BYTES];
    answer(req, setxattr(path_of(id, path), name, value, size, flags));
}

static void answer_value(fuse_req_t req, const char *value, ssize_t found, size_t size) {
    if (found == -1)
        answer(req, -1);
    else if (size)
        fuse_reply_buf(req, value, found);
    else
        fuse_reply_xattr(req, found);
}

static void get_attribute(fuse_req_t req, fuse_ino_t id, const char *name, size_t size) {
    char path[PATH_BYTES], value[size + 1];
    answer_value(req, value, getxattr(path_of(id, path), name, value, size), size);
}

static void list_attributes(fuse_req_t req, fuse_ino_t id, size_t size) {
    char path[PATH_BYTES], names[size + 1];
    answer_value(req, names, listxattr(path_of(id, path), names, size), size);
}

static void get_room(fuse_req_t req, fuse_ino_t id) {
    struct statvfs room;
    if (fstatvfs(fd_of(id), &room) == -1)
        return answer(req, -1);
    fuse_reply_statfs(req, &room);
}

void add_attributes(struct fuse_lowlevel_ops *operations) {
    operations->getattr = get_status;
    operations->setattr = set_status;
    operations->getxattr = get_attribute;
    operations->setxattr = set_attribute;
    operations->listxattr = list_attributes;
    operations->statfs = get_room;
}
