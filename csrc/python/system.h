/* system.h: what the modules ask of the operating system, on POSIX and on Windows. */
#ifndef ND_PYTHON_SYSTEM_H
#define ND_PYTHON_SYSTEM_H

long nd_process_id(void);

/* Nanoseconds from some fixed time on, which never go back. */
long long nd_now_ns(void);

/* Sleeps for so many nanoseconds, less than a second. Windows counts in milliseconds: for less than one the thread is put off once. */
void nd_nap(long ns);

int nd_processor_count(void); /* that are switched on; at least 1 */

#endif
