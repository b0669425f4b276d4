"""What goes before the code of a process whose memory is measured; such processes see no module of the tests."""

from __future__ import annotations

PEAK = '''
def peak():
    """The most memory that this process ever had, in bytes. `ru_maxrss` of Linux is at least what the parent had at the fork."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS

'''
