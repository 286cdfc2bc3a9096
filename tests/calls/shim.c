/* Counts the calls with which a process uses files, threads and processes, and makes the n-th call of one kind fail.
   LD_PRELOAD puts these functions before those of the C library. Calls on files count if the file is below `folder`. Headers
   that declare the functions otherwise (with a variable number of parameters) are not included. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KINDS(X)                                                                                                                \
    X(open)                                                                                                                     \
    X(read)                                                                                                                     \
    X(write)                                                                                                                    \
    X(close)                                                                                                                    \
    X(stat) X(fsync) X(rename) X(mkdir) X(unlink) X(link) X(flock) X(truncate) X(opendir) X(mmap) X(thread) X(memfd) X(eventfd) \
        X(socketpair) X(pipe) X(fork)
#define KIND(name) K_##name,
#define NAME(name) #name,
enum { KINDS(KIND) N_KINDS };
/* The Python side reads the names. */
const char* const call_names[] = {KINDS(NAME) NULL};
/* How a call fails, as in trial.py. A process is killed before a call, or when a writing call has written half. */
enum { PLAIN, DONE, HALF, SHORT, KILL };

/* Memory that the parent process reads, also after this process was killed. */
static volatile struct {
    int failed, counts[N_KINDS];
}* counters;
static struct {
    int kind, nth, for_ever, error, how;
    pid_t pid;
    char folder[4096];
} plan;

void arm(void* memory, const char* folder, int kind, int nth, int for_ever, int error, int how) {
    plan.kind = kind, plan.nth = nth, plan.for_ever = for_ever, plan.error = error, plan.how = how, plan.pid = getpid();
    snprintf(plan.folder, sizeof plan.folder, "%s", folder);
    counters = memory;
}

static int below(const char* path) { return path && !strncmp(path, plan.folder, strlen(plan.folder)); }

static int is_open_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return below(path);
}

static int is_below(int folder, const char* path) { return path && *path == '/' ? below(path) : is_open_below(folder); }

static int fails(int kind) {
    if (getpid() != plan.pid) return 0; /* a fork of the process */
    int n = __atomic_add_fetch(&counters->counts[kind], 1, __ATOMIC_RELAXED);
    if (kind != plan.kind || (plan.for_ever ? n < plan.nth : n != plan.nth)) return 0;
    counters->failed = 1;
    if (plan.how == KILL && kind != K_write) kill(plan.pid, SIGKILL);
    return 1;
}

#define REAL(type, name, params) \
    static type(*real) params;   \
    if (!real) *(void**)&real = dlsym(RTLD_NEXT, #name)

#define CALL(kind, type, name, params, arguments, counted, result)              \
    type name params {                                                          \
        REAL(type, name, params);                                               \
        if (!counters || !(counted) || !fails(K_##kind)) return real arguments; \
        if (plan.how == DONE) (void)real arguments;                             \
        errno = plan.error;                                                     \
        return result;                                                          \
    }

#define TRANSFER(kind, name, params, all, part)                                   \
    ssize_t name params {                                                         \
        REAL(ssize_t, name, params);                                              \
        if (!counters || !is_open_below(fd) || !fails(K_##kind)) return real all; \
        if (plan.how == SHORT) return real part;                                  \
        if (plan.how != PLAIN) (void)real part;                                   \
        if (plan.how == KILL) kill(plan.pid, SIGKILL);                            \
        errno = plan.error;                                                       \
        return -1;                                                                \
    }
#define HALF_OF(n) (n > 1 ? n / 2 : n)

CALL(open, int, open, (const char* path, int flags, unsigned mode), (path, flags, mode), below(path), -1)
CALL(open, int, open64, (const char* path, int flags, unsigned mode), (path, flags, mode), below(path), -1)
CALL(open, int, openat, (int at, const char* path, int flags, unsigned mode), (at, path, flags, mode), is_below(at, path), -1)
CALL(open, int, openat64, (int at, const char* path, int flags, unsigned mode), (at, path, flags, mode), is_below(at, path), -1)
TRANSFER(read, read, (int fd, void* to, size_t n), (fd, to, n), (fd, to, HALF_OF(n)))
TRANSFER(read, pread64, (int fd, void* to, size_t n, off64_t at), (fd, to, n, at), (fd, to, HALF_OF(n), at))
TRANSFER(write, write, (int fd, const void* from, size_t n), (fd, from, n), (fd, from, HALF_OF(n)))
TRANSFER(write, pwrite64, (int fd, const void* from, size_t n, off64_t at), (fd, from, n, at), (fd, from, HALF_OF(n), at))
TRANSFER(write, sendfile64, (int fd, int from, off64_t* at, size_t n), (fd, from, at, n), (fd, from, at, HALF_OF(n)))
CALL(close, int, close, (int fd), (fd), is_open_below(fd), -1)
CALL(stat, int, stat64, (const char* path, void* to), (path, to), below(path), -1)
CALL(stat, int, lstat64, (const char* path, void* to), (path, to), below(path), -1)
CALL(stat, int, fstat64, (int fd, void* to), (fd, to), is_open_below(fd), -1)
CALL(stat, int, fstatat64, (int at, const char* path, void* to, int flags), (at, path, to, flags), is_below(at, path), -1)
CALL(fsync, int, fsync, (int fd), (fd), is_open_below(fd), -1)
CALL(rename, int, rename, (const char* from, const char* to), (from, to), below(from), -1)
CALL(mkdir, int, mkdir, (const char* path, unsigned mode), (path, mode), below(path), -1)
CALL(unlink, int, unlink, (const char* path), (path), below(path), -1)
CALL(unlink, int, rmdir, (const char* path), (path), below(path), -1)
CALL(unlink, int, unlinkat, (int at, const char* path, int flags), (at, path, flags), is_below(at, path), -1)
CALL(link, int, link, (const char* from, const char* to), (from, to), below(to), -1)
CALL(flock, int, flock, (int fd, int operation), (fd, operation), is_open_below(fd), -1)
CALL(truncate, int, ftruncate64, (int fd, off64_t n), (fd, n), is_open_below(fd), -1)
CALL(opendir, void*, opendir, (const char* path), (path), below(path), NULL)
CALL(opendir, void*, fdopendir, (int fd), (fd), is_open_below(fd), NULL)
/* Anonymous private memory is the allocator's. */
CALL(mmap, void*, mmap64, (void* to, size_t n, int protection, int flags, int fd, off64_t at), (to, n, protection, flags, fd, at),
     fd >= 0 || flags & 1, (void*)-1)
CALL(thread, int, pthread_create, (void* id, const void* options, void* (*run)(void*), void* argument),
     (id, options, run, argument), 1, plan.error)
CALL(memfd, int, memfd_create, (const char* name, unsigned flags), (name, flags), 1, -1)
CALL(eventfd, int, eventfd, (unsigned value, int flags), (value, flags), 1, -1)
CALL(socketpair, int, socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair), 1, -1)
CALL(pipe, int, pipe2, (int pair[2], int flags), (pair, flags), 1, -1)
CALL(fork, pid_t, fork, (void), (), 1, -1)
/* The child of vfork must not return from this function, the child of fork may. */
pid_t vfork(void) { return fork(); }
