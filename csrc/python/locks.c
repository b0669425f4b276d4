/* locks.c: locks that come back whatever is raised between any two steps of Python.
 *
 * Python handles a signal between two of its instructions, so also between taking a lock and noting that it was taken. Here both
 * are one step: what is taken is an object, a LockGuard, and a LockGuard that nobody has any more has ended. Any thread may end one: a
 * traceback that holds it may be let go elsewhere. */
#include "python/module.h"

#define SLICE_US 50000.0 /* for which a lock is waited for before what is left of the timeout is looked at */

typedef struct rlock {
    PyObject_HEAD
    PyThread_type_lock lock;
    unsigned long owner; /* thread; only where depth > 0 */
    Py_ssize_t depth;    /* guards that have not ended */
} rlock;

typedef struct guard {
    PyObject_HEAD
    rlock *of; /* NULL: ended */
} guard;

/* ---- LockGuard ------------------------------------------------------------------------------------------------------------ */

/* Runs no Python code, and cannot fail. */
static void end_guard(guard *self)
{
    rlock *const of = self->of;
    self->of = NULL;
    if (of == NULL)
        return;
    if (--of->depth == 0)
        PyThread_release_lock(of->lock);
    Py_DECREF(of);
}

static PyObject *guard_end(PyObject *self, PyObject *unused)
{
    (void)unused;
    end_guard((guard *)self);
    return Py_NewRef(Py_None);
}

static PyObject *guard_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static void guard_dealloc(PyObject *self)
{
    end_guard((guard *)self);
    nd_free_object(self);
}

static PyMethodDef guard_methods[] = {
    {"end", guard_end, METH_NOARGS, PyDoc_STR("end()\n--\n\nGive it back; a second time does nothing.")},
    {"__enter__", guard_enter, METH_NOARGS, NULL},
    {"__exit__", guard_end, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot guard_slots[] = {
    {Py_tp_doc,
        (void *)PyDoc_STR("A lock that was taken. It ends with end(), with its `with` block, or when nobody has it any more.")},
    {Py_tp_dealloc, (void *)guard_dealloc},
    {Py_tp_methods, guard_methods},
    {0, NULL},
};

PyType_Spec nd_guard_spec = {"neardup_db._python.LockGuard", sizeof(guard), 0, Py_TPFLAGS_DEFAULT, guard_slots};

/* ---- ReentrantLock ------------------------------------------------------------------------------------------------------------ */

static PyObject *rlock_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    if (!PyArg_ParseTuple(args, ":ReentrantLock"))
        return NULL;
    rlock *const self = (rlock *)nd_allocate(type);
    if (self == NULL)
        return NULL;
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void rlock_dealloc(PyObject *self)
{
    rlock *const this = (rlock *)self;
    if (this->lock != NULL)
        PyThread_free_lock(this->lock); /* no guard is left: each has a reference */
    nd_free_object(self);
}

static int is_mine(const rlock *self)
{
    return self->depth > 0 && self->owner == PyThread_get_thread_ident();
}

/* 1: the lock was acquired; 0: another thread kept it for as long; -1 with an exception, and not acquired. */
static int acquire(rlock *self, double timeout_s)
{
    double left_us = timeout_s * 1e6;
    if (PyThread_acquire_lock(self->lock, NOWAIT_LOCK))
        return 1;
    while (left_us > 0) {
        const double slice = left_us < SLICE_US ? left_us : SLICE_US;
        PyLockStatus status;
        Py_BEGIN_ALLOW_THREADS
        status = PyThread_acquire_lock_timed(self->lock, (PY_TIMEOUT_T)(slice + 1), 1);
        Py_END_ALLOW_THREADS
        if (status == PY_LOCK_ACQUIRED)
            return 1;
        if (status == PY_LOCK_INTR && Py_MakePendingCalls() < 0)
            return -1;
        if (status == PY_LOCK_FAILURE)
            left_us -= slice;
    }
    return 0;
}

static PyObject *rlock_take(PyObject *self, PyObject *timeout)
{
    rlock *const this = (rlock *)self;
    const double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1.0 && PyErr_Occurred())
        return NULL;
    guard *const taken = (guard *)nd_allocate(
        nd_state_of(self)->guard_type); /* first: then nothing can fail once it is acquired */
    if (taken == NULL)
        return NULL;
    const int got = is_mine(this) ? 1 : acquire(this, timeout_s);
    if (got <= 0) {
        Py_DECREF(taken);
        if (got < 0)
            return NULL;
        return Py_NewRef(Py_None);
    }
    this->owner = PyThread_get_thread_ident();
    this->depth++;
    Py_INCREF(self);
    taken->of = this;
    return (PyObject *)taken;
}

static PyObject *rlock_mine(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_mine((rlock *)self));
}

static PyObject *rlock_taken(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((rlock *)self)->depth > 0);
}

static PyMethodDef rlock_methods[] = {
    {"take", rlock_take, METH_O,
        PyDoc_STR(
            "take(timeout)\n--\n\nA LockGuard, or None where another thread kept it for `timeout` seconds. The thread that has "
            "it may take it again.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef rlock_properties[] = {
    {"mine", rlock_mine, NULL, "Whether this thread has it.", NULL},
    {"taken", rlock_taken, NULL, "Whether some thread has it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot rlock_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("ReentrantLock()\n--\n\nA lock of one thread at a time.")},
    {Py_tp_new, (void *)rlock_new},
    {Py_tp_dealloc, (void *)rlock_dealloc},
    {Py_tp_methods, rlock_methods},
    {Py_tp_getset, rlock_properties},
    {0, NULL},
};

PyType_Spec nd_rlock_spec = {"neardup_db._python.ReentrantLock", sizeof(rlock), 0, Py_TPFLAGS_DEFAULT, rlock_slots};
