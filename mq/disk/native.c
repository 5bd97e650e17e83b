/* File calls that were put down as values, made one after the other with the GIL released once.

   run(chains) -> [(results, errno), ...]. What a chain is, and what each call means, says calls.py;
   CALLS here must be what it says there. Nothing is decided here: a chain ends at the first call that
   fails, and Python goes on from there. What the chain has opened stays open.

   Raises TypeError, ValueError, OverflowError, BufferError or MemoryError before any call was made;
   MemoryError for a result too, and then everything that the chains opened is closed. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#define _GNU_SOURCE
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Each kind with its arguments. f: a descriptor, or ~number of the call that opens it; n: a name; b: bytes;
   i: an integer; s: the number of the call that asked for the file's status. */
#define CALLS(X) X(OPEN_UNNAMED, fi) X(OPEN_MESSAGE, fn) X(OPEN_TO_LOOK, fn) X(WRITE, fb) X(READ, fsi) X(LOCK, f) \
    X(STATUS, f) X(STATUS_OF, fn) X(ABSENT, fn) X(SET_ATTRIBUTE, fnb) X(ATTRIBUTE, fn) X(STAMP, fi) X(LINK, ffn) X(RENAME, fnfn) \
    X(WRITE_OUT, fi) X(SYNC, f) X(CLOSE, f)
#define KIND(kind, arguments) kind,
#define ARGUMENTS_OF(kind, arguments) #arguments,
#define LISTED(kind, arguments) #kind " " #arguments "\n"
enum { CALLS(KIND) KINDS };
static const char *const ARGUMENTS[] = {CALLS(ARGUMENTS_OF)};

enum { NEW = O_TMPFILE | O_RDWR | O_CLOEXEC, MESSAGE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
       LOOK = MESSAGE | O_NOATIME, STATUS_FIELDS = 8, FIRST_ATTRIBUTE_BYTES = 256, MOST_ATTRIBUTE_BYTES = 65536 };

typedef struct {
    int kind, fds[2], asked, opened;
    const char *names[2];
    PyObject *encoded[2];
    Py_buffer bytes;
    long long number, status[STATUS_FIELDS];
    char *found;
    size_t length;
} Call;

typedef struct { Call *calls; Py_ssize_t count, done; int error; } Chain;

static int file_of(const Chain *chain, int fd) { return fd < 0 ? chain->calls[~fd].opened : fd; }

/* Each returns 0 or an errno, as a call does; what others call again after EINTR so does this. */
#define AGAIN(result, call) do { result = call; } while (result < 0 && errno == EINTR)

static struct timespec time_of(long long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }
/* Bits of an unsigned time, within the limits that status.py has too. */
static long long ns_of(struct timespec t) { return t.tv_sec < 0 ? 0 : t.tv_sec > 18446744072 ? ULLONG_MAX : t.tv_sec * 1000000000ULL + t.tv_nsec; }

static int keep_status(Call *call, int failed, const struct stat *st) {
    long long fields[STATUS_FIELDS] = {st->st_mode, st->st_ino, st->st_dev, st->st_nlink, st->st_uid, st->st_size,
                                       ns_of(st->st_mtim), ns_of(st->st_ctim)};
    memcpy(call->status, fields, sizeof fields);
    return failed ? errno : 0;
}

static int write_all(int fd, const char *data, Py_ssize_t left) {
    do {
        ssize_t written;
        AGAIN(written, write(fd, data, left));
        if (written < 0) return errno;
        data += written, left -= written;
    } while (left > 0);
    return 0;
}

static int read_whole(Call *call, int fd, const Call *asked) {
    size_t size = asked->status[5];
    if (asked->status[5] > call->number) return 0;
    if (!(call->found = malloc(size + 1))) return ENOMEM;
    for (ssize_t got = 1; got && call->length < size; call->length += got) {
        AGAIN(got, pread(fd, call->found + call->length, size - call->length, call->length));
        if (got < 0) return errno;
    }
    return 0;
}

static int read_attribute(Call *call, int fd) {
    for (size_t size = FIRST_ATTRIBUTE_BYTES;; size = MOST_ATTRIBUTE_BYTES) {
        free(call->found);
        if (!(call->found = malloc(size))) return ENOMEM;
        ssize_t length = fgetxattr(fd, call->names[0], call->found, size);
        int error = length < 0 ? errno : 0;
        if (error == ERANGE && size < MOST_ATTRIBUTE_BYTES) continue;
        call->length = length;
        if (error) free(call->found), call->found = NULL;
        return error == ENODATA || error == EOPNOTSUPP ? 0 : error;
    }
}

static int perform(Call *call, const Chain *chain) {
    int result = 0, fd = file_of(chain, call->fds[0]), fd2 = file_of(chain, call->fds[1]);
    struct stat st = {0}; char path[40];
    switch (call->kind) {
    case OPEN_UNNAMED: AGAIN(result, call->opened = openat(fd, ".", NEW, (mode_t)call->number)); break;
    case OPEN_MESSAGE: AGAIN(result, call->opened = openat(fd, call->names[0], MESSAGE)); break;
    case OPEN_TO_LOOK: AGAIN(result, call->opened = openat(fd, call->names[0], LOOK)); break;
    case WRITE: return write_all(fd, call->bytes.buf, call->bytes.len);
    case READ: return read_whole(call, fd, &chain->calls[call->asked]);
    case LOCK: AGAIN(result, flock(fd, LOCK_EX | LOCK_NB)); break;
    case STATUS: return keep_status(call, fstat(fd, &st), &st);
    case STATUS_OF: return keep_status(call, fstatat(fd, call->names[0], &st, AT_SYMLINK_NOFOLLOW), &st);
    case ABSENT: return !faccessat(fd, call->names[0], F_OK, 0) ? EEXIST : errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    case SET_ATTRIBUTE: result = fsetxattr(fd, call->names[0], call->bytes.buf, call->bytes.len, 0); break;
    case ATTRIBUTE: return read_attribute(call, fd);
    case STAMP: result = futimens(fd, (struct timespec[2]){time_of(call->number), time_of(call->number)}); break;
    case LINK: /* By the descriptor alone. Before Linux 6.10 that takes a privilege, and is ENOENT without. */
        if (!(result = linkat(fd, "", fd2, call->names[0], AT_EMPTY_PATH)) || errno != ENOENT) break;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        result = linkat(AT_FDCWD, path, fd2, call->names[0], AT_SYMLINK_FOLLOW); break;
    case RENAME: result = renameat2(fd, call->names[0], fd2, call->names[1], RENAME_NOREPLACE); break;
    case WRITE_OUT: AGAIN(result, sync_file_range(fd, 0, 0, (unsigned)call->number)); break;
    case SYNC: AGAIN(result, fsync(fd)); break;
    case CLOSE:
        if (call->fds[0] < 0) chain->calls[~call->fds[0]].opened = -1;
        return close(fd) && errno == EBADF ? EBADF : 0; /* Linux lets go of it whatever close(2) says. */
    }
    return result < 0 ? errno : 0;
}

static void perform_all(Chain *chains, Py_ssize_t count) {
    for (Chain *chain = chains; chain < chains + count; chain++)
        for (; chain->done < chain->count && !chain->error; chain->done += !chain->error)
            chain->error = perform(&chain->calls[chain->done], chain);
}

static int wrong(PyObject *kind, const char *what) { PyErr_SetString(kind, what); return 0; }

static int take_integer(PyObject *value, long long least, long long most, long long *into) {
    if (!PyLong_Check(value)) return wrong(PyExc_TypeError, "a file call takes an integer here");
    *into = PyLong_AsLongLong(value);
    if (*into == -1 && PyErr_Occurred()) return 0;
    return (*into >= least && *into <= most) || wrong(PyExc_OverflowError, "an integer of a file call is too large");
}

static int take_name(PyObject *value, Call *call, int at) {
    Py_ssize_t length = 0;
    if (!PyUnicode_Check(value)) return wrong(PyExc_TypeError, "a file call takes a str as a name");
    call->names[at] = PyUnicode_AsUTF8AndSize(value, &length); /* If it is ASCII, that is the str's own memory. */
    if (call->names[at] && length == PyUnicode_GetLength(value))
        return strlen(call->names[at]) == (size_t)length || wrong(PyExc_ValueError, "a name of a file call has a NUL");
    PyErr_Clear(), call->encoded[at] = PyUnicode_EncodeFSDefault(value); /* Without a place for its length a NUL is a ValueError. */
    return call->encoded[at] && !PyBytes_AsStringAndSize(call->encoded[at], (char **)&call->names[at], NULL);
}

/* The number of an earlier call that has a result of that kind. */
static int take_number(const Call *call, const Chain *chain, long long number, int first, int last) {
    int kind = number < call - chain->calls ? chain->calls[number].kind : KINDS;
    return (kind >= first && kind <= last) || wrong(PyExc_ValueError, "a file call refers to a wrong one");
}

static int take_call(PyObject *tuple, Call *call, const Chain *chain) {
    long long number = 0;
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) < 1) return wrong(PyExc_TypeError, "a file call is a tuple");
    if (!take_integer(PyTuple_GetItem(tuple, 0), 0, KINDS - 1, &number)) return 0;
    call->kind = (int)number;
    const char *arguments = ARGUMENTS[call->kind];
    if (PyTuple_Size(tuple) - 1 != (Py_ssize_t)strlen(arguments))
        return wrong(PyExc_TypeError, "a file call has too few arguments, or too many");
    for (int at = 0, fds = 0, names = 0; arguments[at]; at++) {
        PyObject *value = PyTuple_GetItem(tuple, at + 1);
        switch (arguments[at]) {
        case 'f':
            if (!take_integer(value, INT_MIN, INT_MAX, &number)) return 0;
            if (number < 0 && !take_number(call, chain, ~number, OPEN_UNNAMED, OPEN_TO_LOOK)) return 0;
            call->fds[fds++] = (int)number; break;
        case 's':
            if (!take_integer(value, 0, INT_MAX, &number) || !take_number(call, chain, number, STATUS, STATUS_OF)) return 0;
            call->asked = (int)number; break;
        case 'i': if (!take_integer(value, 0, LLONG_MAX, &call->number)) return 0; break;
        case 'n': if (!take_name(value, call, names++)) return 0; break;
        case 'b': if (PyObject_GetBuffer(value, &call->bytes, PyBUF_SIMPLE)) return 0;
        }
    }
    return 1;
}

static int take_chain(PyObject *tuple, Chain *chain) {
    if (!PyTuple_Check(tuple)) return wrong(PyExc_TypeError, "a chain of file calls is a tuple");
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count && !(chain->calls = PyMem_Calloc(count, sizeof(Call)))) return PyErr_NoMemory(), 0;
    int is_right = 1;
    while (is_right && chain->count < count) { /* What a wrong call has taken so far is given back too. */
        Call *call = &chain->calls[chain->count++];
        call->opened = -1;
        is_right = take_call(PyTuple_GetItem(tuple, call - chain->calls), call, chain);
    }
    return is_right;
}

static PyObject *result_of(const Call *call) {
    if (call->kind <= OPEN_TO_LOOK) return PyLong_FromLong(call->opened);
    if (call->found) return PyBytes_FromStringAndSize(call->found, call->length);
    if (call->kind != STATUS && call->kind != STATUS_OF) return Py_NewRef(Py_None);
    const long long *each = call->status;
    return Py_BuildValue("(LKKLLLKK)", each[0], each[1], each[2], each[3], each[4], each[5], each[6], each[7]);
}

/* An item into a list; without the item or the list there is none any more. */
static void put(PyObject **list, Py_ssize_t at, PyObject *item) {
    if (!item || PyList_SetItem(*list, at, item)) Py_CLEAR(*list);
}

static PyObject *outcome_of(const Chain *chain) {
    PyObject *results = PyList_New(chain->done);
    for (Py_ssize_t at = 0; results && at < chain->done; at++) put(&results, at, result_of(&chain->calls[at]));
    return results ? Py_BuildValue("(Ni)", results, chain->error) : NULL;
}

static void give_back(Chain *chain, int are_to_be_closed) {
    for (Call *call = chain->calls; call < chain->calls + chain->count; call++) {
        if (are_to_be_closed && call->opened >= 0) close(call->opened);
        if (call->bytes.obj) PyBuffer_Release(&call->bytes);
        Py_XDECREF(call->encoded[0]), Py_XDECREF(call->encoded[1]);
        free(call->found);
    }
    PyMem_Free(chain->calls);
}

static PyObject *run(PyObject *Py_UNUSED(module), PyObject *argument) {
    PyObject *outcomes = NULL, *given = PySequence_Tuple(argument); /* Ours, whatever becomes of a list meanwhile. */
    Py_ssize_t count = given ? PyTuple_Size(given) : 0, at = 0;
    Chain *chains = given ? PyMem_Calloc(count ? count : 1, sizeof(Chain)) : NULL;
    if (given && !chains) PyErr_NoMemory();
    while (chains && at < count && take_chain(PyTuple_GetItem(given, at), &chains[at])) at++;
    if (chains && at == count && (outcomes = PyList_New(count))) {
        Py_BEGIN_ALLOW_THREADS
        perform_all(chains, count);
        Py_END_ALLOW_THREADS
        for (at = 0; outcomes && at < count; at++) put(&outcomes, at, outcome_of(&chains[at]));
    }
    for (at = 0; chains && at < count; at++) give_back(&chains[at], !outcomes);
    PyMem_Free(chains), Py_XDECREF(given);
    return outcomes;
}

static int fill(PyObject *module) { return PyModule_AddStringConstant(module, "CALLS", CALLS(LISTED)); }

static PyMethodDef methods[] = {{"run", run, METH_O, "Run chains of file calls; see mq/disk/calls.py."}, {NULL}};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill}, {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, methods, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
