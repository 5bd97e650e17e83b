/* Included in front of native.c by tests: before each call of the kernel, and each malloc, it asks
   sys.strikes(name) whether that is to fail. The answer is an errno, 0, or -1 for half a write. A
   free of what was allocated is told of in the same way. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#define _GNU_SOURCE
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int strikes(const char *name) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *hook = PySys_GetObject("strikes");
    PyObject *answer = hook ? PyObject_CallFunction(hook, "s", name) : NULL;
    int code = answer ? (int)PyLong_AsLong(answer) : 0;
    if (hook && PyErr_Occurred()) PyErr_WriteUnraisable(hook);
    Py_XDECREF(answer);
    PyGILState_Release(state);
    if (code > 0) errno = code;
    return code;
}

static ssize_t short_write(int fd, const void *data, size_t length) {
    int code = strikes("write");
    return code > 0 ? -1 : write(fd, data, code && length > 1 ? length / 2 : length);
}

static int struck_close(int fd) {
    int failed = strikes("close") > 0, code = errno;
    close(fd); /* Linux lets go of it whatever close(2) says. */
    errno = code;
    return failed ? -1 : 0;
}

static void noted_free(void *memory) {
    if (memory) strikes("free");
    free(memory);
}

#define openat(...) (strikes("open") > 0 ? -1 : openat(__VA_ARGS__))
#define write(...) short_write(__VA_ARGS__)
#define pread(...) (strikes("pread") > 0 ? -1 : pread(__VA_ARGS__))
#define flock(...) (strikes("flock") > 0 ? -1 : flock(__VA_ARGS__))
#define fstat(...) (strikes("fstat") > 0 ? -1 : fstat(__VA_ARGS__))
#define fstatat(...) (strikes("stat") > 0 ? -1 : fstatat(__VA_ARGS__))
#define fsetxattr(...) (strikes("setxattr") > 0 ? -1 : fsetxattr(__VA_ARGS__))
#define fgetxattr(...) (strikes("getxattr") > 0 ? -1 : fgetxattr(__VA_ARGS__))
#define futimens(...) (strikes("utime") > 0 ? -1 : futimens(__VA_ARGS__))
#define linkat(...) (strikes("link") > 0 ? -1 : linkat(__VA_ARGS__))
#define renameat2(...) (strikes("renameat2") > 0 ? -1 : renameat2(__VA_ARGS__))
#define fsync(...) (strikes("fsync") > 0 ? -1 : fsync(__VA_ARGS__))
#define close(...) struck_close(__VA_ARGS__)
#define malloc(...) (strikes("malloc") > 0 ? NULL : malloc(__VA_ARGS__))
#define free(...) noted_free(__VA_ARGS__)
