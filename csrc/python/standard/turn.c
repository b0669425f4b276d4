/* turn.c: the turn to use a connection. */
#include "python/standard/objects.h"
#include "python/system.h"

#define NAP_NS 20000        /* between two looks at a mutex that another thread has, at first, */
#define NAP_MOST_NS 2000000 /* and at last */

int nd_require_open(nd_handle *self)
{
    PyObject *looked = NULL;
    if (nd_process_id() == self->process_id) {
        const int was_enabled = PyGC_Disable();
        looked = PyObject_CallNoArgs(self->look);
        if (was_enabled)
            PyGC_Enable();
    }
    if (looked == NULL) {
        PyErr_SetString(nd_state_of((PyObject *)self)->closed_error,
            "the connection that was given is closed: open it, and the index, again");
        return 0;
    }
    Py_DECREF(looked);
    return 1;
}

static int require_thread(const nd_handle *self, const nd_state *held)
{
    if (self->thread == 0 || self->thread == PyThread_get_thread_ident())
        return 1;
    PyErr_SetString(held->threading_error,
        "the connection that was given belongs to the thread that opened it: use the index there, or "
        "open the connection with check_same_thread=False");
    return 0;
}

int nd_enter(nd_handle *self)
{
    const nd_state *const held = nd_state_of((PyObject *)self);
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    const long long began = nd_now_ns();
    long nap_ns = NAP_NS;
    if (!require_thread(self, held))
        return 0;
    while (nd_require_open(self)) {
        if (sqlite3_mutex_try(sqlite3_db_mutex(self->base->db)) == SQLITE_OK)
            return 1;
        if ((double)(nd_now_ns() - began) / 1e9 > self->timeout_s) {
            PyErr_SetString(held->busy_error, "another thread is using the connection that was given");
            return 0;
        }
        Py_BEGIN_ALLOW_THREADS
        nd_nap(nap_ns);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() != 0)
            return 0;
        nap_ns = nap_ns > NAP_MOST_NS / 2 ? NAP_MOST_NS : 2 * nap_ns;
    }
    return 0;
}

void nd_leave(nd_handle *self)
{
    const sqlite3_api_routines *const sqlite3_api = self->base->api;
    sqlite3_mutex_leave(sqlite3_db_mutex(self->base->db));
}
