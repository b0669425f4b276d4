/* stdio.h: of C's library, what the code uses: for a compiler whose own headers are not here. */
#include <stdarg.h>
#include <stddef.h>

int vsnprintf(char *, size_t, const char *, va_list);
