/* locks.c: the module neardup_db._turns: locks that come back whatever is raised between any two steps of Python.
 *
 * Python handles a signal between two of its instructions, so also between taking a lock and noting that it was taken. Here both
 * are one step: what is taken is an object, a Loan, and a Loan that nobody has any more has ended. Any thread may end one: a
 * traceback that holds it may be let go elsewhere. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define SLICE_US 50000.0 /* for which a lock is waited for before what is left of the timeout is looked at */

typedef struct state {
    PyTypeObject *loan_type;
} state;

typedef struct turn {
    PyObject_HEAD
    PyThread_type_lock lock;
    unsigned long owner; /* thread; only where depth > 0 */
    Py_ssize_t depth;    /* loans that have not ended */
} turn;

typedef struct loan {
    PyObject_HEAD
    turn *of; /* NULL: ended */
} loan;

static void free_object(PyObject *self)
{
    PyTypeObject *const type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- Loan ------------------------------------------------------------------------------------------------------------ */

/* Runs no Python code, and cannot fail. */
static void end_loan(loan *self)
{
    turn *const of = self->of;
    self->of = NULL;
    if (of == NULL)
        return;
    if (--of->depth == 0)
        PyThread_release_lock(of->lock);
    Py_DECREF(of);
}

static PyObject *loan_end(PyObject *self, PyObject *unused)
{
    (void)unused;
    end_loan((loan *)self);
    return Py_NewRef(Py_None);
}

static PyObject *loan_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    Py_INCREF(self);
    return self;
}

static void loan_dealloc(PyObject *self)
{
    end_loan((loan *)self);
    free_object(self);
}

static PyMethodDef loan_methods[] = {
    {"end", loan_end, METH_NOARGS, PyDoc_STR("end()\n--\n\nGive it back; a second time does nothing.")},
    {"__enter__", loan_enter, METH_NOARGS, NULL},
    {"__exit__", loan_end, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loan_slots[] = {
    {Py_tp_doc,
        (void *)PyDoc_STR("A turn that was taken. It ends with end(), with its `with` block, or when nobody has it any more.")},
    {Py_tp_dealloc, (void *)loan_dealloc},
    {Py_tp_methods, loan_methods},
    {0, NULL},
};

static PyType_Spec loan_spec = {"neardup_db._turns.Loan", sizeof(loan), 0, Py_TPFLAGS_DEFAULT, loan_slots};

/* ---- Turn ------------------------------------------------------------------------------------------------------------ */

static PyObject *turn_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    if (!PyArg_ParseTuple(args, ":Turn"))
        return NULL;
    turn *const self = PyObject_New(turn, type);
    if (self == NULL)
        return NULL;
    self->depth = 0;
    self->owner = 0;
    self->lock = PyThread_allocate_lock();
    if (self->lock == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void turn_dealloc(PyObject *self)
{
    turn *const this = (turn *)self;
    if (this->lock != NULL)
        PyThread_free_lock(this->lock); /* no loan is left: each has a reference */
    free_object(self);
}

static int is_mine(const turn *self)
{
    return self->depth > 0 && self->owner == PyThread_get_thread_ident();
}

/* 1: the lock was acquired; 0: another thread kept it for as long; -1 with an exception, and not acquired. */
static int acquire(turn *self, double timeout_s)
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

static PyObject *turn_take(PyObject *self, PyObject *timeout)
{
    turn *const this = (turn *)self;
    const double timeout_s = PyFloat_AsDouble(timeout);
    if (timeout_s == -1.0 && PyErr_Occurred())
        return NULL;
    PyObject *const module = PyType_GetModule(Py_TYPE(self));
    if (module == NULL)
        return NULL;
    const state *const held = PyModule_GetState(module);
    loan *const taken = PyObject_New(loan, held->loan_type); /* first: then nothing can fail once the lock is acquired */
    if (taken == NULL)
        return NULL;
    taken->of = NULL;
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

static PyObject *turn_mine(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_mine((turn *)self));
}

static PyObject *turn_taken(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((turn *)self)->depth > 0);
}

static PyMethodDef turn_methods[] = {
    {"take", turn_take, METH_O,
        PyDoc_STR("take(timeout)\n--\n\nA Loan, or None where another thread kept it for `timeout` seconds. The thread that has "
                  "it may take it again.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef turn_properties[] = {
    {"mine", turn_mine, NULL, "Whether this thread has it.", NULL},
    {"taken", turn_taken, NULL, "Whether some thread has it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("Turn()\n--\n\nA lock of one thread at a time.")},
    {Py_tp_new, (void *)turn_new},
    {Py_tp_dealloc, (void *)turn_dealloc},
    {Py_tp_methods, turn_methods},
    {Py_tp_getset, turn_properties},
    {0, NULL},
};

static PyType_Spec turn_spec = {"neardup_db._turns.Turn", sizeof(turn), 0, Py_TPFLAGS_DEFAULT, turn_slots};

/* ---- the module ------------------------------------------------------------------------------------------------------ */

static PyObject *new_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyObject_SetAttrString(module, name, type) != 0)
        Py_CLEAR(type);
    return type;
}

static int execute(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    PyObject *const turn_type = new_type(module, &turn_spec, "Turn");
    Py_XDECREF(turn_type); /* the module has it */
    held->loan_type = (PyTypeObject *)new_type(module, &loan_spec, "Loan");
    return turn_type == NULL || held->loan_type == NULL ? -1 : 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const state *const held = PyModule_GetState(module);
    Py_VISIT(held->loan_type);
    return 0;
}

static int clear(PyObject *module)
{
    state *const held = PyModule_GetState(module);
    Py_CLEAR(held->loan_type);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)execute},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_turns",
    .m_doc = "Locks that come back whatever is raised.",
    .m_size = sizeof(state),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__turns(void);

PyMODINIT_FUNC PyInit__turns(void)
{
    return PyModuleDef_Init(&definition);
}
