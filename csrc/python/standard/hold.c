/* hold.c: no COMMIT until a call has ended. */
#include "python/standard/objects.h"

/* Runs no Python code, and cannot fail: an interrupt leaves none behind. */
static void end_hold(nd_hold *self)
{
    nd_base *const base = self->base;
    self->base = NULL;
    if (base == NULL)
        return;
    (void)atomic_fetch_sub(&base->vetoes, 1);
    nd_base_release(base);
}

static void hold_dealloc(PyObject *self)
{
    end_hold((nd_hold *)self);
    nd_free_object(self);
}

static PyType_Slot hold_slots[] = {
    {Py_tp_doc, (void *)PyDoc_STR("A COMMIT rolls back until nobody has this any more.")},
    {Py_tp_dealloc, (void *)hold_dealloc},
    {0, NULL},
};

PyType_Spec nd_hold_spec = {"neardup_db._standard.Hold", sizeof(nd_hold), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, hold_slots};
