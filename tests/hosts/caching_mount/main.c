/* A file system of a network in small: it passes everything on to a folder, and

   - the kernel keeps names, missing ones too, and attributes for some seconds. Two of these on one
     folder are two hosts: each sees late what was done through the other;
   - of some changes of names the reply is lost: the change is made, and answered is what the same
     request gets when it is sent again, ENOENT or EEXIST;
   - locks of files and of their bytes reach the other mount, those of folders do not;
   - there are no unnamed files, no syncfs, and no events of what the other mount did.

       caching FOLDER MOUNT SECONDS LOST

   LOST is how many changes of names come on each lost reply, 0 for none lost. It stays in the
   foreground until it is unmounted. */

#include "caching.h"

#include <stdlib.h>
#include <sys/stat.h>

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: caching FOLDER MOUNT SECONDS LOST\n");
        return 2;
    }
    top.fd = open(words[1], O_PATH | O_CLOEXEC);
    if (top.fd == -1) {
        perror(words[1]);
        return 1;
    }
    cached_seconds = atof(words[3]), lost = atol(words[4]);
    umask(0); /* The kernel has taken that of the caller into account. */
    struct fuse_lowlevel_ops operations = {0};
    add_names(&operations);
    add_attributes(&operations);
    add_files(&operations);
    char *options[] = {words[0], "-o", "subtype=caching,default_permissions"};
    struct fuse_args args = FUSE_ARGS_INIT(3, options);
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, words[2]))
        return 1;
    int ended = fuse_session_loop_mt(session, 0);
    fuse_session_unmount(session);
    return ended != 0;
}
